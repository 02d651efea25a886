// Rows and columns swapped in an index: most of it lies far outside of the matrix.
//
// sees:      uses byte 4194304 of the buffer of 4194304 bytes that argument 1 points to
// tool:      --asan
// message:   heap-buffer-overflow
// line:      MISTAKE
// corrected: x[row * columns + column] = row;

#include "check.h"

constexpr int rows = 16, columns = 65536;

__global__ void fill(int* x)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    x[column * columns + row] = row;       // MISTAKE: the row number counts whole rows
}

int main()
{
    int* x;
    CHECK(cudaMalloc(&x, rows * columns * sizeof(int)));
    fill<<<dim3(columns / 256, rows), 256>>>(x);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int last;
    CHECK(cudaMemcpy(&last, x + rows * columns - 1, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    return verdict(last == rows - 1);
}
