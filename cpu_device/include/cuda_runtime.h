// The CPU device's stand-in for CUDA's header of this name. cpu_device/run has the compiler read
// it before the program, as nvcc does with its own.
#pragma once

#include "cpu_device/lint.h"

#include "cpu_device/atomics.h"
#include "cpu_device/device_functions.h"
#include "cpu_device/dynamic_shared.h"
#include "cpu_device/integers.h"
#include "cpu_device/language.h"
#include "cpu_device/launch.h"
#include "cpu_device/math.h"
#include "cpu_device/runtime_api.h"
#include "cpu_device/static_shared.h"
#include "cpu_device/synchronization.h"
#include "cpu_device/typed_api.h"
#include "cpu_device/vector_types.h"

#include <ctime>                           // as CUDA's own: a kernel may call clock()
