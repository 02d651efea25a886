// A kernel called like a function, without a launch.
//
// sees:      killed by SIGSEGV
// tool:      --lint
// message:   call to global function 'fill' not configured
// line:      MISTAKE
// corrected: fill<<<1, 64>>>(x);

#include "check.h"

__global__ void fill(int* x)
{
    x[threadIdx.x] = 7;
}

int main()
{
    int *x, last;
    CHECK(cudaMalloc(&x, 64 * sizeof(int)));
    fill(x);                               // MISTAKE: how many threads?
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&last, x + 63, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == 7);
}
