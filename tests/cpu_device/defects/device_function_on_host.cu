// The host calls a function that exists on the device alone.
//
// sees:      PASS
// tool:      --lint
// message:   call to __device__ function from __host__ function
// line:      verdict(last == square
// corrected: __host__ __device__ int square(int x)

#include "check.h"

__device__ int square(int x)               // MISTAKE: no __host__ beside it
{
    return x * x;
}

__global__ void fill(int* x)
{
    x[threadIdx.x] = square(threadIdx.x);
}

int main()
{
    int *x, last;
    CHECK(cudaMalloc(&x, 64 * sizeof(int)));
    fill<<<1, 64>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&last, x + 63, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == square(63));
}
