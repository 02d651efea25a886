"""Chapter 4: right in every shape, past the limits of the axes, and honest about who touches what."""

import json
import re
import statistics

import pytest
from conftest import (DEVICE, REPOSITORY, check_device_memory, check_host_memory, check_usage,
                      mutate, run)

CHAPTER = REPOSITORY / "04_matrix_2d_3d" / "matrix_2d_3d.cu"
TEXT = CHAPTER.read_text(encoding="utf-8")
USAGE = "[rows cols | depth rows cols | accesses]   (sizes in decimal digits)"
EQUAL = "largest difference from the CPU: 0 (allowed: 0)"
MATRIX = ["columns on x ", "rows on x    ", "float4       "]
TENSOR = ["columns on x ", "depth on x   ", "float4       "]


@pytest.fixture(scope="module")
def program(build_program):
    return build_program(CHAPTER)


def passes(result, shape):
    """The program's lines for one shape, all as they must be."""
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stdout + result.stderr
    count = 1
    for size in shape:
        count *= size
    kind = "matrix" if len(shape) == 2 else "tensor"
    assert lines[1] == f"{kind} of {' x '.join(map(str, shape))}, {4 * count} bytes"
    expected = []
    if count and kind == "matrix":
        expected.append("one block     " + (EQUAL if count <= 1024 else
                                            "left out: a block has at most 1024 threads"))
    if count:
        expected += [f"{way} {EQUAL}" for way in (MATRIX if kind == "matrix" else TENSOR)]
    assert lines[2:] == [*expected, "PASS"]


@pytest.mark.parametrize("shape", [
    (1, 1), (1, 7), (7, 1), (3, 1000), (1000, 3), (32, 32), (31, 33), (1, 1024), (1024, 1), (5, 205), (257, 65),
    (333, 1001), (1048577, 1), (1, 1048577), (524281, 2),
    (0, 0), (0, 5), (5, 0), (0, 18446744073709551615),
    (1, 1, 7), (7, 1, 1), (1, 7, 1), (5, 25, 4), (4, 25, 5), (25, 4, 5), (33, 5, 3), (2, 9, 130), (70001, 2, 3),
    (1, 1048577, 1), (1048577, 1, 1), (0, 3, 4), (18446744073709551615, 0, 3)], ids=str)
def test_shapes(program, shape):
    passes(run([program, *shape]), shape)


def test_default_is_no_square_and_no_cube(program):
    lines = run([program]).stdout.splitlines()
    shapes = [[int(size) for size in re.findall(r"\d+", line.split(",")[0])]
              for line in lines if " of " in line]
    assert [len(shape) for shape in shapes] == [2, 2, 3]
    assert all(len(set(shape)) == len(shape) for shape in shapes)
    assert shapes[0][0] * shapes[0][1] <= 1024 < shapes[1][0] * shapes[1][1]
    assert lines[-1] == "PASS"


@pytest.mark.parametrize("arguments", [
    ["5"], ["abc", "3"], ["3", "-3"], ["3", "1e6"], ["0x10", "3"], ["3", "4", "5", "6"], ["3", ""], ["3 ", "4"],
    ["3", "1000000000000000000000"], ["accesses", "3"], ["3", "accesses"], ["Accesses"]], ids=repr)
def test_what_is_no_shape(program, arguments):
    check_usage(run([program, *arguments]), USAGE)


@pytest.mark.parametrize("shape", [
    ["300000", "300000"], ["4294967296", "4294967296"], ["2097152", "2097152", "4194304"],
    ["18446744073709551615"] * 2, ["18446744073709551615"] * 3], ids=" ".join)
def test_more_host_memory_than_there_is(program, shape):
    check_host_memory(program, *shape)


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's memory cannot be made small")
def test_a_device_that_is_too_small(program):
    result = run([program, "1000", "3000"], env={"CPU_DEVICE_MEMORY": "20000000"})
    check_device_memory(result, "matrix_2d_3d")
    assert ", 12000000 bytes" in result.stdout


# Who touches what, worked out here once more, from the shapes and the blocks alone.

ROW, PLANE = 48 * 4, 40 * 48 * 4
EXPECTED = {
    "matrix_columns_on_x": [4 * lane for lane in range(32)],
    "matrix_rows_on_x": [ROW * lane for lane in range(32)],
    "tensor_columns_on_x": [4 * lane for lane in range(32)],
    "tensor_depth_on_x": [PLANE * lane for lane in range(32)],
}


def accesses(program):
    result = run([program, "accesses"])
    lines = result.stdout.splitlines()
    assert lines[0] == "mapping,lane,address,sector"
    return result, [line.split(",") for line in lines[1:-1]], lines[-1]


def test_accesses(program):
    result, rows, verdict = accesses(program)
    assert result.returncode == 0
    assert verdict == "PASS"
    assert rows == [[mapping, str(lane), str(address), str(address // 32)]
                    for mapping, addresses in EXPECTED.items() for lane, address in enumerate(addresses)]
    sectors = {mapping: len({row[3] for row in rows if row[0] == mapping}) for mapping in EXPECTED}
    assert sectors == {"matrix_columns_on_x": 4, "matrix_rows_on_x": 32,
                       "tensor_columns_on_x": 4, "tensor_depth_on_x": 32}


def test_the_text_quotes_a_line_of_the_accesses(program):
    quoted = re.search(r"^// (matrix_rows_on_x,.*)$", TEXT, re.M).group(1)
    assert quoted in run([program, "accesses"]).stdout.splitlines()


def test_an_index_in_another_order_adds_up_and_shows_in_the_accesses(build_program):
    source = mutate(TEXT, "row * cols + col", "col * rows + row", inside="__global__ void matrix_add(")
    program = build_program(source, name="matrix_2d_3d")
    passes(run([program, "333", "100"]), (333, 100))
    rows = accesses(program)[1]
    assert [int(row[2]) for row in rows if row[0] == "matrix_columns_on_x"] != EXPECTED["matrix_columns_on_x"]


def test_a_product_of_two_32_bit_numbers_is_widened_first():
    products = re.findall(r"(\S*)(?:blockIdx|gridDim)\.\w\)? \* blockDim", TEXT)
    assert len(products) > 8
    assert {product.lstrip("(") for product in products} <= {"size_t(", "`"}   # `: where the text warns


# What the chapter says of speed, held against the results that are committed.

RESULTS = sorted(REPOSITORY.glob("plots/results/*/04_matrix_2d_3d.json"))


def test_columns_on_x_are_at_least_twice_as_fast():
    compared = 0
    for path in RESULTS:
        seconds = {}
        for row in json.loads(path.read_text())["benchmarks"]:
            if row.get("run_type") == "iteration" and not row.get("error_occurred"):
                seconds.setdefault(row["name"].split("/min_time")[0], []).append(row["real_time"])
        median = {name: statistics.median(times) for name, times in seconds.items()}
        for size in ("4096/4096", "8192/8192"):
            if f"gpu_matrix_rows_on_x/{size}" in median:
                assert (median[f"gpu_matrix_rows_on_x/{size}"] >=
                        2 * median[f"gpu_matrix_columns_on_x/{size}"]), f"{path} {size}"
                compared += 1
    if not compared:
        pytest.skip("no results of a GPU are committed yet")
