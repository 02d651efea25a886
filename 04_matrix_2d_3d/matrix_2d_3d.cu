// # Matrices and tensors: two and three dimensions
//
// Chapter 3 gave each element of a vector a thread, by numbering the threads along a line. Most
// data is not a line. A picture has rows and columns, a film is many pictures. This chapter adds
// matrices, and then *tensors*, arrays with any number of dimensions, here three: `C = A + B` once
// more, so that only the shape is new. A thread can find its element in several ways. All are
// right, and on a GPU one is many times faster than another. Which, and why?
//
// ```sh
// nvcc -arch=native matrix_2d_3d.cu -o matrix_2d_3d && ./matrix_2d_3d
// ./matrix_2d_3d 300 500            # rows, columns
// ./matrix_2d_3d 20 300 500         # depth, rows, columns
// ```

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// ## A matrix lies in a line
//
// Memory has one dimension, so a matrix has to be laid out in it. C++, NumPy and PyTorch do it
// row after row. This is called *row-major*. Before row `row` lie `row` whole rows of `cols`
// elements, so element (`row`, `col`) has the *flat index* `row * cols + col`. One step to the
// right is one element further on in memory. One step down is `cols` elements further on.

void matrix_add_cpu(size_t rows, size_t cols, const float* a, const float* b, float* c)
{
    for (size_t row = 0; row < rows; ++row)
        for (size_t col = 0; col < cols; ++col) {
            const size_t i = row * cols + col;
            c[i] = a[i] + b[i];
        }
}

// The inner loop goes along a row, so this core meets the elements in the order in which they
// lie in memory. Exchange the two loops and the sums are the same, but each step is a jump of
// `cols` elements. The second order is here to be timed.

void matrix_add_cpu_by_columns(size_t rows, size_t cols, const float* a, const float* b, float* c)
{
    for (size_t col = 0; col < cols; ++col)
        for (size_t row = 0; row < rows; ++row) {
            const size_t i = row * cols + col;
            c[i] = a[i] + b[i];
        }
}

// ## A block with two dimensions
//
// Both numbers of a launch may have up to three parts. The type for that is `dim3`, and parts
// that are left out are 1: `<<<1, dim3(cols, rows)>>>` starts one block with `rows` rows of
// `cols` threads. Each thread then finds its place in `threadIdx.x` and `threadIdx.y`.
//
// Matrices are written (row, column), and `dim3` begins with x. We keep to one rule: **x is the
// column and y is the row**. That is how pictures count, x to the right and y down. It is our
// choice and not CUDA's, but a few sections further on it turns out to be the fast one.

__global__ void add_one_block(size_t cols, const float* a, const float* b, float* c)
{
    const size_t i = threadIdx.y * cols + threadIdx.x;
    c[i] = a[i] + b[i];
}

// ## A grid with two dimensions
//
// A block has at most 1024 threads, all parts multiplied. And each part has a limit of its own:
//
// |       | x             | y      | z      |
// |-------|---------------|--------|--------|
// | block | 1024          | 1024   | 64     |
// | grid  | 2,147,483,647 | 65,535 | 65,535 |
//
// So a larger matrix needs many blocks, side by side in x and one below the other in y. Ours
// have 32 × 8 threads. A matrix of 1,048,577 rows would need 131,073 of them in y, and the launch
// would be refused, as chapter 2 shows. There are two remedies.
// One is to put the long dimension on x. But which one is long is known only when the program
// runs, and we want the columns there. The other is chapter 3's grid-stride loop, once for each
// dimension: we start as many blocks as it takes, up to the axis's limit, and each thread goes on
// by the size of the whole grid until it is past the end. So the loop is the guard as well.
//
// The type of the elements is a template parameter. We need `float`, and one other type further
// down. `blockIdx.x * blockDim.x` is a product of two 32-bit numbers: as in chapter 3 we widen
// one first.

template <typename T>
__global__ void matrix_add(size_t rows, size_t cols, const T* a, const T* b, T* c)
{
    const size_t first_row = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    const size_t first_col = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (size_t row = first_row; row < rows; row += size_t(gridDim.y) * blockDim.y)
        for (size_t col = first_col; col < cols; col += size_t(gridDim.x) * blockDim.x) {
            const size_t i = row * cols + col;
            c[i] = a[i] + b[i];
        }
}

// The second version differs by one idea: x and y are exchanged in the first two lines and in
// the steps. Now the row follows from `threadIdx.x`.

template <typename T>
__global__ void matrix_add_rows_on_x(size_t rows, size_t cols, const T* a, const T* b, T* c)
{
    const size_t first_row = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t first_col = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    for (size_t row = first_row; row < rows; row += size_t(gridDim.x) * blockDim.x)
        for (size_t col = first_col; col < cols; col += size_t(gridDim.y) * blockDim.y) {
            const size_t i = row * cols + col;
            c[i] = a[i] + b[i];
        }
}

// ## Three dimensions
//
// A tensor is `depth` matrices, one after another. Before plane z lie z whole planes of
// `rows * cols` elements, so element (z, y, x) has the flat index `(z * rows + y) * cols + x`.
// The last coordinate is again the one that moves by one element.

void tensor_add_cpu(size_t depth, size_t rows, size_t cols, const float* a, const float* b,
                    float* c)
{
    for (size_t z = 0; z < depth; ++z)
        for (size_t y = 0; y < rows; ++y)
            for (size_t x = 0; x < cols; ++x) {
                const size_t i = (z * rows + y) * cols + x;
                c[i] = a[i] + b[i];
            }
}

template <typename T>
__global__ void tensor_add(size_t depth, size_t rows, size_t cols, const T* a, const T* b, T* c)
{
    const size_t first_z = size_t(blockIdx.z) * blockDim.z + threadIdx.z;
    const size_t first_y = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    const size_t first_x = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (size_t z = first_z; z < depth; z += size_t(gridDim.z) * blockDim.z)
        for (size_t y = first_y; y < rows; y += size_t(gridDim.y) * blockDim.y)
            for (size_t x = first_x; x < cols; x += size_t(gridDim.x) * blockDim.x) {
                const size_t i = (z * rows + y) * cols + x;
                c[i] = a[i] + b[i];
            }
}

// And with the first and the last coordinate exchanged: the plane follows from `threadIdx.x`.

template <typename T>
__global__ void tensor_add_depth_on_x(size_t depth, size_t rows, size_t cols, const T* a,
                                      const T* b, T* c)
{
    const size_t first_z = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t first_y = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    const size_t first_x = size_t(blockIdx.z) * blockDim.z + threadIdx.z;
    for (size_t z = first_z; z < depth; z += size_t(gridDim.x) * blockDim.x)
        for (size_t y = first_y; y < rows; y += size_t(gridDim.y) * blockDim.y)
            for (size_t x = first_x; x < cols; x += size_t(gridDim.z) * blockDim.z) {
                const size_t i = (z * rows + y) * cols + x;
                c[i] = a[i] + b[i];
            }
}

// ## The launches
//
// `grid_for` divides and rounds up, in each dimension, and stops at the axis's limit. Blocks of
// 32 × 8 and of 32 × 4 × 2 have 256 threads each. From here on a matrix is a tensor of depth 1, so
// that all launches have the same parameters and can stand in a table.

struct Shape {
    size_t depth, rows, cols;
    size_t count() const { return depth * rows * cols; }
};

dim3 grid_for(dim3 block, size_t x, size_t y, size_t z = 1)
{
    return dim3(std::min<size_t>((x + block.x - 1) / block.x, INT_MAX),
                std::min<size_t>((y + block.y - 1) / block.y, 65535),
                std::min<size_t>((z + block.z - 1) / block.z, 65535));
}

const dim3 matrix_block(32, 8), tensor_block(32, 4, 2);

template <typename T>
void launch_matrix(Shape s, const T* d_a, const T* d_b, T* d_c)
{
    const dim3 grid = grid_for(matrix_block, s.cols, s.rows);
    matrix_add<<<grid, matrix_block>>>(s.rows, s.cols, d_a, d_b, d_c);
}

template <typename T>
void launch_matrix_rows_on_x(Shape s, const T* d_a, const T* d_b, T* d_c)
{
    const dim3 grid = grid_for(matrix_block, s.rows, s.cols);
    matrix_add_rows_on_x<<<grid, matrix_block>>>(s.rows, s.cols, d_a, d_b, d_c);
}

template <typename T>
void launch_tensor(Shape s, const T* d_a, const T* d_b, T* d_c)
{
    const dim3 grid = grid_for(tensor_block, s.cols, s.rows, s.depth);
    tensor_add<<<grid, tensor_block>>>(s.depth, s.rows, s.cols, d_a, d_b, d_c);
}

template <typename T>
void launch_tensor_depth_on_x(Shape s, const T* d_a, const T* d_b, T* d_c)
{
    const dim3 grid = grid_for(tensor_block, s.depth, s.rows, s.cols);
    tensor_add_depth_on_x<<<grid, tensor_block>>>(s.depth, s.rows, s.cols, d_a, d_b, d_c);
}

void launch_one_block(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    add_one_block<<<1, dim3(s.cols, s.rows)>>>(s.cols, d_a, d_b, d_c);
}

// ## There and back
//
// Nothing is new here but that the launch is a parameter, and the type of the elements.

#define CUDA_CHECK(call) check_cuda(call, #call, __FILE__, __LINE__)
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

template <typename T>
using Launch = void (*)(Shape, const T* d_a, const T* d_b, T* d_c);

template <typename T>
void add_gpu(Launch<T> launch, Shape shape, const T* a, const T* b, T* c)
{
    const size_t bytes = shape.count() * sizeof(T);
    T *d_a, *d_b, *d_c;
    CUDA_CHECK(cudaMalloc(&d_a, bytes));
    CUDA_CHECK(cudaMalloc(&d_b, bytes));
    CUDA_CHECK(cudaMalloc(&d_c, bytes));
    CUDA_CHECK(cudaMemcpy(d_a, a, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, b, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_c, 0xFF, bytes));

    launch(shape, d_a, d_b, d_c);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    CUDA_CHECK(cudaMemcpy(c, d_c, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));
}

// ## Why x is the column: what a warp touches
//
// Why should it matter which thread takes which element? A single thread does the same work
// either way. But threads do not run singly. Those of a *warp*, its 32 *lanes*, execute each
// instruction together, so one load asks for 32 addresses at once. A block's threads are numbered
// along x first, then y, then z, and every 32 of them in that order are a warp. In blocks that
// are 32 wide the lanes of a warp therefore differ in `threadIdx.x` and in nothing else.
//
// Memory is moved in *sectors* of 32 bytes. Whoever wants one float gets its whole sector, eight
// floats. So the price of a load is the number of sectors that its lanes touch.
//
// - Columns on x: neighbouring lanes have neighbouring elements. The 32 lanes want 128 bytes
//   without a gap: 4 sectors, or 5 if the first begins inside one. Such an access is *coalesced*.
// - Rows on x: neighbouring lanes are a whole row apart, each in a sector of its own. The same
//   128 bytes are now spread over 32 sectors. The other seven floats of each are moved for
//   nothing, unless the warps that want them come while the sector is still in a cache.
//
// On a CPU it is the other way round. There a thread works alone, one element after another, and
// the elements that *it* meets should be neighbours. On a GPU the elements that its *neighbours*
// meet should be.
//
// You need not believe this. The kernels take any type of element that has a `+`. So we give
// them one whose `+` does not add, but tells who is asking. Then C says of each element which
// thread of which block came for it, found by the very code that adds floats. (`__device__` says
// that the function is for the device. Chapter 5 is about that word.)

struct Touch {
    unsigned block, thread;
};

__device__ Touch operator+(Touch, Touch)
{
    return {blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z),
            threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)};
}

// `./matrix_2d_3d accesses` prints what the first warp of each kernel touches, and the picture
// is drawn from that. Each line is one lane:
//
// ```
// mapping,lane,address,sector
// matrix_rows_on_x,5,960,30
// ```
//
// `mapping` is the name of the kernel's row in *How fast?*, without its `gpu_`. `address` counts
// the bytes from the start of the array to the lane's element; it is the same in A, B and C.
// `sector` is `address` divided by 32. The matrix has 40 rows of 48 columns, the tensor 36 such
// planes. The last line is the verdict.

bool print_first_warp(const char* mapping, Shape shape, Launch<Touch> launch)
{
    std::vector<Touch> touches(shape.count());
    add_gpu(launch, shape, touches.data(), touches.data(), touches.data());
    for (unsigned lane = 0; lane < 32; ++lane) {
        const auto is_lanes = [=](Touch t) { return t.block == 0 && t.thread == lane; };
        const auto first = std::find_if(touches.begin(), touches.end(), is_lanes);
        if (std::count_if(first, touches.end(), is_lanes) != 1) {
            std::printf("FAIL: %s: lane %u does not have one element\n", mapping, lane);
            return false;
        }
        const size_t address = (first - touches.begin()) * sizeof(float);
        std::printf("%s,%u,%zu,%zu\n", mapping, lane, address, address / 32);
    }
    return true;
}

int print_accesses()
{
    const Shape matrix{1, 40, 48}, tensor{36, 40, 48};
    std::puts("mapping,lane,address,sector");
    if (!print_first_warp("matrix_columns_on_x", matrix, launch_matrix) ||
        !print_first_warp("matrix_rows_on_x", matrix, launch_matrix_rows_on_x) ||
        !print_first_warp("tensor_columns_on_x", tensor, launch_tensor) ||
        !print_first_warp("tensor_depth_on_x", tensor, launch_tensor_depth_on_x))
        return EXIT_FAILURE;
    std::puts("PASS");
    return EXIT_SUCCESS;
}

// ![accesses]
//
// ## A matrix is a vector after all
//
// The kernel with the columns on x reads whole sectors, and still it is not at the ceiling: one
// float a thread keeps too few bytes in flight, as chapter 3 found for vectors. Its remedy was
// `float4`, four floats in one load. That asks for addresses that are multiples of 16 bytes, and
// in a matrix with 1001 columns only every fourth row begins at one.
//
// A sum of elements does not care where a row ends. Our matrices have no gaps, so rows × cols
// floats in a line are all there is, and the kernel is chapter 3's. It sees no rows. The last
// thread takes what is left over, at most three elements. (Where every row has to begin at such an
// address, rows are padded: `cudaMallocPitch` adds what the device needs, and returns the number
// of bytes from one row to the next, the *pitch*.)

__global__ void add_float4(size_t n, const float* a, const float* b, float* c)
{
    const size_t i = 4 * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        const float4 u = *reinterpret_cast<const float4*>(a + i);
        const float4 v = *reinterpret_cast<const float4*>(b + i);
        *reinterpret_cast<float4*>(c + i) =
            make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
    } else {
        for (size_t j = i; j < n; ++j)
            c[j] = a[j] + b[j];
    }
}

void launch_float4(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    const size_t threads = (s.count() + 3) / 4;
    add_float4<<<(threads + 255) / 256, 256>>>(s.count(), d_a, d_b, d_c);
}

// So dimensions are for kernels that need them: where an element has neighbours above and below,
// or where a result needs a row of one matrix and a column of another, as in chapter 6.
//
// ## Do they agree?
//
// Each value is made from its plane, row and column, so a kernel that takes an element from the
// wrong place gets a wrong sum. All sums are below 2²² and end in ½, which a float holds exactly:
// the results must be equal. The default shapes are neither square nor cubic, because in a square
// matrix `row * rows + col` is right as well.
//
// One mistake no check of `C = A + B` can see: an index that visits every element once, but in
// another order than was meant. The sums are right. Only the clock shows it, and the picture.

float a_at(size_t z, size_t y, size_t x) { return (z % 53 * 89 + y % 89) * 307 + x % 307 + 0.25f; }
float b_at(size_t z, size_t y, size_t x) { return (z % 59 * 97 + y % 97) * 311 + x % 311 + 0.25f; }

void fill(Shape s, std::vector<float>& a, std::vector<float>& b)
{
    size_t i = 0;
    for (size_t z = 0; z < s.depth; ++z)
        for (size_t y = 0; y < s.rows; ++y)
            for (size_t x = 0; x < s.cols; ++x, ++i) {
                a[i] = a_at(z, y, x);
                b[i] = b_at(z, y, x);
            }
}

bool read_sizes(int argc, char** argv, std::initializer_list<size_t*> sizes);
int usage(const char* program, const char* arguments);
void require_memory(double bytes);
bool agree(const char* what, const std::vector<float>& gpu, const std::vector<float>& cpu,
           float tolerance);

#ifndef BENCHMARKS

struct Way {
    const char* name;
    Launch<float> launch;
};

const std::vector<Way> matrix_ways = {
    {"one block", launch_one_block},
    {"columns on x", launch_matrix},
    {"rows on x", launch_matrix_rows_on_x},
    {"float4", launch_float4},
};
const std::vector<Way> tensor_ways = {
    {"columns on x", launch_tensor},
    {"depth on x", launch_tensor_depth_on_x},
    {"float4", launch_float4},
};

bool check(Shape s, bool is_matrix)
{
    const double bytes = double(sizeof(float)) * s.depth * s.rows * s.cols;
    if (is_matrix)
        std::printf("matrix of %zu x %zu, %.0f bytes\n", s.rows, s.cols, bytes);
    else
        std::printf("tensor of %zu x %zu x %zu, %.0f bytes\n", s.depth, s.rows, s.cols, bytes);
    require_memory(4 * bytes);
    const size_t n = s.count();
    if (n == 0)
        return true;                       // nothing to add

    std::vector<float> a(n), b(n), cpu(n), gpu(n);
    fill(s, a, b);
    if (is_matrix) {
        matrix_add_cpu(s.rows, s.cols, a.data(), b.data(), cpu.data());
        matrix_add_cpu_by_columns(s.rows, s.cols, a.data(), b.data(), gpu.data());
        if (gpu != cpu) {
            std::puts("FAIL: the two loops of the CPU differ");
            return false;
        }
    } else {
        tensor_add_cpu(s.depth, s.rows, s.cols, a.data(), b.data(), cpu.data());
    }
    for (const Way& way : is_matrix ? matrix_ways : tensor_ways) {
        if (way.launch == launch_one_block && n > 1024) {
            std::puts("one block     left out: a block has at most 1024 threads");
            continue;
        }
        gpu.assign(n, NAN);
        add_gpu(way.launch, s, a.data(), b.data(), gpu.data());
        if (!agree(way.name, gpu, cpu, 0))
            return false;
    }
    return true;
}

int main(int argc, char** argv)
{
    if (argc == 2 && std::strcmp(argv[1], "accesses") == 0)
        return print_accesses();
    Shape s{1, 0, 0};
    const bool is_matrix = read_sizes(argc, argv, {&s.rows, &s.cols});
    if (argc > 1 && !is_matrix && !read_sizes(argc, argv, {&s.depth, &s.rows, &s.cols}))
        return usage(argv[0], "[rows cols | depth rows cols | accesses]");

    cudaDeviceProp device;
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("C = A + B on %s\n", device.name);
    const bool good = argc > 1 ? check(s, is_matrix)
                               : check({1, 20, 50}, true) && check({1, 515, 2561}, true) &&
                                     check({37, 101, 203}, false);
    if (!good)
        return EXIT_FAILURE;
    std::puts("PASS");
}

#else

// ## How fast?
//
// ```sh
// FLAGS="-O3 -std=c++17 -arch=native -DBENCHMARKS -Xcompiler -fopenmp"
// nvcc $FLAGS matrix_2d_3d.cu -o matrix_2d_3d_bench -lbenchmark && ./matrix_2d_3d_bench
// ```
//
// The harness is that of the earlier chapters. The numbers in a row's name are the rows and
// columns, or the depth, rows and columns. Each tensor has as many elements as one of the
// matrices.

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

// The inputs are made once, and copied to the device once. Every row uses as much of them as its
// shape needs. A device that is too small gets fewer, and leaves out the shapes that need more.

constexpr size_t largest = 8192 * 8192;

struct HostArrays {
    std::vector<float> a, b, c;

    HostArrays() : a(largest), b(largest), c(largest) { fill({1, 8192, 8192}, a, b); }
};

HostArrays& host()
{
    static HostArrays arrays;
    return arrays;
}

struct DeviceArrays {
    float *a, *b, *c;
    size_t count = largest;

    DeviceArrays()
    {
        size_t free, total;
        CUDA_CHECK(cudaMemGetInfo(&free, &total));
        while (3.0 * count * sizeof(float) > 0.9 * free)
            count /= 2;
        const size_t bytes = count * sizeof(float);
        CUDA_CHECK(cudaMalloc(&a, bytes));
        CUDA_CHECK(cudaMalloc(&b, bytes));
        CUDA_CHECK(cudaMalloc(&c, bytes));
        CUDA_CHECK(cudaMemcpy(a, host().a.data(), bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(b, host().b.data(), bytes, cudaMemcpyHostToDevice));
    }
};

const DeviceArrays& device()
{
    static const DeviceArrays arrays;
    return arrays;
}

bool has_room(benchmark::State& state, size_t n)
{
    if (n > device().count)
        state.SkipWithError("the device has no room for this shape");
    return n <= device().count;
}

// A sum reads two arrays and writes one.

void report(benchmark::State& state, size_t n, size_t arrays = 3)
{
    state.SetBytesProcessed(state.iterations() * n * arrays * sizeof(float));
}

int batch_for(size_t n) { return std::clamp<size_t>((1 << 29) / n, 8, 512); }

using MatrixAdd = void (*)(size_t, size_t, const float*, const float*, float*);

template <MatrixAdd add>
void cpu(benchmark::State& state)
{
    const size_t rows = state.range(0), cols = state.range(1);
    HostArrays& h = host();
    for (auto _ : state) {
        add(rows, cols, h.a.data(), h.b.data(), h.c.data());
        benchmark::DoNotOptimize(h.c.data());
        benchmark::ClobberMemory();
    }
    report(state, rows * cols);
}

// With several cores, each takes whole rows. So on a CPU a thread goes along a row by itself,
// and its neighbours are far away; on a GPU a thread's neighbours are beside it.

#ifdef _OPENMP
void matrix_add_cpu_all_threads(size_t rows, size_t cols, const float* a, const float* b, float* c)
{
#pragma omp parallel for
    for (size_t row = 0; row < rows; ++row)
        matrix_add_cpu(1, cols, a + row * cols, b + row * cols, c + row * cols);
}
#endif

void gpu(benchmark::State& state, Shape s, Launch<float> launch)
{
    const size_t n = s.count();
    if (!has_room(state, n))
        return;
    const DeviceArrays& d = device();
    time_on_gpu(state, batch_for(n), [&] { launch(s, d.a, d.b, d.c); });
    report(state, n);
}

template <Launch<float> launch>
void gpu_matrix(benchmark::State& state)
{
    gpu(state, {1, size_t(state.range(0)), size_t(state.range(1))}, launch);
}

template <Launch<float> launch>
void gpu_tensor(benchmark::State& state)
{
    gpu(state, {size_t(state.range(0)), size_t(state.range(1)), size_t(state.range(2))}, launch);
}

void gpu_with_transfers_pageable(benchmark::State& state)
{
    const Shape s{1, size_t(state.range(0)), size_t(state.range(1))};
    const size_t n = s.count(), bytes = n * sizeof(float);
    if (!has_room(state, n))
        return;
    const DeviceArrays& d = device();
    for (auto _ : state) {
        CUDA_CHECK(cudaMemcpy(d.a, host().a.data(), bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(d.b, host().b.data(), bytes, cudaMemcpyHostToDevice));
        launch_float4(s, d.a, d.b, d.c);
        CUDA_CHECK(cudaMemcpy(host().c.data(), d.c, bytes, cudaMemcpyDeviceToHost));
    }
    CUDA_CHECK(cudaGetLastError());
    report(state, n);
}

// The ceiling is what a kernel can reach that only reads two arrays and writes one, and knows no
// shape. We try a few numbers of threads, and of float4s for each, and take the best.
// Elements that do not fill a block are left out, and are not counted either.
// The second ceiling is a plain copy, which reads one array and writes one.

template <unsigned threads, unsigned per_thread>
__global__ void read_two_write_one(const float4* a, const float4* b, float4* c)
{
    const size_t first = size_t(blockIdx.x) * threads * per_thread + threadIdx.x;
    float4 u[per_thread], v[per_thread];
    for (unsigned k = 0; k < per_thread; ++k) {
        u[k] = a[first + k * threads];
        v[k] = b[first + k * threads];
    }
    for (unsigned k = 0; k < per_thread; ++k)
        c[first + k * threads] = make_float4(u[k].x + v[k].x, u[k].y + v[k].y, u[k].z + v[k].z,
                                             u[k].w + v[k].w);
}

template <unsigned threads, unsigned per_thread>
void gpu_ceiling(benchmark::State& state)
{
    constexpr size_t block = 4 * threads * per_thread;
    const size_t n = state.range(0) * state.range(1) / block * block;
    if (!has_room(state, n))
        return;
    const auto a = reinterpret_cast<const float4*>(device().a);
    const auto b = reinterpret_cast<const float4*>(device().b);
    const auto c = reinterpret_cast<float4*>(device().c);
    time_on_gpu(state, batch_for(n), [&] {
        read_two_write_one<threads, per_thread><<<n / block, threads>>>(a, b, c);
    });
    report(state, n);
}

void gpu_copy(benchmark::State& state)
{
    const size_t n = state.range(0) * state.range(1);
    if (!has_room(state, n))
        return;
    const DeviceArrays& d = device();
    time_on_gpu(state, batch_for(n), [&] {
        CUDA_CHECK(cudaMemcpyAsync(d.c, d.a, n * sizeof(float), cudaMemcpyDeviceToDevice));
    });
    report(state, n, 2);
}

// A benchmark that takes under a second at 8192² runs at that size too. The CPU's loop by columns
// takes longer, and stops at 4096².

const auto small_matrices = [](auto* row) {
    row->Args({1024, 1024})->Args({2048, 2048})->Args({4096, 4096})->MinTime(0.1);
};
const auto matrices = [](auto* row) {
    row->Apply(small_matrices)->Args({5003, 7919})->Args({8192, 8192});
};
const auto tensors = [](auto* row) {
    row->Args({32, 128, 256})->Args({64, 256, 256})->Args({128, 256, 512})->Args({256, 512, 512})
        ->MinTime(0.1)->UseManualTime();
};

BENCHMARK(cpu<matrix_add_cpu>)->Name("cpu_one_thread")->Apply(matrices);
BENCHMARK(cpu<matrix_add_cpu_by_columns>)->Name("cpu_one_thread_by_columns")->Apply(small_matrices);
#ifdef _OPENMP
BENCHMARK(cpu<matrix_add_cpu_all_threads>)->Name("cpu_all_threads")->Apply(matrices)
    ->UseRealTime();
#endif
BENCHMARK(gpu_matrix<launch_matrix>)->Name("gpu_matrix_columns_on_x")->Apply(matrices)
    ->UseManualTime();
BENCHMARK(gpu_matrix<launch_matrix_rows_on_x>)->Name("gpu_matrix_rows_on_x")->Apply(matrices)
    ->UseManualTime();
BENCHMARK(gpu_matrix<launch_float4>)->Name("gpu_float4")->Apply(matrices)->UseManualTime();
BENCHMARK(gpu_with_transfers_pageable)->Apply(matrices)->UseRealTime();
BENCHMARK(gpu_tensor<launch_tensor>)->Name("gpu_tensor_columns_on_x")->Apply(tensors);
BENCHMARK(gpu_tensor<launch_tensor_depth_on_x>)->Name("gpu_tensor_depth_on_x")->Apply(tensors);
BENCHMARK(gpu_ceiling<256, 1>)->Name("gpu_ceiling<256,1>")->Apply(matrices)->UseManualTime();
BENCHMARK(gpu_ceiling<256, 2>)->Name("gpu_ceiling<256,2>")->Apply(matrices)->UseManualTime();
BENCHMARK(gpu_ceiling<1024, 1>)->Name("gpu_ceiling<1024,1>")->Apply(matrices)->UseManualTime();
BENCHMARK(gpu_copy)->Apply(matrices)->UseManualTime();
BENCHMARK_MAIN();

#endif

// ## What the clock says
//
// At 8192 × 8192 on an H200 the matrix takes 3.8 times as long with the rows on x. It is less than
// the 8 times that one warp's sectors promise: in a block of 32 × 8 the eight warps want the eight
// floats of the same sectors, and most come while the cache still holds them. A block of
// 32 × 4 × 2 uses two floats of each. With the depth on x the tensor takes 4.6 times as long at
// 128 × 256 × 512, and 9.9 times at 256 × 512 × 512, more than its sectors account for.
//
// The `float4` kernel is at 0.995 of the ceiling, the plain one with the columns on x at 0.68.
// And the CPU core that goes down the columns of a 4096 × 4096 matrix needs 27 times as long as
// the one that goes along its rows.
//
// ## Try it
//
// Predict first, then change the line, and run.
//
// 1. In `matrix_add`, write `row * rows + col` for `row * cols + col`. Which element of the 20 ×
//    50 matrix is the first that is wrong? And with `./matrix_2d_3d 1000 1000`?
//
//    *Answer:* element 430. The threads now visit the elements 0 to 19 · 20 + 49 = 429, many of
//    them more than once. An element that is added twice is right all the same; those that
//    nobody visits are NaN. The square matrix passes, because there `rows` is `cols`.
//
// 2. Make `matrix_block` 8 wide and 32 high: `(8, 32)` instead of `(32, 8)`. A warp is then 4
//    rows of 8 threads. How many sectors does it touch with the columns on x, and with the rows
//    on x? (`./matrix_2d_3d accesses | grep matrix_rows | cut -d, -f4 | sort -u | wc -l`
//    counts.)
//
//    *Answer:* 4, as before, and 8 instead of 32. With the columns on x, 8 neighbours fill one
//    sector, and 4 rows make 4 sectors. With the rows on x the warp covers 8 rows and 4 columns,
//    so each of its 8 sectors is half used. What counts is not the shape of the block but the
//    sectors that a warp touches.
//
// 3. In `grid_for`, take the limit of 65535 away from y, so that it only divides and rounds up.
//    What do `./matrix_2d_3d`, `./matrix_2d_3d 1048577 1` and `./matrix_2d_3d 1 1048577` do?
//
//    *Answer:* the first passes: no matrix there is long enough. The second ends at its first
//    large grid, the columns on x, with a refused launch: 131,073 blocks in y. The third passes
//    that one, whose long side is now on x, and is refused at the next, the rows on x. A limit
//    that small tests do not reach is found by the first user with real data.
//
// ## The question that is left
//
// The kernels of this chapter spell out their index over and over. Elsewhere one would give
// such lines a name and call them. One function was called from a kernel, the `+` of `Touch`, and
// it had to be marked `__device__`. What may a kernel call, who else may call that, and what does
// the compiler say otherwise? Chapter 5 finds out with a function that a neural layer needs.

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
