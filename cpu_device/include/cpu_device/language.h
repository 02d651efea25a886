// The variables that a kernel finds set. They are real ones, which a debugger can print and break
// on.
#pragma once

#include "vector_types.h"
#include "words.h"

#ifdef CPU_DEVICE_LINT

extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;

#else

// Set before each thread of a kernel starts or goes on. The values that they have outside of
// kernels are not zero, because that places them below all shared arrays in memory: an index
// that runs past the end of a shared array does not reach them. They are in every program, used or
// not, for its debugger.
[[gnu::used]] inline thread_local uint3 threadIdx{~0u, ~0u, ~0u};
[[gnu::used]] inline thread_local uint3 blockIdx{~0u, ~0u, ~0u};
[[gnu::used]] inline thread_local dim3 blockDim{};
[[gnu::used]] inline thread_local dim3 gridDim{};

#endif

constexpr int warpSize = 32;
