// The number of blocks is rounded up, and the threads past the end work all the same.
//
// sees:      PASS
// tool:      --asan
// message:   heap-buffer-overflow
// line:      MISTAKE
// corrected: if (i < n) x[i] = n - i;

#include "check.h"

__global__ void count_down(int* x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = n - i;                          // MISTAKE: i < n is never asked
}

int main()
{
    const int n = 1000;
    int* x;
    CHECK(cudaMalloc(&x, n * sizeof(int)));
    count_down<<<(n + 255) / 256, 256>>>(x, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int last;
    CHECK(cudaMemcpy(&last, x + n - 1, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == 1);
}
