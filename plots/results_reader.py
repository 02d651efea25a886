"""Reads what `make bench` recorded, and keeps what is made of it. Standard library alone, so that
the book can use it too."""

from __future__ import annotations

import json
import math
import re
import statistics
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "plots" / "results"

SECTOR = 32                     # bytes: what memory answers with

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

# What Google Benchmark itself adds to a row's name.
SUFFIXES = ("min_time:", "min_warmup_time:", "iterations:", "repeats:", "threads:")
CLOCKS = ("manual_time", "real_time", "process_time")

# Numbers in a row's name that say how it is launched, not how large its problem is.
SETTINGS = ("block",)

# What every row has; whatever else is a number is one of the program's own counters.
FIXED = {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads",
         "iterations", "real_time", "cpu_time", "bytes_per_second", "items_per_second"}


class BadResults(Exception):
    """A file that cannot be used. The message names it and says why."""


def write_whole(path, text):
    """Beside it first, then in its place: whatever interrupts us, a file is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    try:
        aside.write_text(text, encoding="utf-8", newline="\n")
        aside.replace(path)
    except OSError as error:            # no space left, say
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        aside.unlink(missing_ok=True)


@dataclass(frozen=True)
class Row:
    """One row of a benchmark at one size: the median of its repetitions, and their extremes."""
    name: str                   # gpu_float4, without sizes and suffixes
    sizes: tuple                # (268435456,), or (rows, cols), …
    named: dict                 # the sizes that have a name, by that name
    seconds: float
    fastest: float
    slowest: float
    repetitions: int
    bytes_per_second: float | None = None
    items_per_second: float | None = None
    counters: dict = field(default_factory=dict)

    @property
    def elements(self):
        settings = (value for key, value in self.named.items() if key in SETTINGS)
        return math.prod(self.sizes) // math.prod(settings)

    @property
    def bytes(self):
        """What one iteration moves, as the program counts it."""
        return self.bytes_per_second * self.seconds if self.bytes_per_second else None

    @property
    def flop(self):
        """The floating-point operations of one iteration: a program that counts items counts these."""
        return self.items_per_second * self.seconds if self.items_per_second else None


@dataclass(frozen=True)
class Results:
    context: dict
    rows: list
    skipped: dict               # full name of a row -> why its program left it out

    def named(self, name):
        """The rows of that name, smallest first."""
        return sorted((row for row in self.rows if row.name == name),
                      key=lambda row: (row.elements, row.sizes))

    def best(self, name):
        """Of the rows name<…>, or of that name, the fastest at each size."""
        best = {}
        for row in self.rows:
            if row.name.partition("<")[0] == name:
                if row.sizes not in best or row.seconds < best[row.sizes].seconds:
                    best[row.sizes] = row
        return sorted(best.values(), key=lambda row: (row.elements, row.sizes))

    @property
    def has_gpu(self):
        return any(not row.name.startswith("cpu_") for row in self.rows)


def split_name(full):
    """`gpu_add/rows:3/4/manual_time` -> ("gpu_add", (3, 4), {"rows": 3})."""
    name, sizes, named = [], [], {}
    for part in full.split("/"):
        key, colon, value = part.rpartition(":")
        if part in CLOCKS or part.startswith(SUFFIXES):
            continue
        if value.isascii() and value.isdigit():
            sizes.append(int(value))
            if colon:
                named[key] = int(value)
        else:
            name.append(part)
    return "/".join(name), tuple(sizes), named


def read(path):
    """The results in one file of Google Benchmark's format."""
    path = Path(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadResults(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadResults(f"{path}: damaged, or no JSON: {error}") from error
    try:
        context, entries = document["context"], document["benchmarks"]
        runs, skipped = {}, {}
        for entry in entries:
            if entry.get("run_type", "iteration") != "iteration":
                continue
            full = entry["name"]
            if entry.get("error_occurred") or entry.get("skipped"):
                skipped[full] = entry.get("error_message") or entry.get("skip_message") or "?"
            else:
                runs.setdefault(full, []).append(entry)
        rows = [summary(full, entries) for full, entries in runs.items() if full not in skipped]
        context = dict(context)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadResults(f"{path}: not as Google Benchmark writes it: {error!r}") from error
    if not rows:
        raise BadResults(f"{path}: holds no timed row")
    return Results(context, rows, skipped)


def summary(full, runs):
    """One Row from the repetitions of one benchmark."""
    def numbers(key):
        found = [run[key] for run in runs if key in run]
        if any(isinstance(value, bool) or not math.isfinite(value) for value in found):
            raise ValueError(f"{full}: {key} is no number")
        return found

    times = [time * SECONDS[run["time_unit"]] for time, run in zip(numbers("real_time"), runs)]
    if len(times) < len(runs) or min(times) <= 0:
        raise ValueError(f"{full}: a time that is not above zero")
    bytes_rates, items_rates = numbers("bytes_per_second"), numbers("items_per_second")
    if min(bytes_rates + items_rates, default=1) <= 0:
        raise ValueError(f"{full}: a rate that is not above zero")
    counters = {key: statistics.median(numbers(key)) for key, value in runs[0].items()
                if key not in FIXED and isinstance(value, (int, float))}
    return Row(*split_name(full), statistics.median(times), min(times), max(times), len(times),
               statistics.median(bytes_rates) if bytes_rates else None,
               statistics.median(items_rates) if items_rates else None, counters)


def results_file(machine, chapter, results=RESULTS):
    """The file of a chapter; with `.torch` after its name, the file of PyTorch's figures."""
    return Path(results) / machine / f"{chapter}.json"


def load(machine, chapter, results=RESULTS, bad=None):
    """A chapter's results and PyTorch's, as one; None where the chapter has not been timed.

    The context is the chapter's. PyTorch's own stands in it under "torch". A file that cannot be
    used is an error, or, given a list `bad`, left out and added to it.
    """
    own = read_or_note(results_file(machine, chapter, results), bad)

    def read_peers(path):
        peers = read(path)
        if own and own.context.get("gpu") and peers.context.get("gpu") != own.context["gpu"]:
            raise BadResults(f"{path}: from {peers.context.get('gpu')}, but the chapter's results "
                             f"are from {own.context['gpu']}")
        return peers

    peers = read_or_note(results_file(machine, f"{chapter}.torch", results), bad, read_peers)
    if own is None:
        return None
    if peers is None:
        peers = Results({}, [], {})
    return Results({**own.context, "torch": peers.context}, own.rows + peers.rows,
                   {**own.skipped, **peers.skipped})


def read_or_note(path, bad, how=read):
    """What `how` reads from a file; None where there is no such file."""
    if not path.exists():
        return None
    try:
        return how(path)
    except BadResults as error:
        if bad is None:
            raise
        bad.append(str(error))
        return None


# ---- which thread touches what ------------------------------------------------------------------

def read_accesses(path):
    """{mapping: [(lane, address)]} from the lines `mapping,lane,address,sector` of a program."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadResults(f"{path}: not readable: {error}") from error
    if lines[:1] != ["mapping,lane,address,sector"] or lines[-2:] != ["PASS", ""]:
        raise BadResults(f"{path}: not the whole output of an `accesses` run")
    found = {}
    for number, line in enumerate(lines[1:-2], start=2):
        mapping, _, values = line.partition(",")
        match = re.fullmatch(r"(\d+),(\d+),(\d+)", values, re.ASCII)
        lane, address, sector = map(int, match.groups()) if match else (0, 0, -1)
        if sector != address // SECTOR:
            raise BadResults(f"{path}: line {number}: not mapping,lane,address,sector: {line}")
        found.setdefault(mapping, []).append((lane, address))
    return found


def accesses_file(machine, chapter, results=RESULTS):
    return Path(results) / machine / f"{chapter}.accesses.csv"


# ---- is it still true? --------------------------------------------------------------------------

@lru_cache(maxsize=None)
def source_hash(chapter, part="--timed"):
    """The hash of a chapter's program as it stands now: of what its rows time, or all of it."""
    source = REPOSITORY / chapter / f"{chapter[3:]}.cu"
    if not source.is_file():
        return None
    return subprocess.run(["sh", REPOSITORY / "plots" / "source_hash", source, part], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


def is_current(machine, chapter, results=RESULTS):
    """Whether the program is still the one that was timed on that machine."""
    loaded = load(machine, chapter, results)
    return loaded is not None and times_this_program(loaded, chapter)


def times_this_program(loaded, chapter):
    recorded = loaded.context.get("source_sha256")
    return recorded is not None and recorded == source_hash(chapter)


def is_output_of_this_program(path, chapter):
    """The same for a program's output, which has the hash of the program in a file beside it."""
    beside = Path(f"{path}.sha256")
    return beside.is_file() and (
        beside.read_text(encoding="utf-8", errors="replace").strip() ==
        source_hash(chapter, "--program"))


# ---- who wins? ----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Crossover:
    """From which size on the GPU is faster than the CPU, among the sizes that both were timed at.

    `wins`: "always" (at every size), "from" (at `size` and up) or "never" (not at the largest).
    `size` is where the two lines cross, each drawn straight between measured sizes on logarithmic
    axes; `measured` is the first measured size from which on the GPU wins.
    """
    wins: str
    size: float | None = None
    measured: int | None = None
    ahead_before: bool = False  # "never", and yet faster at some smaller size

    def when(self, in_words=lambda size: f"{about(size)} elements"):
        """The end of a sentence that begins "The GPU is faster than the CPU"."""
        if self.wins == "always":
            return "at every size measured"
        if self.wins == "from":
            return f"from about {in_words(self.size)} on"
        if self.ahead_before:
            return "at some sizes, but not at the largest"
        return "at no size measured"


def crossover(cpu_rows, gpu_rows, size=lambda row: row.elements):
    """The Crossover of two rows, or None where they have no size in common.

    `size` tells how large a row's problem is, or None for one that does not count.
    """
    cpu = {row.sizes: row for row in cpu_rows}
    pairs = sorted(((size(row), cpu[row.sizes].seconds, row.seconds)
                    for row in gpu_rows if row.sizes in cpu and size(row) is not None))
    if not pairs:
        return None
    lost = [i for i, (_, cpu_time, gpu_time) in enumerate(pairs) if not gpu_time < cpu_time]
    if not lost:
        return Crossover("always")
    last = lost[-1]
    if last == len(pairs) - 1:
        return Crossover("never", ahead_before=len(lost) < len(pairs))
    (n0, cpu0, gpu0), (n1, cpu1, gpu1) = pairs[last:last + 2]
    behind, ahead = math.log(gpu0 / cpu0), math.log(cpu1 / gpu1)
    size = n0 * (n1 / n0) ** (behind / (behind + ahead))
    return Crossover("from", size=size, measured=n1)


def about(number):
    """A number to two significant digits: 980, 12,000, 3.4 million."""
    number = float(f"{number:.2g}")
    for limit, word in ((1e9, " billion"), (1e6, " million")):
        if number >= limit:
            return f"{number / limit:g}{word}"
    return f"{number:,.0f}"


def exactly(number):
    """A whole number: 2²⁸ for a power of two, else with all its digits."""
    power = number.bit_length() - 1
    if number != 1 << power:
        return f"{number:,}"
    return "2" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))
