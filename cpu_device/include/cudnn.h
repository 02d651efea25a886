#error "cudnn.h: cuDNN needs a GPU; put what uses it under #ifdef __CUDACC__"
