// A sum in shared memory: each step reads what other threads wrote in the step before.
//
// sees:      FAIL: wrong result
// tool:      --tsan
// message:   data race
// line:      sums[t] += sums[t + step]
// corrected: __syncthreads();

#include "check.h"

constexpr int n = 128;

__global__ void add_up(const int* x, int* total)
{
    __shared__ int sums[n];
    const int t = threadIdx.x;
    sums[t] = x[t];
    __syncthreads();
    for (int step = n / 2; step > 0; step /= 2) {
        if (t < step)
            sums[t] += sums[t + step];
        // MISTAKE: the next step starts before this one is over
    }
    if (t == 0)
        *total = sums[0];
}

int main()
{
    int *x, *total;
    CHECK(cudaMallocManaged(&x, n * sizeof(int)));
    CHECK(cudaMallocManaged(&total, sizeof(int)));
    for (int i = 0; i < n; ++i)
        x[i] = i;
    add_up<<<1, n>>>(x, total);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *total == n * (n - 1) / 2;
    CHECK(cudaFree(x));
    CHECK(cudaFree(total));
    return verdict(right);
}
