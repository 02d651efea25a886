"""What a run of the tests comes to, on a line just before pytest's own."""

import os
import re
from pathlib import Path

import pytest
from cases import CASES


def matches(test, nodeid):
    """Whether a test that cases.py names is, or includes, the one that ran."""
    return nodeid == test or nodeid.startswith(f"{test}[")


def held(outcomes):
    """The cases whose tests have all run and none of them failed; some may be for another device."""
    return [case for case, tests in CASES.items()
            if all("passed" in (found := {outcome for nodeid, outcome in outcomes if matches(test, nodeid)})
                   and "failed" not in found for test in tests)]


def summary(outcomes, whole=True):
    """The line, from pairs of a test's name and what became of it. Of a run that is not the whole it
    says only what was tried, and nothing if that is none of what it counts."""
    passed = [nodeid for nodeid, outcome in outcomes if outcome == "passed"]
    ran = [re.fullmatch(r"test_modes\.py::\w+\[(\d\d_\w+)-(.*)\]", nodeid) for nodeid in passed]
    chapters = {match[1] for match in ran if match}
    modes = {match[2] for match in ran if match}
    mistakes = sum(nodeid.startswith(("test_mistakes.py::test_a_mistake_is_caught",
                                      "test_mistakes.py::test_a_mistake_of_timing_is_caught")) for nodeid in passed)
    cases = len(held(outcomes))
    device = os.environ.get("DEVICE") or "cpu"
    if not whole and not (modes or mistakes or cases):
        return ""
    return (f"{'' if whole else 'of the tests that were selected: '}"
            f"{len(chapters)} chapters x {device} x {len(modes)} modes ({', '.join(sorted(modes))}), "
            f"{mistakes} mistakes caught, {cases}{f' of {len(CASES)}' if whole else ''} cases held")


def pytest_addoption(parser):
    parser.addoption("--keep", metavar="FILE", type=Path,
                     help="write the line that this run comes to into FILE, if all tests pass")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    yield                                  # first what others have to say
    outcomes = [(report.nodeid.removeprefix("tests/"), "passed" if outcome == "passed" else "failed")
                for outcome in ("passed", "failed", "error") for report in terminalreporter.stats.get(outcome, [])]
    selected = config.option.keyword or config.option.markexpr or any(".py" in word for word in config.args)
    line = summary(outcomes, whole=not selected)
    file = None if hasattr(config, "workerinput") else config.getoption("keep")   # a worker has seen a part
    if file and any(outcome == "failed" for _, outcome in outcomes):
        terminalreporter.write_line(f"{file} is as it was, since tests failed")
    elif file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{line}\n", encoding="utf-8")
    if line:
        terminalreporter.write_line(line)
