// A kernel calls a function that exists on the host alone.
//
// sees:      PASS
// tool:      --lint
// message:   call to __host__ function from __global__ function
// line:      x[threadIdx.x] = square
// corrected: __device__ int square(int x)

#include "check.h"

int square(int x)                          // MISTAKE: no __device__
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
    return verdict(last == 63 * 63);
}
