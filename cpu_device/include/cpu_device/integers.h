// Integer functions, and conversions between numbers and bits.
#pragma once

#include "words.h"

#include <cstdint>
#include <cstring>
#include <limits.h>

// Bits

__device__ inline int __popc(unsigned x) { return __builtin_popcount(x); }
__device__ inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__device__ inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
__device__ inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
__device__ inline int __ffs(int x) { return __builtin_ffs(x); }
__device__ inline int __ffsll(long long x) { return __builtin_ffsll(x); }

__device__ inline unsigned __brev(unsigned x)
{
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit)
        reversed |= (x >> bit & 1) << (31 - bit);
    return reversed;
}

__device__ inline unsigned long long __brevll(unsigned long long x)
{
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}

__device__ inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> 4 * i & 0xF;
        unsigned byte = bytes >> 8 * (pick & 7) & 0xFF;
        if (pick & 8) // its sign alone
            byte = byte & 0x80 ? 0xFF : 0;
        result |= byte << 8 * i;
    }
    return result;
}

__device__ inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}

__device__ inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}

__device__ inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift)
{
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}

__device__ inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift)
{
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// Arithmetic

__device__ inline int __mul24(int x, int y)
{
    return int(unsigned(x << 8 >> 8) * unsigned(y << 8 >> 8));
}
__device__ inline unsigned __umul24(unsigned x, unsigned y)
{
    return (x & 0xFFFFFF) * (y & 0xFFFFFF);
}
__device__ inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
__device__ inline unsigned __umulhi(unsigned x, unsigned y)
{
    return unsigned((unsigned long long)x * y >> 32);
}
__device__ inline long long __mul64hi(long long x, long long y)
{
    return (long long)((__int128)x * y >> 64);
}
__device__ inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
__device__ inline unsigned __sad(int x, int y, unsigned z)
{
    return z + unsigned(x > y ? (long long)x - y : (long long)y - x);
}
__device__ inline unsigned __usad(unsigned x, unsigned y, unsigned z)
{
    return z + (x > y ? x - y : y - x);
}
__device__ inline int __hadd(int x, int y) { return int(((long long)x + y) >> 1); }
__device__ inline int __rhadd(int x, int y) { return int(((long long)x + y + 1) >> 1); }
__device__ inline unsigned __uhadd(unsigned x, unsigned y)
{
    return unsigned(((unsigned long long)x + y) >> 1);
}
__device__ inline unsigned __urhadd(unsigned x, unsigned y)
{
    return unsigned(((unsigned long long)x + y + 1) >> 1);
}

// Four products of bytes and their sum
__device__ inline int __dp4a(int a, int b, int c)
{
    unsigned sum = unsigned(c);
    for (int i = 0; i < 32; i += 8)
        sum += unsigned(int(int8_t(a >> i)) * int(int8_t(b >> i)));
    return int(sum);
}

__device__ inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 32; i += 8)
        c += (a >> i & 0xFF) * (b >> i & 0xFF);
    return c;
}

// The same bits as another type

namespace cpu_device {

template <class To, class From>
__device__ To same_bits(From value)
{
    static_assert(sizeof(To) == sizeof(From), "");
    To bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

} // namespace cpu_device

__device__ inline int __float_as_int(float x) { return cpu_device::same_bits<int>(x); }
__device__ inline unsigned __float_as_uint(float x) { return cpu_device::same_bits<unsigned>(x); }
__device__ inline float __int_as_float(int x) { return cpu_device::same_bits<float>(x); }
__device__ inline float __uint_as_float(unsigned x) { return cpu_device::same_bits<float>(x); }
__device__ inline long long __double_as_longlong(double x)
{
    return cpu_device::same_bits<long long>(x);
}
__device__ inline double __longlong_as_double(long long x)
{
    return cpu_device::same_bits<double>(x);
}
__device__ inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
__device__ inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
__device__ inline double __hiloint2double(int high, int low)
{
    return __longlong_as_double(
        (long long)((unsigned long long)unsigned(high) << 32 | unsigned(low)));
}

// From floating point to integer, rounded to nearest even, towards zero, down or up. What does not
// fit becomes the nearest that does, and NaN becomes 0.

namespace cpu_device {

template <class Integer>
__host__ __device__ Integer to_integer(double rounded, Integer least, Integer most)
{
    if (rounded != rounded)
        return 0;
    if (rounded <= double(least))
        return least;
    return rounded >= double(most) ? most : Integer(rounded);
}

} // namespace cpu_device

#define CPU_DEVICE_TO_INTEGER(name, from, to, least, most)                                         \
    CPU_DEVICE_ROUND_TO_INTEGER(name##_rn, from, to, least, most, __builtin_nearbyint)             \
    CPU_DEVICE_ROUND_TO_INTEGER(name##_rz, from, to, least, most, __builtin_trunc)                 \
    CPU_DEVICE_ROUND_TO_INTEGER(name##_rd, from, to, least, most, __builtin_floor)                 \
    CPU_DEVICE_ROUND_TO_INTEGER(name##_ru, from, to, least, most, __builtin_ceil)

#define CPU_DEVICE_ROUND_TO_INTEGER(name, from, to, least, most, round)                            \
    __device__ inline to name(from x)                                                              \
    {                                                                                              \
        return cpu_device::to_integer<to>(round(double(x)), least, most);                          \
    }

CPU_DEVICE_TO_INTEGER(__float2int, float, int, INT_MIN, INT_MAX)
CPU_DEVICE_TO_INTEGER(__float2uint, float, unsigned, 0, UINT_MAX)
CPU_DEVICE_TO_INTEGER(__float2ll, float, long long, LLONG_MIN, LLONG_MAX)
CPU_DEVICE_TO_INTEGER(__float2ull, float, unsigned long long, 0, ULLONG_MAX)
CPU_DEVICE_TO_INTEGER(__double2int, double, int, INT_MIN, INT_MAX)
CPU_DEVICE_TO_INTEGER(__double2uint, double, unsigned, 0, UINT_MAX)
CPU_DEVICE_TO_INTEGER(__double2ll, double, long long, LLONG_MIN, LLONG_MAX)
CPU_DEVICE_TO_INTEGER(__double2ull, double, unsigned long long, 0, ULLONG_MAX)
#undef CPU_DEVICE_TO_INTEGER
#undef CPU_DEVICE_ROUND_TO_INTEGER

__device__ inline float __int2float_rn(int x) { return float(x); }
__device__ inline float __uint2float_rn(unsigned x) { return float(x); }
__device__ inline float __ll2float_rn(long long x) { return float(x); }
__device__ inline float __ull2float_rn(unsigned long long x) { return float(x); }
__device__ inline double __int2double_rn(int x) { return double(x); }
__device__ inline double __uint2double_rn(unsigned x) { return double(x); }
__device__ inline double __ll2double_rn(long long x) { return double(x); }
__device__ inline double __ull2double_rn(unsigned long long x) { return double(x); }
__device__ inline float __double2float_rn(double x) { return float(x); }
