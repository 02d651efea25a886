// Sums collected in dynamic shared memory that nobody has set to zero.
//
// tool:      plain run
// message:   FAIL: wrong result
// corrected: if (threadIdx.x == 0) sum[0] = 0;

#include "check.h"

constexpr int n = 256;

__global__ void add_up(const float* x, float* total)
{
    extern __shared__ float sum[];
    // MISTAKE: shared memory starts with whatever it held before
    __syncthreads();
    atomicAdd(sum, x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0)
        *total = sum[0];
}

int main()
{
    float *x, *total;
    CHECK(cudaMallocManaged(&x, n * sizeof(float)));
    CHECK(cudaMallocManaged(&total, sizeof(float)));
    for (int i = 0; i < n; ++i)
        x[i] = float(i);
    add_up<<<1, n, sizeof(float)>>>(x, total);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *total == n * (n - 1) / 2;
    CHECK(cudaFree(x));
    CHECK(cudaFree(total));
    return verdict(right);
}
