#error "cub/device/device_scan.cuh: CUB needs a GPU; put what uses it under #ifdef __CUDACC__"
