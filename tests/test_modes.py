"""Every chapter, in every way in which a chapter can be run and looked at here."""

import pytest
from conftest import CHAPTERS, DEVICE, REPOSITORY, need, run

# Sizes that nothing divides, small enough for the slowest tool.
SIZES = {"01": ["1000"], "02": ["2500"], "03": ["10007"], "04": ["5", "25", "33"], "05": ["10007"],
         "06": ["33", "65", "57"], "07": ["5", "67", "45"]}
MODES = {
    "cpu": ["plain", "--order=reverse", "--asan", "--tsan", "--lint"],
    "gpu": ["plain", "memcheck", "racecheck", "initcheck", "synccheck"],
}[DEVICE]


def sizes_of(chapter):
    number = chapter.parent.name[:2]
    assert number in SIZES, f"{chapter.parent.name}: tests/test_modes.py has no SIZES for it"
    return SIZES[number]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.parent.name)
def test_a_chapter_passes(chapter, mode, build_program):
    arguments = sizes_of(chapter)
    if mode in ("--tsan", "--lint"):              # clang++, and it has nothing to warn of
        need("clang++")
    if mode == "plain":
        command = [build_program(chapter)]
    elif DEVICE == "gpu":
        command = [need("compute-sanitizer"), "--tool", mode, "--error-exitcode", "99", build_program(chapter)]
    else:
        command = [REPOSITORY / "cpu_device" / "run", mode, chapter]
    env = {"CXXFLAGS": "-Wall -Wextra -Werror"} if mode in ("--tsan", "--lint") else {}
    result = run([*command, *([] if mode == "--lint" else arguments)], timeout=300, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    if mode != "--lint":
        assert "PASS" in result.stdout.splitlines()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.parent.name)
def test_a_chapter_passes_when_built_for_a_debugger(chapter, build_program):
    """Such a kernel has more registers a thread, and a block must still fit."""
    flags = ("-G", "-g") if DEVICE == "gpu" else ("-O0", "-g")
    result = run([build_program(chapter, flags=flags), *sizes_of(chapter)], timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "PASS"
