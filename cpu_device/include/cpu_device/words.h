// The words that CUDA adds to C++.
//
// A kernel is an ordinary function here, so most of them mean nothing. For clang as a checker of
// CUDA's rules (cpu_device/run --lint) they mean what they mean to nvcc.
#pragma once

#define CUDART_VERSION 13000

#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __maxnreg__(...)
#define __noinline__ // libstdc++ has this word inside attributes of its own
#define __cluster_dims__(...)                                                                      \
    _Pragma("GCC error \"__cluster_dims__: thread block clusters need a GPU\"")

#if defined(__clang__) && defined(__CUDA__)

#define CPU_DEVICE_LINT
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#else

#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)

// Managed variables lie together, so that the engine knows a pointer to one.
#define __managed__ __attribute__((section("cpu_device_managed")))

// So do the other variables of the device, which are closed while host code runs, as all device
// memory is. The rewriter puts this word in the place of __device__ or __constant__, where it sees
// a variable. AddressSanitizer does not watch what lies in a section of our own, so there they stay
// among the host's.
#ifdef CPU_DEVICE_ASAN
#define CPU_DEVICE_VARIABLE
#else
#define CPU_DEVICE_VARIABLE __attribute__((section("cpu_device_variables")))
#endif

// Each worker thread runs one block at a time, so thread-local statics are what __shared__ asks
// for. AddressSanitizer surrounds plain statics with red zones, but not thread-local ones; where
// it watches, there is one worker. To g++ we have to say that nothing is done to initialise them,
// or it has each thread ask whether another has done it.
#ifdef __clang__
#define CPU_DEVICE_STATIC static
#else
#define CPU_DEVICE_STATIC __constinit static
#endif
#ifdef CPU_DEVICE_ASAN
#define __shared__ CPU_DEVICE_STATIC
#else
#define __shared__ CPU_DEVICE_STATIC thread_local
#endif

#endif
