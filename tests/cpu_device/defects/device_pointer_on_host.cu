// The host reads the result where it lies, in device memory.
//
// sees:      host code touches device memory
// tool:      --asan
// message:   use-after-poison
// line:      MISTAKE
// corrected: CHECK(cudaMemcpy(&last, x + n - 1, sizeof last, cudaMemcpyDeviceToHost));

#include "check.h"

constexpr int n = 64;

__global__ void fill(int* x)
{
    x[threadIdx.x] = 7;
}

int main()
{
    int *x, last;
    CHECK(cudaMalloc(&x, n * sizeof(int)));
    fill<<<1, n>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    last = x[n - 1];                       // MISTAKE: this address is of use on the device alone
    CHECK(cudaFree(x));
    return verdict(last == 7);
}
