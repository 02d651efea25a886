// 16-bit floating point: half, with 5 bits of exponent and 10 of fraction, and bfloat16, with 8
// and 7. Arithmetic is done in float or double and rounded once, as a GPU does it.
#pragma once

#include "atomics.h"
#include "integers.h"
#include "vector_types.h"
#include "words.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cpu_device {

enum class Rounding { nearest, towards_zero, down, up };

// To the nearest, a tie goes to the number whose last bit is 0.
template <int exponent_bits, int fraction_bits>
__host__ __device__ uint16_t narrow(double value, Rounding rounding)
{
    constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    constexpr unsigned infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const unsigned sign = unsigned(bits >> 63) << 15;
    if (value != value)
        return 0x7FFF;
    if (std::isinf(value))
        return uint16_t(sign | infinity);

    // The significand is cut off at the last bit that the result can hold, for a subnormal one
    // further left. What is cut off decides the rounding.
    const int exponent = int(bits >> 52 & 0x7FF) - 1023;
    const int below_normal = exponent < 1 - bias ? 1 - bias - exponent : 0;
    const int cut = 52 - fraction_bits + below_normal;
    const uint64_t significand = exponent == -1023 ? 0 : (1ull << 52) | (bits & ((1ull << 52) - 1));
    const uint64_t kept = cut < 64 ? significand >> cut : 0;
    const uint64_t rest = cut < 64 ? significand & ((1ull << cut) - 1) : significand;
    const bool lost = rest != 0 || (exponent == -1023 && value != 0);
    bool up = false;
    switch (rounding) {
    case Rounding::nearest:
        if (cut < 64) {
            const uint64_t half = 1ull << (cut - 1);
            up = rest > half || (rest == half && (kept & 1));
        }
        break;
    case Rounding::towards_zero:
        break;
    case Rounding::down:
        up = lost && sign;
        break;
    case Rounding::up:
        up = lost && !sign;
        break;
    }
    // A carry out of the fraction makes the exponent one larger, which is just right.
    uint64_t magnitude = kept + up;
    if (!below_normal)
        magnitude += uint64_t(exponent + bias - 1) << fraction_bits;
    if (exponent > bias || magnitude >= infinity) {
        const bool to_infinity =
            rounding == Rounding::nearest || rounding == (sign ? Rounding::down : Rounding::up);
        magnitude = to_infinity ? infinity : infinity - 1;
    }
    return uint16_t(sign | magnitude);
}

template <int exponent_bits, int fraction_bits>
__host__ __device__ float widen(uint16_t bits)
{
    constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    const uint32_t sign = uint32_t(bits & 0x8000) << 16;
    const uint32_t magnitude = uint32_t(bits & 0x7FFF) << (23 - fraction_bits);
    constexpr uint32_t infinity = ((1u << exponent_bits) - 1) << 23;
    uint32_t wide = magnitude;
    if (exponent_bits < 8) {
        if (magnitude >= infinity) {
            wide += (255u - ((1u << exponent_bits) - 1)) << 23;
        } else if (magnitude >= 1u << 23) {
            wide += uint32_t(127 - bias) << 23;
        } else { // subnormal: a whole number of the smallest unit
            const float value = float(bits & 0x7FFF) * (1.0f / (1 << (bias - 1 + fraction_bits)));
            std::memcpy(&wide, &value, sizeof wide);
        }
    }
    wide |= sign;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

// a·b + c, with the last bit of the sum made odd when it is not exact: then to round it again does
// the same as to round once.
__host__ __device__ inline double fused(double a, double b, double c)
{
    const double product = a * b; // exact: each has at most 11 bits
    const double sum = product + c;
    const double other = sum - product;
    const double error = (product - (sum - other)) + (c - other);
    uint64_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    if (error == 0 || error != error || (bits & 1))
        return sum;
    bits += (error > 0) == (sum > 0) ? 1 : -1;
    double odd;
    std::memcpy(&odd, &bits, sizeof odd);
    return odd;
}

template <int exponent_bits, int fraction_bits>
struct Narrow {
    uint16_t bits;

    struct Raw {
        unsigned short x;
    };

    Narrow() = default;
    __host__ __device__ Narrow(Raw raw) : bits(raw.x) {}
    template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
    __host__ __device__ Narrow(Number value) : Narrow(value, Rounding::nearest)
    {
    }
    template <class Number>
    __host__ __device__ Narrow(Number value, Rounding rounding)
        : bits(narrow<exponent_bits, fraction_bits>(double(value), rounding))
    {
    }
    template <int e, int f>
    __host__ __device__ explicit Narrow(Narrow<e, f> value) : Narrow(float(value))
    {
    }
    __host__ __device__ operator float() const { return widen<exponent_bits, fraction_bits>(bits); }
    __host__ __device__ operator Raw() const { return {bits}; }

#define CPU_DEVICE_FRIEND __host__ __device__ friend inline
    CPU_DEVICE_FRIEND Narrow operator+(Narrow a, Narrow b) { return float(a) + float(b); }
    CPU_DEVICE_FRIEND Narrow operator-(Narrow a, Narrow b) { return float(a) - float(b); }
    CPU_DEVICE_FRIEND Narrow operator*(Narrow a, Narrow b) { return float(a) * float(b); }
    CPU_DEVICE_FRIEND Narrow operator/(Narrow a, Narrow b) { return float(a) / float(b); }
    CPU_DEVICE_FRIEND Narrow operator+(Narrow a) { return a; }
    CPU_DEVICE_FRIEND Narrow operator-(Narrow a) { return -float(a); }
    CPU_DEVICE_FRIEND Narrow& operator+=(Narrow& a, Narrow b) { return a = a + b; }
    CPU_DEVICE_FRIEND Narrow& operator-=(Narrow& a, Narrow b) { return a = a - b; }
    CPU_DEVICE_FRIEND Narrow& operator*=(Narrow& a, Narrow b) { return a = a * b; }
    CPU_DEVICE_FRIEND Narrow& operator/=(Narrow& a, Narrow b) { return a = a / b; }
    CPU_DEVICE_FRIEND Narrow& operator++(Narrow& a) { return a += Narrow(1.0f); }
    CPU_DEVICE_FRIEND Narrow& operator--(Narrow& a) { return a -= Narrow(1.0f); }
    CPU_DEVICE_FRIEND bool operator==(Narrow a, Narrow b) { return float(a) == float(b); }
    CPU_DEVICE_FRIEND bool operator!=(Narrow a, Narrow b) { return float(a) != float(b); }
    CPU_DEVICE_FRIEND bool operator<(Narrow a, Narrow b) { return float(a) < float(b); }
    CPU_DEVICE_FRIEND bool operator>(Narrow a, Narrow b) { return float(a) > float(b); }
    CPU_DEVICE_FRIEND bool operator<=(Narrow a, Narrow b) { return float(a) <= float(b); }
    CPU_DEVICE_FRIEND bool operator>=(Narrow a, Narrow b) { return float(a) >= float(b); }

    CPU_DEVICE_FRIEND Narrow __hadd(Narrow a, Narrow b) { return a + b; }
    CPU_DEVICE_FRIEND Narrow __hsub(Narrow a, Narrow b) { return a - b; }
    CPU_DEVICE_FRIEND Narrow __hmul(Narrow a, Narrow b) { return a * b; }
    CPU_DEVICE_FRIEND Narrow __hadd_rn(Narrow a, Narrow b) { return a + b; }
    CPU_DEVICE_FRIEND Narrow __hsub_rn(Narrow a, Narrow b) { return a - b; }
    CPU_DEVICE_FRIEND Narrow __hmul_rn(Narrow a, Narrow b) { return a * b; }
    CPU_DEVICE_FRIEND Narrow __hdiv(Narrow a, Narrow b) { return a / b; }
    __device__ friend inline Narrow __hfma(Narrow a, Narrow b, Narrow c)
    {
        return fused(float(a), float(b), float(c));
    }
    CPU_DEVICE_FRIEND Narrow __hneg(Narrow a) { return -a; }
    CPU_DEVICE_FRIEND Narrow __habs(Narrow a) { return std::fabs(float(a)); }
    // A number beats NaN, and -0 is less than 0.
    CPU_DEVICE_FRIEND Narrow __hmax(Narrow a, Narrow b)
    {
        if (a == b)
            return Raw{static_cast<unsigned short>(a.bits & b.bits)};
        return __hisnan(b) || a > b ? Narrow(float(a)) : Narrow(float(b));
    }
    CPU_DEVICE_FRIEND Narrow __hmin(Narrow a, Narrow b)
    {
        if (a == b)
            return Raw{static_cast<unsigned short>(a.bits | b.bits)};
        return __hisnan(b) || a < b ? Narrow(float(a)) : Narrow(float(b));
    }
    CPU_DEVICE_FRIEND Narrow __hmax_nan(Narrow a, Narrow b)
    {
        return __hisnan(a) || __hisnan(b) ? a + b : __hmax(a, b);
    }
    CPU_DEVICE_FRIEND Narrow __hmin_nan(Narrow a, Narrow b)
    {
        return __hisnan(a) || __hisnan(b) ? a + b : __hmin(a, b);
    }
    CPU_DEVICE_FRIEND bool __hisnan(Narrow a) { return std::isnan(float(a)); }
    CPU_DEVICE_FRIEND int __hisinf(Narrow a)
    {
        return std::isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0;
    }
    CPU_DEVICE_FRIEND bool __heq(Narrow a, Narrow b) { return a == b; }
    CPU_DEVICE_FRIEND bool __hne(Narrow a, Narrow b) { return a < b || a > b; }
    CPU_DEVICE_FRIEND bool __hneu(Narrow a, Narrow b) { return a != b; }
    CPU_DEVICE_FRIEND bool __hlt(Narrow a, Narrow b) { return a < b; }
    CPU_DEVICE_FRIEND bool __hle(Narrow a, Narrow b) { return a <= b; }
    CPU_DEVICE_FRIEND bool __hgt(Narrow a, Narrow b) { return a > b; }
    CPU_DEVICE_FRIEND bool __hge(Narrow a, Narrow b) { return a >= b; }

    __device__ friend inline Narrow hexp(Narrow a) { return std::exp(float(a)); }
    __device__ friend inline Narrow hexp2(Narrow a) { return std::exp2(float(a)); }
    __device__ friend inline Narrow hexp10(Narrow a) { return std::pow(10.0f, float(a)); }
    __device__ friend inline Narrow hlog(Narrow a) { return std::log(float(a)); }
    __device__ friend inline Narrow hlog2(Narrow a) { return std::log2(float(a)); }
    __device__ friend inline Narrow hlog10(Narrow a) { return std::log10(float(a)); }
    __device__ friend inline Narrow hsqrt(Narrow a) { return std::sqrt(float(a)); }
    __device__ friend inline Narrow hrsqrt(Narrow a) { return 1 / std::sqrt(float(a)); }
    __device__ friend inline Narrow hrcp(Narrow a) { return 1 / float(a); }
    __device__ friend inline Narrow hsin(Narrow a) { return std::sin(float(a)); }
    __device__ friend inline Narrow hcos(Narrow a) { return std::cos(float(a)); }
    __device__ friend inline Narrow htanh(Narrow a) { return std::tanh(float(a)); }
    __device__ friend inline Narrow hceil(Narrow a) { return std::ceil(float(a)); }
    __device__ friend inline Narrow hfloor(Narrow a) { return std::floor(float(a)); }
    __device__ friend inline Narrow hrint(Narrow a) { return std::nearbyint(float(a)); }
    __device__ friend inline Narrow htrunc(Narrow a) { return std::trunc(float(a)); }

    __device__ friend inline Narrow atomicAdd(Narrow* address, Narrow value)
    {
        return update(address, [=](Narrow old) { return old + value; });
    }
};

// half2 and bfloat162: each function does the same to both halves.
template <class Number>
struct alignas(4) NarrowPair {
    Number x, y;

    NarrowPair() = default;
    __host__ __device__ NarrowPair(Number x_, Number y_) : x(x_), y(y_) {}

    CPU_DEVICE_FRIEND NarrowPair operator+(NarrowPair a, NarrowPair b)
    {
        return {a.x + b.x, a.y + b.y};
    }
    CPU_DEVICE_FRIEND NarrowPair operator-(NarrowPair a, NarrowPair b)
    {
        return {a.x - b.x, a.y - b.y};
    }
    CPU_DEVICE_FRIEND NarrowPair operator*(NarrowPair a, NarrowPair b)
    {
        return {a.x * b.x, a.y * b.y};
    }
    CPU_DEVICE_FRIEND NarrowPair operator/(NarrowPair a, NarrowPair b)
    {
        return {a.x / b.x, a.y / b.y};
    }
    CPU_DEVICE_FRIEND NarrowPair operator-(NarrowPair a) { return {-a.x, -a.y}; }
    CPU_DEVICE_FRIEND NarrowPair& operator+=(NarrowPair& a, NarrowPair b) { return a = a + b; }
    CPU_DEVICE_FRIEND NarrowPair& operator-=(NarrowPair& a, NarrowPair b) { return a = a - b; }
    CPU_DEVICE_FRIEND NarrowPair& operator*=(NarrowPair& a, NarrowPair b) { return a = a * b; }
    CPU_DEVICE_FRIEND NarrowPair& operator/=(NarrowPair& a, NarrowPair b) { return a = a / b; }
    CPU_DEVICE_FRIEND bool operator==(NarrowPair a, NarrowPair b)
    {
        return a.x == b.x && a.y == b.y;
    }
    CPU_DEVICE_FRIEND bool operator!=(NarrowPair a, NarrowPair b)
    {
        return a.x != b.x && a.y != b.y;
    }

    CPU_DEVICE_FRIEND NarrowPair __hadd2(NarrowPair a, NarrowPair b) { return a + b; }
    CPU_DEVICE_FRIEND NarrowPair __hsub2(NarrowPair a, NarrowPair b) { return a - b; }
    CPU_DEVICE_FRIEND NarrowPair __hmul2(NarrowPair a, NarrowPair b) { return a * b; }
    CPU_DEVICE_FRIEND NarrowPair __h2div(NarrowPair a, NarrowPair b) { return a / b; }
    CPU_DEVICE_FRIEND NarrowPair __hneg2(NarrowPair a) { return -a; }
    __device__ friend inline NarrowPair __hfma2(NarrowPair a, NarrowPair b, NarrowPair c)
    {
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
    }
    CPU_DEVICE_FRIEND NarrowPair __hmax2(NarrowPair a, NarrowPair b)
    {
        return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
    }
    CPU_DEVICE_FRIEND NarrowPair __hmin2(NarrowPair a, NarrowPair b)
    {
        return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
    }
    CPU_DEVICE_FRIEND NarrowPair __habs2(NarrowPair a) { return {__habs(a.x), __habs(a.y)}; }
    __device__ friend inline NarrowPair h2exp(NarrowPair a) { return {hexp(a.x), hexp(a.y)}; }
    __device__ friend inline NarrowPair h2log(NarrowPair a) { return {hlog(a.x), hlog(a.y)}; }
    __device__ friend inline NarrowPair h2sqrt(NarrowPair a) { return {hsqrt(a.x), hsqrt(a.y)}; }
    __device__ friend inline NarrowPair h2rsqrt(NarrowPair a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }
    __device__ friend inline NarrowPair h2rcp(NarrowPair a) { return {hrcp(a.x), hrcp(a.y)}; }
    __device__ friend inline NarrowPair h2tanh(NarrowPair a) { return {htanh(a.x), htanh(a.y)}; }
    CPU_DEVICE_FRIEND NarrowPair __lowhigh2highlow(NarrowPair a) { return {a.y, a.x}; }
    CPU_DEVICE_FRIEND float __low2float(NarrowPair a) { return a.x; }
    CPU_DEVICE_FRIEND float __high2float(NarrowPair a) { return a.y; }

    __device__ friend inline NarrowPair atomicAdd(NarrowPair* address, NarrowPair value)
    {
        return update(address, [=](NarrowPair old) { return old + value; });
    }
};
#undef CPU_DEVICE_FRIEND

} // namespace cpu_device

// The functions that have the type in their name
#define CPU_DEVICE_NARROW_NAMES(type, pair, name)                                                  \
    CPU_DEVICE_NARROW_NAME(type, __float2##name, float, nearest)                                   \
    CPU_DEVICE_NARROW_NAME(type, __float2##name##_rn, float, nearest)                              \
    CPU_DEVICE_NARROW_NAME(type, __float2##name##_rz, float, towards_zero)                         \
    CPU_DEVICE_NARROW_NAME(type, __float2##name##_rd, float, down)                                 \
    CPU_DEVICE_NARROW_NAME(type, __float2##name##_ru, float, up)                                   \
    CPU_DEVICE_NARROW_NAME(type, __double2##name, double, nearest)                                 \
    CPU_DEVICE_NARROW_NAME(type, __int2##name##_rn, int, nearest)                                  \
    CPU_DEVICE_NARROW_NAME(type, __int2##name##_rz, int, towards_zero)                             \
    CPU_DEVICE_NARROW_NAME(type, __uint2##name##_rn, unsigned, nearest)                            \
    CPU_DEVICE_NARROW_NAME(type, __short2##name##_rn, short, nearest)                              \
    CPU_DEVICE_NARROW_NAME(type, __ushort2##name##_rn, unsigned short, nearest)                    \
    __host__ __device__ inline float __##name##2float(type a) { return a; }                        \
    __device__ inline int __##name##2int_rn(type a) { return __float2int_rn(a); }                  \
    __host__ __device__ inline int __##name##2int_rz(type a)                                       \
    {                                                                                              \
        return cpu_device::to_integer<int>(__builtin_trunc(float(a)), INT_MIN, INT_MAX);           \
    }                                                                                              \
    __device__ inline int __##name##2int_rd(type a) { return __float2int_rd(a); }                  \
    __device__ inline int __##name##2int_ru(type a) { return __float2int_ru(a); }                  \
    __device__ inline unsigned __##name##2uint_rn(type a) { return __float2uint_rn(a); }           \
    __host__ __device__ inline unsigned __##name##2uint_rz(type a)                                 \
    {                                                                                              \
        return cpu_device::to_integer<unsigned>(__builtin_trunc(float(a)), 0u, UINT_MAX);          \
    }                                                                                              \
    __host__ __device__ inline short __##name##_as_short(type a) { return short(a.bits); }         \
    __host__ __device__ inline unsigned short __##name##_as_ushort(type a) { return a.bits; }      \
    __host__ __device__ inline type __short_as_##name(short bits)                                  \
    {                                                                                              \
        return type::Raw{static_cast<unsigned short>(bits)};                                       \
    }                                                                                              \
    __host__ __device__ inline type __ushort_as_##name(unsigned short bits)                        \
    {                                                                                              \
        return type::Raw{bits};                                                                    \
    }                                                                                              \
    __host__ __device__ inline pair __##name##2##name##2(type a) { return {a, a}; }                \
    __host__ __device__ inline pair __halves2##name##2(type a, type b) { return {a, b}; }          \
    __host__ __device__ inline pair make_##name##2(type a, type b) { return {a, b}; }              \
    __host__ __device__ inline pair __float2##name##2_rn(float a) { return {a, a}; }               \
    __host__ __device__ inline pair __floats2##name##2_rn(float a, float b) { return {a, b}; }     \
    __host__ __device__ inline pair __float22##name##2_rn(float2 a) { return {a.x, a.y}; }         \
    __host__ __device__ inline float2 __##name##22float2(pair a) { return {a.x, a.y}; }            \
    __host__ __device__ inline type __low2##name(pair a) { return a.x; }                           \
    __host__ __device__ inline type __high2##name(pair a) { return a.y; }                          \
    __host__ __device__ inline pair __low2##name##2(pair a) { return {a.x, a.x}; }                 \
    __host__ __device__ inline pair __high2##name##2(pair a) { return {a.y, a.y}; }                \
    __host__ __device__ inline pair __lows2##name##2(pair a, pair b) { return {a.x, b.x}; }        \
    __host__ __device__ inline pair __highs2##name##2(pair a, pair b) { return {a.y, b.y}; }

#define CPU_DEVICE_NARROW_NAME(type, function, from, rounding)                                     \
    __host__ __device__ inline type function(from a)                                               \
    {                                                                                              \
        return type(a, cpu_device::Rounding::rounding);                                            \
    }
