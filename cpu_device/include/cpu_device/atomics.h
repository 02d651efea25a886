// Atomic functions. All give the value that was there before. They order nothing else, as on a
// GPU, unless there is a __threadfence as well.
#pragma once

#include "synchronization.h"

#include <type_traits>

namespace cpu_device {

// What a thread did before a __threadfence, others may rely on after an atomic function. Only
// ThreadSanitizer has to be told.
#ifdef CPU_DEVICE_TSAN
__device__ void after_atomic();
#else
__device__ inline void after_atomic() {}
#endif

// Threads of a block take turns, so one that tries again and again until another has done something
// has to let it go first now and then.
template <class T>
__device__ T found(T before, bool in_vain)
{
    after_atomic();
    if (in_vain)
        polled();
    return before;
}

template <class T>
__device__ T exchange(T* address, T value)
{
    T before;
    __atomic_exchange(address, &value, &before, __ATOMIC_RELAXED);
    return found(before, __builtin_memcmp(&before, &value, sizeof value) == 0);
}

template <class T>
__device__ T compare_and_swap(T* address, T expected, T value)
{
    const bool swapped = __atomic_compare_exchange(address, &expected, &value, false,
                                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return found(expected, !swapped);
}

// Replaces the value by `change` of it.
template <class T, class Change>
__device__ T update(T* address, Change change)
{
    T before, after;
    __atomic_load(address, &before, __ATOMIC_RELAXED);
    do
        after = change(before);
    while (!__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
    return found(before, false);
}

template <class T>
__device__ T add(T* address, T value)
{
    if constexpr (std::is_integral_v<T>)
        return found(__atomic_fetch_add(address, value, __ATOMIC_RELAXED), value == 0);
    else
        return update(address, [=](T before) { return T(before + value); });
}

} // namespace cpu_device

// Each also ends in _block and _system, for atomicity among fewer or more threads.
#define CPU_DEVICE_ATOMIC(name, type, expression)                                                  \
    __device__ inline type name(type* address, type value) { return expression; }                  \
    __device__ inline type name##_block(type* address, type value) { return expression; }          \
    __device__ inline type name##_system(type* address, type value) { return expression; }

#define CPU_DEVICE_ATOMIC_ADD(type)                                                                \
    CPU_DEVICE_ATOMIC(atomicAdd, type, cpu_device::add(address, value))
CPU_DEVICE_ATOMIC_ADD(int)
CPU_DEVICE_ATOMIC_ADD(unsigned)
CPU_DEVICE_ATOMIC_ADD(unsigned long long)
CPU_DEVICE_ATOMIC_ADD(float)
CPU_DEVICE_ATOMIC_ADD(double)
#undef CPU_DEVICE_ATOMIC_ADD

#define CPU_DEVICE_ATOMIC_SUB(type)                                                                \
    CPU_DEVICE_ATOMIC(                                                                             \
        atomicSub, type,                                                                           \
        cpu_device::found(__atomic_fetch_sub(address, value, __ATOMIC_RELAXED), value == 0))
CPU_DEVICE_ATOMIC_SUB(int)
CPU_DEVICE_ATOMIC_SUB(unsigned)
#undef CPU_DEVICE_ATOMIC_SUB

#define CPU_DEVICE_ATOMIC_EXCHANGE(type)                                                           \
    CPU_DEVICE_ATOMIC(atomicExch, type, cpu_device::exchange(address, value))
CPU_DEVICE_ATOMIC_EXCHANGE(int)
CPU_DEVICE_ATOMIC_EXCHANGE(unsigned)
CPU_DEVICE_ATOMIC_EXCHANGE(unsigned long long)
CPU_DEVICE_ATOMIC_EXCHANGE(float)
#undef CPU_DEVICE_ATOMIC_EXCHANGE

#define CPU_DEVICE_ATOMIC_UPDATE(name, type, change)                                               \
    CPU_DEVICE_ATOMIC(name, type,                                                                  \
                      cpu_device::update(address, [=](type old) -> type { return change; }))
#define CPU_DEVICE_ATOMIC_INTEGER(type)                                                            \
    CPU_DEVICE_ATOMIC_UPDATE(atomicMin, type, old < value ? old : value)                           \
    CPU_DEVICE_ATOMIC_UPDATE(atomicMax, type, old > value ? old : value)                           \
    CPU_DEVICE_ATOMIC_UPDATE(atomicAnd, type, old& value)                                          \
    CPU_DEVICE_ATOMIC_UPDATE(atomicOr, type, old | value)                                          \
    CPU_DEVICE_ATOMIC_UPDATE(atomicXor, type, old ^ value)
CPU_DEVICE_ATOMIC_INTEGER(int)
CPU_DEVICE_ATOMIC_INTEGER(unsigned)
CPU_DEVICE_ATOMIC_INTEGER(unsigned long long)
CPU_DEVICE_ATOMIC_UPDATE(atomicMin, long long, old < value ? old : value)
CPU_DEVICE_ATOMIC_UPDATE(atomicMax, long long, old > value ? old : value)
CPU_DEVICE_ATOMIC_UPDATE(atomicInc, unsigned, old >= value ? 0 : old + 1)
CPU_DEVICE_ATOMIC_UPDATE(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef CPU_DEVICE_ATOMIC_INTEGER
#undef CPU_DEVICE_ATOMIC_UPDATE
#undef CPU_DEVICE_ATOMIC

#define CPU_DEVICE_ATOMIC_CAS(type)                                                                \
    __device__ inline type atomicCAS(type* address, type expected, type value)                     \
    {                                                                                              \
        return cpu_device::compare_and_swap(address, expected, value);                             \
    }                                                                                              \
    __device__ inline type atomicCAS_block(type* address, type expected, type value)               \
    {                                                                                              \
        return cpu_device::compare_and_swap(address, expected, value);                             \
    }                                                                                              \
    __device__ inline type atomicCAS_system(type* address, type expected, type value)              \
    {                                                                                              \
        return cpu_device::compare_and_swap(address, expected, value);                             \
    }
CPU_DEVICE_ATOMIC_CAS(int)
CPU_DEVICE_ATOMIC_CAS(unsigned)
CPU_DEVICE_ATOMIC_CAS(unsigned long long)
CPU_DEVICE_ATOMIC_CAS(unsigned short)
#undef CPU_DEVICE_ATOMIC_CAS
