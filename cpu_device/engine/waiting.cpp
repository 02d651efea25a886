// Threads that wait for each other through memory, without a barrier: atomic functions that find
// nothing new, and fences.

#include "sanitizers.h"
#include "worker.h"

#include "cpu_device/atomics.h"
#include "cpu_device/synchronization.h"

namespace cpu_device {

void yield()
{
    Worker& w = *worker;
    if (!w.in_kernel || w.live < 2)
        return;
    w.yielded.push(w.current);
    wait();
}

void polled()
{
    constexpr unsigned patience = 16;
    if (++worker->polls % patience == 0)
        yield();
}

}  // namespace cpu_device

// To ThreadSanitizer a fence orders what came before it before all that comes after a later fence
// or atomic function. That is a little more than a GPU promises.
namespace {

[[maybe_unused]] char fences;

}  // namespace

void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    cpu_device::acquire(&fences);
    cpu_device::release(&fences);
}

#ifdef CPU_DEVICE_TSAN
void cpu_device::after_atomic()
{
    acquire(&fences);
}
#endif
