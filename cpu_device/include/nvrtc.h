#error "nvrtc.h: NVRTC needs a GPU; put what uses it under #ifdef __CUDACC__"
