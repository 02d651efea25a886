#error "cuda.h: the driver API needs a GPU; put what uses it under #ifdef __CUDACC__"
