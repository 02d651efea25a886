// What only a GPU can run stands under a macro that only nvcc defines, and is left alone.

#include <cstdio>

int failures = 0;

void expect(int line, bool right)
{
    if (!right) {
        std::printf("line %d is wrong\n", line);
        ++failures;
    }
}

__global__ void store(int* p, int value) { *p = value; }

#ifdef __CUDACC__
__device__ unsigned lane()
{
    unsigned id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id));
    return id;
}
#define ON_GPU 1
#else
__device__ unsigned lane() { return threadIdx.x % 32; }
#define ON_GPU 0
#endif

#if defined(__CUDACC__) && __has_include(<cublas_v2.h>)
void nothing() { store<<<1, 1>>>(nullptr, 0); asm(""); }
#endif

#if !defined(__CUDACC__)
void store_on_cpu(int* p, int value) { store<<<1, 1>>>(p, value); }
#elif __CUDACC_VER_MAJOR__ >= 12
void store_on_cpu(int* p, int value) { asm(""); store<<<1, 1>>>(p, value); }
#else
#error "too old"
#endif

#ifndef __CUDACC__
#define LAUNCH(kernel, ...) kernel<<<1, 1>>>(__VA_ARGS__)
#else
#define LAUNCH(kernel, ...) do { asm(""); kernel<<<1, 1>>>(__VA_ARGS__); } while (0)
#endif

// Two heads for one body: the bracket opens once.
#ifdef SOME_FLAG
__global__ void two_heads(int* p, long value) {
#else
__global__ void two_heads(int* p, int value) {
#endif
    extern __shared__ int s[];
    s[0] = value;
    *p = s[0];
}

__global__ void by_architecture(int* p)
{
    int path = 0;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.fence.sync.aligned;");
    path = 1;
#endif
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;");
    path = 2;
#elif defined(__CUDA_ARCH__)
    asm volatile("membar.gl;");
    path = 3;
#endif
#if defined(SOME_FLAG) && (defined __CUDA_ARCH__ || 0)
    asm volatile("trap;");
#endif
#if (__CUDA_ARCH__ > 0) && (__CUDA_ARCH__ < 1300 || SOME_FLAG)
#if 1
    asm volatile("");   // nested
#endif
#endif
#if !(defined(__CUDA_ARCH__))
    path = 4;
#endif
#if __CUDA_ARCH__ < 700
    path += 10;
#else
    asm volatile("");
#endif
#if 0
    asm volatile("nobody assembles this");
#elif 1
    path += 100;
#else
    asm volatile("nor this");
#endif
    *p = path;
}

#ifdef __CUDACC__
#if 1
#define NESTED asm("")
#endif
#endif

// One launch in pieces
void pieces(int* p)
{
    store<<<1,
#ifdef SOME_FLAG
            2
#else
            1
#endif
    >>>(p,
#if ON_GPU
        5
#else
        6
#endif
    );
}

__global__ void lanes(int* p) { p[threadIdx.x] = int(lane()); }

int main()
{
    int* d;
    int found[64] = {};
    const auto value = [&] {
        const bool fine = cudaMemcpy(found, d, sizeof found, cudaMemcpyDeviceToHost) == cudaSuccess;
        return fine ? found[0] : -1;
    };
    cudaMalloc(&d, sizeof found);
    cudaMemset(d, 0, sizeof found);
    store_on_cpu(d, 1);
    expect(__LINE__, value() == 1);
    LAUNCH(store, d, 2);
    expect(__LINE__, value() == 2);
    two_heads<<<1, 1, sizeof(int)>>>(d, 3);
    expect(__LINE__, value() == 3);
    by_architecture<<<1, 1>>>(d);
    expect(__LINE__, ON_GPU || value() == 114);
    pieces(d);
    expect(__LINE__, value() == (ON_GPU ? 5 : 6));
    lanes<<<1, 64>>>(d);
    expect(__LINE__, value() == 0 && found[33] == 1);
    cudaFree(d);
    std::puts(failures ? "FAIL: some line is wrong" : "PASS");
    return failures != 0;
}
