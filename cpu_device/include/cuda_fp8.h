#error "cuda_fp8.h: 8-bit floating point needs a GPU; put what uses it under #ifdef __CUDACC__"
