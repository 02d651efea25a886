"""cpu_device/run: what it builds, and when; its modes; what it says when it cannot."""

import os
import platform
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import (BUILD, CHAPTERS, DEVICE, FULL, NVCC, REPOSITORY, environment, need, need_compiler,
                      not_run, run, write_source)

if DEVICE != "cpu":
    pytest.skip("about the CPU device", allow_module_level=True)

RUN = REPOSITORY / "cpu_device" / "run"
QUIET = {"CPU_DEVICE_QUIET": "1", "CXX": None, "CXXFLAGS": None, "LDLIBS": None}
CLANGS = [clang for clang in ("clang++-14", "clang++-16", "clang++-19") if shutil.which(clang)]
CLANGS = CLANGS or ["clang++"]

# A program that shows how it was called and built.
ARGUMENTS = """\
#include <cstdio>
#ifndef VALUE
#define VALUE 0
#endif
__global__ void set(int* p) { p[threadIdx.x] = VALUE + int(threadIdx.x); }
int main(int argc, char** argv)
{
    int *d, h[4] = {};
    cudaMalloc(&d, sizeof h);
    set<<<1, 4>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(d);
    std::printf("%d %d %s\\n", h[0], h[3], __FILE__);
    for (int i = 1; i < argc; ++i)
        std::printf("[%s]\\n", argv[i]);
    return argc;
}
"""


def start(*words, env=None, **options):
    return run([RUN, *words], env=QUIET | (env or {}), timeout=options.pop("timeout", 300),
               **options)


def build_output(result):
    """What stderr holds besides the words on what is built once."""
    return re.sub(r"(?m)^cpu_device/run: building the engine .*\n", "", result.stderr)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(ARGUMENTS)
    return path


# ---- Running

def test_arguments_status_and_output(program):
    result = start(program, "a", "b c", "*", "", "--tsan", "-o")
    assert (result.returncode, build_output(result)) == (7, "")
    assert result.stdout == f"0 3 {program}\n[a]\n[b c]\n[*]\n[]\n[--tsan]\n[-o]\n"


def test_death_by_a_signal(tmp_path):
    (tmp_path / "die.cu").write_text("#include <cstdlib>\nint main() { std::abort(); }\n")
    assert start(tmp_path / "die.cu").returncode == -signal.SIGABRT


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_shells(shell, program):
    path = shutil.which(shell)
    if not path:
        pytest.skip(f"no {shell} here, nor is it needed")
    words = [path, "sh"] if shell == "busybox" else [path]
    for _ in range(2):                               # building, and from what is built
        result = run([*words, RUN, program, "x"], env=QUIET, timeout=300)
        assert (result.returncode, result.stdout) == (2, f"0 3 {program}\n[x]\n")


def test_shellcheck():
    result = run([need("shellcheck"), "-s", "sh", RUN])
    assert result.returncode == 0, result.stdout


def test_through_a_symbolic_link(program, tmp_path):
    (tmp_path / "link").symlink_to(RUN)
    result = run([tmp_path / "link", program], env=QUIET, timeout=300)
    assert result.stdout == f"0 3 {program}\n"


def test_flags_reach_the_compiler(tmp_path):
    path = tmp_path / "flags.cu"
    path.write_text(ARGUMENTS)
    assert start(path, env={"CXXFLAGS": "-DVALUE=40 -O0"}).stdout.startswith("40 43 ")
    assert start(path, env={"CXXFLAGS": "-DVALUE=no"}).returncode == 1
    result = start(path, env={"LDLIBS": "-lno_such_library"})
    assert result.returncode == 1 and "no_such_library" in result.stderr


WARNINGS = """\
__global__ void k(float* p, int n)
{
    __shared__ float s[32];
    s[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i)
        p[i] = s[n];
}
int main()
{
    k<<<1, 32>>>(nullptr, 0);
    cudaDeviceReset();
}
"""


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
def test_no_warning_from_our_headers(cxx, tmp_path):
    path = tmp_path / "warnings.cu"
    path.write_text(WARNINGS)
    env = {"CXX": need_compiler(cxx), "CXXFLAGS": "-Wall -Wextra -Werror -pedantic"}
    result = start("--build", "-o", tmp_path / "out", path, env=env)
    assert (result.returncode, build_output(result)) == (0, "")
    path.write_text(WARNINGS.replace("int n)", "int n, int unused)").replace(", 0)", ", 0, 0)"))
    assert start("--build", "-o", tmp_path / "out", path, env=env).returncode == 1


CONTRACTION = """\
#include <cmath>
#include <cstdio>
__global__ void k(double* p) { p[0] = p[1] * p[1] + p[2]; }
int main()
{
    const double x = 1 + 0x1p-40;
    double h[] = {0, x, -1}, *d;
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    k<<<1, 1>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(d);
    std::printf("%d%d", h[0] == 0x1p-39, h[0] == 0x1p-39 + 0x1p-80);
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="-mfma is a flag for x86")
@pytest.mark.parametrize("cxx", ["g++", "clang++"])
def test_nothing_is_fused(cxx, tmp_path):
    if "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor cannot fuse a product and a sum")
    path = tmp_path / "fused.cu"
    path.write_text(CONTRACTION)
    env = {"CXX": need_compiler(cxx), "CXXFLAGS": "-mfma"}
    assert start(path, env=env).stdout == "10"
    env["CXXFLAGS"] += " -ffp-contract=fast"
    assert start(path, env=env).stdout == "01"


ORDER = """\
#include <cstdio>
__device__ int next;
__global__ void k(int* p) { p[atomicAdd(&next, 1)] = threadIdx.x; }
int main()
{
    int *d, h[8];
    cudaMalloc(&d, sizeof h);
    k<<<1, 8>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int thread : h)
        std::printf("%d", thread);
    cudaFree(d);
}
"""


def test_order_of_threads(tmp_path):
    path = tmp_path / "order.cu"
    path.write_text(ORDER)
    assert start("--order=forward", path).stdout == "01234567"
    assert start("--order=reverse", path).stdout == "76543210"
    first, again, other = (start(f"--order=random:{seed}", path).stdout for seed in (1, 1, 2))
    assert first == again != other and sorted(first) == list("01234567")
    assert start(path, env={"CPU_DEVICE_ORDER": "reverse"}).stdout == "76543210"


WORKERS = """\
#include <cstdio>
#include <set>
#include <sys/syscall.h>
#include <unistd.h>
__global__ void k(int* p)
{
    usleep(2000);
    p[blockIdx.x] = int(syscall(SYS_gettid));
}
int main()
{
    int *d, h[64];
    cudaMalloc(&d, sizeof h);
    k<<<64, 1>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    std::printf("%zu %d", std::set<int>(h, h + 64).size(), h[0] == getpid());
    cudaFree(d);
}
"""


def test_workers(tmp_path):
    path = tmp_path / "workers.cu"
    path.write_text(WORKERS)
    assert start("--workers=1", path).stdout == "1 1"
    assert start("--workers=3", path).stdout[0] == "3"


# Every thread looks at shared memory before anybody writes it, in one launch after another, and
# counts where it is not full of 0xFF.
GARBAGE = """\
#include <cstdio>
__shared__ int of_file[3];
namespace {
__shared__ struct { short first, second; } pair_of_file, *pointer_of_file;
}
__device__ int wrong;
template <class T>
__device__ void look_at(T& object, bool is_new = true)
{
    const volatile unsigned char* const bytes = (const volatile unsigned char*)&object;
    bool is_full = true;
    for (size_t i = 0; i < sizeof object; ++i)
        is_full = is_full && bytes[i] == 0xFF;
    if (is_full != is_new)
        atomicAdd(&wrong, 1);
    __syncthreads();
    if (threadIdx.x == 0)
        *(volatile char*)&object = 0;
    __syncthreads();
}
__device__ void function(bool is_new)
{
    __shared__ float s[8];
    look_at(s, is_new);
}
template <class T, int n>
__device__ void function_template()
{
    __shared__ T a[n][n], b[n][n + 1], c;
    look_at(a), look_at(b), look_at(c);
}
#define SHARED(type, name) __shared__ type name##_array[4]
__global__ void look(int rounds)
{
    function(true);
    function(false);
    function_template<float, 5>(), function_template<double, 3>(), function_template<int, 5>();
    look_at(of_file), look_at(pair_of_file), look_at(pointer_of_file);
    for (int round = 0; round < rounds; ++round)
        if (round > 0) {
            static __shared__ volatile short in_body[3], *pointer;
            look_at(in_body, round == 1), look_at(pointer, round == 1);
        }
    SHARED(int4, x);
    __shared__ alignas(16) struct { char a; double b; } y;
    extern __shared__ int dynamic[];
    look_at(x_array), look_at(y), look_at(*(int4*)dynamic);
}
int main()
{
    for (int i = 0; i < 3; ++i)
        look<<<20, 33, 16>>>(3);
    int result = 1;
    cudaMemcpyFromSymbol(&result, wrong, sizeof result);
    std::printf("%d", result);
}
"""


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
@pytest.mark.parametrize("mode", ["--workers=1", "--workers=3", "--order=reverse",
                                  "--order=random:3", "--asan", "--tsan"])
def test_shared_memory_begins_as_garbage(mode, cxx):
    path = BUILD / "tests" / "garbage.cu"
    write_source(path, GARBAGE)
    result = start(mode, f"--cxx={need_compiler(cxx)}", path)
    assert (result.returncode, result.stdout, build_output(result)) == (0, "0", "")


# ---- Errors

@pytest.mark.parametrize("words, message", [
    ([], "which program?"),
    (["--asan"], "which program?"),
    (["--fast", "x.cu"], "unknown option --fast"),
    (["--asan", "--tsan", "x.cu"], "--asan and --tsan exclude each other"),
    (["--gdb", "--lint", "x.cu"], "--gdb and --lint exclude each other"),
    (["--order=backward", "x.cu"], "unknown option --order=backward"),
    (["--order=random:x1", "x.cu"], "the seed is a number"),
    (["--order=random:", "x.cu"], "unknown option --order=random:"),
    (["--workers=0", "x.cu"], "N is a positive number"),
    (["--workers=two", "x.cu"], "N is a positive number"),
    (["--workers=", "x.cu"], "N is a positive number"),
    (["--cxx=", "x.cu"], "unknown option --cxx="),
    (["x.cpp"], "x.cpp is not a .cu"),
    (["x.cuh"], "x.cuh is a header"),
    (["program.cu.txt"], "program.cu.txt is not a .cu"),
    (["--build", "program.cu"], "--build needs -o FILE"),
    (["--build", "-o"], "-o needs the name of a file"),
    (["-o", "x", "program.cu"], "-o is for --build"),
    (["--build", "-o", "x", "program.cu", "5"], "arguments are for a run"),
    (["--build", "-o", "x", "--workers=2", "program.cu"], "are for a run"),
    (["--lint", "--order=reverse", "program.cu"], "are for a run"),
    (["--build", "-o", "x", "--lint", "program.cu"], "--lint builds nothing"),
])
def test_misuse(words, message, program):
    result = start(*words, cwd=program.parent)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr.splitlines()[0]
    assert result.stderr.startswith("cpu_device/run: ")


@pytest.mark.parametrize("words, message", [
    (["no.cu"], "no.cu: no such file"),
    (["folder.cu"], "folder.cu: no such file"),
    (["--gdb-batch=no.gdb", "program.cu"], "no.gdb: cannot be read"),
    (["--build", "-o", "folder.cu", "program.cu"], "folder.cu: is a folder"),
    (["--build", "-o", "no/where", "program.cu"], "no/where: cannot be written"),
    (["--build", "-o", "program.cu", "program.cu"],
     "program.cu: is there, and is no program, so it is not overwritten"),
    (["--build", "-o", "program.cu", "folder.cu/../program.cu"],
     "program.cu: is there, and is no program, so it is not overwritten"),
    (["--build", "-o", "folder.cu/my header.h", "program.cu"],
     "folder.cu/my header.h: is there, and is no program, so it is not overwritten"),
    (["--cxx=nothing", "program.cu"], "nothing is no C++ compiler that runs here"),
])
def test_what_is_not_there(words, message, program):
    (program.parent / "folder.cu").mkdir()
    header = program.parent / "folder.cu" / "my header.h"
    header.write_text("ELF")
    result = start(*words, cwd=program.parent)
    assert (result.returncode, result.stdout, header.read_text()) == (1, "", "ELF")
    assert build_output(result) == f"cpu_device/run: {message}\n"
    assert program.read_text() == ARGUMENTS


def test_help():
    result = run([RUN, "--help"])
    assert (result.returncode, result.stderr) == (0, "")
    options = set(re.findall(r"--[a-z-]+", RUN.read_text().split("while [ $# -gt 0 ]")[1]
                             .split("done")[0]))
    assert len(options) > 9
    for option in options - {"--help"}:
        assert re.search(rf"(?m)^  {option}\b", result.stdout), option


def test_compile_error_names_the_line(program):
    program.write_text(ARGUMENTS.replace("return argc;", "return arrgc;"))
    line = ARGUMENTS[:ARGUMENTS.index("return argc;")].count("\n") + 1
    result = start(program.name, cwd=program.parent)
    assert (result.returncode, result.stdout) == (1, "")
    assert re.search(rf"(?m)^program\.cu:{line}:\d+: error: .*arrgc", result.stderr)


def test_launch_in_a_header(program):
    """It is launched, a change of the header counts, and a fault names the header's line."""
    header = program.parent / "my inc" / "launch.cuh"
    header.parent.mkdir()
    kernel = """#pragma once
template <int n> __global__ void set(int* p) { p[n] = n; }
inline void launch_set(int* d)
{
    set<3><<<1, 1>>>(d);
}
"""
    header.write_text(kernel)
    program.write_text("""#include "my inc/launch.cuh"  // which is included twice
#include "my inc/launch.cuh"
int main()
{
    int *d, h[4];
    cudaMalloc(&d, sizeof h);
    launch_set(d);
    return cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess ? h[3] : 99;
}
""")
    assert start(program.name, cwd=program.parent).returncode == 3
    header.write_text(kernel.replace("= n;", "= n + 4;"))
    assert start(program.name, cwd=program.parent).returncode == 7
    header.write_text(kernel.replace("p[n]", "p[n + 1]"))
    assert re.search(r"heap-buffer-overflow.*launch\.cuh:2\b.*launch\.cuh:5\b",
                     start("--asan", program.name, cwd=program.parent).stderr, re.DOTALL)
    header.write_text(kernel + "int x = y;\n")
    assert re.search(r"(?m)^my inc/launch\.cuh:7:9: error: .*\by\b",
                     start(program.name, cwd=program.parent).stderr)


# ---- Compilers: those that a search path holds

@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """tools(names) -> a search path with everything but compilers, and with these compilers."""
    def make(*names):
        folder = tmp_path_factory.mktemp("tools")
        compilers = re.compile(r"(.*-)?(g\+\+|c\+\+|clang(\+\+)?|gcc|cc|gdb)(-[\d.]+)?")
        for tool in Path("/usr/bin").iterdir():
            if not compilers.fullmatch(tool.name):
                (folder / tool.name).symlink_to(tool)
        for name in names:
            (folder / name.split("=")[0]).symlink_to(need(name.split("=")[-1]))
        if shutil.which("sh", path=str(folder)) is None:
            (folder / "sh").symlink_to("/bin/sh")
        return str(folder)
    return make


@pytest.mark.parametrize("option, words", [
    (None, ["neither g++ nor clang++ is here", "g++"]),
    ("--lint", ["--lint needs clang++", "clang"]),
    ("--asan", ["--asan needs clang++ or g++", "clang"]),
    ("--tsan", ["--tsan needs clang++ or g++", "clang"]),
    ("--gdb", ["--gdb needs gdb", "gdb"])])
def test_nothing_installed(option, words, program, tools):
    result = start(*filter(None, [option]), program, env={"PATH": tools()})
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(f"cpu_device/run: {re.escape(words[0])}.*install.* {re.escape(words[1])}\n",
                        result.stderr)


# ---- What is built, and when: with a rewriter and an engine of a few lines, and a compiler that
# keeps a record

SMALL_REWRITER = r"""
#include <cstdio>
int main(int, char** argv)
{
    std::printf("#line 1 \"");
    for (const char* p = argv[1]; *p; ++p)
        std::printf(*p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    std::printf("\"\n");
    FILE* const file = std::fopen(argv[1], "r");
    for (int c; (c = std::getc(file)) != EOF;)
        std::putchar(c);
}
"""
SMALL_HEADER = "#pragma once\nnamespace cpu_device { int engine(); }\n"
SMALL_ENGINE = "namespace cpu_device { int engine() { return 1; } }\n"
SMALL_PROGRAM = """\
#include <cstdio>
#include "part.cpp"
int main() { std::printf("%d %d %s", NUMBER, cpu_device::engine(), __VERSION__); }
"""


@pytest.fixture
def small(tmp_path):
    """A tree of its own: cpu_device/run with stand-ins, and a compiler that is counted."""
    class Small:
        tree = tmp_path / "tree"
        device = tree / "cpu_device"
        run = device / "run"
        program = tmp_path / "my program.cu"
        compiler = tmp_path / "counted"
        log = tmp_path / "log"

        def start(self, *words, env=None, **options):
            return run([self.run, *words], env=QUIET | {"CXX": self.compiler, "BUILD": None}
                       | (env or {}), timeout=120, **options)

        def built(self, *words, **options):
            """What a run compiles, and what the program prints."""
            self.log.write_text("")
            result = self.start(self.program, *words, **options)
            assert result.returncode == 0, result.stderr
            return sorted(self.log.read_text().split()), result.stdout

        def write_compiler(self, before=""):
            self.compiler.write_text(
                f"#!/bin/sh\n{before}\ncase \"$*\" in\n"
                f"    --version | -print*) ;;\n"
                f"    *cu2cpp.cpp*) echo rewriter >>'{self.log}' ;;\n"
                f"    *whole_engine.cpp*) echo engine >>'{self.log}' ;;\n"
                f"    *) echo program >>'{self.log}' ;;\nesac\nexec g++ \"$@\"\n")
            self.compiler.chmod(0o755)

    small = Small()
    (small.device / "engine").mkdir(parents=True)
    (small.device / "include").mkdir()
    shutil.copy(RUN, small.device)
    (small.device / "cu2cpp.cpp").write_text(SMALL_REWRITER)
    (small.device / "include" / "cuda_runtime.h").write_text(SMALL_HEADER)
    (small.device / "engine" / "engine.cpp").write_text(SMALL_ENGINE)
    (tmp_path / "a header.h").write_text("#define NUMBER 1\n")
    (tmp_path / "part.cpp").write_text('#include "a header.h"\n')
    small.program.write_text(SMALL_PROGRAM)
    small.write_compiler()
    return small


@pytest.mark.parametrize("name", [
    "my dir/a program.cu", "it's \"quoted\".cu", "a$b`c`.cu", "x*?.cu", "-dash.cu", "표.cu",
    "back\\nslash.cu", "stamp.cu"])
def test_names(name, small, tmp_path):
    path = tmp_path / "folder" / name
    path.parent.mkdir(parents=True)
    path.write_text('#include "the header.h"\n#include <cstdio>\n'
                    'int main() { std::printf("%d %s", NUMBER, __FILE__); }\n')
    for given, where in [(path, None), (Path(".") / name, tmp_path / "folder")]:
        given = f"./{given}" if str(given).startswith("-") else given
        for number in ("5", "6"):
            (path.parent / "the header.h").write_text(f"#define NUMBER {number}\n")
            result = small.start(given, cwd=where)
            assert (result.returncode, result.stdout) == (0, f"{number} {given}"), result.stderr
        small.log.write_text("")
        assert small.start(given, cwd=where).returncode == 0
        assert small.log.read_text() == ""


@pytest.mark.parametrize("names, options, says", [
    (["g++", "clang++"], [], ""),
    (["clang++"], [], ""),
    (["clang++-16=clang++"], [], ""),
    (["g++", "clang++"], ["--asan"], "cpu_device/run: --asan with g++\n"),
    (["clang++"], ["--asan"], "cpu_device/run: --asan with clang++\n"),
    (["g++", "clang++"], ["--tsan"], "cpu_device/run: --tsan with clang++\n"),
    (["g++", "clang++-14=clang++"], ["--tsan"], "cpu_device/run: --tsan with clang++-14\n"),
    (["g++", "clang++"], ["--asan", "--cxx=g++"], ""),
])
def test_choice_of_compiler(names, options, says, small, tools):
    result = small.start(*options, small.program, env={"PATH": tools(*names), "CXX": None})
    assert result.returncode == 0, result.stderr
    assert build_output(result) == says
    assert ("Clang" in result.stdout) == ("clang++" in says or "g++" not in names)


def test_clang_without_its_sanitizers(small, tools):
    """g++ takes the place of a clang++ that cannot link, and this is said."""
    path = tools("g++")
    (Path(path) / "clang++").write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo clang\nexit 1\n")
    (Path(path) / "clang++").chmod(0o755)
    result = small.start("--tsan", small.program, env={"PATH": path, "CXX": None})
    assert (result.returncode, build_output(result)) == (0, "cpu_device/run: --tsan with g++\n")


def test_built_when_something_changed(small, tmp_path):
    assert small.built()[0] == ["engine", "program", "rewriter"]
    assert small.built()[0] == []
    assert small.built("--workers=1")[0] == []

    text = small.program.read_text()
    small.program.write_text(text.replace("%d %d", "%d  %d"))
    assert small.built()[0] == ["program"]
    (tmp_path / "a header.h").write_text("#define NUMBER 2\n")
    compiled, output = small.built()
    assert compiled == ["program"] and output.startswith("2  1 ")
    (tmp_path / "part.cpp").write_text('#include "a header.h"\n\n')
    assert small.built()[0] == ["program"]

    assert small.built(env={"CXXFLAGS": "-DSOMETHING"})[0] == ["program"]
    assert small.built(env={"CXXFLAGS": "-DSOMETHING"})[0] == []
    assert small.built()[0] == []
    assert small.built(env={"LDLIBS": "-lm"})[0] == ["program"]

    (small.device / "engine" / "engine.cpp").write_text(SMALL_ENGINE.replace("1", "3"))
    compiled, output = small.built()
    assert compiled == ["engine", "program"] and output.startswith("2  3 ")
    (small.device / "engine" / "new.h").write_text("\n")
    assert small.built()[0] == ["engine", "program"]
    header = small.device / "include" / "cuda_runtime.h"
    header.write_text(header.read_text() + "\n")
    assert small.built()[0] == ["engine", "program"]
    rewriter = small.device / "cu2cpp.cpp"
    rewriter.write_text(rewriter.read_text() + "\n")
    assert small.built()[0] == ["program", "rewriter"]
    small.write_compiler('[ "$1" != --version ] || { echo another; exit; }')
    assert small.built()[0] == ["engine", "program", "rewriter"]
    assert small.built()[0] == []


def test_a_damaged_program_is_built_again(small):
    assert small.built()[0] != []
    built = next((small.tree / "build").rglob("my program"))
    built.write_bytes(built.read_bytes()[:1000])
    compiled, output = small.built()
    assert compiled == ["program"] and output.startswith("1 1 ")
    next((small.tree / "build").rglob("my program.stamp")).write_text("")
    assert small.built()[0] == ["program"]


def test_an_edit_during_the_build_is_not_lost(small, tmp_path):
    small.built()
    header = tmp_path / "a header.h"
    small.write_compiler(f"case $* in *program.cpp*) g++ \"$@\"; s=$?; sleep 0.1\n"
                         f"echo '#define NUMBER 7' >'{header}'; exit $s ;; esac")
    small.program.write_text(small.program.read_text() + "\n")
    assert small.start(small.program).stdout.startswith("1 1 ")
    small.write_compiler()
    compiled, output = small.built()
    assert compiled == ["program"] and output.startswith("7 1 ")


def test_modes_do_not_share(small):
    assert small.built()[0] == ["engine", "program", "rewriter"]
    for mode in ("--asan", "--tsan"):
        small.log.write_text("")
        result = small.start(mode, small.program)
        assert result.returncode == 0, result.stderr
        assert sorted(small.log.read_text().split()) == ["engine", "program"]
    assert small.built()[0] == []


def test_two_at_once(small):
    """From nothing, at the same time: each gets its program, and the engine is built once."""
    other = small.program.with_name("other.cu")
    other.write_text(small.program.read_text().replace("NUMBER", "50"))
    env = environment(QUIET | {"CXX": str(small.compiler), "BUILD": None})
    started = [subprocess.Popen([small.run, path], env=env, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.PIPE)
               for path in (small.program, other, small.program, other)]
    outputs = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * 4, outputs
    assert [output.split()[0] for output, _ in outputs] == ["1", "50", "1", "50"]
    if shutil.which("flock"):
        log = small.log.read_text().split()
        assert log.count("engine") == log.count("rewriter") == 1
    small.program.write_text(small.program.read_text() + "\n")
    assert small.built()[0] == ["program"]


def test_interrupted(small):
    """Ended in the middle of a build it leaves nothing behind, and the next run is right."""
    small.write_compiler("case $* in *whole_engine.cpp*) sleep 5 ;; esac")
    process = subprocess.Popen([small.run, small.program], start_new_session=True,
                               env=environment(QUIET | {"CXX": str(small.compiler), "BUILD": None}),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    cache = small.tree / "build" / "cpu" / "cache"
    for _ in range(600):
        if list(cache.glob("cu2cpp-*")):
            break
        time.sleep(0.1)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (143, -signal.SIGTERM)
    assert not list(cache.glob("tmp.*")) and not list(cache.glob("engine-*"))
    small.write_compiler()
    assert small.built()[0] == ["engine", "program"]


def test_failed_build_is_tried_again(small):
    engine = small.device / "engine" / "engine.cpp"
    engine.write_text("#error broken\n")
    for _ in range(2):
        result = small.start(small.program)
        assert (result.returncode, result.stdout) == (1, "")
        assert "broken" in result.stderr
        assert "the engine does not compile with" in result.stderr.splitlines()[-1]
    small.program.write_text("int main() { return x; }\n")
    engine.write_text(SMALL_ENGINE)
    for _ in range(2):
        assert small.start(small.program).returncode == 1
    assert not list((small.tree / "build").rglob("tmp.*"))


def test_build_to_a_file(small, tmp_path):
    target = tmp_path / "out put"
    result = small.start("--build", "-o", target, small.program)
    assert (result.returncode, result.stdout) == (0, "")
    assert run([target]).stdout.startswith("1 1 ")
    shutil.rmtree(small.tree / "build")
    old = target.open("rb")
    small.program.write_text(small.program.read_text().replace("NUMBER", "9"))
    assert small.start("--build", "-o", target.name, small.program, cwd=tmp_path).returncode == 0
    assert run([target]).stdout.startswith("9 1 ")
    assert old.read() != target.read_bytes()         # the old one was replaced, not written over
    assert [path.name for path in tmp_path.glob("out*")] == [target.name]


def test_a_tree_that_cannot_be_written(small, tmp_path):
    (small.tree / "build").write_text("a file, and so no folder\n")
    (tmp_path / "tmp").mkdir()
    env = {"TMPDIR": tmp_path / "tmp"}
    result = small.start(small.program, env=env)
    assert (result.returncode, result.stdout[:4]) == (0, "1 1 ")
    folder = tmp_path / "tmp" / f"cpu_device-{os.getuid()}"
    assert f"cpu_device/run: cannot write to {small.tree}/build: building in {folder}\n" \
        in result.stderr
    assert folder.stat().st_mode & 0o077 == 0
    assert small.built(env=env)[0] == []

    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path / "elsewhere")        # of somebody who was here first
    result = small.start(small.program, env=env)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith("cannot write there: set BUILD\n")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_build_variable(small, tmp_path):
    assert small.built(env={"BUILD": "some where"}, cwd=tmp_path)[0] != []
    assert list((tmp_path / "some where" / "cpu" / "cache").glob("engine-*"))
    assert not (small.tree / "build").exists()
    (tmp_path / "file").write_text("")
    result = small.start(small.program, env={"BUILD": tmp_path / "file"})
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"cpu_device/run: BUILD={tmp_path}/file: cannot write there\n"


# ---- Sanitizers

FAULTS = {
    "past_the_end": ("--asan", "p[threadIdx.x + 1] = 1;", r"AddressSanitizer.*fault\.cu:4\b"),
    "overflow": ("--asan", "p[threadIdx.x] = p[threadIdx.x] * 1000000;",
                 r"fault\.cu:4:\d+: runtime error: signed integer overflow.*#0 .*fault\.cu:4"),
    "race": ("--tsan", "s[threadIdx.x] = 1; p[threadIdx.x] = s[31 - threadIdx.x];",
             r"ThreadSanitizer: data race.*fault\.cu:4\b"),
}
ON_THE_HOST = {
    "read": ("--asan", "return d[3];", r"use-after-poison.*fault\.cu:13\b"),
    "freed": ("--asan", "free(d);", r"gives device memory at 0x\w+ to free.*fault\.cu:13\b"),
    "deleted": ("--asan", "delete[] d;", r"gives device memory at 0x.* delete.*fault\.cu:13\b"),
    "pointer in device memory": ("--asan", "cudaMalloc((void**)(d + 2), 4);", r"use-after-poison.*fault\.cu:13\b"),
    "answer in device memory": ("--asan", "cudaGetDevice(d);", r"use-after-poison.*fault\.cu:13\b"),
    "shifted": ("--asan", "return 1 << blocks;", r"fault\.cu:13:\d+: runtime error: shift"),
    "spoiled": ("--tsan", "return d[3];", r"ThreadSanitizer: SEGV.*fault\.cu:13\b"),
}
SOUND = "s[threadIdx.x] = p[threadIdx.x]; __syncthreads(); p[threadIdx.x] = s[31 - threadIdx.x];"
FAULT = """\
__global__ void k(int* p)
{
    __shared__ int s[32];
    LINE
    (void)s;
}
int main()
{
    int* d;
    cudaMalloc(&d, 32 * sizeof(int));
    cudaMemset(d, 1, 32 * sizeof(int));
    k<<<BLOCKS, 32>>>(d);
    const cudaError_t error = cudaDeviceSynchronize();
    cudaFree(d);
    return error % 256;
}
"""


def fault(folder, line, blocks=2):
    path = folder / "fault.cu"
    path.write_text(FAULT.replace("LINE", line).replace("BLOCKS", str(blocks)))
    return path


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
@pytest.mark.parametrize("name", FAULTS)
def test_sanitizers(name, cxx, tmp_path):
    mode, line, report = FAULTS[name]
    result = start(mode, f"--cxx={need_compiler(cxx)}", fault(tmp_path, line))
    assert result.returncode != 0
    assert re.search(report, result.stderr, re.DOTALL), result.stderr


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
@pytest.mark.parametrize("mode", ["--asan", "--tsan"])
def test_sanitizers_are_quiet(mode, cxx, tmp_path):
    result = start(mode, f"--cxx={need_compiler(cxx)}", fault(tmp_path, SOUND, blocks=1))
    assert (result.returncode, result.stdout, build_output(result)) == (0, "", "")


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
@pytest.mark.parametrize("name", ON_THE_HOST)
def test_sanitizers_let_output_out(name, cxx, tmp_path):
    mode, line, report = ON_THE_HOST[name]
    path = fault(tmp_path, SOUND)
    path.write_text(path.read_text().replace(
        "    const cudaError_t error", f"    printf(\"printed\\n\"); int blocks = 40; {line}\n"
        "    const cudaError_t error"))
    result = start(mode, f"--cxx={need_compiler(cxx)}", path, env={"CXXFLAGS": "-include cstdio"})
    assert result.returncode != 0 and result.stdout == "printed\n"
    assert re.search(report, result.stderr, re.DOTALL), result.stderr


BLOCKS = """\
#include <cstdlib>
__global__ void add(int* sums, int m)
{
    if (threadIdx.x == 0)
        sums[blockIdx.x % m] += 1;
}
int main(int, char** arguments)
{
    int* d;
    cudaMalloc(&d, 4096 * sizeof(int));
    cudaMemset(d, 0, 4096 * sizeof(int));
    add<<<1000, std::atoi(arguments[1])>>>(d, std::atoi(arguments[2]));
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize("threads, apart", [
    (1, 1), (1, 2), (1, 10), (1, 198), (2, 4), (8, 16), (67, 2), (128, 256), (256, 512), (1024, 2), (1024, 512)])
def test_a_race_of_blocks_that_are_apart(threads, apart):
    """The first threads of blocks `apart` blocks apart add to the same sum."""
    path = BUILD / "tests" / "race_of_blocks.cu"
    write_source(path, BLOCKS)
    result = start("--tsan", f"--cxx={need_compiler('clang++')}", path, str(threads), str(apart))
    assert "WARNING: ThreadSanitizer: data race" in result.stderr and result.returncode != 0


def test_a_leak_is_no_fault_unless_the_user_says_so(tmp_path):
    path = tmp_path / "leak.cu"
    path.write_text("void* volatile p;\nint main() { p = new int[100]; p = nullptr; }\n")
    assert start("--asan", path).returncode == 0
    assert start("--asan", path, env={"ASAN_OPTIONS": "detect_leaks=1:exitcode=55"}
                 ).returncode == 55


ADDRESSES = """\
#include <cstdio>
#include <sys/personality.h>
int main() { std::printf("%d", (personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0); }
"""


def test_addresses_spread_too_widely(tmp_path):
    """Where the kernel spreads them over 32 bits, a sanitizer's program runs without that."""
    (tmp_path / "addresses.cu").write_text(ADDRESSES)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in [("cat", "case $1 in /proc/sys/vm/mmap_rnd_bits) echo $BITS ;;"
                               f" *) exec {shutil.which('cat')} \"$@\" ;; esac"),
                       ("setarch", f"[ -z \"$NO\" ] && exec {need('setarch')} \"$@\"")]:
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"

    def sanitize(**env):
        return start("--tsan", tmp_path / "addresses.cu", env={"PATH": path, "CXX": "g++"} | env)
    assert sanitize(BITS="28").stdout == "0"
    assert sanitize(BITS="32").stdout == "1"
    result = sanitize(BITS="32", NO="yes")
    assert result.stdout == "0" and "sudo sysctl vm.mmap_rnd_bits=28" in result.stderr


# ---- The debugger

SQUARE = """\
__global__ void square(int* p)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const int other = s[31 - threadIdx.x];
    p[blockIdx.x * 32 + threadIdx.x] = other * other;
}
int main()
{
    int* d;
    cudaMalloc(&d, 8 * 32 * sizeof(int));
    square<<<8, 32>>>(d);
    cudaDeviceSynchronize();
    cudaFree(d);
    return 3;
}
"""
COMMANDS = """\
break square.cu:4 if threadIdx.x == 5 && blockIdx.x == 3
run
print threadIdx.x
print blockIdx.x
print blockDim.x
next
next
print s
next
print other
backtrace 1
print threadIdx.x
delete
continue
"""


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
def test_gdb_stops_in_one_thread(cxx, tmp_path):
    need("gdb")
    (tmp_path / "square.cu").write_text(SQUARE)
    (tmp_path / "commands").write_text(COMMANDS)
    result = start("--gdb-batch=commands", f"--cxx={need_compiler(cxx)}", "square.cu", cwd=tmp_path)
    assert result.returncode == 3, result.stdout + result.stderr
    shown = re.findall(r"(?m)^\$\d+ = (.*)", result.stdout)
    numbers = ", ".join(map(str, range(32)))
    assert shown == ["5", "3", "32", f"{{{numbers}}}", "26", "5"]
    assert re.search(r"(?m)^#0 +square .*square\.cu:7$", result.stdout)


def test_gdb_shows_the_fault_of_a_kernel(tmp_path):
    need("gdb")
    (tmp_path / "commands").write_text("run\n")
    result = start(f"--gdb-batch={tmp_path}/commands", fault(tmp_path, "*(int*)16 = 1;"))
    output = result.stdout + result.stderr
    assert result.returncode == 700 % 256, output      # cudaErrorIllegalAddress
    assert "SIGSEGV" not in output and re.search(r"cpu device: .*\bk\b", output)


# ---- The rules of CUDA

RULES = {
    "host_function": ("__global__ void k(int* p) { *p = host(); }", "host"),
    "host_function_of_a_template": (
        "template <class T> __global__ void t(T* p) { *p = host(); } "
        "void h(int* p) { t<<<1, 1>>>(p); }", "host"),
    "host_function_in_a_lambda": (
        "__global__ void k(int* p) { auto f = [] { return host(); }; *p = f(); }", "host"),
    "host_member": ("struct S { int f() { return 1; } }; "
                    "__global__ void k(int* p) { S s; *p = s.f(); }", "f"),
    "standard_library": ("__global__ void k(int*) { std::vector<int> v(3); }", "vector"),
    "constexpr_of_the_library": ("__global__ void k(int* p) { *p = std::max(p[0], p[1]); }", "max"),
    "numeric_limits": ("__global__ void k(float* p) { *p = std::numeric_limits<float>::max(); }",
                       "max"),
    "device_function": ("int h() { return device(); }", "device"),
    "barrier_on_the_host": ("void h() { __syncthreads(); }", "__syncthreads"),
    "intrinsic_on_the_host": ("float h() { return __fdividef(1, 3); }", "__fdividef"),
    "intrinsic_with_a_namesake": ("float h() { return __expf(1); }", "__expf"),
    "intrinsic_with_pointers": ("void h(float* p) { __sincosf(1, p, p); }", "__sincosf"),
    "read_only_load_on_the_host": ("int h(const int* p) { return __ldg(p); }", "__ldg"),
    "shuffle_on_the_host": ("int h() { return __shfl_xor_sync(~0u, 1, 1); }", "__shfl_xor_sync"),
    "atomic_on_the_host": ("int h(int* p) { return atomicAdd(p, 1); }", "atomicAdd"),
    "rhypotf_on_the_host": ("float h() { return rhypotf(3, 4); }", "rhypotf"),
    "half_function_on_the_host": ("__half h(__half x) { return hexp(x); }", "hexp"),
    "swap": ("__global__ void k(int* p) { std::swap(p[0], p[1]); }", "swap"),
    "fmax_of_two_types": ("__global__ void k(double* p) { p[0] = fmax(1.0f, p[1]); }", "fmax"),
    "kernel_with_a_result": ("__global__ int k(int* p) { return *p; }", "void return type"),
    "kernel_called": ("void h(int* p) { good(p, 1); }", "not configured"),
    "wrong_argument": ("void h() { good<<<1, 1>>>(2.5, 1); }", "'int \\*'"),
    "missing_argument": ("void h(int* p) { good<<<1, 1>>>(p); }", "too few arguments"),
    "assigned_index": ("__global__ void k(int* p) { threadIdx.x = *p; }", "threadIdx"),
    "initialised_shared": ("__global__ void k(int* p) { __shared__ int s = 3; *p = s; }",
                           "not supported for __shared__"),
    "api_in_a_kernel": ("__global__ void k() { cudaDeviceReset(); }", "cudaDeviceReset"),
}
GOOD = """\
#include <cuda_fp16.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>
int host() { return 1; }
__device__ int device() { return 1; }
__global__ void good(int* p, int n) { *p = n; }
"""


def faults_found(compile_file, path):
    """A compiler's words on each rule that it sees broken.

    It may look for some only where it finds none of the others, so it is called again without the
    lines that it has named, until it is content.
    """
    lines = [f"namespace n{i} {{ {line} }}" for i, (line, _) in enumerate(RULES.values())]
    words = {}
    while True:
        path.write_text(GOOD + "\n".join(lines) + "\nint main() {}\n")
        result = compile_file(path)
        if result.returncode == 0:
            return words
        named = {int(number) - GOOD.count("\n") - 1: text for number, text in re.findall(
            rf"(?m)^{re.escape(str(path))}[:(](\d+)[:)].*error: (.*)", result.stderr)}
        assert named and all(lines[i] for i in named), result.stderr
        for i, text in named.items():
            words[list(RULES)[i]] = text
            lines[i] = ""


@pytest.mark.parametrize("clang", CLANGS)
def test_lint_names_the_line(clang, tmp_path):
    found = faults_found(lambda path: start("--lint", f"--cxx={need_compiler(clang)}", path),
                         tmp_path / "rules.cu")
    assert found.keys() == RULES.keys()
    for rule, (_, message) in RULES.items():
        assert re.search(message, found[rule])


@pytest.mark.skipif(not FULL, reason="takes long: FULL=1")
def test_nvcc_agrees(tmp_path):
    """It refuses what the lint refuses, and compiles what the lint allows."""
    if not NVCC:
        not_run("no nvcc here")

    def compile_file(path):
        return run([NVCC, "-std=c++17", "-c", path, "-o", tmp_path / "object"], timeout=120)
    assert faults_found(compile_file, tmp_path / "rules.cu").keys() == RULES.keys()
    (tmp_path / "allowed.cu").write_text(ALLOWED.replace("neither_this_nor_that();", ""))
    assert compile_file(tmp_path / "allowed.cu").returncode == 0


ALLOWED = GOOD + """\
#include <cassert>
#include <cfloat>
#include <initializer_list>
#include <type_traits>
#if __has_include(<benchmark/benchmark.h>)
#include <benchmark/benchmark.h>
#endif

struct Add {
    __host__ __device__ float operator()(float a, float b) const { return a + b; }
};
__host__ __device__ float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
__constant__ float table[4];
__device__ int counter;
__managed__ int managed;

template <int size>
__global__ void __launch_bounds__(256) all(float* p, const float* __restrict__ q, double* r, int n)
{
    __shared__ float s[size][size + 1];
    extern __shared__ float dynamic[];
    static_assert(std::is_same_v<float, float>);
    s[threadIdx.y][threadIdx.x] = sigmoid(p[size_t(blockIdx.x) * blockDim.x + threadIdx.x]);
    dynamic[0] = table[1];
    __syncthreads();
    assert(n > 3);
    p[0] = s[0][1] + __expf(2) + sqrtf(3.0f) + std::sqrt(2.0f) + fmaf(1, 2, 3) + isnan(p[1])
         + std::isinf(p[2]) + rsqrtf(2) + INFINITY + FLT_MAX + std::fma(1.0f, 2.0f, 3.0f)
         + exp(2.0f) + abs(-3) + std::abs(-2.0f) + __powf(2, 3) + erff(2) + log1pf(2)
         + fmaxf(1, 2) + min(1, 2)
         + max(1.0f, 2.0f) + std::pow(2.0f, 3.0f) + std::isfinite(p[3]) + NAN + __fdividef(1, 2)
         + __ldg(q) + warpSize;
    for (float x : {1.0f, 2.0f})
        p[3] += x;
    p[5] = std::move(p[6]) + std::forward<float>(p[7]) + std::initializer_list<int>{1, 2}.size();
    r[5] = pow(p[1], 2.0) + std::pow(2, 3) + std::pow(2.0f, 3) + pow(2.0, 3.0f) + j0f(2) + y1(2.0)
         + float(hexp(__half(2.0f))) + rnorm3d(1, 2, 3) + norm4df(1, 2, 3, 4) + clock();
    r[0] = std::sqrt(2.0) + exp(r[1]) + pow(2.0, 3) + fabs(r[2]) + floor(r[3]) + tanh(r[4]);
    sincosf(p[1], p, p + 1);
    if (threadIdx.x == 0)
        printf("%f %d\\n", p[0], atomicAdd(&counter, 1));
    const float4 v = make_float4(1, 2, 3, 4);
    reinterpret_cast<float4*>(p)[0] = v;
    p[1] = Add()(v.x, v.y);
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        p[2] += __shfl_down_sync(0xffffffff, p[2], offset);
    const auto add = [&](float x) { return sigmoid(x) + v.z; };
    p[4] = add(2);
    memcpy(p, q, 16);
    p[__popc(n)] += __ballot_sync(~0u, n) + __float_as_int(p[0]) + clock64();
#ifdef __CUDACC__
    asm volatile("trap;");
#endif
#if __CUDA_ARCH__ > 0
    neither_this_nor_that();
#endif
}

int main()
{
    std::vector<float> h(4);
    float* d;
    cudaMalloc(&d, 16);
    all<16><<<dim3(1, 2), dim3(16, 16), 4>>>(d, d, nullptr, 3);
    const auto instance = all<8>;
    instance<<<1, 2>>>(d, d, nullptr, 1);
    cudaMemcpyToSymbol(table, h.data(), 16);
    std::sort(h.begin(), h.end());
    h = std::move(h);
    float sine, cosine;
    sincospif(0.5f, &sine, &cosine);
    h[0] = rsqrtf(2) + float(rsqrt(2.0)) + rcbrtf(8) + sinpif(1) + float(cospi(1.0)) + normcdff(0)
         + j0f(2) + float(__half(1.0f) + __half(2.0f)) + float(__hadd(__half(1), __half(2)));
    std::printf("%f %d %f\\n", sigmoid(2), std::max(1, 2) + max(1, 2), std::exp(2.0) + expf(1));
    return cudaGetLastError();
}
"""


@pytest.mark.parametrize("clang", CLANGS)
def test_lint_allows_what_cuda_allows(clang, tmp_path):
    need(clang)
    path = tmp_path / "allowed.cu"
    path.write_text(ALLOWED)
    result = start("--lint", f"--cxx={clang}", path)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert result.stderr == f"cpu_device/run: {path}: nothing found by {clang}\n"


# The first has a benchmark library to include, and the others cuBLAS as well.
@pytest.mark.parametrize("chapter", CHAPTERS if FULL else [CHAPTERS[0], CHAPTERS[5]], ids=lambda path: path.stem)
def test_lint_of_the_benchmarks(chapter):
    if not Path("/usr/include/benchmark/benchmark.h").exists():
        not_run("no Google Benchmark here")
    result = start("--lint", f"--cxx={need_compiler('clang++')}", chapter, env={"CXXFLAGS": "-DBENCHMARKS"})
    assert result.returncode == 0, result.stderr


def test_lint_builds_nothing(program, tmp_path):
    result = start("--lint", program,
                   env={"BUILD": tmp_path / "build", "CXX": need_compiler("clang++")})
    assert result.returncode == 0 and not (tmp_path / "build").exists()
