// A switch saves where a fiber goes on and goes on where another was left. In the assembly of the
// two processors that most readers have, that is three words; the compiler is told that every
// register changes, and saves those that it needs. A barrier is little else than switches, and
// swapcontext, which serves for other processors, makes a system call for each.

#include "fibers.h"
#include "pages.h"
#include "sanitizers.h"

#include <sys/mman.h>

namespace cpu_device {
namespace {

#ifdef CPU_DEVICE_ASAN
thread_local Fiber* coming_from;

void start_switch(Fiber& from, const Fiber& to, bool for_good)
{
    coming_from = &from;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &from.asan_state, to.stack, to.size);
}

// Also learns where the stack of the fiber lies that we come from; nobody else tells it for the
// stack that a thread of the operating system began on.
void finish_switch(Fiber* self)
{
    const void* low;
    size_t size;
    __sanitizer_finish_switch_fiber(self ? self->asan_state : nullptr, &low, &size);
    if (!coming_from->stack) {
        coming_from->stack = const_cast<char*>(static_cast<const char*>(low));
        coming_from->size = size;
    }
}
#else
void start_switch(Fiber&, [[maybe_unused]] const Fiber& to, bool)
{
#ifdef CPU_DEVICE_TSAN
    __tsan_switch_to_fiber(to.tsan_fiber, 1);        // 1: this orders nothing between the two
#endif
}
void finish_switch(Fiber*) {}
#endif

[[noreturn]] void begin()
{
    finish_switch(nullptr);
    for (;;)
        run_fiber();
}

#if defined(__x86_64__)

void set_to_begin(Fiber& fiber)
{
    // The stack is as if begin had been called, from nowhere.
    void** const top = reinterpret_cast<void**>(fiber.stack + fiber.size) - 1;
    *top = nullptr;
    fiber.place[0] = reinterpret_cast<void*>(begin);
    fiber.place[1] = top;
    fiber.place[2] = nullptr;
}

__attribute__((noinline)) void swap(Fiber& from, Fiber& to)
{
    void **save = from.place, **load = to.place;
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rax, (%0)\n\t"
                     "movq %%rsp, 8(%0)\n\t"
                     "movq %%rbp, 16(%0)\n\t"
                     "movq 8(%1), %%rsp\n\t"
                     "movq 16(%1), %%rbp\n\t"
                     "jmpq *(%1)\n"
                     "1:"
                     : "+D"(save), "+S"(load)
                     :
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                       "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
                       "memory", "cc");
}

#elif defined(__aarch64__)

void set_to_begin(Fiber& fiber)
{
    fiber.place[0] = reinterpret_cast<void*>(begin);
    fiber.place[1] = fiber.stack + fiber.size;
    fiber.place[2] = nullptr;
}

__attribute__((noinline)) void swap(Fiber& from, Fiber& to)
{
    register void** save __asm__("x0") = from.place;
    register void** load __asm__("x1") = to.place;
    __asm__ volatile("adr x9, 1f\n\t"
                     "mov x10, sp\n\t"
                     "stp x9, x10, [%0]\n\t"
                     "str x29, [%0, #16]\n\t"
                     "ldp x9, x10, [%1]\n\t"
                     "ldr x29, [%1, #16]\n\t"
                     "mov sp, x10\n\t"
                     "mov x30, xzr\n\t"
                     "br x9\n"
                     "1:\n\t"
                     "hint #36"            // bti j: branches may end here
                     : "+r"(save), "+r"(load)
                     :
                     : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                       "x14", "x15", "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25",
                       "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
                       "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18",
                       "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
                       "v30", "v31", "memory", "cc");
}

#else

void set_to_begin(Fiber& fiber)
{
    getcontext(&fiber.place);
    fiber.place.uc_stack.ss_sp = fiber.stack;
    fiber.place.uc_stack.ss_size = fiber.size;
    fiber.place.uc_link = nullptr;
    makecontext(&fiber.place, begin, 0);
}

void swap(Fiber& from, Fiber& to) { swapcontext(&from.place, &to.place); }

#endif

}  // namespace

bool create(Fiber& fiber, unsigned number)
{
    const size_t page = page_bytes();
    void* const map = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return false;
    mprotect(map, page, PROT_NONE);

    // Were all stacks to begin at the same place of a page, their tops would share a few lines of
    // the cache and drive each other out of it.
    constexpr size_t line = 64, lines = 61;
    fiber.stack = static_cast<char*>(map) + page;
    fiber.size = stack_bytes - number % lines * line;
    set_to_begin(fiber);
    return true;
}

void switch_fibers(Fiber& from, Fiber& to)
{
    start_switch(from, to, false);
    swap(from, to);
    finish_switch(&from);
}

void leave_for(Fiber& to)
{
    static thread_local Fiber nobody;
    start_switch(nobody, to, true);
    swap(nobody, to);
    __builtin_unreachable();
}

bool below_stack(const Fiber& fiber, const void* address)
{
    const char* const at = static_cast<const char*>(address);
    return fiber.stack && at < fiber.stack && fiber.stack - at <= long(page_bytes());
}

}  // namespace cpu_device
