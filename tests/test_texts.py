"""What the texts say is so: the answers of *Try it*, messages that are quoted, where help is found."""

import re

import pytest
from conftest import CHAPTERS, DEVICE, NVCC, QUICK, REPOSITORY, chapter_with, mutate, need, not_run, run

README = REPOSITORY / "README.md"
TROUBLESHOOTING = REPOSITORY / "TROUBLESHOOTING.md"


def text_of(path):
    return path.read_text(encoding="utf-8")


def words(text):
    """A text as one line, so that it does not matter where its own lines end."""
    return " ".join(text.split())


# Try it: three questions a chapter, each with its answer.


def questions(chapter):
    """[(question, answer)] of a chapter."""
    prose = re.sub(r"^// ?", "", text_of(chapter), flags=re.MULTILINE)
    section = prose.partition("\n## Try it\n")[2].partition("\n## ")[0]
    return [tuple(words(part) for part in item.partition("*Answer:*")[::2])
            for item in re.split(r"^\d\. ", section, flags=re.MULTILINE)[1:]]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.parent.name)
def test_each_chapter_ends_with_three_questions_that_are_answered(chapter):
    found = questions(chapter)
    assert len(found) == 3
    for question, answer in found:
        assert "?" in question and answer


# Each answer is tried: the chapter and the number of the question; the edits, each in a function;
# the program's arguments; what it must print, or what its standard error must say, as a regular
# expression, with another one for a GPU where that says something else; and which words of the
# answer this shows.

SHARED = [("i = 0", "i = threadIdx.x"), ("++i", "i += blockDim.x")]
KERNEL_1 = "__global__ void add_one_thread("
TRIP_1 = "void vector_add_gpu("
SIGMOID = "__host__ __device__ float sigmoid("
PASSES = r"(?s).*\nPASS\n"


def in_function(name, *edits):
    return [(name, old, new) for old, new in edits]


MORE_THREADS = in_function(TRIP_1, ("<<<1, 1>>>", "<<<1, 32>>>"))
ROUNDS_DOWN = in_function("void launch(Kernel kernel", (
    "(n + elements_a_block - 1) / elements_a_block", "n / elements_a_block"))
SQUARE = in_function("template <typename T>\n__global__ void matrix_add(", ("row * cols", "row * rows"))
HIGH_BLOCK = in_function(None, ("matrix_block(32, 8)", "matrix_block(8, 32)"))
NO_LIMIT = in_function("dim3 grid_for(", (
    "std::min<size_t>((y + block.y - 1) / block.y, 65535)", "(y + block.y - 1) / block.y"))

EXCHANGED = in_function("void launch_matmul(", ("matrix_block, s.n, s.m", "matrix_block, s.m, s.n"))
ANSWERS = {
    "32 threads all do everything": (
        "01", 1, MORE_THREADS, [], PASSES, "PASS"),
    "32 threads share a loop": (
        "01", 2, MORE_THREADS + in_function(KERNEL_1, *SHARED), [], PASSES, "PASS"),
    "a kernel gets the host's pointers": (
        "01", 3, in_function(TRIP_1, ("(d_a, d_b, d_c);\n    else", "(a, b, c);\n    else")), [],
        r"(?s).*cudaErrorIllegalAddress.*\n    cudaDeviceSynchronize\(\)", "cudaErrorIllegalAddress"),
    "an error that was only looked at": (
        "02", 1, in_function("void check_what_was_refused()", ("cudaGetLastError", "cudaPeekAtLastError")),
        [], r'(?s).*says "invalid (configuration )?argument"\n.*cudaErrorInvalid(Value|Configuration)'
        r".*\n    cudaGetLastError\(\)\n", "invalid argument"),
    "hello from 768 threads": (
        "02", 2, in_function("void zero_blocks()", ("n = 100,", "n = 1000,")), ["zero-blocks"],
        r"(?s)(?!.*says hello)FAIL: zero-blocks: there was no error\n",
        "FAIL: zero-blocks: there was no error"),
    "one element past the end": (
        "02", 3, in_function("__global__ void differences(", ("x[i - 1]", "x[i + 1]")),
        ["illegal-address"],
        {"cpu": r"(?s).*differences, block \(0,0,0\), thread \(255,0,0\).*cudaErrorIllegalAddress",
         "gpu": r"FAIL: illegal-address: there was no error\n"},
        "FAIL: illegal-address: there was no error"),
    "blocks rounded down": (
        "03", 1, ROUNDS_DOWN, [], r"(?s).*\nFAIL: one element a thread: element 1000000: GPU -?nan",
        "element 1,000,000"),
    "blocks rounded down, a round size": ("03", 1, ROUNDS_DOWN, ["786432"], PASSES, "PASS"),
    "40 threads a block": (
        "03", 2, in_function("bool who_runs_where(", ("threads = 64", "threads = 40")), [],
        r"(?s).*block 11, .* #{32} #{8}\n  block 12, .* #{20}\.{12} \.{8}\nC = A \+ B.*\nPASS\n",
        "13 blocks and 26 warps"),
    "one block for a thread an element": (
        "03", 3, in_function("std::vector<Variant> variants(", ("add, 1, sweep", "add, n, sweep")), [],
        r"(?s).*\nFAIL: one element a thread: element 32: GPU -?nan", "fails at element 32"),
    "one block for a grid-stride loop": (
        "03", 3, in_function("std::vector<Variant> variants(", ("stride, rounds,", "stride, n,")), [],
        PASSES, "`add_grid_stride` passes"),
    "rows for columns in an index": (
        "04", 1, SQUARE, [], r"(?s).*\nFAIL: columns on x: element 430: GPU -?nan", "element 430"),
    "rows for columns, a square": ("04", 1, SQUARE, ["1000", "1000"], PASSES, "The square matrix passes"),
    "no limit for y": ("04", 3, NO_LIMIT, [], PASSES, "the first passes"),
    "no limit for y, many rows": (
        "04", 3, NO_LIMIT, ["1048577", "1"], r"(?s)(?!.*columns on x).*cudaErrorInvalid(Value|Configuration)",
        "The second ends at its first large grid"),
    "no limit for y, many columns": (
        "04", 3, NO_LIMIT, ["1", "1048577"],
        r"(?s)(?!.*rows on x).*columns on x  largest.*cudaErrorInvalid(Value|Configuration)",
        "The third passes that one"),
    "a device function on the CPU device": (
        "05", 1, in_function(None, (SIGMOID, SIGMOID.replace("__host__ ", ""))), [],
        {"cpu": PASSES, "gpu": None}, "passes, as if nothing were wrong"),
    "1.0 for 1": (
        "05", 2, in_function(SIGMOID, ("1 / (1 +", "1.0 / (1.0 +")), [],
        {"cpu": r"(?s).*\nexpf .*?  in ulp .*?, 0\.\d+ above\n.*\nPASS\n", "gpu": PASSES}, "it passes"),
    "a clamp that loses NaN": (
        "05", 3, in_function(SIGMOID, ("expf(-x)", "expf(-fmaxf(x, -88))")), [],
        r"(?s).*\nFAIL: expf: NaN became 6\.0546e-39\n", "FAIL: expf: NaN became 6.0546e-39"),
    "the sides of C exchanged": (
        "06", 1, EXCHANGED, [], r"(?s).*\nFAIL: columns on x: element 128: ", "element 128"),
    "the sides of a square exchanged": ("06", 1, EXCHANGED, ["64", "64", "64"], PASSES, "`./matmul 64 64 64` passes"),
    "inputs of both signs": (
        "06", 3, in_function("void fill(", ("0.5f", "-0.5f")), [], r"(?s).*\nFAIL: CPU, ijk: ", "FAIL: CPU, ijk"),
    "half of a warp": (
        "07", 1, in_function("__device__ float warp_sum(", ("distance = 16", "distance = 8")), [],
        r"(?s).*\nFAIL: warp a row: element 0: ", "`warp a row`"),
    "rows that are not aligned": (
        "07", 2, in_function("void launch_block_a_row(", ("s.in % 4 == 0", "true")), [],
        r"(?s).*(cudaErrorMisalignedAddress|\nFAIL: block<128,4>: element 0: )", "cudaErrorMisalignedAddress"),
    "paper and ink exchanged": (
        "07", 3, in_function("Digits read_digits(const char* name)\n", ("file.whole(values[pixel]", "1 - file.whole(values[pixel]")),
        ["digits", str(REPOSITORY / "07_neural_layer" / "digits.txt")],
        r"(?s).*GPU right in 0\.000, CPU 0\.000", "in none"),
}


def edited(number, edits):
    chapter = chapter_with(number)
    source = text_of(chapter)
    for inside, old, new in edits:
        source = mutate(source, old, new, inside=inside)
    return chapter, source


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_is_true(build_program, what):
    number, question, edits, arguments, expected, said = ANSWERS[what]
    expected = expected[DEVICE] if isinstance(expected, dict) else expected
    chapter, source = edited(number, edits)
    assert said in questions(chapter)[question - 1][1]
    if expected is None:
        pytest.skip("this answer is about the other device")
    result = run([build_program(source, name=chapter.stem, flags=QUICK), *arguments])
    assert re.match(expected, result.stdout + result.stderr), result.stdout + result.stderr
    assert (result.returncode == 0) == (expected == PASSES or expected.endswith(r"\nPASS\n"))


def test_a_tile_of_64_is_refused_in_words(tmp_path):
    chapter, source = edited("06", in_function(None, (
        '{"tile 32", launch_tile<32>},', '{"tile 32", launch_tile<32>}, {"tile 64", launch_tile<64>},')))
    assert "static assertion failed" in questions(chapter)[1][1]
    (tmp_path / "matmul.cu").write_text(source, encoding="utf-8")
    result = run([REPOSITORY / "cpu_device" / "run", "--build", "-o", "program", "matmul.cu"], cwd=tmp_path,
                 timeout=300)
    assert result.returncode != 0
    assert "static assertion failed" in result.stderr and "32 x 32 fits, 64 x 64 does not" in result.stderr


def test_the_original_has_more_than_one_ulp_above_0(build_program):
    chapter, source = edited("05", [])
    assert "above 0, from more than 1 ulp to less than 1" in questions(chapter)[1][1]
    assert re.search(r"\nexpf .*?  in ulp .*?, 1\.\d+ above\n",
                     run([build_program(source, name=chapter.stem)]).stdout, re.DOTALL)


@pytest.mark.parametrize("edits, columns, rows", [([], 4, 32), (HIGH_BLOCK, 4, 8)])
def test_sectors_of_a_block_that_is_wide_and_of_one_that_is_high(build_program, edits, columns, rows):
    chapter, source = edited("04", edits)
    assert "4, as before, and 8 instead of 32" in questions(chapter)[1][1]
    lines = run([build_program(source, name=chapter.stem), "accesses"]).stdout.splitlines()
    assert lines[-1] == "PASS"
    for mapping, sectors in (("matrix_columns_on_x", columns), ("matrix_rows_on_x", rows)):
        assert len({line.split(",")[3] for line in lines if line.startswith(mapping)}) == sectors


@pytest.mark.parametrize("tool", ["nvcc", "--lint"])
def test_a_compiler_names_the_host_functions_that_call_a_device_function(tmp_path, tool):
    chapter, source = edited("05", in_function(None, (SIGMOID, SIGMOID.replace("__host__ ", ""))))
    (tmp_path / chapter.name).write_text(source, encoding="utf-8")
    if tool == "nvcc":
        command = [NVCC or not_run("no nvcc here"), "-arch=sm_90", "-o", "program"]
    else:
        need("clang++")
        command = [REPOSITORY / "cpu_device" / "run", "--lint"]
    result = run([*command, chapter.name], cwd=tmp_path, timeout=300)
    assert result.returncode != 0
    lines = {int(line) for line in re.findall(rf"^{chapter.name}[:(](\d+)\D.*error:",
                                              result.stdout + result.stderr, re.MULTILINE)}
    before = ("\n".join(source.splitlines()[:line]) for line in lines)
    functions = {re.findall(r"^\w.*?(\w+)\(.*\)\n\{", text, re.MULTILINE)[-1] for text in before}
    assert functions == {"sigmoid_cpu", "print_forms"}
    assert all(f"`{name}`" in questions(chapter)[0][1] for name in functions)


# Troubleshooting.


def sections(path):
    """{heading: text} of a page."""
    parts = re.split(r"^#+ (.*)\n", text_of(path), flags=re.MULTILINE)[1:]
    return {heading: words(text) for heading, text in zip(parts[::2], parts[1::2])}


# Cases that a text answers: words of the heading under which it stands, and of the remedy.
CASES = {
    "no checks, PTX of too new a toolkit": ("cudaErrorUnsupportedPtxVersion (222)", "-arch=native"),
    "two versions of CUDA": ("nvidia-smi says one CUDA version, nvcc another", "newest CUDA that it can run"),
    "built for another GPU": ("cudaErrorNoKernelImageForDevice (209)", "`cudaErrorInvalidDeviceFunction`"),
    "no GPU where it is compiled": ("Cannot find valid GPU", "ARCH=sm_90"),
    "an architecture that CUDA 13 dropped": ("Unsupported gpu architecture", "12.x toolkit"),
    "fields that CUDA 13 dropped": ("has no member", "cudaDeviceGetAttribute"),
    "gcc too new": ("unsupported GNU version!", "CCBIN=g++-12"),
    "nvcc 11.5 and g++ 11": ("parameter packs not expanded", "CUDA 12 or 13"),
    "glibc too new": ("exception specification", "glibc 2.41"),
    "flags for the host": ("Unknown option '-pthread'", "-Xcompiler"),
    "a disk without the exec bit": ("noexec", "BUILD="),
    "Colab without a GPU": ("Colab", "Change runtime type"),
    "no driver, or an old one": ("cudaErrorInsufficientDriver (35)", "older than the toolkit"),
    "a hidden GPU": ("cudaErrorNoDevice (100)", "unset CUDA_VISIBLE_DEVICES"),
    "WSL": ("WSL2", "in Windows"),
    "a launch that is refused": ("cudaErrorInvalidConfiguration (9)", "65,535"),
    "errors that stick": ("cudaErrorIllegalAddress (700)", "until the process ends"),
    "too many registers": ("cudaErrorLaunchOutOfResources (701)", "fewer threads a block"),
    "out of memory": ("cudaErrorMemoryAllocation (2)", "overflowed"),
    "nothing printed": ("The kernel prints nothing", "cudaDeviceSynchronize()"),
    "nothing computed": ("zeros, NaN", "cudaGetLastError()"),
    "other digits": ("last digits", "one rounding"),
    "host function in a kernel": ("calling a __host__ function", "Both marks"),
    "a clock that does not wait": ("whatever the size", "events"),
    "the first measurement": ("The first run is slow", "before the clock starts"),
    "slower than the CPU": ("The GPU is slower than the CPU", "transfers"),
    "no Google Benchmark": ("Google Benchmark is missing", "-lbenchmark -lpthread"),
    "DEBUG": ("Library was built as DEBUG", "assertions"),
    "CPU frequency": ("CPU scaling is enabled", "medians"),
    "half a result": ("not whole", "earlier results"),
    "profiler's counters": ("ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
    "which profiler": ("nvprof", "`ncu "),
    "a hang": ("still runs after 60 seconds", "barrier"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_its_section(case):
    heading, remedy = CASES[case]
    found = [text for title, text in sections(TROUBLESHOOTING).items() if heading in title]
    assert len(found) == 1
    assert remedy in found[0]


# Messages of our own: as the page has them, and the file from which they come. What stands for any
# text, … on the page, stands for anything there.
OWN_MESSAGES = {
    "no GPU driver found": "make/detect",
    "nvidia-smi gave no answer in … s": "make/detect",
    "nvidia-smi names no GPU": "make/detect",
    "shows none of the GPUs": "make/detect",
    "no nvcc found": "make/detect",
    "write sm_90, say; nvcc … knows": "make/detect",
    "is older than CUDA 12, the oldest that the chapters are written for": "make/detect",
    "not executable there (a disk mounted noexec?)": "make/run",
    "the results are not whole (no space left?)": "make/bench",
    "Google Benchmark is missing": "make/setup",
    "cuBLAS is missing": "make/setup",
    "pip could not install what requirements.txt names. Is there a network?": "make/setup",
    "not checked, since clang++ is missing": "make/sanitize",
    "compute-sanitizer is missing": "make/sanitize",
    "the name of this folder must be one word, without spaces": "Makefile",
    "sudo sysctl vm.mmap_rnd_bits=28": "cpu_device/run",
    "still runs after … seconds (CPU_DEVICE_TIMEOUT)": "cpu_device/engine/watchdog.cpp",
    "is stuck": "cpu_device/engine/report.cpp",
    "CUDA_LAUNCH_BLOCKING=1": "02_error_checking/error_checking.cu",
}


@pytest.mark.parametrize("message", OWN_MESSAGES)
def test_a_message_that_is_quoted_is_one(message):
    pattern = ".{1,20}".join(map(re.escape, message.split("…")))
    assert re.search(pattern, words(text_of(TROUBLESHOOTING)))
    sources = [REPOSITORY / OWN_MESSAGES[message]]
    if sources[0].suffix == ".cpp":         # which room of the engine says it is not for here
        sources = sorted(sources[0].parent.glob("*.cpp"))
    assert any(re.search(pattern, text_of(source)) for source in sources)


def test_errors_have_their_numbers_and_texts():
    known = {name: (number, text) for name, number, text in re.findall(
        r'ERROR\((\w+),\s*(\d+),\s*"(.*?)"\)',
        text_of(REPOSITORY / "cpu_device/include/cpu_device/error_list.h"))}
    named = re.findall(r"`?(cudaError\w+)`? \((\d+)\)(?:: (.*))?", text_of(TROUBLESHOOTING))
    assert len(named) >= 10
    for name, number, text in named:
        assert number == known[name][0]
        assert not text or text == known[name][1].rstrip(".")


def test_the_newest_gcc_is_what_this_toolkit_says():
    if not NVCC:
        not_run("no nvcc here")
    release = re.search(r"release ([\d.]+)", run([NVCC, "--version"]).stdout)[1]
    header = run([NVCC, "-E", "-x", "cu", "-M", "/dev/null"]).stdout
    header = next(word for word in header.split() if word.endswith("crt/host_config.h"))
    with open(header, encoding="utf-8") as file:
        newest = re.search(r"gcc versions later than (\d+) are not supported", file.read())[1]
    rows = re.findall(r"^\| (1[\d., to]+?) \| (\d+) \|$", text_of(TROUBLESHOOTING), re.MULTILINE)
    as_number = lambda version: tuple(map(int, version.split(".")))  # noqa: E731
    fits = [gcc for versions, gcc in rows
            if as_number((ends := re.findall(r"[\d.]+", versions))[0]) <= as_number(release)
            <= as_number(ends[-1])]
    assert fits == [newest]


# The README.


def test_the_readme_shows_what_the_first_chapter_prints(build_program):
    printed = run([build_program(CHAPTERS[0], device="cpu")])
    assert f"--- {CHAPTERS[0].parent.name}\n{printed.stderr}{printed.stdout}```" in text_of(README)


def test_the_readme_names_the_architectures_that_are_built_for():
    fallback = re.search(r'^fallback="([\d ]+)"', text_of(REPOSITORY / "make/detect"), re.MULTILINE)[1]
    assert f"builds for {fallback}, as far as nvcc knows them" in words(text_of(README))


# Where each of the ten is to be answered: folders of chapters, or pages at the top.
QUESTIONS = {
    1: ("print nothing", {"02_error_checking", "TROUBLESHOOTING.md"}),
    2: ("How do I know that a launch worked?", {"02_error_checking"}),
    3: ("Which -arch do I need", {"#which"}),
    4: ("How many threads per block", {"03_thread_hierarchy"}),
    5: ("not a multiple of the block", {"01_vector_add", "06_matmul"}),
    6: ("x the column", {"04_matrix_2d_3d", "06_matmul"}),
    7: ("differ in the last digits", {"06_matmul"}),
    8: ("How do I time a kernel", {"03_thread_hierarchy"}),
    9: ("slower than the CPU", {"01_vector_add"}),
    10: ("Why two barriers", {"06_matmul", "01_vector_add"}),
}


def test_the_ten_questions_lead_to_their_answers():
    section = text_of(README).partition("\n## Questions that learners ask\n")[2].partition("\n## ")[0]
    items = re.split(r"^(\d+)\. ", section, flags=re.MULTILINE)[1:]
    found = dict(zip(map(int, items[::2]), items[1::2]))
    assert sorted(found) == sorted(QUESTIONS)
    for number, (text, places) in QUESTIONS.items():
        assert text in words(found[number])
        links = re.findall(r"\]\(([^)]+)\)", found[number])
        for place in places:
            assert any(link.startswith(place) for link in links), f"{number}: {place}"
