// Launches that macros make, and macros inside launches.

#include <cstdio>

int* result;
int failures = 0;

void expect(int line, int value)
{
    int found = 0;
    const cudaError_t error = cudaMemcpy(&found, result, sizeof found, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess || found != value) {
        std::printf("line %d: %d instead of %d (%s)\n", line, found, value, cudaGetErrorName(error));
        ++failures;
    }
    cudaMemset(result, 0xFF, sizeof found);
}

#define EXPECT(value) expect(__LINE__, value)

__global__ void store_1(int* p, int value) { *p = value; }
__global__ void store_2(int* p, int value) { *p = -value; }
template <class T> __global__ void deduced(T* p, T value) { *p = value; }
template <int n, class T> __global__ void fixed(T* p) { *p = n; }
__global__ void shape(int* p) { *p = 1000 * gridDim.x + blockDim.x; }

#define LAUNCH(kernel, ...) kernel<<<1, 1>>>(__VA_ARGS__)
#define LAUNCH_GNU(kernel, arguments...) kernel<<<1, 1>>>(arguments)
#define LAUNCH_THROUGH(kernel, ...) LAUNCH(kernel, __VA_ARGS__)
#define LAUNCH_ON(kernel, configuration, ...) kernel<<<configuration>>>(__VA_ARGS__)
#define LAUNCH_NUMBER(n, value) store_##n<<<1, 1>>>(result, value)
#define LAUNCH_FIXED(n, ...) fixed<n, __VA_ARGS__><<<1, 1>>>(result)
#define LAUNCH_ON_LINES(kernel, value)   \
    do {                                 \
        kernel                           \
            <<<1, 1>>>(result,           \
                       value);           \
    } while (0)
#define CONFIGURED(kernel) kernel<<<1, 1>>>
#define ONE store_1<<<1, 1>>>(result, 1)
#define PARENTHESES (result, 2)
#define SHAPE 3, 32
#define KERNEL store_1
#define INSTANCE fixed<17, int>
#define UNPACK(...) __VA_ARGS__
#define CALL(call) (call, cudaGetLastError())
#define DEFINE_KERNEL(name, number) __global__ void name(int* p) { *p = number; }
#define DEFINE_LAUNCHER(type) \
    void launch_##type(type value) { deduced<type><<<1, 1>>>((type*)result, value); }

DEFINE_KERNEL(defined_by_macro, 19)
DEFINE_LAUNCHER(int)

int main()
{
    cudaMalloc(&result, sizeof *result);
    LAUNCH(store_1, result, 10); EXPECT(10);
    LAUNCH(deduced, result, 11); EXPECT(11);
    LAUNCH(deduced<int>, result, 12); EXPECT(12);
    LAUNCH((fixed<13, int>), result); EXPECT(13);
    LAUNCH_GNU(store_2, result, 14); EXPECT(-14);
    LAUNCH_THROUGH(deduced, result, 15); EXPECT(15);
    LAUNCH_ON(shape, SHAPE, result); EXPECT(3032);
    LAUNCH_ON(shape, UNPACK(4, 8), result); EXPECT(4008);
    LAUNCH_NUMBER(1, 16); EXPECT(16);
    LAUNCH_NUMBER(2, 16); EXPECT(-16);
    LAUNCH_FIXED(17, int); EXPECT(17);
    LAUNCH_ON_LINES(store_1, 18); EXPECT(18);
    CONFIGURED(store_1)(result, 20); EXPECT(20);
    CONFIGURED(store_1)PARENTHESES; EXPECT(2);
    ONE; EXPECT(1);
    shape<<<SHAPE>>>(result); EXPECT(3032);
    KERNEL<<<1, 1>>>(result, 21); EXPECT(21);
    INSTANCE<<<1, 1>>>(result); EXPECT(17);
    if (CALL((store_1<<<1, 1>>>(result, 22))) == cudaSuccess) EXPECT(22);
    defined_by_macro<<<1, 1>>>(result); EXPECT(19);
    launch_int(23); EXPECT(23);
#define LATER(k) k<<<1, 1>>>(result, __LINE__)
    LATER(store_1); EXPECT(__LINE__);
#undef LATER
    EXPECT(-1);
    cudaFree(result);
    std::puts(failures ? "FAIL: some launch went wrong" : "PASS");
    return failures != 0;
}
