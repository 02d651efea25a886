#error "curand.h: cuRAND needs a GPU; put what uses it under #ifdef __CUDACC__"
