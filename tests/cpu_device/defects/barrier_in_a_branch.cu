// A barrier that only some threads of the block reach: the others are on their way to the next.
//
// sees:      PASS
// tool:      plain run
// message:   meet at different barriers, on line \d+ and on line \d+
// line:      MISTAKE
// corrected: } __syncthreads(); if (t < 16) {

#include "check.h"

__global__ void shift(int* x)
{
    __shared__ int shared[32];
    const int t = threadIdx.x;
    shared[t] = x[t];
    if (t < 16) {
        __syncthreads();                   // MISTAKE: threads 16 to 31 never come here
        x[t] = shared[t + 16];
    }
    __syncthreads();
    if (t >= 16)
        x[t] = shared[t - 16];
}

int main()
{
    int* x;
    CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
    for (int i = 0; i < 32; ++i)
        x[i] = i;
    shift<<<1, 32>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < 32; ++i)
        right = right && x[i] == (i + 16) % 32;
    CHECK(cudaFree(x));
    return verdict(right);
}
