// A copy whose stated direction is not that of its pointers.
//
// tool:      plain run
// message:   cudaErrorInvalidValue
// line:      MISTAKE
// corrected: CHECK(cudaMemcpy(&x, d_x, sizeof x, cudaMemcpyDeviceToHost));

#include "check.h"

__global__ void set(int* x)
{
    *x = 7;
}

int main()
{
    int *d_x, x = 0;
    CHECK(cudaMalloc(&d_x, sizeof x));
    set<<<1, 1>>>(d_x);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&x, d_x, sizeof x, cudaMemcpyHostToDevice));  // MISTAKE: it goes to the host
    CHECK(cudaFree(d_x));
    return verdict(x == 7);
}
