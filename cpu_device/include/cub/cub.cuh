#error "cub/cub.cuh: CUB needs a GPU; put what uses it under #ifdef __CUDACC__"
