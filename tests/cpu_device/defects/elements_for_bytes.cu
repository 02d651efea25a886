// A copy of n bytes where n integers are meant: three quarters of them stay behind.
//
// tool:      plain run
// message:   FAIL: wrong result
// corrected: CHECK(cudaMemcpy(d_x, x, n * sizeof(int), cudaMemcpyHostToDevice));

#include "check.h"

constexpr int n = 64;

__global__ void add_up(const int* x, int* total)
{
    atomicAdd(total, x[threadIdx.x]);
}

int main()
{
    int x[n], *d_x, *total;
    for (int i = 0; i < n; ++i)
        x[i] = i;
    CHECK(cudaMalloc(&d_x, n * sizeof(int)));
    CHECK(cudaMallocManaged(&total, sizeof(int)));
    CHECK(cudaMemcpy(d_x, x, n, cudaMemcpyHostToDevice));          // MISTAKE: a copy counts bytes
    *total = 0;
    add_up<<<1, n>>>(d_x, total);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *total == n * (n - 1) / 2;
    CHECK(cudaFree(d_x));
    CHECK(cudaFree(total));
    return verdict(right);
}
