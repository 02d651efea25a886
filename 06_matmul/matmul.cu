// # Matrix multiplication
//
// So far each result needed one element of each input, and each element was read once. In a
// product of matrices a result needs a whole row and a whole column, and each element is needed
// many times over. This chapter adds that: data that is used again, and the memory in which the
// threads of a block share it. The question is the one that chapter 5 left. Who reads which
// element, how often, and from where?
//
// ```sh
// nvcc -O3 -arch=native matmul.cu -o matmul && ./matmul
// ./matmul 300 500 700              # m, n, k
// ```
//
// (`-O3` is for the CPU's loops. `nvcc` optimises code for the GPU by itself.)

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

// ## A row times a column
//
// A has m rows of k elements, B has k rows of n, and C = A·B has m rows of n. Element (`row`,
// `col`) of C is row `row` of A times column `col` of B: the first element times the first, the
// second times the second, and so on, k products in all, added up.
//
// All three are row-major, as in chapter 4. With three loops, as everybody writes it:

void matmul_ijk_cpu(size_t m, size_t n, size_t k, const float* a, const float* b, float* c)
{
    for (size_t row = 0; row < m; ++row)
        for (size_t col = 0; col < n; ++col) {
            float sum = 0;
            for (size_t p = 0; p < k; ++p)
                sum += a[row * k + p] * b[p * n + col];
            c[row * n + col] = sum;
        }
}

// The order of the loops is called *ijk*: i for the row, j for the column, k for the sum. It
// makes m·n·k steps, and each reads one element of A and one of B. A has only m·k elements. So
// each of them is read n times, once for every column of C. And each element of B is read m
// times.
//
// ## The same sums in another order
//
// The inner loop above goes down a column of B. Each step is a jump of n elements, and chapter 4
// showed what that costs. Exchange the two inner loops, and it goes along a row of B and along a
// row of C. There it meets neighbours, and the compiler can take several at once with the
// processor's vector instructions. A sum is now not finished in one go, so it lives in C.

void matmul_ikj_cpu(size_t m, size_t n, size_t k, const float* a, const float* b, float* c)
{
    std::fill(c, c + m * n, 0.0f);
    for (size_t row = 0; row < m; ++row)
        for (size_t p = 0; p < k; ++p)
            for (size_t col = 0; col < n; ++col)
                c[row * n + col] += a[row * k + p] * b[p * n + col];
}

// Every element of C still adds the same products in the same order.
//
// ## One thread for each result
//
// No result needs another, so each can have a thread. What the thread does is the inner loop of
// ijk. Several kernels need that, so it is a function for the device.

__device__ float row_times_column(size_t row, size_t col, size_t n, size_t k, const float* a,
                                  const float* b)
{
    float sum = 0;
    for (size_t p = 0; p < k; ++p)
        sum += a[row * k + p] * b[p * n + col];
    return sum;
}

// The first kernel has one block, as large as C. It ends where a block does: at 1024 results.

__global__ void matmul_one_block(size_t n, size_t k, const float* a, const float* b, float* c)
{
    const size_t row = threadIdx.y, col = threadIdx.x;
    c[row * n + col] = row_times_column(row, col, n, k, a, b);
}

// Many blocks get past that limit. The next is the grid's, which has at most 65,535 blocks on y.
// Chapter 4 used loops there. But a matrix leaves z free, and z can carry on where y ends: block 0
// of the second plane comes after the last block of the first. So a thread keeps its single
// element, and a plain guard is enough. (65,535 planes of 65,535 blocks: their number just fits
// into 32 bits.)

__device__ unsigned block_on_y() { return blockIdx.z * gridDim.y + blockIdx.y; }

__global__ void matmul(size_t m, size_t n, size_t k, const float* a, const float* b, float* c)
{
    const size_t row = size_t(block_on_y()) * blockDim.y + threadIdx.y;
    const size_t col = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row < m && col < n)
        c[row * n + col] = row_times_column(row, col, n, k, a, b);
}

// Once more with x and y exchanged. This is the mistake that costs most in this chapter, and no
// check finds it, because every result is right.

__global__ void matmul_rows_on_x(size_t m, size_t n, size_t k, const float* a, const float* b,
                                 float* c)
{
    const size_t row = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t col = size_t(block_on_y()) * blockDim.y + threadIdx.y;
    if (row < m && col < n)
        c[row * n + col] = row_times_column(row, col, n, k, a, b);
}

// What does a warp of 32 lanes ask for in one step of the sum, counted in sectors of 32 bytes
// (chapter 4)?
//
// | | columns on x | rows on x |
// |---|---|---|
// | element of A | the same for all lanes: 1 sector | 32 rows: 32 sectors |
// | element of B | 32 neighbours: 4 sectors | the same for all lanes: 1 sector |
//
// With the rows on x each step touches 33 sectors where 5 would do. On an H200 it takes 11.5 times
// as long at 2048 × 2048 × 2048, and 5.9 times at 4096 × 4096 × 4096.
//
// `Shape` holds the three sizes. On y, `grid_past_y` divides and rounds up twice: the rows into
// blocks, and the blocks into planes of at most 65,535.

struct Shape {
    size_t m, n, k;
};

dim3 grid_past_y(dim3 block, size_t x, size_t y)
{
    const size_t blocks = (y + block.y - 1) / block.y, on_y = std::min<size_t>(blocks, 65535);
    return dim3((x + block.x - 1) / block.x, on_y, (blocks + on_y - 1) / on_y);
}

const dim3 matrix_block(32, 8);

void launch_one_block(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    matmul_one_block<<<1, dim3(s.n, s.m)>>>(s.n, s.k, d_a, d_b, d_c);
}

void launch_matmul(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    const dim3 grid = grid_past_y(matrix_block, s.n, s.m);
    matmul<<<grid, matrix_block>>>(s.m, s.n, s.k, d_a, d_b, d_c);
}

void launch_rows_on_x(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    const dim3 grid = grid_past_y(matrix_block, s.m, s.n);
    matmul_rows_on_x<<<grid, matrix_block>>>(s.m, s.n, s.k, d_a, d_b, d_c);
}

// ## How fast could it be?
//
// A product needs 2·m·n·k operations (*FLOP*, floating-point operations): each of its m·n·k steps
// multiplies once and adds once. If each matrix crosses the memory bus only once, that is
// 4·(m·k + k·n + m·n) bytes. The quotient of the two is the *arithmetic intensity*, in FLOP per
// byte. For N × N matrices it is 2N³ / 12N² = N / 6. The sum of two vectors has 1/12, whatever its
// length.
//
// A GPU has two ceilings, and both can be measured. The units of an H200 compute 63.1 TFLOP/s (60.1
// in chapter 3, with one sum a thread), and its memory delivers 4.62 TB/s, each in a kernel that
// does nothing else. So a kernel of intensity I cannot compute faster than the smaller of
//
//     the first ceiling      and      I × the second
//
// Drawn over I that is a slope that runs into a flat line. It looks like a roof, and the picture is
// called the *roofline*. The two lines meet at 13.7 FLOP per byte. Left of that point memory is the
// limit: there lie the long vectors of chapters 3 to 5. Right of it the limit is arithmetic. A
// product with N = 4096 has an intensity of 683. It is far to the right, and could come near the
// flat line.
//
// `matmul` reaches 5.7 TFLOP/s at N = 2048, and 3.0 at 4096, where B alone has 64 MiB and fits into
// no cache. What holds it back? In each step of its sums a warp asks for 5 sectors, 160 bytes for
// 64 FLOP, an intensity of 0.4. If all of them came from memory, it would end at 1.8 TFLOP/s. (The
// picture assumes one trip for each matrix.) Most come from the caches: a small one in each SM,
// called *L1*, and a large one for all, called *L2*. But L1 has a limit too. In one cycle an SM of
// an H200 can start the multiply-adds of four warps, and L1 can answer one load of one warp. The
// two loads of a step take two cycles. In that time the SM could have started eight multiply-adds,
// and it starts one: at most an eighth of the flat line is left.
//
// ![roofline]
//
// ## Memory that a block shares
//
// So the data must come nearer. Each SM has memory that the program itself can fill, called
// *shared memory*. A variable marked `__shared__` exists once for each block. All threads of the
// block read and write the same one, no other block sees it, and it is gone when the block ends.
//
// A block that computes a square of C, a *tile*, needs some rows of A and some columns of B. They
// can be long, so it takes them in pieces: a tile of A and a tile of B, from these a part of
// every sum, then the next two tiles. Each thread loads one element of each tile. What one thread
// loads, all threads of its row or its column use. With 32 × 32 threads each element that is
// loaded serves 32 sums.
//
// ## Why two barriers
//
// Loading and using are done by different threads, and threads do not wait for each other by
// themselves. `__syncthreads()` is a *barrier*: no thread of the block goes on from there until
// all have come to it. The loop needs two, for two different reasons.
//
// 1. After loading: nobody may read the tiles before everybody has filled them. Without this
//    barrier a thread adds what lies there still, from the tile before or from another kernel.
// 2. After using: nobody may overwrite the tiles while somebody still reads them. Without this
//    one a fast thread loads the next tile under the eyes of a slow one.
//
// Either mistake may stay hidden on a GPU, if the warps happen to run in step. What finds it is a
// tool that watches the accesses: `compute-sanitizer --tool racecheck ./matmul` on a GPU, and
// `cpu_device/run --tsan matmul.cu` without one, which says `data race` and names the lines of
// the two accesses.
//
// The tile's size is a template parameter, because the size of the arrays must be known when the
// program is compiled. It is the size of the block as well.

template <unsigned tile>
__global__ void matmul_tile(Shape s, const float* a, const float* b, float* c)
{
    static_assert(tile * tile <= 1024, "a tile has a thread for each element, and a block has at "
                                       "most 1024 threads: 32 x 32 fits, 64 x 64 does not");
    __shared__ float tile_a[tile][tile], tile_b[tile][tile];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const size_t row = size_t(block_on_y()) * tile + y, col = size_t(blockIdx.x) * tile + x;
    float sum = 0;
    for (size_t p = 0; p < s.k; p += tile) {
        tile_a[y][x] = row < s.m && p + x < s.k ? a[row * s.k + p + x] : 0;
        tile_b[y][x] = p + y < s.k && col < s.n ? b[(p + y) * s.n + col] : 0;
        __syncthreads();                   // 1: both tiles are full
        for (unsigned i = 0; i < tile; ++i)
            sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();                   // 2: nobody needs them any more
    }
    if (row < s.m && col < s.n)
        c[row * s.n + col] = sum;
}

// Tiles of 8, 16 and 32 have 64, 256 and 1024 threads. A tile of 64 would have 4096, and
// `static_assert` refuses it in words when it is compiled, and not with an error at the launch.
//
// ## Where the sizes are not multiples of the tile
//
// Most sizes are not. Where a tile hangs over an edge there is nothing to load, and zeros take its
// place. Past the end of k they keep the sum right, because zeros add nothing. Past the last row
// of A or the last column of B they only keep the loads within the arrays.
//
// A thread whose own element lies outside C has no result to write. Still it must not leave
// before the end: others need the elements that it loads. And a barrier that some threads of a
// block reach and others skip may never open. So the guard stands last.

template <unsigned tile>
void launch_tile(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    const dim3 block(tile, tile);
    matmul_tile<tile><<<grid_past_y(block, s.n, s.m), block>>>(s, d_a, d_b, d_c);
}

// ## Shared memory and L1
//
// They are one array of memory in the SM, 256 KiB on an H200. How much of it is shared memory is
// settled for each kernel. The *carve-out* asks for a share in percent:
//
// ```cuda
// cudaFuncSetAttribute(matmul_tile<32>, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
// ```
//
// It is a wish. The driver grants what it has a setting for, and at least what one block needs. A
// block with tiles of 32 needs 8 KiB, and 1 more for the system. By their threads two such blocks
// fit into an SM of an H200, but with 0 % there is no room for the second. `matmul` uses no shared
// memory. It relies on L1, and with 100 % it has the least of it. The `carveout` rows show what
// that does at 4096 × 4096 × 4096 on an H200: `matmul_tile<32>` takes 1.46 times as long with 0 %
// as with 100 %. `matmul` takes the same time with either: what L1 has left is enough for it.
//
// ## There and back
//
// Nothing is new here but that the three matrices have three sizes.

#define CUDA_CHECK(call) check_cuda(call, #call, __FILE__, __LINE__)
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

using Launch = void (*)(Shape, const float* d_a, const float* d_b, float* d_c);

void matmul_gpu(Launch launch, Shape s, const float* a, const float* b, float* c)
{
    const size_t bytes_a = s.m * s.k * sizeof(float);
    const size_t bytes_b = s.k * s.n * sizeof(float);
    const size_t bytes_c = s.m * s.n * sizeof(float);
    float *d_a, *d_b, *d_c;
    CUDA_CHECK(cudaMalloc(&d_a, bytes_a));
    CUDA_CHECK(cudaMalloc(&d_b, bytes_b));
    CUDA_CHECK(cudaMalloc(&d_c, bytes_c));
    CUDA_CHECK(cudaMemcpy(d_a, a, bytes_a, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, b, bytes_b, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_c, 0xFF, bytes_c));

    launch(s, d_a, d_b, d_c);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    CUDA_CHECK(cudaMemcpy(c, d_c, bytes_c, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_c));
}

// ## Do they agree?
//
// Every product and every sum is rounded, and how wrong a result may be depends on how many of
// them there were. One rounding changes a number by at most ε/2 of itself, where ε is 2⁻²³
// (`FLT_EPSILON`, chapter 5). A product is rounded once itself and then again in each of the sums
// that it is in, which makes k roundings at most. If all went the same way, the result would be
// off by
//
//     k · ε/2 · (|a₁b₁| + |a₂b₂| + … + |aₖbₖ|)
//
// in whatever order the products are added, and fused or not. But roundings go up about as often
// as down. Of k errors with random signs some √k are left when they are added up (N. Higham and
// T. Mary, 2019). So we allow 4√k in place of k, where that is less, and it is a wide margin: the
// program prints how much of it the results use. A fixed tolerance would be too small for a large k
// and would hide mistakes with a small one. With k = 0 nothing is allowed, and the empty sum has to
// be exactly 0. With a k of tens of thousands the tolerance is larger than a single product. There
// a missing product could hide. A small k finds it. With a k of ten million the check fails, and
// rightly: the sums are so large that a product is rounded to a whole number when it is added.
//
// The reference adds in double precision, whose errors are 2²⁹ times smaller. The inputs are
// random numbers between ½ and 1½ from a fixed seed. They are positive, so that the sum in the
// bound is the result itself, and all are of similar size, so that each product counts.

void matmul_double_cpu(Shape s, const float* a, const float* b, double* c)
{
    std::fill(c, c + s.m * s.n, 0.0);
    for (size_t row = 0; row < s.m; ++row)
        for (size_t p = 0; p < s.k; ++p)
            for (size_t col = 0; col < s.n; ++col)
                c[row * s.n + col] += double(a[row * s.k + p]) * b[p * s.n + col];
}

void fill(std::vector<float>& values, unsigned seed)
{
    std::mt19937 random(seed);
    for (float& value : values)
        value = 0.5f + random() * 0x1p-32f;
}

struct Problem {
    Shape shape;
    std::vector<float> a, b;
    std::vector<double> reference, allowed;

    explicit Problem(Shape s)
        : shape(s), a(s.m * s.k), b(s.k * s.n), reference(s.m * s.n), allowed(s.m * s.n)
    {
        fill(a, 1);
        fill(b, 2);
        matmul_double_cpu(s, a.data(), b.data(), reference.data());
        const double roundings = std::min<double>(s.k, 4 * std::sqrt(s.k));
        for (size_t i = 0; i < allowed.size(); ++i)
            allowed[i] = roundings * 0.5 * FLT_EPSILON * reference[i];
    }
};

// ## The digits differ. Which are wrong?
//
// Neither. `sum += a * b` is two operations, and a CPU rounds after each in a build like ours. A
// GPU has an instruction that does both and rounds once, *FMA*, for fused multiply-add, and `nvcc`
// uses it where it can. So the last digits differ. The largest error need not: on an H200 the
// first two problems use 0.20 and 0.23 of what is allowed, on either side.
//
// Both sides can do it either way. `fmaf` is the fused step by name, on the CPU as well.
// `__fmul_rn` and `__fadd_rn` are a product and a sum that `nvcc` must not fuse.

__host__ __device__ float fused(float a, float b, float sum) { return fmaf(a, b, sum); }

__device__ float rounded_twice(float a, float b, float sum)
{
    return __fadd_rn(__fmul_rn(a, b), sum);
}

// A CPU that has the instruction may fuse as well, as g++ does on Arm, or on a PC with
// `-march=native`. It cannot fuse what it does not see together, so here the product is a
// function that is never put in place of its call.

[[gnu::noinline]] float product(float a, float b) { return a * b; }

float rounded_twice_cpu(float a, float b, float sum) { return product(a, b) + sum; }

// Now the same product on both sides with either step. The order of the sum is that of `matmul`.

using Step = float (*)(float a, float b, float sum);

template <Step step>
void matmul_cpu_by(Shape s, const float* a, const float* b, float* c)
{
    std::fill(c, c + s.m * s.n, 0.0f);
    for (size_t row = 0; row < s.m; ++row)
        for (size_t p = 0; p < s.k; ++p)
            for (size_t col = 0; col < s.n; ++col) {
                const size_t i = row * s.n + col;
                c[i] = step(a[row * s.k + p], b[p * s.n + col], c[i]);
            }
}

template <Step step>
__global__ void matmul_by(Shape s, const float* a, const float* b, float* c)
{
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < s.m * s.n) {
        float sum = 0;
        for (size_t p = 0; p < s.k; ++p)
            sum = step(a[i / s.n * s.k + p], b[p * s.n + i % s.n], sum);
        c[i] = sum;
    }
}

template <Step step>
void launch_by(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    matmul_by<step><<<(s.m * s.n + 255) / 256, 256>>>(s, d_a, d_b, d_c);
}

bool read_sizes(int argc, char** argv, std::initializer_list<size_t*> sizes);
int usage(const char* program, const char* arguments);
void require_memory(double bytes);
bool agree(const char* what, const std::vector<float>& gpu, const std::vector<double>& reference,
           const std::vector<double>& tolerance);

#ifndef BENCHMARKS

size_t count_different(const Problem& problem, const std::vector<float>& cpu, Launch launch)
{
    std::vector<float> gpu(cpu.size(), NAN);
    matmul_gpu(launch, problem.shape, problem.a.data(), problem.b.data(), gpu.data());
    size_t different = 0;
    for (size_t i = 0; i < cpu.size(); ++i)
        different += gpu[i] != cpu[i];
    return different;
}

// The program counts in how many elements `matmul` and ikj differ. Then it compares the pairs,
// fused with fused and rounded twice with rounded twice, which must be equal to the last bit.
//
// Built with `-fmad=false`, `nvcc` fuses nothing by itself, and the first count is 0 too.

bool compare_digits(const Problem& problem, std::vector<float>& cpu)
{
    const Shape s = problem.shape;
    const float *const a = problem.a.data(), *const b = problem.b.data();
    matmul_ikj_cpu(s.m, s.n, s.k, a, b, cpu.data());
    std::printf("elements of %zu in which the GPU and the CPU differ\n", cpu.size());
    std::printf("  as compiled    %zu\n", count_different(problem, cpu, launch_matmul));
    matmul_cpu_by<fused>(s, a, b, cpu.data());
    const size_t both_fused = count_different(problem, cpu, launch_by<fused>);
    std::printf("  both fused     %zu\n", both_fused);
    matmul_cpu_by<rounded_twice_cpu>(s, a, b, cpu.data());
    const size_t neither_fused = count_different(problem, cpu, launch_by<rounded_twice>);
    std::printf("  neither fused  %zu\n", neither_fused);
    if (both_fused + neither_fused > 0)
        std::puts("FAIL: the same steps in the same order have different results");
    return both_fused + neither_fused == 0;
}

// ## All of them
//
// Where the CPU's slower loops would take many seconds they are left out, and with them the
// comparison of digits. The kernels are checked at every size.

struct Way {
    const char* name;
    Launch launch;
};

const std::vector<Way> ways = {
    {"one block", launch_one_block},
    {"columns on x", launch_matmul},
    {"rows on x", launch_rows_on_x},
    {"tile 8", launch_tile<8>},
    {"tile 16", launch_tile<16>},
    {"tile 32", launch_tile<32>},
};

bool check(Shape s)
{
    const double count_a = double(s.m) * s.k, count_b = double(s.k) * s.n;
    const double count_c = double(s.m) * s.n;
    std::printf("m %zu, n %zu, k %zu: A has %.0f bytes, B %.0f, C %.0f\n", s.m, s.n, s.k,
                count_a * sizeof(float), count_b * sizeof(float), count_c * sizeof(float));
    if (count_c == 0)
        return true;                       // no results
    require_memory((count_a + count_b + 2 * count_c) * sizeof(float) +
                   2 * count_c * sizeof(double));

    const Problem problem(s);
    const float *const a = problem.a.data(), *const b = problem.b.data();
    const auto is_right = [&](const char* name, const std::vector<float>& c) {
        return agree(name, c, problem.reference, problem.allowed);
    };
    std::vector<float> c(s.m * s.n, NAN);
    const bool is_small = count_c * s.k <= 0x1p30;
    if (is_small) {
        matmul_ijk_cpu(s.m, s.n, s.k, a, b, c.data());
        if (!is_right("CPU, ijk", c))
            return false;
    } else {
        std::puts("CPU, ijk      left out: it would take long");
    }
    c.assign(c.size(), NAN);
    matmul_ikj_cpu(s.m, s.n, s.k, a, b, c.data());
    if (!is_right("CPU, ikj", c))
        return false;
    for (const Way& way : ways) {
        if (way.launch == launch_one_block && count_c > 1024) {
            std::puts("one block     left out: a block has at most 1024 threads");
            continue;
        }
        c.assign(c.size(), NAN);
        matmul_gpu(way.launch, s, a, b, c.data());
        if (!is_right(way.name, c))
            return false;
    }
    return !is_small || compare_digits(problem, c);
}

int main(int argc, char** argv)
{
    Shape s{};
    if (argc > 1 && !read_sizes(argc, argv, {&s.m, &s.n, &s.k}))
        return usage(argv[0], "[m n k]");

    cudaDeviceProp device;
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("C = A x B on %s\n", device.name);
    const bool good = argc > 1 ? check(s) : check({29, 31, 37}) && check({127, 131, 113}) &&
                                                check({1027, 299, 5});
    if (!good)
        return EXIT_FAILURE;
    std::puts("PASS");
}

#else

// ## How fast?
//
// ```sh
// FLAGS="-O3 -std=c++17 -arch=native -DBENCHMARKS -Xcompiler -fopenmp"
// nvcc $FLAGS matmul.cu -o matmul_bench -lbenchmark -lcublas && ./matmul_bench
// ```
//
// The numbers in a row's name are m, n and k. `items_per_second` counts FLOP. The CPU's loops are
// compiled with `-O3` and without `-march=native`, as everywhere in this tutorial.

#include <benchmark/benchmark.h>
#include <chrono>

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

// As in chapter 4, the inputs are made and copied once, and every row uses as much of them as its
// shape needs. On the device the three matrices lie one after another.

constexpr size_t largest = 8192 * 8192;

struct HostMatrices {
    std::vector<float> a, b, c;

    HostMatrices() : a(largest), b(largest), c(largest)
    {
        fill(a, 1);
        fill(b, 2);
    }
};

HostMatrices& host()
{
    static HostMatrices matrices;
    return matrices;
}

struct DeviceMatrices {
    float *a, *b, *c;
    size_t count = largest;

    DeviceMatrices()
    {
        size_t free, total;
        CUDA_CHECK(cudaMemGetInfo(&free, &total));
        while (3.0 * count * sizeof(float) > 0.9 * free)
            count /= 2;
        const size_t bytes = count * sizeof(float);
        CUDA_CHECK(cudaMalloc(&a, 3 * bytes));
        b = a + count;
        c = b + count;
        CUDA_CHECK(cudaMemcpy(a, host().a.data(), bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(b, host().b.data(), bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemset(c, 0, bytes));
    }
};

const DeviceMatrices& device()
{
    static const DeviceMatrices matrices;
    return matrices;
}

Shape shape_of(const benchmark::State& state)
{
    return {size_t(state.range(0)), size_t(state.range(1)), size_t(state.range(2))};
}

void report(benchmark::State& state)
{
    const Shape s = shape_of(state);
    state.SetItemsProcessed(state.iterations() * 2 * s.m * s.n * s.k);
    state.SetBytesProcessed(state.iterations() * (s.m * s.k + s.k * s.n + s.m * s.n) *
                            sizeof(float));
}

bool has_room(benchmark::State& state)
{
    const Shape s = shape_of(state);
    const bool fits = std::max({s.m * s.k, s.k * s.n, s.m * s.n}) <= device().count;
    if (!fits)
        state.SkipWithError("the device has no room for this shape");
    return fits;
}

// A row that takes more than a second for one product is left out. To see that, a sixteenth of
// the sum is enough.

bool is_slow(benchmark::State& state, Launch launch)
{
    Shape s = shape_of(state);
    s.k /= 16;
    std::chrono::duration<double> seconds;
    for (int round = 0; round < 2; ++round) {        // the first also loads the kernel
        const auto start = std::chrono::steady_clock::now();
        launch(s, device().a, device().b, device().c);
        CUDA_CHECK(cudaDeviceSynchronize());
        seconds = std::chrono::steady_clock::now() - start;
    }
    const bool slow = seconds.count() > 1.0 / 16;
    if (slow)
        state.SkipWithError("more than a second for one product");
    return slow;
}

template <Launch launch>
void gpu(benchmark::State& state)
{
    if (!has_room(state) || is_slow(state, launch))
        return;
    const Shape s = shape_of(state);
    const int batch = std::clamp<size_t>((size_t(1) << 34) / (s.m * s.n * s.k), 1, 256);
    time_on_gpu(state, batch, [&] { launch(s, device().a, device().b, device().c); });
    report(state);
}

void gpu_with_transfers_pageable(benchmark::State& state)
{
    if (!has_room(state) || is_slow(state, launch_tile<32>))
        return;
    const Shape s = shape_of(state);
    const DeviceMatrices& d = device();
    HostMatrices& h = host();
    const size_t bytes_a = s.m * s.k * sizeof(float), bytes_b = s.k * s.n * sizeof(float);
    const size_t bytes_c = s.m * s.n * sizeof(float);
    for (auto _ : state) {
        CUDA_CHECK(cudaMemcpy(d.a, h.a.data(), bytes_a, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(d.b, h.b.data(), bytes_b, cudaMemcpyHostToDevice));
        launch_tile<32>(s, d.a, d.b, d.c);
        CUDA_CHECK(cudaMemcpy(h.c.data(), d.c, bytes_c, cudaMemcpyDeviceToHost));
    }
    CUDA_CHECK(cudaGetLastError());
    report(state);
}

// The carve-out is a property of the kernel, so it is set back at the end of the row.

template <auto kernel, Launch launch, int percent>
void gpu_carveout(benchmark::State& state)
{
    const auto prefer = [](int carveout) {
        CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                        carveout));
    };
    prefer(percent);
    gpu<launch>(state);
    prefer(cudaSharedmemCarveoutDefault);
}

// The roofline's ceilings. For bytes: a kernel that reads the three matrices and writes nothing,
// in a few shapes, of which the best counts. It would write only a sum that never occurs, but the
// compiler does not know that, or it would leave out the reading.

template <unsigned threads, unsigned per_thread>
__global__ void read_only(const float4* x, float* never)
{
    const size_t first = size_t(blockIdx.x) * threads * per_thread + threadIdx.x;
    float4 v[per_thread];
    for (unsigned i = 0; i < per_thread; ++i)
        v[i] = x[first + i * threads];
    float sum = 0;
    for (unsigned i = 0; i < per_thread; ++i)
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    if (sum == -1)
        *never = sum;
}

template <unsigned threads, unsigned per_thread>
void gpu_read_ceiling(benchmark::State& state)
{
    const DeviceMatrices& d = device();
    const size_t blocks = 3 * d.count / (4 * threads * per_thread);
    const auto x = reinterpret_cast<const float4*>(d.a);
    time_on_gpu(state, 8, [&] { read_only<threads, per_thread><<<blocks, threads>>>(x, d.c); });
    state.SetBytesProcessed(state.iterations() * blocks * threads * per_thread * sizeof(float4));
}

// For FLOP: a kernel that does nothing but FMAs, all in registers. Each thread has eight sums, so
// that one need not wait for another.

constexpr int fma_rounds = 4096, fma_sums = 8, fma_threads = 256;

__global__ void fma_only(float x, float y, float* never)
{
    float sums[fma_sums], total = 0;
    for (int i = 0; i < fma_sums; ++i)
        sums[i] = threadIdx.x + i;
#pragma unroll 16
    for (int round = 0; round < fma_rounds; ++round)
        for (int i = 0; i < fma_sums; ++i)
            sums[i] = fmaf(sums[i], x, y);
    for (int i = 0; i < fma_sums; ++i)
        total += sums[i];
    if (total == -1)
        *never = total;
}

void gpu_fma_ceiling(benchmark::State& state)
{
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    const size_t blocks = 32 * properties.multiProcessorCount;
    time_on_gpu(state, 4, [&] { fma_only<<<blocks, fma_threads>>>(0.5f, 1, device().c); });
    state.SetItemsProcessed(state.iterations() * 2 * blocks * fma_threads * fma_rounds * fma_sums);
}

// What the program itself does not check is checked here: one product, before it is timed.

using Multiply = void (*)(size_t m, size_t n, size_t k, const float* a, const float* b, float* c);

bool is_right(benchmark::State& state, Multiply multiply)
{
    const Problem problem({127, 131, 113});
    std::vector<float> c(problem.reference.size(), NAN);
    multiply(127, 131, 113, problem.a.data(), problem.b.data(), c.data());
    for (size_t i = 0; i < c.size(); ++i)
        if (!(std::fabs(c[i] - problem.reference[i]) <= problem.allowed[i])) {
            state.SkipWithError("the result is wrong");
            return false;
        }
    return true;
}

template <Multiply multiply>
void cpu(benchmark::State& state)
{
    if (!is_right(state, multiply))
        return;
    const Shape s = shape_of(state);
    HostMatrices& h = host();
    for (auto _ : state) {
        multiply(s.m, s.n, s.k, h.a.data(), h.b.data(), h.c.data());
        benchmark::DoNotOptimize(h.c.data());
        benchmark::ClobberMemory();
    }
    report(state);
}

// With several cores, each takes whole rows of C.

#ifdef _OPENMP
void matmul_ikj_cpu_all_threads(size_t m, size_t n, size_t k, const float* a, const float* b,
                                float* c)
{
#pragma omp parallel for
    for (size_t row = 0; row < m; ++row)
        matmul_ikj_cpu(1, n, k, a + row * k, b, c + row * n);
}
#endif

// And the libraries, which are the measure for both sides. OpenBLAS is there in a build with
// `-DOPENBLAS -lopenblas` (`make bench-06 BLAS=openblas`). It chooses its kernels by the processor
// that it finds, and one that it does not know gets those for an old one. Which they are stands
// beside the row. `OPENBLAS_CORETYPE=SkylakeX` in the environment chooses for it.

#ifdef OPENBLAS
#include <cblas.h>

void matmul_openblas(size_t m, size_t n, size_t k, const float* a, const float* b, float* c)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
}

void cpu_blas(benchmark::State& state)
{
    cpu<matmul_openblas>(state);
    state.SetLabel(openblas_get_corename());
}
#endif

// cuBLAS keeps its matrices column after column. What it takes for B, A and C are then our
// matrices with rows and columns exchanged, and (AB)ᵀ = BᵀAᵀ. So it is given B first.

#if defined(__CUDACC__) && __has_include(<cublas_v2.h>)
#include <cublas_v2.h>

void check_cublas(cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    std::fprintf(stderr, "cuBLAS: %s\n", cublasGetStatusString(status));
    std::exit(EXIT_FAILURE);
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

void launch_cublas(Shape s, const float* d_a, const float* d_b, float* d_c)
{
    const float one = 1, zero = 0;
    check_cublas(cublasSgemm(cublas_handle(), CUBLAS_OP_N, CUBLAS_OP_N, s.n, s.m, s.k, &one, d_b,
                             s.n, d_a, s.k, &zero, d_c, s.n));
}

void matmul_cublas(size_t m, size_t n, size_t k, const float* a, const float* b, float* c)
{
    matmul_gpu(launch_cublas, {m, n, k}, a, b, c);
}

void gpu_cublas(benchmark::State& state)
{
    if (is_right(state, matmul_cublas))
        gpu<launch_cublas>(state);
}
#endif

const auto cubes = [](auto* row, int first, int last) {
    for (int n = first; n <= last; n *= 2)
        row->Args({n, n, n});
};
const auto on_cpu = [](auto* row) { cubes(row->MinTime(0.05), 128, 1024); };
const auto all_shapes = [](auto* row) {
    cubes(row->MinTime(0.05), 128, 8192);
    row->Args({1000, 333, 777})->Args({4095, 4097, 4099})->Args({64, 8192, 1024});
};
const auto on_gpu = [](auto* row) { row->Apply(all_shapes)->UseManualTime(); };
const auto in_one_block = [](auto* row) { cubes(row->MinTime(0.05)->UseManualTime(), 8, 32); };
const auto at_4096 = [](auto* row) { cubes(row->MinTime(0.05)->UseManualTime(), 4096, 4096); };
const auto ceiling = [](auto* row) { row->MinTime(0.05)->UseManualTime(); };

BENCHMARK(cpu<matmul_ijk_cpu>)->Name("cpu_ijk_one_thread")->Apply(on_cpu);
BENCHMARK(cpu<matmul_ikj_cpu>)->Name("cpu_one_thread")->Apply(on_cpu);
#ifdef _OPENMP
BENCHMARK(cpu<matmul_ikj_cpu_all_threads>)
    ->Name("cpu_all_threads")->Apply(on_cpu)->Args({2048, 2048, 2048})->UseRealTime();
#endif
#ifdef OPENBLAS
BENCHMARK(cpu_blas)
    ->Name("cpu_blas_all_threads")->Apply(on_cpu)->Args({2048, 2048, 2048})->UseRealTime();
#endif
BENCHMARK(gpu<launch_one_block>)->Name("gpu_one_block")->Apply(in_one_block);
BENCHMARK(gpu<launch_rows_on_x>)->Name("gpu_rows_on_x")->Apply(on_gpu);
BENCHMARK(gpu<launch_matmul>)->Name("gpu_columns_on_x")->Apply(on_gpu);
BENCHMARK(gpu<launch_tile<8>>)->Name("gpu_tile<8>")->Apply(on_gpu);
BENCHMARK(gpu<launch_tile<16>>)->Name("gpu_tile<16>")->Apply(on_gpu);
BENCHMARK(gpu<launch_tile<32>>)->Name("gpu_tile<32>")->Apply(on_gpu);
BENCHMARK(gpu_with_transfers_pageable)->Apply(all_shapes)->UseRealTime();
BENCHMARK(gpu_carveout<matmul_tile<32>, launch_tile<32>, 0>)
    ->Name("gpu_tile<32>_carveout<0>")->Apply(at_4096);
BENCHMARK(gpu_carveout<matmul_tile<32>, launch_tile<32>, 50>)
    ->Name("gpu_tile<32>_carveout<50>")->Apply(at_4096);
BENCHMARK(gpu_carveout<matmul_tile<32>, launch_tile<32>, 100>)
    ->Name("gpu_tile<32>_carveout<100>")->Apply(at_4096);
BENCHMARK(gpu_carveout<matmul, launch_matmul, 0>)
    ->Name("gpu_columns_on_x_carveout<0>")->Apply(at_4096);
BENCHMARK(gpu_carveout<matmul, launch_matmul, 100>)
    ->Name("gpu_columns_on_x_carveout<100>")->Apply(at_4096);
#if defined(__CUDACC__) && __has_include(<cublas_v2.h>)
BENCHMARK(gpu_cublas)->Apply(on_gpu);
#endif
BENCHMARK(gpu_read_ceiling<128, 8>)->Name("gpu_read_ceiling<128,8>")->Apply(ceiling);
BENCHMARK(gpu_read_ceiling<256, 4>)->Name("gpu_read_ceiling<256,4>")->Apply(ceiling);
BENCHMARK(gpu_read_ceiling<512, 4>)->Name("gpu_read_ceiling<512,4>")->Apply(ceiling);
BENCHMARK(gpu_fma_ceiling)->Apply(ceiling);
BENCHMARK_MAIN();

#endif

// ## What the clock says
//
// "The GPU is so many times faster" depends on what it is compared with. At 1024 × 1024 × 1024 on
// an H200 and its host the `matmul_tile<32>` kernel is
//
// - 19,053 times as fast as ijk on one CPU thread (4116 times at 512 × 512 × 512),
// - 129 times as fast as ikj, the same loop in a better order, on all 16 threads,
// - 8.6 times as fast as OpenBLAS on all threads.
//
// With the transfers these are 4422, 30 and 2.0 times. All six are true. Only OpenBLAS is what
// somebody would use on the CPU, and of its two figures only the 2.0 counts the transfers. (On the
// GPU one would use cuBLAS: 38 times as fast as OpenBLAS, without the transfers.)
//
// On the GPU, in fractions of cuBLAS: at 2048 × 2048 × 2048 rows on x 0.010, columns on x 0.117,
// tiles of 8 0.104, of 16 0.164, of 32 0.177. At 4096 × 4096 × 4096: 0.010, 0.057, 0.101, 0.160
// and 0.161. cuBLAS itself reaches 0.80 of the FMAs that the chip can do. (Tiles of 8 can lose to
// no tile at all. What they load serves only 8 sums, and a block stops for it every eight steps.)
//
// The tile gains less than one might hope. It asks memory far less often, but L1 and L2 had kept
// most of that away already. And each step of a sum still wants two floats, now from shared
// memory, which is the same array as L1 and answers one load of a warp in a cycle as well. The
// compiler helps a little: it takes four neighbours of `tile_a` in one load. That makes 1¼ loads
// a step, and at most a fifth of the flat line.
//
// The way out is a thread that computes more than one result. With eight elements of A and eight
// of B in its registers it can do 64 steps. This chapter does not go that far.
//
// ## Try it
//
// Predict first, then change the line, and run.
//
// 1. In `launch_matmul`, exchange `s.n` and `s.m` in the line that makes `grid`. Which element is
//    the first that is wrong?
//
//    *Answer:* the first of the three problems passes. The second ends with `FAIL: columns on x:
//    element 128`. Its 131 columns get four blocks of 32, as if they were 127, and three columns
//    have nobody. `./matmul 64 64 64` passes: in a square nobody sees which side is which.
//
// 2. Add a line `{"tile 64", launch_tile<64>},` to `ways`. When do you hear of it?
//
//    *Answer:* when you compile: `error: static assertion failed`, with the words from the kernel.
//    Without the `static_assert` it compiles, and the launch is refused when the program runs.
//
// 3. In `fill`, write `-0.5f` for `0.5f`, so that half of the inputs are negative. Does it pass?
//
//    *Answer:* no, and no kernel is wrong: `FAIL: CPU, ijk`. The check takes the sum in the bound
//    from the reference, which is right only as long as all products are positive. Now they cancel
//    each other, and what is allowed is far too small, or even below zero.
//
// ## The question that is left
//
// σ from chapter 5 and the product from this one are all that a neural layer needs: y = σ(Wx +
// b). But its x is a single vector, a matrix with one column. Then each element of W is used
// once, a tile of W serves nobody twice, and the intensity is ½. What is the best kernel then? And
// should σ be a kernel of its own? Chapter 7 builds the layer.

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
