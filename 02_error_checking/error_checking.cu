// # Error checking: asking what went wrong
//
// Chapter 1 left its one-block kernel out above 1024 elements, where a block runs out of threads.
// Here we launch it all the same: nothing complains, and there is no result. Then we find where
// CUDA keeps its errors, build a check for them, and make seven mistakes on purpose.
//
// ```sh
// nvcc -arch=native error_checking.cu -o error_checking && ./error_checking
// ```

#undef NDEBUG                              // or it would take the assert out of a kernel below
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

// ## Half a million threads
//
// The kernel is chapter 1's: one block, a thread for each element. Around it stands the
// program that most of us write first. It calls CUDA and never looks at what CUDA answers.

void vector_add_cpu(size_t n, const float* a, const float* b, float* c)
{
    for (size_t i = 0; i < n; ++i)
        c[i] = a[i] + b[i];
}

__global__ void vector_add(const float* a, const float* b, float* c)
{
    c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

void vector_add_unchecked(size_t n, const float* a, const float* b, float* c)
{
    const size_t bytes = n * sizeof(float);
    float *d_a, *d_b, *d_c;
    cudaMalloc(&d_a, bytes);
    cudaMalloc(&d_b, bytes);
    cudaMalloc(&d_c, bytes);
    cudaMemcpy(d_a, a, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, b, bytes, cudaMemcpyHostToDevice);
    cudaMemset(d_c, 0xFF, bytes);

    vector_add<<<1, n>>>(d_a, d_b, d_c);
    cudaDeviceSynchronize();

    cudaMemcpy(c, d_c, bytes, cudaMemcpyDeviceToHost);
    cudaFree(d_a);
    cudaFree(d_b);
    cudaFree(d_c);
}

// With 500,000 elements it runs to its end like any other program. There is no message and no
// crash. The result holds what its memory held before: NaN, 500,000 times. Without our
// `cudaMemset` that could have been the right sums, left there by the run before, and we
// would have believed them.
//
// ## Where the errors are
//
// A block has at most 1024 threads. Our launch was refused, and the kernel never ran. CUDA
// knew it, but does not speak unless it is asked: only the program can say what an error is
// worth. One program gives up, another tries again with a smaller block. CUDA answers in two
// ways.
//
// - Nearly every function of CUDA returns a code, a `cudaError_t`. No error is `cudaSuccess`.
// - A launch is not a function call and returns nothing. Its code goes to the *last error*, a
//   variable that CUDA keeps for each thread of the host. A function that fails writes there
//   as well.
//
// `cudaGetLastError` returns the last error and sets it back to `cudaSuccess`.
// `cudaPeekAtLastError` returns it and leaves it there, for code that wants to know of an
// error but has to leave it to its caller. `cudaDeviceSynchronize` in the program above
// returned `cudaSuccess`: it waits for work, and there was none.
//
// According to the documentation the code of a refused launch is `cudaErrorInvalidConfiguration`.
// With CUDA 13 our H200 says `cudaErrorInvalidValue`. We take either, and note which.

void expect(const char* what, cudaError_t code, cudaError_t expected)
{
    if (code != expected) {
        std::printf("FAIL: %s: %s, expected %s\n", what, cudaGetErrorName(code),
                    cudaGetErrorName(expected));
        std::exit(EXIT_FAILURE);
    }
    std::printf("    %-22s%-31sexpected\n", what, cudaGetErrorName(code));
}

cudaError_t add_in_silence(size_t n, const float* a, const float* b)
{
    std::printf("one block of %zu threads, no call checked\n", n);
    std::vector<float> c(n);
    vector_add_unchecked(n, a, b, c.data());
    if (!std::all_of(c.begin(), c.end(), [](float x) { return std::isnan(x); })) {
        std::puts("FAIL: elements were written");
        std::exit(EXIT_FAILURE);
    }
    std::puts("    elements written      none                           expected");
    const cudaError_t seen = cudaPeekAtLastError();
    const cudaError_t refused =
        seen == cudaErrorInvalidValue ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration;
    expect("cudaPeekAtLastError", seen, refused);
    expect("cudaGetLastError", cudaGetLastError(), refused);
    expect("cudaGetLastError", cudaGetLastError(), cudaSuccess);
    return refused;
}

// ## How `CUDA_CHECK` is made
//
// We write the first check by hand. The call asks how many threads a block may have, which we
// need to know below.

size_t most_threads_a_block()
{
    int threads = 0;
    const cudaError_t status = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, 0);
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
        std::exit(EXIT_FAILURE);
    }
    return threads;
}

// Five lines to check one call, and the message does not even say which call it was. What
// repeats can go into a macro. This is the one that comes to mind first:

#define TEMPTING_CHECK(call)                                                                       \
    if ((call) != cudaSuccess)                                                                     \
        std::printf("    a tempting check      says \"%s\"\n", cudaGetErrorString(call))

void check_what_was_refused()
{
    vector_add<<<1, 500'000>>>(nullptr, nullptr, nullptr);
    TEMPTING_CHECK(cudaGetLastError());
}

// It says "no error", and it says so *because* there is one. A macro replaces text. `call`
// stands in it twice, so `cudaGetLastError` is called twice: the first call finds the error
// and clears it, and nothing is left for the second. Nor does the macro fit everywhere. In
// `if (a) TEMPTING_CHECK(b); else c();` the `else` goes to the `if` of the macro.
//
// A function has neither fault. Its argument is evaluated once, before the function begins,
// and a call is one expression, also between `if` and `else`. But a function does not know
// where it is called from. So a function does the work, and our macro only adds the place:
// `#call` is the text of the argument, and `__FILE__` and `__LINE__` are where it stands.

#define CUDA_CHECK(call) check_cuda(call, #call, __FILE__, __LINE__)
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

// If the code is not `cudaSuccess`, `check_cuda` (under *Plumbing*) prints the file, the
// line, the error's name and meaning, and then the call. It ends the program with status 1,
// from which a shell or `make` knows that it failed.
//
// ## How do I know that a launch worked?
//
// By two checks, since a launch can fail in two ways.
//
// - A *launch error*: what was asked for is refused, and nothing runs. It is known when the
//   launch returns. `cudaGetLastError` on the next line finds it.
// - An *execution error*: the kernel runs and does something that is not allowed, like
//   reading at an address where there is no memory. A launch is *asynchronous*: it returns
//   before the kernel has run, and cannot know. The error comes out of a later call, at the
//   latest the next one that waits for the kernel, whatever that is for. `cudaDeviceSynchronize`
//   waits on purpose.
//
// The first check belongs after every launch: an error that nobody has read is taken for the
// next launch's. The second makes the host wait. While you look for a fault, put it after
// every launch too. In a program that works, once before the results are used is enough. *How
// fast?* below has the price of both.
//
// Now half a million elements can be added, by a launch for each piece that fits in a block.
// The kernel counts from 0, so it is given the address at which its piece begins.

void vector_add_gpu(size_t n, const float* a, const float* b, float* c)
{
    if (n == 0)
        return;                            // a block of no threads is an error
    const size_t bytes = n * sizeof(float), piece = most_threads_a_block();
    float *d_a, *d_b, *d_c;
    CUDA_CHECK(cudaMalloc(&d_a, bytes));
    CUDA_CHECK(cudaMalloc(&d_b, bytes));
    CUDA_CHECK(cudaMalloc(&d_c, bytes));
    CUDA_CHECK(cudaMemcpy(d_a, a, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, b, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_c, 0xFF, bytes));

    for (size_t first = 0; first < n; first += piece) {
        const size_t threads = std::min(piece, n - first);
        vector_add<<<1, threads>>>(d_a + first, d_b + first, d_c + first);
        CUDA_CHECK(cudaGetLastError());    // was this launch allowed?
    }
    CUDA_CHECK(cudaDeviceSynchronize());   // did every kernel end well?

    CUDA_CHECK(cudaMemcpy(c, d_c, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));
}

// ## Why does my kernel print nothing?
//
// A kernel can call `printf`. This one first lets some time pass: `clock64` counts the cycles
// of the device.

__global__ void hello()
{
    const long long start = clock64();
    while (clock64() - start < 100'000'000) {          // about a twentieth of a second
    }
    printf("    the kernel            says hello\n");
}

void wait_for_hello()
{
    std::puts("printf in a kernel");
    hello<<<1, 1>>>();
    CUDA_CHECK(cudaGetLastError());
    std::puts("    the host              has launched it, and waits");
    std::fflush(stdout);                   // our own line first
    CUDA_CHECK(cudaDeviceSynchronize());
}

// The host's line comes first, since the launch did not wait. Were the program to end there,
// we would never see the other. That is how many a first "hello world" stays silent. Nor is
// it enough that the kernel has ended. It has no screen: what it prints goes to a buffer in
// the device's memory, from where the host has to fetch it. CUDA promises that for the next
// synchronise, and a driver may do it sooner. The remedy is the second check.
//
// ## Errors that clear, errors that stick
//
// A refused launch has done no harm. Nor has a call that failed: once its code is read, the
// program may go on, and ours did.
//
// An execution error is another matter. Nobody knows what the kernel wrote before it was
// stopped. CUDA gives up the *context*, which is everything that the process has on the
// device: its memory, its kernels, its queue of work. Every later call returns the same
// error. It *sticks*: however often it is read, the next call brings it back, and only a new
// process helps.
//
// That is why each of the following mistakes runs in a process of its own. They have names:
// `./error_checking zero-blocks` fails as your program would, with the message and the exit
// status. The first four are refused on the spot, and clear. (The manual leaves the third open.)

void too_many_threads()
{
    hello<<<1, 2048>>>();
    CUDA_CHECK(cudaGetLastError());
}

void zero_blocks()
{
    const unsigned n = 100, blocks = n / 256;          // rounds down, to no block at all
    hello<<<blocks, 256>>>();
    CUDA_CHECK(cudaGetLastError());
}

void wrong_direction()
{
    float x = 1, *d_x;
    CUDA_CHECK(cudaMalloc(&d_x, sizeof x));
    CUDA_CHECK(cudaMemcpy(d_x, &x, sizeof x, cudaMemcpyDeviceToHost));   // to d_x, from x
}

void out_of_memory()
{
    float* d_x;
    CUDA_CHECK(cudaMalloc(&d_x, size_t(1) << 50));     // a million gigabytes
}

// The others stick. Here a kernel is given a pointer to the host's memory. In general it
// cannot go there: for the device that is an illegal address, and the second check finds it.
// But there are systems whose device can use all of the host's memory, by a fast link or with
// the help of the operating system. They say so when asked, and there the kernel works.

bool device_reaches_host_memory()
{
    int reaches = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&reaches, cudaDevAttrPageableMemoryAccess, 0));
    return reaches;
}

__global__ void add_one(float* x)
{
    x[threadIdx.x] += 1;
}

void host_pointer()
{
    std::vector<float> x(256, 1.0f);
    add_one<<<1, 256>>>(x.data());
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    if (device_reaches_host_memory() && x == std::vector<float>(256, 2.0f)) {
        std::puts("no error: on this system a kernel can use the host's memory\nPASS");
        std::exit(EXIT_SUCCESS);
    }
}

// The next kernel subtracts its left neighbour from each element. The first has none. For
// thread 0 the index is not -1 but, unsigned, 4,294,967,295: the address lies 16 GiB past the
// end. The second check is forgotten. The error comes out of the copy, and the copy has done
// nothing wrong.
//
// `CUDA_LAUNCH_BLOCKING=1 ./error_checking illegal-address` finds the guilty launch. Where
// this variable is set, every launch waits for its kernel, and the *first* check finds both
// kinds of error. The program need not be changed for it, but it slows down like one that
// synchronises after every launch.

__global__ void differences(const float* x, float* y)
{
    const unsigned i = threadIdx.x;
    y[i] = x[i] - x[i - 1];
}

void illegal_address()
{
    float *d_x, *d_y, y[256];
    CUDA_CHECK(cudaMalloc(&d_x, sizeof y));
    CUDA_CHECK(cudaMalloc(&d_y, sizeof y));
    CUDA_CHECK(cudaMemset(d_x, 0, sizeof y));
    differences<<<1, 256>>>(d_x, d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y, d_y, sizeof y, cudaMemcpyDeviceToHost));
}

// Last, an error that the kernel itself declares. A failed `assert` in a kernel names file, line,
// block and thread, and stops the kernel; the host goes on. (`-DNDEBUG` would take it out, so this
// file begins with `#undef NDEBUG`.) We read the error twice and drop it, but it sticks, and the
// innocent `cudaFree` gets it again.

__global__ void square_roots(float* x)
{
    assert(x[threadIdx.x] >= 0);
    x[threadIdx.x] = sqrtf(x[threadIdx.x]);
}

void failing_assert()
{
    const float x[] = {1, 4, -9, 16};
    float* d_x;
    CUDA_CHECK(cudaMalloc(&d_x, sizeof x));
    CUDA_CHECK(cudaMemcpy(d_x, x, sizeof x, cudaMemcpyHostToDevice));
    square_roots<<<1, 4>>>(d_x);
    CUDA_CHECK(cudaGetLastError());
    cudaDeviceSynchronize();
    cudaGetLastError();
    CUDA_CHECK(cudaFree(d_x));
}

// ## The gallery
//
// The program starts itself once for each mistake and reads what it says. Each must give
// exactly the error in the table, from the call in the table.

struct Mistake {
    const char* name;
    void (*make)();
    cudaError_t error;
    const char* call;
};

const Mistake gallery[] = {
    {"too-many-threads", too_many_threads, cudaErrorInvalidConfiguration, "cudaGetLastError"},
    {"zero-blocks", zero_blocks, cudaErrorInvalidConfiguration, "cudaGetLastError"},
    {"wrong-direction", wrong_direction, cudaErrorInvalidValue, "cudaMemcpy"},
    {"out-of-memory", out_of_memory, cudaErrorMemoryAllocation, "cudaMalloc"},
    {"host-pointer", host_pointer, cudaErrorIllegalAddress, "cudaDeviceSynchronize"},
    {"illegal-address", illegal_address, cudaErrorIllegalAddress, "cudaMemcpy"},
    {"assert", failing_assert, cudaErrorAssert, "cudaFree"},
};

void expect(const char* label, const Mistake& mistake);

void visit_gallery(cudaError_t refused)
{
    std::puts("seven mistakes, each in a process of its own");
    for (Mistake mistake : gallery) {
        if (mistake.error == cudaErrorInvalidConfiguration)
            mistake.error = refused;       // as this CUDA says it
        expect(mistake.name, mistake);
        if (mistake.make == illegal_address) {
            mistake.call = "cudaGetLastError";
            setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
            expect("  launches blocking", mistake);
            unsetenv("CUDA_LAUNCH_BLOCKING");
        }
    }
}

// ## What a tool adds
//
// Our message names the call from which the error came. It knows neither the line in the
// kernel nor the thread. `compute-sanitizer`, a part of the toolkit, does: it runs the
// program and checks every access that a kernel makes. `-lineinfo` lets it name lines.
//
// ```sh
// nvcc -arch=native -lineinfo error_checking.cu -o error_checking
// compute-sanitizer ./error_checking illegal-address
// ```
//
// ```
// ========= Invalid __global__ read of size 4 bytes
// =========     at differences(const float *, float *)+0x90 in error_checking.cu:316
// =========     by thread (0,0,0) in block (0,0,0)
// =========     Access to 0x7f6fc27ffffc is out of bounds
// =========     and is 17,041,456,637 bytes after the nearest allocation at 0x7f6bcac00000 of
//               size 512 bytes
// ```
//
// The nearest allocation, of 512 bytes, is not one of ours. And the tool stops the kernel in its
// own way: the program is told `cudaErrorLaunchFailure`.
//
// It also sees what the device lets pass. The device knows only whether there is memory at an
// address, the tool where each allocation ends. (If the next one begins right there, it takes
// `--padding 16` to report a single element too many.) It costs time, so it is for tests. Where
// there is no GPU, `cpu_device/run --asan` checks every access.
//
// ## The program
//
// Without an argument it does all of the above. With a number it does the part that is right,
// for that many elements: a tool must find nothing there. With the name of a mistake it makes
// that one, and the tool must find it.

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
    std::string arguments = "[n";
    for (const Mistake& mistake : gallery) {
        if (argc == 2 && !std::strcmp(argv[1], mistake.name)) {
            mistake.make();
            std::printf("FAIL: %s: there was no error\n", mistake.name);
            return EXIT_FAILURE;
        }
        arguments = arguments + " | " + mistake.name;
    }
    size_t n = 500'000;
    if (argc > 1 && !read_sizes(argc, argv, {&n}))
        return usage(argv[0], (arguments + "]").c_str());
    require_memory(4.0 * n * sizeof(float));
    unsetenv("CUDA_LAUNCH_BLOCKING");      // a launch shall return at once

    std::vector<float> a(n), b(n), cpu(n), gpu(n, NAN);
    for (size_t i = 0; i < n; ++i) {
        a[i] = a_at(i);
        b[i] = b_at(i);
    }
    vector_add_cpu(n, a.data(), b.data(), cpu.data());
    cudaDeviceProp device;
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("C = A + B, vectors of %zu bytes, on %s\n", n * sizeof(float), device.name);
    cudaError_t refused = cudaSuccess;
    if (argc == 1) {
        refused = add_in_silence(n, a.data(), b.data());
        check_what_was_refused();
    }
    vector_add_gpu(n, a.data(), b.data(), gpu.data());
    if (!agree("in pieces", gpu, cpu, 0))
        return EXIT_FAILURE;
    wait_for_hello();
    if (argc == 1) {
        CUDA_CHECK(cudaDeviceReset());     // some GPUs are set to serve one process at a time
        visit_gallery(refused);
    }
    std::puts("PASS");
}

#else

// ## How fast?
//
// What does checking cost? Built with `-DBENCHMARKS`, as in chapter 1, the program times the
// launch for one piece: alone, with `cudaGetLastError`, and with `cudaDeviceSynchronize`. The
// clock is the host's, because it is the host that asks and waits. In the first two rows nobody
// waits for the kernels, so their time is not in it.
//
// ```sh
// nvcc -O3 -arch=native -DBENCHMARKS error_checking.cu -o error_checking_bench -lbenchmark
// ./error_checking_bench
// ```

#include <benchmark/benchmark.h>
#include <chrono>

constexpr size_t piece = 1024;
constexpr int batch = 500;                 // the queue has room for them: no launch has to wait

std::vector<float> inputs()
{
    std::vector<float> both(2 * piece);
    for (size_t i = 0; i < piece; ++i) {
        both[i] = a_at(i);
        both[piece + i] = b_at(i);
    }
    return both;
}

template <typename Launch>
void time_on_host(benchmark::State& state, Launch launch)
{
    const std::vector<float> both = inputs();
    float* d;                              // a, b and c, one after the other
    CUDA_CHECK(cudaMalloc(&d, 3 * piece * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d, both.data(), 2 * piece * sizeof(float), cudaMemcpyHostToDevice));
    launch(d);                             // the first launch also loads the kernel
    CUDA_CHECK(cudaDeviceSynchronize());
    while (state.KeepRunningBatch(batch)) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < batch; ++i)
            launch(d);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        state.SetIterationTime(seconds.count());
    }
    CUDA_CHECK(cudaFree(d));
}

void gpu_launch_alone(benchmark::State& state)
{
    time_on_host(state, [](float* d) { vector_add<<<1, piece>>>(d, d + piece, d + 2 * piece); });
}

void gpu_launch_get_last_error(benchmark::State& state)
{
    time_on_host(state, [](float* d) {
        vector_add<<<1, piece>>>(d, d + piece, d + 2 * piece);
        CUDA_CHECK(cudaGetLastError());
    });
}

void gpu_launch_synchronize(benchmark::State& state)
{
    time_on_host(state, [](float* d) {
        vector_add<<<1, piece>>>(d, d + piece, d + 2 * piece);
        CUDA_CHECK(cudaDeviceSynchronize());
    });
}

// For comparison, the same piece added by the CPU.

void cpu_one_thread(benchmark::State& state)
{
    const std::vector<float> both = inputs();
    std::vector<float> c(piece);
    for (auto _ : state) {
        vector_add_cpu(piece, both.data(), both.data() + piece, c.data());
        benchmark::DoNotOptimize(c.data());
        benchmark::ClobberMemory();
    }
}

BENCHMARK(gpu_launch_alone)->MinTime(0.1)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(gpu_launch_get_last_error)->MinTime(0.1)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(gpu_launch_synchronize)->MinTime(0.1)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(cpu_one_thread)->MinTime(0.1)->Unit(benchmark::kMicrosecond);
BENCHMARK_MAIN();

// On the H200 a launch alone takes 3.4 µs. `cudaGetLastError` reads a variable of the host; with
// it a launch takes 3.5 µs. With a synchronise it takes 8.8 µs: the host waits for the device,
// and then the device for the host. The CPU adds the same piece in 0.10 µs.

#endif

// ## Try it
//
// Predict first, then change the line, and run.
//
// 1. Let `check_what_was_refused` pass `cudaPeekAtLastError()` to the tempting check. What does
//    it say now, and what does the rest of the program do?
//
//    *Answer:* now it gives the reason, "invalid argument" (CUDA 12: "invalid configuration
//    argument"), because looking does not clear. So the error is still there when
//    `vector_add_gpu` makes its first launch, which is right. The `cudaGetLastError` after
//    *that* finds it, and the program ends there with exit code 1. An error that nobody has read
//    is taken for the next launch's.
//
// 2. Make the 100 in `zero_blocks` a 1000. How many threads say hello when you run
//    `./error_checking zero-blocks`?
//
//    *Answer:* none, and there is no error either. 1000 / 256 is 3, so 768 threads were launched
//    without fault. But `zero_blocks` checks the launch and does not wait, and the program is at
//    its end (`FAIL: zero-blocks: there was no error`) before anybody fetches what they had to
//    say.
//
// 3. Write `x[i + 1]` for `x[i - 1]` in `differences`. The last thread reads one element past
//    the end. What does `./error_checking illegal-address` say?
//
//    *Answer:* on a GPU `FAIL: illegal-address: there was no error`. After the 256 floats there
//    is more memory of the program, and the device asks no more than that. The CPU device knows
//    where each buffer ends. It stops the kernel and names thread 255, and
//    `cpu_device/run --asan` also the line.
//
// ## What comes next
//
// Half a million elements took 489 launches, one after another, and the CPU is done with a
// piece before its launch is. At no time were there more than 1024 threads. How many can the
// device run at once, and how do we get them? In every launch that worked, the first number in
// `<<<1, n>>>` was 1. Chapter 3 raises it.
//
// ## Plumbing
//
// Helpers that several chapters need. Their text is the same in each, so that every file can be
// copied on its own.

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <spawn.h>
#include <sys/wait.h>
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

// Runs this program again with one argument and waits for its end. Once CUDA has started, a
// `fork` would copy what cannot be copied; `posix_spawn` starts afresh.

struct Ending {
    int status;
    std::string text;                      // all that it printed
};

Ending run_alone(const char* argument)
{
    std::fflush(stdout);
    char program[] = "/proc/self/exe";
    char* const arguments[] = {program, const_cast<char*>(argument), nullptr};
    int ends[2] = {}, error = 0;
    pid_t child = 0;
    posix_spawn_file_actions_t output;
    if (pipe2(ends, O_CLOEXEC) != 0)
        error = errno;
    if (!error)
        error = posix_spawn_file_actions_init(&output);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&output, ends[1], STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&output, ends[1], STDERR_FILENO);
    if (!error)
        error = posix_spawn(&child, program, &output, nullptr, arguments, environ);
    if (error) {
        std::printf("FAIL: cannot start %s: %s\n", program, std::strerror(error));
        std::exit(EXIT_FAILURE);
    }
    posix_spawn_file_actions_destroy(&output);
    close(ends[1]);

    Ending ending{};
    char buffer[4096];
    for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
        ending.text.append(buffer, size);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ending;
}

// A mistake must end the process with status 1 and with our message: the right error, its
// meaning, and the call.

void expect(const char* label, const Mistake& mistake)
{
    const bool works = mistake.make == host_pointer && device_reaches_host_memory();
    const cudaError_t error = works ? cudaSuccess : mistake.error;
    const std::string message = std::string(": ") + cudaGetErrorName(error) + ": " +
                                cudaGetErrorString(error) + "\n    " + mistake.call + "(";
    const Ending ending = run_alone(mistake.name);
    const auto says = [&](const std::string& text) {
        return ending.text.find(text) != std::string::npos;
    };
    const bool right = works ? ending.status == EXIT_SUCCESS && says("PASS\n")
                             : ending.status == EXIT_FAILURE && says(message) && !says("FAIL: ");
    if (!right) {
        std::fputs(ending.text.c_str(), stderr);
        std::printf("FAIL: %s: expected %s from %s\n", label, cudaGetErrorName(error),
                    mistake.call);
        std::exit(EXIT_FAILURE);
    }
    std::printf("    %-22s%-31sexpected from %s\n", label, cudaGetErrorName(error), mistake.call);
}
