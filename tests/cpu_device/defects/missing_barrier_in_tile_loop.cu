// A tiled matrix product without its second barrier: the next tile overwrites what some threads
// still have to read.
//
// sees:      FAIL: wrong result
// tool:      --tsan
// message:   data race
// line:      sum += a_tile
// corrected: __syncthreads();

#include "check.h"

constexpr int n = 32, tile = 8;

__global__ void multiply(const int* a, const int* b, int* c)
{
    __shared__ int a_tile[tile][tile], b_tile[tile][tile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int column = blockIdx.x * tile + x, row = blockIdx.y * tile + y;
    int sum = 0;
    for (int k = 0; k < n; k += tile) {
        a_tile[y][x] = a[row * n + k + x];
        b_tile[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < tile; ++i)
            sum += a_tile[y][i] * b_tile[i][x];
        // MISTAKE: nothing keeps a fast thread from loading the next tile
    }
    c[row * n + column] = sum;
}

int main()
{
    int *a, *b, *c;
    CHECK(cudaMallocManaged(&a, n * n * sizeof(int)));
    CHECK(cudaMallocManaged(&b, n * n * sizeof(int)));
    CHECK(cudaMallocManaged(&c, n * n * sizeof(int)));
    for (int i = 0; i < n * n; ++i) {
        a[i] = i % 7;
        b[i] = i % 5;
    }
    multiply<<<dim3(n / tile, n / tile), dim3(tile, tile)>>>(a, b, c);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    bool right = true;
    for (int row = 0; row < n; ++row)
        for (int column = 0; column < n; ++column) {
            int sum = 0;
            for (int k = 0; k < n; ++k)
                sum += a[row * n + k] * b[k * n + column];
            right = right && c[row * n + column] == sum;
        }
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    return verdict(right);
}
