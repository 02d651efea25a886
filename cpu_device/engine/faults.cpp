// Faults in kernels: reported with kernel, block, thread and buffer, and turned into the error
// that CUDA gives. Under a sanitizer the memory faults are its own to report.

#include "engine.h"
#include "host_memory.h"
#include "print.h"
#include "report.h"
#include "sanitizers.h"
#include "shared_memory.h"

#include "cpu_device/language.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <string>

namespace cpu_device {
namespace {

// "uses byte 4096 of the buffer of 400 bytes that argument 1 points to"
void describe(char* text, size_t size, const void* address)
{
    const Worker& w = *worker;
    const Launch& launch = *w.launch;
    if (below_stack(*w.fiber, address)) {
        std::snprintf(text, size, "uses more than %zu KiB of stack", stack_bytes >> 10);
        return;
    }
    if (const size_t past = past_shared_memory(w, address)) {
        std::snprintf(text, size, "uses byte %zu of its %zu bytes of dynamic shared memory",
                      launch.shared_bytes + past - 1, launch.shared_bytes);
        return;
    }
    const uintptr_t number = reinterpret_cast<uintptr_t>(address);
    if (number < 4096) {
        std::snprintf(text, size, "uses a null pointer (address %p)", address);
        return;
    }
    const Memory::Neighbour near = engine().memory.near(address);
    if (!near.buffer) {
        std::snprintf(text, size, "uses address %p, far from all device memory", address);
        return;
    }
    const char* const at = static_cast<const char*>(address);
    const char* const start = near.buffer->start;
    const size_t bytes = near.buffer->bytes;
    char which[64] = "";
    for (unsigned i = 0; i < launch.pointer_count; ++i)
        if (near.buffer->contains(launch.pointers[i].address))
            std::snprintf(which, sizeof which, " that argument %u points to",
                          launch.pointers[i].number);
    if (near.freed)
        std::snprintf(text, size, "uses the buffer of %zu bytes%s after it was freed", bytes,
                      which);
    else
        std::snprintf(text, size, "uses byte %td of the buffer of %zu bytes%s", at - start, bytes,
                      which);
}

constexpr char gives_to_free[] =
    "host code gives device memory at %p to free() or delete%s; it goes to cudaFree";

void explain_to_host(const void* address)
{
    rescue_prints();
    if (Memory::is_variable(address)) {
        Dl_info found;                     // no name for one that the linker keeps to itself
        const bool named = dladdr(address, &found) && found.dli_sname;
        const std::string name = named ? demangled(found.dli_sname) + ", " : "";
        say("host code touches %sa __device__ or __constant__ variable; cudaMemcpyToSymbol and "
            "cudaMemcpyFromSymbol copy it", name.c_str());
        return;
    }
    Memory& memory = engine().memory;
    if (memory.find(address)) {
        say("host code touches device memory at %p; cudaMemcpy copies it to the host", address);
        return;
    }
    const Memory::Neighbour near = memory.near(address);
    if (!near.buffer)
        return;
    const char* const start = near.buffer->start;
    const ptrdiff_t before = start - static_cast<const char*>(address);
    if (before > 0 && before <= 16)        // where they look for what they know of it
        say(gives_to_free, start, ", or touches what lies before it");
    else if (near.freed && near.buffer->contains(address))
        say("host code touches device memory at %p after it was freed", address);
}

void on_fault(int signal, siginfo_t* info, void*)
{
    if (!in_kernel()) {
        std::signal(signal, SIG_DFL);      // the instruction will fault again
        if (signal == SIGSEGV || signal == SIGBUS)
            explain_to_host(info->si_addr);
        return;
    }
    Worker& w = *worker;
    cudaError_t error = cudaErrorIllegalAddress;
    char what[256];
    if (signal == SIGFPE) {
        error = cudaErrorLaunchFailure;
        std::snprintf(what, sizeof what, "divides an integer by zero, which on a GPU gives a "
                                         "meaningless number and no error");
    } else if (signal == SIGILL) {
        error = cudaErrorIllegalInstruction;
        std::snprintf(what, sizeof what, "comes to an illegal instruction");
    } else if (signal == SIGSEGV && info->si_code == SI_KERNEL) {
        // The processor does not tell the address.
        error = cudaErrorMisalignedAddress;
        std::snprintf(what, sizeof what, "loads or stores a vector at an address that is not a "
                                         "multiple of its size, or is no address at all");
    } else {
        describe(what, sizeof what, info->si_addr);
    }
    if (claim_error(w, error))
        say("%s: %s", where(w).text, what);
    leave_kernel(error);
}

// A fault because a stack is full cannot be handled on that stack.
class SignalStack {
public:
    SignalStack()
    {
        stack_t stack{};
        stack.ss_sp = memory.get();
        stack.ss_size = bytes;
        sigaltstack(&stack, nullptr);
    }
    ~SignalStack()
    {
        stack_t none{};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
    }

private:
    static constexpr size_t bytes = 64 << 10;
    std::unique_ptr<char[]> memory{new char[bytes]};
};

#ifdef CPU_DEVICE_ASAN
void on_malloc(const volatile void* memory, size_t)
{
    if (in_kernel())
        note_allocation(const_cast<const void*>(memory));
}

// To AddressSanitizer a buffer is a block of the heap as good as any. A closed one is poisoned, as
// nothing else is that may be freed.
void on_free(const volatile void* memory)
{
    void* const start = const_cast<void*>(memory);
    note_free(start);
    if (in_kernel() || !start || !is_poisoned(start) || !engine().memory.starting_at(start))
        return;
    rescue_prints();
    say(gives_to_free, start, "");
    __sanitizer_print_stack_trace();
    std::abort();
}
#endif

void handle(int signal, void (*handler)(int, siginfo_t*, void*))
{
    // The handler does not return, so no signal may stay blocked behind it.
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signal, &action, nullptr);
}

}  // namespace

#ifdef CPU_DEVICE_ASAN
// UBSan calls this when it has something to say. Where its library is one of its own, as with g++,
// it has its own way to end a program.
extern "C" void __ubsan_on_report()
{
    rescue_prints();
}
#endif

void catch_faults()
{
#ifdef CPU_DEVICE_ASAN
    // Its report has the line, and we add who it was.
    __asan_set_error_report_callback([](const char*) {
        if (in_kernel())
            say("this was %s", where(*worker).text);
        if (const unsigned argument = argument_that_leads_to(__asan_get_report_address()))
            say("a pointer in argument %u leads to memory of the host; a kernel needs device "
                "memory", argument);
    });
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
#endif
#if defined(CPU_DEVICE_ASAN) || defined(CPU_DEVICE_TSAN)
    __sanitizer_set_death_callback(rescue_prints);
#endif
    if (asan || tsan)
        return;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
        handle(signal, on_fault);
}

void prepare_signal_stack()
{
    if (!asan && !tsan)
        static thread_local SignalStack stack;
}

}  // namespace cpu_device
