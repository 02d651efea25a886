// The CPU device's stand-in for CUDA's header of this name: copies to shared memory that a thread
// starts and later waits for.
#pragma once

#include "cuda_runtime.h"

#include "cpu_device/pipeline.h"
