// The CPU device's stand-in for CUDA's header of this name: half and half2.
#pragma once

#include "cuda_runtime.h"

#include "cpu_device/narrow_float.h"

using __half = cpu_device::Narrow<5, 10>;
using __half2 = cpu_device::NarrowPair<__half>;
using __half_raw = __half::Raw;
using half = __half;
using half2 = __half2;

CPU_DEVICE_NARROW_NAMES(__half, __half2, half)
