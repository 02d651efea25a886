// A fiber is begun once by makecontext. From then on _setjmp and _longjmp switch: unlike
// swapcontext they make no system call, and unlike assembly they are there on every processor.

#undef _FORTIFY_SOURCE                     // its longjmp refuses to go to another stack

#include "fibers.h"
#include "sanitizers.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(CPU_DEVICE_ASAN) || defined(CPU_DEVICE_TSAN)
#include <dlfcn.h>
#endif

namespace cpu_device {
namespace {

size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }

// The sanitizers put a _longjmp of their own before the C library's. It takes the jump for the
// end of all functions on the stack, so we go past it.
#if defined(CPU_DEVICE_ASAN) || defined(CPU_DEVICE_TSAN)
using Jump = void (*)(std::jmp_buf, int);
const Jump jump = Jump(dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "_longjmp"));
#else
#define jump _longjmp
#endif

#ifdef CPU_DEVICE_ASAN
thread_local Fiber* coming_from;

void start_switch(Fiber& from, const Fiber& to, bool for_good)
{
    coming_from = &from;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &from.asan_state, to.stack, to.size);
}

// Also learns where the stack of the fiber lies that we come from; nobody else tells it for the
// stack that a thread of the operating system began on.
void finish_switch(Fiber& self)
{
    const void* low;
    size_t size;
    __sanitizer_finish_switch_fiber(self.asan_state, &low, &size);
    self.asan_state = nullptr;
    if (!coming_from->stack) {
        coming_from->stack = const_cast<char*>(static_cast<const char*>(low));
        coming_from->size = size;
    }
}
#else
void start_switch(Fiber&, const Fiber& to, bool)
{
    // 1: the switch orders nothing between the two.
#ifdef CPU_DEVICE_TSAN
    __tsan_switch_to_fiber(to.tsan_fiber, 1);
#endif
    (void)to;
}
void finish_switch(Fiber&) {}
#endif

// What makecontext would pass on as integers only.
thread_local Fiber* beginner;
thread_local std::jmp_buf maker;

void begin()
{
    Fiber& self = *beginner;
    if (_setjmp(self.place) == 0)
        jump(maker, 1);
    finish_switch(self);
    for (;;)
        run_fiber();
}

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
    restart(fiber);
    return true;
}

void restart(Fiber& fiber)
{
    unpoison(fiber.stack, fiber.size);
    fiber.asan_state = nullptr;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = fiber.stack;
    context.uc_stack.ss_size = fiber.size;
    context.uc_link = nullptr;
    makecontext(&context, begin, 0);
    beginner = &fiber;
    if (_setjmp(maker) == 0)
        setcontext(&context);
}

void switch_fibers(Fiber& from, Fiber& to)
{
    if (_setjmp(from.place) == 0) {
        start_switch(from, to, false);
        jump(to.place, 1);
    }
    finish_switch(from);
}

void leave_for(Fiber& to)
{
    static thread_local Fiber nobody;
    start_switch(nobody, to, true);
    jump(to.place, 1);
    __builtin_unreachable();
}

bool below_stack(const Fiber& fiber, const void* address)
{
    const char* const at = static_cast<const char*>(address);
    return fiber.stack && at < fiber.stack && fiber.stack - at <= long(page_bytes());
}

}  // namespace cpu_device
