// A test that lets one thread too many through.
//
// sees:      PASS
// tool:      --asan
// message:   heap-buffer-overflow
// line:      x[i] *= 2
// corrected: if (i < n)

#include "check.h"

__global__ void twice(int* x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)                            // MISTAKE: the last element is n - 1
        x[i] *= 2;
}

int main()
{
    const int n = 1000;
    int* x;
    CHECK(cudaMalloc(&x, n * sizeof(int)));
    CHECK(cudaMemset(x, 1, n * sizeof(int)));
    twice<<<(n + 255) / 256, 256>>>(x, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int last;
    CHECK(cudaMemcpy(&last, x + n - 1, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == 0x02020202);
}
