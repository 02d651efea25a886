// The engine's state, and how an API function enters it.
#pragma once

#include "memory.h"
#include "queue.h"
#include "worker.h"

#include <map>
#include <mutex>

namespace cpu_device {

// All behind one pointer, so that a kernel that writes past its shared memory has little of the
// engine within reach.
struct Engine {
    std::recursive_mutex lock;             // an argument's destructor may call us
    Memory memory;
    Queue queue;
    cudaError_t sticky = cudaSuccess;      // a kernel failed: nothing works from then on
    std::map<const void*, int> dynamic_shared_limits;

    Engine();
};

// Made at the first call.
Engine& engine();

// Each thread of the host has its own.
extern thread_local cudaError_t last_error;

extern thread_local bool in_host_function;

cudaError_t remember(cudaError_t error);

// The body of an API function: `body` gives its error.
template <class Body>
cudaError_t whatever_happened(Body body)
{
    if (in_kernel())
        fail_kernel(cudaErrorNotSupported,
                    "calls the CUDA runtime, which on the CPU device only the host can do");
    if (in_host_function)
        return remember(cudaErrorNotPermitted);
    Engine& e = engine();
    const std::lock_guard<std::recursive_mutex> guard(e.lock);
    return remember(body(e));
}

// The same for all that do nothing but fail once a kernel has failed
template <class Body>
cudaError_t api(Body body)
{
    return whatever_happened([&](Engine& e) { return e.sticky ? e.sticky : body(e); });
}

// Runs the blocks of a launch on all workers.
cudaError_t run(Launch& launch);

// Faults in kernels become errors of theirs. The second must be called on each thread that runs
// kernels.
void catch_faults();
void prepare_signal_stack();

}  // namespace cpu_device
