// The host reads the target of an asynchronous copy too early.
//
// tool:      plain run
// message:   FAIL: wrong result
// corrected: CHECK(cudaStreamSynchronize(stream));

#include "check.h"

__global__ void set(int* x)
{
    *x = 7;
}

int main()
{
    cudaStream_t stream;
    int *d_x, *x;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&d_x, sizeof(int)));
    CHECK(cudaMallocHost(&x, sizeof(int)));
    *x = 0;
    set<<<1, 1, 0, stream>>>(d_x);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(x, d_x, sizeof(int), cudaMemcpyDeviceToHost, stream));
    // MISTAKE: the copy is asked for, not done
    const bool right = *x == 7;
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(d_x));
    CHECK(cudaFreeHost(x));
    return verdict(right);
}
