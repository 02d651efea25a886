// The CPU device's stand-in for CUDA's header of this name: a group copies together.
#pragma once

#include "../cooperative_groups.h"

#include <cstring>

namespace cooperative_groups {

// The threads of the group share the bytes out among them. Who reads the target before wait() sees
// what the others have not copied yet.
template <class Group>
__device__ void memcpy_async(const Group& group, void* to, const void* from, size_t bytes)
{
    constexpr size_t piece = 16;
    for (size_t i = group.thread_rank() * piece; i < bytes; i += group.size() * piece)
        std::memcpy(static_cast<char*>(to) + i, static_cast<const char*>(from) + i,
                    bytes - i < piece ? bytes - i : piece);
}

template <class Group>
__device__ void wait(const Group& group, unsigned line = __builtin_LINE())
{
    group.sync(line);
}

template <unsigned batches, class Group>
__device__ void wait_prior(const Group& group, unsigned line = __builtin_LINE())
{
    group.sync(line);
}

} // namespace cooperative_groups
