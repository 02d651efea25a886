// A block that is too large, with the check that says so.
//
// tool:      plain run
// message:   cudaErrorInvalidValue
// line:      CHECK(cudaGetLastError
// corrected: fill<<<2, 1024>>>(x);

#include "check.h"

constexpr int n = 2048;

__global__ void fill(int* x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] = 7;
}

int main()
{
    int *x, last;
    CHECK(cudaMalloc(&x, n * sizeof(int)));
    fill<<<1, n>>>(x);                     // MISTAKE: a block has at most 1024 threads
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&last, x + n - 1, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == 7);
}
