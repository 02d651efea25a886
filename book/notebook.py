"""The same pieces as a notebook: each code cell writes its part, one joins the parts and builds."""

import json
from pathlib import Path

BOOK = Path(__file__).resolve().parent
HIDDEN = {"cellView": "form", "jupyter": {"source_hidden": True}}
WHICH_GPU = (BOOK / "which_gpu.py").read_text(encoding="utf-8")


def badge(repository, notebook):
    """A link that opens a notebook in Colab; nothing where the repository has no address."""
    if not repository:
        return ""
    return ("[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
            f"(https://colab.research.google.com/github/{repository}/blob/main/{notebook})")


def cell(kind, text, metadata=None):
    made = {"cell_type": kind, "metadata": metadata or {},
            "source": text.strip("\n").splitlines(keepends=True)}
    return made if kind == "markdown" else {**made, "execution_count": None, "outputs": []}


def document(cells):
    """The bytes of a notebook. The ids of its cells are their numbers, so that they repeat."""
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number:03}"
    return json.dumps({
        "cells": cells,
        "metadata": {
            "accelerator": "GPU",
            "colab": {"gpuType": "T4", "provenance": []},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def start(repository, chapter):
    colab = badge(repository, f"{chapter}/{chapter[3:]}.ipynb") or (
        "In Colab (colab.research.google.com): *File → Upload notebook*, and choose this file.")
    return f"""{colab}

Run the cells from top to bottom, or all of them (in Colab: *Runtime → Run all*). Each piece of the
program is a cell that writes it to a file; the cells under *Build and run*, at the end, join the
files, build, and run. After a change run the changed cell again, and then those. The pictures are
in the chapter's README.md."""


# The first cell goes to a folder of its own. Where it has not been run, {name}.cu may be the chapter.
BUILD = """
from glob import glob

ready = "arch" in globals() and len(glob("part_*.cu")) == {count}
if ready:
    !rm -f {name}; cat part_*.cu >{name}.cu
if not ready:
    print("Not built: run the cells above first, all of them, from the top.")
elif arch:
    !nvcc -arch={arch} {name}.cu -o {name} && echo "built for {arch}"
elif cpu_device:
    !"{cpu_device}" --build -o {name} {name}.cu && echo "built for the CPU device"
else:
    print("Not built: there is no GPU here, and no CPU device.")
"""

RUN = """
import os

if os.path.exists("{name}"):
    !./{name}{arguments}
else:
    print("There is no program to run: the cell that builds it built none.")
"""

BENCH = """
if not globals().get("ready"):
    print("Not timed: run the cells above first, all of them, from the top.")
elif arch:
    if not os.path.exists("/usr/include/benchmark/benchmark.h"):
        !apt-get -qq update && apt-get -qq install -y libbenchmark-dev
    !nvcc -O3 -std=c++17 -arch={arch} -DBENCHMARKS -Xcompiler -fopenmp {name}.cu \\
        -o {name}_bench {libraries} && ./{name}_bench
else:
    print("Not timed: there is no GPU here.")
"""


def filled(text, name, **more):
    """Puts in what is known here. What the notebook itself finds out stays as it is."""
    for key, value in {"name": name, **more}.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def of_chapter(chapter, pieces, data_files, repository, is_folded):
    name = chapter[3:]
    codes = [text for kind, text in pieces if kind not in ("prose", "generated", "page")]
    width = len(str(len(codes)))
    cells, prose, number = [], [], 0

    def flush():
        if any(prose):
            cells.append(cell("markdown", "\n\n".join(filter(None, prose))))
        prose.clear()

    for kind, text in pieces:
        if kind in ("prose", "generated"):
            prose.append(text)
        elif kind != "page":                # what is of no use where there is this file alone
            if not number:
                flush()
                cells.append(cell("markdown", start(repository, chapter)))
                cells.append(cell("code", WHICH_GPU, HIDDEN))
            flush()
            cells.append(cell("code", f"%%writefile part_{number:0{width}}.cu\n{text}",
                              HIDDEN if is_folded(chapter, kind, text) else None))
            number += 1
    flush()

    cells.append(cell("markdown", "## Build and run"))
    cells.append(cell("code", filled(BUILD, name, count=str(number))))
    cells.append(cell("code", filled(RUN, name, arguments="")))
    for data in data_files:
        cells.append(cell("code", f"%%writefile {data.name}\n" + data.read_text(encoding="utf-8"),
                          HIDDEN))
        cells.append(cell("code", filled(RUN, name, arguments=f" {data.stem} {data.name}")))
    cells.append(cell("markdown", "The benchmarks, which take a minute or a few:"))
    libraries = "-lbenchmark -lpthread" + (" -lcublas" if "<cublas_v2.h>" in "".join(codes) else "")
    cells.append(cell("code", filled(BENCH, name, libraries=libraries)))
    return document(cells)


def of_book(repository):
    """All chapters, from the repository itself. There is none before it has an address."""
    name = repository.partition("/")[2].removesuffix(".git")
    return document([
        cell("markdown", f"""# CUDA, from one thread to a neural layer

{badge(repository, "book/book.ipynb")}

This notebook fetches the whole tutorial, builds every chapter and runs it, on the GPU where there
is one, else on the CPU device. The chapters have notebooks of their own."""),
        cell("code", WHICH_GPU, HIDDEN),
        cell("code", f"!git clone --depth 1 https://github.com/{repository}\n%cd {name}"),
        cell("code", "!make info"),
        cell("code", "!make run"),
        cell("markdown", "The benchmarks of one chapter, and what they measured here:"),
        cell("code", "!make bench-03\n!ls plots/results"),
    ])
