// An assertion in a kernel names the thread for which it does not hold.
//
// tool:      plain run
// message:   block: \[0,0,0\], thread: \[63,0,0\] Assertion `x\[t\] < 63` failed
// line:      assert(x[t] < 63)
// corrected: h_x[i] = i % 63;

#include "check.h"
#include <cassert>

constexpr int n = 64;

__global__ void inspect(const int* x)
{
    const int t = threadIdx.x;
    assert(x[t] < 63);
}

int main()
{
    int *x, h_x[n];
    for (int i = 0; i < n; ++i)
        h_x[i] = i;                        // MISTAKE: the last one is 63
    CHECK(cudaMalloc(&x, n * sizeof(int)));
    CHECK(cudaMemcpy(x, h_x, sizeof h_x, cudaMemcpyHostToDevice));
    inspect<<<1, n>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(x));
    return verdict(true);
}
