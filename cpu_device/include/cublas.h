#error "cublas.h: cuBLAS needs a GPU; put what uses it under #ifdef __CUDACC__"
