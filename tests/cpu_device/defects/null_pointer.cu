// The allocation stores its pointer in a variable of its own.
//
// sees:      uses a null pointer
// tool:      --asan
// message:   store to null pointer|AddressSanitizer: SEGV
// line:      x[threadIdx.x] = 7
// corrected: CHECK(cudaMalloc(&x, n * sizeof(int)));

#include "check.h"

constexpr int n = 64;

__global__ void fill(int* x)
{
    x[threadIdx.x] = 7;
}

int main()
{
    int *x = nullptr, *y = nullptr;
    CHECK(cudaMalloc(&y, n * sizeof(int)));        // MISTAKE: y where x is meant
    fill<<<1, n>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int last;
    CHECK(cudaMemcpy(&last, x + n - 1, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    return verdict(last == 7);
}
