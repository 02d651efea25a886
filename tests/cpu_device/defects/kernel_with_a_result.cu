// A kernel that returns a value.
//
// sees:      PASS
// tool:      --lint
// message:   kernel function type .* must have void return type
// line:      MISTAKE
// corrected: __global__ void twice(int* x) { x[threadIdx.x] *= 2; }

#include "check.h"

__global__ int twice(int* x) { return x[threadIdx.x] *= 2; }   // MISTAKE: nobody takes the result

int main()
{
    int *x, last;
    CHECK(cudaMalloc(&x, 64 * sizeof(int)));
    CHECK(cudaMemset(x, 1, 64 * sizeof(int)));
    twice<<<1, 64>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&last, x + 63, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == 0x02020202);
}
