// What does CUDA really do?
//
// This program asks the runtime and the device, one question a line, and prints what it sees:
//
//     nvcc -std=c++17 -arch=sm_80 behaviours.cu -o behaviours && ./behaviours
//
// The answers hold on every GPU of compute capability 8.0 or more and are kept in
// behaviours.expected.txt; the CPU device has to print the same lines. Where it cannot, the line
// says why, on both devices, and what happened goes to stderr. So do the facts that differ from
// machine to machine: no answer holds an address, a time or a size of the GPU at hand.
//
// `./behaviours NAME...` asks those questions alone, in one process. A question after which the
// process can do no more work has a process to itself; all others share one.

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace cg = cooperative_groups;
namespace wmma = nvcuda::wmma;

constexpr unsigned seconds_for_a_process = 60;

// ---- How a question is asked ----

std::ostream& operator<<(std::ostream& out, cudaError_t error)
{
    return out << cudaGetErrorName(error);
}

template <class... Parts>
std::string text(const Parts&... parts)
{
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

template <class T>
std::string list(const std::vector<T>& values)
{
    std::string all;
    for (const T& value : values)
        all += (all.empty() ? "" : " ") + text(value);
    return all;
}

std::string hex_list(const std::vector<unsigned>& values)
{
    std::string all;
    for (const unsigned value : values)
        all += (all.empty() ? "0x" : " 0x") + text(std::hex, value);
    return all;
}

std::string number(double value)
{
    return std::isnan(value) ? "NaN" : text(value);
}

// A step on the way to the question. If it fails, the question has no answer.
void must(cudaError_t status)
{
    if (status != cudaSuccess)
        throw std::runtime_error(text("a step before the question failed: ", status));
}

// The line of a question whose answer the two devices do not share.
std::string not_compared(const char* why, const std::string& happened)
{
    std::fprintf(stderr, "    here: %s\n", happened.c_str());
    return text("not compared: ", why);
}

int attribute(cudaDeviceAttr which)
{
    int value;
    must(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

// A host pointer where a pointer to device memory is due: an error, and nothing is written, unless
// the GPU has access to all memory of the host.
std::string with_a_host_pointer(cudaError_t error, cudaError_t status, bool written)
{
    const bool works = status == cudaSuccess && written;
    if (works ? attribute(cudaDevAttrPageableMemoryAccess) : status == error && !written)
        return text(error, ", but may work where cudaDevAttrPageableMemoryAccess is 1");
    return text(status, written ? ", written" : ", not written");
}

template <class T>
struct Device {
    const size_t bytes;
    T* data = nullptr;

    explicit Device(const std::vector<T>& values) : bytes(values.size() * sizeof(T))
    {
        must(cudaMalloc(&data, bytes));
        must(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice));
    }
    explicit Device(size_t count) : Device(std::vector<T>(count)) {}
    Device(const Device&) = delete;
    ~Device() { cudaFree(data); }

    std::vector<T> host() const
    {
        std::vector<T> values(bytes / sizeof(T));
        must(cudaMemcpy(values.data(), data, bytes, cudaMemcpyDeviceToHost));
        return values;
    }
};

// What a kernel writes that takes nothing but the array for its results.
template <class T>
std::vector<T> results(void (*kernel)(T*), size_t count, dim3 grid, dim3 block)
{
    Device<T> out(count);
    kernel<<<grid, block>>>(out.data);
    must(cudaGetLastError());
    must(cudaDeviceSynchronize());
    return out.host();
}

// The same, of a single block that has one result a thread.
template <class T>
std::string by_thread(void (*kernel)(T*), unsigned threads = 32)
{
    return list(results(kernel, threads, 1, threads));
}

// Collects what arrives on a file descriptor as long as it lives.
struct Capture {
    const int descriptor, saved;
    std::FILE* const file;

    explicit Capture(int descriptor)
        : descriptor(descriptor), saved(dup(descriptor)), file(std::tmpfile())
    {
        if (!file || saved < 0)
            throw std::runtime_error(std::strerror(errno));
        std::fflush(nullptr);
        dup2(fileno(file), descriptor);
    }
    Capture(const Capture&) = delete;
    ~Capture()
    {
        std::fflush(nullptr);
        dup2(saved, descriptor);
        close(saved);
        std::fclose(file);
    }
    std::string so_far()
    {
        std::fflush(nullptr);
        std::string all(size_t(lseek(fileno(file), 0, SEEK_END)), ' ');
        if (pread(fileno(file), &all[0], all.size(), 0) != ssize_t(all.size()))
            throw std::runtime_error(std::strerror(errno));
        return all;
    }
};

std::string in_one_line(std::string lines)
{
    for (size_t end; (end = lines.find('\n')) != std::string::npos;)
        lines.replace(end, 1, "|");
    return '"' + lines + '"';
}

// ---- Kernels that several questions use ----

__global__ void add_one(int* sum)
{
    atomicAdd(sum, 1);
}

__global__ void store(int* p, int value)
{
    *p = value;
}

// Works for some 20 ms on a GPU, whatever its clock, and then stores the value.
__global__ void store_late(int* p, int value)
{
    unsigned x = 2463534242u;
    for (int i = 0; i < 2'000'000; ++i) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    *p = x == 0 ? 0 : value;               // never 0, which the compiler does not know
}

// ---- Error codes ----

template <cudaError_t error>
std::string error_text()
{
    return text(error, ", ", cudaGetErrorString(error));
}

std::string unknown_error()
{
    const auto error = cudaError_t(12345);
    return text(error, ", ", cudaGetErrorString(error));
}

// ---- Launches ----

std::string launch(dim3 grid, dim3 block)
{
    Device<int> sum(1);
    add_one<<<grid, block>>>(sum.data);
    const cudaError_t status = cudaGetLastError();
    must(cudaDeviceSynchronize());
    return text(status, ", ", sum.host()[0], " threads run");
}

std::string peek_and_get()
{
    Device<int> sum(1);
    add_one<<<1, 1025>>>(sum.data);
    const cudaError_t peek = cudaPeekAtLastError(), get = cudaGetLastError();
    return text("Peek ", peek, ", Get ", get, ", Get again ", cudaGetLastError());
}

std::string synchronize_after_bad_launch()
{
    Device<int> sum(1);
    add_one<<<1, 1025>>>(sum.data);
    const cudaError_t synchronize = cudaDeviceSynchronize();
    return text("Synchronize ", synchronize, ", Get ", cudaGetLastError());
}

std::string good_launch_after_bad()
{
    Device<int> sum(1);
    add_one<<<1, 1025>>>(sum.data);
    add_one<<<1, 32>>>(sum.data);
    const int threads = sum.host()[0];
    return text(threads, " threads run, Get ", cudaGetLastError());
}

std::string two_errors()
{
    Device<int> sum(1);
    add_one<<<1, 1025>>>(sum.data);
    const cudaError_t second = cudaMemcpy(nullptr, sum.data, 4, cudaMemcpyKind(9));
    return text(second, ", Get ", cudaGetLastError());
}

std::string error_of_another_thread()
{
    Device<int> sum(1);
    add_one<<<1, 1025>>>(sum.data);
    cudaError_t there;
    std::thread([&] { there = cudaGetLastError(); }).join();
    return text("another host thread sees ", there, ", this one ", cudaGetLastError());
}

// Takes `ints` words of dynamic shared memory and stores what it read back from the last one.
__device__ void use_last_word(int* out, int ints)
{
    extern __shared__ int words[];
    words[ints - 1] = 7;
    *out = words[ints - 1];
}

__global__ void dynamic_shared(int* out, int ints) { use_last_word(out, ints); }
__global__ void dynamic_shared_opted_in(int* out, int ints) { use_last_word(out, ints); }
template <class T>
__global__ void dynamic_shared_template(T* out, int ints) { use_last_word(out, ints); }

std::string launch_dynamic_shared(void (*kernel)(int*, int), size_t bytes)
{
    Device<int> out(1);
    kernel<<<1, 1, bytes>>>(out.data, int(bytes / sizeof(int)));
    const cudaError_t status = cudaGetLastError();
    return text(status, out.host()[0] == 7 ? ", runs" : ", does not run");
}

std::string opt_in()
{
    const cudaError_t status = cudaFuncSetAttribute(
        dynamic_shared_opted_in, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    const std::string within = launch_dynamic_shared(dynamic_shared_opted_in, 64 << 10);
    return text(status, ", 64 KiB ", within, ", 68 KiB ",
                launch_dynamic_shared(dynamic_shared_opted_in, 68 << 10));
}

std::string opt_in_of_a_template()
{
    const cudaError_t status = cudaFuncSetAttribute(
        dynamic_shared_template<int>, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    Device<int> out(1);
    dynamic_shared_template<int><<<1, 1, 64 << 10>>>(out.data, 16 << 10);
    const cudaError_t launched = cudaGetLastError();
    return text(status, ", 64 KiB ", launched, ", reads back ", out.host()[0]);
}

std::string opt_in_too_large()
{
    const cudaError_t status = cudaFuncSetAttribute(
        dynamic_shared_opted_in, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20);
    return text(status, ", Get ", cudaGetLastError());
}

__global__ void static_and_dynamic(int* out)
{
    __shared__ int fixed[8 << 10];         // 32 KiB
    extern __shared__ int free_size[];
    fixed[threadIdx.x] = 1;
    free_size[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] = 10 * fixed[threadIdx.x] + free_size[threadIdx.x];
}

std::string static_plus_dynamic()
{
    Device<int> out(2);
    static_and_dynamic<<<1, 2, 16 << 10>>>(out.data);
    const cudaError_t status = cudaGetLastError();
    return text(status, ", results ", list(out.host()));
}

std::string static_plus_too_much_dynamic()
{
    Device<int> out(2);
    static_and_dynamic<<<1, 2, (16 << 10) + 16>>>(out.data);
    return not_compared("the CPU device does not know how much static memory a kernel has",
                        text(cudaGetLastError(), ", results ", list(out.host())));
}

__global__ void __launch_bounds__(128) bounded(int* sum)
{
    atomicAdd(sum, 1);
}

std::string past_the_launch_bounds()
{
    Device<int> sum(1);
    bounded<<<1, 256>>>(sum.data);
    const cudaError_t status = cudaGetLastError();
    return not_compared("the CPU device does not read __launch_bounds__",
                        text(status, ", ", sum.host()[0], " threads run"));
}

// ---- Arguments of a launch ----

struct Numbers {
    int values[1000];
};

__global__ void add_numbers(Numbers numbers, int* sum)
{
    for (const int value : numbers.values)
        *sum += value;
}

std::string argument_by_value()
{
    Device<int> sum(1);
    Numbers numbers;
    for (int& value : numbers.values)
        value = 3;
    add_numbers<<<1, 1>>>(numbers, sum.data);
    for (int& value : numbers.values)
        value = 5;
    return text("sum ", sum.host()[0]);
}

std::string argument_evaluation()
{
    Device<int> out(1);
    std::string order;
    const auto noted = [&](const char* what, auto value) { order += what; return value; };
    store<<<noted("shape ", 1), 1>>>(noted("argument", out.data), 3);
    return text(order, ", stored ", out.host()[0]);
}

__global__ void converted(const float* nothing, float x, size_t n, double* out)
{
    *out = nothing ? -1 : x / float(n);
}

std::string argument_conversion()
{
    Device<double> out(1);
    converted<<<1, 1>>>(nullptr, 1, 4u, out.data);
    return text(out.host()[0]);
}

// ---- The device ----

std::string set_device(int device)
{
    const cudaError_t status = cudaSetDevice(device);
    const cudaError_t last = cudaGetLastError();
    int now;
    must(cudaGetDevice(&now));
    return text(status, ", Get ", last, ", device is still ", now);
}

std::string no_such_attribute()
{
    int value = 7;
    const cudaError_t status = cudaDeviceGetAttribute(&value, cudaDeviceAttr(9999), 0);
    return text(status, ", value ", value);
}

std::string properties_of_no_device()
{
    cudaDeviceProp properties;
    return text(cudaGetDeviceProperties(&properties, 9999));
}

std::string limits_of_a_block()
{
    return text(attribute(cudaDevAttrMaxThreadsPerBlock), " threads, ",
                attribute(cudaDevAttrMaxBlockDimX), " x ", attribute(cudaDevAttrMaxBlockDimY),
                " x ", attribute(cudaDevAttrMaxBlockDimZ), ", ",
                attribute(cudaDevAttrMaxSharedMemoryPerBlock), " bytes shared, warps of ",
                attribute(cudaDevAttrWarpSize));
}

std::string limits_of_a_grid()
{
    return text(attribute(cudaDevAttrMaxGridDimX), " x ", attribute(cudaDevAttrMaxGridDimY),
                " x ", attribute(cudaDevAttrMaxGridDimZ));
}

std::string properties_and_attributes()
{
    cudaDeviceProp p;
    must(cudaGetDeviceProperties(&p, 0));
    const bool same = p.maxThreadsPerBlock == attribute(cudaDevAttrMaxThreadsPerBlock) &&
                      p.warpSize == attribute(cudaDevAttrWarpSize) &&
                      p.maxGridSize[0] == attribute(cudaDevAttrMaxGridDimX) &&
                      p.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount) &&
                      p.major == attribute(cudaDevAttrComputeCapabilityMajor) &&
                      p.totalConstMem == size_t(attribute(cudaDevAttrTotalConstantMemory));
    std::fprintf(stderr, "    here: %s, compute capability %d.%d, pageable memory access %d\n",
                 p.name, p.major, p.minor, attribute(cudaDevAttrPageableMemoryAccess));
    return text(same ? "say the same" : "differ", ", ", p.totalConstMem, " bytes of constants");
}

// ---- Memory ----

std::string too_much_memory()
{
    int there;
    int* p = &there;
    const cudaError_t status = cudaMalloc(&p, size_t(1) << 50);
    const char* const pointer = p == &there ? "unchanged" : p ? "changed" : "null";
    const cudaError_t last = cudaGetLastError();
    const cudaError_t next = cudaMalloc(&p, 4);
    must(cudaFree(p));
    return text(status, ", pointer ", pointer, ", Get ", last,
                ", next cudaMalloc ", next);
}

std::string no_memory()
{
    void* p = &p;
    const cudaError_t status = cudaMalloc(&p, 0);
    return text(status, ", pointer ", p ? "not null" : "null");
}

std::string alignment()
{
    bool aligned = true;
    for (int i = 0; i < 8; ++i) {
        char* p;
        must(cudaMalloc(&p, 1));
        aligned = aligned && reinterpret_cast<uintptr_t>(p) % 256 == 0;
        must(cudaFree(p));
    }
    return aligned ? "a multiple of 256 bytes" : "less than 256 bytes";
}

std::string free_host_pointer()
{
    std::vector<int> x(1);
    const cudaError_t status = cudaFree(x.data());
    return text(status, ", Get ", cudaGetLastError());
}

std::string free_twice()
{
    int* p;
    must(cudaMalloc(&p, 4));
    const cudaError_t first = cudaFree(p);
    return text(first, ", then ", cudaFree(p));
}

std::string free_inside()
{
    int* p;
    must(cudaMalloc(&p, 64));
    const cudaError_t inside = cudaFree(p + 1);
    return text(inside, ", then the whole ", cudaFree(p));
}

std::string free_host_of_malloc()
{
    std::vector<int> x(1);
    return text(cudaFreeHost(x.data()), ", null ", cudaFreeHost(nullptr));
}

std::string copy_too_long()
{
    Device<char> d(4096);
    std::vector<char> h(4097, 1);
    const cudaError_t status = cudaMemcpy(d.data, h.data(), 4097, cudaMemcpyHostToDevice);
    const std::vector<char> after = d.host();
    return text(status, ", first byte ", int(after.front()), ", last byte ", int(after.back()));
}

std::string copy_far_too_long()
{
    Device<char> d(4096);
    std::vector<char> h(64 << 20, 1);
    const cudaError_t status = cudaMemcpy(d.data, h.data(), h.size(), cudaMemcpyHostToDevice);
    return text(status, ", first byte ", int(d.host().front()));
}

std::string copy_of_unknown_kind()
{
    Device<int> d(1);
    int h = 5;
    return text(cudaMemcpy(d.data, &h, sizeof h, cudaMemcpyKind(9)));
}

// Copies 5 onto 0 in the stated direction, and tells what the target holds afterwards.
std::string copy(bool to_device, bool from_device, cudaMemcpyKind kind)
{
    Device<int> d_to(1), d_from(std::vector<int>{5});
    int h_to = 0, h_from = 5;
    const cudaError_t status = cudaMemcpy(to_device ? d_to.data : &h_to,
                                          from_device ? d_from.data : &h_from, sizeof(int), kind);
    const int target = to_device ? d_to.host()[0] : h_to;
    const bool onto = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool off = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if ((onto && !to_device) || (off && !from_device))
        return with_a_host_pointer(cudaErrorInvalidValue, status, target == 5);
    return text(status, ", target holds ", target);
}

std::string copy_from_null()
{
    Device<int> d(1);
    const cudaError_t status = cudaMemcpy(d.data, nullptr, 4, cudaMemcpyHostToDevice);
    return text(status, ", of 0 bytes ", cudaMemcpy(d.data, nullptr, 0, cudaMemcpyHostToDevice));
}

std::string copy_from_freed()
{
    int *p, h = 0;
    must(cudaMalloc(&p, 4));
    must(cudaMemset(p, 1, 4));
    must(cudaFree(p));
    const cudaError_t status = cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost);
    return text(status, ", target holds ", h);
}

std::string set_bytes()
{
    Device<int> d(2);
    const cudaError_t status = cudaMemset(d.data, 1, 4);
    return text(status, ", ", list(d.host()));
}

std::string set_too_long()
{
    Device<char> d(4096);
    const cudaError_t status = cudaMemset(d.data, 1, 64 << 20);
    return text(status, ", first byte ", int(d.host().front()));
}

std::string set_host_memory()
{
    std::vector<char> h(8);
    const cudaError_t status = cudaMemset(h.data(), 1, h.size());
    must(cudaDeviceSynchronize());
    return with_a_host_pointer(cudaErrorInvalidValue, status, h[0] != 0);
}

std::string pitch()
{
    const size_t width = 100, rows = 3;
    char* d;
    size_t pitch;
    must(cudaMallocPitch(&d, &pitch, width, rows));
    std::vector<char> from(width * rows), to(width * rows);
    for (size_t i = 0; i < from.size(); ++i)
        from[i] = char(i % 101);
    must(cudaMemcpy2D(d, pitch, from.data(), width, width, rows, cudaMemcpyHostToDevice));
    must(cudaMemcpy2D(to.data(), width, d, pitch, width, rows, cudaMemcpyDeviceToHost));
    const cudaError_t too_wide =
        cudaMemcpy2D(d, pitch, from.data(), width - 1, width, rows, cudaMemcpyHostToDevice);
    must(cudaFree(d));
    return text("a row takes ", pitch >= width && pitch % 256 == 0 ? "a multiple of 256" : "other",
                " bytes, copy ", from == to ? "right" : "wrong", ", width above pitch ", too_wide);
}

std::string pinned_memory()
{
    int* h;
    must(cudaMallocHost(&h, sizeof(int)));
    *h = 0;
    store<<<1, 1>>>(h, 5);
    must(cudaDeviceSynchronize());
    const int value = *h;
    return text("a kernel stores ", value, ", cudaFreeHost ", cudaFreeHost(h));
}

std::string managed_memory()
{
    int* p;
    must(cudaMallocManaged(&p, 2 * sizeof(int)));
    p[0] = 3;
    p[1] = 4;
    add_one<<<1, 32>>>(p);
    must(cudaDeviceSynchronize());
    const std::string seen = text(p[0], " ", p[1]);
    return text("the host sees ", seen, ", cudaFree ", cudaFree(p));
}

std::string pointer_kinds()
{
    const auto kind = [](const void* p) {
        cudaPointerAttributes attributes;
        must(cudaPointerGetAttributes(&attributes, p));
        switch (attributes.type) {
        case cudaMemoryTypeUnregistered: return "unregistered";
        case cudaMemoryTypeHost: return "host";
        case cudaMemoryTypeDevice: return "device";
        case cudaMemoryTypeManaged: return "managed";
        default: return "unknown";
        }
    };
    Device<int> d(8);
    int *pinned, *managed, local;
    must(cudaMallocHost(&pinned, 4));
    must(cudaMallocManaged(&managed, 4));
    const std::string kinds =
        text("cudaMalloc ", kind(d.data), ", inside it ", kind(d.data + 5), ", cudaMallocHost ",
             kind(pinned), ", cudaMallocManaged ", kind(managed), ", a local ", kind(&local));
    must(cudaFreeHost(pinned));
    must(cudaFree(managed));
    return kinds;
}

std::string one_past_the_end()
{
    int* d;
    must(cudaMalloc(&d, 63 * sizeof(int)));
    store<<<1, 1>>>(d + 63, 5);
    const cudaError_t status = cudaDeviceSynchronize();
    must(cudaFree(d));
    return text(status, " (memory comes in pieces of at least 256 bytes)");
}

// ---- Variables on the device ----

__device__ int d_counters[4] = {1, 2, 3, 4};
__constant__ int c_weights[4];
__managed__ int m_total = 6;

__global__ void add_weights()
{
    d_counters[threadIdx.x] += c_weights[threadIdx.x];
    atomicAdd(&m_total, 1);
}

std::string symbols()
{
    const int weights[] = {10, 20, 30, 40};
    must(cudaMemcpyToSymbol(c_weights, weights, sizeof weights));
    add_weights<<<1, 4>>>();
    add_weights<<<1, 4>>>();
    std::vector<int> counters(4);
    must(cudaMemcpyFromSymbol(counters.data(), d_counters, sizeof d_counters));
    return list(counters);
}

std::string symbol_offsets()
{
    const int nine = 9;
    int last;
    must(cudaMemcpyToSymbol(d_counters, &nine, sizeof nine, 3 * sizeof nine));
    must(cudaMemcpyFromSymbol(&last, d_counters, sizeof last, 3 * sizeof last));
    const cudaError_t to = cudaMemcpyToSymbol(d_counters, &nine, sizeof nine, 4 * sizeof nine);
    const cudaError_t from = cudaMemcpyFromSymbol(&last, d_counters, 8, 3 * sizeof last);
    return text(last, ", past the end: to ", to, ", from ", from);
}

std::string symbol_addresses()
{
    void* address;
    size_t bytes;
    must(cudaGetSymbolAddress(&address, d_counters));
    must(cudaGetSymbolSize(&bytes, d_counters));
    const int values[] = {5, 6, 7, 8};
    int third;
    must(cudaMemcpy(address, values, bytes, cudaMemcpyHostToDevice));
    must(cudaMemcpyFromSymbol(&third, d_counters, sizeof third, 2 * sizeof third));
    return text(bytes, " bytes, third is ", third);
}

std::string managed_variable()
{
    m_total = 6;
    add_weights<<<1, 4>>>();
    must(cudaDeviceSynchronize());
    return text("the host sees ", m_total);
}

std::string symbol_copy_between_launches()
{
    const int ones[] = {1, 1, 1, 1}, hundreds[] = {100, 100, 100, 100}, zeros[] = {0, 0, 0, 0};
    must(cudaMemcpyToSymbol(d_counters, zeros, sizeof zeros));
    must(cudaMemcpyToSymbol(c_weights, ones, sizeof ones));
    add_weights<<<1, 4>>>();
    must(cudaMemcpyToSymbol(c_weights, hundreds, sizeof hundreds));
    add_weights<<<1, 4>>>();
    std::vector<int> counters(4);
    must(cudaMemcpyFromSymbol(counters.data(), d_counters, sizeof d_counters));
    return list(counters);
}

// ---- Streams and events ----

struct Stream {
    cudaStream_t stream;
    Stream() { must(cudaStreamCreate(&stream)); }
    Stream(const Stream&) = delete;
    ~Stream() { cudaStreamDestroy(stream); }
};

struct Event {
    cudaEvent_t event;
    explicit Event(unsigned flags = cudaEventDefault)
    {
        must(cudaEventCreateWithFlags(&event, flags));
    }
    Event(const Event&) = delete;
    ~Event() { cudaEventDestroy(event); }
};

std::string launch_returns_early()
{
    Device<int> d(1);
    must(cudaDeviceSynchronize());
    store_late<<<1, 1>>>(d.data, 5);
    const cudaError_t running = cudaStreamQuery(nullptr);
    must(cudaDeviceSynchronize());
    return text("Query ", running, ", after the synchronise ", cudaStreamQuery(nullptr));
}

std::string not_ready_is_no_error()
{
    Device<int> d(1);
    store_late<<<1, 1>>>(d.data, 5);
    const cudaError_t query = cudaStreamQuery(nullptr);
    return text(query, ", Get ", cudaGetLastError());
}

std::string copy_waits_for_the_kernel()
{
    Device<int> d(1);
    store_late<<<1, 1>>>(d.data, 5);
    return text("the copy brings ", d.host()[0]);
}

std::string async_copy()
{
    Device<int> d(1);
    Stream s;
    int* h;
    must(cudaMallocHost(&h, sizeof *h));
    *h = 1;
    store_late<<<1, 1, 0, s.stream>>>(d.data, 5);
    must(cudaMemcpyAsync(h, d.data, sizeof *h, cudaMemcpyDeviceToHost, s.stream));
    const int before = *static_cast<volatile int*>(h);
    must(cudaStreamSynchronize(s.stream));
    const int after = *static_cast<volatile int*>(h);
    must(cudaFreeHost(h));
    return text("before the synchronise ", before, ", after it ", after);
}

std::string async_copy_of_pageable()
{
    Device<int> d(1);
    Stream s;
    int h = 5;
    must(cudaMemcpyAsync(d.data, &h, sizeof h, cudaMemcpyHostToDevice, s.stream));
    h = 6;
    must(cudaStreamSynchronize(s.stream));
    return text("source changed after the call, device holds ", d.host()[0]);
}

std::string order_in_a_stream()
{
    Device<int> d(1);
    Stream s;
    store_late<<<1, 1, 0, s.stream>>>(d.data, 0x105);
    add_one<<<1, 32, 0, s.stream>>>(d.data);
    must(cudaMemsetAsync(d.data, 0, 1, s.stream));
    add_one<<<1, 3, 0, s.stream>>>(d.data);
    must(cudaStreamSynchronize(s.stream));
    return text("0x", std::hex, d.host()[0]);
}

std::string order_between_streams()
{
    Device<int> from(1), to(1);
    Stream first, second;
    Event stored;
    store_late<<<1, 1, 0, first.stream>>>(from.data, 5);
    must(cudaEventRecord(stored.event, first.stream));
    must(cudaStreamWaitEvent(second.stream, stored.event, 0));
    must(cudaMemcpyAsync(to.data, from.data, 4, cudaMemcpyDeviceToDevice, second.stream));
    must(cudaStreamSynchronize(second.stream));
    return text(to.host()[0]);
}

std::string default_stream_waits()
{
    Device<int> from(1), to(1);
    Stream s;
    store_late<<<1, 1, 0, s.stream>>>(from.data, 5);
    must(cudaMemcpy(to.data, from.data, 4, cudaMemcpyDeviceToDevice));
    must(cudaDeviceSynchronize());
    return text(to.host()[0]);
}

std::string destroyed_stream()
{
    Device<int> d(1);
    cudaStream_t stream;
    must(cudaStreamCreate(&stream));
    store_late<<<1, 1, 0, stream>>>(d.data, 5);
    const cudaError_t status = cudaStreamDestroy(stream);
    must(cudaDeviceSynchronize());
    return text(status, ", its kernel stores ", d.host()[0]);
}

std::string host_function()
{
    Device<int> d(1);
    Stream s;
    int* h;
    must(cudaMallocHost(&h, sizeof *h));
    *h = 1;
    store_late<<<1, 1, 0, s.stream>>>(d.data, 5);
    must(cudaMemcpyAsync(h, d.data, sizeof *h, cudaMemcpyDeviceToHost, s.stream));
    const auto times_ten = [](void* p) { *static_cast<int*>(p) *= 10; };
    must(cudaLaunchHostFunc(s.stream, times_ten, h));
    must(cudaMemcpyAsync(d.data, h, sizeof *h, cudaMemcpyHostToDevice, s.stream));
    must(cudaStreamSynchronize(s.stream));
    must(cudaFreeHost(h));
    return text(d.host()[0]);
}

std::string memory_in_stream_order()
{
    Stream s;
    int *d, h = 0;
    must(cudaMallocAsync(&d, sizeof *d, s.stream));
    store_late<<<1, 1, 0, s.stream>>>(d, 5);
    must(cudaMemcpyAsync(&h, d, sizeof h, cudaMemcpyDeviceToHost, s.stream));
    const cudaError_t freed = cudaFreeAsync(d, s.stream);
    must(cudaStreamSynchronize(s.stream));
    return text(h, ", cudaFreeAsync ", freed);
}

std::string graph()
{
    Device<int> d(1);
    Stream s;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    must(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeGlobal));
    add_one<<<1, 32, 0, s.stream>>>(d.data);
    add_one<<<1, 3, 0, s.stream>>>(d.data);
    must(cudaStreamEndCapture(s.stream, &graph));
    must(cudaGraphInstantiate(&executable, graph, 0));
    const int captured = d.host()[0];
    must(cudaGraphLaunch(executable, s.stream));
    must(cudaGraphLaunch(executable, s.stream));
    must(cudaStreamSynchronize(s.stream));
    must(cudaGraphExecDestroy(executable));
    must(cudaGraphDestroy(graph));
    return text("after the capture ", captured, ", after two launches ", d.host()[0]);
}

std::string event_before_and_after()
{
    Device<int> d(1);
    Event e;
    store_late<<<1, 1>>>(d.data, 5);
    must(cudaEventRecord(e.event));
    const cudaError_t before = cudaEventQuery(e.event);
    const cudaError_t wait = cudaEventSynchronize(e.event);
    return text("Query ", before, ", Synchronize ", wait, ", Query ", cudaEventQuery(e.event));
}

std::string event_never_recorded()
{
    Event e, recorded;
    float ms;
    must(cudaEventRecord(recorded.event));
    must(cudaEventSynchronize(recorded.event));
    const cudaError_t query = cudaEventQuery(e.event), wait = cudaEventSynchronize(e.event);
    return text("Query ", query, ", Synchronize ", wait, ", ElapsedTime ",
                cudaEventElapsedTime(&ms, e.event, recorded.event));
}

std::string event_that_is_null()
{
    return text("Record ", cudaEventRecord(nullptr), ", Synchronize ",
                cudaEventSynchronize(nullptr), ", Query ", cudaEventQuery(nullptr));
}

std::string elapsed_time()
{
    Device<int> d(1);
    Event start, stop;
    float forward, backward, none;
    must(cudaEventRecord(start.event));
    store_late<<<1, 1>>>(d.data, 5);
    must(cudaEventRecord(stop.event));
    must(cudaEventSynchronize(stop.event));
    must(cudaEventElapsedTime(&forward, start.event, stop.event));
    must(cudaEventElapsedTime(&backward, stop.event, start.event));
    must(cudaEventElapsedTime(&none, start.event, start.event));
    const auto sign = [](float x) { return x > 0 ? "positive" : x < 0 ? "negative" : "zero"; };
    return text(sign(forward), ", from the later to the earlier ", sign(backward),
                ", from one to itself ", sign(none));
}

std::string elapsed_time_too_early()
{
    Device<int> d(1);
    Event start, stop;
    float ms;
    must(cudaEventRecord(start.event));
    store_late<<<1, 1>>>(d.data, 5);
    must(cudaEventRecord(stop.event));
    const cudaError_t early = cudaEventElapsedTime(&ms, start.event, stop.event);
    must(cudaDeviceSynchronize());
    return text(early, ", after the synchronise ",
                cudaEventElapsedTime(&ms, start.event, stop.event));
}

std::string elapsed_time_without_timing()
{
    Event start, stop(cudaEventDisableTiming);
    float ms;
    must(cudaEventRecord(start.event));
    must(cudaEventRecord(stop.event));
    must(cudaDeviceSynchronize());
    return text(cudaEventElapsedTime(&ms, start.event, stop.event));
}

// ---- Threads and barriers ----

// Thread (x, y, z) tells the number of the first thread in its warp.
__global__ void first_of_warp(int* out)
{
    const int number =
        threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[number] = __shfl_sync(0xffffffff, number, 0);
}

std::string thread_numbers()
{
    const std::vector<int> first = results(first_of_warp, 4 * 5 * 6, 1, dim3(4, 5, 6));
    bool right = true;
    for (int i = 0; i < 4 * 5 * 6; ++i)
        right = right && first[i] == i / 32 * 32;
    return right ? "x first, then y, then z; every 32 in this order are a warp" : list(first);
}

__global__ void visit(int* visits)
{
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread =
        threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(&visits[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

std::string every_thread_once()
{
    const std::vector<int> visits = results(visit, 2 * 3 * 5 * 7 * 3 * 2, dim3(2, 3, 5),
                                            dim3(7, 3, 2));
    for (const int count : visits)
        if (count != 1)
            return list(visits);
    return text(visits.size(), " of them");
}

// The upper half of the block is gone when the lower half meets at the barrier.
__global__ void early_return(int* out)
{
    __shared__ int seen[128];
    const unsigned t = threadIdx.x;
    if (t >= blockDim.x / 2)
        return;
    seen[t] = t;
    __syncthreads();
    out[t] = seen[blockDim.x / 2 - 1 - t];
}

std::string return_before_a_barrier(unsigned threads)
{
    const std::vector<int> out = results(early_return, threads, 1, threads);
    return text("the rest goes on, ", out[0], " to ", out[threads / 2 - 1]);
}

__global__ void counting_barriers(int* out)
{
    const int t = threadIdx.x;
    if (t >= 48)
        return;
    const int count = __syncthreads_count(t % 3 == 0);
    const int all = __syncthreads_and(t < 48), any = __syncthreads_or(t == 48);
    if (t == 0) {
        out[0] = count;
        out[1] = all != 0;
        out[2] = any != 0;
    }
}

// Every thread swaps with its opposite number, many times over: each pass needs both barriers.
__global__ void reverse_often(int* out)
{
    __shared__ int shared[256];
    const unsigned t = threadIdx.x;
    int value = t;
    for (int i = 0; i < 101; ++i) {
        shared[t] = value;
        __syncthreads();
        value = shared[blockDim.x - 1 - t];
        __syncthreads();
    }
    out[t] = value;
}

std::string barriers_in_a_loop()
{
    const std::vector<int> out = results(reverse_often, 256, 1, 256);
    for (int t = 0; t < 256; ++t)
        if (out[t] != 255 - t)
            return list(out);
    return "reversed";
}

template <int n>
__global__ void own_array(int* out)
{
    __shared__ int shared[n];
    shared[threadIdx.x % n] = n;
    __syncthreads();
    out[threadIdx.x] = int(sizeof shared / sizeof *shared) * 100 + shared[0];
}

std::string shared_array_of_a_template()
{
    return by_thread<int>(own_array<2>, 2) + " and " + by_thread<int>(own_array<3>, 2);
}

// ---- Warps ----

constexpr unsigned whole_warp = 0xffffffff;

__global__ void shuffle(int* out) { out[threadIdx.x] = __shfl_sync(whole_warp, threadIdx.x, 3); }
__global__ void shuffle_35(int* out)
{
    out[threadIdx.x] = __shfl_sync(whole_warp, threadIdx.x, 35);
}
__global__ void shuffle_by_8(int* out)
{
    out[threadIdx.x] = __shfl_sync(whole_warp, threadIdx.x, 3, 8);
}
__global__ void shuffle_down(int* out)
{
    out[threadIdx.x] = __shfl_down_sync(whole_warp, threadIdx.x, 4);
}
__global__ void shuffle_down_by_8(int* out)
{
    out[threadIdx.x] = __shfl_down_sync(whole_warp, threadIdx.x, 4, 8);
}
__global__ void shuffle_up(int* out)
{
    out[threadIdx.x] = __shfl_up_sync(whole_warp, threadIdx.x, 4);
}
__global__ void shuffle_xor(int* out)
{
    out[threadIdx.x] = __shfl_xor_sync(whole_warp, threadIdx.x, 1);
}
__global__ void shuffle_xor_by_16(int* out)
{
    out[threadIdx.x] = __shfl_xor_sync(whole_warp, threadIdx.x, 16, 16);
}

__global__ void shuffle_lower_half(int* out)
{
    out[threadIdx.x] = -1;
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_xor_sync(0x0000ffff, threadIdx.x, 1);
}

__global__ void shuffle_both_branches(int* out)
{
    const int t = threadIdx.x;
    if (t < 16)
        out[t] = __shfl_sync(0x0000ffff, t, 5);
    else
        out[t] = __shfl_sync(0xffff0000, t, 21);
}

__global__ void shuffle_types(unsigned* out)
{
    const int t = threadIdx.x, other = t ^ 1;
    const double d = __shfl_xor_sync(whole_warp, t + 0x1p-40, 1);
    const long long l = __shfl_xor_sync(whole_warp, (1LL << 40) + t, 1);
    const float f = __shfl_xor_sync(whole_warp, t + 0.5f, 1);
    out[0] = __ballot_sync(whole_warp, d == other + 0x1p-40);
    out[1] = __ballot_sync(whole_warp, l == (1LL << 40) + other);
    out[2] = __ballot_sync(whole_warp, f == other + 0.5f);
}

// 48 threads are a whole warp and a half one, whose other lanes never were.
__global__ void shuffle_in_half_a_warp(int* out)
{
    out[threadIdx.x] = __shfl_xor_sync(whole_warp, threadIdx.x, 1);
}

__global__ void ballot_after_return(unsigned* out)
{
    if (threadIdx.x >= 20)
        return;
    *out = __ballot_sync(whole_warp, threadIdx.x % 2);
}

__global__ void votes(unsigned* out)
{
    const unsigned t = threadIdx.x;
    const unsigned ballot = __ballot_sync(whole_warp, t < 5);
    const bool any = __any_sync(whole_warp, t == 31), none = __any_sync(whole_warp, t == 32);
    const bool all = __all_sync(whole_warp, t < 32), not_all = __all_sync(whole_warp, t < 31);
    if (t == 0) {
        out[0] = ballot;
        out[1] = any;
        out[2] = none;
        out[3] = all;
        out[4] = not_all;
    }
}

__global__ void match(unsigned* out)
{
    const unsigned t = threadIdx.x;
    const unsigned any = __match_any_sync(whole_warp, t % 3);
    int same = -1, differ = -1;
    const unsigned all = __match_all_sync(whole_warp, t / 32, &same);
    const unsigned none = __match_all_sync(whole_warp, t, &differ);
    if (t < 3)
        out[t] = any;
    if (t == 3) {
        out[3] = all;
        out[4] = same;
        out[5] = none;
        out[6] = differ;
    }
}

__global__ void reductions(int* out)
{
    const int t = threadIdx.x;
    const int sum = __reduce_add_sync(whole_warp, t - 10);
    const int least = __reduce_min_sync(whole_warp, t - 10);
    const int most = __reduce_max_sync(whole_warp, t - 10);
    const unsigned most_unsigned = __reduce_max_sync(whole_warp, unsigned(t - 10));
    const unsigned all = __reduce_and_sync(whole_warp, unsigned(t | 64));
    const unsigned any = __reduce_or_sync(whole_warp, unsigned(t));
    const unsigned odd = __reduce_xor_sync(whole_warp, unsigned(t * t));
    if (t == 0) {
        out[0] = sum;
        out[1] = least;
        out[2] = most;
        out[3] = int(most_unsigned);
        out[4] = int(all);
        out[5] = int(any);
        out[6] = int(odd);
    }
}

__global__ void syncwarp(int* out)
{
    __shared__ int shared[32];
    const unsigned t = threadIdx.x;
    shared[t] = t;
    __syncwarp();
    out[t] = shared[31 - t];
}

__global__ void active_mask(unsigned* out)
{
    if (threadIdx.x < 8)
        *out = __activemask();
}

// ---- Atomics ----

// Every one of a million threads adds 1. The old values must be 0 to 999,999, each once.
template <class T>
__global__ void add_and_note(T* sum, int* seen)
{
    const T old = atomicAdd(sum, T(1));
    atomicAdd(&seen[size_t(old)], 1);
}

template <class T>
std::string atomic_add()
{
    const size_t n = 1'000'000;
    Device<T> sum(1);
    Device<int> seen(n);
    add_and_note<T><<<n / 1000, 1000>>>(sum.data, seen.data);
    must(cudaDeviceSynchronize());
    size_t once = 0;
    for (const int count : seen.host())
        once += count == 1;
    return text("sum ", size_t(sum.host()[0]), ", old values seen once ", once);
}

template <class T>
__global__ void add_half(T* sum)
{
    atomicAdd(sum, T(1.0f));
}

template <class T>
std::string atomic_add_16_bit()
{
    Device<T> sum(std::vector<T>(1, T(0.0f)));
    add_half<T><<<2, 64>>>(sum.data);
    return text("sum ", float(sum.host()[0]));
}

__global__ void other_atomics(int* out)
{
    __shared__ int x;
    x = 12;
    out[0] = atomicSub(&x, 2);
    out[1] = atomicMin(&x, -5);
    out[2] = atomicMax(&x, 6);
    out[3] = atomicAnd(&x, 3);
    out[4] = atomicOr(&x, 9);
    out[5] = atomicXor(&x, 1);
    out[6] = atomicExch(&x, 77);
    out[7] = x;
}

__global__ void atomics_of_signs(int* out)
{
    __shared__ int i;
    __shared__ unsigned u;
    __shared__ long long l;
    i = -1;
    u = 0xffffffffu;
    l = -1;
    atomicMax(&i, 3);
    atomicMax(&u, 3u);
    atomicMin(&l, -2LL);
    out[0] = i;
    out[1] = int(u);
    out[2] = int(l);
}

__global__ void atomics_that_wrap(int* out)
{
    __shared__ unsigned up, down, beyond;
    up = 0;
    down = 0;
    beyond = 9;
    for (int i = 0; i < 4; ++i) {
        out[i] = int(atomicInc(&up, 2));
        out[4 + i] = int(atomicDec(&down, 2));
    }
    out[8] = int(atomicDec(&beyond, 2));
    out[9] = int(beyond);
}

__global__ void compare_and_swap(int* out)
{
    __shared__ int x;
    __shared__ unsigned long long wide;
    x = 4;
    wide = 1ull << 40;
    out[0] = atomicCAS(&x, 5, 6);
    out[1] = x;
    out[2] = atomicCAS(&x, 4, 6);
    out[3] = x;
    out[4] = int(atomicCAS(&wide, 1ull << 40, 8ull) >> 40);
    out[5] = int(wide);
}

// The largest float of all threads, by a loop of compare and swap.
__global__ void largest(float* result)
{
    const float mine = float((blockIdx.x * 7919 + threadIdx.x * 104729) % 1'000'003) / 1024;
    int* const bits = reinterpret_cast<int*>(result);
    int old = *bits;
    while (mine > __int_as_float(old)) {
        const int assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(mine));
        if (old == assumed)
            break;
    }
}

std::string compare_and_swap_loop()
{
    double expected = 0;
    for (unsigned block = 0; block < 200; ++block)
        for (unsigned thread = 0; thread < 256; ++thread) {
            const double mine = (block * 7919 + thread * 104729) % 1'000'003 / 1024.0;
            expected = mine > expected ? mine : expected;
        }
    const float found = results(largest, 1, 200, 256)[0];
    return found == float(expected) ? "right" : text(found, " instead of ", expected);
}

// The last block to finish adds up what all have written: the fence orders it.
__global__ void last_block_adds(int* parts, int* done, int* total)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x;
        __threadfence();
        last = atomicAdd(done, 1) == int(gridDim.x) - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0)
        for (unsigned i = 0; i < gridDim.x; ++i)
            *total += static_cast<volatile int*>(parts)[i];
}

std::string last_block()
{
    Device<int> parts(100), done(1), total(1);
    last_block_adds<<<100, 64>>>(parts.data, done.data, total.data);
    return text("total ", total.host()[0]);
}

// ---- Arithmetic ----

__global__ void float_edges(float* out)
{
    const float zero = out[0], one = zero + 1, tiny = 0x1p-149f;
    const float nan = zero / zero;
    out[0] = one / zero;
    out[1] = nan;
    out[2] = sqrtf(-one);
    out[3] = (tiny + zero) * 0x1p100f * 0x1p49f;
    out[4] = fminf(nan, one);
    out[5] = fmaxf(one, nan);
    out[6] = fmaf(one + 0x1p-12f, one + 0x1p-12f, -(one + 0x1p-11f)) * 0x1p24f;
    out[7] = rintf(2.5f + zero);
    out[8] = roundf(2.5f + zero);
    out[9] = fmodf(-7 + zero, 3);
    out[10] = expf(1000 + zero);
    out[11] = expf(-1000 + zero);
    out[12] = tanhf(1000 + zero);
}

std::string floats_at_the_edge()
{
    std::string all;
    for (const float value : results(float_edges, 13, 1, 1))
        all += (all.empty() ? "" : " ") + number(value);
    return all;
}

__global__ void fast_math(float* out)
{
    const float zero = out[0];
    out[0] = __expf(1 + zero);
    out[1] = rsqrtf(4 + zero);
    out[2] = __fdividef(7 + zero, 2);
    out[3] = __saturatef(1.5f + zero);
    out[4] = __saturatef(-0.5f + zero);
    out[5] = __logf(8 + zero);
    out[6] = __fmaf_rn(2 + zero, 3, 4);
}

std::string fast_functions()
{
    const std::vector<float> got = results(fast_math, 7, 1, 1);
    const float right[] = {2.7182818f, 0.5f, 3.5f, 1, 0, 2.0794415f, 10};
    for (size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(got[i] - right[i]) <= 1e-5f * right[i]))
            return text("number ", i, " is ", got[i], " instead of ", right[i]);
    return "within 1e-5";
}

__global__ void bit_functions(int* out)
{
    const unsigned x = 0x00f0a001u + out[0];
    out[0] = __popc(x);
    out[1] = __clz(int(x));
    out[2] = __ffs(int(x << 3));
    out[3] = __clz(0);
    out[4] = __ffs(0);
    out[5] = __popcll(0xffull << 36);
    out[6] = int(__brev(x) >> 24);
    out[7] = int(__umulhi(0x80000000u, 6u));
    out[8] = min(-3, 4);
    out[9] = int(max(3u, 4u));
}

__global__ void bit_casts(int* out)
{
    out[0] = __float_as_int(1.0f + float(out[0]));
    out[1] = int(__float_as_uint(-0.0f) >> 31);
    out[2] = int(__int_as_float(0x40490fdb) * 100);
    out[3] = int(__uint_as_float(0x3f000000u) * 100);
}

__global__ void divide(int* out)
{
    out[0] = 7 / out[0];
}

std::string integer_division_by_zero()
{
    Device<int> out(1);
    divide<<<1, 1>>>(out.data);
    const cudaError_t status = cudaDeviceSynchronize();
    return not_compared("C++ leaves it undefined: a GPU goes on, an x86 core traps",
                        text(status, ", ", status == cudaSuccess ? out.host()[0] : 0));
}

__global__ void cast_and_shift(int* out)
{
    const float large = 1e10f + float(out[0]);
    out[2] = 1 << (32 + out[2]);
    out[0] = int(large);
    out[1] = int(large - large / float(out[1]));
}

std::string undefined_casts_and_shifts()
{
    return not_compared("C++ leaves them undefined",
                        text("int(1e10f), int(-inf), 1 << 32: ",
                             list(results(cast_and_shift, 3, 1, 1))));
}

// ---- Half and bfloat16 ----

template <class T>
__global__ void round_trip(float* x)
{
    x[threadIdx.x] = float(T(x[threadIdx.x]));
}

template <class T>
std::string rounded(const std::vector<float>& values)
{
    Device<float> x(values);
    round_trip<T><<<1, unsigned(values.size())>>>(x.data);
    std::string all;
    for (const float value : x.host())
        all += (all.empty() ? "" : " ") + number(value);
    return all;
}

// Every 16-bit pattern becomes a float and a pattern again.
__global__ void half_patterns(unsigned short* out)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = __half2float(__ushort_as_half((unsigned short)i));
    out[i] = __half_as_ushort(__float2half(x));
}

__global__ void bfloat16_patterns(unsigned short* out)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = __bfloat162float(__ushort_as_bfloat16((unsigned short)i));
    out[i] = __bfloat16_as_ushort(__float2bfloat16(x));
}

std::string all_patterns(void (*trip)(unsigned short*), unsigned infinity)
{
    const std::vector<unsigned short> after = results(trip, 65536, 256, 256);
    size_t same = 0, nan = 0;
    for (unsigned i = 0; i < after.size(); ++i)
        if ((i & 0x7fff) > infinity)
            nan += (after[i] & 0x7fff) > infinity;
        else
            same += after[i] == i;
    return text(same, " come back, and ", nan, " stay NaN");
}

// The nearest number with so many digits, an even one where two are as near.
double nearest(double x, int digits, int least_exponent)
{
    const int exponent = std::max(std::ilogb(x), least_exponent);
    return std::ldexp(std::nearbyint(std::ldexp(x, digits - 1 - exponent)),
                      exponent - (digits - 1));
}

template <class T>
__global__ void round_many(const float* x, float* y)
{
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    y[i] = float(T(x[i]));
}

template <class T>
std::string rounding(int digits, int least_exponent, double infinity_from)
{
    const size_t n = 1 << 20;
    std::vector<float> values(n);
    uint32_t bits = 12345;
    for (float& value : values) {
        do {
            bits = bits * 1664525 + 1013904223;
            std::memcpy(&value, &bits, sizeof value);
        } while (!std::isfinite(value) || value == 0);
        int exponent;
        if (bits >> 20 & 1)                // one in two is of a half's magnitude
            value = std::ldexp(std::frexp(value, &exponent), int(bits % 45) - 27);
    }
    Device<float> x(values), y(n);
    round_many<T><<<n / 256, 256>>>(x.data, y.data);
    const std::vector<float> got = y.host();
    size_t right = 0;
    for (size_t i = 0; i < n; ++i) {
        double expected = nearest(values[i], digits, least_exponent);
        if (std::fabs(values[i]) >= infinity_from)
            expected = std::copysign(HUGE_VAL, values[i]);
        right += got[i] == expected;
    }
    return text(right, " of ", n);
}

template <class T>
__global__ void arithmetic(float* out)
{
    const T one = T(out[0] + 1.0f), ulp = T(1.0f / 1024), large = T(30000.0f);
    const T nan = T(out[0] / out[0]);
    out[0] = float(one + ulp);
    out[1] = float(one - ulp * ulp);
    out[2] = float(one / T(3.0f));
    out[3] = float(large * large);
    out[4] = float(-one);
    out[5] = nan == nan;
    out[6] = nan != nan;
    out[7] = one < T(2.0f);
    out[8] = float(__hfma(one + ulp, one + ulp, -one));
    out[9] = float(__hmax(one, T(2.0f)));
    out[10] = float(one) + 0.5f;
}

template <class T>
std::string sums_and_products()
{
    std::string all;
    for (const float value : results<float>(arithmetic<T>, 11, 1, 1))
        all += (all.empty() ? "" : " ") + number(value);
    return all;
}

__global__ void half_pairs(float* out)
{
    const __half2 a = __floats2half2_rn(1, 2), b = __halves2half2(__float2half(10), __half(20.0f));
    const float2 sum = __half22float2(__hadd2(a, b)), product = __half22float2(a * b);
    const float2 fused = __half22float2(__hfma2(a, b, a));
    out[0] = sum.x;
    out[1] = sum.y;
    out[2] = product.x;
    out[3] = product.y;
    out[4] = fused.x;
    out[5] = fused.y;
    out[6] = __low2float(b);
    out[7] = __high2float(b);
}

// ---- Matrix products of a warp ----

// C = 2 (A·B + C), of one 16×16 tile, with leading dimensions larger than the tile.
constexpr int lead = 32;

template <class Part, class In, class Out, class RowsOrColumnsA, class RowsOrColumnsB, int k>
__global__ void multiply(const In* a, const In* b, Out* c, wmma::layout_t layout)
{
    wmma::fragment<wmma::matrix_a, 16, 16, k, Part, RowsOrColumnsA> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, k, Part, RowsOrColumnsB> fb;
    wmma::fragment<wmma::accumulator, 16, 16, k, Out> fc;
    wmma::load_matrix_sync(fa, a, lead);
    wmma::load_matrix_sync(fb, b, lead);
    wmma::load_matrix_sync(fc, c, lead, layout);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; ++i)
        fc.x[i] = fc.x[i] + fc.x[i];
    wmma::store_matrix_sync(c, fc, lead, layout);
}

// Small whole numbers over 8, or whole numbers where the type has no fraction: every product and
// sum is exact in every type, so the results must be equal to the last bit.
template <class T>
double entry(int i, int j)
{
    const int whole = (i * 7 + j * 5) % 13 - (std::is_same_v<T, unsigned char> ? 0 : 6);
    return std::is_integral_v<T> ? whole : whole / 8.0;
}

template <class Part, class In, class Out, bool rows_a, bool rows_b, bool rows_c, int k = 16>
std::string product()
{
    const auto at = [](bool rows, int row, int column) {
        return rows ? row * lead + column : column * lead + row;
    };
    std::vector<In> a(16 * lead, In(77.0f)), b(16 * lead, In(77.0f));
    std::vector<Out> c(16 * lead, Out(55.0f));
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) {
            if (j < k) {
                a[at(rows_a, i, j)] = In(float(entry<In>(i, j)));
                b[at(rows_b, j, i)] = In(float(entry<In>(i, 3 * j)));
            }
            c[at(rows_c, i, j)] = Out(float(entry<In>(j, 2 * i)));
        }
    Device<In> d_a(a), d_b(b);
    Device<Out> d_c(c);
    multiply<Part, In, Out, std::conditional_t<rows_a, wmma::row_major, wmma::col_major>,
             std::conditional_t<rows_b, wmma::row_major, wmma::col_major>, k>
        <<<1, 32>>>(d_a.data, d_b.data, d_c.data,
                    rows_c ? wmma::mem_row_major : wmma::mem_col_major);
    const std::vector<Out> got = d_c.host();

    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) {
            double sum = entry<In>(j, 2 * i);
            for (int p = 0; p < k; ++p)
                sum += entry<In>(i, p) * entry<In>(j, 3 * p);
            const double value = double(float(got[at(rows_c, i, j)]));
            if (value != 2 * sum)
                return text("row ", i, ", column ", j, ": ", value, " instead of ", 2 * sum);
        }
    if (float(got[16]) != 55)
        return "what lies between the tile's lines has changed";
    return "equal to the product in double precision";
}

__global__ void to_tf32(float* out)
{
    const float zero = out[0];
    out[0] = (wmma::__float_to_tf32(1 + 0x1p-11f + zero) - 1) * 1024;
    out[1] = (wmma::__float_to_tf32(1 + 0x3p-11f + zero) - 1) * 1024;
    out[2] = (wmma::__float_to_tf32(1 + 0x0.fffp-11f + zero) - 1) * 1024;
    out[3] = (wmma::__float_to_tf32(-1 - 0x1p-11f + zero) + 1) * 1024;
}

// ---- Cooperative groups ----

__global__ void groups(int* out)
{
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int rank = int(block.thread_rank());
    if (rank == 21) {
        out[0] = int(block.size());
        out[1] = int(tile.size());
        out[2] = int(tile.thread_rank());
        out[3] = int(tile.meta_group_rank());
        out[4] = int(tile.meta_group_size());
        out[5] = int(block.group_index().x);
    }
}

__global__ void tiles(int* out)
{
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    int sum = int(block.thread_rank());
    for (unsigned step = tile.size() / 2; step > 0; step /= 2)
        sum += tile.shfl_down(sum, step);
    sum = tile.shfl(sum, 0);
    const unsigned odd = tile.ballot(block.thread_rank() % 2);
    const bool any = tile.any(block.thread_rank() == 9), all = tile.all(odd == 0xaa);
    out[block.thread_rank()] = sum * 100 + any * 10 + all;
}

__global__ void group_barriers(int* out)
{
    __shared__ int shared[64];
    const cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const int t = int(block.thread_rank());
    shared[t] = t;
    warp.sync();
    const int neighbour = shared[t ^ 1];
    block.sync();
    shared[t] = neighbour;
    block.sync();
    out[t] = shared[63 - t];
}

std::string barriers_of_groups()
{
    const std::vector<int> out = results(group_barriers, 64, 1, 64);
    for (int t = 0; t < 64; ++t)
        if (out[t] != ((63 - t) ^ 1))
            return list(out);
    return "right";
}

// ---- Copies to shared memory that the thread need not wait for ----

__global__ void pipeline(int* out)
{
    __shared__ __align__(16) int stages[2][32];
    const unsigned t = threadIdx.x;
    __pipeline_memcpy_async(&stages[0][t], &out[t], sizeof(int));
    __pipeline_commit();
    __pipeline_memcpy_async(&stages[1][t], &out[t + 32], sizeof(int));
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const int first = stages[0][31 - t];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = first * 100 + stages[1][31 - t];
}

std::string two_stages()
{
    std::vector<int> in(64);
    for (int i = 0; i < 64; ++i)
        in[i] = i;
    Device<int> d(in);
    pipeline<<<1, 32>>>(d.data);
    const std::vector<int> out = d.host();
    return text(out[0], " ", out[1], " to ", out[31]);
}

__global__ void zero_fill(int* out)
{
    __shared__ int4 four;
    four = make_int4(9, 9, 9, 9);
    __pipeline_memcpy_async(&four, out, sizeof four, 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[0] = four.x;
    out[1] = four.y;
    out[2] = four.z;
    out[3] = four.w;
}

std::string copy_filled_with_zeros()
{
    Device<int> d(std::vector<int>{1, 2, 3, 4});
    zero_fill<<<1, 1>>>(d.data);
    return list(d.host());
}

// ---- Output of a kernel ----

__global__ void print(int i, float x, const int* p)
{
    printf("%d %5.2f %s|%c %x %lld %%\n", i, x, "text", 'c', 255, 1LL << 40);
    printf("%-4d|%04d|%+d|%e|%s\n", i, i, i, 1234.5, p ? "pointer" : "none");
}

std::string printed()
{
    Capture out(STDOUT_FILENO);
    print<<<1, 1>>>(7, 3.14159f, nullptr);
    must(cudaDeviceSynchronize());
    return in_one_line(out.so_far());
}

__global__ void print_line()
{
    printf("line\n");
}

std::string printed_before_a_synchronise()
{
    Capture out(STDOUT_FILENO);
    print_line<<<1, 1>>>();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::string early = in_one_line(out.so_far());
    must(cudaDeviceSynchronize());
    return not_compared("CUDA promises the text at the next synchronise, and a driver may be early",
                        text("after 200 ms ", early, ", then ", in_one_line(out.so_far())));
}

std::string printed_by_all()
{
    Capture out(STDOUT_FILENO);
    print_line<<<16, 64>>>();
    must(cudaDeviceSynchronize());
    return text(out.so_far().size() / 5, " lines");
}

__global__ void print_and_return(int* out)
{
    out[0] = printf("two arguments: %d %d\n", 1, 2);
    out[1] = printf("none\n");
}

std::string result_of_printf()
{
    Capture out(STDOUT_FILENO);
    return list(results(print_and_return, 2, 1, 1));
}

// ---- Errors that end the work of the process ----
//
// Each of these has a process of its own.

std::string fault(const std::function<void()>& launch)
{
    launch();
    const cudaError_t launched = cudaGetLastError();
    const cudaError_t ended = cudaDeviceSynchronize();
    return text("after the launch ", launched, ", after the synchronise ", ended);
}

std::string far_out_of_bounds()
{
    Device<int> d(1);
    return fault([&] { store<<<1, 1>>>(d.data + (size_t(1) << 32), 5); });
}

std::string null_pointer()
{
    return fault([] { store<<<1, 1>>>(nullptr, 5); });
}

std::string last_error_afterwards()
{
    store<<<1, 1>>>(nullptr, 5);
    const cudaError_t fault = cudaDeviceSynchronize();
    const cudaError_t get = cudaGetLastError(), again = cudaGetLastError();
    const cudaError_t next = cudaDeviceSynchronize();
    return text("Synchronize ", fault, ", Get ", get, ", Get again ", again, ", Synchronize ",
                next, ", Get ", cudaGetLastError());
}

std::string calls_afterwards()
{
    Device<int> d(1);
    store<<<1, 1>>>(nullptr, 5);
    cudaDeviceSynchronize();
    int h, *p;
    cudaEvent_t e;
    cudaStream_t s;
    const std::vector<cudaError_t> errors = {cudaMalloc(&p, 4),
                                             cudaMallocHost(&p, 4),
                                             cudaMallocManaged(&p, 4),
                                             cudaMemcpy(&h, d.data, 4, cudaMemcpyDeviceToHost),
                                             cudaMemset(d.data, 0, 4),
                                             cudaFree(d.data),
                                             cudaFree(nullptr),
                                             cudaStreamCreate(&s),
                                             cudaStreamQuery(nullptr),
                                             cudaEventCreate(&e),
                                             cudaDeviceSynchronize()};
    for (const cudaError_t error : errors)
        if (error != errors[0])
            return list(errors);
    return text("every one returns ", errors[0]);
}

std::string launch_afterwards()
{
    store<<<1, 1>>>(nullptr, 5);
    cudaDeviceSynchronize();
    store<<<1, 1>>>(nullptr, 5);
    const cudaError_t launched = cudaGetLastError();
    store<<<1, 1025>>>(nullptr, 5);
    return text(launched, ", of a block of 1025 ", cudaGetLastError());
}

std::string reset_afterwards()
{
    store<<<1, 1>>>(nullptr, 5);
    cudaDeviceSynchronize();
    const cudaError_t reset = cudaDeviceReset(), get = cudaGetLastError();
    int* p = nullptr;
    const cudaError_t allocate = cudaMalloc(&p, 4);
    return text("Reset ", reset, ", Get ", get, ", then ",
                not_compared("CUDA promises nothing to a process after a fault",
                             text("cudaMalloc ", allocate)));
}

std::string reset_without_an_error()
{
    int *p, h;
    must(cudaMalloc(&p, 4));
    const cudaError_t reset = cudaDeviceReset();
    const cudaError_t copied = cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost);
    return text(reset, ", memory from before ", copied);
}

std::string blocking_launches()
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);            // read at the first call
    return fault([] { store<<<1, 1>>>(nullptr, 5); });
}

std::string host_pointer_in_a_kernel()
{
    std::vector<int> h(1);
    store<<<1, 1>>>(h.data(), 5);
    const cudaError_t status = cudaDeviceSynchronize();
    return with_a_host_pointer(cudaErrorIllegalAddress, status, h[0] == 5);
}

sigjmp_buf before_the_signal;

std::string device_pointer_on_the_host()
{
    const bool may = attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables);
    Device<int> d(1);
    must(cudaDeviceSynchronize());
    std::signal(SIGSEGV, [](int) { siglongjmp(before_the_signal, 1); });
    std::signal(SIGBUS, [](int) { siglongjmp(before_the_signal, 1); });
    bool dies = true;
    if (sigsetjmp(before_the_signal, 1) == 0) {
        *static_cast<volatile int*>(d.data) = 5;
        dies = false;
    }
    if (dies != may)
        return "SIGSEGV, but works where host and device share their page tables";
    return text("page tables shared: ", may, ", but the access ", dies ? "fails" : "works");
}

__global__ void copy_four(const int* from, float4* to)
{
    *to = *reinterpret_cast<const float4*>(from);
}

std::string misaligned()
{
    Device<int> from(8);
    Device<float4> to(1);
    return fault([&] { copy_four<<<1, 1>>>(from.data + 1, to.data); });
}

__global__ void overrun_shared(int far)
{
    __shared__ int shared[32];
    shared[threadIdx.x + far] = 5;
    __syncthreads();
    if (shared[threadIdx.x] == 77)
        printf("%d\n", shared[0]);
}

std::string far_out_of_shared_memory()
{
    return not_compared("which error it is, if any, depends on the GPU",
                        fault([] { overrun_shared<<<1, 32>>>(1 << 28); }));
}

__device__ int descend(int depth, const int* above)
{
    int here[64];
    for (int i = 0; i < 64; ++i)
        here[i] = above[(i + depth) % 64] + i;
    if (depth > 0)
        here[depth % 64] += descend(depth - 1, here);
    return here[depth % 32];
}

__global__ void recurse(int* p, int depth)
{
    *p = descend(depth, p);
}

std::string stack_overflow()
{
    Device<int> d(64);
    return fault([&] { recurse<<<1, 1>>>(d.data, 1'000'000); });
}

std::string stack_within()
{
    Device<int> d(64);
    return fault([&] { recurse<<<1, 1>>>(d.data, 2); });
}

__global__ void assert_most(int* p)
{
    assert(blockIdx.x != 1 || threadIdx.x != 5);
    atomicAdd(p, 1);
}

std::string assertion()
{
    Device<int> d(1);
    Capture err(STDERR_FILENO);
    const std::string errors = fault([&] { assert_most<<<2, 32>>>(d.data); });
    const std::string message = err.so_far();
    const size_t block = std::min(message.find("block:"), message.size());
    return errors + ", " + message.substr(block, message.find('\n', block) - block);
}

std::string after_an_assertion()
{
    Device<int> d(1);
    Capture err(STDERR_FILENO);
    assert_most<<<2, 32>>>(d.data);
    cudaDeviceSynchronize();
    int* p;
    const cudaError_t allocate = cudaMalloc(&p, 4), get = cudaGetLastError();
    return text("cudaMalloc ", allocate, ", Get ", get, ", Get again ", cudaGetLastError());
}

__global__ void trap()
{
    __trap();
}

std::string trapped()
{
    return fault([] { trap<<<1, 1>>>(); });
}

// ---- The questions ----

struct Question {
    const char* name;
    std::string (*ask)();
};

const Question in_one_process[] = {
    // Error codes
    {"error 0", error_text<cudaSuccess>},
    {"error 1", error_text<cudaErrorInvalidValue>},
    {"error 2", error_text<cudaErrorMemoryAllocation>},
    {"error 9", error_text<cudaErrorInvalidConfiguration>},
    {"error 12", error_text<cudaErrorInvalidPitchValue>},
    {"error 13", error_text<cudaErrorInvalidSymbol>},
    {"error 21", error_text<cudaErrorInvalidMemcpyDirection>},
    {"error 35", error_text<cudaErrorInsufficientDriver>},
    {"error 100", error_text<cudaErrorNoDevice>},
    {"error 101", error_text<cudaErrorInvalidDevice>},
    {"error 400", error_text<cudaErrorInvalidResourceHandle>},
    {"error 600", error_text<cudaErrorNotReady>},
    {"error 700", error_text<cudaErrorIllegalAddress>},
    {"error 701", error_text<cudaErrorLaunchOutOfResources>},
    {"error 702", error_text<cudaErrorLaunchTimeout>},
    {"error 710", error_text<cudaErrorAssert>},
    {"error 715", error_text<cudaErrorIllegalInstruction>},
    {"error 716", error_text<cudaErrorMisalignedAddress>},
    {"error 719", error_text<cudaErrorLaunchFailure>},
    {"error 801", error_text<cudaErrorNotSupported>},
    {"error 12345", unknown_error},

    // Launches
    {"block of 1024 threads", [] { return launch(1, 1024); }},
    {"block of 1025 threads", [] { return launch(1, 1025); }},
    {"block of 32 x 32 x 2", [] { return launch(1, dim3(32, 32, 2)); }},
    {"block of 1 x 1 x 64", [] { return launch(1, dim3(1, 1, 64)); }},
    {"block of 1 x 1 x 65", [] { return launch(1, dim3(1, 1, 65)); }},
    {"block of no threads", [] { return launch(1, 0); }},
    {"grid of no blocks", [] { return launch(0, 32); }},
    {"grid of 1 x 65535", [] { return launch(dim3(1, 65535), 1); }},
    {"grid of 1 x 65536", [] { return launch(dim3(1, 65536), 1); }},
    {"grid of 1 x 1 x 65536", [] { return launch(dim3(1, 1, 65536), 1); }},
    {"grid of 2^31 blocks", [] { return launch(0x80000000u, 1); }},
    {"Peek and Get after a bad launch", peek_and_get},
    {"Synchronize after a bad launch", synchronize_after_bad_launch},
    {"good launch after a bad one", good_launch_after_bad},
    {"bad copy after a bad launch", two_errors},
    {"bad launch seen from another thread", error_of_another_thread},
    {"dynamic shared memory of 48 KiB",
     [] { return launch_dynamic_shared(dynamic_shared, 48 << 10); }},
    {"dynamic shared memory of 48 KiB and 4 bytes",
     [] { return launch_dynamic_shared(dynamic_shared, (48 << 10) + 4); }},
    {"dynamic shared memory of 1 MiB",
     [] { return launch_dynamic_shared(dynamic_shared, 1 << 20); }},
    {"cudaFuncSetAttribute for 64 KiB", opt_in},
    {"cudaFuncSetAttribute of a template kernel", opt_in_of_a_template},
    {"cudaFuncSetAttribute for 1 MiB", opt_in_too_large},
    {"32 KiB of static and 16 of dynamic shared memory", static_plus_dynamic},
    {"32 KiB of static and 16 bytes more of dynamic shared memory",
     static_plus_too_much_dynamic},
    {"block larger than its __launch_bounds__", past_the_launch_bounds},

    // Arguments of a launch
    {"struct argument changed after the launch", argument_by_value},
    {"arguments are evaluated", argument_evaluation},
    {"arguments are converted", argument_conversion},

    // The device
    {"cudaSetDevice(9999)", [] { return set_device(9999); }},
    {"cudaSetDevice(-1)", [] { return set_device(-1); }},
    {"attribute that does not exist", no_such_attribute},
    {"properties of a device that does not exist", properties_of_no_device},
    {"limits of a block", limits_of_a_block},
    {"limits of a grid", limits_of_a_grid},
    {"properties and attributes", properties_and_attributes},

    // Memory
    {"cudaMalloc of 2^50 bytes", too_much_memory},
    {"cudaMalloc of 0 bytes", no_memory},
    {"cudaMalloc aligns to", alignment},
    {"cudaFree(nullptr)", [] { return text(cudaFree(nullptr)); }},
    {"cudaFree of a host pointer", free_host_pointer},
    {"cudaFree twice", free_twice},
    {"cudaFree inside an allocation", free_inside},
    {"cudaFreeHost of a host pointer", free_host_of_malloc},
    {"copy one byte too long", copy_too_long},
    {"copy 64 MiB too long", copy_far_too_long},
    {"copy of kind 9", copy_of_unknown_kind},
    {"copy to device, kind HostToDevice",
     [] { return copy(true, false, cudaMemcpyHostToDevice); }},
    {"copy to device, kind DeviceToHost",
     [] { return copy(true, false, cudaMemcpyDeviceToHost); }},
    {"copy to device, kind DeviceToDevice",
     [] { return copy(true, false, cudaMemcpyDeviceToDevice); }},
    {"copy to host, kind HostToDevice",
     [] { return copy(false, true, cudaMemcpyHostToDevice); }},
    {"copy from device to device, kind HostToDevice",
     [] { return copy(true, true, cudaMemcpyHostToDevice); }},
    {"copy from device to device, kind DeviceToHost",
     [] { return copy(true, true, cudaMemcpyDeviceToHost); }},
    {"copy from device to host, kind HostToHost",
     [] { return copy(false, true, cudaMemcpyHostToHost); }},
    {"copy from host to host, kind HostToHost",
     [] { return copy(false, false, cudaMemcpyHostToHost); }},
    {"copy to host, kind Default", [] { return copy(false, true, cudaMemcpyDefault); }},
    {"copy from a null pointer", copy_from_null},
    {"copy from freed memory", copy_from_freed},
    {"cudaMemset of an int to 1", set_bytes},
    {"cudaMemset too long", set_too_long},
    {"cudaMemset of host memory", set_host_memory},
    {"pitched memory", pitch},
    {"pinned memory in a kernel", pinned_memory},
    {"managed memory", managed_memory},
    {"kinds of pointers", pointer_kinds},
    {"write one past the end", one_past_the_end},

    // Variables on the device
    {"constants and device variables", symbols},
    {"copies to part of a variable", symbol_offsets},
    {"address and size of a variable", symbol_addresses},
    {"managed variable", managed_variable},
    {"constants changed between two launches", symbol_copy_between_launches},

    // Streams and events
    {"launch returns before its kernel ends", launch_returns_early},
    {"cudaErrorNotReady and the last error", not_ready_is_no_error},
    {"copy right after a kernel", copy_waits_for_the_kernel},
    {"asynchronous copy to pinned memory", async_copy},
    {"asynchronous copy from pageable memory", async_copy_of_pageable},
    {"order in a stream", order_in_a_stream},
    {"order between streams by an event", order_between_streams},
    {"default stream after another", default_stream_waits},
    {"stream destroyed while it works", destroyed_stream},
    {"host function in a stream", host_function},
    {"cudaMallocAsync and cudaFreeAsync", memory_in_stream_order},
    {"graph captured from a stream", graph},
    {"event before and after", event_before_and_after},
    {"event never recorded", event_never_recorded},
    {"event that is null", event_that_is_null},
    {"elapsed time", elapsed_time},
    {"elapsed time asked too early", elapsed_time_too_early},
    {"elapsed time of an event without timing", elapsed_time_without_timing},

    // Threads and barriers
    {"order of the threads of a block", thread_numbers},
    {"every thread of every block runs once", every_thread_once},
    {"half the block returns before a barrier", [] { return return_before_a_barrier(128); }},
    {"half a warp returns before a barrier", [] { return return_before_a_barrier(32); }},
    {"barriers in a loop", barriers_in_a_loop},
    {"__syncthreads_count, _and, _or of 48 threads",
     [] { return list(results(counting_barriers, 3, 1, 64)); }},
    {"shared array of a template kernel", shared_array_of_a_template},

    // Warps
    {"__shfl_sync from lane 3", [] { return by_thread(shuffle); }},
    {"__shfl_sync from lane 35", [] { return by_thread(shuffle_35); }},
    {"__shfl_sync from lane 3, width 8", [] { return by_thread(shuffle_by_8); }},
    {"__shfl_down_sync by 4", [] { return by_thread(shuffle_down); }},
    {"__shfl_down_sync by 4, width 8", [] { return by_thread(shuffle_down_by_8); }},
    {"__shfl_up_sync by 4", [] { return by_thread(shuffle_up); }},
    {"__shfl_xor_sync by 1", [] { return by_thread(shuffle_xor); }},
    {"__shfl_xor_sync by 16, width 16", [] { return by_thread(shuffle_xor_by_16); }},
    {"shuffle among the lower 16 lanes", [] { return by_thread(shuffle_lower_half); }},
    {"shuffles in both branches", [] { return by_thread(shuffle_both_branches); }},
    {"shuffles of double, long long and float",
     [] { return hex_list(results(shuffle_types, 3, 1, 32)); }},
    {"shuffle in a block of 48", [] { return by_thread(shuffle_in_half_a_warp, 48); }},
    {"ballot when 12 lanes have returned",
     [] { return hex_list(results(ballot_after_return, 1, 1, 32)); }},
    {"ballot, any and all", [] { return hex_list(results(votes, 5, 1, 32)); }},
    {"match_any and match_all", [] { return hex_list(results(match, 7, 1, 32)); }},
    {"reduce add, min, max, and, or, xor", [] { return list(results(reductions, 7, 1, 32)); }},
    {"__syncwarp", [] { return by_thread(syncwarp); }},
    {"__activemask in a branch", [] { return hex_list(results(active_mask, 1, 1, 32)); }},

    // Atomics
    {"atomicAdd of int", atomic_add<int>},
    {"atomicAdd of unsigned", atomic_add<unsigned>},
    {"atomicAdd of unsigned long long", atomic_add<unsigned long long>},
    {"atomicAdd of float", atomic_add<float>},
    {"atomicAdd of double", atomic_add<double>},
    {"atomicAdd of half", atomic_add_16_bit<__half>},
    {"atomicAdd of bfloat16", atomic_add_16_bit<__nv_bfloat16>},
    {"atomicSub, Min, Max, And, Or, Xor, Exch",
     [] { return list(results(other_atomics, 8, 1, 1)); }},
    {"atomicMax of -1, int and unsigned, and atomicMin of long long",
     [] { return list(results(atomics_of_signs, 3, 1, 1)); }},
    {"atomicInc and atomicDec up to 2", [] { return list(results(atomics_that_wrap, 10, 1, 1)); }},
    {"atomicCAS", [] { return list(results(compare_and_swap, 6, 1, 1)); }},
    {"atomicCAS in a loop", compare_and_swap_loop},
    {"last block after __threadfence", last_block},

    // Arithmetic
    {"floats at the edge", floats_at_the_edge},
    {"fast functions", fast_functions},
    {"bit functions", [] { return list(results(bit_functions, 10, 1, 1)); }},
    {"bits of floats", [] { return list(results(bit_casts, 4, 1, 1)); }},
    {"casts and shifts out of range", undefined_casts_and_shifts},

    // Half and bfloat16
    {"half of 2049, 2051, 65519, 65520, -1e9",
     [] { return rounded<__half>({2049, 2051, 65519, 65520, -1e9f}); }},
    {"half of 0.75, 1, 1.5, 2.5 times 2^-24",
     [] { return rounded<__half>({0x0.cp-24f, 0x1p-24f, 0x1.8p-24f, 0x2.8p-24f}); }},
    {"half of 2^-25, a bit more, -0, NaN",
     [] { return rounded<__half>({0x1p-25f, 0x1.01p-25f, -0.0f, NAN}); }},
    {"bfloat16 of 257, 259, the largest float, 2^-133, 2^-134, NaN",
     [] {
         return rounded<__nv_bfloat16>(
             {257, 259, std::numeric_limits<float>::max(), 0x1p-133f, 0x1p-134f, NAN});
     }},
    {"every half as a float and back", [] { return all_patterns(half_patterns, 0x7c00); }},
    {"every bfloat16 as a float and back", [] { return all_patterns(bfloat16_patterns, 0x7f80); }},
    {"floats rounded to the nearest half, ties to even",
     [] { return rounding<__half>(11, -14, 65520); }},
    {"floats rounded to the nearest bfloat16, ties to even",
     [] { return rounding<__nv_bfloat16>(8, -126, 0x1.ffp127); }},
    {"arithmetic of half", sums_and_products<__half>},
    {"arithmetic of bfloat16", sums_and_products<__nv_bfloat16>},
    {"arithmetic of half2", [] { return list(results(half_pairs, 8, 1, 1)); }},

    // Matrix products of a warp
    {"WMMA half, A by rows, B by rows", product<__half, __half, float, true, true, true>},
    {"WMMA half, A by rows, B by columns", product<__half, __half, float, true, false, true>},
    {"WMMA half, A by columns, C by columns", product<__half, __half, float, false, true, false>},
    {"WMMA half, sums in half", product<__half, __half, __half, true, false, true>},
    {"WMMA bfloat16",
     product<__nv_bfloat16, __nv_bfloat16, float, true, false, true>},
    {"WMMA tf32 16 x 16 x 8", product<wmma::precision::tf32, float, float, true, true, true, 8>},
    {"WMMA tf32, B by columns",
     product<wmma::precision::tf32, float, float, true, false, false, 8>},
    {"WMMA signed char", product<signed char, signed char, int, true, false, true>},
    {"WMMA unsigned char", product<unsigned char, unsigned char, int, false, true, true>},
    {"__float_to_tf32 of ties", [] { return list(results(to_tf32, 4, 1, 1)); }},

    // Cooperative groups and pipelines
    {"ranks and sizes of groups", [] { return list(results(groups, 6, 1, dim3(8, 4))); }},
    {"sums, ballots and votes of tiles of 8", [] { return by_thread(tiles); }},
    {"barriers of groups", barriers_of_groups},
    {"pipeline of two stages", two_stages},
    {"pipeline copy of 8 of 16 bytes", copy_filled_with_zeros},

    // Output of a kernel
    {"printf", printed},
    {"printf without a synchronise", printed_before_a_synchronise},
    {"printf of 1024 threads", printed_by_all},
    {"printf returns", result_of_printf},
};

const Question each_in_its_own[] = {
    {"kernel writes far out of bounds", far_out_of_bounds},
    {"kernel writes through a null pointer", null_pointer},
    {"last error after such a fault", last_error_afterwards},
    {"calls after such a fault", calls_afterwards},
    {"launches after such a fault", launch_afterwards},
    {"cudaDeviceReset after such a fault", reset_afterwards},
    {"cudaDeviceReset without one", reset_without_an_error},
    {"fault with CUDA_LAUNCH_BLOCKING=1", blocking_launches},
    {"host pointer in a kernel", host_pointer_in_a_kernel},
    {"device pointer on the host", device_pointer_on_the_host},
    {"float4 loaded from a misaligned address", misaligned},
    {"index far out of a shared array", far_out_of_shared_memory},
    {"recursion three calls deep", stack_within},
    {"recursion a million calls deep", stack_overflow},
    {"integer division by zero", integer_division_by_zero},
    {"assert", assertion},
    {"calls after an assert", after_an_assertion},
    {"__trap", trapped},
};

// False when a step before the question failed, so that it was not asked.
bool answer(const Question& question)
{
    std::fprintf(stderr, "%s\n", question.name);
    std::printf("%s: ", question.name);
    std::fflush(stdout);
    bool asked = true;
    std::string answer;
    try {
        answer = question.ask();
    } catch (const std::exception& error) {
        answer = error.what();
        asked = false;
    }
    std::puts(answer.c_str());
    std::fflush(stdout);
    return asked;
}

const Question* find(const std::string& name)
{
    for (const Question& question : in_one_process)
        if (name == question.name)
            return &question;
    for (const Question& question : each_in_its_own)
        if (name == question.name)
            return &question;
    return nullptr;
}

// Stops where the process can do no more work.
int answer_all(const char* const* names)
{
    bool asked = true;
    for (; *names; ++names) {
        const Question* const question = find(*names);
        if (!question) {
            std::fprintf(stderr, "no question has the name '%s'\n", *names);
            return 2;
        }
        asked = answer(*question) && asked;
        cudaGetLastError();
        if (const cudaError_t status = cudaDeviceSynchronize()) {
            std::fprintf(stderr, "    from here on: %s\n", cudaGetErrorName(status));
            break;
        }
    }
    return asked ? EXIT_SUCCESS : EXIT_FAILURE;
}

// Asks these questions in a new process, which is this program with their names as arguments,
// and passes on its answers. A line in the middle of which the process dies is completed here.
struct Process {
    size_t answers = 0;
    bool died = false, failed = false;

    Process(const char* program, std::vector<const char*> arguments)
    {
        arguments.insert(arguments.begin(), program);
        arguments.push_back(nullptr);
        int ends[2];
        std::fflush(stdout);
        const pid_t child = pipe(ends) == 0 ? fork() : -1;
        if (child < 0)
            throw std::runtime_error(std::strerror(errno));
        if (child == 0) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            close(ends[1]);
            alarm(seconds_for_a_process);
            execv(program, const_cast<char* const*>(arguments.data()));
            std::perror(program);
            _exit(127);
        }
        close(ends[1]);
        std::FILE* const lines = fdopen(ends[0], "r");
        for (int c; (c = std::fgetc(lines)) != EOF;) {
            std::putchar(c);
            answers += c == '\n';
        }
        std::fclose(lines);
        int status = 0;
        waitpid(child, &status, 0);
        died = WIFSIGNALED(status);
        failed = status != 0;
        if (died && WTERMSIG(status) == SIGALRM)
            std::printf("no answer within %u s\n", seconds_for_a_process);
        else if (died)
            std::printf("the process dies of signal %d\n", WTERMSIG(status));
        answers += died;
    }
};

int main(int argc, char** argv)
{
    if (argc > 1)
        return answer_all(argv + 1);

    std::vector<std::vector<const char*>> groups(1);
    for (const Question& question : in_one_process)
        groups[0].push_back(question.name);
    for (const Question& question : each_in_its_own)
        groups.push_back({question.name});

    bool failed = false;
    for (std::vector<const char*>& names : groups)
        while (!names.empty()) {
            const Process process(argv[0], names);
            if (process.answers == 0)
                return EXIT_FAILURE;
            failed = failed || process.failed;
            names.erase(names.begin(), names.begin() + process.answers);
        }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
