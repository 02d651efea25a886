// A thread waits in a loop for another thread of its block.
//
// tool:      plain run
// message:   still runs after \d+ seconds
// line:      CHECK(cudaDeviceSynchronize
// corrected: __syncthreads();

#include "check.h"

__global__ void hand_over(volatile int* flag, int* result)
{
    if (threadIdx.x == 63) {
        *result = 7;
        *flag = 1;
    }
    while (*flag == 0) {}                  // MISTAKE: the thread that sets the flag may never run
    if (threadIdx.x == 0)
        *result += 1;
}

int main()
{
    int *flag, *result;
    CHECK(cudaMallocManaged(&flag, sizeof(int)));
    CHECK(cudaMallocManaged(&result, sizeof(int)));
    *flag = 0;
    hand_over<<<1, 64>>>(flag, result);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = *result == 8;
    CHECK(cudaFree(flag));
    CHECK(cudaFree(result));
    return verdict(right);
}
