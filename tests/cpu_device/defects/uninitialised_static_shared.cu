// A histogram in shared memory of fixed size that nobody has set to zero.
//
// tool:      plain run
// message:   FAIL: wrong result
// corrected: if (threadIdx.x < 8) counts[threadIdx.x] = 0;

#include "check.h"

constexpr int n = 256;

__global__ void count(const int* x, int* total)
{
    __shared__ int counts[8];
    // MISTAKE: shared memory starts with whatever it held before
    __syncthreads();
    atomicAdd(&counts[x[threadIdx.x] % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8)
        total[threadIdx.x] = counts[threadIdx.x];
}

int main()
{
    int *x, *total;
    CHECK(cudaMallocManaged(&x, n * sizeof(int)));
    CHECK(cudaMallocManaged(&total, 8 * sizeof(int)));
    for (int i = 0; i < n; ++i)
        x[i] = i;
    count<<<1, n>>>(x, total);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < 8; ++i)
        right = right && total[i] == n / 8;
    CHECK(cudaFree(x));
    CHECK(cudaFree(total));
    return verdict(right);
}
