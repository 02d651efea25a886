"""Each mistake in defects/ is named by its tool; no tool complains once it is mended."""

import os
import re
import shutil
from pathlib import Path

import mistakes
import pytest
from conftest import REPOSITORY, not_run
from mistakes import PLAIN

MENDED = Path(os.environ.get("BUILD") or REPOSITORY / "build") / "tests" / "mended"
DEFECTS = [mistakes.read(path) for path in mistakes.DEFECTS]
TOOLS = [(PLAIN,), (PLAIN, "--order=reverse"), (PLAIN, "--order=random:7"), ("--asan",),
         ("--tsan",), ("--lint",)]

each_defect = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.path.stem)


@pytest.fixture(scope="module")
def observed():
    """What the plain run and the tool print for a defect; each runs once."""
    seen = {}

    def observe(defect):
        if defect.tool == "--lint" and not shutil.which("clang++"):
            not_run("no clang++ here")
        if defect.path not in seen:
            seen[defect.path] = mistakes.observe(defect)
        return seen[defect.path]

    return observe


@each_defect
def test_defect_is_named(defect, observed):
    _, (status, output) = observed(defect)
    assert (status == 0) == (defect.tool == PLAIN and defect.sees == "PASS"), output
    assert re.search(defect.message, output, re.DOTALL), output
    if defect.line:
        assert re.search(rf"{re.escape(defect.path.name)}:{defect.line}\b"
                         rf"|\bline {defect.line}\b", output), output


@each_defect
def test_defect_is_seen(defect, observed):
    (status, output), _ = observed(defect)
    if defect.sees:
        assert (status == 0) == (defect.sees == "PASS"), output
        assert re.search(defect.sees, output), output


@each_defect
@pytest.mark.parametrize("tool", TOOLS, ids=" ".join)
def test_no_report_once_mended(defect, tool):
    if tool == ("--lint",) and not shutil.which("clang++"):
        not_run("no clang++ here")
    # Always in the same folder, where cpu_device/run finds what it has built before.
    MENDED.mkdir(parents=True, exist_ok=True)
    shutil.copy(mistakes.HERE / "defects" / "check.h", MENDED)
    mended = MENDED / defect.path.name
    mended.write_text(defect.corrected, encoding="utf-8")
    status, output = mistakes.run(tool[0], mended, *tool[1:])
    assert status == 0, output
    assert output == ("" if tool == ("--lint",) else "PASS\n")


def test_table_is_what_a_run_shows(observed):
    rows = [mistakes.row(defect, *(output for _, output in observed(defect)))
            for defect in DEFECTS]
    assert mistakes.TABLE.read_text(encoding="utf-8") == mistakes.table(rows)
