"""What goes wrong around the programs: no room on a disk or a device, an interrupt, damaged files,
odd names. Each is said in words, and nothing that was there before is lost.

A file `….part` that leads to /dev/full stands for a disk that is full just then, and one that is a
pipe nobody reads from holds a program fast while it writes.
"""

import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import DEVICE, QUICK, REPOSITORY, chapter_with, mutate, run
from test_book import copy, files_of, weave_in  # noqa: F401
from test_makefile import (FAILS, PASSES, assert_old_results, chapter_with_rows,
                           google_benchmark, last_line, old_results, tree)  # noqa: F401


# ---- no memory ----------------------------------------------------------------------------------

@pytest.mark.skipif(DEVICE != "cpu", reason="CUDA itself wants more addresses than that")
def test_a_limit_of_memory_that_no_program_asks_about(build_program):
    program = build_program(REPOSITORY / "03_thread_hierarchy" / "thread_hierarchy.cu")
    result = run(["sh", "-c", 'ulimit -v 400000; exec "$0" 100000000', program])
    assert (result.returncode, result.stdout.splitlines()[-1]) == (1, "FAIL: there is no host memory left")


# ---- no room on the disk ------------------------------------------------------------------------

def test_bench_where_no_file_may_grow(google_benchmark, tree):  # noqa: F811
    """A limit of the shell, of 512 bytes a file, comes nearest to a full disk. The library does
    not notice, and ends with exit code 0."""
    chapter_with_rows(tree)
    old_results(tree)
    assert tree.make("build", "build/cpu/01_a_bench", timeout=120).returncode == 0
    result = run(["sh", "-c", "trap '' XFSZ; ulimit -f 1; exec sh make/bench 01_a"], cwd=tree.root,
                 env={"DEVICE": "cpu", "BUILD": "build", "FLAGS": "", "machine": "box"})
    assert result.returncode == 1
    assert "cpu_one_thread/2/" in result.stdout
    assert ("01_a: the results are not whole (no space left?); plots/results/box/01_a.json is as "
            "it was") in result.stderr
    assert_old_results(tree)


def test_bench_where_the_results_find_no_room(google_benchmark, tree):  # noqa: F811
    chapter_with_rows(tree)
    old_results(tree)
    tree.results("01_a.json.part").symlink_to("/dev/full")
    result = tree.make("bench", "MACHINE=box", timeout=120)
    assert result.returncode != 0
    assert "01_a: cannot write in plots/results/box" in result.stderr
    assert last_line(result) == "0 passed, 1 failed, 0 skipped"
    assert_old_results(tree)


def test_setup_where_no_file_may_grow():
    """What cannot be built for want of room is not called a missing library, and nothing is installed."""
    result = run(["sh", "-c", "trap '' XFSZ; ulimit -f 1; exec make/setup benchmark-library"],
                 cwd=REPOSITORY)
    assert result.returncode == 1
    assert re.search(r"cannot build a program of one line in /\S+\.$", result.stderr)
    assert "is missing" not in result.stderr


@pytest.mark.parametrize("name", ["01_a.txt", "01_a.txt.sha256"])
def test_record_where_there_is_no_room(tree, name):  # noqa: F811
    """The text may be new and its hash old, which then looks out of date. Never the reverse."""
    tree.chapters(PASSES)
    tree.results("").mkdir(parents=True)
    for earlier in ("01_a.txt", "01_a.txt.sha256"):
        tree.results(earlier).write_text("earlier")
    tree.results(f"{name}.part").symlink_to("/dev/full")
    result = tree.make("run", "MACHINE=box", "RECORD=1")
    assert result.returncode != 0
    assert last_line(result) == "0 passed, 1 failed, 0 skipped"
    assert tree.results(name).read_text() == "earlier"
    assert tree.results("01_a.txt.sha256").read_text() == "earlier"


def test_a_program_that_cannot_be_built_for_want_of_room(tree):  # noqa: F811
    """The program of before is not taken for the new one."""
    tree.chapters(PASSES)
    assert tree.make("run").returncode == 0
    time.sleep(0.02)
    tree.chapters(FAILS)
    result = run(["env", "-i", *(f"{k}={v}" for k, v in tree.environment().items()), "sh", "-c",
                  "trap '' XFSZ; ulimit -f 1; exec make run"], cwd=tree.root)
    assert result.returncode != 0
    assert "01_a: not built" in result.stderr
    assert last_line(result) == "0 passed, 1 failed, 0 skipped"


# ---- pictures and pages -------------------------------------------------------------------------

@pytest.fixture
def whole(copy):  # noqa: F811
    """A copy of the repository in which `make book` and `make plots` work, and their Python."""
    for name in ("Makefile", "make", "requirements.txt", "README.md"):
        target = copy / name
        (shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy)(REPOSITORY / name, target)
    (copy / "bin").mkdir()
    (copy / "bin" / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (copy / "bin" / "python3").chmod(0o755)
    return copy


WRITES = {
    "book": "03_thread_hierarchy/README.md",
    "plots": "plots/pictures/h200/03_thread_hierarchy_rate.svg",
}


def need_what_writes(goal):
    if goal == "plots":
        pytest.importorskip("matplotlib", reason="not run: no matplotlib here")


def old_page(folder, goal):
    page = folder / WRITES[goal]
    page.write_text("earlier")
    return page, page.with_name(page.name + ".part")


def make_in(folder, goal):
    return ["env", "-u", "BUILD", f"PATH={folder / 'bin'}:{os.environ['PATH']}", "DEVICE=cpu", "make",
            goal, "MACHINE=h200"]


@pytest.mark.parametrize("goal", WRITES)
def test_a_page_for_which_there_is_no_room(whole, goal):
    need_what_writes(goal)
    page, aside = old_page(whole, goal)
    aside.symlink_to("/dev/full")
    result = run(make_in(whole, goal), cwd=whole)
    assert result.returncode != 0
    assert re.search(rf"^\S+\.py: .*No space left on device: '{re.escape(str(page))}'$",
                     result.stderr, re.M), result.stderr
    assert "Traceback" not in result.stderr
    assert page.read_text() == "earlier" and not aside.is_symlink()
    assert run(make_in(whole, goal), cwd=whole).returncode == 0      # once there is room
    assert page.read_bytes() == (REPOSITORY / WRITES[goal]).read_bytes()


@pytest.mark.parametrize("goal", WRITES)
def test_an_interrupted_page_is_as_it_was(whole, goal):
    need_what_writes(goal)
    page, aside = old_page(whole, goal)
    os.mkfifo(aside)
    reader = os.open(aside, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)       # less than a page
    with subprocess.Popen(make_in(whole, goal), cwd=whole, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            assert select.select([reader], [], [], 60)[0], "nothing was written"
            os.killpg(process.pid, signal.SIGINT)
            os.close(reader)
            assert process.wait(timeout=20) == -signal.SIGINT
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    limit = time.monotonic() + 20
    while aside.exists() and time.monotonic() < limit:
        time.sleep(0.05)                # make does not wait for what its shell started
    assert page.read_text() == "earlier"
    assert not list(whole.rglob("*.part"))


# ---- damaged and foreign files ------------------------------------------------------------------

def without_fingerprint(text):
    document = json.loads(text)
    for name in ("gpu", "driver", "toolkit"):
        del document["context"][name]
    return json.dumps(document)


@pytest.mark.parametrize("name, damage, words", [
    ("03_thread_hierarchy.json", lambda text: text[:1000], "damaged"),
    ("03_thread_hierarchy.json", lambda text: "", "damaged"),
    ("03_thread_hierarchy.json", lambda text: "[1, 2]", "not as Google Benchmark writes it"),
    ("03_thread_hierarchy.json", without_fingerprint, "does not say gpu, driver, toolkit"),
    ("03_thread_hierarchy.torch.json", lambda text: "{", "damaged"),
    ("04_matrix_2d_3d.accesses.csv", lambda text: text[:200], "not the whole output"),
    ("03_thread_hierarchy.txt", lambda text: "\udcff\udcfe", "not readable"),
])
def test_a_book_of_damaged_results(copy, name, damage, words):  # noqa: F811
    """All pages stay as they are: one that lacks its figures would look as if there were none."""
    path = copy / "plots" / "results" / "h200" / name
    path.write_text(damage(path.read_text()), errors="surrogateescape")
    assert weave_in(copy, "--check").returncode == 1
    before = files_of(copy)
    result = weave_in(copy)
    assert result.returncode == 1
    assert result.stderr.startswith(f"weave.py: {path}: ") and words in result.stderr
    assert "Traceback" not in result.stderr
    assert files_of(copy) == before


# ---- names --------------------------------------------------------------------------------------

def test_a_folder_with_any_name(google_benchmark, tree):  # noqa: F811
    """Spaces, an apostrophe and letters of other languages, where the language is not known."""
    odd = tree.root.with_name("d'été, 한국 & Übung")
    tree.root.rename(odd)
    tree.root = odd
    chapter_with_rows(tree)
    env = {"LC_ALL": "C", "HOME": str(odd / "home")}
    for goals in (["run", "RECORD=1"], ["bench"], ["sanitize"], ["info"]):
        result = tree.make(*goals, "MACHINE=box", timeout=120, **env)
        assert result.returncode == 0, result.stdout + result.stderr
    assert {path.name for path in tree.results("").iterdir()} == {
        "01_a.json", "01_a.txt", "01_a.txt.sha256"}


def test_pages_and_pictures_in_a_folder_with_any_name(whole):
    odd = whole.with_name("d'été, 한국 & Übung")
    whole.rename(odd)
    (odd / "bin" / "python3").chmod(0o755)
    for goal in WRITES:
        need_what_writes(goal)
        page, _ = old_page(odd, goal)
        result = run(make_in(odd, goal), cwd=odd, env={"LC_ALL": "C"})
        assert result.returncode == 0, result.stderr
        assert page.read_bytes() == (REPOSITORY / WRITES[goal]).read_bytes()


# ---- no room on the device ----------------------------------------------------------------------

@pytest.mark.parametrize("number", ["03", "05"])
def test_rows_that_the_device_has_no_room_for(number, google_benchmark, build_program,  # noqa: F811
                                              monkeypatch):
    """They are left out by name, and the smaller ones are timed."""
    if DEVICE != "cpu":
        pytest.skip("the CPU device's memory can be made small")
    chapter = chapter_with(number)
    source = mutate(chapter, "largest = 1 << 28;", "largest = 1 << 19;")
    monkeypatch.setenv("LDLIBS", "-lbenchmark")
    bench = build_program(source, name="small", flags=(*QUICK, "-DBENCHMARKS"))
    result = run([bench, "--benchmark_filter=^gpu_float4/", "--benchmark_format=json"],
                 env={"CPU_DEVICE_MEMORY": "2000000"}, timeout=120)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["benchmarks"]
    size = {row["name"]: int(row["name"].split("/")[1]) for row in rows}
    left_out = {row["name"]: row["error_message"] for row in rows if row.get("error_occurred")}
    assert left_out and all("no room" in message for message in left_out.values())
    assert max(size[name] for name in size if name not in left_out) < min(map(size.get, left_out))
