"""Chapter 1: right at every size, clear about bad input, and unable to pass when it is wrong."""

import re

import pytest
from conftest import (DEVICE, NO_SIZES, REPOSITORY, check_device_memory, check_host_memory,
                      check_usage, mutate, run)

CHAPTER = REPOSITORY / "01_vector_add" / "vector_add.cu"
USAGE = "[n]   (sizes in decimal digits)"


@pytest.fixture(scope="module")
def program(build_program):
    return build_program(CHAPTER)


@pytest.mark.parametrize(
    "n", [0, 1, 31, 32, 33, 255, 256, 257, 1000, 1023, 1024, 1025, 100003])
def test_sizes(program, n):
    result = run([program, str(n)])
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stdout + result.stderr
    assert lines[-1] == "PASS"
    assert f" {4 * n} bytes" in lines[0]
    assert lines[1] == "one thread    largest difference from the CPU: 0 (allowed: 0)"
    assert lines[2] == ("one block     left out: a block has at most 1024 threads" if n > 1024 else
                        "one block     largest difference from the CPU: 0 (allowed: 0)")
    assert len(lines) == 4


def test_default_is_a_thousand_elements(program):
    assert run([program]).stdout == run([program, "1000"]).stdout


@pytest.mark.parametrize("arguments", NO_SIZES, ids=repr)
def test_what_is_no_size(program, arguments):
    check_usage(run([program, *arguments]), USAGE)


@pytest.mark.parametrize("n", ["200000000000", "18446744073709551615"])
def test_more_host_memory_than_there_is(program, n):
    check_host_memory(program, n)


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's memory cannot be made small")
def test_a_device_that_is_too_small(program):
    result = run([program, "1000000"], env={"CPU_DEVICE_MEMORY": "10000000"})
    check_device_memory(result, "vector_add")
    assert "vectors of 4000000 bytes" in result.stdout
    assert "the device has 10000000 bytes, " in result.stderr


# Each mistake is an edit of the chapter, with the sizes at which it shows.

THREAD = """    for (size_t i = 0; i < n; ++i)
        c[i] = a[i] + b[i];
}

// ## A thread for each element"""
BLOCK = "    c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];"

MISTAKES = {
    "the thread's kernel is empty": (THREAD, "}\n\n// ## A thread for each element", [1, 1000]),
    "the block's kernel is empty": (BLOCK, "", [1, 1000]),
    "the thread leaves out the last element": (THREAD, THREAD.replace("i < n", "i + 1 < n"), [1, 1000, 1025]),
    "the thread leaves out the first element": (THREAD, THREAD.replace("i = 0", "i = 1"), [1, 1000, 1025]),
    "the block leaves out its last element": (
        BLOCK, "    if (threadIdx.x + 1 < blockDim.x)\n    " + BLOCK, [1, 1000]),
    "the block reads the next element": (
        BLOCK, BLOCK.replace("b[threadIdx.x]", "b[(threadIdx.x + 1) % blockDim.x]"), [2, 1000]),
    "the block writes the next element": (
        BLOCK, BLOCK.replace("c[threadIdx.x]", "c[(threadIdx.x + 1) % blockDim.x]"), [2, 1000]),
    "the sum is off by a thousandth": (
        BLOCK, BLOCK.replace("b[threadIdx.x];", "b[threadIdx.x] * 1.001f;"), [100, 1000]),
    "a NaN in the middle": (
        BLOCK, BLOCK + "\n    if (threadIdx.x == blockDim.x / 2)\n        c[threadIdx.x] = NAN;", [1, 1000]),
    "an Inf in the middle": (
        BLOCK, BLOCK + "\n    if (threadIdx.x == blockDim.x / 2)\n        c[threadIdx.x] = INFINITY;",
        [1, 1000]),
    "a block of 2048 threads": (
        "one_block && n > 1024", "one_block && n > 2048", [1025, 2048]),
    "the block is one thread short": ("<<<1, n>>>(d_a, d_b, d_c);\n    else", 
                                      "<<<1, n - 1>>>(d_a, d_b, d_c);\n    else", [1, 2, 1000]),
    "an input is not copied": (
        "    CUDA_CHECK(cudaMemcpy(d_b, b, bytes, cudaMemcpyHostToDevice));\n    CUDA_CHECK(cudaMemset",
        "    CUDA_CHECK(cudaMemset", [1, 1000]),
    "the result is not copied back": (
        "    CUDA_CHECK(cudaMemcpy(c, d_c, bytes, cudaMemcpyDeviceToHost));\n    CUDA_CHECK(cudaFree(d_a));",
        "    CUDA_CHECK(cudaFree(d_a));", [1, 1000]),
    "the elements are counted as bytes": (
        "    const size_t bytes = n * sizeof(float);\n    float *d_a, *d_b, *d_c;",
        "    const size_t bytes = n;\n    float *d_a, *d_b, *d_c;", [1, 1000]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_does_not_pass(build_program, mistake):
    old, new, sizes = MISTAKES[mistake]
    program = build_program(mutate(CHAPTER, old, new), name="vector_add")
    for n in sizes:
        result = run([program, str(n)])
        assert result.returncode != 0, f"n = {n}:\n{result.stdout}"
        assert "PASS" not in result.stdout
        assert result.stdout.splitlines()[-1].startswith("FAIL: ") or "cudaError" in result.stderr


def test_emptied_kernels_with_the_right_answer_already_on_the_host(build_program):
    source = mutate(CHAPTER, "        gpu.assign(n, NAN);", "        gpu = cpu;")
    source = mutate(mutate(source, THREAD, "}\n\n// ## A thread for each element"), BLOCK, "")
    result = run([build_program(source, name="vector_add"), "1000"])
    assert result.returncode == 1
    assert re.match("FAIL: one thread: element 0: GPU -?nan, CPU 0.00", result.stdout.splitlines()[-1])


def test_the_block_that_is_too_large_is_named(build_program):
    source = mutate(CHAPTER, "one_block && n > 1024", "one_block && n > 2048")
    result = run([build_program(source, name="vector_add"), "2048"])
    line = next(number for number, text in enumerate(source.splitlines(), 1)
                if "was the launch allowed?" in text)
    assert result.returncode == 1
    # CUDA 12 has one name for a launch that is not allowed, CUDA 13 another.
    assert re.search(rf"vector_add\.cu:{line}: cudaErrorInvalid(Configuration|Value): ", result.stderr)
