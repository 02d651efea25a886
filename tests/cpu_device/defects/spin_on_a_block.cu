// A barrier of all blocks made by hand: those that have begun wait for those that have not.
//
// tool:      plain run
// message:   spins until another block has done something: of 64 blocks \d+ have begun
// line:      CHECK(cudaDeviceSynchronize
// corrected: if (atomicAdd(arrived, 1) + 1 < gridDim.x) return;

#include "check.h"

constexpr unsigned blocks = 64;

__global__ void add_up(volatile unsigned* parts, unsigned* arrived, unsigned* total)
{
    parts[blockIdx.x] = blockIdx.x;
    __threadfence();
    for (atomicAdd(arrived, 1); atomicAdd(arrived, 0) < gridDim.x;) {}  // MISTAKE: have all begun?
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i)
        sum += parts[i];
    *total = sum;
}

int main()
{
    unsigned *parts, *numbers;
    CHECK(cudaMallocManaged(&parts, blocks * sizeof(unsigned)));
    CHECK(cudaMallocManaged(&numbers, 2 * sizeof(unsigned)));
    numbers[0] = numbers[1] = 0;
    add_up<<<blocks, 1>>>(parts, &numbers[0], &numbers[1]);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = numbers[1] == blocks * (blocks - 1) / 2;
    CHECK(cudaFree(parts));
    CHECK(cudaFree(numbers));
    return verdict(right);
}
