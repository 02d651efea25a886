"""Each mistake in defects/ is named by its tool; no tool complains once it is mended."""

import json
import re
import shutil

import mistakes
import pytest
from conftest import BUILD, FULL, not_run, write_source
from mistakes import PLAIN

MENDED = BUILD / "tests" / "mended"
DEFECTS = [mistakes.read(path) for path in mistakes.DEFECTS]
TOOLS = [(PLAIN,), (PLAIN, "--order=reverse"), (PLAIN, "--order=random:7"), ("--asan",),
         ("--tsan",), ("--lint",)]

each_defect = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.path.stem)


@pytest.fixture(scope="module")
def observed(once):
    """What the plain run and the tool print for a defect; each runs once."""
    def observe(defect):
        if defect.tool == "--lint" and not shutil.which("clang++"):
            not_run("no clang++ here")

        def make(folder):
            (folder / "seen").write_text(json.dumps(mistakes.observe(defect)), encoding="utf-8")
        return json.loads((once(defect, make) / "seen").read_text(encoding="utf-8"))

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


@pytest.mark.parametrize("defect, tool", [
    pytest.param(defect, tool, id=f"{defect.path.stem}-{' '.join(tool)}")
    for defect in DEFECTS for tool in TOOLS if FULL or tool == (defect.tool,)])
def test_no_report_once_mended(defect, tool):
    if tool == ("--lint",) and not shutil.which("clang++"):
        not_run("no clang++ here")
    check = mistakes.HERE / "defects" / "check.h"
    write_source(MENDED / check.name, check.read_text(encoding="utf-8"))
    mended = MENDED / defect.path.name
    write_source(mended, defect.corrected)
    status, output = mistakes.run(tool[0], mended, *tool[1:])
    assert status == 0, output
    assert output == ("" if tool == ("--lint",) else "PASS\n")


def test_table_is_what_a_run_shows(observed):
    rows = [mistakes.row(defect, *(output for _, output in observed(defect)))
            for defect in DEFECTS]
    assert mistakes.TABLE.read_text(encoding="utf-8") == mistakes.table(rows)
