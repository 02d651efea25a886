"""What every chapter's program keeps to, whatever it is about."""

import re
import shutil

import pytest
from conftest import CHAPTERS, FULL, NVCC, REPOSITORY, need_compiler, not_run, run

STRICT = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra"]
OLDEST, NEWEST = "75", "120"

each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.parent.name)


def alone(chapter, folder):
    """A copy of the chapter's one file, with nothing beside it."""
    return shutil.copy(chapter, folder)


@pytest.fixture
def built_alone(once):
    """built_alone(chapter) -> the folder of a program that nvcc built from a file with nothing beside it,
    and of what nvcc said meanwhile."""
    def make(folder, chapter):
        alone(chapter, folder)
        targets = [f"-gencode=arch=compute_{arch},code=sm_{arch}"
                   for arch in ([OLDEST, "80", "90", NEWEST] if FULL else [OLDEST])]
        result = run([NVCC, *STRICT, *targets, chapter.name, "-o", "program"], cwd=folder, timeout=300)
        (folder / "said").write_text(f"{result.stdout}{result.stderr}exit code {result.returncode}")

    def built_alone(chapter):
        if not NVCC:
            not_run("no nvcc here")
        return once(("alone", chapter.name), lambda folder: make(folder, chapter))

    return built_alone


@each_chapter
def test_nvcc_builds_the_file_alone_without_a_warning(chapter, built_alone):
    folder = built_alone(chapter)
    assert (folder / "said").read_text() == "exit code 0"
    assert (folder / "program").exists()


@each_chapter
def test_nvcc_builds_the_benchmarks_without_a_warning(chapter, tmp_path):
    if not NVCC:
        not_run("no nvcc here")
    alone(chapter, tmp_path)
    result = run([NVCC, *STRICT, "-std=c++17", f"-arch=sm_{NEWEST}", "-DBENCHMARKS", "-Xcompiler", "-fopenmp", "-c",
                  chapter.name, "-o", "program.o"], cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout + result.stderr == ""


@each_chapter
def test_the_cpu_device_builds_and_runs_the_file_alone(chapter, tmp_path):
    """With g++; test_modes.py has clang++."""
    source = alone(chapter, tmp_path)
    result = run([REPOSITORY / "cpu_device" / "run", f"--cxx={need_compiler('g++')}", source],
                 env={"CXXFLAGS": "-Wall -Wextra -Werror"}, cwd=tmp_path, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "PASS"


@each_chapter
def test_lines_are_at_most_100_columns(chapter):
    long = [number for number, line in enumerate(chapter.read_text().splitlines(), 1) if len(line) > 100]
    assert long == []


def lesson(text):
    """The lines before Plumbing that do not stand between `#ifndef BENCHMARKS`'s else and its end."""
    lines, depth, skipped_from = [], 0, None
    for line in text[:text.index("// ## Plumbing")].splitlines():
        if line.startswith("#if"):
            depth += 1
            if "BENCHMARKS" in line:
                outer = depth
        if line == "#else" and depth == outer:
            skipped_from = depth
        if skipped_from is None:
            lines.append(line)
        if line.startswith("#endif"):
            if depth == skipped_from:
                skipped_from = None
            depth -= 1
    return lines


@each_chapter
def test_the_lesson_is_short_enough(chapter):
    text = chapter.read_text()
    limit = 150 if chapter.stem == "vector_add" else 600
    assert len(lesson(text)) <= limit


def functions(text):
    """The functions that stand under Plumbing and `time_on_gpu`, each with the prose above it."""
    plumbing = text[text.index("// ## Plumbing"):]
    start = text.find("template <typename Launch>\nvoid time_on_gpu")
    blocks = re.split(r"(?<=\n\}\n)\n", plumbing)
    if start >= 0:
        blocks.append(text[start:text.index("\n}\n", start) + 3])
    found = {}
    for block in blocks:
        signature = re.search(r"^(?!//|#)\S[^;{]*\([^;{]*\)\n\{", block, re.M)
        if signature:
            code = block[signature.start():] if "template" not in block else block[block.index("template"):]
            found.setdefault(re.sub(r"\s+", " ", signature.group(0)), code)
    return found


def test_helpers_that_chapters_share_are_the_same_text():
    first = {}
    for chapter in CHAPTERS:
        for signature, code in functions(chapter.read_text()).items():
            where, text = first.setdefault(signature, (chapter.name, code))
            assert code.strip() == text.strip(), f"{signature} differs in {where} and {chapter.name}"
    assert any("check_cuda" in signature for signature in first)
    assert any("time_on_gpu" in signature for signature in first)


@each_chapter
def test_every_chapter_checks_itself_on_a_machine_without_a_gpu_and_says_so(chapter, built_alone):
    """Built by nvcc and started where there is no driver, a chapter names the error and its line."""
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a driver here")
    result = run([built_alone(chapter) / "program"])
    assert result.returncode == 1
    assert "PASS" not in result.stdout
    assert re.search(rf"{chapter.name}:\d+: cudaError(InsufficientDriver|NoDevice): ", result.stderr)
