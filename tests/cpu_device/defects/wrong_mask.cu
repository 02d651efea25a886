// A shuffle among half a warp whose mask names the whole warp.
//
// tool:      plain run
// message:   16 threads at __shfl_down_sync.*16 threads at __syncthreads
// line:      MISTAKE
// corrected: sum += __shfl_down_sync(0x0000ffff, sum, step);

#include "check.h"

__global__ void add_up(const int* x, int* total)
{
    const int lane = threadIdx.x;
    int sum = x[lane];
    if (lane < 16)
        for (int step = 8; step > 0; step /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, step);    // MISTAKE: 16 lanes call
    __syncthreads();
    if (lane == 0)
        *total = sum;
}

int main()
{
    int *x, *total;
    CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
    CHECK(cudaMallocManaged(&total, sizeof(int)));
    for (int i = 0; i < 32; ++i)
        x[i] = i;
    add_up<<<1, 32>>>(x, total);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *total == 16 * 15 / 2;
    CHECK(cudaFree(x));
    CHECK(cudaFree(total));
    return verdict(right);
}
