// A kernel is handed memory of the host.
//
// tool:      plain run
// message:   fill: argument 1, .*, is a host pointer
// line:      CHECK(cudaDeviceSynchronize
// corrected: CHECK(cudaMallocManaged(&x, n * sizeof(int)));

#include "check.h"

constexpr int n = 64;

__global__ void fill(int* x)
{
    x[threadIdx.x] = 7;
}

int main()
{
    int* x;
    x = new int[n];                        // MISTAKE: the GPU has no access to this
    fill<<<1, n>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    return verdict(x[n - 1] == 7);
}
