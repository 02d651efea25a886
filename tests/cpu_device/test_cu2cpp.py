"""The launch rewriter: every way to write a launch, and a clear error for all that it cannot do."""

import random
import re
import shutil
from pathlib import Path

import pytest
from conftest import DEVICE, NVCC, QUICK, REPOSITORY, mutate, need, need_compiler, not_run, run

SOURCE = REPOSITORY / "cpu_device" / "cu2cpp.cpp"
SYNTAX = sorted((Path(__file__).parent / "syntax").glob("*.cu"))
BEFORE = ["#define CPU_DEVICE_KERNEL ::cpu_device::kernel", "#define CPU_DEVICE_ON .on"]
QUIET = {"CPU_DEVICE_QUIET": "1"}

each_file = pytest.mark.parametrize("path", SYNTAX, ids=lambda path: path.stem)
each_compiler = pytest.mark.parametrize(
    "cxx", ["g++", "clang++"] if DEVICE == "cpu" else [None], ids=str)


def build(once, *flags):
    def make(folder):
        result = run([need("g++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", *flags,
                      SOURCE, "-o", folder / "cu2cpp"], timeout=300)
        assert result.returncode == 0, result.stderr
    return once(("cu2cpp", flags), make) / "cu2cpp"


@pytest.fixture(scope="module")
def cu2cpp(once):
    """The rewriter, built so that it stops at its own errors of memory and arithmetic."""
    return build(once, "-g", "-D_GLIBCXX_ASSERTIONS", "-fsanitize=address,undefined",
                 "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def fast_cu2cpp(once):
    return build(once, "-O1")


@pytest.fixture
def rewrite(cu2cpp, tmp_path):
    """rewrite(text) -> the result of the rewriter for a file of that text, in this folder."""
    def call(text, name="program.cu"):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(data)
        result = run([cu2cpp, name], cwd=tmp_path)
        assert "Sanitizer" not in result.stderr and "runtime error" not in result.stderr, \
            result.stderr
        return result
    return call


def body(result, name="program.cu"):
    """What the rewriter made of the file's own lines."""
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")
    assert lines[:3] == [*BEFORE, f'#line 1 "{name}"']
    return "\n".join(lines[3:])


@pytest.mark.parametrize("cxx", ["g++", "clang++", "clang++-16", "clang++-19"])
def test_no_compiler_warns(cxx):
    if not shutil.which(cxx) and "-" in cxx:
        pytest.skip(f"no {cxx} here; the others will do")
    result = run([need(cxx), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-fsyntax-only",
                  SOURCE])
    assert (result.returncode, result.stderr) == (0, "")


# ---- Whole programs

@each_compiler
@each_file
def test_program_runs(path, cxx, build_program):
    program = build_program(path, cxx=cxx, flags=["-std=c++17"])
    result = run([program], env=QUIET)
    assert (result.returncode, result.stdout, result.stderr) == (0, "PASS\n", "")


@each_file
def test_program_is_cuda(path, tmp_path):
    if not NVCC:
        not_run("no nvcc here")
    result = run([NVCC, "-std=c++17", "-arch=sm_80", "-c", path, "-o", tmp_path / "object"],
                 timeout=300)
    assert result.returncode == 0, result.stderr


WRONG = {
    "launches": [("__global__ void store(int* p, int value) { *p = value; }",
                  "__global__ void store(int* p, int value) { *p = value + 1; }"),
                 ("{ *p = 10 * a + b; }", "{ *p = 10 * a; }"),
                 ("with_default<<<1, 1>>>(result);", "with_default<<<0, 1>>>(result);")],
    "macros": [("kernel<<<configuration>>>", "kernel<<<1, 1>>>"),
               ("fixed<n, __VA_ARGS__><<<", "fixed<n - 1, __VA_ARGS__><<<")],
    "shared_memory": [("__device__ int& element(int i)\n{\n    extern __shared__ int s[];\n"
                       "    return s[i];", "__device__ int& element(int i)\n{\n"
                       "    extern __shared__ int s[];\n    return s[0];"),
                      ("*(of_file + j)", "*(of_file + i)")],
    "text": [('R"x(<<<)" \' // >>>)x"; store<<<1, 1>>>(result, 3)',
              'R"x(<<<)" \' // >>>)x"; store<<<1, 1>>>(result, 4)')],
    "conditions": [("path += 100;", "path += 200;"),
                   ("*p = s[0];", "*p = 0;")],
    "device_variables": [("*pointer = 17;", "*pointer = 18;"),
                         ("__device__ int hidden = 11;", "__device__ int hidden = 12;")],
}


@pytest.mark.parametrize("name, old, new", [
    pytest.param(name, *edit, id=f"{name}-{number}")
    for name, edits in WRONG.items() for number, edit in enumerate(edits)])
def test_wrong_program_fails(name, old, new, build_program):
    """A launch that did something else would be noticed."""
    if DEVICE == "gpu" and name == "conditions":
        pytest.skip("the line is one that the GPU's compiler leaves out")
    path = next(path for path in SYNTAX if path.stem == name)
    program = build_program(mutate(path, old, new), name=name, flags=[*QUICK, "-std=c++17"])
    result = run([program], env=QUIET)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].startswith("FAIL: ")
    assert re.match(r"(line|kernel) \d+", result.stdout)


@each_file
def test_only_launches_and_variables_of_the_device_change(path, cu2cpp):
    result = run([cu2cpp, path])
    old = path.read_text(encoding="utf-8").split("\n")
    new = body(result, path).split("\n")
    assert len(new) == len(old)
    changed = [i for i, (a, b) in enumerate(zip(old, new)) if a != b]
    assert len(changed) > 5
    inside = re.compile(r"<<<|>>>|__shared__")
    for i in changed:
        if re.fullmatch(re.escape(new[i]).replace("CPU_DEVICE_VARIABLE", "__(device|constant)__"), old[i]):
            continue
        near = "\n".join(old[max(0, i - 4):i + 5])
        assert inside.search(near), f"line {i + 1}: {old[i]}"
        assert "<<<" not in re.sub(r'"[^"]*"|//.*|/\*.*?\*/', "", new[i]), new[i]


@pytest.mark.parametrize("cast", ["(void*)", "(const void*)", "(void const *) ", "reinterpret_cast<void*>",
                                  "reinterpret_cast<const void *> "])
def test_pointer_to_a_kernel_keeps_its_type(cast, rewrite):
    text = "void f() {{ cudaLaunchKernel({}(k), 1, 1, args, 0, s); cudaLaunchKernel({}&k<3>, (void*)g); }}\n"
    assert body(rewrite(text.format(cast, ""))).replace(" ", "") == text.format("", "").replace(" ", "")
    other = f"void f() {{ cudaFuncSetAttribute({cast}(k), a, 1); cudaLaunchKernel((k), 1); }}\n"
    assert body(rewrite(other)) == other


# ---- Two sides of one function

@pytest.mark.parametrize("text, line", [
    ("\nvoid f()\n{\n  #ifdef __CUDA_ARCH__\n  #else\n#endif\n#if __CUDA_ARCH__ > 3\n#endif\n}\n", "4:3"),
    ("void f()\n{\n#if defined(__CUDA_ARCH__) && X\n#endif\n}\n", "3:1"),
    ("#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600\nvoid f();\n#endif\n", None),
    ("void f()\n{\n#ifdef __CUDACC__\n#ifdef __CUDA_ARCH__\n#endif\n#endif\n}\n", None),
])
def test_a_branch_that_is_the_hosts_is_noted_once(text, line, rewrite):
    result = rewrite(text)
    assert result.returncode == 0
    assert result.stderr == ("" if line is None else
                             f"program.cu:{line}: note: the CPU device does not define __CUDA_ARCH__, so kernels take "
                             "the branch of the host\n")


# ---- Variables of the device

@pytest.mark.parametrize("text", [
    "@ int x;", "static @ int x = 3;", "int @ x;", "@ float c[3] = {1};", "@ __constant__ float c[3];",
    "namespace n { @ volatile int x; }", 'extern "C" { @ int x; }', "alignas(16) @ float4 x, y[2];",
    "@ __align__(16) unsigned long x{5};", "@ std::pair<int, float> x;", "struct S {}; @ S x;",
    "struct A { struct B {}; int c; }; @ A::B x;", "void f(); @ int* x = nullptr;",
    "__device__ int f(int x) { return x; } @ int x;",
])
@pytest.mark.parametrize("word", ["__device__", "__constant__"])
def test_variable_that_is_closed_to_the_host(text, word, rewrite):
    assert body(rewrite(text.replace("@", word) + "\n")) == text.replace("@", "CPU_DEVICE_VARIABLE") + "\n"


@pytest.mark.parametrize("text", [
    "__device__ const int x = 5;", "const __constant__ int x = 5;", "constexpr __device__ int x = 6;",
    "extern __device__ int x;", 'extern "C" __device__ int x;', "inline __device__ int x;",
    "template <class T> __device__ T x = 1;", "__managed__ __device__ int x;", "__device__ __managed__ int x;",
    "struct S { static __device__ int x; };", "class A { struct B { int b; }; static __device__ int c; };",
    "__device__ int f();", "__device__ int f(int x) { return x; }",
    "__device__ float2& operator+=(float2& a, float2 b);",
    "__device__ [[nodiscard]] int f();", "__device__ int (*f)(int);", "auto f = [] __device__ (int x) { return x; };",
    "void f() { auto g = [] __device__ { return 1; }; }", "#define V __device__ int x", "__device__", "x __device__",
])
def test_variable_or_function_that_stays(text, rewrite):
    assert body(rewrite(text + "\n")) == text + "\n"


# ---- Single launches

PLAIN = '::cpu_device::kernel({0}, "{0}").on({1})({2});'
CALL = ("::cpu_device::kernel([=](auto... cpu_device_args) {{ {0}(cpu_device_args...); }}, "
        '"{0}").on({1})({2});')


@pytest.mark.parametrize("launch, expected", [
    ("k<<<g, b>>>(x);", PLAIN.format("k", "g, b", "x")),
    ("k<<<g, b, s, stream>>>();", PLAIN.format("k", "g, b, s, stream", "")),
    ("k<<<g>>>(x);", PLAIN.format("k", "g", "x")),
    ("t<<<g, b>>>(x);", CALL.format("t", "g, b", "x")),
    ("t<T, 3><<<g, b>>>(x);", CALL.format("t<T, 3>", "g, b", "x")),
    ("a::t<T><<<g, b>>>(x);", CALL.format("a::t<T>", "g, b", "x")),
    ("twice<<<g, b>>>(x);", CALL.format("twice", "g, b", "x")),
    ("again<<<g, b>>>(x);", PLAIN.format("again", "g, b", "x")),
    ("other<<<g, b>>>(x);", CALL.format("other", "g, b", "x")),
    ("o.t<<<g, b>>>(x);", PLAIN.format("o.t", "g, b", "x")),
    ("k<<<a >> 1, (a > b)>>>(x);", PLAIN.format("k", "a >> 1, (a > b)", "x")),
    ("k<<<f<A<B<int>>>(1), 2>>>(x);", PLAIN.format("k", "f<A<B<int>>>(1), 2", "x")),
    ('tab["a\\n"]<<<g, b>>>(x);',
     '::cpu_device::kernel(tab["a\\n"], "tab[\\"a\\\\n\\"]").on(g, b)(x);'),
])
def test_form(launch, expected, rewrite):
    declarations = ("__global__ void k(int*);\n"
                    "template <class T, int n = 3> __global__ void __launch_bounds__(9) t(T*);\n"
                    "__global__ void twice(int*); __global__ void twice(float*);\n"
                    "__global__ void again(int* p); __global__ void again(int* p) {}\n"
                    "__global__ void other(int* p, int n = 3);\n")
    text = f"{declarations}void host() {{ {launch} }}\n"
    assert body(rewrite(text)) == f"{declarations}void host() {{ {expected} }}\n"


def test_launch_outside_of_functions(rewrite):
    """A lambda that starts a global variable has nothing to capture, and must not say [=]."""
    text = "template <int n> __global__ void t() {}\nint started = (t<3><<<1, 1>>>(), 1);\n"
    assert f"({CALL.format('t<3>', '1, 1', '')}".replace("[=]", "[]").rstrip(";") in \
        body(rewrite(text))


MACRO = "CPU_DEVICE_KERNEL({0}, {1}) CPU_DEVICE_ON({2})"
MACRO_CALL = ("CPU_DEVICE_KERNEL([=](auto... cpu_device_args) {{ {0}(cpu_device_args...); }}, {1}) "
              "CPU_DEVICE_ON({2})")
USE_TEMPLATE = "LAUNCH(t, x);"


@pytest.mark.parametrize("definition, expected, use", [
    ("LAUNCH k<<<g, b>>>(x)", "LAUNCH " + MACRO.format("k", '"k"', "g, b") + "(x)", ""),
    ("LAUNCH (k)<<<g, b>>>(x)", "LAUNCH " + MACRO.format("(k)", '"(k)"', "g, b") + "(x)", ""),
    ("LAUNCH(k, ...) k<<<g, b>>>(__VA_ARGS__)",
     "LAUNCH(k, ...) " + MACRO.format("k", '"" #k ""', "g, b") + "(__VA_ARGS__)", ""),
    ("LAUNCH(k, a...) k<<<g, b>>>(a)",
     "LAUNCH(k, a...) " + MACRO_CALL.format("k", '"" #k ""', "g, b") + "(a)", USE_TEMPLATE),
    ("LAUNCH(n, ...) t<n, __VA_ARGS__><<<g, b>>>()",
     "LAUNCH(n, ...) " + MACRO_CALL.format(
         "t<n, __VA_ARGS__>", '"t<" #n ", " #__VA_ARGS__ ">"', "g, b") + "()", ""),
    ("LAUNCH(n) k_##n##_x<<<g, b>>>()",
     "LAUNCH(n) " + MACRO.format("k_##n##_x", '"k_" #n "_x"', "g, b") + "()", ""),
    ("LAUNCH(k) k<<<g, b>>>", "LAUNCH(k) " + MACRO.format("k", '"" #k ""', "g, b"), ""),
])
def test_form_in_a_macro(definition, expected, use, rewrite):
    frame = ("template <class T> __global__ void t(T*) {{}}\n"
             "#define {}\nvoid host() {{ {} }}\n")
    assert body(rewrite(frame.format(definition, use))) == frame.format(expected, use)


def test_brackets_of_two_branches(rewrite):
    """The bracket of each branch is the same one: what follows the function is not inside it."""
    text = ("void f()\n{\n#ifdef A\n    if (a) {\n#elif B\n    while (b) {\n#else\n    for (;;) {\n"
            "#endif\n        k<<<1, 1>>>();\n    }\n}\nextern __shared__ int s[];\n")
    lines = body(rewrite(text)).split("\n")
    assert lines[9] == '        ::cpu_device::kernel(k, "k").on(1, 1)();'
    assert lines[12].startswith("constexpr ::cpu_device::dynamic_shared_view<int > s{}")


@pytest.mark.parametrize("declaration, names", [
    ("__shared__ float a[8][8], b[8][9];", "a, b"),
    ("__shared__ float a;", "a"),
    ("float __shared__ a[3];", "a"),
    ("volatile __shared__ unsigned long long int a[x < 3], *b, c;", "a, b, c"),
    ("__shared__ Pair<int, Pair<int, float>> a, b[3];", "a, b"),
    ("__shared__ Pair<(2 > 1)> a;", "a"),
    ("__shared__ typename T::type a;", "a"),
    ("__shared__ struct S { int x, y; } a, b;", "a, b"),
    ("__shared__ int (*a)[3], (*const b[3])[4];", "a, b"),
    ("__shared__ __align__(16) float a[3] __attribute__((aligned(16)));", "a"),
    ("__shared__ decltype(x + 1) a;", "a"),
    ("__shared__ decltype(x + 1);", None),
    ("__shared__ macro(a, b);", None),
    ("__shared__ int macro(a);", None),
    ("__shared__ x;", None),
    ("__shared__ int x[3", None),
    ("__shared__ int (*x[3", None),
    ("__shared__ int (*", None),
    ("int f(__shared__ int x);", None),
    ("__shared__ int a[3] __shared__ int a[4];", "a"),     # of the two branches of an #if
])
def test_shared_variables(declaration, names, rewrite):
    fill = f"; CPU_DEVICE_SHARED({names});" if names else ";"
    text = f"__device__ void f() {{ {declaration} x = 1; }}\n"
    expected = text.replace(declaration, declaration[:-1] + fill) if names else text
    assert body(rewrite(text)) == expected
    text = f"{declaration} int x;\n"
    fill = f"; CPU_DEVICE_SHARED_OF_FILE({names.split(',')[0]}, {names});" if names else ";"
    assert body(rewrite(text)) == (text.replace(declaration, declaration[:-1] + fill) if names
                                   else text)


@pytest.mark.parametrize("definition, names", [
    ("__shared__ type name[3]", "name"),
    ("__shared__ type name[3], other;", "name, other"),
    ("__shared__ int name##_1, x_##name##_2[3]", "name ## _1, x_ ## name ## _2"),
    ("__shared__ type name", None),                        # which may be `a[3], b`
    ("__shared__ type __VA_ARGS__", None),
    ("__shared__", None),
])
def test_shared_variables_of_a_macro(definition, names, rewrite):
    text = f"#define SHARED(type, name, ...) {definition}\n"
    fill = f"; CPU_DEVICE_SHARED({names})" if names else ""
    assert body(rewrite(text)) == text.replace(definition, definition.rstrip(";") + fill
                                               + ";" * definition.endswith(";"))


@pytest.mark.parametrize("text", [
    "int cuInit(int x);", "#include <cuda.h>\ncuComplex a; int cuCheck(int);",
    "#ifdef __CUDACC__\n#include <cuda.h>\n#endif\nint cuInit(int x);",
    "", "\n", "int x;", "// k<<<1, 1>>>()", "/* k<<<", '"k<<<', "'", "#", "#if", "#define", "\\",
    'R"(',
    "void f() { a << b >> c; x >>= 1; operator<<<int>(a); }", "template <> void f<>();",
    "#if 0\nk<<<1;\nasm\n#endif",
    "#ifdef __CUDA_ARCH__\n__global__ void k() { k<<<1, 2>>>(); }\n#endif",
    "#else\n#endif\n#elif 1\n", "#if 1\n", "}}}))]]", "\0\0", "int\0x;", "# define X <<< \n",
])
def test_nothing_to_rewrite(text, rewrite):
    result = rewrite(text)
    if result.returncode != 0:    # what is open at the end, or a launch without a kernel
        assert re.match(r"program\.cu:\d+:\d+: error: ", result.stderr)
        assert text.startswith(("/*", 'R"(', "# define X <<<"))
    else:
        assert body(result) == text


# ---- Errors: `@` stands where each is reported

NOT_HERE = "is not supported on the CPU device"


@pytest.mark.parametrize("text, message", [
    ('__global__ void k() {\n    int x; @asm("mov");\n}', f"inline assembly .* {NOT_HERE}"),
    ('__device__ void f() { @__asm__ volatile("" : "=r"(x)); }', f"inline assembly .* {NOT_HERE}"),
    ('#define PTX @asm("x")\n', f"inline assembly .* {NOT_HERE}"),
    ('#ifdef OTHER\n@asm("x");\n#endif', f"inline assembly .* {NOT_HERE}"),
    ('#ifndef __CUDACC__\n@asm("x");\n#endif', f"inline assembly .* {NOT_HERE}"),
    ('#ifdef __CUDACC__\n#else\n@asm("x");\n#endif', f"inline assembly .* {NOT_HERE}"),
    ('#ifdef __CUDACC__\nasm("x");\n#endif\n@asm("x");', f"inline assembly .* {NOT_HERE}"),
    ('#if __CUDA_ARCH__ < 900\n@asm("x");\n#endif', f"inline assembly .* {NOT_HERE}"),
    ('#if !__CUDA_ARCH__ || X\n@asm("x");\n#endif', f"inline assembly .* {NOT_HERE}"),
    ('#if defined(__CUDACC__) || X\n@asm("x");\n#endif', f"inline assembly .* {NOT_HERE}"),
    ('#if __CUDA_ARCH__ + 1\n@asm("x");\n#endif', f"inline assembly .* {NOT_HERE}"),
    ('#if A\n#elif __CUDA_ARCH__\nasm("x");\n#else\n@asm("x");\n#endif',
     f"inline assembly .* {NOT_HERE}"),
    ("void f(@cudaTextureObject_t t);", f"a texture {NOT_HERE}"),
    ("@cudaSurfaceObject_t s;", f"a surface {NOT_HERE}"),
    ("#include <cuda.h>\nint x = @cuInit(0);", f"the driver API {NOT_HERE}"),
    ('#include "cuda.h"\n@CUdevice d;', f"the driver API {NOT_HERE}"),
    ("__global__ void @__cluster_dims__(2, 1, 1) k();", f"a cluster of blocks {NOT_HERE}"),
    ("__global__ void k() { if (x) { k@<<<1, 1>>>(); } }", f"a launch from a kernel {NOT_HERE}"),
    ("__device__ int f(T t = {}) { [&] { k@<<<1, 1>>>(); }(); }",
     f"a launch from a kernel {NOT_HERE}"),
    ("struct S { __device__ void f() {} __device__ void g() { k@<<<1, 1>>>(); } };",
     f"a launch from a kernel {NOT_HERE}"),
    ("void f() { k@<<<1, 1; }", "'<<<' without '>>>\\(arguments\\)'"),
    ("void f() { k@<<<1, 1>>; }", "'<<<' without '>>>\\(arguments\\)'"),
    ("void f() { k@<<<1, 1>>>; }", "'<<<' without '>>>\\(arguments\\)'"),
    ("void f() { g(k@<<<1, 1); }", "'<<<' without '>>>\\(arguments\\)'"),
    ("void f() { k@<<<1, j<<<1, 1>>>(); }", "'<<<' without '>>>\\(arguments\\)'"),
    ("void f() { k<<<@(1, 1>>>(x); }", "this bracket is never closed"),
    ("void f() { k<<<1, 1>>>@(x; }", "this bracket is never closed"),
    ("void f() { i@)<<<1, 1>>>(x); }", "this bracket has no partner"),
    ("void f() { k@><<<1, 1>>>(x); }", "this bracket has no partner"),
    ("void f() { @<<<1, 1>>>(x); }", "no kernel before '<<<'"),
    ("void f() { return @<<<1, 1>>>(x); }", "no kernel before '<<<'"),
    ("void f() { 1 @<<<1, 1>>>(x); }", "no kernel before '<<<'"),
    ("void f() { k@<a < b><<<1, 1>>>(x); }", "put the comparison that follows in parentheses"),
    ("__global__ void k() { extern @__shared__ int s; }", "`extern __shared__ T name\\[\\];`"),
    ("__global__ void k() { extern @__shared__ int s[3]; }", "`extern __shared__ T name\\[\\];`"),
    ("__global__ void k() { extern @__shared__ int s[], t[]; }",
     "`extern __shared__ T name\\[\\];`"),
    ("__global__ void k() { extern @__shared__ s[]; }", "`extern __shared__ T name\\[\\];`"),
    ("int x;\n  @/* never", "this comment is never closed"),
    ('auto x = R@"abc(', "this raw string is never closed"),
    ('auto x = R@"abc', r"this raw string has no '\('"),
    ("(" * 1000 + "@(", "brackets are nested too deeply"),
    ("#if A\n" * 1000 + "@#if A", "conditionals are nested too deeply"),
])
def test_refused(text, message, rewrite):
    place = text.index("@")
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    text = text.replace("@", "", 1)
    for before in ("", "\ufeff"):                # a byte order mark is no column
        result = rewrite(before + text)
        assert (result.returncode, result.stdout) == (1, "")
        assert re.fullmatch(rf"program\.cu:{line}:{column}: error: .*{message}.*\n", result.stderr)


@pytest.mark.parametrize("head", ["__host__ __device__", "__host__", ""])
def test_launch_in_host_function(head, rewrite):
    text = f"{head} void f() {{ k<<<1, 1>>>(); }}"
    assert "kernel(k" in body(rewrite(text))


# ---- Included files

def test_launch_in_an_included_file(rewrite, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.cuh").write_text('#include "sub/b.cuh"\n#include "a.cuh"\n#include "gone.h"\n')
    (tmp_path / "sub/b.cuh").write_text("\ninline void f() { k<<<1, 1>>>(); }\n")
    result = rewrite('#include "a.cuh"\n')
    assert '\n#line 1 "sub/b.cuh"\n\ninline void f() { ::cpu_device::kernel(k, "k")' in result.stdout
    (tmp_path / "sub/b.cuh").write_text("#ifdef __CUDACC__\nvoid f() { k<<<1, 1>>>(); }\n#endif\n")
    assert body(rewrite('#include "a.cuh"\n')) == '#include "a.cuh"\n'
    assert body(rewrite('#ifdef __CUDACC__\n#include "no.cuh"\n#endif\n'))


def test_shared_variable_in_an_included_file(rewrite, tmp_path):
    """It is begun with garbage there as well."""
    (tmp_path / "kernels.cuh").write_text("__global__ void k() { __shared__ int s[3]; }\n")
    assert "int s[3]; CPU_DEVICE_SHARED(s);" in rewrite('#include "kernels.cuh"\n').stdout


GUARDED = "#ifndef A_H\n#define A_H\n#include \"b.h\" // with a launch\n#endif\n"
LAUNCHES = "\ufeff  #  pragma once\n#include \"plain.h\"\n#include \"a.h\"\nvoid f() { k<<<1, 2>>>(); }"


def test_included_file_takes_the_place_of_its_directive(rewrite, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.h").write_text(GUARDED)
    (folder / "b.h").write_text(LAUNCHES)
    (folder / "plain.h").write_text("int i;\n")
    text = ('__global__ void k();\n#include "in/plain.h"\n  #include "in/a.h" /* twice */\n'
            '#include "in/a.h"\n#include "not_there.h"\nint line;\n')
    result = rewrite(text)
    assert result.returncode == 0, result.stderr
    inner = ('#ifndef CPU_DEVICE_ONCE_3\n#define CPU_DEVICE_ONCE_3\n#line 1 "in/b.h"\n  \n'
             f'#include "{folder}/plain.h"\n#include "{folder}/a.h"\n'
             'void f() { ::cpu_device::kernel(k, "k").on(1, 2)(); }\n#endif\n'
             '#line 3 "in/a.h"\n // with a launch\n#endif\n')
    whole = f'#line 1 "in/a.h"\n#ifndef A_H\n#define A_H\n{inner}\n'
    assert result.stdout == "\n".join([*BEFORE, "", "// from in/a.h", "// from in/b.h", '#line 1 "program.cu"', (
        '__global__ void k();\n#include "in/plain.h"\n  ' + whole + '#line 3 "program.cu"\n /* twice */\n'
        + whole + '#line 4 "program.cu"\n\n#include "not_there.h"\nint line;\n')])


def test_files_that_include_each_other(rewrite, tmp_path):
    (tmp_path / "a.h").write_text("#pragma once\n#include \"b.h\"\nvoid f() { k<<<1, 1>>>(); }\n")
    (tmp_path / "b.h").write_text("#pragma once\n#include \"a.h\"\n")
    text = body(rewrite('__global__ void k();\n#include "program.cu"\n'))
    assert text == '__global__ void k();\n#include "program.cu"\n'          # which changes nothing
    result = rewrite('__global__ void k();\n#include "a.h"\n#include "b.h"\n')
    assert result.stdout.count(".on(1, 1)()") == 2 and "#include" not in result.stdout


def test_error_in_an_included_file_has_its_line(rewrite, tmp_path):
    (tmp_path / "a.h").write_text("\nvoid f() { asm(\"\"); }\n")
    assert rewrite('#include "a.h"\n').stderr.startswith("a.h:2:12: error: inline assembly")


def test_template_kernel_in_an_included_file(rewrite, tmp_path):
    (tmp_path / "kernels.cuh").write_text("template <class T> __global__ void t(T* p) {}\n")
    text = '#include "kernels.cuh"\nvoid f() { t<<<1, 1>>>(x); }\n'
    assert CALL.format("t", "1, 1", "x") in body(rewrite(text))


# ---- Files of every kind

def test_windows_line_ends(rewrite, cu2cpp, tmp_path):
    text = b"__global__ void k(int) {}\r\n// a \\\r\n k<<<1, 1>>>(1)\r\nvoid f()\r\n{\r\n" \
           b"    k<<<1,\r\n        1>>>(2);\r\n}\r\n"
    (tmp_path / "crlf.cu").write_bytes(text)
    result = run(["sh", "-c", f"'{cu2cpp}' crlf.cu | od -An -c"], cwd=tmp_path)
    assert rewrite(text).returncode == 0
    assert result.stdout.count("\\r") == 8 and result.stdout.count("\\n") == 8 + 3


def test_byte_order_mark_stays_first(rewrite):
    result = rewrite("\ufeffint x;\n")
    assert result.stdout.startswith("\ufeff" + BEFORE[0]) and result.stdout.count("\ufeff") == 1


@pytest.mark.parametrize("unit", [
    "k<<<1, 1>>>(1);\n", "\\\n", "!", "a<", "__shared__ ", "#if A\n{\n#else\n}\n#endif\n",
    "#define A k<<<1, 2>>>(3)\n", "f(a, k<int><<<1, (2)>>>(3)),"])
def test_three_megabytes(unit, fast_cu2cpp, tmp_path):
    """Nothing takes longer by the square of a file's length."""
    times = 3_000_000 // len(unit)
    (tmp_path / "large.cu").write_text(unit * times)
    result = run([fast_cu2cpp, "large.cu"], cwd=tmp_path)
    assert result.returncode == 0, result.stderr[:200]
    assert result.stdout.count("\n") == 3 + unit.count("\n") * times


def test_damaged_files(rewrite):
    """Cut and spliced at random, a file is rewritten or refused, and nothing worse."""
    pieces = ["<<<", ">>>", "<", ">", "(", ")", "[", "]", "{", "}", '"', "'", 'R"(', "//", "/*",
              "*/", "\\\n", "\n", "#if ", "#else\n", "#endif\n", "#define K(x) ", "##", "::", "->",
              ".", ",", "template ", "__global__ ", "extern ", "__shared__ ", "\0", "\r\n", "#",
              "defined", "__CUDACC__", ";", "alignas", "operator", "\ufeff", "0x", "\\", "k",
              '#include "x"\n']
    texts = [path.read_text(encoding="utf-8") for path in SYNTAX]
    chance = random.Random(20)
    accepted = 0
    for _ in range(250):
        text = chance.choice(texts)
        start = chance.randrange(len(text))
        text = text[start:start + chance.randrange(1, 1500)]
        for _ in range(chance.randrange(1, 9)):
            i = chance.randrange(len(text) + 1)
            text = text[:i] + chance.choice(pieces) + text[i + chance.choice((0, 0, 1, 7)):]
        result = rewrite(text)
        if result.returncode == 0:
            accepted += 1
            assert result.stdout.count("\n") == 3 + text.count("\n"), text
        else:
            assert (result.returncode, result.stdout) == (1, ""), text
            assert re.match(r"(program\.cu:\d+:\d+: note: .*\n)?program\.cu:\d+:\d+: error: ", result.stderr), text
    assert 50 < accepted < 250


@pytest.mark.parametrize("name", [
    "with space.cu", 'quote".cu', "back\\slash.cu", "new\nline.cu", "표.cu", "per%cent$.cu"])
def test_odd_file_name(name, cu2cpp, tmp_path):
    (tmp_path / name).write_text("int main() { return __builtin_strcmp(__FILE__, NAME) != 0; }\n")
    (tmp_path / "out.cpp").write_text(run([cu2cpp, name], cwd=tmp_path).stdout)
    literal = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    built = run([need("g++"), f'-DNAME="{literal}"', "out.cpp", "-o", "out"], cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert run([tmp_path / "out"]).returncode == 0


def test_what_cannot_be_read_or_written(cu2cpp, tmp_path):
    for argument, reason in [(tmp_path, "Is a directory"),
                             (tmp_path / "none.cu", "No such file or directory")]:
        result = run([cu2cpp, argument])
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == f"cu2cpp: cannot read '{argument}': {reason}\n"
    (tmp_path / "a.cu").write_text("int x;\n" * 100000)
    result = run(["sh", "-c", f"'{cu2cpp}' a.cu > /dev/full"], cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "cu2cpp: cannot write the output\n")
    assert run([cu2cpp]).returncode == 1


# ---- The compiler's errors

@pytest.mark.skipif(DEVICE != "cpu", reason="about the CPU device")
@pytest.mark.parametrize("cxx", ["g++", "clang++"])
@pytest.mark.parametrize("launch", [
    'k<<<1, 1>>>(p, "text");', "k<<<1, 1>>>(p);", "k<<<1, 1>>>(p, 1, 2);",
    "k<<<1, 1, 0, 0, 0>>>(p, 1);", "k<<<>>>(p, 1);", "t<3><<<1, 1>>>(p);", "t<<<1, 1>>>(1, p);",
    "unknown<<<1, 1>>>(p);", "over<<<1, 1>>>(p);", "(k)<<<1, 1>>>(p, p);", "k<<<p, 1>>>(p, 1);"])
def test_wrong_launch_is_an_error_with_its_line(launch, cxx, tmp_path):
    text = ("__global__ void k(int* p, int n) {}\n"
            "template <class T> __global__ void t(T* p, T n) {}\n"
            "__global__ void over(int) {}\n__global__ void over(float, float) {}\n"
            f"int main()\n{{\n    int* p = nullptr;\n    {launch}\n}}\n")
    (tmp_path / "wrong.cu").write_text(text)
    result = run([REPOSITORY / "cpu_device" / "run", "--build", "-o", "wrong", "wrong.cu"],
                 cwd=tmp_path, env={"CXX": need_compiler(cxx)}, timeout=300)
    assert (result.returncode, result.stdout) == (1, "")
    assert re.search(r"(?m)\bwrong\.cu:8\b", result.stderr), result.stderr
    assert not (tmp_path / "wrong").exists()
