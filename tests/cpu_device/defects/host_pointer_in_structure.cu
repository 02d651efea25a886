// A structure takes a pointer to memory of the host into a kernel.
//
// sees:      PASS
// tool:      --asan
// message:   a pointer in argument 1 leads to memory of the host
// line:      v.x[threadIdx.x] =
// corrected: const Vector v{x, n, &host};

#include <vector>

#include "check.h"

constexpr int n = 64;

struct Vector {
    int* x;
    int size;
    const void* owner;                     // for the host, which may well be there
};

__global__ void fill(Vector v)
{
    if (threadIdx.x < v.size)
        v.x[threadIdx.x] = 7;
}

int main()
{
    std::vector<int> host(n);
    int* x;
    CHECK(cudaMallocManaged(&x, n * sizeof(int)));
    const Vector v{host.data(), n, &host};  // MISTAKE: the pointer is the host's
    fill<<<1, n>>>(v);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && v.x[i] == 7;
    CHECK(cudaFree(x));
    return verdict(right);
}
