// CUDA's error codes.
#pragma once

enum cudaError {
#define ERROR(name, value, text) name = value,
#include "error_list.h"
#undef ERROR
};
typedef enum cudaError cudaError_t;
