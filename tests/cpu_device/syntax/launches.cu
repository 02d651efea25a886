// The ways to write a launch. Each leaves a number that no other leaves, and EXPECT reads it.

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

__global__ void store(int* p, int value) { *p = value; }
static __global__ void __launch_bounds__(64, 1) bounded(int* p, int value) { *p = value; }
__global__ void __launch_bounds__(64)
    on_its_own_line(int* p, int value)
{
    *p = value;
}
__global__ void shape(int* p) { *p = 1000 * gridDim.x + 100 * gridDim.y + blockDim.x; }
__global__ void is_null(int* p, const float* pointer) { *p = pointer == nullptr; }
__global__ void wide(int* p, size_t value) { *p = int(value >> 32); }
__global__ void empty() {}

// Kernels that cannot be reached through a pointer of one type.

template <class T>
__global__ void deduced(T* p, T value) { *p = value; }
template <int n> __global__ void fixed(int* p) { *p = n; }
template <int a, bool b> static __global__ void two(int* p) { *p = 10 * a + b; }
template <> __global__ void two<3, true>(int* p) { *p = -31; }
template <class... T> __global__ void sum(int* p, T... values) { *p = int((values + ... + 0)); }
__global__ void overloaded(int* p, int) { *p = 1; }
__global__ void overloaded(int* p, float) { *p = 2; }
__global__ void with_default(int* p, int value = 77) { *p = value; }

__global__ void declared_first(int* p, int value);
template <class T> __global__ void declared_template(T* p, int value);

namespace outer {
__global__ void store(int* p, int value) { *p = -value; }
namespace inner {
template <int n, class T> __global__ void fixed(T* p) { *p = T(n); }
}
}

struct Point {
    int x, y;
    __host__ __device__ Point(int x_, int y_) : x(x_), y(y_) {}
};
__global__ void by_value(int* p, Point point) { *p = 10 * point.x + point.y; }

using StoreKernel = void (*)(int*, int);
struct Table {
    StoreKernel kernel;
    StoreKernel list[2];
    const Table* self() const { return this; }
};
StoreKernel choose(bool negative) { return negative ? StoreKernel(outer::store) : StoreKernel(store); }

void plain(int n)
{
    store<<<1, 1>>>(result, 1); EXPECT(1);
    store <<< 1 , 1 >>> (result, 2); EXPECT(2);
    store<<<1, 1, 0>>>(result, 3); EXPECT(3);
    store<<<dim3(1), dim3(1, 1, 1), 0, nullptr>>>(result, 4); EXPECT(4);
    store
        <<<
            1,      // ">>>" and ')' in a comment
            1       /* <<<2, 2>>>( */
        >>>
        (
            result,
            5
        ); EXPECT(5);
    store<<<1, 1>>>(result, 6), store<<<1, 1>>>(result, 7); EXPECT(7);
    store<<<1, 1>>>(result, 8); bounded<<<1, 1>>>(result, 9); EXPECT(9);
    on_its_own_line<<<1, 1>>>(result, 10); EXPECT(10);
    declared_first<<<1, 1>>>(result, 11); EXPECT(11);
    empty<<<1, 1>>>(); EXPECT(-1);
    ::store<<<1, 1>>>(result, 12); EXPECT(12);
    outer::store<<<1, 1>>>(result, 13); EXPECT(-13);
    ::outer :: store<<<1, 1>>>(result, 14); EXPECT(-14);
    (store)<<<1, 1>>>(result, 15); EXPECT(15);
    (void)store<<<1, 1>>>(result, 16); EXPECT(16);

    // Statements around it
    if (n > 3) store<<<1, 1>>>(result, 20); else store<<<1, 1>>>(result, 21);
    EXPECT(21);
    if (n > 2) ::store<<<1, 1>>>(result, 22); else ::store<<<1, 1>>>(result, 23);
    EXPECT(22);
    for (int i = 0; i < n; ++i) store<<<1, 1>>>(result, 24 + i);
    EXPECT(26);
    do store<<<1, 1>>>(result, 27); while (n < 0);
    EXPECT(27);
    switch (n) {
        case 3:store<<<1, 1>>>(result, 28);
    }
    EXPECT(28);
    n == 3 ? store<<<1, 1>>>(result, 29):store<<<1, 1>>>(result, 30);
    EXPECT(29);
    const auto launch = [=](int value) { store<<<1, 1>>>(result, value); };
    launch(31); EXPECT(31);
    [&] { return store<<<1, 1>>>(result, 32); }(); EXPECT(32);

    // Arguments are converted to the kernel's parameters, and evaluated once.
    is_null<<<1, 1>>>(result, 0); EXPECT(1);
    is_null<<<1, 1>>>(result, NULL); EXPECT(1);
    wide<<<1, 1>>>(result, (1ull << 32) * 5); EXPECT(5);
    store<<<1, 1>>>(result, n * 11.3); EXPECT(33);
    by_value<<<1, 1>>>(result, {3, 4}); EXPECT(34);
    by_value<<<1, 1>>>(result, Point(3, 5)); EXPECT(35);
    int count = 36;
    store<<<1, 1>>>(result, count++); EXPECT(36);
    store<<<1, 1>>>(result, count); EXPECT(37);
    store<<<count - 36, 1>>>(result, count++); EXPECT(37);
    store<<<1, 1>>>(result, (count++, 38)); EXPECT(38);
}

void configurations(int n)
{
    shape<<<n, 32>>>(result); EXPECT(3132);
    shape<<<dim3(n, 2), 32>>>(result); EXPECT(3232);
    shape<<<dim3{2, 3, 1}, dim3{16}>>>(result); EXPECT(2316);
    shape<<<8 >> 2, n << 3>>>(result); EXPECT(2124);
    shape<<<(8 > 2), (n > 2) ? 4 : 5>>>(result); EXPECT(1104);
    shape<<<n < 4 ? 1 : 2, n < 4 ? 6 : 7>>>(result); EXPECT(1106);
    shape<<<[&] { return n; }(), [](int k) { return k >> 1; }(16)>>>(result); EXPECT(3108);
    shape<<<(n + 255) / 256, (store<<<1, 1>>>(result, 0), 9)>>>(result); EXPECT(1109);
    shape<<<n>>1, n>>>(result); EXPECT(1103);
}

template <class T> struct Box { static constexpr int size = 5; };
template <class T> int size_of_box(int n) { return T::size * n; }
template <class T> constexpr int box_size = 6;

void templates(int n)
{
    deduced<<<1, 1>>>(result, 50); EXPECT(50);
    deduced<int><<<1, 1>>>(result, 51); EXPECT(51);
    deduced<int> <<<1, 1>>> (result, 52); EXPECT(52);
    fixed<53><<<1, 1>>>(result); EXPECT(53);
    fixed<(5 > 3) ? 54 : 0><<<1, 1>>>(result); EXPECT(54);
    fixed<(1 << 6) - 9><<<1, 1>>>(result); EXPECT(55);
    fixed<7 << 3><<<1, 1>>>(result); EXPECT(56);
    fixed<Box<Box<int>>::size><<<1, 1>>>(result); EXPECT(5);
    fixed<box_size<Box<int>>><<<1, 1>>>(result); EXPECT(6);
    fixed<sizeof(char[57])><<<1, 1>>>(result); EXPECT(57);
    fixed<'A'><<<1, 1>>>(result); EXPECT('A');
    two<4, (3 > 2)><<<1, 1>>>(result); EXPECT(41);
    two<3,
        true  // a > b
        ><<<1, 1>>>(result); EXPECT(-31);
    outer::inner::fixed<58, int><<<1, 1>>>(result); EXPECT(58);
    ::outer::inner::template fixed<59><<<1, 1>>>(result); EXPECT(59);
    sum<<<1, 1>>>(result); EXPECT(0);
    sum<<<1, 1>>>(result, 60); EXPECT(60);
    sum<int, int><<<1, 1>>>(result, 60, 1); EXPECT(61);
    declared_template<<<1, 1>>>(result, 62); EXPECT(62);
    overloaded<<<1, 1>>>(result, 1); EXPECT(1);
    overloaded<<<1, 1>>>(result, 1.0f); EXPECT(2);
    with_default<<<1, 1>>>(result); EXPECT(77);
    with_default<<<1, 1>>>(result, 63); EXPECT(63);

    // `>>>` that closes three templates
    shape<<<1, size_of_box<Box<Box<int>>>(2)>>>(result); EXPECT(1110);
    shape<<<size_of_box<Box<Box<int>>>(1), 3>>>(result); EXPECT(5103);
    shape<<<1, box_size<Box<Box<int>>> >>>(result); EXPECT(1106);

    constexpr int local = 64;
    fixed<local><<<1, 1>>>(result); EXPECT(64);
    const auto generic = [&](auto number) {
        constexpr int twice = 2 * decltype(number)::size;
        fixed<twice><<<n - 2, 1>>>(result);
        deduced<<<n - 2, 1>>>(result, twice + 1);
    };
    generic(Box<int>()); EXPECT(11);
}

template <class T, int n, T* (*identity)(T*)>
struct Dependent {
    int value = 70;

    template <class U> void run(U u)
    {
        deduced<T><<<1, 1>>>(identity(result), value + u); EXPECT(71);
        fixed<n><<<1, 1>>>(result); EXPECT(n);
        fixed<n + sizeof(T)><<<1, 1>>>(result); EXPECT(n + int(sizeof(T)));
        outer::inner::fixed<n, T><<<1, 1>>>(result); EXPECT(n);
        sum<T, U><<<1, 1>>>(result, this->value, u); EXPECT(71);
    }
    template <class... U> void forward(U... values)
    {
        sum<U...><<<1, 1>>>(result, values...); EXPECT(6);
        sum<<<1, 1>>>(result, (values + 1)...); EXPECT(9);
    }
};
template <void (*kernel)(int*, int)> void run_kernel(int value) { kernel<<<1, 1>>>(result, value); }
template <class Kernel, class... A> void run_any(Kernel kernel, A... a) { kernel<<<1, 1>>>(result, a...); }
int* same(int* p) { return p; }

void pointers()
{
    void (*pointer)(int*, int) = store;
    pointer<<<1, 1>>>(result, 80); EXPECT(80);
    (*pointer)<<<1, 1>>>(result, 81); EXPECT(81);
    if (pointer) (*pointer)<<<1, 1>>>(result, 82); else (*pointer)<<<1, 1>>>(result, 0);
    EXPECT(82);
    (void)(*pointer)<<<1, 1>>>(result, 83); EXPECT(83);
    StoreKernel list[] = {store, outer::store};
    list[0]<<<1, 1>>>(result, 84); EXPECT(84);
    list[list[0] == store ? 1 : 0]<<<1, 1>>>(result, 85); EXPECT(-85);
    for (StoreKernel k : list) k<<<1, 1>>>(result, 86);
    EXPECT(-86);
    StoreKernel grid[2][2] = {{store, store}, {store, outer::store}};
    grid[1][1]<<<1, 1>>>(result, 87); EXPECT(-87);
    const Table table{store, {store, outer::store}};
    const Table* const p = &table;
    table.kernel<<<1, 1>>>(result, 88); EXPECT(88);
    p->kernel<<<1, 1>>>(result, 89); EXPECT(89);
    (*p).list[1]<<<1, 1>>>(result, 90); EXPECT(-90);
    table.self()->self()->kernel<<<1, 1>>>(result, 91); EXPECT(91);
    choose(true)<<<1, 1>>>(result, 92); EXPECT(-92);
    (p ? store : outer::store)<<<1, 1>>>(result, 93); EXPECT(93);
    auto instance = deduced<int>;
    instance<<<1, 1>>>(result, 94); EXPECT(94);
    run_kernel<store>(95); EXPECT(95);
    run_any(store, 96); EXPECT(96);
    run_any(fixed<97>); EXPECT(97);
    StoreKernel& reference = pointer;
    reference<<<1, 1>>>(result, 98); EXPECT(98);
}

__global__ void declared_first(int* q, int number) { *q = number; }
template <class T> __global__ void declared_template(T* p, int value) { *p = value; }

int main()
{
    cudaMalloc(&result, sizeof *result);
    cudaMemset(result, 0xFF, sizeof *result);
    plain(3);
    configurations(3);
    templates(3);
    Dependent<int, 72, same>().run(1);
    Dependent<int, 72, same>().forward(1, 2, 3);
    pointers();
    cudaFree(result);
    std::puts(failures ? "FAIL: some launch went wrong" : "PASS");
    return failures != 0;
}
