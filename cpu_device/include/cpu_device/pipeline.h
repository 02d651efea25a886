// Asynchronous copies of a thread: done when it waits for them, no earlier. So who reads the
// target without having waited reads what was there before.
#pragma once

#include "words.h"

#include <cstddef>

namespace cpu_device {

__device__ void copy_later(void* to, const void* from, size_t bytes, size_t zeros);
__device__ void commit_copies();
__device__ void finish_copies(size_t batches_left);

} // namespace cpu_device

// The last `zeros` bytes become 0 and are not read.
__device__ inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                               size_t zeros = 0)
{
    cpu_device::copy_later(to, from, bytes, zeros);
}

__device__ inline void __pipeline_commit() { cpu_device::commit_copies(); }

// Waits for all that was committed but the last `batches` commits.
__device__ inline void __pipeline_wait_prior(size_t batches) { cpu_device::finish_copies(batches); }
