"""Tests that run side by side: who measures time is alone, and what all need is made once."""

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

@pytest.mark.parametrize("i", range(24))
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


@pytest.mark.parametrize("mark", ["alone", "another"])
def test_nothing_runs_beside_a_test_that_is_alone(tmp_path, mark):
    if not find_spec("xdist"):
        not_run("no pytest-xdist here")
    for name in ("conftest.py", "summary.py", "cases.py"):
        shutil.copy(REPOSITORY / "tests" / name, tmp_path)
    (tmp_path / "test_many.py").write_text(TESTS.replace("mark.alone", f"mark.{mark}"))
    result = run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "4", "--basetemp",
                  tmp_path / "base", tmp_path], env={"PYTEST_XDIST_WORKER": None}, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "28 passed" in result.stdout.splitlines()[-1]
    lines = (tmp_path / "log").read_text().splitlines()
    assert sum(line.startswith("make") for line in lines) == 1
    assert len({line.split()[-1] for line in lines}) == 4 and most_at_once(lines) > 1
    undisturbed = [[line.rsplit(" ", 1)[0] for line in lines[i - 1:i + 3]]
                   == ["begin", "alone", "still alone", "end"]
                   for i, line in enumerate(lines) if line.startswith("alone")]
    assert len(undisturbed) == 4 and all(undisturbed) == (mark == "alone")
