"""Chapter 5: the sigmoid in its limits, to its digits, and the compiler's words as the text has them."""

import math
import re

import pytest
from conftest import (DEVICE, NO_SIZES, NVCC, REPOSITORY, check_host_memory, check_usage, mutate,
                      need, not_run, run)

CHAPTER = REPOSITORY / "05_device_functions" / "device_functions.cu"
TEXT = CHAPTER.read_text(encoding="utf-8")
USAGE = "[n]   (sizes in decimal digits)"
ON_GPU_ONLY = ["use_fast_math", "tanh.approx"]
VARIANTS = ["expf", "__expf", "__fdividef"] + (ON_GPU_ONLY if DEVICE == "gpu" else [])


@pytest.fixture(scope="module")
def program(build_program):
    return build_program(CHAPTER)


def shares(lines):
    """name -> how much of its tolerance an element used at most, for the lines that `agree` printed."""
    found = [re.fullmatch(r"(.{13}) largest difference from double precision: (\S+) of the allowed", line)
             for line in lines]
    return [(match.group(1).strip(), float(match.group(2))) for match in found if match]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 1027, 100003])
def test_sizes(program, n):
    result = run([program, str(n)])
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stdout + result.stderr
    assert lines[-1] == "PASS"
    assert f"sigmoid of a vector of {4 * n} bytes, on " in lines[6]
    found = shares(lines)
    assert [name for name, _ in found] == ["CPU"] + [name for variant in VARIANTS
                                                    for name in (variant, "with float4")]
    assert all(0 <= share <= 1 for _, share in found)
    assert sum(line.startswith("  in ulp ") for line in lines) == 1 + len(VARIANTS)


def test_no_elements(program):
    result = run([program, "0"])
    lines = result.stdout.splitlines()
    assert result.returncode == 0
    assert lines[6].startswith("sigmoid of a vector of 0 bytes, on ")
    assert shares(lines) == []
    assert lines[-1] == "PASS"


def test_default_leaves_three_elements_to_the_last_block(program):
    assert run([program]).stdout == run([program, 4 * 128 * 1944 + 3]).stdout


@pytest.mark.parametrize("arguments", NO_SIZES, ids=repr)
def test_what_is_no_size(program, arguments):
    check_usage(run([program, *arguments]), USAGE)


@pytest.mark.parametrize("n", ["200000000000", "18446744073709551615"])
def test_more_host_memory_than_there_is(program, n):
    check_host_memory(program, n)


# The numbers.

def test_where_the_two_forms_break(program):
    rows = [line.split() for line in run([program, "0"]).stdout.splitlines()[1:6]]
    table = {float(x): (float(first), float(second)) for x, first, second in rows}
    assert table[-89][0] == 0 and 2.2e-39 < table[-89][1] < 2.3e-39
    assert 6.0e-39 < table[-88][0] < 6.1e-39 and 6.0e-39 < table[-88][1] < 6.1e-39
    assert table[0] == (0.5, 0.5)
    assert table[88] == (1, 1)
    assert table[89][0] == 1 and math.isnan(table[89][1])


def test_the_special_values_are_all_there():
    values = re.search(r"special = \{([^}]*)\}", TEXT).group(1)
    assert {value.strip() for value in values.split(",")} == {
        "0", "-0.0f", "17", "-17", "88", "-88", "89", "-89", "1000", "-1000", "FLT_MAX", "-FLT_MAX", "FLT_MIN",
        "-FLT_MIN", "INFINITY", "-INFINITY"}


PRINT_SPECIAL = """            if (launch == v.one)
                for (size_t i = 0; i < special.size(); ++i)
                    std::printf("special %s %a %a\\n", v.name, x[i], y[i]);
"""


def test_the_limits(build_program):
    """What the kernels give for the special values, printed by an edited program and judged here."""
    call = "            sigmoid_gpu(launch, n, x.data(), y.data());\n"
    source = mutate(TEXT, call, call + PRINT_SPECIAL, inside="bool check(")
    result = run([build_program(source, name="device_functions"), "1000"])
    assert result.returncode == 0, result.stdout
    found = re.findall(r"^special (\S+) (\S+) (\S+)$", result.stdout, re.M)
    assert len(found) == 16 * len(VARIANTS)
    for name, x, y in found:
        x, y = float.fromhex(x), float.fromhex(y)
        assert 0 <= y <= 1
        if name == "tanh.approx":
            assert abs(y - (0.5 if abs(x) < 1e-30 else float(x > 0))) <= 2**-11
        elif abs(x) < 1e-30:
            assert y == 0.5
        elif x > 0:
            assert 1 - 2**-23 <= y <= 1
        elif x < -80:
            assert y < 2**-126
        else:
            assert x == -17 and abs(y / 4.1399377e-08 - 1) < 1e-5


@pytest.mark.skipif(DEVICE != "cpu", reason="what a GPU reaches is in the committed results")
def test_ulps_on_the_cpu(program):
    """The C library's expf is right to a rounding, so the sigmoid is within three ulp everywhere."""
    for line in run([program]).stdout.splitlines():
        if line.startswith("  in ulp "):
            assert all(0.4 < float(ulps) < 3.5 for ulps in re.findall(r"[\d.]+(?= (?:below|above))", line))


SIGMOID = "__host__ __device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }"


@pytest.mark.skipif(DEVICE != "gpu", reason="-use_fast_math is an option of nvcc")
def test_built_with_use_fast_math_it_fails(build_program):
    result = run([build_program(CHAPTER, flags=("-use_fast_math",)), "1000003"])
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].startswith("FAIL: ")


# What the text says of the compiler.

def nvcc(folder, source, *flags):
    """Compiles the source into program.out."""
    if not NVCC:
        not_run("no nvcc here")
    (folder / "program.cu").write_text(source, encoding="utf-8")
    return run([NVCC, "-arch=sm_75", *flags, "program.cu", "-o", "program.out"], cwd=folder, timeout=120)


APPLY = re.search(r"^// (__global__ void apply_sigmoid.*?)^// ```", TEXT, re.M | re.S).group(1).replace("// ", "")
SAID = [
    ("float sigmoid(float x) { return 1 / (1 + expf(-x)); }\n" + APPLY,
     ['error: calling a __host__ function("sigmoid(float)") from a __global__ function("apply_sigmoid") is not allowed',
      'error: identifier "sigmoid" is undefined in device code']),
    ("__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }\nint main() { return sigmoid(1); }",
     ['error: calling a __device__ function("sigmoid(float)") from a __host__ function("main") is not allowed']),
    ("__global__ void kernel() {}\nint main() { kernel(); }", ["error: a __global__ function call must be configured"]),
    ("__global__ int kernel() { return 0; }", ["error: a __global__ function must have a void return type"]),
    ("float log_message(float);\n__host__ __device__ float sigmoid(float x) { return log_message(x); }\n" + APPLY,
     ['warning #20011-D: calling a __host__ function("log_message(float)") from a __host__ __device__ '
      'function("sigmoid") is not allowed']),
]


@pytest.mark.parametrize("case", range(5))
def test_the_compiler_says_what_the_text_quotes(case, tmp_path):
    source, messages = SAID[case]
    prose = " ".join(line[2:].strip() for line in TEXT.splitlines() if line.startswith("//"))
    result = nvcc(tmp_path, source, "-c")
    assert (result.returncode != 0) == messages[0].startswith("error")
    for message in messages:
        assert message in result.stdout + result.stderr
        assert message in prose


def test_a_kernel_that_calls_what_is_missing_comes_out_empty(tmp_path):
    nvcc(tmp_path, SAID[-1][0], "-ptx")
    code = re.search(r"^\{(.*?)^\}", (tmp_path / "program.out").read_text(), re.M | re.S).group(1)
    assert re.findall(r"^\s+([a-z]\S*)", code, re.M) == ["ret;"]


def instructions(folder, kernel):
    """The instructions of apply<kernel> from the load of x to the store of y, without their operands."""
    text = (folder / "program.out").read_text()
    code = re.search(rf"\.entry _Z5apply\w*\d{kernel}f\w*\(.*?^\}}", text, re.M | re.S).group(0)
    names = re.findall(r"^\s+([a-z]\w*(?:\.\w+)+)", code, re.M)
    return [name for name in names[names.index("ld.global.f32"):] if name.endswith(".f32")]


def test_the_row_for_use_fast_math_runs_what_that_option_makes(tmp_path):
    assert nvcc(tmp_path, TEXT, "-ptx").returncode == 0
    written = instructions(tmp_path, "sigmoid_use_fast_math")
    plain = instructions(tmp_path, "sigmoid")
    assert nvcc(tmp_path, TEXT, "-ptx", "-use_fast_math").returncode == 0
    assert instructions(tmp_path, "sigmoid") == written
    assert "ex2.approx.ftz.f32" in written and "rcp.approx.ftz.f32" in written
    assert plain != written


def test_no_hidden_double_precision(tmp_path):
    assert nvcc(tmp_path, TEXT, "-ptx").returncode == 0
    assert ".f64" not in (tmp_path / "program.out").read_text()
    hidden = mutate(TEXT, SIGMOID, SIGMOID.replace("1 / (1 +", "1.0 / (1.0 +"))
    assert nvcc(tmp_path, hidden, "-ptx").returncode == 0
    assert ".f64" in (tmp_path / "program.out").read_text()


@pytest.mark.parametrize("case", range(4))
def test_lint_finds_without_nvcc_what_the_text_says_it_finds(case, tmp_path):
    need("clang++")
    source = tmp_path / "mistake.cu"
    source.write_text(SAID[case][0], encoding="utf-8")
    result = run([REPOSITORY / "cpu_device" / "run", "--lint", source], timeout=120)
    assert result.returncode != 0
    assert re.search(r"mistake\.cu:\d+:\d+: error: ", result.stdout + result.stderr)


def test_lint_has_nothing_to_say_about_the_chapter():
    need("clang++")
    result = run([REPOSITORY / "cpu_device" / "run", "--lint", CHAPTER], timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
