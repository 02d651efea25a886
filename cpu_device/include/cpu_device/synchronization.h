// Barriers, and what lanes of a warp tell each other.
//
// Each function takes the line that it is called on, which the compiler fills in, for reports.
#pragma once

#include "engine.h"
#include "language.h"

#include <cstdint>
#include <cstring>

namespace cpu_device {

struct BarrierVotes {
    unsigned yes, all;
};
__device__ BarrierVotes block_barrier(bool vote, const char* name, unsigned line);

struct Met {
    const uint64_t* values; // by lane; valid until the lane meets others again
    unsigned arrived;       // the lanes that brought one
};
// Of these only barriers order memory: what a lane wrote before, the others see afterwards.
__device__ Met meet(unsigned mask, uint64_t value, const char* operation, unsigned line,
                    bool orders_memory = false);

__device__ unsigned lane();
__device__ unsigned active_mask(unsigned line);

// Lets the other threads of the block go first. A thread that waits in a loop for another has to.
__device__ void yield();

// To be called after each look at memory that found nothing new.
__device__ void polled();

template <class T>
__device__ uint64_t to_bits(T value)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "warp functions exchange at most 64 bits");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
__device__ T from_bits(uint64_t bits)
{
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace cpu_device

__device__ inline void __syncthreads(unsigned line = __builtin_LINE())
{
    cpu_device::block_barrier(false, "__syncthreads()", line);
}

__device__ inline int __syncthreads_count(int predicate, unsigned line = __builtin_LINE())
{
    return int(cpu_device::block_barrier(predicate, "__syncthreads_count()", line).yes);
}

__device__ inline int __syncthreads_or(int predicate, unsigned line = __builtin_LINE())
{
    return cpu_device::block_barrier(predicate, "__syncthreads_or()", line).yes != 0;
}

__device__ inline int __syncthreads_and(int predicate, unsigned line = __builtin_LINE())
{
    const cpu_device::BarrierVotes votes =
        cpu_device::block_barrier(predicate, "__syncthreads_and()", line);
    return votes.yes == votes.all;
}

__device__ inline void __syncwarp(unsigned mask = ~0u, unsigned line = __builtin_LINE())
{
    cpu_device::meet(mask, 0, "__syncwarp()", line, true);
}

__device__ void __threadfence();
__device__ inline void __threadfence_block() { __threadfence(); }
__device__ inline void __threadfence_system() { __threadfence(); }
__device__ inline void __nanosleep(unsigned) { cpu_device::yield(); }

// Shuffles: each lane reads the value of another. The lanes form groups of `width`, a power of
// two; a lane whose partner lies outside of its group gets its own value.

namespace cpu_device {

template <class T>
__device__ T shuffle(unsigned mask, T value, unsigned source, const char* operation, unsigned line)
{
    const Met met = meet(mask, to_bits(value), operation, line);
    return met.arrived >> source & 1 ? from_bits<T>(met.values[source]) : value;
}

__device__ inline unsigned group_start(unsigned lane, int width)
{
    return lane & ~(unsigned(width) - 1);
}

} // namespace cpu_device

template <class T>
__device__ T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
                         unsigned line = __builtin_LINE())
{
    const unsigned start = cpu_device::group_start(cpu_device::lane(), width);
    return cpu_device::shuffle(mask, value, start + (unsigned(source) & (unsigned(width) - 1)),
                               "__shfl_sync()", line);
}

template <class T>
__device__ T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = warpSize,
                            unsigned line = __builtin_LINE())
{
    const unsigned lane = cpu_device::lane();
    const bool inside = distance <= lane - cpu_device::group_start(lane, width);
    return cpu_device::shuffle(mask, value, inside ? lane - distance : lane, "__shfl_up_sync()",
                               line);
}

template <class T>
__device__ T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = warpSize,
                              unsigned line = __builtin_LINE())
{
    const unsigned lane = cpu_device::lane();
    const unsigned place = lane - cpu_device::group_start(lane, width);
    const bool inside = distance < unsigned(width) - place;
    return cpu_device::shuffle(mask, value, inside ? lane + distance : lane, "__shfl_down_sync()",
                               line);
}

template <class T>
__device__ T __shfl_xor_sync(unsigned mask, T value, int flip, int width = warpSize,
                             unsigned line = __builtin_LINE())
{
    // A partner in an earlier group may be read, one in a later group not.
    const unsigned lane = cpu_device::lane();
    const unsigned source = (lane ^ unsigned(flip)) % warpSize;
    const bool inside = source < cpu_device::group_start(lane, width) + unsigned(width);
    return cpu_device::shuffle(mask, value, inside ? source : lane, "__shfl_xor_sync()", line);
}

// Votes

__device__ inline unsigned __activemask(unsigned line = __builtin_LINE())
{
    return cpu_device::active_mask(line);
}

namespace cpu_device {

// The lanes that say yes
__device__ inline unsigned ballot(unsigned mask, bool vote, const char* operation, unsigned line)
{
    const Met met = meet(mask, vote, operation, line);
    unsigned yes = 0;
    for (unsigned left = met.arrived; left; left &= left - 1)
        if (met.values[__builtin_ctz(left)])
            yes |= left & -left;
    return yes;
}

} // namespace cpu_device

__device__ inline unsigned __ballot_sync(unsigned mask, int predicate,
                                         unsigned line = __builtin_LINE())
{
    return cpu_device::ballot(mask, predicate, "__ballot_sync()", line);
}

__device__ inline int __any_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE())
{
    return cpu_device::ballot(mask, predicate, "__any_sync()", line) != 0;
}

__device__ inline int __all_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE())
{
    return cpu_device::ballot(mask, !predicate, "__all_sync()", line) == 0;
}

// Which lanes have the same value?

template <class T>
__device__ unsigned __match_any_sync(unsigned mask, T value, unsigned line = __builtin_LINE())
{
    const uint64_t mine = cpu_device::to_bits(value);
    const cpu_device::Met met = cpu_device::meet(mask, mine, "__match_any_sync()", line);
    unsigned same = 0;
    for (unsigned left = met.arrived; left; left &= left - 1)
        if (met.values[__builtin_ctz(left)] == mine)
            same |= left & -left;
    return same;
}

template <class T>
__device__ unsigned __match_all_sync(unsigned mask, T value, int* all_same,
                                     unsigned line = __builtin_LINE())
{
    const uint64_t mine = cpu_device::to_bits(value);
    const cpu_device::Met met = cpu_device::meet(mask, mine, "__match_all_sync()", line);
    *all_same = 1;
    for (unsigned left = met.arrived; left; left &= left - 1)
        if (met.values[__builtin_ctz(left)] != mine)
            *all_same = 0;
    return *all_same ? met.arrived : 0;
}

// Reductions over the lanes of a mask, for 32-bit integers as on a GPU

namespace cpu_device {

template <class T, class Combine>
__device__ T reduce(unsigned mask, T value, Combine combine, const char* operation, unsigned line)
{
    const Met met = meet(mask, to_bits(value), operation, line);
    unsigned left = met.arrived;
    T result = from_bits<T>(met.values[__builtin_ctz(left)]);
    while (left &= left - 1)
        result = combine(result, from_bits<T>(met.values[__builtin_ctz(left)]));
    return result;
}

} // namespace cpu_device

#define CPU_DEVICE_REDUCE(name, type, expression)                                                  \
    __device__ inline type name(unsigned mask, type value, unsigned line = __builtin_LINE())       \
    {                                                                                              \
        return cpu_device::reduce(                                                                 \
            mask, value, [](type a, type b) -> type { return expression; }, #name "()", line);     \
    }

CPU_DEVICE_REDUCE(__reduce_add_sync, unsigned, a + b)
CPU_DEVICE_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
CPU_DEVICE_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
CPU_DEVICE_REDUCE(__reduce_and_sync, unsigned, a& b)
CPU_DEVICE_REDUCE(__reduce_or_sync, unsigned, a | b)
CPU_DEVICE_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
CPU_DEVICE_REDUCE(__reduce_add_sync, int, int(unsigned(a) + unsigned(b)))
CPU_DEVICE_REDUCE(__reduce_min_sync, int, a < b ? a : b)
CPU_DEVICE_REDUCE(__reduce_max_sync, int, a > b ? a : b)

#undef CPU_DEVICE_REDUCE
