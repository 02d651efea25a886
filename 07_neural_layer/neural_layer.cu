// # A neural layer
//
// Chapter 5 had the sigmoid, chapter 6 the product. Together with a vector b they are a *layer*
// of a neural network:
//
//     y = σ(Wx + b)
//
// This chapter computes one, first for a single vector, until the kernel is as fast as the memory
// can be read, then for many vectors at a time. A network of two layers reads handwritten digits.
//
// ```sh
// nvcc -arch=native neural_layer.cu -o neural_layer && ./neural_layer
// ./neural_layer 1000 333 777        # batch, in, out
// ./neural_layer digits digits.txt
// ```

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// ## What a layer is
//
// A layer turns `in` numbers into `out` numbers. Each output has a *weight* for every input. It
// adds up the weighted inputs, adds a number of its own, the *bias*, and σ squeezes the sum to
// between 0 and 1. The weights of one output are a row of the matrix W, so W has `out` rows and
// `in` columns. PyTorch stores it like that, row after row, and so do we. Training finds the
// weights. That is another subject. Here they are given.

__host__ __device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

void layer_cpu(size_t in, size_t out, const float* w, const float* b, const float* x, float* y)
{
    for (size_t row = 0; row < out; ++row) {
        float sum = 0;
        for (size_t i = 0; i < in; ++i)
            sum += w[row * in + i] * x[i];
        y[row] = sigmoid(sum + b[row]);
    }
}

// ## Three kernels
//
// The formula has three steps, so one would first write three kernels. A thread has one output,
// which is one row of W.

__global__ void multiply(size_t in, size_t out, const float* w, const float* x, float* y)
{
    const size_t row = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row < out) {
        float sum = 0;
        for (size_t i = 0; i < in; ++i)
            sum += w[row * in + i] * x[i];
        y[row] = sum;
    }
}

__global__ void add_bias(size_t out, const float* b, float* y)
{
    const size_t row = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row < out)
        y[row] += b[row];
}

__global__ void apply_sigmoid(size_t out, float* y)
{
    const size_t row = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row < out)
        y[row] = sigmoid(y[row]);
}

// All launches of this chapter have the same parameters. Those for one vector ignore the batch.

struct Shape {
    size_t batch, in, out;
};

void launch_three_kernels(Shape s, const float* d_w, const float* d_b, const float* d_x, float* d_y)
{
    const size_t blocks = (s.out + 255) / 256;
    multiply<<<blocks, 256>>>(s.in, s.out, d_w, d_x, d_y);
    add_bias<<<blocks, 256>>>(s.out, d_b, d_y);
    apply_sigmoid<<<blocks, 256>>>(s.out, d_y);
}

// ## One kernel
//
// The sum is in a register when the first kernel ends. It goes to memory, the second kernel fetches
// it, and so does the third: two trips there and back for nothing, and three launches. To *fuse*
// the kernels is to do all three steps while the number is at hand.

__global__ void layer_thread_a_row(size_t in, size_t out, const float* w, const float* b,
                                   const float* x, float* y)
{
    const size_t row = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row < out) {
        float sum = 0;
        for (size_t i = 0; i < in; ++i)
            sum += w[row * in + i] * x[i];
        y[row] = sigmoid(sum + b[row]);
    }
}

void launch_fused(Shape s, const float* d_w, const float* d_b, const float* d_x, float* d_y)
{
    layer_thread_a_row<<<(s.out + 255) / 256, 256>>>(s.in, s.out, d_w, d_b, d_x, d_y);
}

// ## One warp a row
//
// Fusing saves trips for `out` numbers. W has `in` times as many, and each of them is needed once.
// So the time of a layer for one vector is the time to read W. And the kernel reads it in the slow
// way of chapter 4: neighbouring threads are a whole row apart.
//
// Now let a whole warp have the row. Its 32 lanes take 32 neighbouring weights, then the next 32:
// coalesced. But at the end each lane has a sum of its own, of every 32nd product, and we want the
// sum of the sums. That is a *reduction*.
//
// The lanes of a warp can read each other's registers. `__shfl_down_sync(mask, value, distance)`
// gives each lane the `value` of the lane that is `distance` further on. If every lane adds what
// it gets from 16 further on, lanes 0 to 15 have everything between them, and the others do not
// count any more. With 8, 4, 2 and 1 it ends in lane 0, in five steps and not in 31:
//
//     distance 16    lane 0 has 0+16                 lane 8 has 8+24
//     distance 8     lane 0 has 0+8+16+24
//     …
//     distance 1     lane 0 has all 32
//
// There is no memory in between, and so no barrier either. The mask has a bit for each lane that
// takes part, here all 32, and the instruction waits for them by itself. (That is the `sync` in its
// name.) What a lane gets from one that has left the kernel is undefined. Our warps leave as a
// whole, since all their lanes have the same row.

__device__ float warp_sum(float sum)
{
    for (unsigned distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xFFFFFFFF, sum, distance);
    return sum;                            // in lane 0 alone that of the whole warp
}

__global__ void layer_warp_a_row(size_t in, size_t out, const float* w, const float* b,
                                 const float* x, float* y)
{
    const size_t row = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    const unsigned lane = threadIdx.x % 32;
    if (row >= out)
        return;
    float sum = 0;
    for (size_t i = lane; i < in; i += 32)
        sum += w[row * in + i] * x[i];
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sigmoid(sum + b[row]);
}

void launch_warp_a_row(Shape s, const float* d_w, const float* d_b, const float* d_x, float* d_y)
{
    layer_warp_a_row<<<(s.out + 7) / 8, 256>>>(s.in, s.out, d_w, d_b, d_x, d_y);
}

// ## One block a row
//
// To read at full speed a GPU must have many bytes under way, as chapter 3 found: more threads, or
// more bytes a thread. We do both. A row gets a block, and each thread reads `float4`s, several
// before it uses the first. None depends on another, so they can be under way at the same time.
//
// Each needs four registers to arrive in, and the compiler is sparing with them: the fewer a thread
// has, the more threads fit into an SM. Left alone, `nvcc` 13.0 gets by with 36 for `sm_90`, and
// uses the first `float4` before it asks for the last. `__launch_bounds__` says that a block has at
// most `threads` threads, and that an SM need hold only `512 / threads` blocks. Now it takes 78.
//
// A load of a `float4` needs an address that is a multiple of 16 bytes, and a row of W begins at
// one only if `in` is a multiple of 4. Otherwise the same kernel goes in single floats. So what is
// loaded at once, a *pack*, is a template parameter, as are the threads of a block and the loads
// of a thread. Past the end of the row a pack is left at zero, and adds nothing.

__device__ float dot(float u, float v) { return u * v; }
__device__ float dot(float4 u, float4 v) { return u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w; }

// The reduction has two levels. Each warp reduces what its lanes have, as before. Warps cannot see
// each other's registers, so their sums meet in shared memory. There a barrier is needed: thread 0
// must not add before all have written.

template <unsigned threads, unsigned loads, typename Pack>
__global__ void __launch_bounds__(threads, 512 / threads)
    layer_block_a_row(size_t in, const float* w, const float* b, const float* x, float* y)
{
    const size_t row = blockIdx.x, packs = in * sizeof(float) / sizeof(Pack);
    const Pack* const w_packs = reinterpret_cast<const Pack*>(w + row * in);
    const Pack* const x_packs = reinterpret_cast<const Pack*>(x);

    float sum = 0;
    for (size_t i = threadIdx.x; i < packs; i += threads * loads) {
        Pack u[loads] = {}, v[loads] = {};
        for (unsigned k = 0; k < loads; ++k)
            if (i + k * threads < packs)
                u[k] = w_packs[i + k * threads];
        for (unsigned k = 0; k < loads; ++k)
            if (i + k * threads < packs)
                v[k] = x_packs[i + k * threads];
        for (unsigned k = 0; k < loads; ++k)
            sum += dot(u[k], v[k]);
    }

    __shared__ float warp_sums[threads / 32];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned warp = 1; warp < threads / 32; ++warp)
            sum += warp_sums[warp];
        y[row] = sigmoid(sum + b[row]);
    }
}

template <unsigned threads, unsigned loads>
void launch_block_a_row(Shape s, const float* d_w, const float* d_b, const float* d_x, float* d_y)
{
    if (s.in % 4 == 0)
        layer_block_a_row<threads, loads, float4><<<s.out, threads>>>(s.in, d_w, d_b, d_x, d_y);
    else
        layer_block_a_row<threads, loads, float><<<s.out, threads>>>(s.in, d_w, d_b, d_x, d_y);
}

// ## A batch
//
// One vector alone cannot be faster: W must be read, and it is read once. But each weight makes
// that long trip for a single multiplication, and could serve more vectors. So we put vectors
// together, one a row, into a matrix X of `batch` rows. Row n of the result belongs to row n of X:
//
//     Y = σ(X Wᵀ + b)
//
// Each element is the product of a row of X and a row of W. That is a matrix product, of X with W
// *transposed*, rows for columns. The vector b is added to each row of Y.

void batch_cpu(Shape s, const float* w, const float* b, const float* x, float* y)
{
    for (size_t n = 0; n < s.batch; ++n)
        layer_cpu(s.in, s.out, w, b, x + n * s.in, y + n * s.out);
}

// So the kernel is chapter 6's tile kernel, with changes. W is read as it lies, not transposed.
// Both tiles go along `in`, loaded row by row, coalesced. But then the lanes of a warp, which
// differ in `threadIdx.x`, go *down* the tile of W, each in its own row. Shared memory is made of
// 32 *banks*: float 0 is in bank 0, float 31 in bank 31, float 32 in bank 0 again. A bank hands out
// one float at a time, so rows of 32 would make all lanes queue: a *bank conflict*. With one float
// more a row, which nobody uses, one row further down is one bank further on.
//
// The last line adds the bias and applies σ, so there is no other kernel. And where the grid's y
// ends, a block goes on with a loop, as in chapter 4.

template <unsigned tile>
__global__ void layer_tile(Shape s, const float* w, const float* b, const float* x, float* y)
{
    __shared__ float x_tile[tile][tile], w_tile[tile][tile + 1];
    const unsigned tx = threadIdx.x, ty = threadIdx.y;
    const size_t first_out = size_t(blockIdx.x) * tile;
    for (size_t first_n = size_t(blockIdx.y) * tile; first_n < s.batch;
         first_n += size_t(gridDim.y) * tile) {
        float sum = 0;
        for (size_t first_i = 0; first_i < s.in; first_i += tile) {
            const size_t i = first_i + tx;
            const bool has_x = first_n + ty < s.batch && i < s.in;
            const bool has_w = first_out + ty < s.out && i < s.in;
            x_tile[ty][tx] = has_x ? x[(first_n + ty) * s.in + i] : 0;
            w_tile[ty][tx] = has_w ? w[(first_out + ty) * s.in + i] : 0;
            __syncthreads();
            for (unsigned k = 0; k < tile; ++k)
                sum += x_tile[ty][k] * w_tile[tx][k];
            __syncthreads();
        }
        const size_t n = first_n + ty, row = first_out + tx;
        if (n < s.batch && row < s.out)
            y[n * s.out + row] = sigmoid(sum + b[row]);
    }
}

template <unsigned tile>
void launch_tile(Shape s, const float* d_w, const float* d_b, const float* d_x, float* d_y)
{
    const dim3 grid((s.out + tile - 1) / tile,
                    std::min<size_t>((s.batch + tile - 1) / tile, 65535));
    layer_tile<tile><<<grid, dim3(tile, tile)>>>(s, d_w, d_b, d_x, d_y);
}

// ## There and back

#define CUDA_CHECK(call) check_cuda(call, #call, __FILE__, __LINE__)
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

using Launch = void (*)(Shape, const float* d_w, const float* d_b, const float* d_x, float* d_y);

void layer_gpu(Launch launch, Shape s, const float* w, const float* b, const float* x, float* y)
{
    const size_t bytes_w = s.out * s.in * sizeof(float), bytes_b = s.out * sizeof(float);
    const size_t bytes_x = s.batch * s.in * sizeof(float);
    const size_t bytes_y = s.batch * s.out * sizeof(float);
    float *d_w, *d_b, *d_x, *d_y;
    CUDA_CHECK(cudaMalloc(&d_w, bytes_w));
    CUDA_CHECK(cudaMalloc(&d_b, bytes_b));
    CUDA_CHECK(cudaMalloc(&d_x, bytes_x));
    CUDA_CHECK(cudaMalloc(&d_y, bytes_y));
    CUDA_CHECK(cudaMemcpy(d_w, w, bytes_w, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, b, bytes_b, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_x, x, bytes_x, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0xFF, bytes_y));

    launch(s, d_w, d_b, d_x, d_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    CUDA_CHECK(cudaMemcpy(y, d_y, bytes_y, cudaMemcpyDeviceToHost));
    for (float* const memory : {d_w, d_b, d_x, d_y})
        CUDA_CHECK(cudaFree(memory));
}

// ## Do they agree?
//
// The kernels add the same products in different orders, and each is as right as the other. So all
// are held against the layer in double precision. How far off may they be?
//
// - The sum z = Wx + b has `in` products and the bias, each rounded in + 1 times at most. With one
//   more, since errors are rounded as well, that makes N = in + 2. As in chapter 6 we allow the
//   lesser of N and 4√N, times 2⁻²⁴ · (Σ|w x| + |b|).
// - σ has the slope y (1 - y) at z, and up to a distance δ from z at most e^δ times as much. So an
//   error of δ in z leaves at most δ e^δ y (1 - y). More than 0.01 we never allow.
// - Then σ has errors of its own, which chapter 5 counted, in units of 2⁻²³ σ: 2½ (1 - σ)
//   for `expf`, 1 for the rest.
//
// Where σ is near 0 or 1 it would hide a mistake in z. So the inputs are chosen for sums of
// moderate size: x between ½ and 1½, the weights between ±1/√in, where PyTorch begins as well,
// and the biases between ±1, or ±100 for every fifth, where another form of σ gives NaN.

float random_at(size_t i);                 // from 0 to 1, without 1

void fill(size_t in, std::vector<float>& w, std::vector<float>& b, std::vector<float>& x)
{
    const float scale = 1 / std::sqrt(float(in));
    for (size_t i = 0; i < w.size(); ++i)
        w[i] = (2 * random_at(i) - 1) * scale;
    for (size_t i = 0; i < b.size(); ++i)
        b[i] = (2 * random_at(i + 1'000'000'000) - 1) * (i % 5 == 1 ? 100 : 1);
    for (size_t i = 0; i < x.size(); ++i)
        x[i] = random_at(i + 2'000'000'000) + 0.5f;
}

struct Reference {
    std::vector<double> y, tolerance;
};

Reference layer_double(Shape s, const float* w, const float* b, const float* x)
{
    Reference result;
    const double roundings = std::min<double>(s.in + 2, 4 * std::sqrt(s.in + 2));
    for (size_t n = 0; n < s.batch; ++n)
        for (size_t row = 0; row < s.out; ++row) {
            double z = b[row], size = std::fabs(z);
            for (size_t i = 0; i < s.in; ++i) {
                const double product = double(w[row * s.in + i]) * x[n * s.in + i];
                z += product;
                size += std::fabs(product);
            }
            const double y = 1 / (1 + std::exp(-z));
            result.y.push_back(y);
            const double delta = roundings * 0x1p-24 * size;
            result.tolerance.push_back(std::min(0.01, delta * std::exp(delta) * y * (1 - y)) +
                                       (2.5 * (1 - y) + 1) * FLT_EPSILON * y + FLT_MIN);
        }
    return result;
}

bool read_sizes(int argc, char** argv, std::initializer_list<size_t*> sizes);
int usage(const char* program, const char* arguments);
void require_memory(double bytes);
bool agree(const char* what, const std::vector<float>& gpu, const std::vector<double>& reference,
           const std::vector<double>& tolerance);

#ifndef BENCHMARKS

struct Way {
    const char* name;
    Launch launch;
};

const std::vector<Way> one_vector_ways = {
    {"three kernels", launch_three_kernels},
    {"fused", launch_fused},
    {"warp a row", launch_warp_a_row},
    {"block<128,4>", launch_block_a_row<128, 4>},
    {"block<128,8>", launch_block_a_row<128, 8>},
    {"block<256,8>", launch_block_a_row<256, 8>},
};
const std::vector<Way> batch_ways = {{"tile<16>", launch_tile<16>}, {"tile<32>", launch_tile<32>}};

bool check(const std::vector<Way>& ways, Shape s, const std::vector<float>& w,
           const std::vector<float>& b, const std::vector<float>& x)
{
    const Reference reference = layer_double(s, w.data(), b.data(), x.data());
    std::vector<float> y(s.batch * s.out);
    batch_cpu(s, w.data(), b.data(), x.data(), y.data());
    if (!agree("CPU", y, reference.y, reference.tolerance))
        return false;
    for (const Way& way : ways) {
        y.assign(y.size(), NAN);
        layer_gpu(way.launch, s, w.data(), b.data(), x.data(), y.data());
        if (!agree(way.name, y, reference.y, reference.tolerance))
            return false;
    }
    return true;
}

bool check(Shape s)
{
    if (s.batch == 0 || s.out == 0)
        return true;                       // no outputs
    require_memory(sizeof(float) * (double(s.out) * s.in + s.out + double(s.batch) * s.in) +
                   (sizeof(float) + 2 * sizeof(double)) * double(s.batch) * s.out);
    std::vector<float> w(s.out * s.in), b(s.out), x(s.batch * s.in);
    fill(s.in, w, b, x);
    std::printf("one vector: in %zu, out %zu\n", s.in, s.out);
    if (!check(one_vector_ways, {1, s.in, s.out}, w, b, x))    // the first row of X
        return false;
    std::printf("a batch of %zu\n", s.batch);
    return check(batch_ways, s, w, b, x);
}

// ## A network that reads
//
// A *network* is layers in a row: what one puts out, the next takes in. `digits.txt` has a network
// of two. The first takes the 64 pixels of an image of 8 × 8 and makes 48 numbers of them. The
// second makes 10: for each digit how much the image looks like it. The largest is the answer.
//
// `digits.py` trained it, on three quarters of the images that come with scikit-learn. The others
// are in the file too. The training has not seen them, so they are what to judge the network by.
// (The head of the file says whose they are, and their licence.) The file is text:
//
//     layers 64 48 10
//     layer 48             and 48 lines: the 64 weights of an output, and its bias
//     layer 10             and 10 lines: 48 weights, bias
//     images 450           and 450 lines: 64 pixels from 0 to 16, and which digit it is
//     end

struct Layer {
    size_t in, out;
    std::vector<float> w, b;
};

struct Digits {
    Layer hidden, output;
    std::vector<float> pixels;             // images x 64, from 0 to 1
    std::vector<size_t> digits;            // what the images show
};

Digits read_digits(const char* name);

// All images are one batch. The network runs once with our tile kernel and once on the CPU. Each
// layer is checked as above, with the input that it really had.

void batch_gpu(Shape s, const float* w, const float* b, const float* x, float* y)
{
    layer_gpu(launch_tile<16>, s, w, b, x, y);
}

bool run_network(const std::string& where, decltype(&batch_cpu) layers, const Digits& d,
                 std::vector<float>& y)
{
    y = d.pixels;
    for (const Layer& layer : {d.hidden, d.output}) {
        const Shape s{d.digits.size(), layer.in, layer.out};
        const std::vector<float> x = y;
        const Reference reference = layer_double(s, layer.w.data(), layer.b.data(), x.data());
        y.assign(s.batch * s.out, NAN);
        layers(s, layer.w.data(), layer.b.data(), x.data(), y.data());
        const std::string what = where + (s.out == 10 ? ", output" : ", hidden");
        if (!agree(what.c_str(), y, reference.y, reference.tolerance))
            return false;
    }
    return true;
}

size_t answer(const std::vector<float>& y, size_t image)
{
    const float* const outputs = &y[10 * image];
    return std::max_element(outputs, outputs + 10) - outputs;
}

void print_image(const float* pixels, const float* outputs);

int run_digits(const char* name)
{
    const Digits d = read_digits(name);
    std::vector<float> gpu, cpu;
    if (!run_network("GPU", batch_gpu, d, gpu) || !run_network("CPU", batch_cpu, d, cpu))
        return EXIT_FAILURE;
    print_image(d.pixels.data(), gpu.data());

    const size_t images = d.digits.size();
    size_t right_gpu = 0, right_cpu = 0, different = 0;
    for (size_t i = 0; i < images; ++i) {
        right_gpu += answer(gpu, i) == d.digits[i];
        right_cpu += answer(cpu, i) == d.digits[i];
        different += answer(gpu, i) != answer(cpu, i);
    }
    if (different > 0) {
        std::printf("FAIL: %zu of %zu answers of the GPU and the CPU differ\n", different, images);
        return EXIT_FAILURE;
    }
    const double share = double(right_gpu) / images;
    std::printf("digits: %zu held-out images, GPU right in %.3f, CPU %.3f, same predictions\n",
                images, share, double(right_cpu) / images);
    if (share >= 0.95) {
        std::puts("PASS");
        return EXIT_SUCCESS;
    }
    std::printf("FAIL: %s: the network is right in less than 0.95\n", name);
    return EXIT_FAILURE;
}

int main(int argc, char** argv)
{
    if (argc == 3 && std::strcmp(argv[1], "digits") == 0)
        return run_digits(argv[2]);
    Shape s;
    if (argc > 1 && !read_sizes(argc, argv, {&s.batch, &s.in, &s.out}))
        return usage(argv[0], "[batch in out | digits FILE]");

    cudaDeviceProp device;
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("y = sigmoid(Wx + b) on %s\n", device.name);
    if (!(argc > 1 ? check(s)
                   : check({67, 301, 523}) && check({70, 6, 35}) && check({3, 4108, 31})))
        return EXIT_FAILURE;
    std::puts("PASS");
}

#else

// ## How fast?
//
// ```sh
// FLAGS="-O3 -std=c++17 -arch=native -DBENCHMARKS -Xcompiler -fopenmp"
// nvcc $FLAGS neural_layer.cu -o neural_layer_bench -lbenchmark -lcublas && ./neural_layer_bench
// ```
//
// The numbers in a row's name are batch, in and out. Bytes are counted as if W, b and the batch's
// x were read once and y written once, and `items_per_second` counts FLOP, a multiplication and an
// addition for each weight and vector.

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

// The inputs are made and copied once, at the largest sizes, and each row uses as much of them as
// its shape needs.

constexpr size_t largest_w = 16384 * 16384, largest_x = 1024 * 4096, largest_y = 1024 * 4096;

struct HostArrays {
    std::vector<float> w, b, x, y;

    HostArrays() : w(largest_w), b(16384), x(largest_x), y(largest_y) { fill(16384, w, b, x); }
};

HostArrays& host()
{
    static HostArrays arrays;
    return arrays;
}

struct DeviceArrays {
    float *w, *b, *x, *y, *library_y;
    size_t count_w = largest_w;

    DeviceArrays()
    {
        const HostArrays& h = host();
        size_t free, total;
        CUDA_CHECK(cudaMemGetInfo(&free, &total));
        while (double(sizeof(float)) * (count_w + largest_x + 2 * largest_y) > 0.9 * free)
            count_w /= 2;
        CUDA_CHECK(cudaMalloc(&w, count_w * sizeof(float)));
        CUDA_CHECK(cudaMalloc(&b, h.b.size() * sizeof(float)));
        CUDA_CHECK(cudaMalloc(&x, h.x.size() * sizeof(float)));
        CUDA_CHECK(cudaMalloc(&y, h.y.size() * sizeof(float)));
        CUDA_CHECK(cudaMalloc(&library_y, h.y.size() * sizeof(float)));
        CUDA_CHECK(cudaMemcpy(w, h.w.data(), count_w * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(b, h.b.data(), h.b.size() * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(x, h.x.data(), h.x.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
};

const DeviceArrays& device()
{
    static const DeviceArrays arrays;
    return arrays;
}

Shape shape_of(const benchmark::State& state)
{
    return {size_t(state.range(0)), size_t(state.range(1)), size_t(state.range(2))};
}

bool has_room(benchmark::State& state)
{
    const Shape s = shape_of(state);
    const bool fits = s.in * s.out <= device().count_w;
    if (!fits)
        state.SkipWithError("the device has no room for this shape");
    return fits;
}

void report(benchmark::State& state)
{
    const Shape s = shape_of(state);
    state.SetBytesProcessed(state.iterations() * sizeof(float) *
                            (s.in * s.out + s.out + s.batch * (s.in + s.out)));
    state.SetItemsProcessed(state.iterations() * 2 * s.batch * s.in * s.out);
}

// The launches between two events: a millisecond's work or more on a fast GPU.

int launches_for(Shape s)
{
    return s.batch == 1 ? std::clamp<size_t>((1 << 30) / (s.in * s.out), 4, 512)
                        : std::clamp<size_t>((1ull << 34) / (s.batch * s.in * s.out), 1, 64);
}

template <decltype(&batch_cpu) layers>
void cpu(benchmark::State& state)
{
    HostArrays& h = host();
    for (auto _ : state) {
        layers(shape_of(state), h.w.data(), h.b.data(), h.x.data(), h.y.data());
        benchmark::DoNotOptimize(h.y.data());
        benchmark::ClobberMemory();
    }
    report(state);
}

// With all threads of the CPU, each takes some rows of W, for all vectors.

#ifdef _OPENMP
void batch_cpu_all_threads(Shape s, const float* w, const float* b, const float* x, float* y)
{
#pragma omp parallel for
    for (size_t row = 0; row < s.out; ++row)
        for (size_t n = 0; n < s.batch; ++n)
            layer_cpu(s.in, 1, w + row * s.in, b + row, x + n * s.in, y + n * s.out + row);
}
#endif

template <Launch launch>
void gpu(benchmark::State& state)
{
    if (!has_room(state))
        return;
    const Shape s = shape_of(state);
    const DeviceArrays& d = device();
    time_on_gpu(state, launches_for(s), [&] { launch(s, d.w, d.b, d.x, d.y); });
    report(state);
}

// W stays on the device, as in any program that uses a network more than once. Only x and y travel.

template <Launch launch>
void gpu_with_transfers(benchmark::State& state)
{
    if (!has_room(state))
        return;
    const Shape s = shape_of(state);
    const DeviceArrays& d = device();
    HostArrays& h = host();
    const size_t bytes_x = s.batch * s.in * sizeof(float);
    const size_t bytes_y = s.batch * s.out * sizeof(float);
    for (auto _ : state) {
        CUDA_CHECK(cudaMemcpy(d.x, h.x.data(), bytes_x, cudaMemcpyHostToDevice));
        launch(s, d.w, d.b, d.x, d.y);
        CUDA_CHECK(cudaMemcpy(h.y.data(), d.y, bytes_y, cudaMemcpyDeviceToHost));
    }
    CUDA_CHECK(cudaGetLastError());
    report(state);
}

// The ceiling is a kernel that reads W and does next to nothing with it. It writes only if the sum
// has a value that it never has, but the compiler does not know that. Its threads a block and loads
// a thread are tried in a few combinations, of which the best counts. Elements that do not fill a
// block are left out, and are not counted either.

template <unsigned threads, unsigned loads>
__global__ void read_float4(const float4* w, float* y)
{
    const size_t first = size_t(blockIdx.x) * threads * loads + threadIdx.x;
    float4 u[loads];
    for (unsigned k = 0; k < loads; ++k)
        u[k] = w[first + k * threads];
    float sum = 0;
    for (unsigned k = 0; k < loads; ++k)
        sum += u[k].x + u[k].y + u[k].z + u[k].w;
    if (sum == 12345)
        *y = sum;
}

template <unsigned threads, unsigned loads>
void gpu_ceiling(benchmark::State& state)
{
    if (!has_room(state))
        return;
    const Shape s = shape_of(state);
    const size_t block = 4 * threads * loads, blocks = s.in * s.out / block;
    const auto w = reinterpret_cast<const float4*>(device().w);
    time_on_gpu(state, launches_for(s),
                [&] { read_float4<threads, loads><<<blocks, threads>>>(w, device().y); });
    state.SetBytesProcessed(state.iterations() * blocks * block * sizeof(float));
}

// The library is cuBLAS, followed by one kernel for the bias and σ. cuBLAS counts in columns: what
// is a matrix of `out` rows to us is one of `out` columns to it. So it is told that W is
// transposed, and it makes Yᵀ = W Xᵀ, which in memory is our Y. It is held against our kernel
// before it is timed. It may add in another order, which changes far less than 10⁻⁴.

#if defined(__CUDACC__) && __has_include(<cublas_v2.h>)
#include <cublas_v2.h>

void check_cublas(cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    std::fprintf(stderr, "cuBLAS: %s\n", cublasGetStatusString(status));
    std::exit(EXIT_FAILURE);
}

__global__ void bias_and_sigmoid(size_t out, const float* b, float* y)
{
    const size_t col = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (col < out)
        y[blockIdx.y * out + col] = sigmoid(y[blockIdx.y * out + col] + b[col]);
}

cublasHandle_t cublas_handle()
{
    static const cublasHandle_t handle = [] {
        cublasHandle_t created;
        check_cublas(cublasCreate(&created));
        return created;
    }();
    return handle;
}

void launch_cublas(Shape s, const float* d_w, const float* d_b, const float* d_x, float* d_y)
{
    const cublasHandle_t handle = cublas_handle();
    const float zero = 0, one = 1;
    const int batch = s.batch, in = s.in, out = s.out;
    check_cublas(batch == 1 ? cublasSgemv(handle, CUBLAS_OP_T, in, out, &one, d_w, in, d_x, 1,
                                          &zero, d_y, 1)
                            : cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, out, batch, in, &one,
                                          d_w, in, d_x, in, &zero, d_y, out));
    bias_and_sigmoid<<<dim3((s.out + 255) / 256, s.batch), 256>>>(s.out, d_b, d_y);
}

bool library_agrees(Shape s)
{
    const DeviceArrays& d = device();
    const size_t n = s.batch * s.out, bytes = n * sizeof(float);
    std::vector<float> ours(n), library(n);
    CUDA_CHECK(cudaMemset(d.y, 0xFF, bytes));
    CUDA_CHECK(cudaMemset(d.library_y, 0xFF, bytes));
    launch_tile<32>(s, d.w, d.b, d.x, d.y);
    launch_cublas(s, d.w, d.b, d.x, d.library_y);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(ours.data(), d.y, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(library.data(), d.library_y, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i)
        if (!(std::fabs(ours[i] - library[i]) <= 1e-4f))
            return false;
    return true;
}

void gpu_cublas(benchmark::State& state)
{
    if (!has_room(state))
        return;
    if (library_agrees(shape_of(state)))
        gpu<launch_cublas>(state);
    else
        state.SkipWithError("cuBLAS and our kernel do not agree");
}
#endif

// Seven shapes for one vector, six for a batch. The CPU gets the two batches that take one thread a
// quarter of a second or less.

const auto one_vector = [](auto* row) {
    for (const int n : {512, 1024, 2048, 4096, 8192, 16384})
        row->Args({1, n, n});
    row->Args({1, 5003, 3001})->MinTime(0.1);
};
const auto batches = [](auto* row) {
    for (const int batch : {1, 16, 64, 256, 1024})
        row->Args({batch, 4096, 4096});
    row->Args({1000, 333, 777})->MinTime(0.1);
};
const auto small_batches = [](auto* row) {
    row->Args({16, 4096, 4096})->Args({1000, 333, 777})->MinTime(0.1);
};

BENCHMARK(cpu<batch_cpu>)->Name("cpu_one_thread")->Apply(one_vector);
BENCHMARK(cpu<batch_cpu>)->Name("cpu_batch_one_thread")->Apply(small_batches);
#ifdef _OPENMP
BENCHMARK(cpu<batch_cpu_all_threads>)->Name("cpu_all_threads")->Apply(one_vector)->UseRealTime();
BENCHMARK(cpu<batch_cpu_all_threads>)->Name("cpu_batch_all_threads")->Apply(small_batches)
    ->UseRealTime();
#endif
BENCHMARK(gpu<launch_three_kernels>)->Name("gpu_three_kernels")->Apply(one_vector)
    ->UseManualTime();
BENCHMARK(gpu<launch_fused>)->Name("gpu_fused")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu<launch_warp_a_row>)->Name("gpu_warp_a_row")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu<launch_block_a_row<128, 8>>)
    ->Name("gpu_block_a_row<128,8>")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu<launch_block_a_row<256, 8>>)
    ->Name("gpu_block_a_row<256,8>")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu<launch_block_a_row<128, 4>>)
    ->Name("gpu_block_a_row<128,4>")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu_with_transfers<launch_block_a_row<128, 8>>)
    ->Name("gpu_with_transfers_pageable")->Apply(one_vector)->UseRealTime();
BENCHMARK(gpu_ceiling<128, 8>)->Name("gpu_ceiling<128,8>")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu_ceiling<256, 4>)->Name("gpu_ceiling<256,4>")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu_ceiling<512, 4>)->Name("gpu_ceiling<512,4>")->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu<launch_tile<16>>)->Name("gpu_batch_tile<16>")->Apply(batches)->UseManualTime();
BENCHMARK(gpu<launch_tile<32>>)->Name("gpu_batch_tile<32>")->Apply(batches)->UseManualTime();
#if defined(__CUDACC__) && __has_include(<cublas_v2.h>)
BENCHMARK(gpu_cublas)->Apply(one_vector)->UseManualTime();
BENCHMARK(gpu_cublas)->Name("gpu_batch_cublas")->Apply(batches)->UseManualTime();
#endif
BENCHMARK_MAIN();

#endif

// ## What the clock says
//
// One vector, `in` = `out` = 4096, on an H200. Three kernels take 576 µs and the fused one 572: two
// launches are saved, and W is read as slowly as before, at 117 GB/s. One warp a row reads it at
// 3000 GB/s, one block a row at 3640 in its best shape, 0.94 of reading alone (and at 2870 with 256
// threads). cuBLAS and a kernel for the rest take 1.43 times as long, PyTorch 1.45 times (1.30 in a
// CUDA graph). The L2 cache may still have a part of these 64 MiB from the call before. Of 1 GiB,
// at 16384 × 16384, it has little. There one block a row reaches 0.997 of the speed of reading
// alone, cuBLAS takes 1.11 times as long and PyTorch 1.14 times (1.11).
//
// For a batch of 64 vectors the tile kernel takes 296 µs, where 64 launches for one vector would
// take 1181. For a batch of 1024 it has 0.16 of the speed of cuBLAS.
//
// ## What a framework does
//
// The first lines of many an example in PyTorch are these:
//
// ```python
// layer = nn.Linear(64, 48).to("cuda")
// y = torch.sigmoid(layer(x.to("cuda")))
// ```
//
// You now know what they do:
//
// - `nn.Linear` makes W, 48 × 64, and b, on the host, random between ±1/√64.
// - `.to("cuda")` takes memory of the device, from a supply that PyTorch keeps so as not to call
//   `cudaMalloc` each time, and copies: the weights once, x each time.
// - `layer(x)` is X Wᵀ + b, a product of cuBLAS. The library can add the bias in the last lines of
//   its kernel, which it calls the *epilogue*. Our tile kernel does that, and σ too.
// - `torch.sigmoid` is a kernel like that of chapter 5. It reads the whole product once more.
//
// ## Try it
//
// Predict first, then change the line, and run.
//
// 1. In `warp_sum`, begin with a distance of 8 and not 16. Which kernel is the first that is wrong?
//
//    *Answer:* `warp a row`. Lane 0 now collects lanes 0 to 15, and half of the products are
//    missing. A block a row is as wrong, but the program has stopped before.
//
// 2. In `launch_block_a_row`, write `if (true)`, so that a row is always read in `float4`s. The
//    first of the three shapes has 301 inputs. What happens?
//
//    *Answer:* the kernel ends with `cudaErrorMisalignedAddress`: row 1 begins at byte 1204, which
//    is not a multiple of 16. Row 0 would be wrong too: its 75 packs hold 300 inputs, and nobody
//    takes the last.
//
// 3. In `read_digits`, write `1 -` before `file.whole(values[pixel], …`, for white ink on black
//    paper. Anyone can read that. In how many images is the network right?
//
//    *Answer:* in none (guessing would be right in one of ten): FAIL. It has seen no black page.
//
// ## The question that is left
//
// For one vector the memory is the limit, and with a large W we are at it. For a batch the library
// is well ahead. Our kernel loads anew from shared memory for each multiplication. A thread with
// several outputs could use a load several times. And most GPUs since 2018 have *tensor cores*,
// which multiply small matrices as a whole. How does a product get to the library's speed?

// ## Plumbing
//
// Helpers that several chapters need. Their text is the same in each, so that every file can be
// copied on its own.

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
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

// What only this chapter has: numbers that look random and are the same each time, the picture of
// what the network sees and what it says to that, and the reader of the digits' file. The reader
// believes nothing: whatever is not as it should be ends the program, with the file's name and the
// line.

float random_at(size_t i)
{
    unsigned hash = unsigned(i) * 0x9E3779B1u;
    hash = (hash ^ hash >> 15) * 0x85EBCA77u;
    hash ^= hash >> 13;
    return (hash >> 8) * 0x1p-24f;
}

#ifndef BENCHMARKS

void print_image(const float* pixels, const float* outputs)
{
    for (size_t line = 0; line < 10; ++line) {
        std::printf("    ");
        for (size_t col = 0; col < 8; ++col) {
            const float ink = line < 8 ? pixels[8 * line + col] : 0;
            const char c = " .:-=+*#@"[size_t(8 * ink)];
            std::printf("%c%c", c, c);
        }
        std::printf("    %zu: %.3f\n", line, outputs[line]);
    }
}

struct TextFile {
    const char* name;
    std::istringstream text;
    size_t line = 0;

    explicit TextFile(const char* its_name) : name(its_name)
    {
        std::string bytes(4 << 20, '\0');
        std::FILE* const file = std::fopen(name, "rb");
        bytes.resize(file ? std::fread(&bytes[0], 1, bytes.size(), file) : 0);
        if (!file || std::ferror(file))
            fail(std::strerror(errno));
        if (!std::feof(file))
            fail("more than 4 MiB");
        std::fclose(file);
        text.str(bytes);
    }

    void fail(const std::string& what) const
    {
        std::printf("FAIL: %s%s: %s\n", name, line ? (":" + std::to_string(line)).c_str() : "",
                    what.c_str());
        std::exit(EXIT_FAILURE);
    }

    // The numbers of the next line that is no comment. A word may have to stand before them.
    std::vector<float> numbers(const std::string& word, size_t count)
    {
        std::string content, token;
        do {
            ++line;
            if (!std::getline(text, content))
                fail("the file ends too early");
        } while (content[0] == '#');
        std::istringstream tokens(content);
        if (!word.empty() && !(tokens >> token && token == word))
            fail("does not begin with \"" + word + "\"");
        std::vector<float> values;
        while (tokens >> token) {
            char* end;
            values.push_back(std::strtof(token.c_str(), &end));
            if (end != token.c_str() + token.size() || !std::isfinite(values.back()))
                fail("number " + std::to_string(values.size()) + " is none");
        }
        if (values.size() != count)
            fail(std::to_string(values.size()) + " numbers, not " + std::to_string(count));
        return values;
    }

    size_t whole(float value, size_t smallest, size_t largest) const
    {
        if (!(value >= smallest && value <= largest && value == std::floor(value)))
            fail("not a whole number from " + std::to_string(smallest) + " to " +
                 std::to_string(largest));
        return value;
    }

    Layer layer(size_t in, size_t out)
    {
        Layer result{in, out, {}, {}};
        whole(numbers("layer", 1)[0], out, out);
        for (size_t row = 0; row < out; ++row) {
            const std::vector<float> values = numbers("", in + 1);
            result.w.insert(result.w.end(), values.begin(), values.end() - 1);
            result.b.push_back(values.back());
        }
        return result;
    }
};

Digits read_digits(const char* name)
{
    TextFile file(name);
    const std::vector<float> sizes = file.numbers("layers", 3);
    const size_t in = file.whole(sizes[0], 64, 64), hidden = file.whole(sizes[1], 1, 1000);
    const size_t out = file.whole(sizes[2], 10, 10);

    Digits result;
    result.hidden = file.layer(in, hidden);
    result.output = file.layer(hidden, out);
    const size_t images = file.whole(file.numbers("images", 1)[0], 1, 10000);
    for (size_t i = 0; i < images; ++i) {
        const std::vector<float> values = file.numbers("", 65);
        for (size_t pixel = 0; pixel < 64; ++pixel)
            result.pixels.push_back(file.whole(values[pixel], 0, 16) / 16.0f);
        result.digits.push_back(file.whole(values[64], 0, 9));
    }
    file.numbers("end", 0);
    ++file.line;
    if (file.text.peek() != EOF)
        file.fail("something stands after the end");
    return result;
}

#endif
