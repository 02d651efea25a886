"""Chapter 7: the layer at awkward sizes, its mistakes, and the network that reads digits."""

import math
import re
import sys

import pytest
from conftest import (DEVICE, NO_SIZES, NVCC, REPOSITORY, check_device_memory, check_host_memory, check_usage, mutate,
                      not_run, run)

FOLDER = REPOSITORY / "07_neural_layer"
CHAPTER = FOLDER / "neural_layer.cu"
TEXT = CHAPTER.read_text(encoding="utf-8")
USAGE = "[batch in out | digits FILE]   (sizes in decimal digits)"
ONE_VECTOR = ["CPU", "three kernels", "fused", "warp a row", "block<128,4>", "block<128,8>", "block<256,8>"]
BATCH = ["CPU", "tile<16>", "tile<32>"]


@pytest.fixture(scope="module")
def program(build_program):
    return build_program(CHAPTER)


def checked(lines):
    """The names of the lines that `agree` printed."""
    found = [re.fullmatch(r"(.{13}) largest difference from double precision: (\S+) of the allowed", line)
             for line in lines]
    assert all(0 <= float(match.group(2)) <= 1 for match in found if match)
    return [match.group(1).strip() for match in found if match]


def passes(result, batch, in_, out):
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stdout + result.stderr
    assert lines[0].startswith("y = sigmoid(Wx + b) on ")
    if 0 in (batch, out):
        assert lines[1:] == ["PASS"]
        return
    assert lines[1] == f"one vector: in {in_}, out {out}"
    assert f"a batch of {batch}" in lines
    assert checked(lines) == ONE_VECTOR + BATCH
    assert lines[-1] == "PASS"


@pytest.mark.parametrize("shape", [
    (2, 100, 1), (3, 7, 5), (257, 33, 65), (1, 1, 1), (1, 1027, 3), (1, 2052, 3), (2, 8252, 3), (1, 16404, 2),
    (1, 5001, 2), (31, 32, 33), (16, 16, 16), (5, 0, 7), (0, 5, 5), (5, 7, 0), (0, 0, 0), (70000, 3, 2)], ids=str)
def test_sizes(program, shape):
    passes(run([program, *shape]), *shape)


def test_the_default_has_both_kinds_of_pack(program):
    lines = run([program]).stdout.splitlines()
    shapes = [tuple(map(int, match.groups())) for match in
              (re.fullmatch(r"one vector: in (\d+), out (\d+)", line) for line in lines) if match]
    batches = [int(line.rpartition(" ")[2]) for line in lines if line.startswith("a batch of ")]
    assert len(shapes) == len(batches) == 3
    assert [shape[0] % 4 for shape in shapes] == [1, 2, 0]
    assert shapes[1][0] < 8 and shapes[1][1] < batches[1]
    assert shapes[2][0] > 4 * 128 * 8               # some packs are left after a whole round
    assert all(size % 16 for size in (*shapes[0], batches[0]))
    assert checked(lines) == 3 * (ONE_VECTOR + BATCH)
    assert lines[-1] == "PASS"


@pytest.mark.skipif(DEVICE != "gpu", reason="takes half a minute without a GPU; another test stands for it")
def test_more_than_65535_blocks_in_y(program):
    passes(run([program, 2097153, 3, 1]), 2097153, 3, 1)


@pytest.mark.parametrize("arguments", [
    ["5"], ["5", "6"], ["5", "6", "7", "8"], ["digits"], ["digits", "a", "b"], ["digit", "a"],
    *[["5", *word, "7"] for word in NO_SIZES if len(word) == 1]], ids=repr)
def test_what_is_no_size(program, arguments):
    check_usage(run([program, *arguments]), USAGE)


@pytest.mark.parametrize("sizes", [
    ["300000"] * 3, ["18446744073709551615"] * 3, ["1", "18446744073709551615", "1"],
    ["4294967296", "1", "4294967296"], ["1", "4294967296", "4294967296"]], ids=" ".join)
def test_more_host_memory_than_there_is(program, sizes):
    check_host_memory(program, *sizes)


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's memory cannot be made small")
def test_a_device_that_is_too_small(program):
    check_device_memory(run([program, "1", "1000", "1000"], env={"CPU_DEVICE_MEMORY": "2000000"}), "neural_layer")


# The chapter, edited so that a variable of its environment leaves out all kernels but one, or puts a wrong number into
# what the network says. A batch of 100 has a grid of two blocks in y.

EDITS = [
    ("#include <vector>\n", """#include <vector>
const char* const only = std::getenv("ONLY");
bool is_wanted(const char* name) { return !only || std::strcmp(only, name) == 0; }
"""),
    ("/ tile, 65535)", "/ tile, s.batch == 100 ? 2 : 65535)"),
    ("    layer_gpu(launch_tile<16>, s, w, b, x, y);\n", """
    layer_gpu(launch_tile<16>, s, w, b, x, y);
    if (std::getenv("WRONG_OUTPUT"))
        y[s.out + 3] *= 1.001f;
"""),
    ("- outputs;", """- outputs +
           (std::getenv("WRONG_ANSWER") && &y == of_gpu && image == 2);"""),
    ("    const float* const outputs = &y[10 * image];\n", """
    static const void* const of_gpu = &y;       // the first that comes
    const float* const outputs = &y[10 * image];
"""),
    ("    batch_cpu(s, w.data()", """    if (is_wanted("CPU"))
        batch_cpu(s, w.data()"""),
    ('!agree("CPU", y', 'is_wanted("CPU") && !agree("CPU", y'),
    ("    for (const Way& way : ways) {\n", """    for (const Way& way : ways) {
        if (!is_wanted(way.name))
            continue;
"""),
]


@pytest.fixture(scope="module")
def edited(build_program):
    source = TEXT
    for old, new in EDITS:
        source = mutate(source, old, new)
    return build_program(source, name="neural_layer")


def test_two_blocks_in_y(edited):
    passes(run([edited, 100, 20, 35]), 100, 20, 35)


@pytest.mark.parametrize("line", ["fused", "warp a row", "block<128,8>", "tile<16>"])
def test_many_outputs(edited, line):
    """All kernels together would take long at this size."""
    result = run([edited, 2, 3, 70000], env={"ONLY": line})
    assert checked(result.stdout.splitlines()) == [line]
    assert result.returncode == 0


def test_no_hidden_double_precision(tmp_path):
    if not NVCC:
        not_run("no nvcc here")
    for flags in [], ["-DBENCHMARKS", "-std=c++17", "-Xcompiler", "-fopenmp"]:
        result = run([NVCC, "-arch=sm_75", "-ptx", *flags, CHAPTER, "-o", tmp_path / "layer.ptx"], timeout=120)
        assert result.returncode == 0, result.stderr
        assert ".f64" not in (tmp_path / "layer.ptx").read_text()


# The digits.

DIGITS = (FOLDER / "digits.txt").read_text(encoding="utf-8")


def test_the_file_is_small_and_names_its_licence():
    assert len(DIGITS.encode()) <= 300_000
    head = "".join(line for line in DIGITS.splitlines(True) if line.startswith("#"))
    for words in ("Optical Recognition of Handwritten Digits", "Alpaydin", "CC BY 4.0", "scikit-learn", "BSD-3-Clause"):
        assert words in head
        assert words in (FOLDER / "digits.py").read_text(encoding="utf-8")


def right_answers():
    """How many images the network of the file gets right, and how many there are, worked out here once more."""
    lines = [line.split() for line in DIGITS.splitlines() if not line.startswith("#")]
    assert lines[0] == ["layers", "64", "48", "10"]
    assert lines[1] == ["layer", "48"] and lines[50] == ["layer", "10"] and lines[61][0] == "images"
    layers = [[[float(word) for word in line] for line in lines[first:last]] for first, last in ((2, 50), (51, 61))]
    images = lines[62:-1]
    assert len(images) == int(lines[61][1]) and lines[-1] == ["end"]
    right = 0
    for image in images:
        values = [int(word) / 16 for word in image[:64]]
        for layer in layers:
            values = [1 / (1 + math.exp(-sum(w * x for w, x in zip(row, values)) - row[-1])) for row in layer]
        right += values.index(max(values)) == int(image[64])
    return right, len(images)


def test_the_network_reads_digits(program):
    result = run([program, "digits", FOLDER / "digits.txt"])
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stdout
    right, images = right_answers()
    assert right / images >= 0.95 and images >= 400
    assert lines[-2] == (f"digits: {images} held-out images, GPU right in {right / images:.3f}, "
                         f"CPU {right / images:.3f}, same predictions")
    assert lines[-1] == "PASS"
    assert checked(lines) == ["GPU, hidden", "GPU, output", "CPU, hidden", "CPU, output"]


def edit(old, new):
    """The file with the first `old` after its head replaced."""
    start = DIGITS.index("layers ")
    assert old in DIGITS[start:]
    return DIGITS[:start] + DIGITS[start:].replace(old, new, 1)


def cut_after(words):
    """The file up to some numbers after these words."""
    return DIGITS[:DIGITS.index(" ", DIGITS.index(words) + 60)]


def line_of(text, words):
    return text[:text.index("\n" + words) + 1].count("\n") + 1


def in_line(number, word, new):
    """The file with one word of one line replaced, both counted from 1."""
    lines = DIGITS.splitlines()
    words = lines[number - 1].split()
    words[word - 1] = new
    lines[number - 1] = " ".join(words)
    return "\n".join(lines) + "\n"


LAYERS, IMAGES = line_of(DIGITS, "layers"), line_of(DIGITS, "images")
LAST = DIGITS.count("\n")
DAMAGED = {   # name: the text, the line that must be named (0: none), what is said
    "empty": ("", 1, "the file ends too early"),
    "nothing but the head": (DIGITS[:DIGITS.index("layers ")], LAYERS, "the file ends too early"),
    "cut between lines": (DIGITS[:DIGITS.index("\nimages ") + 1], IMAGES, "the file ends too early"),
    "cut in a line of weights": (cut_after("layer 48"), LAYERS + 2, "numbers, not 65"),
    "cut in a line of pixels": (cut_after("images 450"), IMAGES + 1, "numbers, not 65"),
    "the end is missing": (DIGITS[:-4], LAST, "the file ends too early"),
    "something after the end": (DIGITS + "0\n", LAST + 1, "something stands after the end"),
    "another file": (CHAPTER.read_text(encoding="utf-8"), 1, 'does not begin with "layers"'),
    "another first word": (edit("layers", "layer"), LAYERS, 'does not begin with "layers"'),
    "no such keyword": (edit("images", "image"), IMAGES, 'does not begin with "images"'),
    "no layers": (edit("layers 64 48 10", "layers"), LAYERS, "0 numbers, not 3"),
    "a layer more": (edit("layers 64 48 10", "layers 64 48 10 10"), LAYERS, "4 numbers, not 3"),
    "no hidden outputs": (edit("64 48 10", "64 0 10"), LAYERS, "not a whole number from 1 to 1000"),
    "an absurd size": (edit("64 48 10", "64 99999999999999999999 10"), LAYERS, "not a whole number from 1 to 1000"),
    "a negative size": (edit("64 48 10", "64 -48 10"), LAYERS, "not a whole number from 1 to 1000"),
    "half an output": (edit("64 48 10", "64 48.5 10"), LAYERS, "not a whole number from 1 to 1000"),
    "other pixels": (edit("64 48 10", "65 48 10"), LAYERS, "not a whole number from 64 to 64"),
    "other digits": (edit("64 48 10", "64 48 11"), LAYERS, "not a whole number from 10 to 10"),
    "one output too many": (edit("64 48 10", "64 47 10").replace("layer 48", "layer 47"), LAYERS + 49,
                            'does not begin with "layer"'),
    "one output too few": (edit("64 48 10", "64 49 10").replace("layer 48", "layer 49"), LAYERS + 50,
                           "number 1 is none"),
    "the sizes differ": (edit("layer 48", "layer 47"), LAYERS + 1, "not a whole number from 48 to 48"),
    "a word for a weight": (in_line(LAYERS + 2, 7, "x"), LAYERS + 2, "number 7 is none"),
    "two points in a weight": (in_line(LAYERS + 3, 65, "1.2.3"), LAYERS + 3, "number 65 is none"),
    "NaN": (in_line(LAYERS + 4, 1, "nan"), LAYERS + 4, "number 1 is none"),
    "infinity": (in_line(LAYERS + 4, 2, "-inf"), LAYERS + 4, "number 2 is none"),
    "a weight that is no float": (in_line(LAYERS + 4, 3, "1e99"), LAYERS + 4, "number 3 is none"),
    "a weight too few": (in_line(LAYERS + 5, 3, ""), LAYERS + 5, "64 numbers, not 65"),
    "a weight too many": (in_line(LAYERS + 5, 3, "1 1"), LAYERS + 5, "66 numbers, not 65"),
    "a zero byte": (in_line(LAYERS + 5, 3, "1\x002"), LAYERS + 5, "number 3 is none"),
    "no images": (edit("images 450", "images 0"), IMAGES, "not a whole number from 1 to 10000"),
    "more images than there are": (edit("images 450", "images 451"), LAST, "number 1 is none"),
    "fewer images than there are": (edit("images 450", "images 449"), LAST - 1, 'does not begin with "end"'),
    "a pixel of 17": (in_line(IMAGES + 1, 64, "17"), IMAGES + 1, "not a whole number from 0 to 16"),
    "a pixel of 0.5": (in_line(IMAGES + 2, 1, "0.5"), IMAGES + 2, "not a whole number from 0 to 16"),
    "a digit 10": (in_line(IMAGES + 3, 65, "10"), IMAGES + 3, "not a whole number from 0 to 9"),
    "a digit -1": (in_line(IMAGES + 3, 65, "-1"), IMAGES + 3, "not a whole number from 0 to 9"),
}


def check_refused(result, place):
    assert result.returncode == 1, result.stdout
    assert len(result.stdout.splitlines()) == 1
    assert result.stdout.startswith(f"FAIL: {place}: ")
    return result.stdout[len(f"FAIL: {place}: "):].strip()


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_named_with_its_line(program, damage, tmp_path):
    text, line, said = DAMAGED[damage]
    file = tmp_path / "my digits.txt"
    file.write_text(text, encoding="utf-8")
    assert check_refused(run([program, "digits", file]), f"{file}:{line}").endswith(said)


def test_what_cannot_be_read_is_named(program, tmp_path):
    missing = tmp_path / "missing.txt"
    assert check_refused(run([program, "digits", missing]), missing) == "No such file or directory"
    assert check_refused(run([program, "digits", tmp_path]), tmp_path) == "Is a directory"
    assert check_refused(run([program, "digits", "/dev/zero"]), "/dev/zero") == "more than 4 MiB"


@pytest.mark.skipif(DEVICE != "cpu", reason="the tool is the CPU device's")
def test_nothing_is_read_out_of_bounds(tmp_path):
    for text in (DIGITS, DIGITS[:50_000], edit("images 450", "images 451")):
        (tmp_path / "digits.txt").write_text(text, encoding="utf-8")
        result = run([REPOSITORY / "cpu_device" / "run", "--asan", CHAPTER, "digits",
                      tmp_path / "digits.txt"], timeout=120)
        assert result.returncode == (text != DIGITS)
        assert "Sanitizer" not in result.stderr and "runtime error" not in result.stderr


def test_lines_that_end_as_on_windows(program, tmp_path):
    (tmp_path / "digits.txt").write_bytes(DIGITS.replace("\n", "\r\n").encode())
    assert run([program, "digits", tmp_path / "digits.txt"]).stdout.splitlines()[-1] == "PASS"


def test_a_network_that_reads_badly_fails(program, tmp_path):
    """The rows of the output layer in another order: every number is there, and every answer is wrong."""
    lines = DIGITS.splitlines(True)
    first = DIGITS[:DIGITS.index("layer 10\n")].count("\n") + 1
    lines[first:first + 10] = lines[first + 1:first + 10] + lines[first:first + 1]
    file = tmp_path / "digits.txt"
    file.write_text("".join(lines), encoding="utf-8")
    result = run([program, "digits", file])
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == f"FAIL: {file}: the network is right in less than 0.95"


@pytest.mark.parametrize("mistake, last", [
    ("WRONG_OUTPUT", "FAIL: GPU, hidden: element 51: .*"),
    ("WRONG_ANSWER", "FAIL: 1 of 450 answers of the GPU and the CPU differ")])
def test_a_mistake_with_the_digits_does_not_pass(edited, mistake, last):
    assert run([edited, "digits", FOLDER / "digits.txt"]).stdout.splitlines()[-1] == "PASS"
    result = run([edited, "digits", FOLDER / "digits.txt"], env={mistake: "1"})
    assert result.returncode == 1
    assert re.fullmatch(last, result.stdout.splitlines()[-1])


def test_the_script_says_what_it_lacks(tmp_path):
    (tmp_path / "sklearn.py").write_text("raise ImportError('none here')")
    (tmp_path / "numpy.py").write_text("")
    result = run([sys.executable, FOLDER / "digits.py"], env={"PYTHONPATH": tmp_path})
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == "digits.py: scikit-learn is missing (none here): pip install scikit-learn==1.9.1\n"


def test_the_script_makes_the_file():
    sklearn = pytest.importorskip("sklearn")
    if sklearn.__version__ not in (FOLDER / "digits.py").read_text(encoding="utf-8"):
        pytest.skip("another version may train another network")
    assert run([sys.executable, FOLDER / "digits.py"], timeout=300).stdout == DIGITS
