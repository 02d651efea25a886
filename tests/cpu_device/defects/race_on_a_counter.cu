// The threads of a block count into a shared histogram without an atomic operation.
//
// sees:      PASS
// tool:      --tsan
// message:   data race
// line:      MISTAKE
// corrected: atomicAdd(&counts[x[t] % 8], 1);

#include "check.h"

constexpr int n = 128;

__global__ void histogram(const int* x, int* result)
{
    __shared__ int counts[8];
    const int t = threadIdx.x;
    if (t < 8)
        counts[t] = 0;
    __syncthreads();
    ++counts[x[t] % 8];                    // MISTAKE: read, add and write are three steps
    __syncthreads();
    if (t < 8)
        result[t] = counts[t];
}

int main()
{
    int *x, *result;
    CHECK(cudaMallocManaged(&x, n * sizeof(int)));
    CHECK(cudaMallocManaged(&result, 8 * sizeof(int)));
    for (int i = 0; i < n; ++i)
        x[i] = i * i;
    histogram<<<1, n>>>(x, result);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int value = 0; value < 8; ++value) {
        int count = 0;
        for (int i = 0; i < n; ++i)
            count += x[i] % 8 == value;
        right = right && result[value] == count;
    }
    CHECK(cudaFree(x));
    CHECK(cudaFree(result));
    return verdict(right);
}
