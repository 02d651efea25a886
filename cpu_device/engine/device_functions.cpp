// assert in kernels and on the host, other ways in which a kernel ends, and its clock.

#include "print.h"
#include "report.h"
#include "worker.h"

#include "cpu_device/device_functions.h"
#include "cpu_device/language.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

// What the macro of <cassert> calls. The text is the one that a GPU's driver prints.
extern "C" void __assert_fail(const char* assertion, const char* file, unsigned line,
                              const char* function) noexcept
{
    using namespace cpu_device;
    if (!in_kernel()) {
        rescue_prints();
        std::fprintf(stderr, "%s: %s:%u: %s: Assertion `%s' failed.\n",
                     program_invocation_short_name, file, line, function, assertion);
        std::abort();
    }
    if (claim_error(*worker, cudaErrorAssert))
        std::fprintf(stderr,
                     "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
                     file, line, function, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
                     threadIdx.y, threadIdx.z, assertion);
    leave_kernel(cudaErrorAssert);
}

void __trap()
{
    using namespace cpu_device;
    if (!in_kernel()) {
        rescue_prints();
        std::abort();
    }
    fail_kernel(cudaErrorLaunchFailure, "calls __trap()");
}

void __brkpt()
{
    std::raise(SIGTRAP);
}

long long clock64()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}
