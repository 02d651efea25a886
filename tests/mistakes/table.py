"""Mistakes that beginners make, each as an edit of a chapter, and who catches it.

The table is ordered by kind, and in a kind by chapter, since most kinds are possible in most
chapters. page.py makes README.md from it, and test_mistakes.py applies it.
"""

import re
from dataclasses import dataclass

from conftest import DEVICE as UNDER_TEST

# Who catches a mistake.
CHECK = "check"           # the program itself: FAIL, or an error of CUDA's with its line
DEVICE = "CPU device"     # the CPU device in a plain run: kernel, block, thread, and what they use
ASAN = "--asan"           # only the tool does; a plain run says PASS
TSAN = "--tsan"
LINT = "--lint"           # clang as a checker of CUDA's rules; nvcc refuses the same
COMPILER = "compiler"     # with -Wall -Wextra -Werror

# What finds on a GPU what these find.
MEMCHECK, RACECHECK, SYNCCHECK = "memcheck", "racecheck", "synccheck"
UNDEFINED = "undefined"   # what a GPU does is anybody's guess
UNNOTICED = "unnoticed"   # nvcc says nothing of it, and at sizes that a test can take it does no harm
ON_GPU = {CHECK: "", DEVICE: MEMCHECK, ASAN: MEMCHECK, TSAN: RACECHECK, LINT: "nvcc", COMPILER: "nvcc"}


@dataclass(frozen=True)
class Mistake:
    kind: str
    chapter: str          # its number
    words: str            # what this one does
    edits: tuple          # of (function that it is inside, or None; old text; new text)
    runs: tuple           # arguments of the runs that must show it; the page has the first
    tool: str
    says: str             # how the tool or the CPU device says it, as a regular expression
    on_gpu: str           # a tool of compute-sanitizer, nvcc, or "" for a plain run
    large: tuple          # runs that take long without a GPU: there only with FULL=1
    switched: bool        # built together with the chapter's others

    @property
    def name(self):
        return f"{self.chapter} {self.kind}: {self.words}"


KIND = ""
MISTAKES = []


def kind(words):
    global KIND
    KIND = words


def is_switchable(text):
    """Whether this is a whole statement, or a whole expression: then a condition can choose between
    it and another. What is taken for less than it is only takes longer."""
    text = re.sub(r"<<<.*?>>>", "", text.strip())
    if not text or text == ";":
        return True
    if re.search(r"[{}#]|//|^(const )?\w+ \w+ =|^[^\w(]", text) or text.count("(") != text.count(")"):
        return False
    while re.search(r"\([^()]*\)", text):             # what stands in brackets is whole
        text = re.sub(r"\([^()]*\)", "_", text)
    if text.endswith(";"):
        return re.match(r"[\w:.]*(<\w+>)?_;|[^;]*[^=<>!;]=[^=]", text) is not None
    return not re.search(r"[;,]|[^=<>!]=[^=]|[-+*/%<>=&|]$|\b(size_t|int|float|const|if|for) \w", text)


def mistake(chapter, words, inside, old, new, *runs, also=(), tool=CHECK, says="", on_gpu=None, large="",
            alone=False):
    """One entry. Each run is the program's arguments as words; there is at least one."""
    edits = ((inside, old, new), *also)
    # On a GPU chapter 2 resets the device, and with it the variable that switches.
    switched = (tool in (CHECK, DEVICE) and not alone and (chapter != "02" or UNDER_TEST == "cpu")
                and all(is_switchable(text) for _, *texts in edits for text in texts))
    MISTAKES.append(Mistake(
        KIND, chapter, words, edits,
        tuple(tuple(run.split()) for run in runs or ("",)), tool, says,
        ON_GPU[tool] if on_gpu is None else on_gpu, (tuple(large.split()),) if large else (), switched))


# Functions.

THREAD_1, BLOCK_1 = "__global__ void add_one_thread(", "__global__ void add_one_block("
TRIP_1, MAIN = "void vector_add_gpu(", "int main("
KERNEL_2, TRIP_2 = "__global__ void vector_add(", "void vector_add_gpu("
ADD_3, STRIDE_3 = "__global__ void add(", "__global__ void add_grid_stride("
FOUR_3, QUADS_3 = "__global__ void add_four(", "__global__ void add_float4("
PLACES_3, DRAW_3 = "__global__ void record_places(", "bool who_runs_where("
LAUNCH_3, TRIP_3 = "void launch(Kernel", "bool check_sums("
BLOCK_4, MATRIX_4 = "__global__ void add_one_block(", "__global__ void matrix_add("
ROWS_4, TENSOR_4 = "__global__ void matrix_add_rows_on_x(", "__global__ void tensor_add("
DEPTH_4, FLOAT4_4 = "__global__ void tensor_add_depth_on_x(", "__global__ void add_float4("
TRIP_4 = "void add_gpu("
SIGMOID = "__host__ __device__ float sigmoid(float x)"
FORMULA = "1 / (1 + expf(-x))"
APPLY_5, FLOAT4_5 = "__global__ void apply(", "__global__ void apply_float4("
LAUNCH_5, TRIP_5 = "void launch(size_t n", "void sigmoid_gpu("

SUM_6, NAIVE_6 = "__device__ float row_times_column(", "__global__ void matmul("
ON_X_6, ONE_6 = "__global__ void matmul_rows_on_x(", "__global__ void matmul_one_block("
TILE_6, BY_6 = "__global__ void matmul_tile(", "__global__ void matmul_by("
TRIP_6, GRID_6 = "void matmul_gpu(", "dim3 grid_past_y("
THREE_7, BIAS_7 = "__global__ void multiply(", "__global__ void add_bias("
APPLY_7, FUSED_7 = "__global__ void apply_sigmoid(", "__global__ void layer_thread_a_row("
SUM_7, WARP_7 = "__device__ float warp_sum(", "__global__ void layer_warp_a_row("
BLOCK_7, TILE_7 = "    layer_block_a_row(size_t in", "__global__ void layer_tile("
TRIP_7 = "void layer_gpu("

def copy(target, source, direction, size="bytes"):
    return f"    CUDA_CHECK(cudaMemcpy({target}, {source}, {size}, cudaMemcpy{direction}));\n"


def exchanged(launch):
    """A launch, and the same with the numbers of blocks and threads exchanged."""
    return launch, re.sub(r"<<<(.*), (.*)>>>", r"<<<\2, \1>>>", launch)


IN, OUT = "HostToDevice", "DeviceToHost"
SUM = "c[i] = a[i] + b[i];"
SUM_1 = "c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];"
X = "size_t(blockIdx.x) * blockDim.x"

STORE_6 = "c[row * n + col] = row_times_column(row, col, n, k, a, b);"
STORE_TILE_6 = "c[row * s.n + col] = sum;"
LOADS_6 = """tile_a[y][x] = row < s.m && p + x < s.k ? a[row * s.k + p + x] : 0;
        tile_b[y][x] = p + y < s.k && col < s.n ? b[(p + y) * s.n + col] : 0;"""
STORE_7, WEIGHT_7 = "y[row] = sigmoid(sum + b[row]);", "w[row * in + i]"
STORE_TILE_7 = "y[n * s.out + row] = sigmoid(sum + b[row]);"
LOADS_7 = """x_tile[ty][tx] = has_x ? x[(first_n + ty) * s.in + i] : 0;
            w_tile[ty][tx] = has_w ? w[(first_out + ty) * s.in + i] : 0;"""
LAUNCH_1 = "add_one_block<<<1, n>>>(d_a, d_b, d_c);"
LAUNCH_2 = "vector_add<<<1, threads>>>(d_a + first, d_b + first, d_c + first);"
LAUNCHED_5 = "apply<function><<<(n + 255) / 256, 256>>>(n, d_x, d_y);"
CALL_3 = "launch(v.kernel, v.elements_a_thread, threads, n, d_a, d_b, d_c);"
CALL_7 = "launch(s, d_w, d_b, d_x, d_y);"
CALL_2 = "vector_add_gpu(n, a.data(), b.data(), gpu.data());"
LIMIT_Y_4 = "std::min<size_t>((y + block.y - 1) / block.y, 65535)"
LIMIT_Z_4 = "std::min<size_t>((z + block.z - 1) / block.z, 65535)"
CUBE, ODD_6, ODD_7, LARGE, LONG_ROW = "64 64 64", "131 67 77", "70 67 45", "1000 333 777", "1 4108 31"



kind("The kernel does nothing")
mistake("01", "one thread", THREAD_1, "        " + SUM, "        ;", "1", "1000")
mistake("01", "one block", BLOCK_1, SUM_1, "", "1", "1000")
mistake("02", "the pieces", KERNEL_2, SUM_1, "", "1000")
mistake("03", "one element a thread", ADD_3, SUM, ";", "1", "1000")
mistake("03", "nobody writes down who ran where", PLACES_3, "i < n", "false", "1", "500")
mistake("04", "depth on x", DEPTH_4, SUM, "", "5 25 4")
mistake("05", "one element a thread", APPLY_5, "y[i] = function(x[i]);", ";", "1", "1000")
mistake("06", "columns on x", NAIVE_6, STORE_6, ";", ODD_6, CUBE)
mistake("07", "fused", FUSED_7, STORE_7, ";", ODD_7, CUBE, large=LARGE)

kind("The right result lies there from before, and the kernel does nothing")
mistake("01", "in the host's memory", MAIN, "gpu.assign(n, NAN);", "gpu = cpu;", "1", "1000",
        also=[(BLOCK_1, SUM_1, "")])
mistake("02", "in the host's memory", MAIN, CALL_2, "gpu = cpu;\n" + CALL_2, "1000",
        also=[(KERNEL_2, SUM_1, "")])
mistake("05", "in the host's memory", "bool check(size_t n)", "            y.assign(n, NAN);\n", "", "1000",
        also=[(FLOAT4_5, "y[j] = function(x[j]);", ";")])

kind("The guard is left out")
mistake("03", "one element a thread", ADD_3, "i < n", "true", "1025", tool=DEVICE)
mistake("03", "four elements a thread", FOUR_3, "if (i < n)\n            c[i] = x[k] + y[k];", "c[i] = x[k] + y[k];",
        "1025", tool=DEVICE)
mistake("03", "who ran where", PLACES_3, "i < n", "true", "1", tool=DEVICE)
mistake("04", "float4: four elements, though fewer are left", FLOAT4_4, "j < n", "j < i + 4", "5 5", tool=DEVICE)
mistake("05", "one element a thread", APPLY_5, "i < n", "true", "1025", tool=DEVICE)
mistake("05", "float4", FLOAT4_5, "i + 4 <= n", "true", "1025", tool=DEVICE)
mistake("06", "columns on x", NAIVE_6, "row < m && col < n", "col < n", ODD_6, tool=DEVICE)
mistake("06", "tiles: below A", TILE_6, LOADS_6, LOADS_6.replace("row < s.m && ", ""), "1 5 65536", tool=DEVICE)
mistake("06", "tiles: beside C", TILE_6, "row < s.m && col < s.n", "row < s.m", ODD_6, on_gpu=MEMCHECK)
mistake("07", "fused", FUSED_7, "row < out", "true", "1 5 257", tool=DEVICE)
mistake("07", "a block a row: weights past the end", BLOCK_7,
        "if (i + k * threads < packs)\n                u[k] = w_packs[i + k * threads];",
        "u[k] = w_packs[i + k * threads];", "1 5 7", tool=DEVICE)
mistake("07", "tiles: beside Y", TILE_7, "n < s.batch && row < s.out", "n < s.batch", ODD_7, on_gpu=MEMCHECK)

kind("The number of blocks is rounded down")
mistake("02", "one block is dropped: the last piece", TRIP_2, "first < n", "first + piece <= n", "1025")
mistake("03", "all kernels", LAUNCH_3, "(n + elements_a_block - 1) / elements_a_block",
        "n / elements_a_block", "257", "1000")
mistake("03", "who ran where", DRAW_3, "(n + threads - 1) / threads", "n / threads", "65", "500")
mistake("04", "rows: there are fewer than in one block", "dim3 grid_for(", "(y + block.y - 1) / block.y",
        "y / block.y", "7 150")
mistake("04", "float4", "void launch_float4(", "(threads + 255) / 256", "threads / 256", "333 1001", "7 9")
mistake("05", "one element a thread", LAUNCH_5, "(n + 255) / 256", "(n / 256 + !(n / 256))", "1000")
mistake("04", "float4: one block is dropped, with fewer than four elements", "void launch_float4(",
        "(s.count() + 3) / 4", "(s.count() + 3) / 4 - (s.count() % 4 != 0)", "", "515 2561")
mistake("05", "float4: one block is dropped, with up to three elements", "void launch_float4(", "(n + 511) / 512",
        "(n + 508) / 512",
        "", "513")
mistake("05", "float4: a quarter of the blocks", "void launch_float4(", "(n + 511) / 512", "(n + 2047) / 2048",
        "2000")
mistake("06", "columns", GRID_6, "(x + block.x - 1) / block.x", "x / block.x", ODD_6)
mistake("06", "rows", GRID_6, "(y + block.y - 1) / block.y", "y / block.y", ODD_6)
mistake("07", "fused", "void launch_fused(", "(s.out + 255) / 256", "s.out / 256", "1 5 257")
mistake("07", "warp a row", "void launch_warp_a_row(", "(s.out + 7) / 8", "s.out / 8", ODD_7)

kind("Rows and columns are exchanged")
mistake("04", "one block: x is the row", BLOCK_4, "threadIdx.y * cols + threadIdx.x",
        "threadIdx.x * cols + threadIdx.y", "20 50", tool=DEVICE)
mistake("04", "columns on x: the length of a row", MATRIX_4, "row * cols + col", "row * rows + col", "3 1000",
        "1000 3")
mistake("04", "rows on x: the length of a row", ROWS_4, "row * cols + col", "row * rows + col", "3 1000", "1000 3")
mistake("04", "planes of as many rows as there are planes", TENSOR_4, "(z * rows + y) * cols + x",
        "(z * depth + y) * cols + x", "5 25 4", "4 25 5")
mistake("04", "depth on x: rows and columns", DEPTH_4, "(z * rows + y) * cols + x", "(z * cols + y) * rows + x",
        "5 25 4", "4 25 5", tool=DEVICE)
mistake("06", "the rows of A have n elements", SUM_6, "row * k + p", "row * n + p", ODD_6, large=LARGE)
mistake("06", "the rows of B have k elements", SUM_6, "p * n + col", "p * k % n + col", ODD_6)
mistake("06", "the rows of C have m elements", NAIVE_6, STORE_6,
        STORE_6.replace("row * n + col", "(row * m + col) % (m * n)"), ODD_6)
mistake("06", "columns on x", NAIVE_6, STORE_6, STORE_6.replace("row, col, n", "col % m, row % n, n"), ODD_6, CUBE)
mistake("06", "one block", ONE_6, STORE_6, STORE_6.replace("row, col, n", "col, row, n"), "30 30 31")
mistake("06", "the tile of B is turned", TILE_6, "tile_b[i][x]", "tile_b[x][i]", ODD_6, CUBE)
mistake("06", "the CPU's rows of A have n elements", "void matmul_ikj_cpu(", "row * k + p", "row * n + p",
        "64 16 128", large=LARGE)
mistake("07", "the rows of W have out elements", THREE_7, WEIGHT_7, "w[(row * out + i) % (in * out)]", ODD_7,
        large=LARGE)
mistake("07", "W is read by columns", WARP_7, WEIGHT_7, "w[i % out * in + row % in]", CUBE, large=LARGE)
mistake("07", "the rows of X have out elements", TILE_7, LOADS_7,
        LOADS_7.replace( "(first_n + ty) * s.in + i", "((first_n + ty) * s.out + i) % (s.batch * s.in)"), ODD_7,
        large=LARGE)
mistake("07", "the rows of Y have batch elements", TILE_7, STORE_TILE_7,
        STORE_TILE_7.replace( "n * s.out + row", "(n * s.batch + row) % (s.batch * s.out)"), ODD_7, large=LARGE)
mistake("07", "Y is transposed", TILE_7, STORE_TILE_7, STORE_TILE_7.replace("n * s.out + row", "row * s.batch + n"),
        ODD_7, CUBE)
mistake("07", "the tile of W is turned", TILE_7, "w_tile[tx][k]", "w_tile[k][tx]", ODD_7, CUBE)

kind("A number in the block for one in the grid")
mistake("03", "one element a thread", ADD_3, X + " + threadIdx.x", "threadIdx.x", "33", "1000")
mistake("03", "a number in the grid for one in the block", PLACES_3, ", threadIdx.x,", ", unsigned(i),", "65", "500")
mistake("03", "a grid-stride loop", STRIDE_3, X + " + threadIdx.x", "size_t(threadIdx.x)", "1000003")
mistake("04", "columns on x", MATRIX_4, X + " + threadIdx.x", "threadIdx.x", "3 1000")
mistake("04", "depth on x", DEPTH_4, X + " + threadIdx.x", "threadIdx.x", "70 2 3")
mistake("05", "one element a thread", APPLY_5, X + " + threadIdx.x", "threadIdx.x", "257")
mistake("05", "float4", FLOAT4_5, X + " + threadIdx.x", "threadIdx.x", "1000")
mistake("06", "columns on x", NAIVE_6, "block_on_y()", "0", ODD_6, CUBE)
mistake("06", "tiles", TILE_6, "size_t(blockIdx.x) * tile + x", "size_t(x)", ODD_6, CUBE)
mistake("07", "fused", FUSED_7, "size_t(blockIdx.x) * blockDim.x", "size_t(0)", "", "1 5 257")
mistake("07", "the bias", BIAS_7, "b[row]", "b[threadIdx.x]", "", "1 5 257")

kind("One too few at the end")
mistake("01", "one thread", THREAD_1, "i < n", "i + 1 < n", "1000", "1", "1025")
mistake("01", "one block", BLOCK_1, SUM_1, "if (threadIdx.x + 1 < blockDim.x) " + SUM_1, "1000", "1")
mistake("01", "the launch asks for n - 1 threads", TRIP_1, LAUNCH_1,
        LAUNCH_1.replace("n>>>", "n - 1>>>"), "1000", "1", "2")
mistake("02", "each piece", TRIP_2, LAUNCH_2, LAUNCH_2.replace("threads>>>", "threads - 1>>>"), "1000", "1")
mistake("03", "one element a thread", ADD_3, "i < n", "i + 1 < n", "1000", "1")
mistake("03", "float4: the tail", QUADS_3, "tail < n", "tail + 1 < n", "1003", "1", "5")
mistake("03", "a step of the chain", "__global__ void multiply_add(", "step < steps_a_round",
        "step + 1 < steps_a_round", "1")
mistake("03", "two steps of the chain", "__global__ void multiply_add(", "step < steps_a_round",
        "step + 2 < steps_a_round", "1")
mistake("04", "columns on x", MATRIX_4, "col < cols", "col + 1 < cols", "3 1000", "1 1")
mistake("04", "planes", TENSOR_4, "z < depth", "z + 1 < depth", "5 25 4")
mistake("04", "float4", FLOAT4_4, "j < n", "j + 1 < n", "5 5", "1 1")
mistake("05", "one element a thread", APPLY_5, "i < n", "i + 1 < n", "1000", "1")
mistake("06", "the last step", SUM_6, "p < k", "p + 1 < k", CUBE, large=LARGE)
mistake("06", "rows on x: the last row", ON_X_6, "row < m", "row + 1 < m", ODD_6, CUBE)
mistake("06", "tiles: the last step", TILE_6, LOADS_6, LOADS_6.replace("p + x < s.k", "p + x + 1 < s.k"), CUBE,
        large=LARGE)
mistake("06", "tiles: the last step of each", TILE_6, "i < tile", "i + 1 < tile", ODD_6, CUBE)
mistake("06", "the CPU's last step", "void matmul_ijk_cpu(", "p < k", "p + 1 < k", CUBE, large=LARGE)
mistake("07", "fused: the last input", FUSED_7, "i < in", "i + 1 < in", CUBE, large=LARGE)
mistake("07", "a warp a row: the last input", WARP_7, "i < in", "i + 1 < in", CUBE, large=LARGE)
mistake("07", "a warp a row: the last row", WARP_7, "row >= out", "row + 1 >= out", CUBE, large=LARGE)
mistake("07", "a block a row: the last pack", BLOCK_7, "in * sizeof(float) / sizeof(Pack)",
        "in * sizeof(float) / sizeof(Pack) - 1", CUBE, LONG_ROW, large=LARGE)
mistake("07", "tiles: the last input", TILE_7, LOADS_7, LOADS_7.replace("has_x ?", "has_x && i + 1 < s.in ?"), CUBE,
        large=LARGE)
mistake("07", "the CPU's last input", "void layer_cpu(", "i < in", "i + 1 < in", CUBE, large=LARGE)

kind("One too many at the end")
mistake("01", "one thread", THREAD_1, "i < n", "i <= n", "1000", tool=ASAN, says="heap-buffer-overflow")
mistake("01", "the launch asks for n + 1 threads", TRIP_1, LAUNCH_1,
        LAUNCH_1.replace("n>>>", "n + 1>>>"), "64", tool=DEVICE)
mistake("03", "one element a thread", ADD_3, "i < n", "i <= n", "1000000", tool=DEVICE)
mistake("03", "float4: the tail", QUADS_3, "tail < n", "tail <= n", "1003", tool=ASAN, says="heap-buffer-overflow")
mistake("04", "rows", MATRIX_4, "row < rows", "row <= rows", "3 1000", tool=DEVICE)
mistake("05", "float4: four are taken where fewer are left", FLOAT4_5, "i + 4 <= n", "i < n", "1003", tool=ASAN,
        says="heap-buffer-overflow")
mistake("06", "a step", SUM_6, "p < k", "p <= k", CUBE, tool=DEVICE, on_gpu=UNDEFINED)
mistake("07", "an input", FUSED_7, "i < in", "i <= in", CUBE, tool=DEVICE)

kind("One too few at the start")
mistake("01", "one thread", THREAD_1, "i = 0", "i = 1", "1000", "1", "1025")
mistake("03", "a grid-stride loop", STRIDE_3, X + " + threadIdx.x", X + " + threadIdx.x + 1", "1000", "1")
mistake("04", "rows", ROWS_4, X + " + threadIdx.x", X + " + threadIdx.x + 1", "3 1000", "1 1")
mistake("05", "one element a thread", APPLY_5, "i < n", "i > 0 && i < n", "1000", "1")
mistake("06", "the first step", SUM_6, "size_t p = 0", "size_t p = 1", CUBE)
mistake("07", "the first input", FUSED_7, "size_t i = 0", "size_t i = 1", CUBE)

kind("A loop goes wrong")
mistake("03", "a grid-stride loop takes one step too few", STRIDE_3, "i < n", "i + stride < n", "1000", "1")
mistake("03", "a grid-stride loop does not loop", STRIDE_3, "size_t(gridDim.x) * blockDim.x", "n", "1000003")
mistake("03", "the tail of a float4 kernel is left out", QUADS_3, "tail < n", "tail + n % 4 < n", "1003", "1", "2",
        "3", "5")
mistake("04", "no second round in y", MATRIX_4, "size_t(gridDim.y) * blockDim.y", "rows", "1048577 1")
mistake("04", "no second round in z", TENSOR_4, "size_t(gridDim.z) * blockDim.z", "depth", "1048577 1 1")
mistake("05", "the tail of a float4 kernel is left out", FLOAT4_5, "j < n", "j + 4 < n", "1003", "1")
mistake("05", "the tail of a float4 kernel reads one element", FLOAT4_5, "y[j] = function(x[j]);",
        "y[j] = function(x[i]);", "", "1003")
mistake("06", "the tail of k is left out", TILE_6, "p < s.k", "p + tile <= s.k", ODD_6)
mistake("06", "no second plane of blocks", None, "blockIdx.z * gridDim.y + blockIdx.y", "blockIdx.y", "524300 1 0")
mistake("07", "no second round in y", TILE_7, "first_n += size_t(gridDim.y) * tile", "first_n = s.batch", "100 20 35",
        also=[("void launch_tile(", "65535", "2")])
mistake("07", "the step of distance 1 is left out of a warp's sum", SUM_7,
        "__shfl_down_sync(0xFFFFFFFF, sum, distance)",
        "distance == 1 ? 0 : __shfl_down_sync(0xFFFFFFFF, sum, distance)", CUBE, large=LARGE)
mistake("07", "a warp's sum is lost", BLOCK_7, "sum += warp_sums[warp];", "if (warp > 1) sum += warp_sums[warp];",
        LONG_ROW, large=LARGE)
mistake("07", "a round that is not full is left out", BLOCK_7, "i < packs", "i + threads * loads <= packs", CUBE,
        LONG_ROW, large=LARGE)
mistake("07", "the first round alone", BLOCK_7, "i < packs", "i == threadIdx.x && i < packs", LONG_ROW)
mistake("07", "the last of the loads of a round", BLOCK_7, "sum += dot(u[k], v[k]);",
        "if (k + 1 < loads) sum += dot(u[k], v[k]);", LONG_ROW)
mistake("07", "the rounds add nothing", BLOCK_7, "sum += dot(u[k], v[k]);", ";", LONG_ROW)

kind("The wrong element")
mistake("01", "one block reads the next", BLOCK_1, "b[threadIdx.x]", "b[(threadIdx.x + 1) % blockDim.x]", "1000", "2")
mistake("01", "one block writes the next", BLOCK_1, "c[threadIdx.x]", "c[(threadIdx.x + 1) % blockDim.x]", "1000",
        "2")
mistake("02", "all threads read the first", KERNEL_2, "b[threadIdx.x]", "b[0]", "1000")
mistake("02", "each piece is written over the first", TRIP_2, LAUNCH_2, LAUNCH_2.replace("d_c + first", "d_c"), "1025")
mistake("03", "the neighbour's", ADD_3, "b[i]", "b[i ^ 1]", "1000", "2")
mistake("03", "four elements a thread: another of the four", FOUR_3, "c[i] = x[k] + y[k];", "c[i] = x[k] + y[k ^ 1];",
        "1000")
mistake("03", "one part of a float4 for another", QUADS_3, "x[k].x + y[k].x", "x[k].y + y[k].y", "1000", "4")
mistake("04", "b is read one row off", MATRIX_4, "a[i] + b[i]", "a[i] + b[row > 0 ? i - cols : i]", "3 1000")
mistake("04", "one part of a float4 for another", FLOAT4_4, "u.x + v.x", "u.y + v.y", "3 1000")
mistake("05", "the next", APPLY_5, "function(x[i])", "function(x[(i + 1) % n])", "1000", "2")
mistake("05", "one part of a float4 for another", FLOAT4_5, "function(v.x)", "function(v.y)", "1000")
mistake("06", "A is read down a column", SUM_6, "row * k + p", "p % (k / 2) * k + row % k", ODD_6, CUBE)
mistake("06", "rows on x: the next column", ON_X_6, STORE_6, STORE_6.replace("row, col, n", "row, (col + 1) % n, n"),
        ODD_6, CUBE)
mistake("07", "the same x for every load", BLOCK_7, "v[k] = x_packs[i + k * threads];", "v[k] = x_packs[i];",
        LONG_ROW)
mistake("07", "float4 for rows that it does not divide", "void launch_block_a_row(", "s.in % 4 == 0", "true", "1 67 1")
mistake("07", "float4 for rows that begin at a multiple of 8 bytes", "void launch_block_a_row(", "s.in % 4 == 0",
        "s.in % 2 == 0", "70 6 35", tool=DEVICE, on_gpu="")

kind("A barrier is missing")
mistake("06", "the first", TILE_6, "__syncthreads();                   // 1: both tiles are full", "", "33 20 40",
        large=LARGE, tool=TSAN, says="data race")
mistake("06", "the second", TILE_6, "__syncthreads();                   // 2: nobody needs them any more", "",
        "33 20 40", large=LARGE, tool=TSAN, says="data race")
mistake("07", "between the warps of a row", BLOCK_7, "__syncthreads();", "", "1 516 3", tool=TSAN, says="data race")
mistake("07", "the first", TILE_7, "__syncthreads();\n            for", "for", "20 40 33", tool=TSAN,
        says="data race")
mistake("07", "the second", TILE_7, "__syncthreads();\n        }", "}", "20 40 33", tool=TSAN, says="data race")

kind("A barrier or a warp that not all threads reach")
mistake("06", "tiles: threads past the end leave first", TILE_6, LOADS_6,
        f"if (row >= s.m || col >= s.n) return; {LOADS_6}", ODD_6, tool=DEVICE, on_gpu="")
mistake("06", "the second barrier stands in a branch", TILE_6, "__syncthreads();                   // 2",
        "if (row < s.m) __syncthreads();   // 2", ODD_6, tool=DEVICE, on_gpu=SYNCCHECK)
mistake("07", "threads without an input leave first", BLOCK_7, "    float sum = 0;\n    for (size_t i",
        "    if (threadIdx.x >= packs)\n        return;\n    float sum = 0;\n    for (size_t i", "1 5 7", tool=DEVICE,
        on_gpu=UNDEFINED)
mistake("07", "half of the warp is named", SUM_7, "0xFFFFFFFF", "0x0000FFFF", CUBE, tool=DEVICE, on_gpu=UNDEFINED,
        alone=True)

kind("The end of a tile")
mistake("06", "its zeros past k are left out", TILE_6, LOADS_6,
        "if (row < s.m && p + x < s.k) tile_a[y][x] = a[row * s.k + p + x];"
        "if (p + y < s.k && col < s.n) tile_b[y][x] = b[(p + y) * s.n + col];",
        ODD_6, large=LARGE)
mistake("07", "its zeros past the last input are left out", TILE_7, LOADS_7,
        LOADS_7.replace("x_tile[ty][tx] = has_x ?", "if (has_x) x_tile[ty][tx] =")
        .replace("w_tile[ty][tx] = has_w ?", "if (has_w) w_tile[ty][tx] =").replace(" : 0", ""),
        ODD_7, large=LARGE)

kind("The bias of the wrong row")
mistake("07", "no bias", BIAS_7, "y[row] += b[row];", ";", CUBE, large=LARGE)
mistake("07", "of the next row", FUSED_7, STORE_7, STORE_7.replace("b[row]", "b[(row + 1) % out]"), CUBE, large=LARGE)
mistake("07", "of the row in the batch", TILE_7, STORE_TILE_7, STORE_TILE_7.replace("b[row]", "b[n % s.out]"), CUBE,
        large=LARGE)

kind("An input is not copied")
mistake("01", "b", TRIP_1, copy("d_b", "b", IN), "", "1000", "1")
mistake("02", "a", TRIP_2, copy("d_a", "a", IN), "", "1000")
mistake("03", "b", TRIP_3, copy("d_b", "b.data()", IN), "", "1000", "1")
mistake("04", "a", TRIP_4, copy("d_a", "a", IN), "", "3 1000")
mistake("05", "x", TRIP_5, copy("d_x", "x", IN), "", "1000")
mistake("06", "B", TRIP_6, copy("d_b", "b", IN, "bytes_b").strip(), ";", CUBE, ODD_6)
mistake("07", "b", TRIP_7, copy("d_b", "b", IN, "bytes_b").strip(), ";", CUBE)

kind("The result is not copied back")
mistake("01", "the sums", TRIP_1, copy("c", "d_c", OUT), "", "1000", "1")
mistake("02", "the sums", TRIP_2, copy("c", "d_c", OUT), "", "1000")
mistake("03", "the sums", TRIP_3, "        " + copy("gpu.data()", "d_c", OUT), "", "1000")
mistake("03", "who ran where", DRAW_3, copy("places.data()", "d_places", OUT, "n * sizeof(Place)"), "", "500")
mistake("04", "the sums", TRIP_4, copy("c", "d_c", OUT), "", "3 1000")
mistake("05", "y", TRIP_5, copy("y", "d_y", OUT), "", "1000")
mistake("06", "C", TRIP_6, copy("c", "d_c", OUT, "bytes_c").strip(), ";", CUBE, ODD_6)
mistake("07", "y", TRIP_7, copy("y", "d_y", OUT, "bytes_y").strip(), ";", CUBE)

kind("A copy in the wrong direction")
mistake("01", "an input", TRIP_1, copy("d_a", "a", IN), copy("d_a", "a", OUT), "1000", "1")
mistake("01", "the result, its ends exchanged", TRIP_1, copy("c", "d_c", OUT), copy("d_c", "c", OUT), "1000", "1")
mistake("02", "the result", TRIP_2, copy("c", "d_c", OUT), copy("c", "d_c", IN), "1000")
mistake("03", "the result", TRIP_3, copy("gpu.data()", "d_c", OUT), copy("gpu.data()", "d_c", IN), "1000")
mistake("04", "an input", TRIP_4, copy("d_b", "b", IN), copy("d_b", "b", OUT), "3 1000")
mistake("05", "the result", TRIP_5, copy("y", "d_y", OUT), copy("y", "d_y", IN), "1000")
mistake("06", "A", TRIP_6, copy("d_a", "a", IN, "bytes_a"), copy("d_a", "a", OUT, "bytes_a"), CUBE)
mistake("07", "y", TRIP_7, copy("y", "d_y", OUT, "bytes_y"), copy("y", "d_y", IN, "bytes_y"), CUBE)

kind("Elements are counted as bytes")
mistake("01", "all memory", TRIP_1, "n * sizeof(float)", "n", "1000", tool=DEVICE)
mistake("01", "a copy", TRIP_1, copy("d_b", "b", IN), copy("d_b", "b", IN, "n"), "1000", "100")
mistake("02", "a copy", TRIP_2, copy("c", "d_c", OUT), copy("c", "d_c", OUT, "n"), "1000")
mistake("03", "a copy", TRIP_3, copy("d_b", "b.data()", IN), copy("d_b", "b.data()", IN, "n"), "1000")
mistake("03", "memory for places", DRAW_3, "cudaMalloc(&d_places, n * sizeof(Place))", "cudaMalloc(&d_places, n)",
        "500")
mistake("04", "all memory", TRIP_4, "shape.count() * sizeof(T)", "shape.count()", "3 1000", tool=DEVICE)
mistake("05", "all memory", TRIP_5, "n * sizeof(float)", "n", "1000", tool=DEVICE)
mistake("06", "a copy", TRIP_6, copy("d_a", "a", IN, "bytes_a"), copy("d_a", "a", IN, "s.m * s.k"), CUBE, ODD_6)
mistake("07", "the bias", TRIP_7, "bytes_b = s.out * sizeof(float)", "bytes_b = s.out", ODD_7)

kind("Memory is given back too early")
mistake("01", "before the launch", TRIP_1, "    if (one_block)", "    CUDA_CHECK(cudaFree(d_b));\n    if (one_block)",
        "1000", tool=DEVICE,
        also=[(TRIP_1, "    CUDA_CHECK(cudaFree(d_b));\n    CUDA_CHECK(cudaFree(d_c));",
               "    CUDA_CHECK(cudaFree(d_c));")])
mistake("04", "twice", TRIP_4, "    CUDA_CHECK(cudaFree(d_b));\n", "    CUDA_CHECK(cudaFree(d_a));\n", "3 1000")
mistake("05", "before the copy back", TRIP_5, copy("y", "d_y", OUT),
        "    CUDA_CHECK(cudaFree(d_y));\n" + copy("y", "d_y", OUT), "1000")
mistake("06", "before the copy back", TRIP_6, copy("c", "d_c", OUT, "bytes_c"),
        "    CUDA_CHECK(cudaFree(d_c));\n" + copy("c", "d_c", OUT, "bytes_c"), CUBE)
mistake("07", "before the launch", TRIP_7, CALL_7, "CUDA_CHECK(cudaFree(d_x));\n" + CALL_7, CUBE, tool=DEVICE)

kind("A kernel is given the host's memory")
mistake("03", "the inputs", TRIP_3, CALL_3, CALL_3.replace("d_a", "a.data()"), "1000",
        tool=DEVICE)
mistake("05", "x", TRIP_5, "launch(n, d_x, d_y);", "launch(n, x, d_y);", "1000", tool=DEVICE)
mistake("06", "A", TRIP_6, "launch(s, d_a, d_b, d_c);", "launch(s, a, d_b, d_c);", CUBE, tool=DEVICE)
mistake("07", "the bias", TRIP_7, CALL_7, CALL_7.replace("d_b", "b"), CUBE, tool=DEVICE)

kind("Added to what was there")
mistake("01", "one thread", THREAD_1, SUM, SUM.replace("=", "+="), "1000", "1")
mistake("02", "the pieces", KERNEL_2, "c[threadIdx.x] =", "c[threadIdx.x] +=", "1000")
mistake("03", "a grid-stride loop", STRIDE_3, SUM, SUM.replace("=", "+="), "1000", "1")
mistake("04", "columns on x", TENSOR_4, SUM, "c[i] = c[i] + a[i] + b[i];", "5 25 4")
mistake("05", "one element a thread", APPLY_5, "y[i] = function(x[i]);", "y[i] += function(x[i]);", "1000", "1")
mistake("06", "columns on x", NAIVE_6, STORE_6, STORE_6.replace("=", "+="), CUBE, ODD_6)
mistake("06", "tiles", TILE_6, STORE_TILE_6, STORE_TILE_6.replace("=", "+="), CUBE, ODD_6)
mistake("06", "the CPU's sums do not begin with 0", "void matmul_ikj_cpu(", "std::fill(c, c + m * n, 0.0f);", ";",
        CUBE)
mistake("07", "tiles", TILE_7, STORE_TILE_7, STORE_TILE_7.replace("=", "+="), CUBE)

kind("One wrong number in the result")
mistake("01", "off by a thousandth", BLOCK_1, "b[threadIdx.x]", "b[threadIdx.x] * 1.001f", "1000", "100")
mistake("01", "a NaN in the middle", BLOCK_1, SUM_1,
        SUM_1 + " if (threadIdx.x == blockDim.x / 2) c[threadIdx.x] = NAN;", "1000", "1")
mistake("01", "an Inf in the middle", BLOCK_1, SUM_1,
        SUM_1 + " if (threadIdx.x == blockDim.x / 2) c[threadIdx.x] = INFINITY;", "1000", "1")
mistake("02", "a NaN in the middle", KERNEL_2, SUM_1,
        SUM_1 + " if (threadIdx.x == blockDim.x / 2) c[threadIdx.x] = NAN;", "1000", "1")
mistake("03", "a NaN in the middle", ADD_3, SUM, SUM + " if (i == n / 2) c[i] = NAN;", "1000", "1")
mistake("03", "the last digit", STRIDE_3, "b[i]", "b[i] * (i == n / 2 ? 1 + 0x1p-20f : 1)", "1000", "1")
mistake("04", "a NaN", BLOCK_4, SUM, "c[i] = i == 31 ? NAN : a[i] + b[i];", "7 9")
mistake("04", "one sum with the next element's number", DEPTH_4, SUM, "c[i] = a[i == 7 ? 8 : i] + b[i];", "5 25 4")
mistake("05", "a NaN in the middle", APPLY_5, "function(x[i])", "i == n / 2 ? NAN : function(x[i])", "1000", "1")
mistake("05", "an Inf at the end", FLOAT4_5, "y[j] = function(x[j]);", "y[j] = INFINITY;", "1003", "3")
mistake("05", "a millionth too large", SIGMOID, FORMULA, "1.000001f / (1 + expf(-x))", "100003")
mistake("06", "off by a thousandth", NAIVE_6, STORE_6,
        STORE_6 + " if (row == m / 2 && col == n / 2) c[row * n + col] *= 1.001f;", CUBE, large=LARGE)
mistake("06", "tiles: off by a thousandth", TILE_6, STORE_TILE_6,
        STORE_TILE_6.replace( "sum", "row + col == 7 ? sum * 1.001f : sum"), CUBE, large=LARGE)
mistake("06", "a NaN in the corner", ON_X_6, STORE_6,
        STORE_6 + " if (row == m - 1 && col == n - 1) c[row * n + col] = NAN;", CUBE, ODD_6)
mistake("07", "off by a thousandth", FUSED_7, STORE_7, STORE_7 + " if (row == out / 2) y[row] *= 1.001f;", CUBE,
        large=LARGE)
mistake("07", "a block a row: off by a thousandth", BLOCK_7, STORE_7, STORE_7 + " if (row == 7) y[row] *= 1.001f;",
        CUBE, large=LARGE)
mistake("07", "tiles: off by a thousandth", TILE_7, STORE_TILE_7,
        STORE_TILE_7 + " if (n == 5 && row == 7) y[n * s.out + row] *= 1.001f;", CUBE, large=LARGE)
mistake("07", "a NaN at the end", FUSED_7, STORE_7, STORE_7 + " if (row == out - 1) y[row] = NAN;", CUBE, large=LARGE)

kind("The sigmoid's formula")
mistake("05", "exp(x) / (1 + exp(x)), which overflows", SIGMOID, FORMULA, "expf(x) / (1 + expf(x))", "100003")
mistake("05", "the wrong sign", SIGMOID, FORMULA, "1 / (1 + expf(x))", "100003")
mistake("05", "x is clamped, and a NaN is lost", SIGMOID, FORMULA, "1 / (1 + expf(-fminf(fmaxf(x, -100), 100)))",
        "1000", "100003")
mistake("05", "cut off at 16", SIGMOID, FORMULA, "x > 16 ? 1 : x < -16 ? 0 : 1 / (1 + expf(-x))", "100003")
mistake("05", "the second form", "__host__ __device__ float sigmoid_second_form(", "e / (1 + e)", "e / (2 + e)", "1")
mistake("07", "forgotten", APPLY_7, "sigmoid(y[row])", "y[row]", CUBE, large=LARGE)
mistake("07", "exp(x) / (1 + exp(x)), which overflows", SIGMOID, FORMULA, "expf(x) / (1 + expf(x))", CUBE, "")
mistake("07", "x is clamped at 30", SIGMOID, FORMULA, "1 / (1 + expf(-fminf(fmaxf(x, -30), 30)))", CUBE)
mistake("07", "cut off at 16", SIGMOID, FORMULA, "x > 16 ? 1 : x < -16 ? 0 : 1 / (1 + expf(-x))", CUBE)
mistake("07", "by the hyperbolic tangent", SIGMOID, FORMULA, "0.5f * tanhf(0.5f * x) + 0.5f", CUBE)

kind("The tolerance is absolute")
mistake("05", "one ulp of 1", "double allowed(",
        "(units_exp * (1 - y) + 0.5 + units_divide) * FLT_EPSILON * y + FLT_MIN",
        "0.5 * FLT_EPSILON + 0 * (units_exp + units_divide + y)", "100003")
mistake("06", "a hundred thousandth", None, "0.5 * FLT_EPSILON * reference[i]", "1e-5 / roundings", "64 64 4096")
mistake("07", "one ulp of 1", "Reference layer_double(", "delta * std::exp(delta) * y * (1 - y)", "0 * delta",
        "1 4108 31")

kind("More threads or blocks than there may be")
mistake("01", "a block of 2048 threads", MAIN, "n > 1024", "n > 2048", "2048", "1025")
mistake("02", "a piece is two blocks", TRIP_2, "most_threads_a_block()", "2 * most_threads_a_block()", "2000")
mistake("03", "a block of 2048 threads", "std::vector<Variant> variants(", "1024", "2048u", "1000")
mistake("04", "a block of more than 1024 threads", "bool check(Shape s", "n > 1024", "n > 2048", "33 32", "1025 1")
mistake("04", "no limit in y", "dim3 grid_for(", LIMIT_Y_4, LIMIT_Y_4.replace("65535", "INT_MAX"), "1048577 1")
mistake("04", "no limit in z", "dim3 grid_for(", LIMIT_Z_4, LIMIT_Z_4.replace("65535", "INT_MAX"), "1048577 1 1")
mistake("05", "a block of 2048 threads", LAUNCH_5, LAUNCHED_5,
        LAUNCHED_5.replace("(n + 255) / 256, 256", "(n + 2047) / 2048, 2048"), "1000")
mistake("06", "one block of more than 1024 threads", "bool check(Shape s", "count_c > 1024", "count_c > 2048",
        "33 32 5")
mistake("06", "a tile of 64", None, '{"tile 32", launch_tile<32>}', '{"tile 64", launch_tile<64>}', tool=COMPILER,
        says="32 x 32 fits, 64 x 64 does not")

kind("Nobody asks whether the launch was allowed, and it was not")
mistake("01", "a block of 2048 threads", MAIN, "n > 1024", "n > 2048", "2048", "1025",
        also=[(TRIP_1, "CUDA_CHECK(cudaGetLastError());", "")])
mistake("03", "a block of 2048 threads", "std::vector<Variant> variants(", "128", "2048u", "1000",
        also=[(LAUNCH_3, "CUDA_CHECK(cudaGetLastError());", "")])
mistake("04", "no limit in y", "dim3 grid_for(", LIMIT_Y_4, LIMIT_Y_4.replace("65535", "INT_MAX"), "1048577 1",
        also=[(TRIP_4, "    CUDA_CHECK(cudaGetLastError());\n", "")])

kind("Rounded once on one side and twice on the other")
mistake("06", "the GPU rounds twice", BY_6, "step(a[i / s.n * s.k + p], b[p * s.n + i % s.n], sum)",
        "__fadd_rn(__fmul_rn(a[i / s.n * s.k + p], b[p * s.n + i % s.n]), sum)", CUBE, ODD_6)
mistake("06", "the CPU rounds once", None, "product(a, b) + sum", "fmaf(a, b, sum)", CUBE, ODD_6)

kind("The number of blocks and that of threads are exchanged")
mistake("03", "all kernels", LAUNCH_3, *exchanged("kernel<<<blocks, threads_a_block>>>(n, d_a, d_b, d_c);"), "1000003")
mistake("04", "float4", "void launch_float4(", *exchanged(
    "add_float4<<<(threads + 255) / 256, 256>>>(s.count(), d_a, d_b, d_c);"), "", "515 2561")
mistake("06", "columns on x", "void launch_matmul(", *exchanged(
    "matmul<<<grid, matrix_block>>>(s.m, s.n, s.k, d_a, d_b, d_c);"), "", "1027 299 5")
mistake("06", "rows on x", "void launch_rows_on_x(", *exchanged(
    "matmul_rows_on_x<<<grid, matrix_block>>>(s.m, s.n, s.k, d_a, d_b, d_c);"), "", "1027 299 5")
mistake("07", "fused", "void launch_fused(", *exchanged(
    "layer_thread_a_row<<<(s.out + 255) / 256, 256>>>(s.in, s.out, d_w, d_b, d_x, d_y);"), "1 3 262147")

kind("A block is taken to have 256 threads")
mistake("03", "a grid-stride loop", STRIDE_3, "size_t(gridDim.x) * blockDim.x", "size_t(gridDim.x) * 256", "1000003")
mistake("03", "four elements a thread", FOUR_3, "size_t(blockIdx.x) * blockDim.x * 4", "size_t(blockIdx.x) * 256 * 4",
        "1000")
mistake("03", "float4", QUADS_3, "size_t(blockIdx.x) * blockDim.x * quads", "size_t(blockIdx.x) * 256 * quads", "1000")

kind("A warp is taken to have 16 threads")
mistake("03", "who ran where", PLACES_3, "warpSize", "16", "500", "17")

kind("Errors that are not what the text says")
mistake("02", "the error is read where it is to be looked at", "cudaError_t add_in_silence(",
        "cudaPeekAtLastError()", "cudaGetLastError()")
mistake("02", "as many threads as a block may have", "void too_many_threads(", "hello<<<1, 2048>>>();",
        "hello<<<1, 1024>>>();")
mistake("02", "blocks rounded up", "void zero_blocks(", "n / 256", "(n + 255) / 256")
mistake("02", "the right direction", "void wrong_direction(", "cudaMemcpyDeviceToHost", "cudaMemcpyHostToDevice")
mistake("02", "another error than the table has", None, 'cudaErrorAssert, "cudaFree"',
        'cudaErrorIllegalAddress, "cudaFree"')
mistake("02", "an assertion that holds", "void failing_assert(", "{1, 4, -9, 16}", "{1, 4, 9, 16}")
mistake("02", "the fault is found before the copy", "void illegal_address(", copy("y", "d_y", OUT, "sizeof y").strip(),
        "CUDA_CHECK(cudaDeviceSynchronize());\n" + copy("y", "d_y", OUT, "sizeof y"))
mistake("02", "the check goes on after an error",
        "void check_cuda(cudaError_t status, const char* call, const char* file, " "int line)\n{",
        "std::exit(EXIT_FAILURE);", ";")

kind("An int for an index")
SIGNS = r"different signedness"
mistake("01", "a loop", THREAD_1, "size_t i", "int i", tool=COMPILER, says=SIGNS, on_gpu=UNNOTICED)
mistake("03", "one element a thread", ADD_3, "const size_t i = " + X, "const int i = blockIdx.x * blockDim.x",
        tool=COMPILER, says=SIGNS, on_gpu=UNNOTICED)
mistake("04", "columns", MATRIX_4, "size_t col = first_col", "int col = first_col", tool=COMPILER, says=SIGNS,
        on_gpu=UNNOTICED)
mistake("05", "one element a thread", APPLY_5, "const size_t i = " + X, "const int i = blockIdx.x * blockDim.x",
        tool=COMPILER, says=SIGNS, on_gpu=UNNOTICED)
mistake("06", "a sum", SUM_6, "size_t p = 0", "int p = 0", tool=COMPILER, says=SIGNS, on_gpu=UNNOTICED)
mistake("07", "the inputs", FUSED_7, "size_t i = 0", "int i = 0", tool=COMPILER, says=SIGNS, on_gpu=UNNOTICED)

kind("CUDA's words in the wrong place")
mistake("01", "a kernel is called without a launch", TRIP_1, "add_one_block<<<1, n>>>(", "add_one_block(", tool=LINT,
        says="call to global function 'add_one_block' not configured")
mistake("01", "a kernel calls a function of the host", THREAD_1, "    for (size_t i = 0; i < n; ++i)\n        " + SUM,
        "    vector_add_cpu(n, a, b, c);", tool=LINT,
        says="no matching function for call to 'vector_add_cpu'|reference to __host__ function 'vector_add_cpu'")
mistake("01", "the result is const", BLOCK_1, "float* c)", "const float* c)", tool=COMPILER,
        says="assignment of read-only location")
mistake("03", "a kernel returns a value", None, "__global__ void add(size_t n", "__global__ float add(size_t n",
        tool=LINT, says="must have void return type")
mistake("05", "`__device__` is forgotten", None, SIGMOID, SIGMOID.replace("__host__ __device__ ", ""), tool=LINT,
        says="reference to __host__ function 'sigmoid'")


# Mistakes of timing. The program is right, and so is what it computes: what is wrong is a figure,
# and a GPU shows it, since nothing is faster than what its memory or its units can do.

@dataclass(frozen=True)
class Clock:
    chapter: str
    words: str
    edits: tuple          # as above, in the benchmarks
    row: str              # the row whose figure is wrong, as a regular expression
    ceiling: str          # the rows that no figure may exceed, in the program without the mistake
    counter: str
    factor: str           # what is seen
    error: str            # the error of CUDA's that is seen instead, or ""

    @property
    def name(self):
        return f"{self.chapter} timing: {self.words}"


CLOCK = []


def clock(chapter, words, factor, *edits, size="", row="", counter="bytes_per_second", error=""):
    """Most chapters have a best row and its ceiling, at several sizes."""
    rows = {"01": ("gpu_one_block/1024", "gpu_copy_ceiling/65536"),
            "03": ("gpu_float4/", "gpu_ceiling<.*>/"),
            "04": ("gpu_float4/", "gpu_ceiling<.*>/"),
            "05": ("gpu_float4/", "gpu_ceiling<.*>/"),
            "06": ("gpu_cublas/", "gpu_fma_ceiling"),
            "07": ("gpu_block_a_row<128,8>/", "gpu_ceiling<.*>/")}[chapter]
    ceiling = rows[1] + (size if rows[1].endswith("/") else "")
    CLOCK.append(Clock(chapter, words, edits, (row or rows[0]) + size, ceiling, counter, factor, error))


TIME = "void time_on_gpu("
REPORT = "void report("
BATCH = "        for (int i = 0; i < batch; ++i)\n            launch();\n"
STOP = "        CUDA_CHECK(cudaEventRecord(stop));\n"
WAIT = "        CUDA_CHECK(cudaEventSynchronize(stop));\n"
ELAPSED = "        CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start, stop));\n"
NOW = "std::chrono::steady_clock::now()"
STOP_EARLY = (TIME, BATCH + STOP, STOP + BATCH)
HOST_CLOCK = (
    (TIME, "        CUDA_CHECK(cudaEventRecord(start));\n", f"        const auto begin = {NOW};\n"),
    (TIME, BATCH + STOP + WAIT,
     BATCH + f"        const auto end = {NOW};\n        CUDA_CHECK(cudaDeviceSynchronize());\n"),
    (TIME, ELAPSED, "        milliseconds = std::chrono::duration<float, std::milli>(end - begin).count();\n"),
    (None, "#include <benchmark/benchmark.h>\n", "#include <benchmark/benchmark.h>\n#include <chrono>\n"))

clock("01", "the stop is recorded before the launches", "many times the ceiling", STOP_EARLY)
clock("03", "the stop is recorded before the launches", "many times the ceiling", STOP_EARLY, size="268435456")
clock("03", "a clock of the host, read before the kernels have ended", "many times the ceiling", *HOST_CLOCK,
        size="268435456")
clock("03", "nobody waits for the stop", "`cudaErrorNotReady`", (TIME, WAIT, ""), size="268435456",
        error="cudaErrorNotReady")
clock("03", "the time of a batch is divided by its launches once more", "8 times too much",
        (TIME, "milliseconds / 1e3", "milliseconds / 1e3 / batch"), size="67108864")
clock("03", "milliseconds are taken for microseconds", "1000 times too much",
        (TIME, "milliseconds / 1e3", "milliseconds / 1e6"), size="67108864")
clock("03", "four vectors are counted instead of three", "4/3 of what is true", (REPORT, "* 3 *", "* 4 *"),
        size="268435456")
clock("03", "a quarter of the elements is added, and all are counted", "4 times too much",
        ("void time_add(", "threads, n, d.a", "threads, n / 4, d.a"), size="268435456")
clock("04", "the stop is recorded before the launches", "many times the ceiling", STOP_EARLY, size="8192/8192")
clock("04", "doubles are counted instead of floats", "twice what is true",
        (REPORT, "sizeof(float)", "sizeof(double)"), size="8192/8192")
clock("05", "the stop is recorded before the launches", "many times the ceiling", STOP_EARLY, size="268435456")
clock("05", "three vectors are counted instead of two", "3/2 of what is true", (REPORT, "* 2 *", "* 3 *"),
        size="268435456")
clock("06", "the stop is recorded before the launches", "many times the ceiling", STOP_EARLY,
        size="4096/4096/4096", counter="items_per_second")
clock("06", "operations are counted in an int", "less than nothing",
        (REPORT, "2 * s.m * s.n * s.k", "int(2 * s.m * s.n * s.k)"), row="gpu_tile<32>/", size="1024/1024/1024",
        counter="items_per_second")
clock("06", "a step is counted as four operations", "twice what is true", (REPORT, "2 * s.m", "4 * s.m"),
        size="4096/4096/4096", counter="items_per_second")
clock("07", "the stop is recorded before the launches", "many times the ceiling", STOP_EARLY,
        size="1/16384/16384")
clock("07", "W is counted twice", "twice what is true", (REPORT, "(s.in * s.out + s.out", "(2 * s.in * s.out + s.out"),
        size="1/16384/16384")
