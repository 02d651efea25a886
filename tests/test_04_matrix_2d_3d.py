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


# Each mistake is an edit inside one function, with the shapes at which it shows.

FOR_X = "size_t(blockIdx.x) * blockDim.x + threadIdx.x"
MISTAKES = {
    "the wrong length of a row": (
        "__global__ void matrix_add(", "row * cols + col", "row * rows + col", [(3, 1000), (1000, 3)]),
    "rows on x: the wrong length of a row": (
        "__global__ void matrix_add_rows_on_x(", "row * cols + col", "row * rows + col", [(3, 1000), (1000, 3)]),
    "one block: x and y exchanged": (
        "__global__ void add_one_block(", "threadIdx.y * cols + threadIdx.x", "threadIdx.x * cols + threadIdx.y",
        [(20, 50)]),
    "planes of the wrong number of rows": (
        "__global__ void tensor_add(", "(z * rows + y) * cols + x", "(z * depth + y) * cols + x",
        [(5, 25, 4), (4, 25, 5)]),
    "depth on x: rows and columns exchanged": (
        "__global__ void tensor_add_depth_on_x(", "(z * rows + y) * cols + x", "(z * cols + y) * rows + x",
        [(5, 25, 4), (4, 25, 5)]),
    "a number in the block for one in the grid": (
        "__global__ void matrix_add(", FOR_X, "threadIdx.x", [(3, 1000)]),
    "no second round in y": (
        "__global__ void matrix_add(", "row += size_t(gridDim.y) * blockDim.y", "row = rows", [(1048577, 1)]),
    "no second round in z": (
        "__global__ void tensor_add(", "z += size_t(gridDim.z) * blockDim.z", "z = depth", [(1048577, 1, 1)]),
    "b is read one row off": (
        "__global__ void matrix_add(", "a[i] + b[i]", "a[i] + b[row > 0 ? i - cols : i]", [(3, 1000)]),
    "the kernel adds nothing": (
        "__global__ void tensor_add_depth_on_x(", "c[i] = a[i] + b[i];", "", [(5, 25, 4)]),
    "a NaN in the middle": (
        "__global__ void add_one_block(", "c[i] = a[i] + b[i];", "c[i] = i == 31 ? NAN : a[i] + b[i];", [(7, 9)]),
    "float4: the last element forgotten": (
        "__global__ void add_float4(", "j < n; ++j", "j + 1 < n; ++j", [(5, 5), (1, 1)]),
    "float4: two of the four exchanged": (
        "__global__ void add_float4(", "u.x + v.x, u.y + v.y", "u.y + v.y, u.x + v.x", [(3, 1000)]),
    "float4: rounded down": ("void launch_float4(", "(threads + 255) / 256", "threads / 256", [(7, 9), (333, 1001)]),
    "no limit in y": ("dim3 grid_for(", "block.y, 65535)", "block.y, INT_MAX)", [(1048577, 1)]),
    "no limit in z": ("dim3 grid_for(", "block.z, 65535)", "block.z, INT_MAX)", [(1048577, 1, 1)]),
    "a block of too many threads": ("bool check(", "n > 1024", "n > 2048", [(1025, 1), (33, 32)]),
    "the result is not copied back": (
        "void add_gpu(", "    CUDA_CHECK(cudaMemcpy(c, d_c, bytes, cudaMemcpyDeviceToHost));\n", "", [(3, 1000)]),
    "the elements are counted as bytes": (
        "void add_gpu(", "shape.count() * sizeof(T)", "shape.count()", [(3, 1000)]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_does_not_pass(build_program, mistake):
    function, old, new, shapes = MISTAKES[mistake]
    program = build_program(mutate(TEXT, old, new, inside=function), name="matrix_2d_3d")
    for shape in shapes:
        result = run([program, *shape])
        assert result.returncode != 0, f"{shape}:\n{result.stdout}"
        assert "PASS" not in result.stdout
        assert result.stdout.splitlines()[-1].startswith("FAIL: ") or "cudaError" in result.stderr


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
