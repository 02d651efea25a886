// The same memory is given back twice.
//
// tool:      plain run
// message:   cudaErrorInvalidValue
// line:      MISTAKE
// corrected: CHECK(cudaFree(y));

#include "check.h"

int main()
{
    int *x, *y;
    CHECK(cudaMalloc(&x, sizeof(int)));
    CHECK(cudaMalloc(&y, sizeof(int)));
    CHECK(cudaFree(x));
    CHECK(cudaFree(x));                    // MISTAKE: y is meant
    return verdict(true);
}
