// A lane calls with a mask in which it is not named.
//
// tool:      plain run
// message:   the mask 0x7fffffff leaves out the lane that gives it
// line:      MISTAKE
// corrected: any[lane] = __any_sync(0xffffffff, x[lane] > 30);

#include "check.h"

__global__ void find(const int* x, int* any)
{
    const int lane = threadIdx.x;
    any[lane] = __any_sync(0x7fffffff, x[lane] > 30);      // MISTAKE: bit 31 is missing
}

int main()
{
    int *x, *any;
    CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
    CHECK(cudaMallocManaged(&any, 32 * sizeof(int)));
    for (int i = 0; i < 32; ++i)
        x[i] = i;
    find<<<1, 32>>>(x, any);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = any[0] && any[31];
    CHECK(cudaFree(x));
    CHECK(cudaFree(any));
    return verdict(right);
}
