// Mathematical functions that CUDA adds to those of <cmath>. Where a GPU's fast version is less
// exact, the exact one stands here. Which of them the host has as well is as nvcc has it.
#pragma once

#include "words.h"

// These put the C++ overloads, abs(float) for one, into the global namespace, as nvcc does.
#include <math.h>
#include <stdlib.h>

#include <cmath>
#include <cstdlib>
#include <type_traits>

__host__ __device__ inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
__host__ __device__ inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
__host__ __device__ inline float rsqrt(float x) { return rsqrtf(x); }
__host__ __device__ inline float rcbrtf(float x) { return 1.0f / std::cbrt(x); }
__host__ __device__ inline double rcbrt(double x) { return 1.0 / std::cbrt(x); }
__device__ inline float rhypotf(float x, float y) { return 1.0f / std::hypot(x, y); }
__device__ inline double rhypot(double x, double y) { return 1.0 / std::hypot(x, y); }
__device__ inline float norm3df(float x, float y, float z)
{
    return std::sqrt(x * x + y * y + z * z);
}
__device__ inline double norm3d(double x, double y, double z)
{
    return std::sqrt(x * x + y * y + z * z);
}
__device__ inline float norm4df(float x, float y, float z, float w)
{
    return std::sqrt(x * x + y * y + z * z + w * w);
}
__device__ inline double norm4d(double x, double y, double z, double w)
{
    return std::sqrt(x * x + y * y + z * z + w * w);
}
__device__ inline float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
__device__ inline double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
__device__ inline float fdividef(float x, float y) { return x / y; }
__host__ __device__ inline float normcdff(float x)
{
    return 0.5f * std::erfc(x * -0.70710678118654752f);
}
__host__ __device__ inline double normcdf(double x)
{
    return 0.5 * std::erfc(x * -0.70710678118654752);
}

// sin(πx) and cos(πx): the argument is brought into one period first, which is exact.
__host__ __device__ inline double sinpi(double x)
{
    return std::sin(3.14159265358979324 * std::remainder(x, 2.0));
}
__host__ __device__ inline double cospi(double x)
{
    return std::cos(3.14159265358979324 * std::remainder(x, 2.0));
}
__host__ __device__ inline float sinpif(float x) { return float(sinpi(double(x))); }
__host__ __device__ inline float cospif(float x) { return float(cospi(double(x))); }
__host__ __device__ inline void sincospi(double x, double* sine, double* cosine)
{
    *sine = sinpi(x);
    *cosine = cospi(x);
}
__host__ __device__ inline void sincospif(float x, float* sine, float* cosine)
{
    *sine = sinpif(x);
    *cosine = cospif(x);
}

// NaN becomes 0.
__device__ inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }

__device__ inline float __expf(float x) { return std::exp(x); }
__device__ inline float __exp10f(float x) { return std::pow(10.0f, x); }
__device__ inline float __logf(float x) { return std::log(x); }
__device__ inline float __log2f(float x) { return std::log2(x); }
__device__ inline float __log10f(float x) { return std::log10(x); }
__device__ inline float __powf(float x, float y) { return std::pow(x, y); }
__device__ inline float __sinf(float x) { return std::sin(x); }
__device__ inline float __cosf(float x) { return std::cos(x); }
__device__ inline float __tanf(float x) { return std::tan(x); }
__device__ inline float __tanhf(float x) { return std::tanh(x); }
__device__ inline float __fdividef(float x, float y) { return x / y; }
__device__ inline void __sincosf(float x, float* sine, float* cosine)
{
    *sine = std::sin(x);
    *cosine = std::cos(x);
}

// Arithmetic that a compiler may not fuse or round otherwise than to nearest
__device__ inline float __fadd_rn(float x, float y) { return x + y; }
__device__ inline float __fsub_rn(float x, float y) { return x - y; }
__device__ inline float __fmul_rn(float x, float y) { return x * y; }
__device__ inline float __fdiv_rn(float x, float y) { return x / y; }
__device__ inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
__device__ inline float __frcp_rn(float x) { return 1.0f / x; }
__device__ inline float __fsqrt_rn(float x) { return std::sqrt(x); }
__device__ inline float __frsqrt_rn(float x) { return float(1.0 / std::sqrt(double(x))); }
__device__ inline double __dadd_rn(double x, double y) { return x + y; }
__device__ inline double __dsub_rn(double x, double y) { return x - y; }
__device__ inline double __dmul_rn(double x, double y) { return x * y; }
__device__ inline double __ddiv_rn(double x, double y) { return x / y; }
__device__ inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
__device__ inline double __drcp_rn(double x) { return 1.0 / x; }
__device__ inline double __dsqrt_rn(double x) { return std::sqrt(x); }

// min and max of all arithmetic types, on the host as well
#define CPU_DEVICE_MIN_MAX(type)                                                                   \
    __host__ __device__ constexpr type min(type a, type b) { return b < a ? b : a; }               \
    __host__ __device__ constexpr type max(type a, type b) { return a < b ? b : a; }

CPU_DEVICE_MIN_MAX(int)
CPU_DEVICE_MIN_MAX(unsigned)
CPU_DEVICE_MIN_MAX(long)
CPU_DEVICE_MIN_MAX(unsigned long)
CPU_DEVICE_MIN_MAX(long long)
CPU_DEVICE_MIN_MAX(unsigned long long)
#undef CPU_DEVICE_MIN_MAX

__host__ __device__ inline float min(float a, float b) { return std::fmin(a, b); }
__host__ __device__ inline float max(float a, float b) { return std::fmax(a, b); }
__host__ __device__ inline double min(double a, double b) { return std::fmin(a, b); }
__host__ __device__ inline double max(double a, double b) { return std::fmax(a, b); }
__host__ __device__ inline double min(float a, double b) { return std::fmin(double(a), b); }
__host__ __device__ inline double max(float a, double b) { return std::fmax(double(a), b); }
__host__ __device__ inline double min(double a, float b) { return std::fmin(a, double(b)); }
__host__ __device__ inline double max(double a, float b) { return std::fmax(a, double(b)); }

template <class A, class B>
using CpuDeviceMixed =
    std::enable_if_t<std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, B>,
                     std::common_type_t<A, B>>;

template <class A, class B>
__host__ __device__ constexpr CpuDeviceMixed<A, B> min(A a, B b)
{
    return min(CpuDeviceMixed<A, B>(a), CpuDeviceMixed<A, B>(b));
}

template <class A, class B>
__host__ __device__ constexpr CpuDeviceMixed<A, B> max(A a, B b)
{
    return max(CpuDeviceMixed<A, B>(a), CpuDeviceMixed<A, B>(b));
}
