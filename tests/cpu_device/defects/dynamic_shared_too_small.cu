// The launch asks for elements where it should ask for bytes.
//
// sees:      uses byte 256 of its 256 bytes of dynamic shared memory
// tool:      --asan
// message:   heap-buffer-overflow
// line:      shared[t] = x[t]
// corrected: reverse<<<1, n, n * sizeof(int)>>>(x);

#include "check.h"

constexpr int n = 256;

__global__ void reverse(int* x)
{
    extern __shared__ int shared[];
    const int t = threadIdx.x;
    shared[t] = x[t];
    __syncthreads();
    x[t] = shared[n - 1 - t];
}

int main()
{
    int* x;
    CHECK(cudaMallocManaged(&x, n * sizeof(int)));
    for (int i = 0; i < n; ++i)
        x[i] = i;
    reverse<<<1, n, n>>>(x);               // MISTAKE: shared memory is counted in bytes
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && x[i] == n - 1 - i;
    CHECK(cudaFree(x));
    return verdict(right);
}
