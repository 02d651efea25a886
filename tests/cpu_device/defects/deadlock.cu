// One half of a warp waits at a barrier for the other, which waits for the first in a shuffle.
//
// tool:      plain run
// message:   16 threads at __syncthreads.*16 threads at __shfl_xor_sync
// line:      MISTAKE
// corrected: const int other = __shfl_xor_sync(0xffff0000, x[t], 1);

#include "check.h"

__global__ void exchange(int* x)
{
    __shared__ int shared[16];
    const int t = threadIdx.x;
    if (t < 16) {
        shared[t] = x[t];
        __syncthreads();
        x[t] = shared[15 - t];
    } else {
        const int other = __shfl_xor_sync(0xffffffff, x[t], 1);    // MISTAKE: 16 are elsewhere
        x[t] = other;
    }
}

int main()
{
    int* x;
    CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
    for (int i = 0; i < 32; ++i)
        x[i] = i;
    exchange<<<1, 32>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = x[0] == 15 && x[16] == 17;
    CHECK(cudaFree(x));
    return verdict(right);
}
