// The ways to declare a variable of the device. The kernel adds them all up, and the host sets and
// reads some of them.

#include <cstdio>
#include <utility>

struct Pair {
    int a, b;
    __host__ __device__ int sum() const { return a + b; }
};

__device__ int counter, numbers[3];
__device__ int one = 1;
static __device__ Pair pair{2, 3};
__constant__ float coefficients[2] = {4, 5};
__device__ __constant__ double both = 6;
int __device__ after_its_type = 7;
__device__ std::pair<int, float> of_template{8, 9};
alignas(16) __device__ float4 aligned, aligned_too[2];
__device__ __align__(16) unsigned long long aligned_later = 10;
namespace nested {
__device__ volatile int flag;
namespace {
__device__ int hidden = 11;
}
}
__device__ int* pointer;

__device__ const int fixed = 12;
__constant__ constexpr int always = 13;
template <class T> __device__ T of_type = T(14);
__managed__ int managed = 15;

__device__ float4 sum_of(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__global__ void add_up()
{
    atomicAdd(&counter, 1);
    if (threadIdx.x != 0)
        return;
    numbers[1] = one + pair.sum() + int(coefficients[0] + coefficients[1] + both)
                 + after_its_type + of_template.first + int(of_template.second)
                 + int(aligned_later) + nested::hidden + fixed + always + of_type<int> + managed;
    aligned = sum_of(make_float4(1, 2, 3, 4), aligned_too[1]);
    nested::flag = 16;
    pointer = &numbers[2];
    *pointer = 17;
}

int failures = 0;

void expect(int line, double value, double right)
{
    if (value != right) {
        std::printf("line %d: %g, not %g\n", line, value, right);
        ++failures;
    }
}
#define EXPECT(value, right) expect(__LINE__, value, right)

int main()
{
    const float4 two[2] = {{1, 1, 1, 1}, {2, 2, 2, 2}};
    const int zero = 0;
    cudaMemcpyToSymbol(counter, &zero, sizeof zero);
    cudaMemcpyToSymbol(aligned_too, two, sizeof two);
    add_up<<<1, 32>>>();
    int count, numbers_read[3], flag;
    float4 sums;
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    cudaMemcpyFromSymbol(numbers_read, numbers, sizeof numbers_read);
    cudaMemcpyFromSymbol(&sums, aligned, sizeof sums);
    cudaMemcpyFromSymbol(&flag, nested::flag, sizeof flag);
    EXPECT(count, 32);
    EXPECT(numbers_read[1], 120);
    EXPECT(numbers_read[2], 17);
    EXPECT(sums.w, 6);
    EXPECT(flag, 16);
    EXPECT(fixed + always, 25);            // what is const the host may read as well

    void* address;
    cudaGetSymbolAddress(&address, counter);
    cudaMemset(address, 0, sizeof count);
    cudaMemcpy(&count, address, sizeof count, cudaMemcpyDeviceToHost);
    EXPECT(count, 0);
    EXPECT(cudaDeviceSynchronize(), cudaSuccess);
    std::puts(failures ? "FAIL: see above" : "PASS");
    return failures != 0;
}
