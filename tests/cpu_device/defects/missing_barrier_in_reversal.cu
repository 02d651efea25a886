// An array turned round in shared memory: a thread reads what another has not yet stored.
//
// sees:      FAIL: wrong result
// tool:      --tsan
// message:   data race
// line:      x[t] = shared
// corrected: __syncthreads();

#include "check.h"

constexpr int n = 128;

__global__ void reverse(int* x)
{
    __shared__ int shared[n];
    const int t = threadIdx.x;
    shared[t] = x[t];
    // MISTAKE: the other half of the array may not be there yet
    x[t] = shared[n - 1 - t];
}

int main()
{
    int* x;
    CHECK(cudaMallocManaged(&x, n * sizeof(int)));
    for (int i = 0; i < n; ++i)
        x[i] = i;
    reverse<<<1, n>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && x[i] == n - 1 - i;
    CHECK(cudaFree(x));
    return verdict(right);
}
