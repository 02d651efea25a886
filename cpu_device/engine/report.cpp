#include "report.h"

#include "print.h"

#include "cpu_device/language.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <memory>
#include <unistd.h>

namespace cpu_device {
namespace {

void say_list(const char* format, va_list arguments)
{
    char text[1024] = "cpu device: ";
    const size_t prefix = std::strlen(text);
    std::vsnprintf(text + prefix, sizeof text - prefix - 1, format, arguments);
    const size_t length = std::strlen(text);
    text[length] = '\n';
    if (write(STDERR_FILENO, text, length + 1) < 0)
        return;                            // nobody to tell
}

const char* plural(unsigned count) { return count == 1 ? "" : "s"; }

}  // namespace

void say(const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_list(format, arguments);
    va_end(arguments);
}

void die(const char* format, ...)
{
    rescue_prints();
    va_list arguments;
    va_start(arguments, format);
    say_list(format, arguments);
    va_end(arguments);
    _exit(EXIT_FAILURE);
}

std::string demangled(const char* name)
{
    const std::unique_ptr<char, void (*)(void*)> full(
        abi::__cxa_demangle(name, nullptr, nullptr, nullptr), std::free);
    return full ? full.get() : name;
}

Place where_block(const Worker& w)
{
    Place place;
    std::snprintf(place.text, sizeof place.text, "%s, block (%u,%u,%u)", w.launch->name,
                  blockIdx.x, blockIdx.y, blockIdx.z);
    return place;
}

Place where(const Worker& w)
{
    Place place = where_block(w);
    const size_t length = std::strlen(place.text);
    std::snprintf(place.text + length, sizeof place.text - length, ", thread (%u,%u,%u)",
                  threadIdx.x, threadIdx.y, threadIdx.z);
    return place;
}

bool claim_error(Worker& w, cudaError_t error)
{
    int none = cudaSuccess;
    return __atomic_compare_exchange_n(&w.run->error, &none, error, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

void fail_kernel(cudaError_t error, const char* format, ...)
{
    if (claim_error(*worker, error)) {
        char text[512];
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        say("%s: %s", where(*worker).text, text);
    }
    leave_kernel(error);
}

void end_kernel(cudaError_t error, const char* what)
{
    fail_kernel(error, "%s", what);
}

void report_early_return(const Worker& w)
{
    say("%s: %u of %u threads passed the barrier on line %u; the other %u returned without it",
        where_block(w).text, w.arrived, w.threads, w.barrier_line, w.threads - w.arrived);
}

void report_two_barriers(const Worker& w, unsigned line)
{
    say("%s: threads of one block meet at different barriers, on line %u and on line %u",
        where_block(w).text, w.barrier_line, line);
}

cudaError_t report_stuck(Worker& w)
{
    constexpr cudaError_t error = cudaErrorLaunchTimeout;
    if (!claim_error(w, error))
        return error;
    say("%s is stuck: %u of its %u threads wait for others that will not come",
        where_block(w).text, w.live, w.threads);
    for (unsigned first = 0; first < w.threads; ++first) {
        const Thread example = w.thread[first];
        if (!example.waits_at)
            continue;
        unsigned count = 0;
        for (unsigned t = first; t < w.threads; ++t) {
            Thread& thread = w.thread[t];
            if (thread.waits_at == example.waits_at && thread.line == example.line
                && thread.mask == example.mask) {
                thread.waits_at = nullptr;
                ++count;
            }
        }
        char mask[32] = "";
        if (example.mask)
            std::snprintf(mask, sizeof mask, " with mask 0x%08x", example.mask);
        const uint3 index = w.index[first];
        say("    %u thread%s at %s on line %u%s, the first of them (%u,%u,%u)", count,
            plural(count), example.waits_at, example.line, mask, index.x, index.y, index.z);
    }
    const unsigned returned = w.threads - w.live;
    if (returned)
        say("    %u thread%s returned", returned, returned == 1 ? " has" : "s have");
    return error;
}

}  // namespace cpu_device
