// CUDA's short vectors, char1 to double4, with the alignment that they have on a GPU: 2 and 4
// elements lie so that one load can fetch them all.
#pragma once

#include "words.h"

#define CPU_DEVICE_VECTORS(type, name, align2, align4)                                             \
    struct name##1 { type x; };                                                                    \
    struct alignas(align2) name##2 { type x, y; };                                                 \
    struct name##3 { type x, y, z; };                                                              \
    struct alignas(align4) name##4 { type x, y, z, w; };                                           \
    __host__ __device__ constexpr name##1 make_##name##1(type x) { return {x}; }                   \
    __host__ __device__ constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }        \
    __host__ __device__ constexpr name##3 make_##name##3(type x, type y, type z)                   \
    {                                                                                              \
        return {x, y, z};                                                                          \
    }                                                                                              \
    __host__ __device__ constexpr name##4 make_##name##4(type x, type y, type z, type w)           \
    {                                                                                              \
        return {x, y, z, w};                                                                       \
    }

CPU_DEVICE_VECTORS(signed char, char, 2, 4)
CPU_DEVICE_VECTORS(unsigned char, uchar, 2, 4)
CPU_DEVICE_VECTORS(short, short, 4, 8)
CPU_DEVICE_VECTORS(unsigned short, ushort, 4, 8)
CPU_DEVICE_VECTORS(int, int, 8, 16)
CPU_DEVICE_VECTORS(unsigned int, uint, 8, 16)
CPU_DEVICE_VECTORS(long, long, 16, 16)
CPU_DEVICE_VECTORS(unsigned long, ulong, 16, 16)
CPU_DEVICE_VECTORS(long long, longlong, 16, 16)
CPU_DEVICE_VECTORS(unsigned long long, ulonglong, 16, 16)
CPU_DEVICE_VECTORS(float, float, 8, 16)
CPU_DEVICE_VECTORS(double, double, 16, 16)

#undef CPU_DEVICE_VECTORS

// The extent of a grid or a block; what is not given is 1.
struct dim3 {
    unsigned x, y, z;

    __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
    __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    __host__ __device__ constexpr operator uint3() const { return {x, y, z}; }
};
