"""Every mistake of the table is caught, as the page about them says."""

import json
import math
import re
import sys
from pathlib import Path

import pytest
from conftest import CHAPTERS, DEVICE, FULL, NVCC, need, run

sys.path.insert(0, str(Path(__file__).parent / "mistakes"))

import page  # noqa: E402
from table import (ASAN, CHECK, CLOCK, COMPILER, DEVICE as CPU_DEVICE, LINT, MISTAKES,  # noqa: E402
                   TSAN, UNDEFINED, UNNOTICED)


@pytest.fixture(scope="session")
def program_of(build_program):
    def program_of(mistake, source):
        return build_program(source, flags=page.flags_of(mistake))
    return program_of


def test_each_has_a_name_of_its_own():
    names = [mistake.name for mistake in [*MISTAKES, *CLOCK]]
    assert len(set(names)) == len(names) >= 60
    assert {mistake.chapter for mistake in MISTAKES} == {path.parent.name[:2] for path in CHAPTERS}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_caught(mistake, program_of, tmp_path):
    if DEVICE == "gpu":
        on_a_gpu(mistake, program_of, tmp_path)
    else:
        on_the_cpu_device(mistake, program_of)


def on_the_cpu_device(mistake, program_of):
    for tool, compiler in ((ASAN, "g++"), (TSAN, "clang++"), (LINT, "clang++"), (COMPILER, "g++")):
        if mistake.tool == tool:
            need(compiler)
    seen = page.see(mistake, program_of)
    if mistake.tool in (CHECK, CPU_DEVICE):
        # Chapter 2 makes mistakes on purpose, of which the CPU device speaks too.
        assert mistake.chapter == "02" or (page.fault(seen.plain) is not None) == (mistake.tool == CPU_DEVICE)
        program = program_of(mistake, seen.source)
        for arguments in (*mistake.runs[1:], *(mistake.large if FULL else ())):
            result = page.run_plainly(mistake, program, arguments)
            assert page.is_caught(result), f"{arguments}:\n{result.stdout}{result.stderr}"
        assert page.is_caught(seen.plain), seen.plain.stdout + seen.plain.stderr
    else:
        assert page.named(mistake, seen), seen.tool.stdout + seen.tool.stderr
        assert mistake.tool == COMPILER or seen.tool.returncode != 0
        assert mistake.tool != ASAN or page.verdict(seen.plain) == "PASS"
    # Which of several wrong bytes is touched first depends on the compiler.
    compared = (lambda text: re.sub(r"\d+", "…", text)) if mistake.tool == CPU_DEVICE else str
    assert compared(page.row(mistake, seen)) in map(compared, page.PAGE.read_text(encoding="utf-8").splitlines())


def on_a_gpu(mistake, program_of, folder):
    if mistake.on_gpu == UNDEFINED:
        pytest.skip("nobody says what a GPU does there")
    if mistake.on_gpu == UNNOTICED:
        pytest.skip("nvcc says nothing, and small sizes come out right")
    source = page.source_of(mistake)
    if mistake.on_gpu == "nvcc":
        flags = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror"]
        result = run([NVCC, "-arch=native", *flags, source, "-o", folder / "program"], timeout=300)
        assert result.returncode != 0
        assert re.search(rf"{source.name}[:(]\d+", result.stdout + result.stderr)
        return
    program = program_of(mistake, source)
    if mistake.on_gpu:
        tool = [need("compute-sanitizer"), "--tool", mistake.on_gpu, "--error-exitcode", "99"]
        result = page.run_plainly(mistake, program, mistake.runs[0], *tool)
        assert result.returncode == 99, result.stdout + result.stderr
        return
    for arguments in (*mistake.runs, *mistake.large):
        result = page.run_plainly(mistake, program, arguments)
        assert page.is_caught(result), f"{arguments}:\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("number", sorted({mistake.chapter for mistake in MISTAKES if mistake.switched}))
def test_a_chapter_whose_mistakes_are_switched_passes_without_them(number, build_program):
    mistake = next(mistake for mistake in MISTAKES if mistake.switched and mistake.chapter == number)
    result = run([build_program(page.source_of(mistake))])
    assert result.returncode == 0 and result.stdout.splitlines()[-1] == "PASS", result.stdout


@pytest.mark.skipif(not FULL or DEVICE == "gpu" or not NVCC, reason="takes long: FULL=1, with nvcc")
@pytest.mark.parametrize("number", sorted({mistake.chapter for mistake in MISTAKES if mistake.switched} - {"02"}))
def test_nvcc_builds_a_chapter_with_its_switched_mistakes(number, tmp_path):
    """There they are only tried on a GPU. Chapter 2's are not switched then."""
    mistake = next(mistake for mistake in MISTAKES if mistake.switched and mistake.chapter == number)
    result = run([NVCC, "-arch=sm_90", page.source_of(mistake), "-o", tmp_path / "program"], timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_page_has_all_of_them():
    text = page.PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| \[\d\d\]", line)]
    assert len(rows) == len(MISTAKES) + len(CLOCK)
    assert text == page.page(rows[:len(MISTAKES)])


# Mistakes of timing.

def flags_of_a_bench(chapter):
    libraries = ["-lcublas"] if chapter.stem in ("matmul", "neural_layer") else []
    return ("-std=c++17", "-DBENCHMARKS", "-Xcompiler", "-fopenmp", "-lbenchmark", "-lpthread", *libraries)


def rate(program, row, counter, folder):
    """The best figure of the rows that this expression names, or why there is none."""
    out = folder / "rows.json"
    out.unlink(missing_ok=True)
    result = run([program, f"--benchmark_filter=^{row}/", f"--benchmark_out={out}", "--benchmark_out_format=json"],
                 timeout=180)
    if result.returncode != 0:
        return result.stderr
    rows = json.loads(out.read_text(encoding="utf-8"))["benchmarks"]
    assert rows and not any(row.get("error_occurred") for row in rows), rows
    return max(row[counter] for row in rows)


def hasty(mistake):
    """Its source. Where time seems to stand still, a row would go on for minutes to fill its least time."""
    return page.file_of(re.sub(r"MinTime\([\d.]+\)", "MinTime(0.002)", page.edited(mistake)),
                        page.chapter_of(mistake).name)


@pytest.mark.parametrize("mistake", CLOCK, ids=lambda mistake: mistake.name)
def test_a_mistake_of_timing_is_an_edit(mistake, build_program):
    """And it compiles: here, side by side, before the tests that have a GPU to themselves."""
    chapter = page.chapter_of(mistake)
    assert page.edited(mistake) != chapter.read_text(encoding="utf-8")
    if DEVICE == "gpu":
        for source in (chapter, hasty(mistake)):
            build_program(source, flags=flags_of_a_bench(chapter))


@pytest.mark.alone
@pytest.mark.skipif(DEVICE != "gpu", reason="only a GPU has figures above what a GPU can do")
@pytest.mark.parametrize("mistake", CLOCK, ids=lambda mistake: mistake.name)
def test_a_mistake_of_timing_is_caught(mistake, build_program, tmp_path):
    chapter = page.chapter_of(mistake)
    flags = flags_of_a_bench(chapter)
    ceiling = rate(build_program(chapter, flags=flags), mistake.ceiling, mistake.counter, tmp_path)
    right = rate(build_program(chapter, flags=flags), mistake.row, mistake.counter, tmp_path)
    wrong = rate(build_program(hasty(mistake), flags=flags), mistake.row, mistake.counter, tmp_path)
    assert 0 < right <= 1.02 * ceiling
    if mistake.error:
        assert re.search(mistake.error, str(wrong)), wrong
    else:
        assert not (math.isfinite(wrong) and 0 < wrong <= 1.1 * ceiling), (wrong, ceiling)
