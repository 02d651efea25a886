// In CUDA a part of what cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
