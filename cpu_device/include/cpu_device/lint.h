// What clang wants declared before it takes a file for CUDA, besides the rest of these headers.
// Nothing here is ever defined: it checks and makes no program.
#pragma once

#include "words.h"

#ifdef CPU_DEVICE_LINT

#include "runtime_types.h"
#include "vector_types.h"

#include <cstddef>
#include <ctime>

// What clang makes of <<< >>>
extern "C" {
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes = 0,
                                     cudaStream_t stream = nullptr);
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared_bytes = 0,
                              cudaStream_t stream = nullptr);
cudaError_t cudaSetupArgument(const void* argument, size_t bytes, size_t offset);
cudaError_t cudaLaunch(const void* kernel);
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes = 0, cudaStream_t stream = nullptr);
}

// Functions of the C library that a kernel may call
extern "C" {
__device__ int printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
__device__ void __assert_fail(const char* assertion, const char* file, unsigned line,
                              const char* function) noexcept;
__device__ void* malloc(size_t bytes) noexcept;
__device__ void free(void* memory) noexcept;
__device__ void* memcpy(void* to, const void* from, size_t bytes) noexcept;
__device__ void* memset(void* memory, int value, size_t bytes) noexcept;
__device__ clock_t clock() noexcept;
}

// Functions of the C++ library that CUDA takes for functions of both sides
#include <utility>
namespace std {
template <class T>
__device__ constexpr remove_reference_t<T>&& move(T&&) noexcept;
template <class T>
__device__ constexpr T&& forward(remove_reference_t<T>&) noexcept;
template <class T>
__device__ constexpr T&& forward(remove_reference_t<T>&&) noexcept;
}

#include <__clang_cuda_math_forward_declares.h>

#endif
