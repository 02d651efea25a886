// How fast is the CPU device? Prints ratios of times taken in one run, so that a slow machine and
// a busy one give the same, and FAIL when one is above its limit.
//
//     cpu_device/run tests/cpu_device/speed.cu
//
// The number of workers is fixed when a program starts, so this one starts itself anew for one
// worker and for two.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call) check(call, #call, __LINE__)
void check(cudaError_t status, const char* call, int line)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorName(status));
    std::exit(EXIT_FAILURE);
}

constexpr int n = 512;

void matmul_cpu(const float* a, const float* b, float* c)
{
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

__global__ void naive(const float* a, const float* b, float* c)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}

constexpr int tile = 32;

__global__ void tiled(const float* a, const float* b, float* c)
{
    __shared__ float a_tile[tile][tile], b_tile[tile][tile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * tile + y, col = blockIdx.x * tile + x;
    float sum = 0;
    for (int start = 0; start < n; start += tile) {
        a_tile[y][x] = a[row * n + start + x];
        b_tile[y][x] = b[(start + y) * n + col];
        __syncthreads();
        for (int k = 0; k < tile; ++k)
            sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}

__global__ void barriers(int count)
{
    for (int i = 0; i < count; ++i)
        __syncthreads();
}

__global__ void shuffles(int* x, int count)
{
    int value = threadIdx.x;
    for (int i = 0; i < count; ++i)
        value = __shfl_xor_sync(0xFFFFFFFF, value, 1);
    x[threadIdx.x] = value;
}

__global__ void nothing() {}

// The best of what fits into 0.2 seconds: whatever else the machine does only adds.
template <class Work>
double seconds(Work work)
{
    using Seconds = std::chrono::duration<double>;
    const auto begin = std::chrono::steady_clock::now();
    auto end = begin;
    double best = 1e9;
    for (int i = 0; i < 3 || Seconds(end - begin).count() < 0.2; ++i) {
        const auto start = end;
        work();
        end = std::chrono::steady_clock::now();
        best = std::min(best, Seconds(end - start).count());
    }
    return best;
}

template <class Launch>
double seconds_of(Launch launch)
{
    return seconds([&] {
        launch();
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    });
}

struct Times {
    double loop, naive, tiled, barrier, shuffle, thread;
};

int measure()
{
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; ++i) {
        a[i] = i % 13 - 6;
        b[i] = i % 11 - 5;
    }
    const size_t bytes = a.size() * sizeof(float);
    float *d_a, *d_b, *d_c;
    int* d_x;
    CHECK(cudaMalloc(&d_a, bytes));
    CHECK(cudaMalloc(&d_b, bytes));
    CHECK(cudaMalloc(&d_c, bytes));
    CHECK(cudaMalloc(&d_x, 256 * sizeof(int)));
    CHECK(cudaMemcpy(d_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), bytes, cudaMemcpyHostToDevice));

    Times t;
    t.loop = seconds([&] { matmul_cpu(a.data(), b.data(), c.data()); });
    const auto is_right = [&] {
        std::vector<float> result(n * n);
        CHECK(cudaMemcpy(result.data(), d_c, bytes, cudaMemcpyDeviceToHost));
        return result == c;
    };
    t.naive = seconds_of([&] { naive<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(d_a, d_b, d_c); });
    if (!is_right())
        return std::puts("the naive product is wrong"), EXIT_FAILURE;
    CHECK(cudaMemset(d_c, 0xFF, bytes));
    t.tiled = seconds_of([&] { tiled<<<dim3(n / tile, n / tile), dim3(tile, tile)>>>(d_a, d_b, d_c); });
    if (!is_right())
        return std::puts("the tiled product is wrong"), EXIT_FAILURE;

    const int block = 256, count = 2000, many = 4000;
    t.barrier = seconds_of([&] { barriers<<<1, block>>>(count); }) / (double(block) * count);
    t.shuffle = seconds_of([&] { shuffles<<<1, block>>>(d_x, count); }) / (double(block) * count);
    t.thread = seconds_of([&] { nothing<<<many, block>>>(); }) / (double(block) * many);
    std::printf("times %.9f %.9f %.9f %.12f %.12f %.12f\n", t.loop, t.naive, t.tiled, t.barrier,
                t.shuffle, t.thread);
    return EXIT_SUCCESS;
}

Times measure_with(int workers, const std::string& program)
{
    const std::string command = "CPU_DEVICE_QUIET=1 CPU_DEVICE_WORKERS=" + std::to_string(workers)
                                + " '" + program + "' measure";
    FILE* const pipe = popen(command.c_str(), "r");
    Times t{};
    const bool read = pipe
                      && std::fscanf(pipe, "times %lf %lf %lf %lf %lf %lf", &t.loop, &t.naive,
                                     &t.tiled, &t.barrier, &t.shuffle, &t.thread)
                             == 6;
    if (!pipe || pclose(pipe) != 0 || !read) {
        std::printf("FAIL: could not measure with %d workers\n", workers);
        std::exit(EXIT_FAILURE);
    }
    return t;
}

bool within = true;

void line(const char* what, double value, const char* unit, double limit)
{
    const bool good = value <= limit;
    std::printf("%-58s %6.2f%-3s limit %g%s\n", what, value, unit, limit, good ? "" : "  ABOVE");
    within = within && good;
}

int main(int argc, char** argv)
{
    if (argc == 2 && !std::strcmp(argv[1], "measure"))
        return measure();
    if (argc != 1) {
        std::fprintf(stderr, "usage: %s\n", argv[0]);
        return 2;
    }
    const Times one = measure_with(1, argv[0]), two = measure_with(2, argv[0]);
    line("naive matmul of 512 / plain loop, one worker", one.naive / one.loop, "", 1.3);
    line("naive matmul, two workers / one worker", two.naive / one.naive, "", 0.7);
    line("tiled matmul, 32 x 32 / naive, one worker", one.tiled / one.naive, "", 6);
    line("__syncthreads, a thread of 256", one.barrier * 1e9, " ns", 25);
    line("shuffle, a thread of 256", one.shuffle * 1e9, " ns", 50);
    line("a thread that does nothing, blocks of 256", one.thread * 1e9, " ns", 10);
    std::puts(within ? "PASS" : "FAIL: above a limit");
    return within ? EXIT_SUCCESS : EXIT_FAILURE;
}
