// The CPU device's stand-in for CUDA's header of this name: blocks, tiles of a warp, and the
// threads that happen to be together.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

namespace cpu_device_only {

__device__ inline unsigned rank_in_block()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

__device__ inline unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

__host__ __device__ inline unsigned lanes_below(unsigned mask, unsigned lane)
{
    return mask & ((1u << lane) - 1);
}

// The lane that has this rank in the group
__device__ inline unsigned lane_of_rank(unsigned mask, unsigned rank)
{
    for (; rank > 0; --rank)
        mask &= mask - 1;
    return mask ? unsigned(__builtin_ctz(mask)) : cpu_device::lane();
}

// Bits by lane become bits by rank.
__device__ inline unsigned by_rank(unsigned mask, unsigned bits)
{
    unsigned packed = 0;
    for (unsigned rank = 0; mask; mask &= mask - 1, ++rank)
        packed |= (bits >> __builtin_ctz(mask) & 1) << rank;
    return packed;
}

} // namespace cpu_device_only

class thread_block {
public:
    __device__ static void sync(unsigned line = __builtin_LINE())
    {
        cpu_device::block_barrier(false, "sync()", line);
    }
    __device__ static unsigned thread_rank() { return cpu_device_only::rank_in_block(); }
    __device__ static unsigned num_threads() { return cpu_device_only::threads_of_block(); }
    __device__ static unsigned size() { return num_threads(); }
    __device__ static dim3 group_index() { return blockIdx; }
    __device__ static dim3 thread_index() { return threadIdx; }
    __device__ static dim3 dim_threads() { return blockDim; }
    __device__ static dim3 group_dim() { return blockDim; }
};

__device__ inline thread_block this_thread_block() { return {}; }

// Lanes of one warp. What they do among themselves has their mask.
class warp_group {
public:
    __device__ void sync(unsigned line = __builtin_LINE()) const { __syncwarp(mask, line); }
    __device__ unsigned num_threads() const { return __popc(mask); }
    __device__ unsigned size() const { return num_threads(); }
    __device__ unsigned thread_rank() const
    {
        return __popc(cpu_device_only::lanes_below(mask, cpu_device::lane()));
    }
    __device__ int any(int predicate, unsigned line = __builtin_LINE()) const
    {
        return __any_sync(mask, predicate, line);
    }
    __device__ int all(int predicate, unsigned line = __builtin_LINE()) const
    {
        return __all_sync(mask, predicate, line);
    }
    __device__ unsigned ballot(int predicate, unsigned line = __builtin_LINE()) const
    {
        return cpu_device_only::by_rank(mask, __ballot_sync(mask, predicate, line));
    }
    template <class T>
    __device__ unsigned match_any(T value, unsigned line = __builtin_LINE()) const
    {
        return cpu_device_only::by_rank(mask, __match_any_sync(mask, value, line));
    }
    template <class T>
    __device__ unsigned match_all(T value, int& all_same, unsigned line = __builtin_LINE()) const
    {
        return cpu_device_only::by_rank(mask, __match_all_sync(mask, value, &all_same, line));
    }
    template <class T>
    __device__ T shfl(T value, unsigned rank, unsigned line = __builtin_LINE()) const
    {
        return from_rank(value, rank % size(), "shfl()", line);
    }
    template <class T>
    __device__ T shfl_up(T value, unsigned distance, unsigned line = __builtin_LINE()) const
    {
        const unsigned rank = thread_rank();
        return from_rank(value, distance <= rank ? rank - distance : rank, "shfl_up()", line);
    }
    template <class T>
    __device__ T shfl_down(T value, unsigned distance, unsigned line = __builtin_LINE()) const
    {
        const unsigned rank = thread_rank();
        return from_rank(value, distance < size() - rank ? rank + distance : rank, "shfl_down()",
                         line);
    }

    // Not CUDA's
    unsigned mask;

protected:
    __device__ explicit warp_group(unsigned mask_) : mask(mask_) {}

    template <class T>
    __device__ T from_rank(T value, unsigned rank, const char* name, unsigned line) const
    {
        return cpu_device::shuffle(mask, value, cpu_device_only::lane_of_rank(mask, rank), name,
                                   line);
    }
};

template <unsigned lanes, class Parent = void>
class thread_block_tile;

// `lanes` consecutive lanes, a power of two, of whatever group
template <unsigned lanes>
class thread_block_tile<lanes, void> : public warp_group {
public:
    static_assert(lanes && lanes <= 32 && (lanes & (lanes - 1)) == 0,
                  "on the CPU device a tile has 1, 2, 4, 8, 16 or 32 threads");

    __device__ static constexpr unsigned num_threads() { return lanes; }
    __device__ static constexpr unsigned size() { return lanes; }
    __device__ static unsigned thread_rank() { return cpu_device::lane() % lanes; }
    __device__ unsigned meta_group_rank() const
    {
        return cpu_device_only::rank_in_block() % whole / lanes;
    }
    __device__ unsigned meta_group_size() const { return (whole + lanes - 1) / lanes; }

    template <class T>
    __device__ T shfl_xor(T value, unsigned flip, unsigned line = __builtin_LINE()) const
    {
        return from_rank(value, (thread_rank() ^ flip) % lanes, "shfl_xor()", line);
    }

protected:
    __device__ explicit thread_block_tile(unsigned threads_of_group)
        : warp_group(mask_of_lane(cpu_device::lane())), whole(threads_of_group) {}

private:
    unsigned whole;                        // the threads of the group that this is a tile of

    __device__ static unsigned mask_of_lane(unsigned lane)
    {
        return ((lanes < 32 ? 1u << lanes % 32 : 0) - 1) << lane / lanes * lanes;
    }
};

// A tile that knows what it is a part of
template <unsigned lanes, class Parent>
class thread_block_tile : public thread_block_tile<lanes> {
public:
    __device__ thread_block_tile() : thread_block_tile<lanes>(threads_of_group()) {}

private:
    __device__ static unsigned threads_of_group()
    {
        if constexpr (std::is_same_v<Parent, thread_block>)
            return cpu_device_only::threads_of_block();
        else
            return Parent::num_threads();
    }
};

template <unsigned lanes>
__device__ thread_block_tile<lanes, thread_block> tiled_partition(const thread_block&)
{
    return {};
}

template <unsigned lanes, unsigned more, class Parent>
__device__ thread_block_tile<lanes, thread_block_tile<more, Parent>>
tiled_partition(const thread_block_tile<more, Parent>&)
{
    static_assert(lanes <= more, "a tile is no larger than what it is a part of");
    return {};
}

// Those that arrive here together
class coalesced_group : public warp_group {
public:
    __device__ explicit coalesced_group(unsigned mask) : warp_group(mask) {}
};

__device__ inline coalesced_group coalesced_threads(unsigned line = __builtin_LINE())
{
    return coalesced_group(__activemask(line));
}

template <class Group>
__device__ coalesced_group binary_partition(const Group& group, bool predicate,
                                            unsigned line = __builtin_LINE())
{
    const unsigned yes = __ballot_sync(group.mask, predicate, line);
    return coalesced_group(predicate ? yes : group.mask & ~yes);
}

template <class Group, class Label>
__device__ coalesced_group labeled_partition(const Group& group, Label label,
                                             unsigned line = __builtin_LINE())
{
    return coalesced_group(__match_any_sync(group.mask, label, line));
}

// A group whose kind is found out when the program runs
class thread_group {
public:
    __device__ thread_group(const thread_block&) : mask(0) {}
    __device__ thread_group(const warp_group& group) : mask(group.mask) {}

    __device__ void sync(unsigned line = __builtin_LINE()) const
    {
        if (mask)
            __syncwarp(mask, line);
        else
            thread_block::sync(line);
    }
    __device__ unsigned size() const
    {
        return mask ? unsigned(__popc(mask)) : cpu_device_only::threads_of_block();
    }
    __device__ unsigned num_threads() const { return size(); }
    __device__ unsigned thread_rank() const
    {
        return mask ? unsigned(__popc(cpu_device_only::lanes_below(mask, cpu_device::lane())))
                    : cpu_device_only::rank_in_block();
    }

    unsigned mask; // not CUDA's; 0: the block
};

__device__ inline thread_group tiled_partition(const thread_group& group, unsigned lanes)
{
    if (lanes == 0 || lanes > 32 || (lanes & (lanes - 1)) || lanes > group.size())
        cpu_device::end_kernel(cudaErrorLaunchFailure,
                               "asks for a tile that is larger than the group, or no power of two");
    const unsigned lane = cpu_device::lane();
    const unsigned tile = ((lanes < 32 ? 1u << lanes : 0) - 1) << lane / lanes * lanes;
    thread_group part = group;
    part.mask = group.mask ? group.mask & tile : tile;
    return part;
}

// All blocks. They cannot wait for each other here: they run one after another.
class grid_group {
public:
    __device__ static bool is_valid() { return false; }
    [[noreturn]] __device__ static void sync()
    {
        cpu_device::end_kernel(cudaErrorNotSupported, "calls grid.sync(), which needs a GPU");
    }
    __device__ static unsigned long long num_threads()
    {
        return num_blocks() * cpu_device_only::threads_of_block();
    }
    __device__ static unsigned long long size() { return num_threads(); }
    __device__ static unsigned long long thread_rank()
    {
        return block_rank() * cpu_device_only::threads_of_block() +
               cpu_device_only::rank_in_block();
    }
    __device__ static unsigned long long num_blocks()
    {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    __device__ static unsigned long long block_rank()
    {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    __device__ static dim3 block_index() { return blockIdx; }
    __device__ static dim3 dim_blocks() { return gridDim; }
    __device__ static dim3 group_dim() { return gridDim; }
};

__device__ inline grid_group this_grid() { return {}; }

template <class Anything = void>
__device__ int this_cluster()
{
    static_assert(!std::is_void_v<Anything>, "thread block clusters need a GPU");
    return 0;
}

template <class Group>
__device__ void sync(const Group& group, unsigned line = __builtin_LINE())
{
    group.sync(line);
}

template <class Group>
__device__ auto thread_rank(const Group& group)
{
    return group.thread_rank();
}

template <class Group>
__device__ auto group_size(const Group& group)
{
    return group.size();
}

} // namespace cooperative_groups
