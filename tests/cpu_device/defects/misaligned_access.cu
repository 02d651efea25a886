// Four floats copied at once from an address that is no multiple of 16 bytes.
//
// sees:      cudaErrorMisalignedAddress
// tool:      --asan
// message:   misaligned address
// line:      four = x[threadIdx.x]
// corrected: copy<<<1, 4>>>(reinterpret_cast<float4*>(x + 4), y);

#include "check.h"

__global__ void copy(const float4* x, float4* y)
{
    const float4& four = x[threadIdx.x];
    y[threadIdx.x] = four;
}

int main()
{
    float* x;
    float4* y;
    CHECK(cudaMallocManaged(&x, 20 * sizeof(float)));
    CHECK(cudaMallocManaged(&y, 4 * sizeof(float4)));
    for (int i = 0; i < 20; ++i)
        x[i] = float(i);
    copy<<<1, 4>>>(reinterpret_cast<float4*>(x + 1), y);   // MISTAKE: 1 is no multiple of 4
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool right = y[0].x == 4 && y[3].w == 19;
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    return verdict(right);
}
