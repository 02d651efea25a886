// # Device functions: the sigmoid
//
// Chapter 4 called one function from a kernel and had to mark it `__device__`. This chapter is
// about the functions that kernels call. The one we need is the *sigmoid*,
//
//     σ(x) = 1 / (1 + e⁻ˣ)
//
// which turns any number into one between 0 and 1. It is the last step of a neural layer. We
// write it once, for both sides, and apply it to each element of a vector. It raises a question
// that sums did not, because its digits are not exact: how wrong may they be, how wrong are they,
// and what do faster functions cost and gain?
//
// ```sh
// nvcc -arch=native device_functions.cu -o device_functions && ./device_functions
// ```

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// ## What may call what
//
// Suppose we had the function, as one writes it for the CPU, and a kernel that calls it:
//
// ```cuda
// float sigmoid(float x) { return 1 / (1 + expf(-x)); }
//
// __global__ void apply_sigmoid(size_t n, const float* x, float* y)
// {
//     const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
//     if (i < n)
//         y[i] = sigmoid(x[i]);
// }
// ```
//
// `nvcc` refuses:
//
//     error: calling a __host__ function("sigmoid(float)")
//            from a __global__ function("apply_sigmoid") is not allowed
//     error: identifier "sigmoid" is undefined in device code
//
// It compiles a file twice, once for the host and once for the device, which has a machine
// language of its own. The words before a function say for which of the two it is compiled:
//
// | mark | runs on | who calls it |
// |---|---|---|
// | `__global__` | device | the host, by a launch (a kernel may launch too; we do not) |
// | `__device__` | device | kernels and other functions for the device |
// | none, or `__host__` | host | functions for the host |
// | `__host__ __device__` | either | all of them |
//
// With `__device__` alone the kernel may call `sigmoid`, and now `main` may not:
//
//     error: calling a __device__ function("sigmoid(float)")
//            from a __host__ function("main") is not allowed
//
// A kernel cannot be called like a function, only launched, and it has no result to give back:
//
//     error: a __global__ function call must be configured
//     error: a __global__ function must have a void return type
//
// A function with both marks may only call what exists on both sides. Here the compiler is
// lenient, because the host's half is in order. If `sigmoid` writes a log, it only warns:
//
//     warning #20011-D: calling a __host__ function("log_message(float)")
//                       from a __host__ __device__ function("sigmoid") is not allowed
//
// And then it leaves out what it cannot compile. The kernel that called such a `sigmoid` came out
// of `nvcc` 13.0 empty. `-Werror all-warnings` makes the warning an error.
//
// For the CPU device a file is compiled once, for one processor, and the marks mean nothing.
// There `cpu_device/run --lint` finds these mistakes.
//
// ## One function for both sides
//
// So `sigmoid` gets both marks. It may call `expf`, because each side has one of its own.
//
// The constants are whole numbers and become floats. Had we written `1.0`, which is a double,
// the sum and the division would be done in double precision. A T4 has one unit for that to 32
// for floats, and nobody would see why the kernel is slow.

__host__ __device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

void sigmoid_cpu(size_t n, const float* x, float* y)
{
    for (size_t i = 0; i < n; ++i)
        y[i] = sigmoid(x[i]);
}

// The kernel gets its function as a template parameter, because we shall have several. The
// compiler makes a kernel for each, and puts the function's body where the call stands: a call
// costs nothing.

using Function = float (*)(float);

template <Function function>
__global__ void apply(size_t n, const float* x, float* y)
{
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = function(x[i]);
}

// One float a thread keeps too few bytes in flight, as chapters 3 and 4 found. So there is a
// second kernel, whose threads take four.

template <Function function>
__global__ void apply_float4(size_t n, const float* x, float* y)
{
    const size_t i = 4 * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        const float4 v = *reinterpret_cast<const float4*>(x + i);
        *reinterpret_cast<float4*>(y + i) =
            make_float4(function(v.x), function(v.y), function(v.z), function(v.w));
    } else {
        for (size_t j = i; j < n; ++j)
            y[j] = function(x[j]);
    }
}

template <Function function>
void launch(size_t n, const float* d_x, float* d_y)
{
    apply<function><<<(n + 255) / 256, 256>>>(n, d_x, d_y);
}

template <Function function>
void launch_float4(size_t n, const float* d_x, float* d_y)
{
    apply_float4<function><<<(n + 511) / 512, 128>>>(n, d_x, d_y);
}

// ## Where the formula breaks
//
// A float ends at 3.4 · 10³⁸. Past that `expf` gives *Inf*, infinity, and it gets there fast: e⁸⁸
// is still a float, e⁸⁹ is not. The sigmoid can be written in a second way, which is the same in
// mathematics:

__host__ __device__ float sigmoid_second_form(float x)
{
    const float e = expf(x);
    return e / (1 + e);
}

// In the first form a large e⁻ˣ does no harm: 1 / Inf is 0, and 0 is the limit. In the second a
// large eˣ makes Inf / Inf, and that is NaN. One such x, and soon a whole network is NaN. The
// first form gives a number between 0 and 1 for every number, so there is no need to *clamp* x,
// that is, to cut it off at some limit.
//
// The price is paid at the other end. σ(-89) is 2.2 · 10⁻³⁹, and the first form says 0. Below
// 1.2 · 10⁻³⁸, the smallest *normal* float, floats have fewer and fewer digits, and hardly any
// program needs them. We accept 0 there. The program prints both forms, which must be the same but
// for that:

bool print_forms()
{
    std::puts("     x   1/(1+e^-x)   e^x/(1+e^x)");
    for (const float x : {-89.0f, -88.0f, 0.0f, 88.0f, 89.0f}) {
        const float first = sigmoid(x), second = sigmoid_second_form(x);
        std::printf("%6g %12.3g", x, first);
        if (std::isnan(second))            // printf may show it as -nan: its sign means nothing
            std::puts("           NaN");
        else
            std::printf("%14.3g\n", second);
        if (x < 89 ? !(std::fabs(second - first) <= FLT_EPSILON * first + FLT_MIN)
                   : !std::isnan(second)) {
            std::printf("FAIL: at %g the two forms are not what they should be\n", x);
            return false;
        }
    }
    return true;
}

// ## Faster, and less exact
//
// A GPU has units that compute 2ˣ, 1/x and a few more functions fast, but not to the last digit.
// `expf` and the division use them and mend the result with further instructions. A program can
// do without the mending. CUDA has functions for that, *intrinsics*, on the device alone:

__device__ float sigmoid_fast_exp(float x) { return 1 / (1 + __expf(-x)); }

__device__ float sigmoid_fast_divide(float x) { return __fdividef(1, 1 + __expf(-x)); }

// One more is an instruction of PTX, from `sm_75` on: `tanh.approx`, the hyperbolic tangent
// (`__tanhf` in CUDA 13). It helps because σ(x) = ½ tanh(½ x) + ½.
//
// And the option `-use_fast_math` makes `nvcc` choose fast functions and divisions in a whole
// program, and replace by 0 whatever is smaller than the smallest normal float (`.ftz`, *flush to
// zero*). To have it beside the others in one program, we write down the instructions that it
// makes of `sigmoid`. `nvcc -use_fast_math -ptx` shows them.

#ifdef __CUDACC__
__device__ float sigmoid_tanh(float x)
{
    float t;
    asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(0.5f * x));      // %0 is t, %1 is 0.5f * x
    return 0.5f * t + 0.5f;
}

__device__ float sigmoid_use_fast_math(float x)
{
    float y;
    asm("mul.ftz.f32        %0, %1, 0fBFB8AA3B;\n\t"   // x times -1/ln 2
        "ex2.approx.ftz.f32 %0, %0;\n\t"               // 2 to that power
        "add.ftz.f32        %0, %0, 0f3F800000;\n\t"   // plus 1
        "rcp.approx.ftz.f32 %0, %0;"                   // 1 over that
        : "=f"(y) : "f"(x));
    return y;
}
#endif

// ## How wrong may it be?
//
// A float has 24 binary digits. The distance from one float to the next is called an *ulp*, unit
// in the last place. Between 1 and 2 it is 2⁻²³, between ½ and 1 half of that, and so on. So it
// is never more than 2⁻²³ of the number itself (`FLT_EPSILON`). Rounding alone costs up to ½ ulp.
// How far off NVIDIA found a function beyond that is in the CUDA Programming Guide: `expf` 2 ulp,
// `__expf` 2 + 1.173 |x|, `__fdividef` 2. The PTX manual has 2⁻¹¹ of the result for `tanh.approx`.
//
// From this follows what we allow, in units of 2⁻²³ σ(x):
//
// - For e⁻ˣ the error of its function and ½ for rounding, times 1 - σ(x): of a relative error in
//   e⁻ˣ only that share reaches σ. Past |x| = 90 the units stop growing, because there e⁻ˣ is Inf
//   or too small to change the sum.
// - For the sum ½. For the division ½, or 2½ if it is a fast one.
// - The smallest normal float on top: below it floats lose digits, and `__fdividef` gives 0.
//
// `tanh.approx` is a case of its own. Its error is relative to the tangent, which is near -1 where
// σ is near 0. There each digit of σ may be wrong, and all we can ask for is an absolute error.
// It should be at most half of 2⁻¹¹. We allow the whole.

double allowed(double units_exp, double units_divide, double y)
{
    return (units_exp * (1 - y) + 0.5 + units_divide) * FLT_EPSILON * y + FLT_MIN;
}

double units_fast_exp(double x) { return 2.5 + 1.173 * std::min(std::fabs(x), 90.0); }

using Launch = void (*)(size_t n, const float* d_x, float* d_y);

struct Variant {
    const char* name;
    Launch one, four;                      // floats a thread
    double (*allowed)(double x, double y);
};

const std::vector<Variant> variants = {
    {"expf", launch<sigmoid>, launch_float4<sigmoid>,
     [](double, double y) { return allowed(2.5, 0.5, y); }},
    {"__expf", launch<sigmoid_fast_exp>, launch_float4<sigmoid_fast_exp>,
     [](double x, double y) { return allowed(units_fast_exp(x), 0.5, y); }},
    {"__fdividef", launch<sigmoid_fast_divide>, launch_float4<sigmoid_fast_divide>,
     [](double x, double y) { return allowed(units_fast_exp(x), 2.5, y); }},
#ifdef __CUDACC__
    {"use_fast_math", launch<sigmoid_use_fast_math>, launch_float4<sigmoid_use_fast_math>,
     [](double x, double y) { return allowed(units_fast_exp(x), 2.5, y); }},
    {"tanh.approx", launch<sigmoid_tanh>, launch_float4<sigmoid_tanh>,
     [](double, double) { return 0x1p-11; }},
#endif
};

// `-use_fast_math` uses the fast functions too, so it is allowed the same error. Build the chapter
// with that option and it ends with FAIL: then `sigmoid` itself is fast, but allowed no more.
//
// ## There and back
//
// The same trip as before, except that the caller can choose the poison.

#define CUDA_CHECK(call) check_cuda(call, #call, __FILE__, __LINE__)
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

void sigmoid_gpu(Launch launch, size_t n, const float* x, float* y, int poison = 0xFF)
{
    const size_t bytes = n * sizeof(float);
    float *d_x, *d_y;
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMalloc(&d_y, bytes));
    CUDA_CHECK(cudaMemcpy(d_x, x, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, poison, bytes));

    launch(n, d_x, d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    CUDA_CHECK(cudaMemcpy(y, d_y, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
}

// ## Do they agree?
//
// The `expf` of the CPU and that of the GPU are different programs. Their last digits may differ,
// and neither is the truth. So both are held against σ in double precision, whose own errors are
// 2²⁹ times smaller.
//
// The vector begins with what could break: zeros of both signs, the ends of the floats, the ends
// of `expf`, the place where σ becomes 1. After that come numbers from -90 to 30, neighbours far
// apart, so that a kernel that takes the wrong one is found out.

double sigmoid_double(double x) { return 1 / (1 + std::exp(-x)); }

const std::vector<float> special = {0,       17,       -0.0f,    -17,      88,        -88,
                                    89,      -89,      1000,     -1000,    FLT_MAX,   -FLT_MAX,
                                    FLT_MIN, INFINITY, -FLT_MIN, -INFINITY};

float x_at(size_t i)
{
    return i < special.size() ? special[i] : i * 7919 % 120'011 / 1000.0f - 90;
}

bool read_sizes(int argc, char** argv, std::initializer_list<size_t*> sizes);
int usage(const char* program, const char* arguments);
void require_memory(double bytes);

// `agree` has a second form for this. Its reference is in double precision, and its tolerance
// differs from element to element.

bool agree(const char* what, const std::vector<float>& gpu, const std::vector<double>& reference,
           const std::vector<double>& tolerance);

#ifndef BENCHMARKS

// NaN is the one input for which NaN is right. `agree` lets none pass, so we try it apart, with a
// vector of one `float4` and a tail. The poison is 0 here: an element that no thread writes must
// not be a NaN.

bool keeps_nan(const char* what, Launch launch)
{
    const std::vector<float> x(7, NAN);
    std::vector<float> y(x.size(), 0);
    sigmoid_gpu(launch, x.size(), x.data(), y.data(), 0);
    for (const float value : y)
        if (!std::isnan(value)) {
            std::printf("FAIL: %s: NaN became %g\n", what, value);
            return false;
        }
    return true;
}

bool is_between_0_and_1(const char* what, const std::vector<float>& y)
{
    for (size_t i = 0; i < y.size(); ++i)
        if (!(y[i] >= 0 && y[i] <= 1)) {
            std::printf("FAIL: %s: element %zu is %.9g\n", what, i, y[i]);
            return false;
        }
    return true;
}

// How many ulp an error is depends on where one looks, so the largest is printed for three parts
// of the axis: the tail of σ, its rising half, and what lies above ½.

double largest_ulps(float from, float to, const std::vector<float>& x, const std::vector<float>& y,
                    const std::vector<double>& reference)
{
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i)
        if (x[i] >= from && x[i] < to) {
            const double ulp = std::ldexp(1.0, std::ilogb(reference[i]) - 23);
            largest = std::max(largest, std::fabs(y[i] - reference[i]) / ulp);
        }
    return largest;
}

bool check(size_t n)
{
    std::vector<float> x(n), y(n);
    std::vector<double> reference(n), allowed(n);
    for (size_t i = 0; i < n; ++i) {
        x[i] = x_at(i);
        reference[i] = sigmoid_double(x[i]);
        allowed[i] = variants[0].allowed(x[i], reference[i]);
    }
    const auto print_ulps = [&] {
        std::printf("  in ulp      at most %.4g below -17, %.4g below 0, %.4g above\n",
                    largest_ulps(-87, -17, x, y, reference), largest_ulps(-17, 0, x, y, reference),
                    largest_ulps(0, 30, x, y, reference));
    };
    sigmoid_cpu(n, x.data(), y.data());
    if (!agree("CPU", y, reference, allowed) || !is_between_0_and_1("CPU", y))
        return false;
    print_ulps();
    for (const Variant& v : variants) {
        for (size_t i = 0; i < n; ++i)
            allowed[i] = v.allowed(x[i], reference[i]);
        for (const Launch launch : {v.one, v.four}) {
            const char* const what = launch == v.one ? v.name : "  with float4";
            y.assign(n, NAN);
            sigmoid_gpu(launch, n, x.data(), y.data());
            if (!agree(what, y, reference, allowed) || !is_between_0_and_1(what, y) ||
                !keeps_nan(what, launch))
                return false;
        }
        print_ulps();
    }
    return true;
}

int main(int argc, char** argv)
{
    size_t n = 995'331;                    // 1944 blocks of 512, and three elements more
    if (argc > 1 && !read_sizes(argc, argv, {&n}))
        return usage(argv[0], "[n]");
    require_memory((2.0 * sizeof(float) + 2.0 * sizeof(double)) * n);

    if (!print_forms())
        return EXIT_FAILURE;
    cudaDeviceProp device;
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("sigmoid of a vector of %zu bytes, on %s\n", n * sizeof(float), device.name);
    if (n > 0 && !check(n))
        return EXIT_FAILURE;
#ifndef __CUDACC__
    std::puts("use_fast_math and tanh.approx left out: they are instructions of a GPU");
#endif
    std::puts("PASS");
}

#else

// ## How fast?
//
// ```sh
// FLAGS="-O3 -std=c++17 -arch=native -DBENCHMARKS -Xcompiler -fopenmp"
// nvcc $FLAGS device_functions.cu -o device_functions_bench -lbenchmark && ./device_functions_bench
// ```

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

// As in chapter 4, the inputs are made and copied once. They lie between -10 and 10, where a
// network has most of its inputs.

constexpr size_t smallest = 1 << 12, largest_cpu = 1 << 24, largest = 1 << 28;

struct HostVectors {
    std::vector<float> x, y;

    HostVectors() : x(largest), y(largest)
    {
        for (size_t i = 0; i < largest; ++i)
            x[i] = i * 7919 % 20'011 / 1000.0f - 10;
    }
};

HostVectors& host()
{
    static HostVectors vectors;
    return vectors;
}

struct DeviceVectors {
    float *x, *y;
    size_t count = largest;

    DeviceVectors()
    {
        size_t free, total;
        CUDA_CHECK(cudaMemGetInfo(&free, &total));
        while (2.0 * count * sizeof(float) > 0.9 * free)
            count /= 2;
        const size_t bytes = count * sizeof(float);
        CUDA_CHECK(cudaMalloc(&x, bytes));
        CUDA_CHECK(cudaMalloc(&y, bytes));
        CUDA_CHECK(cudaMemcpy(x, host().x.data(), bytes, cudaMemcpyHostToDevice));
    }
};

const DeviceVectors& device()
{
    static const DeviceVectors vectors;
    return vectors;
}

bool has_room(benchmark::State& state)
{
    const bool fits = size_t(state.range(0)) <= device().count;
    if (!fits)
        state.SkipWithError("the device has no room for this size");
    return fits;
}

// One vector is read and one is written.

void report(benchmark::State& state)
{
    state.SetBytesProcessed(state.iterations() * state.range(0) * 2 * sizeof(float));
}

template <typename Work>
void time_in_batches(benchmark::State& state, Work work)
{
    const size_t n = state.range(0);
    time_on_gpu(state, std::clamp<size_t>((1 << 30) / n, 4, 512), work);
    report(state);
}

template <void (*apply)(size_t, const float*, float*)>
void cpu(benchmark::State& state)
{
    HostVectors& h = host();
    for (auto _ : state) {
        apply(state.range(0), h.x.data(), h.y.data());
        benchmark::DoNotOptimize(h.y.data());
        benchmark::ClobberMemory();
    }
    report(state);
}

#ifdef _OPENMP
void sigmoid_cpu_all_threads(size_t n, const float* x, float* y)
{
#pragma omp parallel for
    for (size_t i = 0; i < n; ++i)
        y[i] = sigmoid(x[i]);
}
#endif

template <Launch launch>
void gpu(benchmark::State& state)
{
    if (has_room(state))
        time_in_batches(state, [&] { launch(state.range(0), device().x, device().y); });
}

void gpu_with_transfers_pageable(benchmark::State& state)
{
    if (!has_room(state))
        return;
    const size_t n = state.range(0), bytes = n * sizeof(float);
    const DeviceVectors& d = device();
    for (auto _ : state) {
        CUDA_CHECK(cudaMemcpy(d.x, host().x.data(), bytes, cudaMemcpyHostToDevice));
        launch_float4<sigmoid>(n, d.x, d.y);
        CUDA_CHECK(cudaMemcpy(host().y.data(), d.y, bytes, cudaMemcpyDeviceToHost));
    }
    CUDA_CHECK(cudaGetLastError());
    report(state);
}

// The ceiling is a kernel that reads a vector, writes a vector and computes nothing. Its
// threads a block and float4s a thread are tried in a few combinations, of which the best counts.
// The plain copy of the runtime does the same work.

template <unsigned threads, unsigned per_thread>
__global__ void copy_float4(const float4* x, float4* y)
{
    const size_t first = size_t(blockIdx.x) * threads * per_thread + threadIdx.x;
    float4 v[per_thread];
    for (unsigned k = 0; k < per_thread; ++k)
        v[k] = x[first + k * threads];
    for (unsigned k = 0; k < per_thread; ++k)
        y[first + k * threads] = v[k];
}

template <unsigned threads, unsigned per_thread>
void gpu_ceiling(benchmark::State& state)
{
    if (!has_room(state))
        return;
    const auto x = reinterpret_cast<const float4*>(device().x);
    const auto y = reinterpret_cast<float4*>(device().y);
    const size_t blocks = state.range(0) / (4 * threads * per_thread);
    time_in_batches(state, [&] { copy_float4<threads, per_thread><<<blocks, threads>>>(x, y); });
}

void gpu_copy(benchmark::State& state)
{
    if (!has_room(state))
        return;
    const size_t bytes = state.range(0) * sizeof(float);
    time_in_batches(state, [&] {
        CUDA_CHECK(cudaMemcpyAsync(device().y, device().x, bytes, cudaMemcpyDeviceToDevice));
    });
}

// One CPU thread takes about a second for the largest vector, so the CPU's rows end before.

const auto cpu_sizes = [](auto* row) {
    row->RangeMultiplier(16)->Range(smallest, largest_cpu)->MinTime(0.1);
};
const auto all_sizes = [](auto* row) {
    row->RangeMultiplier(16)->Range(smallest, largest)->MinTime(0.1)->UseManualTime();
};
const auto in_cache_and_in_memory = [](auto* row) {
    row->Arg(1 << 20)->Arg(1 << 28)->MinTime(0.1)->UseManualTime();
};

BENCHMARK(cpu<sigmoid_cpu>)->Name("cpu_one_thread")->Apply(cpu_sizes);
#ifdef _OPENMP
BENCHMARK(cpu<sigmoid_cpu_all_threads>)->Name("cpu_all_threads")->Apply(cpu_sizes)->UseRealTime();
#endif
BENCHMARK(gpu<launch<sigmoid>>)->Name("gpu_scalar")->Apply(all_sizes);
BENCHMARK(gpu<launch_float4<sigmoid>>)->Name("gpu_float4")->Apply(all_sizes);
BENCHMARK(gpu_with_transfers_pageable)
    ->RangeMultiplier(16)->Range(smallest, largest)->MinTime(0.1)->UseRealTime();
BENCHMARK(gpu_ceiling<128, 1>)->Name("gpu_ceiling<128,1>")->Apply(all_sizes);
BENCHMARK(gpu_ceiling<256, 1>)->Name("gpu_ceiling<256,1>")->Apply(all_sizes);
BENCHMARK(gpu_ceiling<256, 2>)->Name("gpu_ceiling<256,2>")->Apply(all_sizes);
BENCHMARK(gpu_ceiling<1024, 1>)->Name("gpu_ceiling<1024,1>")->Apply(all_sizes);
BENCHMARK(gpu_copy)->Apply(all_sizes);

// The variants, in the cache and in memory:

BENCHMARK(gpu<launch<sigmoid_fast_exp>>)
    ->Name("gpu_scalar<__expf>")->Apply(in_cache_and_in_memory);
BENCHMARK(gpu<launch_float4<sigmoid_fast_exp>>)
    ->Name("gpu_float4<__expf>")->Apply(in_cache_and_in_memory);
BENCHMARK(gpu<launch<sigmoid_fast_divide>>)
    ->Name("gpu_scalar<__fdividef>")->Apply(in_cache_and_in_memory);
BENCHMARK(gpu<launch_float4<sigmoid_fast_divide>>)
    ->Name("gpu_float4<__fdividef>")->Apply(in_cache_and_in_memory);
#ifdef __CUDACC__
BENCHMARK(gpu<launch<sigmoid_use_fast_math>>)
    ->Name("gpu_scalar<use_fast_math>")->Apply(in_cache_and_in_memory);
BENCHMARK(gpu<launch_float4<sigmoid_use_fast_math>>)
    ->Name("gpu_float4<use_fast_math>")->Apply(in_cache_and_in_memory);
BENCHMARK(gpu<launch<sigmoid_tanh>>)
    ->Name("gpu_scalar<tanh.approx>")->Apply(in_cache_and_in_memory);
BENCHMARK(gpu<launch_float4<sigmoid_tanh>>)
    ->Name("gpu_float4<tanh.approx>")->Apply(in_cache_and_in_memory);
#endif
BENCHMARK_MAIN();

#endif

// ## What the clock says
//
// At 2²⁸ floats on an H200 one float a thread reaches 0.58 of the ceiling, and four reach all of
// it: 4.27 TB/s, where `torch.sigmoid` has 4.21. With one float a thread `__expf` gains nothing,
// `__fdividef` 4 %, `-use_fast_math` 5 % and `tanh.approx` 6 %. With four none of them gains
// anything: the kernel waits for memory, and has time for the accurate one. What do the fast ones
// cost? At most 3.2 ulp with `expf` become 62 with `__expf`. With `tanh.approx` it is 17 million:
// in the tail no digit is right. So we keep `expf` and `/`, and look for speed in the bytes.
//
// ## Try it
//
// Predict first, then change the line, and run.
//
// 1. Take `__host__` away from `sigmoid`, so that it is `__device__` alone. Which functions will
//    `nvcc` complain of? What does the CPU device say?
//
//    *Answer:* `nvcc` names the two functions of the host that call it, `sigmoid_cpu` and
//    `print_forms`. The kernels are content, and so is the table of variants: it holds launches.
//    The CPU device compiles everything for one processor and passes, as if nothing were wrong.
//    Its `--lint` finds both places.
//
// 2. Write `1.0` for both ones in `sigmoid`. Does it still pass? What happens to the ulps?
//
//    *Answer:* it passes, and they shrink: on the CPU device, above 0, from more than 1 ulp to
//    less than 1. A double in an expression makes what follows double, so the sum and the
//    division no longer round to 24 binary digits. Nothing else shows it, until the program runs
//    on a GPU with few units for double precision.
//
// 3. Clamp x to be safe: `expf(-fmaxf(x, -88))`. All numbers from -88 on give what they gave
//    before. Who objects?
//
//    *Answer:* the test with NaN: `FAIL: expf: NaN became 6.0546e-39`. `fmaxf` returns the other
//    number if one is NaN. So a NaN, the sign that something went wrong before, would leave this
//    function as a small number, and nobody would ever look for it.
//
// ## The question that is left
//
// σ is the last step of a layer, y = σ(Wx + b). The first is the product of a matrix and a vector,
// or of two matrices if there are many x. So far each result needed one element of each input, and
// each element was read once. In a product each result needs a whole row and a whole column, and
// each element is needed by many results. Who reads it, and how often? Chapter 6 multiplies.

// ## Plumbing
//
// Helpers that several chapters need. Their text is the same in each, so that every file can be
// copied on its own.

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

// The form for results that are rounded on the way: the reference is in double precision, and
// each element has its own tolerance. Prints how much of its tolerance an element uses at most.

bool agree(const char* what, const std::vector<float>& gpu, const std::vector<double>& reference,
           const std::vector<double>& tolerance)
{
    double largest = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
        const double difference = std::fabs(gpu[i] - reference[i]);
        if (!(difference <= tolerance[i])) {
            std::printf("FAIL: %s: element %zu: %.9g, in double precision %.9g (allowed: %.3g)\n",
                        what, i, gpu[i], reference[i], tolerance[i]);
            return false;
        }
        if (difference > 0)
            largest = std::max(largest, difference / tolerance[i]);
    }
    std::printf("%-13s largest difference from double precision: %.3g of the allowed\n", what,
                largest);
    return true;
}
