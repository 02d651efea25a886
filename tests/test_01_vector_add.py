"""Chapter 1: right at every size, clear about bad input, and unable to pass when it is wrong."""

import pytest
from conftest import (DEVICE, NO_SIZES, REPOSITORY, check_device_memory, check_host_memory,
                      check_usage, run)

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
