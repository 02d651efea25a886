// Every block adds its own part to one total, without an atomic operation.
//
// sees:      PASS
// tool:      --tsan
// message:   data race
// line:      MISTAKE
// corrected: atomicAdd(total, x[blockIdx.x]);

#include "check.h"

constexpr int blocks = 64;

__global__ void add_up(const int* x, int* total)
{
    *total += x[blockIdx.x];               // MISTAKE: two blocks can read the same old total
}

int main()
{
    int *x, *total;
    CHECK(cudaMallocManaged(&x, blocks * sizeof(int)));
    CHECK(cudaMallocManaged(&total, sizeof(int)));
    for (int i = 0; i < blocks; ++i)
        x[i] = i;
    *total = 0;
    add_up<<<blocks, 1>>>(x, total);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *total == blocks * (blocks - 1) / 2;
    CHECK(cudaFree(x));
    CHECK(cudaFree(total));
    return verdict(right);
}
