#error "cublasLt.h: cuBLASLt needs a GPU; put what uses it under #ifdef __CUDACC__"
