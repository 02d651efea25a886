#!/usr/bin/env python3
"""Draws every picture of the book from plots/results/, and from nothing else."""

import argparse
import re
import sys
from pathlib import Path

import catalogue
import drawing
import results_reader as reader

PICTURES = reader.REPOSITORY / "plots" / "pictures"


def pinned_version():
    requirements = (reader.REPOSITORY / "requirements.txt").read_text(encoding="utf-8")
    match = re.search(r"^matplotlib==([\w.]+)", requirements, re.MULTILINE)
    return match and match.group(1)


def complain(text):
    print(f"plot.py: {text}", file=sys.stderr)


def draw_machine(matplotlib, machine, results, folder):
    """Draws what there is of a machine. Returns the number of pictures, and of unusable files."""
    bad = []
    drawn = 0
    for path in sorted((results / machine).glob("*.json")):
        if path.name.removesuffix(".json").removesuffix(".torch") not in catalogue.PICTURES:
            complain(f"{path}: no picture is made of this file")
    for chapter in catalogue.PICTURES:
        for picture, data, current in catalogue.drawable(machine, chapter, results, bad):
            target = folder / machine / catalogue.file_name(chapter, picture)
            reader.write_whole(target, drawing.svg_of(matplotlib, chapter, picture, data, current))
            drawn += 1
            if not current:
                complain(f"{target}: out of date, and marked so: {chapter[3:]}.cu has changed")
    for message in bad:
        complain(f"{message}; left out")
    print(f"{drawn} pictures in {folder / machine}")
    return drawn, len(bad)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("machines", nargs="*", metavar="MACHINE",
                        help="a folder in plots/results (default: every one)")
    parser.add_argument("--results", type=Path, default=reader.RESULTS)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args(arguments)

    machines = options.machines or sorted(
        path.name for path in options.results.glob("*") if path.is_dir())
    missing = [machine for machine in machines if not (options.results / machine).is_dir()]
    for machine in missing:
        complain(f"there are no results of {machine} in {options.results}")
    if missing or not machines:
        complain("`make bench` makes results")
        return 1
    try:
        matplotlib = drawing.import_matplotlib()
    except drawing.NoMatplotlib as error:
        complain(error)
        return 1
    if matplotlib.__version__ != pinned_version():
        complain(f"drawn with matplotlib {matplotlib.__version__}; the pictures in the repository "
                 f"are from {pinned_version()}, whose bytes differ")

    counts = [draw_machine(matplotlib, machine, options.results, options.pictures)
              for machine in machines]
    if not any(drawn for drawn, _ in counts):
        complain("there was nothing to draw")
        return 1
    return int(any(bad for _, bad in counts))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"plot.py: {error}")
