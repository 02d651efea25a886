#error "nvtx3/nvToolsExt.h: NVTX needs a GPU; put what uses it under #ifdef __CUDACC__"
