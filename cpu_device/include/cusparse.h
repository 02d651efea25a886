#error "cusparse.h: cuSPARSE needs a GPU; put what uses it under #ifdef __CUDACC__"
