// The host uses a variable of the device by its name.
//
// sees:      host code touches total, a __device__ or __constant__ variable
// tool:      --tsan
// message:   ThreadSanitizer: SEGV
// line:      MISTAKE
// corrected: CHECK(cudaMemcpyFromSymbol(&result, total, sizeof result));

#include "check.h"

__device__ int total;

__global__ void add()
{
    atomicAdd(&total, 1);
}

int main()
{
    int result = 0;
    CHECK(cudaMemcpyToSymbol(total, &result, sizeof result));
    add<<<1, 64>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    result = total;                        // MISTAKE: the host has a variable of its own there
    return verdict(result == 64);
}
