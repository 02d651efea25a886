// A kernel that returns a value.
//
// tool:      --lint
// message:   kernel function type .* must have void return type
// line:      MISTAKE
// corrected: __global__ void fill(int* x)

#include "check.h"

__global__ int fill(int* x)                // MISTAKE: nobody is there to take the result
{
    x[threadIdx.x] = 7;
}

int main()
{
    int *x, last;
    CHECK(cudaMalloc(&x, 64 * sizeof(int)));
    fill<<<1, 64>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&last, x + 63, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == 7);
}
