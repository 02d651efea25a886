// One half of a warp waits at a barrier for the other, which waits for the first in a shuffle.
//
// tool:      plain run
// message:   16 threads at __syncthreads.*16 threads at __shfl_xor_sync\(\) on line \d+
// line:      MISTAKE
// corrected: __syncthreads();

#include "check.h"

__global__ void mirror(int* x)
{
    __shared__ int shared[32];
    const int t = threadIdx.x;
    shared[t] = x[t];
    if (t < 16) __syncthreads();           // MISTAKE: the others go on to the shuffle
    const int mirrored = shared[31 - t];
    x[t] = __shfl_xor_sync(0xffffffff, mirrored, 1);
}

int main()
{
    int* x;
    CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
    for (int i = 0; i < 32; ++i)
        x[i] = i;
    mirror<<<1, 32>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < 32; ++i)
        right = right && x[i] == 31 - (i ^ 1);
    CHECK(cudaFree(x));
    return verdict(right);
}
