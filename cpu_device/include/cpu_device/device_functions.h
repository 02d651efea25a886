// What a kernel may call besides arithmetic: ways to end, clocks, loads with a hint.
#pragma once

#include "words.h"

#include <cstddef>

// Ends the kernel with an error.
[[noreturn]] __device__ void __trap();

// Stops in a debugger.
__device__ void __brkpt();

// Nanoseconds stand in for cycles.
__device__ long long clock64();

__device__ inline unsigned __isGlobal(const void* pointer) { return pointer != nullptr; }

template <class T>
__device__ T __ldg(const T* p)
{
    return *p;
}
template <class T>
__device__ T __ldca(const T* p)
{
    return *p;
}
template <class T>
__device__ T __ldcg(const T* p)
{
    return *p;
}
template <class T>
__device__ T __ldcs(const T* p)
{
    return *p;
}
template <class T>
__device__ T __ldcv(const T* p)
{
    return *p;
}
template <class T>
__device__ T __ldlu(const T* p)
{
    return *p;
}
template <class T>
__device__ void __stwb(T* p, T value)
{
    *p = value;
}
template <class T>
__device__ void __stcg(T* p, T value)
{
    *p = value;
}
template <class T>
__device__ void __stcs(T* p, T value)
{
    *p = value;
}
template <class T>
__device__ void __stwt(T* p, T value)
{
    *p = value;
}
