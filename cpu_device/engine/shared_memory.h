// Shared memory: what `extern __shared__` arrays lie in, and what all of it holds at first.
#pragma once

#include "worker.h"

namespace cpu_device {

void open_shared_memory(Worker& w);        // before each block
void close_shared_memory(Worker& w);       // after each block
void free_shared_memory(Worker& w);        // after the launch

// How far behind the end of the block's dynamic shared memory does this address lie? 0: it has
// nothing to do with it.
size_t past_shared_memory(const Worker& w, const void* address);

}  // namespace cpu_device
