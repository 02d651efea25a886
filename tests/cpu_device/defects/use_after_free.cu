// The memory is given back before the last kernel that uses it.
//
// sees:      after it was freed
// tool:      --asan
// message:   AddressSanitizer: [a-z-]+
// line:      sum += x[i]
// corrected: CHECK(cudaDeviceSynchronize());

#include "check.h"

constexpr int n = 64;

__global__ void fill(int* x)
{
    x[threadIdx.x] = threadIdx.x;
}

__global__ void add_up(const int* x, int* total)
{
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += x[i];
    *total = sum;
}

int main()
{
    int *x, *total;
    CHECK(cudaMalloc(&x, n * sizeof(int)));
    CHECK(cudaMallocManaged(&total, sizeof(int)));
    fill<<<1, n>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaFree(x));                    // MISTAKE: add_up still has to read it
    add_up<<<1, 1>>>(x, total);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *total == n * (n - 1) / 2;
    CHECK(cudaFree(total));
    return verdict(right);
}
