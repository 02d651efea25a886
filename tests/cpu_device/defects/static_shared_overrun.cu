// A shared array with no room for the neighbour of the last thread.
//
// sees:      PASS
// tool:      --asan
// message:   index 64 out of bounds
// line:      shared[t + 1] = x
// corrected: __shared__ int shared[n + 1];

#include "check.h"

constexpr int n = 64;

__global__ void differences(const int* x, int* result)
{
    __shared__ int shared[n];              // MISTAKE: n differences need n + 1 numbers
    const int t = threadIdx.x;
    if (t == 0)
        shared[0] = x[0];
    shared[t + 1] = x[t + 1];
    __syncthreads();
    result[t] = shared[t + 1] - shared[t];
}

int main()
{
    int *x, *result;
    CHECK(cudaMallocManaged(&x, (n + 1) * sizeof(int)));
    CHECK(cudaMallocManaged(&result, n * sizeof(int)));
    for (int i = 0; i <= n; ++i)
        x[i] = i * i;
    differences<<<1, n>>>(x, result);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 2 * i + 1;
    CHECK(cudaFree(x));
    CHECK(cudaFree(result));
    return verdict(right);
}
