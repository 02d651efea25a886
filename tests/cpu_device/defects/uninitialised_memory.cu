// Counters in fresh device memory, taken to be zero.
//
// tool:      plain run
// message:   FAIL: wrong result
// corrected: CHECK(cudaMemset(counts, 0, 8 * sizeof(int)));

#include "check.h"

__global__ void count(int* counts)
{
    atomicAdd(&counts[threadIdx.x % 8], 1);
}

int main()
{
    int* counts;
    CHECK(cudaMalloc(&counts, 8 * sizeof(int)));
    // MISTAKE: cudaMalloc does not clear what it hands out
    count<<<1, 256>>>(counts);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int first;
    CHECK(cudaMemcpy(&first, counts, sizeof first, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(counts));
    return verdict(first == 32);
}
