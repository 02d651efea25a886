// The ways to declare shared memory. Every kernel reverses a block's numbers through it.

#include <cstdio>

constexpr int n = 64;
int failures = 0;

extern __shared__ int of_file[];
extern __shared__ float of_file_pairs[][2];
namespace nested {
extern __shared__ __align__(16) unsigned char bytes[];
}

#define REVERSE(write, read)                   \
    const int i = threadIdx.x, j = n - 1 - i;  \
    write = p[i];                              \
    __syncthreads();                           \
    p[i] = read

__global__ void in_function(int* p)
{
    extern __shared__ int s[];
    REVERSE(s[i], s[j]);
}
__global__ void aligned(int* p)
{
    extern __shared__ __align__(16) int s[];
    REVERSE(s[i], s[j]);
}
__global__ void aligned_first(int* p)
{
    extern __align__(16) __shared__ int s[];
    REVERSE(s[i], s[j]);
}
__global__ void aligned_by_cpp(int* p)
{
    alignas(double) extern __shared__ unsigned char bytes_of_s[];
    int* const s = reinterpret_cast<int*>(bytes_of_s);
    REVERSE(s[i], s[j]);
}
__global__ void of_many_words(int* p)
{
    extern __shared__ volatile long long int long_s[];
    REVERSE(long_s[i], int(long_s[j]));
}
__global__ void extern_last(int* p)
{
    __shared__ extern int s [ ];
    REVERSE(s[i], s[j]);
}
__global__ void on_lines(int* p)
{
    extern        // not `__shared__ int t[];`
        __shared__
        int
        s[
        ]
        ; REVERSE(s[i], s[j] + __LINE__ - 58);
}
__global__ void pointers(int* p)
{
    extern __shared__ int* pointers_to_p[];
    const int i = threadIdx.x;
    pointers_to_p[i] = p + i;
    __syncthreads();
    p[i] = int(pointers_to_p[n - 1 - i] - p);
}
__global__ void rows(int* p)
{
    extern __shared__ int halves[][n / 2];
    REVERSE(halves[i / (n / 2)][i % (n / 2)], halves[j / (n / 2)][j % (n / 2)]);
}
__global__ void in_block(int* p)
{
    if (p) {
        extern __shared__ int s[];
        REVERSE(s[i], s[j]);
    }
}
template <class T> struct Pair { T first, second; };
template <class T>
__global__ void dependent(int* p)
{
    extern __shared__ Pair<T> pairs[];
    REVERSE(pairs[i].second, int(pairs[j].second));
}
__device__ int& element(int i)
{
    extern __shared__ int s[];
    return s[i];
}
__global__ void in_device_function(int* p) { REVERSE(element(i), element(j)); }
#define DYNAMIC(type, name) extern __shared__ type name[]
__global__ void in_macro(int* p)
{
    DYNAMIC(int, s);
    REVERSE(s[i], s[j]);
}
__global__ void file_scope(int* p) { REVERSE(of_file[i], *(of_file + j)); }
__global__ void file_scope_pointer(int* p)
{
    int* const s = of_file;
    REVERSE(s[i], s[j]);
}
__global__ void file_scope_cast(int* p)
{
    int* const s = (int*)nested::bytes;
    REVERSE(s[i], s[j]);
}
__global__ void file_scope_rows(int* p)
{
    REVERSE(of_file_pairs[i][1], int(of_file_pairs[j][1]));
}
__global__ void fixed_size(int* p)
{
    __shared__ int s[n];
    REVERSE(s[i], s[j]);
}
__global__ void fixed_size_aligned(int* p)
{
    __shared__ alignas(16) int s[n];
    __shared__ __align__(16) int zeros[n];
    zeros[threadIdx.x] = 0;
    REVERSE(s[i], s[j] + zeros[j]);
}
__global__ void fixed_rows(int* p)
{
    __shared__ int a[2][n / 2], b;
    b = 0;
    REVERSE(a[i / (n / 2)][i % (n / 2)], a[j / (n / 2)][j % (n / 2)] + b);
}
template <int size>
__global__ void fixed_dependent(int* p)
{
    static __shared__ int s[size];
    REVERSE(s[i], s[j]);
}

int main()
{
    int* d;
    cudaMalloc(&d, n * sizeof *d);
    void (*kernels[])(int*) = {
        in_function, aligned, aligned_first, aligned_by_cpp, of_many_words, extern_last, on_lines,
        pointers, rows, in_block, dependent<double>, in_device_function, in_macro, file_scope,
        file_scope_pointer, file_scope_cast, file_scope_rows, fixed_size, fixed_size_aligned,
        fixed_rows, fixed_dependent<n>};
    int number = 0;
    for (auto kernel : kernels) {
        int host[n];
        for (int i = 0; i < n; ++i)
            host[i] = i;
        cudaMemcpy(d, host, sizeof host, cudaMemcpyHostToDevice);
        kernel<<<1, n, n * 16>>>(d);
        const cudaError_t error = cudaMemcpy(host, d, sizeof host, cudaMemcpyDeviceToHost);
        bool right = error == cudaSuccess;
        for (int i = 0; i < n; ++i)
            right = right && host[i] == n - 1 - i;
        if (!right) {
            std::printf("kernel %d: %s\n", number, cudaGetErrorString(error));
            ++failures;
        }
        ++number;
    }
    cudaFree(d);
    std::puts(failures ? "FAIL: some kernel went wrong" : "PASS");
    return failures != 0;
}
