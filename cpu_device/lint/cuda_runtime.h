// For cpu_device/run --lint: what clang needs, beside the headers of the CPU device, to check a
// program against CUDA's rules without CUDA's own headers.
#pragma once

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
__attribute__((device)) int ilogbf(float);
__attribute__((device)) long lrintf(float), lroundf(float);
__attribute__((device)) long long llrintf(float), llround(double), llroundf(float);
__attribute__((device)) double exp10(double);
__attribute__((device)) void sincosf(float, float*, float*), sincos(double, double*, double*);

// Clang has a __syncthreads of its own, which takes no line.

#define __syncthreads cpu_device_syncthreads
#include_next <cuda_runtime.h>
#undef __syncthreads
__device__ void __syncthreads();
