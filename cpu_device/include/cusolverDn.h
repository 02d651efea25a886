#error "cusolverDn.h: cuSOLVER needs a GPU; put what uses it under #ifdef __CUDACC__"
