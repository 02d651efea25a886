// # Vector add: one thread, then many
//
// `C = A + B`, element by element, is the smallest whole CUDA program. We write it for the CPU and
// in two ways for the GPU, compare, and time. `nvcc` is CUDA's compiler; `native` means your GPU.
//
// ```sh
// nvcc -arch=native vector_add.cu -o vector_add && ./vector_add
// ```

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// ## Why a second kind of processor
//
// A sports car takes two people across town in ten minutes. A bus takes fifty people, in twenty
// minutes. The car has the lower *latency*, the time until one job is done. The bus has the
// higher *throughput*, the number of jobs done in an hour.
//
// A CPU core is built for latency. Most of its transistors keep one sequence of instructions
// from waiting: large caches, guesses at what comes next, work begun ahead of its turn. A GPU
// is built for throughput. Its transistors go to arithmetic, and to holding thousands of such
// sequences ready, so that some compute while others wait for memory. Alone, each is slow. So
// a GPU suits work that is a great many small jobs, none of which needs another's result.
//
// ## On the CPU
//
// Adding two vectors is such work: no element needs the sum of any other.

void vector_add_cpu(size_t n, const float* a, const float* b, float* c)
{
    for (size_t i = 0; i < n; ++i)
        c[i] = a[i] + b[i];
}

// ## The same loop on the GPU
//
// The CPU and its memory are the *host*, the GPU and its memory the *device*. A function
// marked `__global__` is a *kernel*: the host starts it, the device runs it. Each run through
// its body is a *thread*. Our first kernel is for one thread, which does the whole loop.

__global__ void add_one_thread(size_t n, const float* a, const float* b, float* c)
{
    for (size_t i = 0; i < n; ++i)
        c[i] = a[i] + b[i];
}

// ## A thread for each element
//
// In the second kernel the loop is gone. The host starts as many threads as there are
// elements. They form a *block*, in which each has a number, `threadIdx.x`, counted from 0.
// All run the same code; their number alone tells them which element is theirs.

__global__ void add_one_block(const float* a, const float* b, float* c)
{
    c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

// ## There and back
//
// Host and device have memories of their own. A pointer from `malloc` or `std::vector` is an
// address in the host's, where a kernel generally cannot go: the inputs are copied over and
// the result is copied back. Names of device memory begin with `d_`.
//
// The call of a kernel is a *launch*: `<<<1, n>>>` asks for one block of n threads. First we
// fill the result with bytes of 0xFF, which read as NaN, *not a number*: an element that no
// thread writes cannot pass for one that was computed. Nearly every CUDA call returns a code;
// `CUDA_CHECK` (like all helpers, under *Plumbing* at the end) stops at the first failure.

#define CUDA_CHECK(call) check_cuda(call, #call, __FILE__, __LINE__)
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

void vector_add_gpu(bool one_block, size_t n, const float* a, const float* b, float* c)
{
    if (n == 0)
        return;                            // a block of no threads is an error
    const size_t bytes = n * sizeof(float);
    float *d_a, *d_b, *d_c;
    CUDA_CHECK(cudaMalloc(&d_a, bytes));
    CUDA_CHECK(cudaMalloc(&d_b, bytes));
    CUDA_CHECK(cudaMalloc(&d_c, bytes));
    CUDA_CHECK(cudaMemcpy(d_a, a, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, b, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_c, 0xFF, bytes));

    if (one_block)
        add_one_block<<<1, n>>>(d_a, d_b, d_c);
    else
        add_one_thread<<<1, 1>>>(n, d_a, d_b, d_c);
    CUDA_CHECK(cudaGetLastError());        // was the launch allowed?
    CUDA_CHECK(cudaDeviceSynchronize());   // did the kernel end well?

    CUDA_CHECK(cudaMemcpy(c, d_c, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));
}

// A launch only asks: it returns at once, and the kernel runs later. `cudaDeviceSynchronize` waits
// until all that was asked is done. The result does not need it: the device works in order unless
// told otherwise, so the copy back begins when the kernel has ended, and returns when `c` is full.
// We wait so that a failure shows here, not in the next call. To take the time we must wait too.
//
// ## Do they agree?
//
// To the last bit: both sides round the sum of two floats once, by the same rule. The inputs
// are never 0 and repeat with different periods, so that a wrong index rarely gives the right sum.

float a_at(size_t i) { return (i % 1009 + 1) / 1009.0f; }
float b_at(size_t i) { return (i % 997 + 1) / 997.0f; }

bool read_sizes(int argc, char** argv, std::initializer_list<size_t*> sizes);
int usage(const char* program, const char* arguments);
void require_memory(double bytes);
bool agree(const char* what, const std::vector<float>& gpu, const std::vector<float>& cpu,
           float tolerance);

#ifndef BENCHMARKS

int main(int argc, char** argv)
{
    size_t n = 1000;
    if (argc > 1 && !read_sizes(argc, argv, {&n}))
        return usage(argv[0], "[n]");
    require_memory(4.0 * n * sizeof(float));

    std::vector<float> a(n), b(n), cpu(n), gpu(n);
    for (size_t i = 0; i < n; ++i) {
        a[i] = a_at(i);
        b[i] = b_at(i);
    }
    vector_add_cpu(n, a.data(), b.data(), cpu.data());
    cudaDeviceProp device;
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("C = A + B, vectors of %zu bytes, on %s\n", n * sizeof(float), device.name);
    for (const bool one_block : {false, true}) {
        if (one_block && n > 1024) {
            std::puts("one block     left out: a block has at most 1024 threads");
            break;
        }
        gpu.assign(n, NAN);
        vector_add_gpu(one_block, n, a.data(), b.data(), gpu.data());
        if (!agree(one_block ? "one block" : "one thread", gpu, cpu, 0))
            return EXIT_FAILURE;
    }
    std::puts("PASS");
}

#else

// ## How fast?
//
// Built with `-DBENCHMARKS`, the same file is a Google Benchmark program:
//
// ```sh
// nvcc -O3 -arch=native -DBENCHMARKS vector_add.cu -o vector_add_bench -lbenchmark
// ./vector_add_bench
// ```
//
// A clock on the CPU would time the asking and not the work. Two *events*, which the
// device records before and after, time the work. Recording them takes a few microseconds by
// itself, so they enclose not one launch but a batch. Google Benchmark counts a batch as
// that many iterations. It wants the same number in every repetition, so the batch is fixed.

#include <algorithm>
#include <benchmark/benchmark.h>

template <typename Launch>
void time_on_gpu(benchmark::State& state, int batch, Launch launch)
{
    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    launch();                              // the first launch also loads the kernel
    CUDA_CHECK(cudaGetLastError());
    while (state.KeepRunningBatch(batch)) {
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < batch; ++i)
            launch();
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        float milliseconds = 0;
        CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
        state.SetIterationTime(milliseconds / 1e3);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// Google Benchmark calls each function anew for every trial and every repetition, so the inputs
// are made once, at the largest size, and shared. The largest is what one GPU thread gets
// through in about a hundredth of a second.

constexpr size_t smallest = 1 << 4, largest_block = 1 << 10, largest = 1 << 18;

struct Vectors {
    std::vector<float> a, b, c;

    Vectors() : a(largest), b(largest), c(largest)
    {
        for (size_t i = 0; i < largest; ++i) {
            a[i] = a_at(i);
            b[i] = b_at(i);
        }
    }
};

Vectors& host()
{
    static Vectors vectors;
    return vectors;
}

struct DeviceVectors {
    float *a, *b, *c;

    explicit DeviceVectors(size_t n)
    {
        const size_t bytes = n * sizeof(float);
        CUDA_CHECK(cudaMalloc(&a, bytes));
        CUDA_CHECK(cudaMalloc(&b, bytes));
        CUDA_CHECK(cudaMalloc(&c, bytes));
        CUDA_CHECK(cudaMemcpy(a, host().a.data(), bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(b, host().b.data(), bytes, cudaMemcpyHostToDevice));
    }
    ~DeviceVectors()
    {
        CUDA_CHECK(cudaFree(a));
        CUDA_CHECK(cudaFree(b));
        CUDA_CHECK(cudaFree(c));
    }
};

// Bytes per second count two vectors read and one written, for CPU and GPU alike. `DoNotOptimize`
// and `ClobberMemory` keep the compiler from dropping sums that nobody reads.

void report(benchmark::State& state, size_t vectors = 3)
{
    state.SetBytesProcessed(state.iterations() * state.range(0) * vectors * sizeof(float));
}

void cpu_one_thread(benchmark::State& state)
{
    Vectors& v = host();
    for (auto _ : state) {
        vector_add_cpu(state.range(0), v.a.data(), v.b.data(), v.c.data());
        benchmark::DoNotOptimize(v.c.data());
        benchmark::ClobberMemory();
    }
    report(state);
}

void gpu_one_thread(benchmark::State& state)
{
    const size_t n = state.range(0);
    const DeviceVectors d(n);
    const int batch = std::clamp<size_t>(8192 / n, 1, 256);
    time_on_gpu(state, batch, [&] { add_one_thread<<<1, 1>>>(n, d.a, d.b, d.c); });
    report(state);
}

void gpu_one_block(benchmark::State& state)
{
    const size_t n = state.range(0);
    const DeviceVectors d(n);
    time_on_gpu(state, 256, [&] { add_one_block<<<1, n>>>(d.a, d.b, d.c); });
    report(state);
}

// The whole trip, from host memory to host memory, allocation apart.

void gpu_one_block_with_transfers(benchmark::State& state)
{
    const size_t n = state.range(0), bytes = n * sizeof(float);
    const DeviceVectors d(n);
    for (auto _ : state) {
        CUDA_CHECK(cudaMemcpy(d.a, host().a.data(), bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(d.b, host().b.data(), bytes, cudaMemcpyHostToDevice));
        add_one_block<<<1, n>>>(d.a, d.b, d.c);
        CUDA_CHECK(cudaMemcpy(host().c.data(), d.c, bytes, cudaMemcpyDeviceToHost));
    }
    CUDA_CHECK(cudaGetLastError());
    report(state);
}

// For comparison, a copy inside the device's memory. It reads one vector, writes one and
// computes nothing.

void gpu_copy_ceiling(benchmark::State& state)
{
    const size_t n = state.range(0);
    const DeviceVectors d(n);
    time_on_gpu(state, 256, [&] {
        CUDA_CHECK(cudaMemcpyAsync(d.c, d.a, n * sizeof(float), cudaMemcpyDeviceToDevice));
    });
    report(state, 2);
}

BENCHMARK(cpu_one_thread)
    ->RangeMultiplier(4)->Range(smallest, largest)->MinTime(0.1);
BENCHMARK(gpu_one_thread)
    ->RangeMultiplier(4)->Range(smallest, largest)->MinTime(0.1)->UseManualTime();
BENCHMARK(gpu_one_block)
    ->RangeMultiplier(4)->Range(smallest, largest_block)->MinTime(0.1)->UseManualTime();
BENCHMARK(gpu_one_block_with_transfers)
    ->RangeMultiplier(4)->Range(smallest, largest_block)->MinTime(0.1)->UseRealTime();
BENCHMARK(gpu_copy_ceiling)
    ->RangeMultiplier(4)->Range(smallest, largest)->MinTime(0.1)->UseManualTime();
BENCHMARK_MAIN();

// ## Why the GPU lost
//
// With 1024 elements, on an H200 and one core of its host:
//
// | | µs |
// |---|---:|
// | CPU | 0.13 |
// | GPU, one thread | 46 |
// | GPU, one block | 4.7 |
// | GPU, one block, with the copies | 28 |
//
// *One thread* is the bus with a single passenger. It adds one pair, waits for memory, adds
// the next, and nobody uses the time in between.
//
// *One block* has 1024 threads, which wait at the same time. 1024 elements take it 4.7 µs and 16
// elements 3.9: nearly all of that is the launch.
//
// *The copies* cost more than the kernel, and more than the CPU needs for everything. Whoever
// sends two numbers over and fetches one back should do more with them than add.
//
// ## Questions
//
// ### What if the size is not a multiple of the block?
//
// Here our block fits, since it gets a thread for each element. Where the size of a block is
// fixed, the last block sticks out past the end of the vector. Its threads there must do
// nothing, so each asks first: `if (i < n)`. Chapter 3 needs that, and so do the chapters after
// it.
//
// ### What is a grid-stride loop?
//
// The middle way between our two kernels: a loop that many threads share. Each begins at its own
// element and goes on by as many elements as there are threads. The first two questions below
// build one for a block. Chapter 3 does it for many.
//
// ## Try it
//
// Predict first, then change the line, and run.
//
// 1. Launch `add_one_thread` with `<<<1, 32>>>` instead of `<<<1, 1>>>`. What does the program
//    print?
//
//    *Answer:* the same as before, PASS and all. The loop does not divide itself by 32. Each of
//    the 32 threads runs all of it and writes the same sums to the same places: 32,000 additions
//    for 1000 results. A kernel says what *one* thread does.
//
// 2. Leave the 32 threads, and make them share: let the loop of `add_one_thread` begin at
//    `threadIdx.x` and go on by `blockDim.x`, the number of threads in the block. 32 does not
//    divide 1000. Is the end of the vector right?
//
//    *Answer:* yes, PASS. Threads 0 to 7 take 32 elements each and the others 31, because each
//    asks `i < n` before every element. Now there are 1000 additions, and any number of threads
//    is right for any n.
//
// 3. Launch `add_one_block` with `(a, b, c)`, the pointers to the host's memory, instead of
//    `(d_a, d_b, d_c)`. Does the compiler object? Does the launch? Where does it fail?
//
//    *Answer:* the compiler has nothing against it. `float*` does not say whose memory it means.
//    Nor is the launch refused. The kernel fails when it runs, and the check around
//    `cudaDeviceSynchronize` says `cudaErrorIllegalAddress`. (The CPU device, which stands in for a
//    GPU, adds which argument it was. Where a GPU can use all of the host's memory, the kernel
//    works. Then the copy back puts NaN over its sums, and the program ends with FAIL.)
//
// ## What comes next
//
// So give the GPU more work: more elements, and a thread for each. But our block ends at
// 1024 threads. What happens if we just ask for more? Nothing at all, it seems, and that is
// where chapter 2 begins.

#endif

// ## Plumbing
//
// Helpers that several chapters need. Their text is the same in each, so that every file can be
// copied on its own.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <unistd.h>

void check_cuda(cudaError_t status, const char* call, const char* file, int line)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "%s:%d: %s: %s\n    %s\n", file, line, cudaGetErrorName(status),
                 cudaGetErrorString(status), call);
    size_t free = 0, total = 0;
    if (status == cudaErrorMemoryAllocation && cudaMemGetInfo(&free, &total) == cudaSuccess)
        std::fprintf(stderr, "    the device has %zu bytes, %zu of them free\n", total, free);
    std::exit(EXIT_FAILURE);
}

// True when the arguments are exactly these sizes: decimal digits and nothing else.

bool read_sizes(int argc, char** argv, std::initializer_list<size_t*> sizes)
{
    if (argc - 1 != int(sizes.size()))
        return false;
    for (size_t* size : sizes) {
        const char* const text = *++argv;
        const char* const end = text + std::strlen(text);
        const auto [stop, error] = std::from_chars(text, end, *size);
        if (error != std::errc() || stop != end)
            return false;
    }
    return true;
}

int usage(const char* program, const char* arguments)
{
    std::fprintf(stderr, "usage: %s %s   (sizes in decimal digits)\n", program, arguments);
    return 2;
}

// Linux promises memory that it does not have and kills the program that uses it, so we
// ask before we fill it. The limit is the memory installed, or less where the program runs
// in a control group (a container, say): it and each of its parents may set a lower one.

void require_memory(double bytes)
{
    std::set_new_handler([] {                             // for limits of other kinds (ulimit -v)
        std::puts("FAIL: there is no host memory left");
        std::exit(EXIT_FAILURE);
    });
    double limit = double(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    std::ifstream groups("/proc/self/cgroup");            // lines of "number:controllers:/path"
    for (std::string line; std::getline(groups, line);) {
        std::string path = line.substr(line.find(':', line.find(':') + 1) + 1);
        for (bool root = false; !root; path.resize(root ? 0 : path.rfind('/'))) {
            root = path.empty();
            double group;
            if (std::ifstream("/sys/fs/cgroup" + path + "/memory.max") >> group)
                limit = std::min(limit, group);
            if (std::ifstream("/sys/fs/cgroup/memory" + path + "/memory.limit_in_bytes") >> group)
                limit = std::min(limit, group);
        }
    }
    if (bytes <= 0.9 * limit)
        return;
    std::printf("FAIL: needs %.1f GB of host memory, and there are %.1f GB\n", bytes / 1e9,
                limit / 1e9);
    std::exit(EXIT_FAILURE);
}

// Prints the largest difference, or the first that is too large. The comparison asks
// whether a difference is *not within* the tolerance rather than whether it is beyond,
// because a NaN is neither.

bool agree(const char* what, const std::vector<float>& gpu, const std::vector<float>& cpu,
           float tolerance)
{
    float largest = 0;
    for (size_t i = 0; i < cpu.size(); ++i) {
        const float difference = std::fabs(gpu[i] - cpu[i]);
        if (!(difference <= tolerance)) {
            std::printf("FAIL: %s: element %zu: GPU %.9g, CPU %.9g\n", what, i, gpu[i], cpu[i]);
            return false;
        }
        largest = std::max(largest, difference);
    }
    std::printf("%-13s largest difference from the CPU: %g (allowed: %g)\n", what, largest,
                tolerance);
    return true;
}
