#error "nccl.h: NCCL needs a GPU; put what uses it under #ifdef __CUDACC__"
