"""Chapter 2: each error is the one it should be, with its line, and nothing else is one."""

import re

import pytest
from conftest import (DEVICE, REPOSITORY, check_device_memory, check_host_memory, check_usage,
                      mutate, need, run)

CHAPTER = REPOSITORY / "02_error_checking" / "error_checking.cu"
TEXT = CHAPTER.read_text(encoding="utf-8")

# How a launch is refused: by the documentation, and by CUDA 13.
REFUSED = {"cudaErrorInvalidConfiguration: invalid configuration argument",
           "cudaErrorInvalidValue: invalid argument"}
ADDRESS = "cudaErrorIllegalAddress: an illegal memory access was encountered"

# name: (the function that makes the mistake, the call that reports it, the error; None: refused)
GALLERY = {
    "too-many-threads": ("too_many_threads", "cudaGetLastError()", None),
    "zero-blocks": ("zero_blocks", "cudaGetLastError()", None),
    "wrong-direction": ("wrong_direction", "cudaMemcpy(d_x, &x, sizeof x, cudaMemcpyDeviceToHost)",
                        "cudaErrorInvalidValue: invalid argument"),
    "out-of-memory": ("out_of_memory", "cudaMalloc(&d_x, size_t(1) << 50)",
                      "cudaErrorMemoryAllocation: out of memory"),
    "host-pointer": ("host_pointer", "cudaDeviceSynchronize()", ADDRESS),
    "illegal-address": ("illegal_address", "cudaMemcpy(y, d_y, sizeof y, cudaMemcpyDeviceToHost)",
                        ADDRESS),
    "assert": ("failing_assert", "cudaFree(d_x)", "cudaErrorAssert: device-side assert triggered"),
}
WORKS = "no error: on this system a kernel can use the host's memory\nPASS\n"
USAGE = f"[n | {' | '.join(GALLERY)}]   (sizes in decimal digits)"
QUIET = {"CPU_DEVICE_QUIET": "1"}


@pytest.fixture(scope="module")
def program(build_program):
    return build_program(CHAPTER)


@pytest.fixture(scope="module")
def refused(program):
    """How a launch is refused here."""
    stderr = run([program, "too-many-threads"], env=QUIET).stderr
    error = stderr.splitlines()[0].split(": ", 1)[1]
    assert error in REFUSED
    return error


def line_of(function, text):
    """The number of the first line with this text in the function."""
    start = TEXT.index(f"void {function}()\n{{")
    return TEXT.count("\n", 0, TEXT.index(text, start)) + 1


def row(label, error, call=None):
    return f"    {label:22}{error.split(':')[0]:31}expected" + (f" from {call}" if call else "")


def expected_output(refused, host_pointer_works=False):
    lines = [
        "one block of 500000 threads, no call checked",
        row("elements written", "none"),
        row("cudaPeekAtLastError", refused),
        row("cudaGetLastError", refused),
        row("cudaGetLastError", "cudaSuccess"),
        '    a tempting check      says "no error"',
        "in pieces     largest difference from the CPU: 0 (allowed: 0)",
        "printf in a kernel",
        "    the host              has launched it, and waits",
        "    the kernel            says hello",
        "seven mistakes, each in a process of its own",
    ]
    for name, (_, call, error) in GALLERY.items():
        works = name == "host-pointer" and host_pointer_works
        lines.append(row(name, "cudaSuccess" if works else error or refused, call[:call.index("(")]))
        if name == "illegal-address":
            lines.append(row("  launches blocking", error, "cudaGetLastError"))
    return lines + ["PASS"]


@pytest.mark.parametrize("blocking", [None, "0", "1"])
def test_the_lesson_and_the_gallery(program, refused, blocking):
    works = run([program, "host-pointer"]).returncode == 0
    assert DEVICE == "gpu" or not works
    result = run([program], env={"CUDA_LAUNCH_BLOCKING": blocking})
    assert result.returncode == 0, result.stdout + result.stderr
    first, *lines = result.stdout.splitlines()
    assert first.startswith("C = A + B, vectors of 2000000 bytes, on ")
    assert lines == expected_output(refused, works)


@pytest.mark.parametrize("n", [0, 1, 31, 1023, 1024, 1025, 2047, 2048, 2049, 100003])
def test_a_size_runs_the_part_that_is_right(program, refused, n):
    result = run([program, str(n)], env=QUIET)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    first, *lines = result.stdout.splitlines()
    assert first.startswith(f"C = A + B, vectors of {4 * n} bytes, on ")
    assert lines == expected_output(refused)[6:10] + ["PASS"]


@pytest.mark.parametrize("arguments", [
    ["abc"], ["-3"], ["1e6"], ["0x10"], [""], ["1000000000000000000000"], ["5", "6"], ["Assert"],
    ["assert "], ["assert", "assert"], ["assert", "5"], ["zero"], ["zero_blocks"]], ids=repr)
def test_what_is_neither_a_size_nor_a_mistake(program, arguments):
    result = run([program, *arguments], env=QUIET)
    check_usage(result, USAGE)
    assert re.fullmatch(r"usage: .*error_checking .*\n", result.stderr)


def test_more_host_memory_than_there_is(program):
    check_host_memory(program, "200000000000")


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's memory cannot be made small")
def test_a_device_that_is_too_small(program):
    result = run([program, "1000000"], env={"CPU_DEVICE_MEMORY": "10000000"})
    check_device_memory(result, "error_checking")
    assert re.search(r"error_checking\.cu:\d+: cudaErrorMemoryAllocation: out of memory\n"
                     r" {4}cudaMalloc\(&d_c, bytes\)\n"
                     r" {4}the device has 10000000 bytes, \d+ of them free\n", result.stderr)


def message(error, line, call):
    return f"error_checking.cu:{line}: {error}\n    {call}\n"


@pytest.mark.parametrize("name", GALLERY)
def test_a_mistake_by_itself_fails_as_any_program_would(program, refused, name):
    function, call, error = GALLERY[name]
    result = run([program, name], env=QUIET)
    if name == "host-pointer" and DEVICE == "gpu" and result.returncode == 0:
        assert result.stdout == WORKS
        return
    assert result.returncode == 1
    assert result.stdout == ""
    assert message(error or refused, line_of(function, call), call) in result.stderr
    assert len(re.findall(r"cudaError\w+: ", result.stderr)) == 1


def test_launch_blocking_finds_the_guilty_launch(program):
    result = run([program, "illegal-address"], env={"CUDA_LAUNCH_BLOCKING": "1"})
    line = line_of("illegal_address", "cudaGetLastError()")
    assert result.returncode == 1
    assert message(ADDRESS, line, "cudaGetLastError()") in result.stderr
    launch = line_of("illegal_address", "differences<<<")
    assert line == launch + 1


def test_out_of_memory_says_what_there_is(program):
    assert re.search(r"\n    the device has \d+ bytes, \d+ of them free\n",
                     run([program, "out-of-memory"]).stderr)


def test_assert_names_line_block_and_thread(program):
    result = run([program, "assert"])
    line = TEXT.count("\n", 0, TEXT.index("assert(x[threadIdx.x] >= 0)")) + 1
    assert re.search(rf"error_checking\.cu:{line}: .*block: \[0,0,0\], thread: \[2,0,0\] "
                     r"Assertion `x\[threadIdx\.x\] >= 0` failed", result.stderr)


def test_a_kernel_prints_nothing_if_nobody_synchronises(build_program):
    source = mutate(TEXT, """    std::fflush(stdout);                   // our own line first
    CUDA_CHECK(cudaDeviceSynchronize());
""", "")
    result = run([build_program(source, name="error_checking"), "1000"],
                 env={"CUDA_LAUNCH_BLOCKING": None})
    assert "the host" in result.stdout
    assert "the kernel" not in result.stdout


# The chapter's macro and its function, in a program that counts how often an argument is evaluated.

MACRO = re.search(r"#define CUDA_CHECK\(call\).*\nvoid check_cuda\(.*\);\n", TEXT).group(0)
FUNCTION = re.search(r"^void check_cuda\([^;]*?\)\n\{\n.*?\n\}\n", TEXT, re.M | re.S).group(0)
COUNTING = f"""#include <cstdio>
#include <cstdlib>
{MACRO}{FUNCTION}
cudaError_t evaluate(cudaError_t status)
{{
    std::puts("evaluated");
    return status;
}}

int main(int argc, char**)
{{
    if (argc == 1)
        CUDA_CHECK(evaluate(cudaSuccess));
    else
        CUDA_CHECK(evaluate(cudaErrorInvalidValue));
    std::puts("went on");
}}
"""


def test_the_macro_evaluates_once_and_fits_an_if_without_braces(build_program):
    program = build_program(COUNTING, name="counting", flags=())
    success = run([program])
    assert (success.returncode, success.stdout) == (0, "evaluated\nwent on\n")
    failure = run([program, "fail"])
    assert (failure.returncode, failure.stdout) == (1, "evaluated\n")
    line = COUNTING.count("\n", 0, COUNTING.index("CUDA_CHECK(evaluate(cudaErrorInvalidValue))")) + 1
    assert (f"counting.cu:{line}: cudaErrorInvalidValue: invalid argument\n"
            "    evaluate(cudaErrorInvalidValue)\n") in failure.stderr


# What the tools make of the gallery: the errors that it names, no more and no fewer.

READ = "Invalid __global__ read of size 4 bytes"
MEMCHECK = {
    "too-many-threads": {"refused: cudaLaunchKernel", "refused: cudaGetLastError"},
    "zero-blocks": {"refused: cudaLaunchKernel", "refused: cudaGetLastError"},
    "wrong-direction": {"cudaErrorInvalidValue: cudaMemcpy"},
    "out-of-memory": {"cudaErrorMemoryAllocation: cudaMalloc"},
    "host-pointer": {READ},
    "illegal-address": {READ, "cudaErrorLaunchFailure: cudaMemcpy"},
    "assert": {"Warp assert", "cudaErrorAssert: cudaDeviceSynchronize",
               "cudaErrorAssert: cudaGetLastError", "cudaErrorAssert: cudaFree"},
}


@pytest.mark.skipif(DEVICE != "gpu", reason="compute-sanitizer needs a GPU")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_compute_sanitizer_reports_the_gallery_and_nothing_else(program, refused, tool):
    sanitizer = [need("compute-sanitizer"), "--tool", tool, "--error-exitcode", "99"]
    right = run([*sanitizer, program, "1000"], timeout=120)
    assert right.returncode == 0 and right.stdout.splitlines()[-2] == "PASS"
    for name, expected in MEMCHECK.items():
        result = run([*sanitizer, program, name], timeout=120)
        if name == "host-pointer" and WORKS in result.stdout:
            continue
        found = set(re.findall(r"^========= (Invalid .*|Warp assert|.*[Uu]ninitialized.*|.*hazard detected.*"
                               r"|Barrier error.*|.*Race.*)$", result.stdout, re.M))
        found |= {f"{'refused' if name in ('too-many-threads', 'zero-blocks') else error}: {call}"
                  for error, call in re.findall(
                      r"^========= Program hit (\w+) .* on CUDA API call to (\w+)", result.stdout, re.M)}
        assert found == (expected if tool == "memcheck" else set()), result.stdout
        assert result.returncode == (99 if tool == "memcheck" else 1)


@pytest.mark.skipif(DEVICE != "cpu", reason="the CPU device has tools of its own")
@pytest.mark.parametrize("tool", ["--asan", "--tsan"])
def test_the_cpu_devices_tools_report_the_gallery_and_nothing_else(refused, tool):
    device = [REPOSITORY / "cpu_device" / "run", tool, CHAPTER]
    right = run([*device, "1000"], timeout=300)
    assert right.returncode == 0 and right.stdout.splitlines()[-1] == "PASS"
    for name, (function, call, error) in GALLERY.items():
        result = run([*device, name], timeout=120)
        reports = re.findall(r"^.*(?:ERROR|WARNING): \w+Sanitizer: .*", result.stderr, re.M)
        if name == "illegal-address":
            assert result.returncode != 0
            assert len(reports) == 1 and "SEGV" in reports[0]
            assert "differences(float const*, float*)" in result.stderr
        else:
            assert result.returncode == 1
            assert reports == []
            assert (f"error_checking.cu:{line_of(function, call)}: {error or refused}\n    {call}\n"
                    in result.stderr)


def test_the_report_that_the_chapter_quotes_is_one():
    report = (REPOSITORY / "plots/results/h200/02_error_checking.illegal-address.txt").read_text()
    quoted = re.search(r"^// ```\n((?:// (?:=|  ).*\n)+)// ```$", TEXT, re.M).group(1)
    quoted = re.sub(r"^// +", "", quoted, flags=re.M).replace("of\nsize", "of size")
    assert quoted.count("\n") == 5
    for line in quoted.splitlines():
        assert line in report.splitlines()
    guilty = TEXT.count("\n", 0, TEXT.index("x[i] - x[i - 1]")) + 1
    assert f" in error_checking.cu:{guilty}\n" in quoted
