// Fibers: stacks to run on, and the switch from one to another.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace cpu_device {

// A fiber runs `run_fiber()` over and over. Between two rounds it is idle and has nothing of value
// on its stack.
struct Fiber {
#if defined(__x86_64__) || defined(__aarch64__)
    // Where it goes on when it is switched to: the instruction, the stack and frame pointers
    void* place[3];
#else
    ucontext_t place;
#endif
    char* stack = nullptr;                 // lowest address; below it lies a closed page
    size_t size = 0;
    void* asan_state = nullptr;
    void* tsan_fiber = nullptr;
};

void run_fiber();                          // the scheduler's

// A thread of a GPU may have 512 KiB of its own; host functions need some as well.
constexpr size_t stack_bytes = 640 << 10;

// False when there is no memory for a stack. `number` spreads the stacks over the cache.
bool create(Fiber& fiber, unsigned number);

// Returns when something switches back to `from`.
void switch_fibers(Fiber& from, Fiber& to);

// Gives up what the running fiber was doing.
[[noreturn]] void leave_for(Fiber& to);

// Is this address in the closed page below the stack?
bool below_stack(const Fiber& fiber, const void* address);

}  // namespace cpu_device
