#error "thrust/device_vector.h: Thrust needs a GPU; put what uses it under #ifdef __CUDACC__"
