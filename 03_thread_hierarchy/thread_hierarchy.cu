// # Thread hierarchy: vectors of any size
//
// Chapter 2 needed 489 launches for half a million elements, since a block has at most 1024
// threads and each launch had one block. How many threads can a GPU run at once? We ask it. Then
// we give each element of a vector its own thread, in one launch of many blocks, and look at
// which thread runs where. We end with a kernel that keeps the memory as busy as any here can,
// whatever the length of the vector.
//
// ```sh
// nvcc -arch=native thread_hierarchy.cu -o thread_hierarchy && ./thread_hierarchy
// ```

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// ## Thread, warp, block, grid
//
// A GPU is made of *streaming multiprocessors*, SMs for short, a handful in a small one and over
// a hundred in a large one. An SM is to a GPU what a core is to a CPU: it has its own
// arithmetic units, and follows instructions of its own.
//
// All blocks of a launch together are its *grid*. The GPU gives each block to an SM, where it
// stays until its last thread has ended. The SM does not take the threads of a block one by one
// but 32 at a time, numbers 0 to 31, 32 to 63 and so on, and carries out an instruction for all
// 32 at once. Such a group is a *warp*. While one warp waits, for memory say, the SM goes on
// with another that is ready.
//
// ## Ask the device
//
// How many of each are there? The device itself answers, one number to a question.

#define CUDA_CHECK(call) check_cuda(call, #call, __FILE__, __LINE__)
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

int attribute(cudaDeviceAttr which)
{
    int value = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

// *Launched* is not *resident*. A grid may have over two billion blocks along x. The SMs hold
// far fewer threads at a time, the resident ones: each SM takes blocks until it has no more
// places for threads or for blocks, or no room for what threads store. The other blocks wait, and
// when one ends the SM takes the next. So a launch may be larger than the GPU. One of fewer threads
// than can be resident leaves places empty.

size_t resident_threads()
{
    return size_t(attribute(cudaDevAttrMultiProcessorCount)) *
           attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
}

// Two more figures follow from what the device says. One is how many bytes a second its memory
// can move: the memory's clock, times the width of its bus, times two, because each wire of the
// bus carries two bits in each cycle of the clock that CUDA reports.

double bytes_per_second_in_theory()
{
    return 2.0 * (1e3 * attribute(cudaDevAttrMemoryClockRate)) *
           (attribute(cudaDevAttrGlobalMemoryBusWidth) / 8);
}

// The other is how many floating-point operations it can do in a second, in 32 bits (*fp32*).
// Each arithmetic unit can multiply and add once a clock, which counts as two. How many units an
// SM has follows from the *compute capability*, the number of the GPU's architecture. The clock
// is what the runtime reports, the highest one. Under load a GPU may stay below.

int fp32_units_per_sm(int major, int minor)
{
    switch (10 * major + minor) {
    case 75:
    case 80:
        return 64;
    case 86:
    case 89:
    case 90:
        return 128;
    }
    return major == 10 || major == 12 ? 128 : 0;      // 0: not in this table
}

double flops_per_second_in_theory()
{
    const int units = fp32_units_per_sm(attribute(cudaDevAttrComputeCapabilityMajor),
                                        attribute(cudaDevAttrComputeCapabilityMinor));
    return 2.0 * attribute(cudaDevAttrMultiProcessorCount) * units *
           (1e3 * attribute(cudaDevAttrClockRate));    // reported in kHz
}

void print_device(double price);

// NVIDIA's own figures for some well-known cards:
//
// | card | fp32, TFLOP/s | memory, GB/s | FLOP per byte |
// | --- | ---: | ---: | ---: |
// | T4 | 8.1 | 300 | 27 |
// | RTX 3090 | 35.6 | 936 | 38 |
// | RTX 4090 | 82.6 | 1008 | 82 |
// | RTX 5090 | 104.8 | 1792 | 58 |
// | A100 80 GB SXM | 19.5 | 2039 | 10 |
// | H100 SXM | 67 | 3350 | 20 |
// | H200 SXM | 67 | 4800 | 14 |
//
// (NVIDIA's data sheets of the T4, A100, H100 and H200; its white papers *Ampere GA102 GPU
// Architecture*, *Ada GPU Architecture* and *RTX Blackwell GPU Architecture* for the RTX cards.)
// What a card costs changes from week to week. Give the program a price, in any currency, and it
// says what you get for it: `PRICE=1599 ./thread_hierarchy`.

bool read_price(double& price);

// That is theory. How near does a program come? This one multiplies and adds in a chain so long
// that its two visits to the memory do not count. We time it at the end.

constexpr int steps_a_round = 127;

__global__ void multiply_add(int rounds, float factor, float term, float* x)
{
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float value = x[i];
    for (int round = 0; round < rounds; ++round)
        for (int step = 0; step < steps_a_round; ++step)
            value = value * factor + term;
    x[i] = value;
}

// The last column of the table says why we count bytes from here on. Vector addition moves
// twelve bytes for each operation: two floats come in, one goes out. In the time of twelve bytes
// every card above could do more than a hundred operations. Only the memory counts.
//
// ## A thread for each element
//
// On the CPU nothing has changed:

void vector_add_cpu(size_t n, const float* a, const float* b, float* c)
{
    for (size_t i = 0; i < n; ++i)
        c[i] = a[i] + b[i];
}

// On the GPU a thread finds its element by three numbers: its own in the block, `threadIdx.x`;
// its block's in the grid, `blockIdx.x`; and the number of threads in a block, `blockDim.x`. The
// blocks lie end to end over the vector:
//
//     block        0                1                2
//     threadIdx.x  0 1 2 … 255      0 1 2 … 255      0 1 2 … 255
//     i            0 1 2 … 255    256 257 … 511    512 513 … 767
//
// There must be enough blocks for all elements, so the number of blocks is a division that
// rounds *up*. 600 elements with 256 threads a block take 3 blocks, which are 768 threads. The
// last 168 find themselves past the end, and the *guard*, `if (i < n)`, sends them home.
//
// All three numbers have 32 bits, and so has the product of two of them: past 4,294,967,295 it
// starts again at 0. To store it in a `size_t` would not help, since C++ multiplies first and
// widens afterwards. So we make one factor a `size_t` before.

__global__ void add(size_t n, const float* a, const float* b, float* c)
{
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

// The kernels of this chapter have the same parameters, and their launches differ only in how
// many elements a thread takes. A kernel's name stands for its address, as any function's does,
// so one function can launch them all.

using Kernel = void (*)(size_t n, const float* a, const float* b, float* c);

void launch(Kernel kernel, size_t elements_a_thread, unsigned threads_a_block, size_t n,
            const float* d_a, const float* d_b, float* d_c)
{
    const size_t elements_a_block = threads_a_block * elements_a_thread;
    const unsigned blocks = (n + elements_a_block - 1) / elements_a_block;
    kernel<<<blocks, threads_a_block>>>(n, d_a, d_b, d_c);
    CUDA_CHECK(cudaGetLastError());        // was the launch allowed?
}

// ## Who runs where
//
// Each thread can write down who it is. CUDA C++ has no variable for the number of its SM, but
// *PTX* has: `%smid`. PTX is a virtual assembly language, which is translated into a GPU's machine
// code. The `asm` line copies `%smid` to `sm`. A compiler for the GPU defines `__CUDACC__`. Where a
// CPU stands in for the GPU, the picture says that there is no such number.

struct Place {
    unsigned block, thread, warp, sm;
};

constexpr unsigned no_sm = 1'000'000;

__global__ void record_places(size_t n, Place* places)
{
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    unsigned sm = no_sm;
#ifdef __CUDACC__
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
#endif
    if (i < n)
        places[i] = {blockIdx.x, threadIdx.x, threadIdx.x / warpSize, sm};
}

// The program draws what they wrote, for up to 500 elements in blocks of 64 threads: a line for
// each block, a group for each warp, a `#` for each thread with an element and a `.` for each
// that the guard sent home. Which element belongs to which thread follows from the numbers
// alone. Which SM takes a block, and which block goes first, is for the GPU to choose: a kernel
// that needs its blocks in some order is wrong.

bool draw(const std::vector<Place>& places, unsigned threads_a_block);

bool who_runs_where(size_t n)
{
    constexpr unsigned threads = 64;
    const unsigned blocks = (n + threads - 1) / threads;
    std::vector<Place> places(n, {no_sm, no_sm, no_sm, 0});
    Place* d_places;
    CUDA_CHECK(cudaMalloc(&d_places, n * sizeof(Place)));
    CUDA_CHECK(cudaMemset(d_places, 0xFF, n * sizeof(Place)));
    record_places<<<blocks, threads>>>(n, d_places);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(places.data(), d_places, n * sizeof(Place), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_places));
    return draw(places, threads);
}

// ## More elements than threads
//
// Must there be a thread for each element? No: a thread may come back for more. In a
// *grid-stride loop* it starts at its own index and goes on in steps of as many elements as the
// grid has threads, so that neighbours always work on neighbours. Any number of blocks gives
// the right result, even one. As many as can be resident is a good number: no block waits for
// another to end, and what a thread has to prepare it prepares once for many elements. Here it
// has nothing to prepare, and we time whether the loop gains anything all the same.

__global__ void add_grid_stride(size_t n, const float* a, const float* b, float* c)
{
    const size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        c[i] = a[i] + b[i];
}

// ## Bytes in flight
//
// With 2²⁸ elements on an H200, one element a thread moves 0.78 of the bytes per second that the
// best kernel moves. What holds it back?
//
// From the moment a load is asked for until its bytes are there, time passes, and all that time
// the bytes are *in flight*. *Little's law* says how many have to be:
//
//     bytes in flight = bytes a second × seconds that each is on its way
//
// A motorway has the same law: if more cars are to arrive each hour, and none can drive faster,
// then there must be more cars on the road. Two thirds of an H200's 4.8 TB/s would be loads here,
// 3.2. If a load took three quarters of a microsecond, they would need 2.4 MB in flight. The H200
// holds 270,336 threads. With two floats each they ask for 2.2 MB, and not all wait at once: some
// still compute their index, some are about to end, and where a block has ended, time passes until
// the next has started. There is no room for more threads. So each must ask for more.
//
// First, four elements a thread, a block's width apart so that the threads of a warp still read
// neighbours. All loads stand before the first store, and that is the point. In a loop over
// `c[i] = a[i] + b[i]` the compiler may not move a load up past a store: for all it knows, `c`
// overlaps `a`. Each load would wait for the sum before it.

__global__ void add_four(size_t n, const float* a, const float* b, float* c)
{
    const size_t first = size_t(blockIdx.x) * blockDim.x * 4 + threadIdx.x;
    float x[4] = {}, y[4] = {};
    for (int k = 0; k < 4; ++k) {
        const size_t i = first + k * blockDim.x;
        if (i < n) {
            x[k] = a[i];
            y[k] = b[i];
        }
    }
    for (int k = 0; k < 4; ++k) {
        const size_t i = first + k * blockDim.x;
        if (i < n)
            c[i] = x[k] + y[k];
    }
}

// Second, `float4`, a structure of four floats that the GPU loads with one instruction: the same
// bytes for a quarter of the instructions. Two things need care.
//
// *Alignment.* A `float4` must lie at an address that is a multiple of its size, 16 bytes. What
// `cudaMalloc` returns is a multiple of 256, and steps of four floats keep it a multiple of 16.
// Called with `a + 1` the kernel would end with `cudaErrorMisalignedAddress`.
//
// *The tail.* If n is not a multiple of four, one to three elements are left at the end. The first
// thread that does not find four adds them one by one.
//
// How many `float4`s a thread takes is a parameter of the template, known when the loops are
// compiled. We begin with one.

template <int quads>
__global__ void add_float4(size_t n, const float* a, const float* b, float* c)
{
    const size_t first = size_t(blockIdx.x) * blockDim.x * quads + threadIdx.x;
    float4 x[quads] = {}, y[quads] = {};
    for (int k = 0; k < quads; ++k) {
        const size_t i = first + k * blockDim.x;
        if (i < n / 4) {
            x[k] = reinterpret_cast<const float4*>(a)[i];
            y[k] = reinterpret_cast<const float4*>(b)[i];
        }
    }
    for (int k = 0; k < quads; ++k) {
        const size_t i = first + k * blockDim.x;
        if (i < n / 4)
            reinterpret_cast<float4*>(c)[i] = make_float4(x[k].x + y[k].x, x[k].y + y[k].y,
                                                          x[k].z + y[k].z, x[k].w + y[k].w);
        else if (i == n / 4)
            for (size_t tail = 4 * i; tail < n; ++tail)
                c[tail] = a[tail] + b[tail];
    }
}

// ## Do they agree?
//
// To the last bit, as in chapter 1, and from the same inputs. Each kernel runs with several numbers
// of threads a block (past 2²⁸ elements with one of them, or it would take minutes).

float a_at(size_t i) { return (i % 1009 + 1) / 1009.0f; }
float b_at(size_t i) { return (i % 997 + 1) / 997.0f; }

struct Variant {
    const char* name;
    Kernel kernel;
    size_t elements_a_thread;
    std::vector<unsigned> blocks;          // in threads a block
};

std::vector<Variant> variants(size_t n)
{
    const size_t rounds = std::max<size_t>(1, (n + resident_threads() - 1) / resident_threads());
    std::vector<unsigned> sweep = {32, 64, 128, 256, 512, 1024}, two = {96, 256};
    if (n > 1 << 28)
        sweep = two = {256};
    return {{"one element a thread", add, 1, sweep},
            {"a grid-stride loop", add_grid_stride, rounds, two},
            {"four elements a thread", add_four, 4, two},
            {"one float4 a thread", add_float4<1>, 4, sweep},
            {"two float4 a thread", add_float4<2>, 8, two},
            {"four float4 a thread", add_float4<4>, 16, two}};
}

bool read_sizes(int argc, char** argv, std::initializer_list<size_t*> sizes);
int usage(const char* program, const char* arguments);
void require_memory(double bytes);
bool agree(const char* what, const std::vector<float>& gpu, const std::vector<float>& cpu,
           float tolerance);

#ifndef BENCHMARKS

// A vector of more than 2³² floats takes more than 17 GB. `./thread_hierarchy 4294967301` wants
// three of them on the device, but only two on the host (and a minute or two). The
// device has its copies of `a` and `b` before the CPU begins, so the CPU's sums can go where `b`
// was and then the GPU's where `a` was.

bool check_sums(size_t n)
{
    const size_t bytes = n * sizeof(float);
    std::printf("C = A + B, vectors of %zu bytes\n", bytes);
    std::vector<float> a(n), b(n);
    for (size_t i = 0; i < n; ++i) {
        a[i] = a_at(i);
        b[i] = b_at(i);
    }
    float *d_a, *d_b, *d_c;
    CUDA_CHECK(cudaMalloc(&d_a, bytes));
    CUDA_CHECK(cudaMalloc(&d_b, bytes));
    CUDA_CHECK(cudaMalloc(&d_c, bytes));
    CUDA_CHECK(cudaMemcpy(d_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, b.data(), bytes, cudaMemcpyHostToDevice));
    vector_add_cpu(n, a.data(), b.data(), b.data());
    std::vector<float>& gpu = a;
    std::vector<float>& cpu = b;

    for (const Variant& v : variants(n)) {
        for (const unsigned threads : v.blocks) {
            CUDA_CHECK(cudaMemset(d_c, 0xFF, bytes));
            launch(v.kernel, v.elements_a_thread, threads, n, d_a, d_b, d_c);
            CUDA_CHECK(cudaDeviceSynchronize());
            CUDA_CHECK(cudaMemcpy(gpu.data(), d_c, bytes, cudaMemcpyDeviceToHost));
            if (!(gpu == cpu))             // a NaN is equal to nothing
                return agree(v.name, gpu, cpu, 0);
        }
        std::printf("  %-24s equal to the CPU's sums, with blocks of", v.name);
        for (const unsigned threads : v.blocks)
            std::printf(" %u", threads);
        std::puts("");
    }
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));
    return true;
}

bool check_multiply_add(float factor);

int main(int argc, char** argv)
{
    size_t n = 1'000'003;                  // a prime: neither blocks nor float4s divide it
    double price = 0;
    if (argc > 1 && !read_sizes(argc, argv, {&n}))
        return usage(argv[0], "[n]");
    if (!read_price(price))
        return 2;
    require_memory(2.0 * n * sizeof(float));

    print_device(price);
    if (!check_multiply_add(-1) || !check_multiply_add(1))
        return EXIT_FAILURE;
    if (n > 0 && !(who_runs_where(std::min<size_t>(n, 500)) && check_sums(n)))
        return EXIT_FAILURE;               // a grid of no blocks would be an error
    std::puts("PASS");
}

#else

// ## How fast?
//
// ```sh
// FLAGS="-O3 -std=c++17 -arch=native -DBENCHMARKS -Xcompiler -fopenmp"
// nvcc $FLAGS thread_hierarchy.cu -o thread_hierarchy_bench -lbenchmark && ./thread_hierarchy_bench
// ```
//
// As in chapter 1, two events enclose a batch of launches.

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

// The vectors are made once, at the largest size: on the host in memory as `new` returns it, which
// is *pageable*, because the system may move its pages; on the host again in *pinned* memory,
// which the system promises never to move, so that the GPU may fetch from it without the CPU's
// help; and on the device. A device that has no room for the largest size gets the largest that it
// has room for, and the rows beyond say so.

constexpr size_t largest = 1 << 28;

struct Vectors {
    size_t n = 0;
    float *a = nullptr, *b = nullptr, *c = nullptr;
};

const Vectors& pageable()
{
    static const Vectors vectors = [] {
        const Vectors v = {largest, new float[largest], new float[largest], new float[largest]()};
        for (size_t i = 0; i < largest; ++i) {
            v.a[i] = a_at(i);
            v.b[i] = b_at(i);
        }
        return v;
    }();
    return vectors;
}

const Vectors& pinned()
{
    static const Vectors vectors = [] {
        Vectors v = {largest};
        for (float** vector : {&v.a, &v.b, &v.c})
            if (cudaMallocHost(vector, largest * sizeof(float)) != cudaSuccess) {
                cudaGetLastError();
                return Vectors();
            }
        std::copy_n(pageable().a, largest, v.a);
        std::copy_n(pageable().b, largest, v.b);
        return v;
    }();
    return vectors;
}

const Vectors& on_device()
{
    static const Vectors vectors = [] {
        Vectors v = {largest};
        size_t free = 0, total = 0;
        CUDA_CHECK(cudaMemGetInfo(&free, &total));
        while (3.0 * v.n * sizeof(float) > 0.9 * free)
            v.n /= 2;
        const size_t bytes = v.n * sizeof(float);
        for (float** vector : {&v.a, &v.b, &v.c})
            CUDA_CHECK(cudaMalloc(vector, bytes));
        CUDA_CHECK(cudaMemcpy(v.a, pageable().a, bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(v.b, pageable().b, bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(v.c, pageable().b, bytes, cudaMemcpyHostToDevice));
        return v;
    }();
    return vectors;
}

bool has_room(benchmark::State& state, const Vectors& vectors)
{
    if (size_t(state.range(0)) <= vectors.n)
        return true;
    state.SkipWithError("no room for vectors of this size");
    return false;
}

void report(benchmark::State& state)
{
    state.SetBytesProcessed(state.iterations() * state.range(0) * 3 * sizeof(float));
}

// The CPU, with one thread and with all (built with OpenMP, which spreads a loop over them).

void cpu_one_thread(benchmark::State& state)
{
    const Vectors& v = pageable();
    for (auto _ : state) {
        vector_add_cpu(state.range(0), v.a, v.b, v.c);
        benchmark::DoNotOptimize(v.c);
        benchmark::ClobberMemory();
    }
    report(state);
}

#ifdef _OPENMP
void cpu_all_threads(benchmark::State& state)
{
    const size_t n = state.range(0);
    const Vectors& v = pageable();
    for (auto _ : state) {
#pragma omp parallel for
        for (size_t i = 0; i < n; ++i)
            v.c[i] = v.a[i] + v.b[i];
        benchmark::DoNotOptimize(v.c);
        benchmark::ClobberMemory();
    }
    report(state);
}
#endif

// The kernels alone.

void time_add(benchmark::State& state, Kernel kernel, size_t elements_a_thread, unsigned threads)
{
    const Vectors& d = on_device();
    if (!has_room(state, d))
        return;
    const size_t n = state.range(0);
    time_on_gpu(state, std::clamp<size_t>((1 << 29) / n, 1, 256),
                [&] { launch(kernel, elements_a_thread, threads, n, d.a, d.b, d.c); });
    report(state);
}

// Vectors that have just been used are still in the GPU's L2 cache if they fit there, and then the
// cache is timed and not the memory. So the *cold* rows go through 805 MB, vector after vector,
// more than any cache holds, and time that pass. These kernels are so short that the gaps between
// launches count. A *graph*, a list of launches that is recorded once and started as a whole, makes
// the gaps as small as they get. To be recorded, launches go into a *stream*, a queue of work for
// the device: the fourth number of a launch. (The third, here 0, is for another kind of memory.
// Launches without a fourth go to a queue that is always there.)

void time_cold(benchmark::State& state, Kernel kernel, size_t elements_a_thread, unsigned threads)
{
    constexpr size_t pool = 3 << 26;
    const Vectors& d = on_device();
    if (d.n < pool)
        return state.SkipWithError("no room for vectors that no cache holds");
    const size_t n = state.range(0), elements_a_block = elements_a_thread * threads;
    const unsigned blocks = (n + elements_a_block - 1) / elements_a_block;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (float* a = d.a; a + 3 * n <= d.a + pool; a += 3 * n)
        kernel<<<blocks, threads, 0, stream>>>(n, a, a + n, a + 2 * n);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
    time_on_gpu(state, 4, [&] { CUDA_CHECK(cudaGraphLaunch(executable, nullptr)); });
    CUDA_CHECK(cudaGraphExecDestroy(executable));
    CUDA_CHECK(cudaGraphDestroy(graph));
    CUDA_CHECK(cudaStreamDestroy(stream));
    state.SetBytesProcessed(state.iterations() * pool * sizeof(float));
}

void gpu_scalar(benchmark::State& state) { time_add(state, add, 1, 256); }
void gpu_four_scalars(benchmark::State& state) { time_add(state, add_four, 4, 256); }
void gpu_float4(benchmark::State& state) { time_add(state, add_float4<1>, 4, 256); }
void gpu_float4_cold(benchmark::State& state) { time_cold(state, add_float4<1>, 4, 256); }

void gpu_grid_stride(benchmark::State& state)
{
    const size_t threads = resident_threads();
    time_add(state, add_grid_stride, (state.range(0) + threads - 1) / threads, 256);
}

void gpu_scalar_blocks(benchmark::State& state) { time_add(state, add, 1, state.range(1)); }

void gpu_float4_blocks(benchmark::State& state)
{
    time_add(state, add_float4<1>, 4, state.range(1));
}

// What could be reached at best? An addition is next to nothing beside the bytes. So the ceiling
// is `add_float4` itself in several shapes, threads a block and `float4`s a thread, the best of
// them at each size. (`add_four` comes out a fifth of a per cent above it at 2²⁸.)

template <unsigned threads, int quads>
void gpu_ceiling(benchmark::State& state)
{
    time_add(state, add_float4<quads>, 4 * quads, threads);
}

template <unsigned threads, int quads>
void gpu_ceiling_cold(benchmark::State& state)
{
    time_cold(state, add_float4<quads>, 4 * quads, threads);
}

// The whole trip, from host memory to host memory, allocation apart.

void time_trip(benchmark::State& state, const Vectors& host)
{
    const Vectors& d = on_device();
    if (!has_room(state, d) || !has_room(state, host))
        return;
    const size_t n = state.range(0), bytes = n * sizeof(float);
    for (auto _ : state) {
        CUDA_CHECK(cudaMemcpy(d.a, host.a, bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(d.b, host.b, bytes, cudaMemcpyHostToDevice));
        launch(add_float4<1>, 4, 256, n, d.a, d.b, d.c);
        CUDA_CHECK(cudaMemcpy(host.c, d.c, bytes, cudaMemcpyDeviceToHost));
    }
    report(state);
}

void gpu_with_transfers_pageable(benchmark::State& state) { time_trip(state, pageable()); }
void gpu_with_transfers_pinned(benchmark::State& state) { time_trip(state, pinned()); }

// The other ceiling, of arithmetic. Its items are floating-point operations.

void gpu_multiply_add(benchmark::State& state)
{
    constexpr int rounds = 33;
    const size_t threads = resident_threads() / 256 * 256;
    const Vectors& d = on_device();
    time_on_gpu(state, 32, [&] { multiply_add<<<threads / 256, 256>>>(rounds, -1, 1, d.c); });
    state.SetItemsProcessed(state.iterations() * threads * rounds * steps_a_round * 2);
}

#define ALL_SIZES \
    RangeMultiplier(8)->Range(1 << 10, 1 << 24)->Arg(1 << 26)->Arg(1 << 28)->MinTime(0.1)
#define LARGE_SIZES Arg(1 << 26)->Arg(1 << 28)->MinTime(0.1)
#define COLD_SIZES RangeMultiplier(2)->Range(1 << 21, 1 << 23)->MinTime(0.1)
#define BLOCK_SIZES \
    ArgNames({"n", "block"})->ArgsProduct({{1 << 28}, {32, 64, 128, 256, 512, 1024}})->MinTime(0.1)

BENCHMARK(cpu_one_thread)->ALL_SIZES;
#ifdef _OPENMP
BENCHMARK(cpu_all_threads)->ALL_SIZES->UseRealTime();
#endif
BENCHMARK(gpu_with_transfers_pageable)->ALL_SIZES->UseRealTime();
BENCHMARK(gpu_with_transfers_pinned)->ALL_SIZES->UseRealTime();
BENCHMARK(gpu_float4)->ALL_SIZES->UseManualTime();
BENCHMARK_TEMPLATE(gpu_ceiling, 256, 1)->ALL_SIZES->UseManualTime();
BENCHMARK_TEMPLATE(gpu_ceiling, 256, 2)->ALL_SIZES->UseManualTime();
BENCHMARK_TEMPLATE(gpu_ceiling, 1024, 1)->ALL_SIZES->UseManualTime();
BENCHMARK(gpu_float4_cold)->COLD_SIZES->UseManualTime();
BENCHMARK_TEMPLATE(gpu_ceiling_cold, 256, 1)->COLD_SIZES->UseManualTime();
BENCHMARK_TEMPLATE(gpu_ceiling_cold, 256, 2)->COLD_SIZES->UseManualTime();
BENCHMARK_TEMPLATE(gpu_ceiling_cold, 1024, 1)->COLD_SIZES->UseManualTime();
BENCHMARK(gpu_scalar)->LARGE_SIZES->UseManualTime();
BENCHMARK(gpu_grid_stride)->LARGE_SIZES->UseManualTime();
BENCHMARK(gpu_four_scalars)->LARGE_SIZES->UseManualTime();
BENCHMARK(gpu_scalar_blocks)->BLOCK_SIZES->UseManualTime();
BENCHMARK(gpu_float4_blocks)->BLOCK_SIZES->UseManualTime();
BENCHMARK(gpu_multiply_add)->MinTime(0.1)->UseManualTime();
BENCHMARK_MAIN();

// In theory the H200 moves 4814 GB/s and does 66.9 TFLOP/s (4800 and 67 in its data sheet). The
// best kernel here moves 4.4 TB/s, and `multiply_add` does 60.1 TFLOP/s.
//
// Against one CPU thread the `float4` kernel wins from about 25,000 elements on. Against all 16 it
// wins at every size from 1024 on: a short vector because it takes longer to start 16 threads than
// to launch a kernel, a long one because the device's memory is so much faster. With the
// transfers it is another matter. From pageable memory the GPU never wins; from pinned memory
// it beats one CPU thread from about 200,000 elements on, and 16 never. At best 55 GB/s of our
// bytes come through the bus between host and device, about an eightieth of what the device's own
// memory moves. A vector that is sent over, added and fetched back was not worth the trip. One
// that stays on the device for many kernels is.
//
// With 2²⁸ elements, one element a thread reaches 0.78 of the ceiling, the grid-stride loop 0.82,
// and both four scalars and a `float4` a thread more than 0.99.
//
// And the number of threads a block? With one element a thread, blocks of 32 threads reach 0.14
// of the ceiling, of 64 threads 0.29, of 256 threads 0.78 and of 1024 threads 0.67. It is the bytes
// in flight again. A GPU starts only so many blocks a second: 1.66 billion of 32 threads, and as
// many of 64. Small blocks are gone before enough others have come to keep the memory busy. A large
// one keeps its places until its last warp is done. With a `float4` a thread each block brings four
// times the bytes, and 64 threads reach more than 0.99.
//
// PyTorch's `torch.add` does the same work. Timed the same way, with vectors that are not in the
// cache, it moves 3.24, 3.68 and 3.98 TB/s for 2²¹, 2²² and 2²³ elements; ours moves 3.38, 3.77
// and 4.04.

#endif

// ## Questions
//
// ### How many threads a block, how many blocks, and what are the limits?
//
// 256 threads are a good first choice. Take a multiple of 32, because a block of 40 threads
// takes two warps and leaves 24 places of the second empty. The limit is 1024, or less for a
// kernel whose threads need many *registers*, where a thread keeps its variables: the threads of
// a block share an SM's. A launch that needs more than there are is refused with
// `cudaErrorLaunchOutOfResources`. A build for a debugger (`-G`) may need more registers than
// another, and a kernel that runs with 1024 threads may be refused there; with 256 that cannot
// happen, as no thread can have more than 255 of an SM's 65,536 registers. Blocks: as many as
// cover the elements, up to 2,147,483,647 along x, or as many as can be resident if each thread
// loops.
//
// ### What if the size is not a multiple of the block?
//
// The number of blocks is rounded up, and the guard keeps the threads past the end from touching
// memory that is not theirs.
//
// ### How do I time a kernel, and why is the first run slow?
//
// Record an event before it and one after it, wait for the second, and ask for the time between
// them. A clock on the CPU that does not wait times the launch. A kernel of a few microseconds
// needs many launches between the events. The first CUDA call of a program also sets up the
// device, and the first launch of a kernel loads its code. So launch once before the clock
// starts.
//
// ### Why is the GPU slower than the CPU for my vector add?
//
// Either the vector is short: a launch alone takes microseconds, in which a CPU adds thousands
// of elements. Or the time includes the transfers, which from pageable memory take longer than
// the addition on either side.
//
// ### What is a grid-stride loop?
//
// One in which each thread goes on by the number of threads in the whole grid, until it is past
// the end. With it a grid of any size does all the work.
//
// ## Try it
//
// Predict first, then change the line, and run.
//
// 1. In `launch`, compute the blocks as `n / elements_a_block`, which rounds down. Which element
//    is the first that is wrong? And with `./thread_hierarchy 786432`?
//
//    *Answer:* element 1,000,000 of 1,000,003: the last three make no whole block of 32. They
//    hold the poison, NaN. With 786,432 elements, which is 3 · 2¹⁸, all is right and the program
//    says PASS, since every block here divides that number. A check at round sizes alone proves
//    little.
//
// 2. In `who_runs_where`, take 40 threads a block instead of 64. How many blocks does the
//    picture have, and how many warps?
//
//    *Answer:* 13 blocks and 26 warps, where 8 blocks and 16 warps did the same. In each block
//    the second warp has 8 threads and room for 32. The last block has 20 elements, and all 8
//    threads of its second warp are past the end.
//
// 3. In `variants`, write `n` for the 1 of `add` (elements a thread): the launch believes that
//    one thread takes all n elements, and starts a single block. What happens? And if you undo
//    that and write `n` for the `rounds` of `add_grid_stride`?
//
//    *Answer:* `add` fails at element 32, the first that its one block of 32 threads does not
//    reach. `add_grid_stride` passes. The threads of its one block come back until all is done, and
//    are slow at it. The number of blocks decides whether `add` is right. For the loop it only
//    decides how fast.
//
// ## What comes next
//
// A vector has one index, and neighbouring threads took neighbouring elements. A matrix has a row
// and a column. Should neighbouring threads take neighbouring rows or neighbouring columns?
// The result is the same. The time is not, as chapter 4 shows.
//
// ## Plumbing
//
// Helpers that several chapters need. Their text is the same in each, so that every file can be
// copied on its own. First, what only this chapter prints and reads.

#include <charconv>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <unistd.h>

bool read_price(double& price)
{
    const char* const text = std::getenv("PRICE");
    if (!text)
        return true;
    char* end = nullptr;
    price = std::strtod(text, &end);
    if (std::strspn(text, "0123456789.") == std::strlen(text) && end != text && *end == '\0' &&
        price > 0 && std::isfinite(price))
        return true;
    std::fprintf(stderr, "PRICE=%s: a price is a number above 0, such as 1599 or 0.35\n", text);
    return false;
}

void print_device(double price)
{
    cudaDeviceProp device;                 // only for the name, which is no attribute
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const int major = attribute(cudaDevAttrComputeCapabilityMajor);
    const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
    const int sms = attribute(cudaDevAttrMultiProcessorCount);
    const int blocks = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
    const double bytes = bytes_per_second_in_theory(), flops = flops_per_second_in_theory();

    std::printf("%s, compute capability %d.%d\n", device.name, major, minor);
    std::printf("  launched   up to %d threads a block, %d x %d x %d blocks a grid\n",
                attribute(cudaDevAttrMaxThreadsPerBlock), attribute(cudaDevAttrMaxGridDimX),
                attribute(cudaDevAttrMaxGridDimY), attribute(cudaDevAttrMaxGridDimZ));
    std::printf("  resident   up to %zu threads: on each of %d SMs %d, in warps of %d\n",
                resident_threads(), sms, attribute(cudaDevAttrMaxThreadsPerMultiProcessor),
                attribute(cudaDevAttrWarpSize));
    std::printf("             and up to %d blocks: on each SM %d\n", sms * blocks, blocks);
    std::printf("  memory     %.1f GB, %.1f GB of them free; L2 cache %.1f MB\n", total / 1e9,
                free / 1e9, attribute(cudaDevAttrL2CacheSize) / 1e6);
    if (bytes > 0)
        std::printf("  in theory  %.0f GB/s: 2 x %.0f MHz x %d bits / 8\n", bytes / 1e9,
                    attribute(cudaDevAttrMemoryClockRate) / 1e3,
                    attribute(cudaDevAttrGlobalMemoryBusWidth));
    else
        std::puts("  in theory  GB/s unknown: the device reports no clock of its memory");
    if (flops > 0)
        std::printf("             %.1f TFLOP/s: 2 x %d SMs x %d units x %.0f MHz\n", flops / 1e12,
                    sms, fp32_units_per_sm(major, minor), attribute(cudaDevAttrClockRate) / 1e3);
    else
        std::puts("             TFLOP/s unknown: no clock, or an architecture not in our table");
    if (price > 0 && flops > 0)
        std::printf("             %.4g GFLOP/s for each unit of the PRICE, %g\n",
                    flops / 1e9 / price, price);
    else if (price > 0)
        std::printf("             for the PRICE, %g: unknown too\n", price);
}

bool draw(const std::vector<Place>& places, unsigned threads_a_block)
{
    constexpr unsigned warp = 32;
    std::string threads;
    std::puts("who runs where     # a thread with an element, . a thread past the end");
    for (size_t i = 0; i < places.size(); ++i) {
        const Place& p = places[i];
        const unsigned thread = i % threads_a_block;
        if (p.block != i / threads_a_block || p.thread != thread || p.warp != thread / warp ||
            p.sm != places[i - thread].sm) {
            std::printf("FAIL: element %zu: block %u, thread %u, warp %u, SM %u\n", i, p.block,
                        p.thread, p.warp, p.sm);
            return false;
        }
        if (thread == 0)
            threads.assign(threads_a_block, '.');
        threads[p.thread] = '#';
        if (thread + 1 < threads_a_block && i + 1 < places.size())
            continue;
        std::printf("  block %u, ", p.block);
        p.sm == no_sm ? std::printf("no SM ") : std::printf("SM %-3u", p.sm);
        for (unsigned first = 0; first < threads_a_block; first += warp)
            std::printf(" %s", threads.substr(first, warp).c_str());
        std::puts("");
    }
    return true;
}

// `multiply_add` gets numbers with which every step is exact, so it must match the CPU as well:
// once -x + 1, which turns the sign over and over, and once x + 1, which counts the steps.

bool check_multiply_add(float factor)
{
    constexpr int threads = 1024, rounds = 3;
    std::vector<float> cpu(threads), gpu(threads);
    float* d_x;
    for (int i = 0; i < threads; ++i)
        gpu[i] = cpu[i] = (i + 1) / 4096.0f;
    CUDA_CHECK(cudaMalloc(&d_x, threads * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_x, gpu.data(), threads * sizeof(float), cudaMemcpyHostToDevice));
    multiply_add<<<threads / 256, 256>>>(rounds, factor, 1, d_x);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(gpu.data(), d_x, threads * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    for (float& value : cpu)
        for (int step = 0; step < rounds * steps_a_round; ++step)
            value = value * factor + 1;
    return agree(factor > 0 ? "chain x + 1" : "chain -x + 1", gpu, cpu, 0);
}

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
