"""Tests that run side by side: who measures time is alone, and what all need is made once."""

import os
import shutil
import sys
from importlib.util import find_spec

import pytest
from conftest import REPOSITORY, not_run, run

TESTS = """
import os
import time
from pathlib import Path
import pytest

LOG = Path(__file__).with_name("log")

def note(*words):
    with open(LOG, "a") as log:                       # a line at a time, by whichever worker
        print(*words, os.environ.get("PYTEST_XDIST_WORKER"), file=log)

@pytest.fixture(scope="module")
def made(once):
    def make(folder):
        note("make")
        time.sleep(0.2)
        (folder / "file").write_text("whole")
    return once(("a", 1), make) / "file"

@pytest.fixture
def slow():
    note("begin")
    yield
    note("end")

@pytest.mark.parametrize("i", range(12))
def test_ordinary(i, made, slow):
    assert made.read_text() == "whole"
    time.sleep(0.02 + 0.01 * (i % 3))

@pytest.mark.alone
@pytest.mark.parametrize("i", range(4))
def test_alone(i, made, slow):
    note("alone")
    time.sleep(0.05)
    note("still alone")
"""


def most_at_once(lines):
    inside, most = 0, 0
    for line in lines:
        inside += line.startswith("begin")
        inside -= line.startswith("end")
        most = max(most, inside)
    return most


def pytest_on(folder, name, text, *options):
    """What these tests come to, with our conftest.py beside them."""
    for file in ("conftest.py", "summary.py", "cases.py"):
        shutil.copy(REPOSITORY / "tests" / file, folder)
    (folder / name).write_text(text)
    return run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", folder / "base",
                *options, folder], env={"PYTEST_XDIST_WORKER": None, "PYTEST_ADDOPTS": None}, cwd=folder)


@pytest.mark.parametrize("mark", ["alone", "another"])
def test_nothing_runs_beside_a_test_that_is_alone(tmp_path, mark):
    if not find_spec("xdist"):
        not_run("no pytest-xdist here")
    result = pytest_on(tmp_path, "test_many.py", TESTS.replace("mark.alone", f"mark.{mark}"), "-n", "4")
    assert result.returncode == 0, result.stdout
    assert "16 passed" in result.stdout.splitlines()[-1]
    lines = (tmp_path / "log").read_text().splitlines()
    assert sum(line.startswith("make") for line in lines) == 1
    assert len({line.split()[-1] for line in lines}) == 4 and most_at_once(lines) > 1
    undisturbed = [[line.rsplit(" ", 1)[0] for line in lines[i - 1:i + 3]]
                   == ["begin", "alone", "still alone", "end"]
                   for i, line in enumerate(lines) if line.startswith("alone")]
    assert len(undisturbed) == 4 and all(undisturbed) == (mark == "alone")


MODES = """
import pytest

@pytest.mark.parametrize("mode", ["plain", "--asan"])
@pytest.mark.parametrize("chapter", ["01_a", "02_b"])
def test_a_chapter_passes(chapter, mode):
    assert chapter != WRONG
"""


def test_the_line_that_a_run_comes_to_is_kept(tmp_path):
    device = os.environ.get("DEVICE") or "cpu"
    kept = tmp_path / "new" / "tests.txt"
    result = pytest_on(tmp_path, "test_modes.py", MODES.replace("WRONG", "''"), f"--keep={kept}")
    assert result.returncode == 0, result.stdout
    line = kept.read_text(encoding="utf-8")
    assert line.startswith(f"2 chapters x {device} x 2 modes (--asan, plain), 0 mistakes caught, 0 of ")
    assert result.stdout.splitlines()[-2] == line.strip()


def test_the_line_of_a_selection_says_what_was_tried(tmp_path):
    text = MODES.replace("WRONG", "''") + "\n\ndef test_another():\n    pass\n"
    device = os.environ.get("DEVICE") or "cpu"
    result = pytest_on(tmp_path, "test_modes.py", text, "-k", "01_a")
    assert result.stdout.splitlines()[-2] == (f"of the tests that were selected: 1 chapters x {device} x 2 modes "
                                              "(--asan, plain), 0 mistakes caught, 0 cases held")
    assert " cases held" not in pytest_on(tmp_path, "test_modes.py", text, "-k", "another").stdout


def test_a_line_stays_as_it_was_when_a_test_fails(tmp_path):
    kept = tmp_path / "tests.txt"
    kept.write_text("earlier")
    result = pytest_on(tmp_path, "test_modes.py", MODES.replace("WRONG", "'02_b'"), f"--keep={kept}")
    assert result.returncode == 1
    assert kept.read_text() == "earlier"
    assert "is as it was" in result.stdout
