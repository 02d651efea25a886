#error "cufft.h: cuFFT needs a GPU; put what uses it under #ifdef __CUDACC__"
