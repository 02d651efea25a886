// What all defects share: the check of a call, and the verdict.

#pragma once
#include <cstdio>
#include <cstdlib>

#define CHECK(call) check(call, #call, __FILE__, __LINE__)

inline void check(cudaError_t status, const char* call, const char* file, int line)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "%s:%d: %s: %s\n    %s\n", file, line, cudaGetErrorName(status),
                 cudaGetErrorString(status), call);
    std::exit(EXIT_FAILURE);
}

inline int verdict(bool right)
{
    std::puts(right ? "PASS" : "FAIL: wrong result");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
