// Complex numbers as CUDA has them for C: float2 and double2, with functions for what they do.
#pragma once

#include "cpu_device/vector_types.h"
#include "cpu_device/words.h"

#include <cmath>

// The size of a number, and a quotient, may be in range where the squares on the way are not. So
// the size is hypot's, which CUDA has on both sides as well, and the divisor is scaled.
#define CPU_DEVICE_COMPLEX(Real, Complex, f)                                                       \
    __host__ __device__ inline Complex make_##Complex(Real real, Real imaginary)                   \
    {                                                                                              \
        return {real, imaginary};                                                                  \
    }                                                                                              \
    __host__ __device__ inline Real cuCreal##f(Complex x) { return x.x; }                          \
    __host__ __device__ inline Real cuCimag##f(Complex x) { return x.y; }                          \
    __host__ __device__ inline Complex cuConj##f(Complex x) { return {x.x, -x.y}; }                \
    __host__ __device__ inline Complex cuCadd##f(Complex x, Complex y)                             \
    {                                                                                              \
        return {x.x + y.x, x.y + y.y};                                                             \
    }                                                                                              \
    __host__ __device__ inline Complex cuCsub##f(Complex x, Complex y)                             \
    {                                                                                              \
        return {x.x - y.x, x.y - y.y};                                                             \
    }                                                                                              \
    __host__ __device__ inline Complex cuCmul##f(Complex x, Complex y)                             \
    {                                                                                              \
        return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x};                                     \
    }                                                                                              \
    __host__ __device__ inline Complex cuCdiv##f(Complex x, Complex y)                             \
    {                                                                                              \
        const Real scale = 1 / (std::fabs(y.x) + std::fabs(y.y));                                  \
        const Complex a{x.x * scale, x.y * scale}, b{y.x * scale, y.y * scale};                    \
        const Real factor = 1 / (b.x * b.x + b.y * b.y);                                           \
        return {(a.x * b.x + a.y * b.y) * factor, (a.y * b.x - a.x * b.y) * factor};               \
    }                                                                                              \
    __host__ __device__ inline Real cuCabs##f(Complex x) { return std::hypot(x.x, x.y); }          \
    __host__ __device__ inline Complex cuCfma##f(Complex x, Complex y, Complex z)                  \
    {                                                                                              \
        return cuCadd##f(cuCmul##f(x, y), z);                                                      \
    }

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
CPU_DEVICE_COMPLEX(float, cuFloatComplex, f)
CPU_DEVICE_COMPLEX(double, cuDoubleComplex, )
#undef CPU_DEVICE_COMPLEX

typedef cuFloatComplex cuComplex;
__host__ __device__ inline cuComplex make_cuComplex(float real, float imaginary)
{
    return {real, imaginary};
}
__host__ __device__ inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x)
{
    return {x.x, x.y};
}
__host__ __device__ inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x)
{
    return {float(x.x), float(x.y)};
}
