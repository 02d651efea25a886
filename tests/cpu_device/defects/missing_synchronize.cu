// The host reads managed memory while the kernel that fills it has yet to run.
//
// tool:      plain run
// message:   FAIL: wrong result
// corrected: CHECK(cudaDeviceSynchronize());

#include "check.h"

constexpr int n = 64;

__global__ void fill(int* x)
{
    x[threadIdx.x] = 7;
}

int main()
{
    int* x;
    CHECK(cudaMallocManaged(&x, n * sizeof(int)));
    for (int i = 0; i < n; ++i)
        x[i] = 0;
    fill<<<1, n>>>(x);
    CHECK(cudaGetLastError());
    // MISTAKE: a launch returns before its kernel has run
    const bool right = x[n - 1] == 7;
    CHECK(cudaFree(x));
    return verdict(right);
}
