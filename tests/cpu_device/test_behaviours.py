"""behaviours.cu prints the same lines on a GPU and on the CPU device."""

import difflib
import re
import shutil
from pathlib import Path

import pytest
from conftest import DEVICE, FULL, run

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "behaviours.cu"
EXPECTED = (HERE / "behaviours.expected.txt").read_text(encoding="utf-8")

COMPILERS = ["nvcc"] if DEVICE == "gpu" else ["g++", "clang++"]
if FULL and DEVICE == "cpu":
    COMPILERS += filter(shutil.which, ["g++-11", "g++-13", "clang++-15", "clang++-16", "clang++-19"])
ORDERS = [{}] if DEVICE == "gpu" else [
    {"CPU_DEVICE_ORDER": "forward", "CPU_DEVICE_WORKERS": "1"},
    {"CPU_DEVICE_ORDER": "reverse"},
    {"CPU_DEVICE_ORDER": "random:1"},
    {"CPU_DEVICE_ORDER": "random:2", "CPU_DEVICE_WORKERS": "3"}]


@pytest.fixture(scope="module", params=COMPILERS)
def behaviours(request, build_program):
    return build_program(SOURCE, **{} if DEVICE == "gpu" else {"cxx": request.param, "flags": ("-g0",)})


def same_lines(output, expected):
    difference = list(difflib.unified_diff(expected.splitlines(), output.splitlines(),
                                           "behaviours.expected.txt", "this run", lineterm="", n=0))
    assert not difference, "\n".join(difference)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: " ".join(order.values()) or "gpu")
def test_same_as_a_gpu(behaviours, order):
    result = run([behaviours], env=order, timeout=300)
    same_lines(result.stdout, EXPECTED)
    assert result.returncode == 0, result.stderr


def test_questions_by_name(behaviours):
    names = ["elapsed time", "cudaFree twice", "__trap"]
    expected = [line for name in names for line in EXPECTED.splitlines(keepends=True)
                if line.startswith(name + ": ")]
    assert len(expected) == len(names)
    same_lines(run([behaviours, *names]).stdout, "".join(expected))


def test_question_that_is_not_there(behaviours):
    result = run([behaviours, "no such question"])
    assert result.returncode == 2
    assert result.stdout == ""
    assert "'no such question'" in result.stderr


def test_every_question_has_one_line():
    questions = re.findall(r'^    \{"(.*?)"[,}]', SOURCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(questions)) == len(questions)
    assert [line.partition(": ")[0] for line in EXPECTED.splitlines()] == questions
