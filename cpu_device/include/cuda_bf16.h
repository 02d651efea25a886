// The CPU device's stand-in for CUDA's header of this name: bfloat16 and bfloat162.
#pragma once

#include "cuda_runtime.h"

#include "cpu_device/narrow_float.h"

using __nv_bfloat16 = cpu_device::Narrow<8, 7>;
using __nv_bfloat162 = cpu_device::NarrowPair<__nv_bfloat16>;
using __nv_bfloat16_raw = __nv_bfloat16::Raw;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

CPU_DEVICE_NARROW_NAMES(__nv_bfloat16, __nv_bfloat162, bfloat16)
