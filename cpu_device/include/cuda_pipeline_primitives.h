// In CUDA a part of what cuda_pipeline.h has.
#pragma once

#include "cuda_pipeline.h"
