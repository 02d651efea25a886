"""Every case has its tests, and they are there."""

import sys

from cases import CASES
from conftest import REPOSITORY, run
from summary import matches


def test_every_test_that_a_case_names_is_there():
    files = sorted({test.partition("::")[0] for tests in CASES.values() for test in tests})
    result = run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
                  *(REPOSITORY / "tests" / file for file in files)],
                 env={"PYTEST_ADDOPTS": None, "PYTEST_XDIST_WORKER": None}, timeout=120)
    there = [line.removeprefix("tests/") for line in result.stdout.splitlines() if "::" in line]
    missing = [test for tests in CASES.values() for test in tests if not any(matches(test, one) for one in there)]
    assert missing == [], result.stdout[-2000:]
    assert len(CASES) >= 49 and all(CASES.values())
