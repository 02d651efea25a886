// The CPU device's stand-in for CUDA's header of this name: matrix products of a warp.
//
// The shapes are those that all types share: 16×16×16 of half, bfloat16 and 8-bit integers, and
// 16×16×8 of tf32. Which lane holds which element is nobody's business, on a GPU as well; here a
// lane holds consecutive elements of a row.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

#include <type_traits>

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
struct tf32 {};
struct u4 {};
struct s4 {};
struct b1 {};
} // namespace precision

// How many elements a lane holds; 0: no such fragment.
template <class Use, int m, int n, int k, class T>
__host__ __device__ constexpr int elements_of_lane()
{
    constexpr bool cube = m == 16 && n == 16 && k == 16;
    constexpr bool tf32 = m == 16 && n == 16 && k == 8;
    if (std::is_same_v<Use, accumulator>) {
        const bool real = std::is_same_v<T, float>;
        const bool other = std::is_same_v<T, __half> || std::is_same_v<T, int>;
        return (cube && (real || other)) || (tf32 && real) ? 8 : 0;
    }
    if (std::is_same_v<T, __half>)
        return cube ? 16 : 0; // each element is held twice
    if (std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, signed char> ||
        std::is_same_v<T, unsigned char>)
        return cube ? 8 : 0;
    if (std::is_same_v<T, precision::tf32>)
        return tf32 ? 4 : 0;
    return 0;
}

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
    static_assert(elements_of_lane<Use, m, n, k, T>() != 0,
                  "the CPU device has matrix products of 16x16x16 half, bfloat16, signed char and "
                  "unsigned char and of 16x16x8 tf32; other shapes and types need a GPU");
    static_assert(std::is_same_v<Use, accumulator> || std::is_same_v<Layout, row_major> ||
                      std::is_same_v<Layout, col_major>,
                  "a fragment of A or B is row_major or col_major");

    using element_type = T;
    using storage_element_type = std::conditional_t<std::is_same_v<T, precision::tf32>, float, T>;
    static constexpr int num_elements = elements_of_lane<Use, m, n, k, T>();
    static constexpr int num_storage_elements = num_elements;

    storage_element_type x[num_elements];

    // Not CUDA's: the shape of this operand.
    static constexpr int rows = std::is_same_v<Use, matrix_b> ? k : m;
    static constexpr int columns = std::is_same_v<Use, matrix_a> ? k : n;
};

// The position, counted row by row, of element i of a lane
template <class Fragment>
__device__ int position(int lane, int i)
{
    return (lane * Fragment::num_elements + i) % (Fragment::rows * Fragment::columns);
}

template <class Use, int m, int n, int k, class T, class Layout, class Value>
__device__ void fill_fragment(fragment<Use, m, n, k, T, Layout>& f, const Value& value)
{
    for (auto& element : f.x)
        element = value;
}

namespace cpu_device_only {

template <class Fragment, class T>
__device__ void load(Fragment& f, const T* p, unsigned ld, bool by_rows)
{
    const int lane = int(cpu_device::lane());
    for (int i = 0; i < f.num_elements; ++i) {
        const int at = position<Fragment>(lane, i);
        const size_t row = at / Fragment::columns, column = at % Fragment::columns;
        f.x[i] = by_rows ? p[row * ld + column] : p[column * ld + row];
    }
}

// What a product takes of a fragment: floats, or integers. Of a float tf32 uses 19 bits.
template <class T>
__device__ auto operand(T value)
{
    if constexpr (std::is_integral_v<T>)
        return int(value);
    else if constexpr (std::is_same_v<T, float>)
        return __uint_as_float(__float_as_uint(value) & 0xFFFFE000u);
    else
        return float(value);
}

template <class Fragment>
struct Operand {
    using Value = decltype(operand(Fragment().x[0]));
    Value x[Fragment::num_elements];

    __device__ explicit Operand(const Fragment& f)
    {
        for (int i = 0; i < f.num_elements; ++i)
            x[i] = operand(f.x[i]);
    }
};

} // namespace cpu_device_only

template <class Use, int m, int n, int k, class T, class Layout, class Memory>
__device__ void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f, const Memory* p, unsigned ld)
{
    cpu_device_only::load(f, p, ld, std::is_same_v<Layout, row_major>);
}

template <int m, int n, int k, class T>
__device__ void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* p, unsigned ld,
                                 layout_t layout)
{
    cpu_device_only::load(f, p, ld, layout == mem_row_major);
}

template <int m, int n, int k, class T>
__device__ void store_matrix_sync(T* p, const fragment<accumulator, m, n, k, T>& f, unsigned ld,
                                  layout_t layout)
{
    using Fragment = fragment<accumulator, m, n, k, T>;
    const int lane = int(cpu_device::lane());
    for (int i = 0; i < f.num_elements; ++i) {
        const int at = position<Fragment>(lane, i);
        const size_t row = at / Fragment::columns, column = at % Fragment::columns;
        (layout == mem_row_major ? p[row * ld + column] : p[column * ld + row]) = f.x[i];
    }
}

// d = a·b + c. Every lane shows its parts of A and B to the others and works out its elements of
// the result, which lie in one row.
template <int m, int n, int k, class D, class T, class LayoutA, class LayoutB, class C>
__device__ void mma_sync(fragment<accumulator, m, n, k, D>& d,
                         const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                         const fragment<matrix_b, m, n, k, T, LayoutB>& b,
                         const fragment<accumulator, m, n, k, C>& c, bool saturate = false,
                         unsigned line = __builtin_LINE())
{
    using FragmentA = fragment<matrix_a, m, n, k, T, LayoutA>;
    using FragmentB = fragment<matrix_b, m, n, k, T, LayoutB>;
    using FragmentD = fragment<accumulator, m, n, k, D>;
    using OperandA = cpu_device_only::Operand<FragmentA>;
    using OperandB = cpu_device_only::Operand<FragmentB>;
    using Sum = std::conditional_t<std::is_same_v<D, int>, long long, float>;
    static_assert(std::is_same_v<D, int> == std::is_integral_v<T>,
                  "products of integers are summed in int, others in float or half");
    struct Parts {
        OperandA a;
        OperandB b;
    };

    const Parts mine{OperandA(a), OperandB(b)};
    const cpu_device::Met met =
        cpu_device::meet(~0u, cpu_device::to_bits(&mine), "mma_sync()", line, true);
    const auto parts = [&](int lane) {
        return cpu_device::from_bits<const Parts*>(met.values[lane]);
    };

    const int first = position<FragmentD>(int(cpu_device::lane()), 0);
    const int row = first / n, column = first % n;
    Sum sum[FragmentD::num_elements];
    for (int i = 0; i < d.num_elements; ++i)
        sum[i] = Sum(c.x[i]);
    constexpr int step = FragmentB::num_elements < 8 ? FragmentB::num_elements : 8;
    for (int inner = 0; inner < k; ++inner) {
        const int at_a = row * k + inner;
        const auto left = parts(at_a / a.num_elements)->a.x[at_a % a.num_elements];
        for (int start = 0; start < d.num_elements; start += step) {
            const int at_b = inner * n + column + start;
            const auto* const right = &parts(at_b / b.num_elements)->b.x[at_b % b.num_elements];
            for (int i = 0; i < step; ++i)
                sum[start + i] += left * right[i];
        }
    }
    cpu_device::meet(~0u, 0, "mma_sync()", line, true); // nobody needs `mine` any more
    for (int i = 0; i < d.num_elements; ++i) {
        if constexpr (std::is_same_v<D, int>) {
            constexpr long long most = 2147483647;
            const long long limited = sum[i] > most        ? most
                                      : sum[i] < -most - 1 ? -most - 1
                                                           : sum[i];
            d.x[i] = int(saturate ? limited : sum[i]);
        } else {
            d.x[i] = sum[i];
        }
    }
}

// To the nearest number of tf32, with 10 bits of fraction; a tie goes away from zero.
__device__ inline float __float_to_tf32(float value)
{
    return value != value ? value
                          : __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xFFFFE000u);
}

} // namespace wmma
} // namespace nvcuda
