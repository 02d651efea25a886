// A recursion that never ends.
//
// tool:      plain run
// message:   uses more than \d+ KiB of stack
// line:      CHECK(cudaDeviceSynchronize
// corrected: return n == 0 ? 0 : n + sum_to(n - 1, x + 1) + x[0];

#include "check.h"

__device__ int sum_to(int n, const volatile int* x)
{
    return n + sum_to(n - 1, x) + x[0];    // MISTAKE: nothing stops it
}

__global__ void start(int* x)
{
    *x = sum_to(4, x);
}

int main()
{
    int* x;
    CHECK(cudaMallocManaged(&x, 8 * sizeof(int)));
    for (int i = 0; i < 8; ++i)
        x[i] = 0;
    start<<<1, 1>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *x == 10;
    CHECK(cudaFree(x));
    return verdict(right);
}
