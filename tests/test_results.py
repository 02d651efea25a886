"""What has been measured and is committed can be true."""

import json
import math
import re
import sys

import pytest
from cases import CASES
from conftest import CHAPTERS, REPOSITORY

sys.path[:0] = [str(REPOSITORY / "plots"), str(REPOSITORY / "tests" / "mistakes")]
import results_reader as reader  # noqa: E402
from table import CLOCK, MISTAKES, UNDEFINED, UNNOTICED  # noqa: E402

RESULTS = {f"{path.parent.name} {path.stem}": path for path in sorted(REPOSITORY.glob("plots/results/*/[0-9]*.json"))
           if path.stem.count(".") == 0}
each_result = pytest.mark.parametrize("name", RESULTS)


def rows(name):
    """row -> its repetitions, of those that were not left out."""
    found = {}
    for row in json.loads(RESULTS[name].read_text(encoding="utf-8"))["benchmarks"]:
        if row.get("run_type") == "iteration" and not row.get("error_occurred"):
            found.setdefault(row["name"], []).append(row)
    return found


def seconds(row):
    return row["real_time"] * reader.SECONDS[row["time_unit"]]


@each_result
def test_rows_are_repeated_and_timed_as_they_must_be(name):
    """At least five repetitions of the same batches; kernels timed by events, and copies by the clock."""
    for row, repetitions in rows(name).items():
        assert len(repetitions) >= 5, row
        assert len({repetition["iterations"] for repetition in repetitions}) == 1, row
        if row.startswith("gpu_"):
            assert row.endswith("/real_time" if "transfers" in row else "/manual_time"), row
        for repetition in repetitions:
            for counter in ("real_time", "bytes_per_second", "items_per_second"):
                value = repetition.get(counter, 1)
                assert math.isfinite(value) and value > 0, f"{row}: {counter}"


@each_result
def test_a_kernel_takes_the_same_time_each_time(name):
    for row, repetitions in rows(name).items():
        if row.endswith("/manual_time"):
            times = [seconds(repetition) for repetition in repetitions]
            limit = 2 if min(times) < 5e-6 else 1.5     # so short a time is that of the host's launches
            assert max(times) < limit * min(times), row


@each_result
def test_the_loop_of_the_cpu_was_not_optimised_away(name):
    """A row of 64 times the work takes at least 16 times as long, and no core adds a number in a twentieth
    of a nanosecond."""
    sizes = {}
    for row, repetitions in rows(name).items():
        kind, *words = row.split("/")
        if kind == "cpu_one_thread":
            numbers = [int(word) for word in words if word.isdigit()]
            work = math.prod(numbers)
            if numbers:
                time = min(map(seconds, repetitions))
                assert time > work * 5e-11, row
                sizes[work] = time
    for small in sizes:
        for large in sizes:
            if large >= 64 * small and sizes[small] > 1e-7:
                assert sizes[large] > 16 * sizes[small], (small, large)


@pytest.mark.parametrize("path", sorted(REPOSITORY.glob("plots/results/*/tests.txt")), ids=lambda path: path.parent.name)
def test_what_the_tests_came_to_is_all_there_is(path, pytestconfig):
    """A chapter, mistake or case that has come or gone since makes the line out of date: `RECORD=1 make test`."""
    keep = pytestconfig.getoption("keep")
    if keep and path.resolve() == keep.resolve():
        return                             # this run writes it
    came_to = re.fullmatch(r"(\d+) chapters x (cpu|gpu) x 5 modes \(.*\), (\d+) mistakes caught, "
                           r"(\d+) of (\d+) cases held\n", path.read_text(encoding="utf-8"))
    chapters, device, mistakes, held, cases = came_to.groups()
    on_gpu = [mistake for mistake in MISTAKES if mistake.on_gpu not in (UNDEFINED, UNNOTICED)]
    assert int(chapters) == len(CHAPTERS)
    assert int(mistakes) == (len(MISTAKES) if device == "cpu" else len(on_gpu) + len(CLOCK))
    assert int(cases) == len(CASES)
    assert device == "gpu" or held == cases
