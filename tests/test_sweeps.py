"""tests/sweeps.py, which runs the chapters over and over: it passes them, and it can fail."""

import os
import re
import shutil
import sys

import pytest
import sweeps
from conftest import BUILD, CHAPTERS, DEVICE, FULL, REPOSITORY, mutate, need, run


@pytest.fixture
def sweep(tmp_path):
    """Runs it in a BUILD of its own, which has nothing of the tests' own but the built engines."""
    build = tmp_path / "build"
    (build / "cpu").mkdir(parents=True)
    (BUILD / "cpu" / "cache").mkdir(parents=True, exist_ok=True)
    (build / "cpu" / "cache").symlink_to(BUILD / "cpu" / "cache")
    return lambda *words, folder=REPOSITORY: run(
        [sys.executable, folder / "tests" / "sweeps.py", "--quick", *words], timeout=1800,
        env={"BUILD": build})


def lines(result):
    """{(chapter, what)} of the summary: those that passed, and those that failed."""
    summary = result.stdout.rpartition("\n\n")[2]
    found = re.findall(r"^(\S*) +(.*?) +(\d+)  (passed|\d+ FAILED)$", summary, re.M)
    assert found, result.stdout + result.stderr
    return ({(chapter, what) for chapter, what, _, how in found if how == "passed"},
            {(chapter, what) for chapter, what, _, how in found if how != "passed"})


def test_the_chapters_pass(sweep):
    results = list(REPOSITORY.glob("plots/results/*/sweeps.txt"))
    before = {path: path.read_bytes() for path in results}
    chosen = [] if FULL else ["01", "05", "--only", "shapes", "repeats"]
    result = sweep("--device", DEVICE, *chosen)
    passed, failed = lines(result)
    assert (result.returncode, failed) == (0, set()), result.stdout
    assert result.stdout.endswith("\nPASS\n")
    chapters = [path.parent.name for path in CHAPTERS if FULL or path.parent.name[:2] in chosen]
    assert {(chapter, "random shapes, seed 1") for chapter in chapters} <= passed
    assert {path: path.read_bytes() for path in results} == before


# Chapter 1 with a mistake for each of the things that are looked for, where only that one sees it.
MISTAKES = """
    if (argc == 1)
        std::printf("%p\\n", static_cast<void*>(&n));                  // never twice the same
    if (n == 1)
        return std::puts("FAIL: 1"), EXIT_FAILURE;
    if (n > 1 && n % 2 == 1)
        gpu[0] = cpu.data()[n + 1];                                     // past the end
    if (argc == 1)
        CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&n), 1000));     // and never freed
    std::puts("PASS");
"""


def test_each_sweep_can_fail(sweep, tmp_path):
    if DEVICE != "cpu":
        pytest.skip("made for the CPU device")
    need("clang++")
    folder = tmp_path / "a copy"
    for name in ("Makefile", "make", "cpu_device", "plots/source_hash", "plots/results_reader.py",
                 "tests/sweeps.py"):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy)(REPOSITORY / name, target)
    source = mutate(CHAPTERS[0], '    std::puts("PASS");\n', MISTAKES)
    source = mutate(source, "    for (auto _ : state) {\n        vector_add_cpu",
                    "    new std::vector<float>(largest);    // in each repetition\n"
                    "    for (auto _ : state) {\n        vector_add_cpu")
    chapter = folder / "01_vector_add" / "vector_add.cu"
    chapter.parent.mkdir()
    chapter.write_text(source)
    result = sweep("--device", "cpu", folder=folder)
    passed, failed = lines(result)
    assert {what for _, what in failed} == {
        "random shapes, seed 1", "ASan, UBSan, TSan, CUDA's rules", "no leak",
        "the same output, CUDA_LAUNCH_BLOCKING=0", "the same output, CUDA_LAUNCH_BLOCKING=1",
        "memory over 30 x cpu_one_thread 262144"}, result.stdout
    assert passed == {("", "built"), ("01_vector_add", "a leak on purpose is reported")}
    assert result.returncode == 1
    assert re.fullmatch(r"FAIL: \d+ of \d+ runs", result.stdout.splitlines()[-1])
    for shown in ("FAIL: 1", "heap-buffer-overflow", "device memory is left", "lines that differ",
                  "memory of the host: "):
        assert shown in result.stdout


@pytest.fixture
def a_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sweeps.py", "--build", str(tmp_path)])
    return sweeps.Sweeps(sweeps.arguments())


def test_shapes_are_seeded_and_reach_every_corner(a_sweep):
    for chapter in (path.parent.name for path in CHAPTERS):
        dimensions, most = sweeps.SHAPES[chapter]
        shapes = [tuple(map(int, shape)) for shape in a_sweep.shapes(chapter, 200)]
        assert [list(map(str, shape)) for shape in shapes] == a_sweep.shapes(chapter, 200)
        sizes = {size for shape in shapes for size in shape}
        assert {len(shape) for shape in shapes} == set(dimensions)
        assert {0, 1} <= sizes and any(size % 2 for size in sizes if size > 1000)
        work = [sweeps.math.prod(shape) for shape in shapes]
        assert max(work) <= most
        assert max(work) > most / 20 and sum(w < most / 1000 for w in work) > 50


@pytest.mark.parametrize("grows, expected", [(0, None), (1, "memory of the device: ")])
def test_growth_of_device_memory(a_sweep, tmp_path, monkeypatch, grows, expected):
    """A pretended benchmark says what a pretended nvidia-smi is to show."""
    (tmp_path / "used").write_text("500\n")
    tools = {"bench": f"""#!/bin/sh
case "$*" in *list_tests*) printf 'cpu_x/9\\ngpu_x/3/4/manual_time\\ngpu_x/5\\n'; exit ;; esac
repetitions=${{2#*=}}
echo $((500 + repetitions * {grows})) >used
sleep 0.5
i=0; while [ $i -lt $repetitions ]; do echo 'gpu_x/3/4/manual_time  1 ns'; i=$((i + 1)); done
""", "nvidia-smi": "#!/bin/sh\nwhile :; do cat used; sleep 0.1; done\n"}
    for name, script in tools.items():
        (tmp_path / name).write_text(script.replace("used", str(tmp_path / "used")))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    row, problem = a_sweep.grows(tmp_path / "bench")
    assert row == "gpu_x 3x4"
    assert problem is None if expected is None else problem.startswith(expected)


def test_a_program_that_hangs_or_is_missing_is_counted(a_sweep, tmp_path):
    a_sweep.limit = 1
    assert a_sweep.fails(["sleep", "60"]).startswith("is not over: sleep 60")
    assert a_sweep.fails([tmp_path / "nothing"]).startswith("exit code 127: ")
    assert a_sweep.fails(["echo", "PASS"]) is None
    assert a_sweep.fails(["echo", "PASSED"]).startswith("exit code 0: ")
    assert a_sweep.fails(["sh", "-c", "echo PASS; exit 3"]).startswith("exit code 3: ")


@pytest.mark.parametrize("words", [("--jobs", "0"), ("--jobs", "-3"), ("--timeout", "0"), ("--timeout", "1.5")], ids=repr)
def test_a_number_that_cannot_be_is_refused(sweep, words):
    result = sweep("01", *words)
    assert result.returncode == 2
    assert f"argument {words[0]}: '{words[1]}' is no whole number from 1 on" in result.stderr
