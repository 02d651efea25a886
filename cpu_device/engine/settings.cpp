#include "settings.h"

#include "sanitizers.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <unistd.h>

namespace cpu_device {
namespace {

// A stack with its guard page is two mappings, a worker has up to 1024 stacks, and Linux allows
// a process 65530 mappings.
constexpr unsigned max_workers = 24;

[[noreturn]] void refuse(const char* name, const char* value, const char* wanted)
{
    std::fprintf(stderr, "cpu device: %s=%s: expected %s\n", name, value, wanted);
    std::exit(2);
}

// Decimal digits alone; nothing set and nothing in it are the same.
unsigned long long number(const char* name, unsigned long long otherwise, unsigned long long least,
                          unsigned long long most, const char* wanted)
{
    const char* const text = std::getenv(name);
    if (!text || !*text)
        return otherwise;
    errno = 0;
    const unsigned long long value = std::strtoull(text, nullptr, 10);
    if (text[std::strspn(text, "0123456789")] || errno || value < least || value > most)
        refuse(name, text, wanted);
    return value;
}

bool is_on(const char* name)
{
    const char* const text = std::getenv(name);
    return text && *text && std::strcmp(text, "0") != 0;
}

// Two gigabytes, but no more than half of what there is: Linux promises memory that it does not
// have, and kills the program that uses it.
size_t memory_by_default()
{
    double there = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
    if (FILE* const limit = std::fopen("/sys/fs/cgroup/memory.max", "r")) {
        double container = 0;
        if (std::fscanf(limit, "%lf", &container) == 1)
            there = std::min(there, container);
        std::fclose(limit);
    }
    return size_t(std::min(double(size_t(2) << 30), there / 2));
}

// That this process may use
unsigned cores()
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? unsigned(CPU_COUNT(&set)) : 1;
}

Settings read()
{
    Settings s;
    s.memory = number("CPU_DEVICE_MEMORY", memory_by_default(), 1, 1ull << 46, "a number of bytes");
    s.timeout = number("CPU_DEVICE_TIMEOUT", s.timeout, 0, 1'000'000, "a number of seconds");
    s.workers = number("CPU_DEVICE_WORKERS", std::min(cores(), max_workers), 1, max_workers,
                       "a number from 1 to 24");
    if (asan || tsan)
        s.workers = 1;
    s.blocking = is_on("CUDA_LAUNCH_BLOCKING");
    s.quiet = is_on("CPU_DEVICE_QUIET");

    const char* const order = std::getenv("CPU_DEVICE_ORDER");
    constexpr char random[] = "random:";
    constexpr size_t prefix = sizeof random - 1;
    if (!order || !*order || !std::strcmp(order, "forward")) {
        s.order = Order::forward;
    } else if (!std::strcmp(order, "reverse")) {
        s.order = Order::reverse;
    } else if (!std::strncmp(order, random, prefix) && order[prefix]
               && !order[prefix + std::strspn(order + prefix, "0123456789")]) {
        s.order = Order::random;
        s.seed = std::strtoull(order + prefix, nullptr, 10);
    } else {
        refuse("CPU_DEVICE_ORDER", order, "forward, reverse or random:SEED");
    }
    return s;
}

}  // namespace

const Settings& settings()
{
    static const Settings once = read();
    return once;
}

}  // namespace cpu_device
