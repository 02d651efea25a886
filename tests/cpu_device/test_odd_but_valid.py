"""Programs that nobody would write first, and that CUDA takes, or refuses with a reason."""

import re

import pytest
from conftest import DEVICE, FULL, REPOSITORY, run

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="is about the CPU device")

CHECK = """#include <cstdio>
void done() { std::printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize())); }
"""

RIGHT = {
    "a pointer to a managed variable": """
        __managed__ int numbers[8];
        __global__ void count(int* p) { p[threadIdx.x] = threadIdx.x; }
        int main()
        {
            count<<<1, 8>>>(numbers);
            done();
            int eight = 8;
            return cudaMemcpy(numbers, &eight, sizeof eight, cudaMemcpyHostToDevice) != cudaSuccess
                || numbers[0] != 8 || numbers[7] != 7;
        }""",
    "tiles whose parent nobody names": """
        #include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        __managed__ int sums[2], ranks;
        template <unsigned n> __device__ int add(cg::thread_block_tile<n> tile, int v)
        {
            for (int i = tile.size() / 2; i > 0; i /= 2)
                v += tile.shfl_down(v, i);
            return v;
        }
        __device__ int add_eight(const cg::thread_block_tile<8>& tile, int v) { return add(tile, v); }
        __global__ void k()
        {
            cg::thread_block block = cg::this_thread_block();
            cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
            cg::thread_block_tile<8> part = cg::tiled_partition<8>(warp);
            const int all = add(warp, threadIdx.x), eight = add_eight(part, threadIdx.x);
            if (warp.thread_rank() == 0)
                sums[warp.meta_group_rank()] = all;
            if (part.thread_rank() == 0)
                atomicAdd(&ranks, eight * part.meta_group_rank() + 1000 * warp.meta_group_size());
        }
        int main()
        {
            k<<<1, 64>>>();
            done();
            // 28, 92, 156, 220 and 284, 348, 412, 476, each times its rank in the warp
            return sums[0] != 496 || sums[1] != 1520 || ranks != 92 + 2 * 156 + 3 * 220
                   + 348 + 2 * 412 + 3 * 476 + 8 * 2000;
        }""",
    "what deviceQuery prints": """
        int main()
        {
            cudaDeviceProp p;
            const bool failed = cudaGetDeviceProperties(&p, 0) != cudaSuccess;
            done();
            return failed || p.maxTexture1D + p.maxTexture2D[1] + p.maxTexture3D[2] + p.maxTexture1DLayered[1]
                   + p.maxTexture2DLayered[2] + int(p.surfaceAlignment) + p.uuid.bytes[15] != 0;
        }""",
    "a managed variable after a reset": """
        __managed__ int number = 5;
        __global__ void add(int* p) { ++*p; }
        int main()
        {
            if (cudaDeviceReset() != cudaSuccess)
                return 1;
            add<<<1, 1>>>(&number);
            done();
            return number != 6;
        }""",
    "memory that a kernel allocates, handed on in a structure": """
        #include <cstdlib>
        struct List { int value; List* next; };
        __global__ void make(List* first) { first->next = new List{7, nullptr}; }
        __global__ void use(List list, int* sum) { *sum = list.value + list.next->value; delete list.next; }
        int main()
        {
            List list{1, nullptr}, *d_list;
            int sum = 0, *d_sum;
            cudaMalloc(&d_list, sizeof list);
            cudaMalloc(&d_sum, sizeof sum);
            make<<<1, 1>>>(d_list);
            cudaMemcpy(&list.next, &d_list->next, sizeof list.next, cudaMemcpyDeviceToHost);
            use<<<1, 1>>>(list, d_sum);
            cudaMemcpy(&sum, d_sum, sizeof sum, cudaMemcpyDeviceToHost);
            done();
            return sum != 8;
        }""",
    "classes as arguments, which only the host copies and ends": """
        #include <string>
        #include <vector>
        int copies = 0, ends = 0;
        struct Counted {
            int value;
            explicit Counted(int v) : value(v) {}
            Counted(const Counted& other) : value(other.value) { ++copies; }
            ~Counted() { ++ends; }
        };
        struct Field { std::string name; std::vector<float> host; float* device; };
        struct Image { int width, height; unsigned char* pixels; };
        struct Array {
            int* d;
            Array() { cudaMalloc(&d, 256); }
            Array(const Array&) { cudaMalloc(&d, 256); }
            ~Array() { cudaFree(d); }
        };
        __global__ void twice(Field f) { f.device[threadIdx.x] *= 2; }
        template <class F> __global__ void apply(F f) { f(threadIdx.x); }
        __global__ void fill(Array a, char, Counted c) { a.d[threadIdx.x] = c.value; }
        __global__ void all(double2 v, Image image, Counted c, const int& number, float* sum)
        {
            if (threadIdx.x == 0)
                *sum = v.x + v.y + image.width + c.value + number;
        }
        int main()
        {
            Field f{"a name that is too long for a string's own room", std::vector<float>(64, 1.0f), nullptr};
            cudaMallocManaged(&f.device, 256);
            for (int i = 0; i < 64; ++i)
                f.device[i] = i;
            twice<<<1, 64>>>(f);
            apply<<<1, 64>>>([f] __device__ (int i) { f.device[i] += 1; });
            const Counted c(3);
            fill<<<2, 64>>>(Array(), 'a', c);
            int* number;
            cudaMallocManaged(&number, sizeof *number);
            *number = 5;
            float* sum;
            cudaMallocManaged(&sum, sizeof *sum);
            all<<<2, 64>>>(make_double2(1, 2), Image{640, 480, nullptr}, c, *number, sum);
            done();
            return f.device[9] != 19 || *sum != 651 || copies != 2 || ends != 2;
        }""",
    "an object by reference, which is managed": """
        struct Element { int value; };
        __global__ void count(Element& element, int& all)
        {
            atomicAdd(&element.value, 1);
            atomicAdd(&all, 1);
        }
        int main()
        {
            Element* element;
            int* all;
            cudaMallocManaged(&element, sizeof *element);
            cudaMallocManaged(&all, sizeof *all);
            element->value = *all = 0;
            count<<<2, 32>>>(*element, *all);
            done();
            return element->value != 64 || *all != 64;
        }""",
    "an index that counts from 1": """
        __global__ void count(int* p) { p[threadIdx.x + 1] = threadIdx.x; }
        int main()
        {
            int* d;
            cudaMalloc(&d, 64 * sizeof(int));
            count<<<1, 64>>>(d - 1);
            done();
        }""",
    "cuda.h for its version alone, and complex numbers": """
        #include <cuda.h>
        #include <cuComplex.h>
        #include <cmath>
        __device__ cuDoubleComplex power(cuDoubleComplex x, int n)
        {
            return n ? cuCmul(x, power(x, n - 1)) : make_cuDoubleComplex(1, 0);
        }
        __global__ void compute(float* p, double* q)
        {
            const cuComplex a = make_cuComplex(1, 2), b = make_cuFloatComplex(3, -1);
            const cuFloatComplex quotient = cuCdivf(cuCmulf(a, b), b);
            p[0] = cuCrealf(quotient) + 100 * cuCimagf(cuConjf(cuCaddf(a, b)));
            p[1] = cuCabsf(make_cuFloatComplex(3e30f, 4e30f));
            p[2] = cuCrealf(cuCfmaf(a, b, cuCsubf(a, b)));
            q[0] = cuCimag(power(make_cuDoubleComplex(1, 1), 6));
            q[1] = cuCreal(cuComplexFloatToDouble(a)) + cuCabs({6e200, 8e200});
            q[2] = cuCdiv({1e200, 0}, {1e200, 0}).x
                 + cuCsub({1, 2}, cuConj(cuCadd({1, 2}, {0, 1}))).y;
        }
        int main()
        {
            float* p;
            double* q;
            cudaMallocManaged(&p, 12);
            cudaMallocManaged(&q, 24);
            compute<<<1, 1>>>(p, q);
            done();
            const auto is = [](double x, double y) { return std::fabs(x / y - 1) < 1e-6; };
            return CUDA_VERSION / 1000 != 13
                || !(is(p[0], -99) && is(p[1], 5e30) && is(p[2], 3))
                || !(is(q[0], -8) && is(q[1], 1e201) && is(q[2], 6));
        }""",
    "400 KB of local memory": """
        __global__ void fill(int* p)
        {
            int large[100000];
            for (int i = 0; i < 100000; ++i)
                large[i] = i ^ p[0];
            p[threadIdx.x] = large[threadIdx.x * 1000];
        }
        int main()
        {
            int* d;
            cudaMalloc(&d, 64 * sizeof(int));
            fill<<<1, 1>>>(d);
            done();
        }""",
}


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("flags", [(), ("-O0",)] if FULL else [()], ids=repr)
@pytest.mark.parametrize("name", RIGHT)
def test_runs(build_program, name, flags, compiler):
    program = build_program(CHECK + RIGHT[name], flags=flags, cxx=compiler)
    result = run([program], env={"CPU_DEVICE_QUIET": "1"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "cudaSuccess\n", "")


@pytest.mark.parametrize("name", RIGHT)
def test_the_address_sanitizer_has_nothing_to_say(name, tmp_path):
    (tmp_path / "program.cu").write_text(CHECK + RIGHT[name], encoding="utf-8")
    result = run([REPOSITORY / "cpu_device" / "run", "--asan", tmp_path / "program.cu"], timeout=120,
                 env={"CPU_DEVICE_QUIET": "1"})
    assert (result.returncode, result.stdout) == (0, "cudaSuccess\n"), result.stderr


REFUSED = {
    "an object of the host by reference": (
        "__global__ void count(int& all) { ++all; }\nint main()\n{\n"
        "    int* all = new int(0);\n    count<<<1, 1>>>(*all);\n    done();\n}",
        "count: argument 1, "),
    "a barrier of the host": (
        "int main()\n{\n    __syncthreads();\n}",
        "cpu device: __syncthreads() on line 5 is called by the host; "
        "only a kernel has a block to wait for\n"),
    "a shuffle of the host": (
        "int main()\n{\n    return __shfl_sync(~0u, 1, 0);\n}",
        "cpu device: __shfl_sync() on line 5 is called by the host; only a kernel has a warp\n"),
    "a cooperative launch": (
        "__global__ void k() {}\nint main()\n{\n"
        "    return cudaLaunchCooperativeKernel(k, 1, 1, nullptr) == cudaErrorNotSupported;\n}",
        "cpu device: a cooperative launch needs a GPU\n"),
    "an array that is larger than a stack": (
        "__global__ void k(float* p) { volatile float t[200000]; t[0] = 1; p[0] = t[0]; }\nint main()\n{\n"
        "    float* p; cudaMalloc(&p, 4); k<<<1, 1>>>(p);\n    done();\n}",
        "k, block (0,0,0), thread (0,0,0): uses more than 640 KiB of stack\n"),
    "a kernel that was launched through a pointer": (
        "template <int n> __global__ void store(int* p) { p[n] = 1; }\nint main()\n{\n"
        "    void (*kernel)(int*) = store<7>;\n    kernel<<<1, 1>>>(nullptr);\n    done();\n}",
        "cpu device: store<7>, block (0,0,0), thread (0,0,0): "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_with_a_reason(build_program, name):
    body, message = REFUSED[name]
    result = run([build_program(CHECK + body)], env={"CPU_DEVICE_QUIET": "1"})
    assert message in result.stderr
    assert "cudaSuccess" not in result.stdout


ENDS = {
    "a barrier of the host": ("__syncthreads();", "__syncthreads.. on line 12 is called by"),
    "a trap of the host": ("__trap();", ""),
    "an assertion of the host": ("assert(d == nullptr);", "Assertion `d == nullptr' failed"),
    "a null pointer of the host": ("d = nullptr; *d = 1;", ""),
    "device memory read": ("return d[3];", "host code touches device memory at 0x.*; cudaMemcpy"),
    "device memory printed": ('std::printf("%s", (char*)d);', "host code touches device memory"),
    "device memory read after it was freed": (
        "cudaFree(d); return d[3];", "host code touches device memory at 0x.* after it was freed"),
    "a variable of the device read": ("return of_device;", "host code touches of_device, a __device__"),
    "a variable of the device set": ("of_device = 5;", "host code touches of_device, a __device__"),
    "a variable of a namespace": ("n::of_device = 5;", "host code touches n::of_device, a __device__"),
    "a hidden variable of the device": ("return of_file + 7;", "host code touches a __device__ or"),
    "device memory freed": (
        "std::free(d);", "host code gives device memory at 0x.* to free.. or delete, .* cudaFree"),
    "device memory of whole pages freed": (
        "cudaMalloc(&d, 4096); std::free(d);", "host code gives device memory at 0x.* to free"),
    "device memory deleted": ("delete[] d;", "host code gives device memory at 0x.* or delete"),
}


@pytest.mark.parametrize("name", ENDS)
def test_output_before_the_end(build_program, name):
    """What a program has printed is not lost when it ends at once, and why it does is said."""
    statement, message = ENDS[name]
    text = CHECK + """#include <cassert>
__constant__ int of_device;
static __device__ volatile int of_file;
namespace n { __device__ int of_device; }
__global__ void hello() { printf("kernel\\n"); of_file += of_device; }
int main()
{
    int* d; cudaMalloc(&d, 400);
    std::printf("host\\n"); hello<<<1, 1>>>(); cudaDeviceSynchronize();
    STATEMENT
}
""".replace("STATEMENT", statement)
    result = run([build_program(text)], env={"CPU_DEVICE_QUIET": "1"})
    assert result.returncode not in (0, 3), result
    assert result.stdout == "host\nkernel\n"
    assert re.search(message, result.stderr), result.stderr
