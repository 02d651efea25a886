"""Chapter 6: right in every shape, to its last bit where it says so, and no mistake passes."""

import math
import re
import sys

import pytest
from conftest import (DEVICE, NO_SIZES, NVCC, REPOSITORY, check_device_memory, check_host_memory,
                      check_usage, mutate, need, not_run, run)

sys.path.insert(0, str(REPOSITORY / "plots"))
import results_reader as reader  # noqa: E402

CHAPTER = REPOSITORY / "06_matmul" / "matmul.cu"
TEXT = CHAPTER.read_text(encoding="utf-8")
USAGE = "[m n k]   (sizes in decimal digits)"
CPU = ["CPU, ijk", "CPU, ikj"]
GPU = ["columns on x", "rows on x", "tile 8", "tile 16", "tile 32"]
AGREES = r"(.{13}) largest difference from double precision: (\S+) of the allowed"
LEFT_OUT = "one block     left out: a block has at most 1024 threads"


@pytest.fixture(scope="module")
def program(build_program):
    return build_program(CHAPTER)


def passes(result, m, n, k):
    """The program's lines for one shape, all as they must be. Returns the largest share of a
    tolerance, and how many elements differ as compiled."""
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stdout + result.stderr
    assert lines[0].startswith("C = A x B on ")
    assert lines[1] == (f"m {m}, n {n}, k {k}: A has {4 * m * k:.0f} bytes, B {4 * k * n:.0f}, "
                        f"C {4 * m * n:.0f}")
    assert lines[-1] == "PASS"
    if m * n == 0:
        assert len(lines) == 3
        return 0, 0
    fits = m * n <= 1024
    assert (LEFT_OUT in lines) != fits
    found = [re.fullmatch(AGREES, line) for line in lines[2:] if line != LEFT_OUT][:-5]
    assert [match.group(1).strip() for match in found] == CPU + ["one block"] * fits + GPU
    assert lines[-5] == f"elements of {m * n} in which the GPU and the CPU differ"
    digits = [re.fullmatch(r"  (\w+ \w+)\s+(\d+)", line).groups() for line in lines[-4:-1]]
    assert [name for name, _ in digits] == ["as compiled", "both fused", "neither fused"]
    assert [count for _, count in digits][1:] == ["0", "0"]
    return max(float(match.group(2)) for match in found), int(digits[0][1])


@pytest.mark.parametrize("shape", [
    (1, 1, 1), (1, 1, 1000), (1, 1000, 1), (1000, 1, 1), (2, 5, 3), (17, 17, 17), (32, 32, 32),
    (1, 1024, 5), (1024, 1, 5), (5, 205, 3), (64, 16, 128), (16, 128, 64), (33, 65, 257), (65, 257, 33),
    (257, 33, 65), (100, 100, 100), (7, 129, 8), (8, 7, 129), (129, 8, 7), (64, 64, 4096),
    (3, 4, 0), (100, 300, 0), (0, 4, 5), (3, 0, 5), (0, 0, 0),
    (0, 18446744073709551615, 18446744073709551615), (18446744073709551615, 0, 3)], ids=str)
def test_shapes(program, shape):
    share, different = passes(run([program, *shape]), *shape)
    assert share <= 1
    if DEVICE == "cpu":
        assert different == 0              # nothing is fused by itself


def test_no_axis_of_the_grid_ends_the_matrix(program, build_program):
    """Past 65535 blocks in y. The CPU device would take long for it with a sum in each element, so
    there the axis ends earlier, and the true limit is tried with empty sums."""
    for shape in [(2097200, 1, 0), (1, 524300, 0)]:
        passes(run([program, *shape]), *shape)
    if DEVICE == "gpu":
        for shape in [(2097200, 1, 2), (1048600, 1, 2), (1, 524300, 2)]:
            passes(run([program, *shape]), *shape)
    program = build_program(mutate(TEXT, "blocks, 65535)", "blocks, 2)"), name="matmul")
    for shape in [(131, 197, 33), (197, 131, 1)]:
        passes(run([program, *shape]), *shape)


@pytest.mark.skipif(DEVICE != "gpu", reason="the CPU device would take minutes")
@pytest.mark.parametrize("shape", [(256, 256, 256), (1000, 1000, 1000), (64, 64, 16384)], ids=str)
def test_large_shapes(program, shape):
    share, different = passes(run([program, *shape], timeout=120), *shape)
    assert share <= 1
    assert different > 0                   # nvcc has fused


@pytest.mark.skipif(DEVICE != "gpu", reason="the CPU device would take minutes")
def test_the_largest_shape_leaves_out_the_slow_loops(program):
    result = run([program, "2048", "2048", "2048"], timeout=300)
    assert result.returncode == 0, result.stdout
    assert "CPU, ijk      left out: it would take long" in result.stdout
    assert result.stdout.splitlines()[-1] == "PASS"


def test_default_has_no_square_and_one_that_fits_a_block(program):
    lines = run([program]).stdout.splitlines()
    shapes = [[int(size) for size in match.groups()] for match in
              (re.match(r"m (\d+), n (\d+), k (\d+):", line) for line in lines) if match]
    assert len(shapes) == 3 and all(len(set(shape)) == 3 for shape in shapes)
    assert shapes[0][0] * shapes[0][1] <= 1024 < shapes[1][0] * shapes[1][1]
    assert shapes[1][2] > 3 * 32 and shapes[2][2] < 8       # smaller than any tile
    assert shapes[2][0] // 8 * (shapes[2][1] // 32) > 1024  # more blocks than a block has threads
    assert all(size % tile for shape in shapes for size in shape for tile in (8, 16, 32))
    assert lines[-1] == "PASS"


@pytest.mark.parametrize("arguments", [
    ["5"], ["5", "6"], ["5", "6", "7", "8"], *[["5", *word, "7"] for word in NO_SIZES if len(word) == 1]], ids=repr)
def test_what_is_no_size(program, arguments):
    check_usage(run([program, *arguments]), USAGE)


@pytest.mark.parametrize("sizes", [
    ["300000"] * 3, ["18446744073709551615"] * 3, ["1", "1", "18446744073709551615"],
    ["4294967296", "4294967296", "1"], ["4294967296", "1", "4294967296"]], ids=" ".join)
def test_more_host_memory_than_there_is(program, sizes):
    check_host_memory(program, *sizes)


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's memory cannot be made small")
def test_a_device_that_is_too_small(program):
    result = run([program, "1000", "1000", "2"], env={"CPU_DEVICE_MEMORY": "1000000"})
    check_device_memory(result, "matmul")
    assert "C 4000000\n" in result.stdout


def test_no_hidden_double_precision(tmp_path):
    if not NVCC:
        not_run("no nvcc here")
    for flags in [], ["-DBENCHMARKS", "-Xcompiler", "-fopenmp"]:
        result = run([NVCC, "-arch=sm_75", "-ptx", *flags, CHAPTER, "-o", tmp_path / "matmul.ptx"], timeout=120)
        assert result.returncode == 0, result.stderr
        assert ".f64" not in (tmp_path / "matmul.ptx").read_text()


@pytest.mark.skipif(DEVICE != "gpu", reason="-fmad is an option of nvcc")
def test_without_fused_steps_the_gpu_has_the_digits_of_the_cpu(program, build_program):
    plain = build_program(CHAPTER, flags=("-fmad=false",))
    for shape in [(127, 131, 113), (33, 65, 257)]:
        assert passes(run([program, *shape]), *shape)[1] > 0
        assert passes(run([plain, *shape]), *shape)[1] == 0


def test_a_host_compiler_that_fuses_does_not_disturb_the_pairs(build_program):
    fuse = ("-Xcompiler", "-march=native") if DEVICE == "gpu" else ("-ffp-contract=fast", "-march=native")
    program = build_program(CHAPTER, flags=fuse, cxx="g++")
    passes(run([program, "33", "65", "57"]), 33, 65, 57)


def test_a_product_of_two_32_bit_numbers_is_widened_first():
    """The number of a block, which fits 32 bits, excepted."""
    text = TEXT.replace("return blockIdx.z * gridDim.y", "")
    products = re.findall(r"(\S*)(?:(?:blockIdx|gridDim)\.\w|block_on_y\(\))\)? \* ", text)
    assert len(products) >= 6
    assert {product.lstrip("(") for product in products} == {"size_t("}


def test_lint_has_nothing_to_say_about_the_chapter():
    need("clang++")
    result = run([REPOSITORY / "cpu_device" / "run", "--lint", CHAPTER], timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


# What was measured and is committed.

RESULTS = sorted(REPOSITORY.glob("plots/results/*/06_matmul.json"))


def test_the_figures_are_possible():
    compared = 0
    for path in RESULTS:
        rows = {"/".join([row.name, *map(str, row.sizes)]): row for row in reader.read(path).rows}
        time = {name: row.seconds for name, row in rows.items()}
        rates = {name: row.items_per_second for name, row in rows.items()}
        if "gpu_fma_ceiling" not in time:
            continue
        compared += 1
        for name, rate in rates.items():
            if name.startswith("gpu_") and rate is not None:
                assert math.isfinite(rate) and 0 < rate <= 1.01 * rates["gpu_fma_ceiling"], f"{path} {name}"
        for kernel in ("gpu_columns_on_x", "gpu_tile<32>"):
            small, large = (time[f"{kernel}/{size}"] for size in ("1024/1024/1024", "2048/2048/2048"))
            assert large >= 4 * small, f"{path} {kernel}"
        for size in ("2048/2048/2048", "4096/4096/4096"):
            if f"gpu_rows_on_x/{size}" in time:
                assert time[f"gpu_rows_on_x/{size}"] >= 2 * time[f"gpu_columns_on_x/{size}"], f"{path} {size}"
    if not compared:
        pytest.skip("no results of a GPU are committed yet")
