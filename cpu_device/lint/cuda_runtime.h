// For cpu_device/run --lint: what clang needs, beside the headers of the CPU device, to check a
// program against CUDA's rules without CUDA's own headers.
#pragma once

// The C library has functions of its own by the names of some that only a kernel may call.

#define __expf cpu_device_expf
#define __exp10f cpu_device_exp10f
#define __logf cpu_device_logf
#define __log2f cpu_device_log2f
#define __log10f cpu_device_log10f
#define __powf cpu_device_powf
#define __sinf cpu_device_sinf
#define __cosf cpu_device_cosf
#define __tanf cpu_device_tanf
#define __tanhf cpu_device_tanhf
#define __sincosf cpu_device_sincosf
#include <math.h>
#undef __expf
#undef __exp10f
#undef __logf
#undef __log2f
#undef __log10f
#undef __powf
#undef __sinf
#undef __cosf
#undef __tanf
#undef __tanhf
#undef __sincosf

// Of the C++ library nvcc takes this for code of both sides.

#pragma clang force_cuda_host_device begin
#include <initializer_list>
#pragma clang force_cuda_host_device end
#include <type_traits>

// To clang a function of the standard library is a function of the host. A kernel may call those
// of mathematics all the same, so they exist for the device a second time. Clang has a header
// for the overloaded names.

#include <__clang_cuda_math_forward_declares.h>

__attribute__((device)) float
    acosf(float), acoshf(float), asinf(float), asinhf(float), atanf(float), atanhf(float),
    cbrtf(float), ceilf(float), cosf(float), coshf(float), erff(float), erfcf(float), exp10f(float),
    exp2f(float), expf(float), expm1f(float), fabsf(float), floorf(float), lgammaf(float),
    log10f(float), log1pf(float), log2f(float), logbf(float), logf(float), nearbyintf(float),
    rintf(float), roundf(float), sinf(float), sinhf(float), sqrtf(float), tanf(float), tanhf(float),
    tgammaf(float), truncf(float), atan2f(float, float), copysignf(float, float),
    fdimf(float, float), fmaxf(float, float), fminf(float, float), fmodf(float, float),
    hypotf(float, float), nextafterf(float, float), powf(float, float), remainderf(float, float),
    fmaf(float, float, float), frexpf(float, int*), ldexpf(float, int), modff(float, float*),
    scalbnf(float, int);
__attribute__((device)) float j0f(float), j1f(float), y0f(float), y1f(float), jnf(int, float),
    ynf(int, float), remquof(float, float, int*);
__attribute__((device)) double j0(double), j1(double), y0(double), y1(double), jn(int, double),
    yn(int, double);
__attribute__((device)) int ilogbf(float);
__attribute__((device)) long lrintf(float), lroundf(float);
__attribute__((device)) long long llrintf(float), llround(double), llroundf(float);
__attribute__((device)) double exp10(double);
__attribute__((device)) void sincosf(float, float*, float*), sincos(double, double*, double*);

// That header lacks pow of two numbers of different types, though not those of the rest, which nvcc
// refuses. Where the types are the same its own is the better choice.
template <class A, class B>
__attribute__((device)) std::enable_if_t<
    std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, double> pow(A, B);
namespace std {
using ::pow;
}

// Clang has a __syncthreads of its own, which takes no line.

#define __syncthreads cpu_device_syncthreads
#include_next <cuda_runtime.h>
#undef __syncthreads
__device__ void __syncthreads();
