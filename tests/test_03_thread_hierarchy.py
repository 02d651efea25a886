"""Chapter 3: every element once at every size, bad input named, and no wrong kernel that passes."""

import re
from pathlib import Path

import pytest
from conftest import (DEVICE, NO_SIZES, REPOSITORY, check_device_memory, check_host_memory,
                      check_usage, not_run, run)

CHAPTER = REPOSITORY / "03_thread_hierarchy" / "thread_hierarchy.cu"
USAGE = "[n]   (sizes in decimal digits)"
SWEEP = "32 64 128 256 512 1024"
VARIANTS = {
    "one element a thread": SWEEP,
    "a grid-stride loop": "96 256",
    "four elements a thread": "96 256",
    "one float4 a thread": SWEEP,
    "two float4 a thread": "96 256",
    "four float4 a thread": "96 256",
}


@pytest.fixture(scope="module")
def program(build_program):
    return build_program(CHAPTER)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 499, 500, 501, 1023,
                               1024, 1025, 4095, 4097, 100003, 1000003])
def test_sizes(program, n):
    result = run([program, str(n)])
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1] == "PASS"
    assert f"C = A + B, vectors of {4 * n} bytes" in lines
    for chain in ("chain -x + 1", "chain x + 1"):
        assert f"{chain:<13} largest difference from the CPU: 0 (allowed: 0)" in lines
    for name, blocks in VARIANTS.items():
        assert f"  {name:<24} equal to the CPU's sums, with blocks of {blocks}" in lines


@pytest.mark.parametrize("n", [1, 31, 33, 63, 64, 65, 100, 449, 499, 500, 501, 100003])
def test_the_picture_has_each_element_in_its_place(program, n):
    lines = run([program, str(n)]).stdout.splitlines()
    picture = [re.fullmatch(r"  block (\d), (no SM|SM \d+) +([#.]{32}) ([#.]{32})", line) for line in lines]
    picture = [match for match in picture if match]
    shown = min(n, 500)
    assert [int(match[1]) for match in picture] == list(range(-(-shown // 64)))
    threads = "".join(match[3] + match[4] for match in picture)
    assert threads == "#" * shown + "." * (-shown % 64)
    if DEVICE == "cpu":
        assert {match[2] for match in picture} == {"no SM"}


def test_no_elements(program):
    result = run([program, "0"])
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "PASS"
    assert "block 0" not in result.stdout


def test_default_is_a_prime_that_nothing_divides(program):
    assert "vectors of 4000012 bytes" in run([program]).stdout


def test_the_device_is_described(program):
    lines = run([program, "1"]).stdout.splitlines()
    assert re.fullmatch(r".+, compute capability \d+\.\d+", lines[0])
    assert re.fullmatch(r"  launched   up to 1024 threads a block, 2147483647 x 65535 x 65535 blocks a grid", lines[1])
    threads, sms, each, warp = map(int, re.fullmatch(
        r"  resident   up to (\d+) threads: on each of (\d+) SMs (\d+), in warps of (\d+)", lines[2]).groups())
    assert threads == sms * each
    assert warp == 32
    if DEVICE == "gpu":
        assert re.fullmatch(r"  in theory  \d+ GB/s: 2 x \d+ MHz x \d+ bits / 8", lines[5])
        assert re.fullmatch(r" +[\d.]+ TFLOP/s: 2 x \d+ SMs x (64|128) units x \d+ MHz", lines[6])


@pytest.mark.parametrize("price", ["1", "1599", "0.35", "30000.50"])
def test_a_price(program, price):
    result = run([program, "1"], env={"PRICE": price})
    assert result.returncode == 0, result.stdout + result.stderr
    line = next(line for line in result.stdout.splitlines() if "PRICE" in line)
    if "unknown" in line:
        assert "TFLOP/s unknown" in result.stdout
        assert DEVICE == "cpu"
    else:
        tera = float(re.search(r"([\d.]+) TFLOP/s", result.stdout)[1])
        giga_for_one = float(re.search(r"(\S+) GFLOP/s for each unit of the PRICE, ", line)[1])
        assert giga_for_one * float(price) == pytest.approx(1000 * tera, rel=0.01)


@pytest.mark.parametrize("price", ["", "abc", "0", "0.0", "-3", "+3", "1e3", "0x10", "inf", "nan", " 5", "5 ", "5€",
                                   "1.2.3", ".", "9" * 400], ids=lambda price: repr(price[:9]))
def test_what_is_no_price(program, price):
    result = run([program, "1"], env={"PRICE": price})
    assert result.returncode == 2
    assert result.stdout == ""
    assert f"PRICE={price}: a price is a number above 0, such as 1599 or 0.35" in result.stderr.splitlines()


@pytest.mark.parametrize("arguments", NO_SIZES, ids=repr)
def test_what_is_no_size(program, arguments):
    check_usage(run([program, *arguments]), USAGE)


@pytest.mark.parametrize("n", ["200000000000", "18446744073709551615"])
def test_more_host_memory_than_there_is(program, n):
    check_host_memory(program, n)


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's memory cannot be made small")
def test_a_device_that_is_too_small(program):
    result = run([program, "1000000"], env={"CPU_DEVICE_MEMORY": "10000000"})
    check_device_memory(result, "thread_hierarchy")
    assert "vectors of 4000000 bytes" in result.stdout
    assert "the device has 10000000 bytes, " in result.stderr


@pytest.mark.skipif(DEVICE != "gpu", reason="takes three vectors of 17 GB on the device")
def test_more_elements_than_32_bits_count(program):
    """Right where the memory is there; elsewhere the program says which memory is too small."""
    result = run([program, "4294967301"], timeout=900)
    if result.returncode != 0:
        lacks = result.stdout.splitlines()[-1].startswith("FAIL: needs 34.4 GB of host memory")
        assert lacks or "cudaErrorMemoryAllocation" in result.stderr, result.stdout + result.stderr
        not_run("not enough memory for 4294967301 elements: " + (result.stdout + result.stderr).splitlines()[-1])
    assert result.stdout.splitlines()[-1] == "PASS"
    assert "vectors of 17179869204 bytes" in result.stdout


# What the text of the program must keep to.

SOURCE = CHAPTER.read_text(encoding="utf-8")
CODE = re.sub(r"//.*", "", SOURCE)


def test_no_field_that_cuda_13_took_away():
    assert not re.search(r"clockRate|memoryClockRate|deviceOverlap|kernelExecTimeoutEnabled|computeMode", CODE)
    assert set(re.findall(r"\bdevice\.(\w+)", CODE)) == {"name"}


def test_no_product_of_indexes_in_32_bits():
    products = re.findall(r"\S*(?:blockIdx|gridDim)\.x\)? \* \S+", CODE)
    assert len(products) >= 6
    assert all(product.startswith("size_t(") for product in products), products


def test_every_elapsed_time_is_waited_for():
    waits = re.findall(r"CUDA_CHECK\(cudaEventSynchronize\(stop\)\);\s+float milliseconds = 0;\s+"
                       r"CUDA_CHECK\(cudaEventElapsedTime\(&milliseconds, start, stop\)\);", CODE)
    assert len(waits) == CODE.count("cudaEventElapsedTime") == 1


def test_rows_of_the_benchmark(build_program, monkeypatch):
    """Kernel rows are timed by events, trips by the clock, and the ceiling at each size that is drawn."""
    if not any(Path(folder, "benchmark/benchmark.h").exists() for folder in ("/usr/include", "/usr/local/include")):
        not_run("no Google Benchmark here")
    monkeypatch.setenv("LDLIBS", "-lbenchmark")
    flags = ("-DBENCHMARKS", "-fopenmp") if DEVICE == "cpu" else ("-DBENCHMARKS", "-Xcompiler", "-fopenmp", "-lbenchmark")
    result = run([build_program(CHAPTER, flags=flags), "--benchmark_list_tests=true"])
    assert result.returncode == 0, result.stderr
    rows = result.stdout.splitlines()
    sizes = {}
    for row in rows:
        kind = "real_time" if "with_transfers" in row or "all_threads" in row else "manual_time"
        assert row.startswith("cpu_one_thread/") or row.endswith(f"/{kind}"), row
        assert row.startswith(("cpu_", "gpu_"))
        size = re.search(r"/(?:n:)?(\d+)/", row)
        if size:
            sizes.setdefault(row.split("/")[0], set()).add(int(size[1]))
    assert min(sizes["gpu_float4"]) == 2**10 and max(sizes["gpu_float4"]) == 2**28 and 2**26 in sizes["gpu_float4"]
    for name in ("cpu_one_thread", "cpu_all_threads", "gpu_with_transfers_pageable", "gpu_with_transfers_pinned"):
        assert sizes[name] <= sizes["gpu_float4"] and 2**28 in sizes[name]
    ceilings = [name for name in sizes if name.startswith("gpu_ceiling<")]
    cold = [name for name in sizes if name.startswith("gpu_ceiling_cold<")]
    assert len(ceilings) == len(cold) >= 3
    assert all(sizes[name] == sizes["gpu_float4"] for name in ceilings)
    assert all(sizes[name] == sizes["gpu_float4_cold"] == {2**21, 2**22, 2**23} for name in cold)
    assert [row for row in rows if "block:" in row] == [
        f"{name}/n:{2**28}/block:{block}/min_time:0.100/manual_time"
        for name in ("gpu_scalar_blocks", "gpu_float4_blocks") for block in SWEEP.split()]
