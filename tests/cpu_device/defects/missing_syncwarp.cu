// A sum within one warp as old tutorials write it: the lanes of a warp need not run in step.
//
// sees:      FAIL: wrong result
// tool:      --tsan
// message:   data race
// line:      const int other = sums
// corrected: __syncwarp();

#include "check.h"

__global__ void add_up(const int* x, int* total)
{
    __shared__ int sums[64];
    const int lane = threadIdx.x;
    sums[lane] = x[lane];
    sums[lane + 32] = 0;
    for (int step = 16; step > 0; step /= 2) {
        // MISTAKE: the warp does not meet before it reads
        const int other = sums[lane + step];
        __syncwarp();
        sums[lane] += other;
    }
    if (lane == 0)
        *total = sums[0];
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
    const bool right = *total == 32 * 31 / 2;
    CHECK(cudaFree(x));
    CHECK(cudaFree(total));
    return verdict(right);
}
