#error "thrust/device_ptr.h: Thrust needs a GPU; put what uses it under #ifdef __CUDACC__"
