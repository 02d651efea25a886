"""The pictures: right numbers from the results, the same bytes each time, clear about bad input."""

import json
import math
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from conftest import REPOSITORY, not_run, run

PLOTS = REPOSITORY / "plots"
sys.path.insert(0, str(PLOTS))
import catalogue  # noqa: E402
import peers  # noqa: E402
import plot  # noqa: E402
import results_reader as reader  # noqa: E402

NO_SCREEN = {"DISPLAY": None, "WAYLAND_DISPLAY": None}


# ---- made-up results ----------------------------------------------------------------------------

def row(name, times, moved=None, unit="ns", flop=None, **more):
    """The repetitions of one benchmark, as Google Benchmark writes them; times in `unit`."""
    scale = reader.SECONDS[unit]
    return [{"name": name, "run_name": name, "run_type": "iteration", "repetitions": len(times),
             "repetition_index": i, "threads": 1, "iterations": 10, "real_time": time,
             "cpu_time": time, "time_unit": unit,
             **({"bytes_per_second": moved / (time * scale)} if moved else {}),
             **({"items_per_second": flop / (time * scale)} if flop else {}), **more}
            for i, time in enumerate(times)]


def around(seconds):
    return [1e9 * seconds * factor for factor in (1.02, 1.0, 1.1, 0.99, 1.01)]


def program_hash(chapter, part="--timed"):
    source = REPOSITORY / chapter / f"{chapter[3:]}.cu"
    return run(["sh", PLOTS / "source_hash", source, part]).stdout.strip()


def context_of(chapter, **more):
    return {"date": "2026-11-30T10:00:00+00:00", "gpu": "NVIDIA H200", "l2_bytes": "62914560",
            "cpu": "A CPU", "threads": "16", "source_sha256": program_hash(chapter), **more}


def curve(name, numbers, seconds, bytes_each):
    """A row at several sizes: sizes -> seconds."""
    return [entry for sizes in numbers for entry in
            row(f"{name}/{'/'.join(map(str, sizes))}/min_time:0.100",
                around(seconds(math.prod(sizes))), bytes_each * math.prod(sizes))]


def vector_add_rows(gpu=True):
    powers = [(2**power,) for power in range(4, 19, 2)]
    rows = curve("cpu_one_thread", powers, lambda n: 1e-10 * n, 12)
    if gpu:
        rows += curve("gpu_one_thread", powers, lambda n: 2e-6 + 5e-8 * n, 12)
        rows += curve("gpu_one_block", powers[:4], lambda n: 2e-6, 12)
        rows += curve("gpu_one_block_with_transfers", powers[:4], lambda n: 2e-5, 12)
        rows += curve("gpu_copy_ceiling", powers, lambda n: 2e-6 + 2e-12 * n, 8)
    return rows


def thread_hierarchy_rows():
    powers = [(2**power,) for power in (10, 13, 16, 19, 22, 25, 28)]
    rows = curve("cpu_one_thread", powers, lambda n: 1e-9 * n, 12)
    rows += curve("cpu_all_threads", powers, lambda n: 4e-6 + 1e-10 * n, 12)
    rows += curve("gpu_float4", powers, lambda n: 4e-6 + 3e-12 * n, 12)
    rows += curve("gpu_ceiling<256, 1>", powers, lambda n: 4e-6 + 2.9e-12 * n, 12)
    rows += curve("gpu_ceiling<256, 2>", powers, lambda n: 5e-6 + 2.8e-12 * n, 12)
    rows += curve("gpu_with_transfers_pinned", powers, lambda n: 2e-5 + 2e-10 * n, 12)
    rows += curve("gpu_with_transfers_pageable", powers, lambda n: 2e-5 + 2e-9 * n, 12)
    for block, seconds in ((32, 4e-3), (256, 1e-3)):
        for name in ("gpu_scalar_blocks", "gpu_float4_blocks"):
            rows += row(f"{name}/n:{2**28}/block:{block}/min_time:0.100", around(seconds),
                        12 * 2**28)
    return rows


def product(name, shapes, seconds):
    """A row of matrix products: shape -> seconds, of the whole product's FLOPs."""
    return [entry for m, n, k in shapes for entry in
            row(f"{name}/{m}/{n}/{k}/manual_time", around(seconds(2 * m * n * k)),
                4 * (m * k + k * n + m * n), flop=2 * m * n * k)]


def matmul_rows():
    cubes = [(2**power,) * 3 for power in range(7, 14)]
    odd = [(4095, 4097, 4099)]
    rows = product("cpu_one_thread", cubes[:4], lambda flop: flop / 1e10)
    rows += product("cpu_all_threads", cubes[:5], lambda flop: 1e-5 + flop / 1e11)
    for name, speed in (("gpu_rows_on_x", 5e11), ("gpu_columns_on_x", 5e12), ("gpu_tile<8>", 5e12),
                        ("gpu_tile<16>", 7e12), ("gpu_tile<32>", 1e13), ("gpu_cublas", 5e13)):
        rows += product(name, cubes + odd, lambda flop: 1e-4 + flop / speed)
    rows += product("gpu_with_transfers_pageable", cubes, lambda flop: 1e-3 + flop / 5e12)
    rows += row("gpu_read_ceiling<256,4>/manual_time", around(4 * 2**28 / 4e12), 4 * 2**28)
    rows += row("gpu_fma_ceiling/manual_time", around(1e-3), flop=6e10)
    return rows


def save(folder, chapter, rows, suffix="", **context):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{chapter}{suffix}.json"
    path.write_text(json.dumps({"context": context_of(chapter, **context), "benchmarks": rows}))
    return path


ACCESSES = {"matrix_columns_on_x": 4, "matrix_rows_on_x": 192, "tensor_columns_on_x": 4,
            "tensor_depth_on_x": 7680}


def save_accesses(folder):
    lines = ["mapping,lane,address,sector"]
    for mapping, step in ACCESSES.items():
        lines += [f"{mapping},{lane},{lane * step},{lane * step // 32}" for lane in range(32)]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "04_matrix_2d_3d.accesses.csv"
    path.write_text("\n".join([*lines, "PASS", ""]))
    path.with_name(path.name + ".sha256").write_text(
        program_hash("04_matrix_2d_3d", "--program") + "\n")
    return path


@pytest.fixture
def results(tmp_path):
    """A folder of results with one machine, h200, of chapters 1, 3 and 4."""
    folder = tmp_path / "results"
    save(folder / "h200", "01_vector_add", vector_add_rows())
    save(folder / "h200", "03_thread_hierarchy", thread_hierarchy_rows())
    save_accesses(folder / "h200")
    return folder


ALL_PICTURES = ["01_vector_add_rate.svg", "01_vector_add_time.svg",
                "03_thread_hierarchy_blocks.svg", "03_thread_hierarchy_ladder.svg",
                "03_thread_hierarchy_rate.svg", "04_matrix_2d_3d_accesses.svg"]


def installed():
    try:
        return version("matplotlib")
    except PackageNotFoundError:
        return not_run("no matplotlib here")


def draw(results, *arguments, to="pictures", env=None):
    installed()
    pictures = results.parent / to
    return pictures, run([sys.executable, PLOTS / "plot.py", "--results", results, "--pictures",
                          pictures, *arguments], env={**NO_SCREEN, **(env or {})})


def names(folder):
    return sorted(path.name for path in folder.glob("*"))


def texts(path):
    root = ElementTree.parse(path).getroot()
    return ["".join(element.itertext()).strip() for element in root.iter()
            if element.tag.endswith("}text")]


# ---- reading ------------------------------------------------------------------------------------

@pytest.mark.parametrize("full, expected", [
    ("cpu_one_thread/16/min_time:0.100", ("cpu_one_thread", (16,), {})),
    ("gpu_add/rows:3/cols:4/min_time:0.100/manual_time",
     ("gpu_add", (3, 4), {"rows": 3, "cols": 4})),
    ("gpu_ceiling<256, 1>/1024/min_time:0.100/manual_time", ("gpu_ceiling<256, 1>", (1024,), {})),
    ("gpu_launch_alone/iterations:5/repeats:5/real_time/threads:1", ("gpu_launch_alone", (), {})),
    ("gpu_add/pinned/1024", ("gpu_add/pinned", (1024,), {})),
])
def test_names(full, expected):
    assert reader.split_name(full) == expected


def test_median_fastest_and_slowest_of_the_repetitions(tmp_path):
    rows = row("cpu_one_thread/100/min_time:0.100", [3, 1, 2, 50, 4], 1200, unit="us", ulp=2)
    aggregate = {**rows[0], "run_type": "aggregate", "aggregate_name": "mean", "real_time": 99}
    (found,) = reader.read(save(tmp_path, "01_vector_add", [*rows, aggregate])).rows
    assert (found.name, found.sizes, found.elements) == ("cpu_one_thread", (100,), 100)
    assert (found.seconds, found.fastest, found.slowest) == pytest.approx((3e-6, 1e-6, 50e-6))
    assert found.repetitions == 5
    assert found.bytes_per_second == pytest.approx(4e8)
    assert found.bytes == pytest.approx(1200)
    assert found.counters == {"ulp": 2}


def test_the_median_of_an_even_number_lies_between(tmp_path):
    rows = row("cpu_one_thread/1", [1, 2, 10, 30])
    assert reader.read(save(tmp_path, "01_vector_add", rows)).rows[0].seconds == pytest.approx(6e-9)


def test_what_a_launch_is_told_is_no_part_of_the_size(tmp_path):
    rows = row("gpu_scalar_blocks/n:1000/block:32", [1])
    assert reader.read(save(tmp_path, "01_vector_add", rows)).rows[0].elements == 1000


@pytest.mark.parametrize("mark", [
    {"error_occurred": True, "error_message": "out of memory"},
    {"skipped": "ERROR", "skip_message": "out of memory"}], ids=["1.7", "1.9"])
def test_a_row_that_its_program_left_out(tmp_path, mark):
    rows = row("gpu_add/1", [1]) + row("gpu_add/2", [1, 1])
    rows[2].update(mark)
    found = reader.read(save(tmp_path, "01_vector_add", rows))
    assert [each.sizes for each in found.rows] == [(1,)]
    assert found.skipped == {"gpu_add/2": "out of memory"}


def test_the_ceiling_is_the_best_shape_at_each_size(tmp_path):
    rows = (row("gpu_ceiling<1>/1", [5]) + row("gpu_ceiling<2>/1", [4]) +
            row("gpu_ceiling<1>/2", [6]) + row("gpu_ceiling<2>/2", [7]) +
            row("gpu_ceiling_cold<1>/1", [1]))
    best = reader.read(save(tmp_path, "01_vector_add", rows)).best("gpu_ceiling")
    assert [(each.name, each.sizes) for each in best] == [("gpu_ceiling<2>", (1,)),
                                                          ("gpu_ceiling<1>", (2,))]


GOOD = json.dumps({"context": {}, "benchmarks": row("cpu_one_thread/1", [1.0])})


@pytest.mark.parametrize("text", [
    "", GOOD[:len(GOOD) // 2], "\0\xff", "[" * 100_000, "[]", "{}", "7", "null",
    '{"context": {}}', '{"context": 3, "benchmarks": []}', '{"context": {}, "benchmarks": []}',
    '{"context": {}, "benchmarks": {"a": 1}}', '{"context": {}, "benchmarks": [1]}',
    GOOD.replace("1.0", "0.0"), GOOD.replace("1.0", "-1.0"), GOOD.replace("1.0", "NaN"),
    GOOD.replace("1.0", '"fast"'), GOOD.replace("1.0", "true"), GOOD.replace("1.0", "null"),
    GOOD.replace('"real_time"', '"bytes_per_second": 0, "real_time"'),
    GOOD.replace('"real_time"', '"items_per_second": -1.5, "real_time"'),
    GOOD.replace('"real_time"', '"bytes_per_second": "1G", "real_time"'),
    GOOD.replace('"ns"', '"fortnights"'), GOOD.replace('"real_time"', '"surreal_time"'),
    GOOD.replace('"name"', '"nom"'), GOOD.replace("iteration", "aggregate"),
], ids=lambda text: text[-30:] or "empty")
def test_a_damaged_or_foreign_file_is_named(tmp_path, text):
    path = tmp_path / "03_x.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(reader.BadResults, match=re.escape(str(path))):
        reader.read(path)


def test_a_good_file_is_not_damaged(tmp_path):
    path = tmp_path / "03_x.json"
    path.write_text(GOOD)
    assert len(reader.read(path).rows) == 1
    with pytest.raises(reader.BadResults):
        reader.read(tmp_path)                          # a folder


# ---- who wins -----------------------------------------------------------------------------------

def rows_at(times):
    """{size or sizes: seconds} -> rows."""
    return [reader.Row("r", size if isinstance(size, tuple) else (size,), {}, seconds, seconds,
                       seconds, 5) for size, seconds in times.items()]


def crossover(cpu, gpu):
    return reader.crossover(rows_at(cpu), rows_at(gpu))


def test_the_crossover_lies_where_the_lines_cross():
    # c·n = 8 crosses at n = 8; measured at 1, 4, 16, 64.
    found = crossover({n: n for n in (64, 16, 4, 1)}, {n: 8 for n in (1, 4, 16, 64)})
    assert found.wins == "from"
    assert found.size == pytest.approx(8)
    assert found.measured == 16
    assert found.when() == "from about 8 elements on"


def test_the_gpu_always_wins():
    found = crossover({1: 2, 10: 20}, {1: 1, 10: 1})
    assert found.wins == "always" and found.when() == "at every size measured"


def test_the_gpu_never_wins():
    found = crossover({1: 1, 10: 2}, {1: 2, 10: 3})
    assert found.wins == "never" and found.when() == "at no size measured"


def test_a_tie_is_no_win():
    assert crossover({1: 1, 10: 2}, {1: 1, 10: 2}).wins == "never"


def test_a_lead_that_is_lost_again_is_none():
    found = crossover({1: 2, 10: 3, 100: 4}, {1: 1, 10: 2, 100: 5})
    assert found.wins == "never" and "not at the largest" in found.when()
    found = crossover({1: 2, 10: 3, 100: 40}, {1: 1, 10: 6, 100: 20})
    assert found.wins == "from" and 10 < found.size < 100


def test_only_sizes_that_both_have_are_compared():
    assert crossover({1: 1, 10: 10}, {10: 5, 1000: 10**9}).wins == "always"
    assert crossover({1: 1}, {2: 1}) is None
    assert crossover({(2, 8): 1, (4, 4): 9}, {(4, 4): 5}).wins == "always"


def test_numbers_in_words():
    assert [reader.about(n) for n in (7.6, 984, 12_345, 999_999, 34_500_000, 4.3e9)] == [
        "8", "980", "12,000", "1 million", "34 million", "4.3 billion"]
    assert [reader.exactly(n) for n in (1, 1000, 1024, 2**28, 39618757)] == [
        "2⁰", "1,000", "2¹⁰", "2²⁸", "39,618,757"]


# ---- what the catalogue asks for ----------------------------------------------------------------

ALL = [pytest.param(chapter, picture, id=catalogue.file_name(chapter, picture))
       for chapter, pictures in catalogue.PICTURES.items() for picture in pictures]


@pytest.mark.parametrize("chapter, picture", ALL)
def test_a_picture_asks_for_rows_that_its_program_has(chapter, picture):
    """A row that is renamed would otherwise vanish from the picture without a word."""
    text = (REPOSITORY / chapter / f"{chapter[3:]}.cu").read_text(encoding="utf-8")
    known = set(re.findall(r"BENCHMARK(?:_TEMPLATE)?\((\w+)[,)]", text))
    known |= {name for full in re.findall(r'->Name\("([^"]+)"\)', text)
              for name in (full, full.partition("<")[0])}
    known |= {f"gpu_{case}" for case in ACCESSES}
    known |= {f"{case[1]}<{how}>" for case in peers.CASES.get(chapter, ())
              for how in ("calls", "graph")}
    if picture.y == "accesses":
        wanted = {f"gpu_{line.rows}" for line in picture.lines}
    else:
        wanted = {line.rows for line in (*picture.lines, picture.ceiling, picture.slope) if line}
    assert wanted <= known


@pytest.mark.parametrize("chapter, picture", ALL)
def test_lines_can_be_told_apart(chapter, picture):
    if picture.x:
        assert len({line.colour for line in picture.lines}) == len(picture.lines)
        assert len({(line.marker, line.dashed) for line in picture.lines}) == len(picture.lines)
    assert len({line.label for line in picture.lines}) == len(picture.lines)


@pytest.mark.parametrize("chapter, picture", ALL)
def test_who_compares_says_the_crossover(chapter, picture):
    if picture.x and picture.y in ("time", "rate"):
        kinds = {line.rows[:4] for line in picture.lines}
        assert bool(picture.crossovers) == (kinds == {"cpu_", "gpu_"})
    for pair in picture.crossovers:
        assert set(pair) <= set(picture.lines) and all(line.words for line in pair)


def test_peers_time_what_a_program_has():
    for chapter, cases in peers.CASES.items():
        text = (REPOSITORY / chapter / f"{chapter[3:]}.cu").read_text(encoding="utf-8")
        for own, _, _ in cases:
            assert re.search(rf'BENCHMARK\({own}\)|Name\("{own}"\)', text), own


# ---- the words ----------------------------------------------------------------------------------

def test_captions_say_the_crossovers(results):
    found = {name: words for name, _, words, _ in
             catalogue.pictures("h200", "03_thread_hierarchy", results)}
    words = found["03_thread_hierarchy_rate.svg"]
    # 4e-6 + 3e-12 n crosses 1e-9 n near 4000, and lies below 4e-6 + 1e-10 n.
    assert ("The float4 kernel alone is faster than one CPU thread from about 4,000 elements on, "
            "and than 16 CPU threads at every size measured.") in words
    assert ("The GPU with transfers from pageable memory is faster than one CPU thread or "
            "16 CPU threads at no size measured.") in words
    # 2e-5 + 2e-10 n crosses it at 25,000: at 28,000 by straight lines between 2¹³ and 2¹⁶.
    assert "from about 28,000 elements on, and than 16 CPU threads at no size measured." in words
    assert found["03_thread_hierarchy_blocks.svg"] == ""
    assert all(current for *_, current in catalogue.pictures("h200", "01_vector_add", results))
    assert "All this data fits in the GPU's L2 cache." in catalogue.pictures(
        "h200", "01_vector_add", results)[0][2]


def test_what_was_left_out_is_said(results):
    rows = thread_hierarchy_rows()
    for entry in rows:
        if entry["name"].startswith(("gpu_float4/268435456", "gpu_ceiling<256, 2>/268435456")):
            entry.update(error_occurred=True, error_message="no room for vectors of this size")
    save(results / "h200", "03_thread_hierarchy", rows)
    words = catalogue.pictures("h200", "03_thread_hierarchy", results)[0][2]
    assert ("Left out: gpu_float4/268435456, gpu_ceiling<256, 2>/268435456 "
            "(no room for vectors of this size).") in words


@pytest.fixture
def matmul(results):
    save(results / "h200", "06_matmul", matmul_rows())
    return {name: words for name, _, words, _ in
            catalogue.pictures("h200", "06_matmul", results)}


def test_matrices_are_compared_by_their_side(matmul):
    # 1e-4 s against 2 N³ / 1e10 s: between 64 and 128, so always; 1e-5 + 2 N³ / 1e11 crosses later.
    words = matmul["06_matmul_rate.svg"]
    assert "The tile kernel alone is faster than one CPU thread at every size measured" in words
    assert "than 16 CPU threads from about N = 160 on." in words


def test_the_roofline_says_where_its_edge_is(matmul):
    # 6e13 FLOP/s over 4e12 bytes a second.
    assert matmul["06_matmul_roofline.svg"] == (
        "Up to about 15 FLOP a byte the memory is the limit, and beyond that the arithmetic.")


@pytest.mark.parametrize("ceiling", ["gpu_read_ceiling", "gpu_fma_ceiling"])
def test_no_roofline_without_its_ceilings(results, ceiling):
    rows = [row for row in matmul_rows() if not row["name"].startswith(ceiling)]
    assert len(rows) < len(matmul_rows())
    save(results / "h200", "06_matmul", rows)
    found = {name for name, *_ in catalogue.pictures("h200", "06_matmul", results)}
    assert "06_matmul_rate.svg" in found and "06_matmul_roofline.svg" not in found


def test_the_roofline_has_the_cubes_alone(matmul, results):
    (picture,) = [each for each in catalogue.PICTURES["06_matmul"] if each.y == "roofline"]
    for _, points in catalogue.lines_of(picture, reader.load("h200", "06_matmul", results)):
        assert [round(6 * point.x) for point in points] == [2**power for power in range(7, 14)]


def test_the_ladder_stands_at_the_size_that_is_named(matmul, results):
    (ladder,) = [picture for picture in catalogue.PICTURES["06_matmul"] if picture.name == "ladder"]
    ((_, bars),) = catalogue.bars_of(ladder, reader.load("h200", "06_matmul", results))
    assert {point.row.sizes for _, point in bars} == {(4096, 4096, 4096)}
    flop = 2 * 4096**3
    assert bars[-1][1].y == pytest.approx((1e-4 + flop / 5e13) / (1e-4 + flop / 1e13))


def test_products_are_drawn_in_flop(matmul, results):
    pictures, result = draw(results, "h200")
    assert result.returncode == 0, result.stderr
    rate = texts(pictures / "h200" / "06_matmul_rate.svg")
    for wanted in ("10 TFLOP/s", "FLOP per second, logarithmic; higher is better", "8192",
                   "N, for matrices of N × N", "fits in the L2 cache, 60 MiB", "cuBLAS"):
        assert wanted in rate, rate
    ladder = texts(pictures / "h200" / "06_matmul_ladder.svg")
    assert "share of cuBLAS's FLOP per second, at 4096³; higher is better" in ladder
    roofline = texts(pictures / "h200" / "06_matmul_roofline.svg")
    # The ceilings' medians, 1.01 times the times above.
    assert "3.96 TB/s from memory" in roofline and "59.4 TFLOP/s, FMAs alone" in roofline
    assert "FLOP for each byte that the memory has to move" in roofline


def test_accesses_are_counted_in_sectors(results):
    ((_, _, words, current),) = catalogue.pictures("h200", "04_matrix_2d_3d", results)
    assert ("Matrix, columns on x: neighbouring lanes 4 bytes apart: "
            "4 sectors, 128 bytes moved, 128 used.") in words
    assert ("Matrix, rows on x: neighbouring lanes 192 bytes apart: "
            "32 sectors, 1,024 bytes moved, 128 used.") in words
    assert "Tensor, depth on x: neighbouring lanes 7,680 bytes apart: 32 sectors" in words
    assert current


@pytest.mark.parametrize("old, new", [
    ("PASS\n", ""), ("PASS\n", "FAIL: lane 3\n"), ("\nmatrix_rows_on_x,5,960,30\n", "\n\n"),
    ("mapping,lane", "lane,mapping"), ("_x,5,960,30\n", "_x,5,960,31\n"),
    ("_x,5,960,30\n", "_x,5,960\n"), ("_x,5,960,30\n", "_x,-5,960,30\n")])
def test_damaged_accesses_are_named(results, old, new):
    path = results / "h200" / "04_matrix_2d_3d.accesses.csv"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(reader.BadResults, match=re.escape(str(path))):
        reader.read_accesses(path)


def test_the_programs_own_accesses(build_program, tmp_path):
    """The picture's data is what the chapter's program prints."""
    chapter = REPOSITORY / "04_matrix_2d_3d" / "matrix_2d_3d.cu"
    result = run([build_program(chapter), "accesses"])
    path = tmp_path / "accesses.csv"
    path.write_text(result.stdout)
    found = reader.read_accesses(path)
    assert set(found) == set(ACCESSES)
    assert {name: len(catalogue.sectors_of(touched)) for name, touched in found.items()} == {
        "matrix_columns_on_x": 4, "matrix_rows_on_x": 32, "tensor_columns_on_x": 4,
        "tensor_depth_on_x": 32}


# ---- is it still true ---------------------------------------------------------------------------

def test_is_current(results):
    assert reader.is_current("h200", "01_vector_add", results)
    save(results / "h200", "01_vector_add", vector_add_rows(), source_sha256="0" * 64)
    assert not reader.is_current("h200", "01_vector_add", results)
    save(results / "h200", "01_vector_add", vector_add_rows(), source_sha256=None)
    assert not reader.is_current("h200", "01_vector_add", results)
    assert not reader.is_current("h200", "02_error_checking", results)      # never timed
    assert reader.source_hash("99_no_such_chapter") is None


def test_what_is_out_of_date_is_marked(results):
    save(results / "h200", "01_vector_add", vector_add_rows(), source_sha256="0" * 64)
    (results / "h200" / "04_matrix_2d_3d.accesses.csv.sha256").write_text("0" * 64)
    pictures, result = draw(results)
    assert result.returncode == 0, result.stderr
    marked = [name for name in names(pictures / "h200")
              if any("Out of date" in text for text in texts(pictures / "h200" / name))]
    assert marked == [name for name in ALL_PICTURES if not name.startswith("03")]
    assert "01_vector_add_time.svg: out of date" in result.stderr
    assert "03_thread" not in result.stderr


# ---- the drawing --------------------------------------------------------------------------------

def test_pictures_are_drawn(results):
    pictures, result = draw(results)
    assert result.returncode == 0, result.stderr
    assert names(pictures / "h200") == ALL_PICTURES
    for name in ALL_PICTURES:
        path = pictures / "h200" / name
        found = texts(path)
        assert len(found) > 10, "text is text, not curves"
        assert path.stat().st_size < 100_000
        assert "Out of date" not in path.read_text()
    rate = texts(pictures / "h200" / "03_thread_hierarchy_rate.svg")
    for wanted in ("Vector add: bytes moved per second", "CPU, 16 threads", "CPU, one thread",
                   "GPU, float4", "ceiling", "1 TB/s", "2²⁸", "elements in a vector",
                   "fits in the L2 cache, 60 MiB",
                   "bytes per second, logarithmic; higher is better"):
        assert wanted in rate
    assert any(text.startswith("NVIDIA H200") for text in rate)
    assert "1 µs" in texts(pictures / "h200" / "01_vector_add_time.svg")
    # At 2²⁸ the float4 kernel takes 3e-12 n + 4e-6 s, the better ceiling 2.8e-12 n + 5e-6 s.
    assert "93.5 %" in texts(pictures / "h200" / "03_thread_hierarchy_ladder.svg")


def test_the_same_bytes_each_time(results):
    first, _ = draw(results, to="first", env={"PYTHONHASHSEED": "1"})
    matplotlibrc = results.parent / "matplotlibrc"
    matplotlibrc.write_text("font.size: 30\nsvg.fonttype: path\nlines.linewidth: 9\n")
    second, _ = draw(results, to="second", env={
        "PYTHONHASHSEED": "2", "SOURCE_DATE_EPOCH": "1000000000", "TZ": "Asia/Seoul",
        "LC_ALL": "C", "MATPLOTLIBRC": str(matplotlibrc)})
    for name in ALL_PICTURES:
        assert (first / "h200" / name).read_bytes() == (second / "h200" / name).read_bytes()


@pytest.mark.parametrize("backend", ["TkAgg", "nonsense"])
def test_without_a_screen(results, backend):
    pictures, result = draw(results, env={"MPLBACKEND": backend})
    assert result.returncode == 0, result.stderr
    assert names(pictures / "h200") == ALL_PICTURES


def test_a_backend_that_is_unknown_is_no_missing_module():
    result = run(["sh", "make/setup", "python", "matplotlib"], cwd=REPOSITORY, env={
        "MPLBACKEND": "nonsense", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    assert result.returncode == 0 and result.stderr == ""


def test_without_matplotlib(results, tmp_path):
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "matplotlib.py").write_text("raise ImportError('not here')")
    result = run([sys.executable, PLOTS / "plot.py", "--results", results, "--pictures",
                  tmp_path / "pictures"], env={"PYTHONPATH": str(fake)})
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "pip install -r requirements.txt" in result.stderr
    assert not (tmp_path / "pictures").exists()


def test_the_words_need_no_matplotlib(results, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')")
    code = ("import sys; from pathlib import Path; import catalogue; "
            "print(len(catalogue.pictures('h200', '01_vector_add', Path(sys.argv[1]))))")
    result = run([sys.executable, "-c", code, results],
                 env={"PYTHONPATH": f"{tmp_path}:{PLOTS}"})
    assert result.stdout == "2\n", result.stderr


def test_where_there_was_no_gpu(results):
    save(results / "cpu-x", "01_vector_add", vector_add_rows(gpu=False), gpu="none",
         l2_bytes="none")
    save(results / "cpu-x", "02_error_checking", row("cpu_one_thread", [1]), gpu="none")
    pictures, result = draw(results, "cpu-x")
    assert result.returncode == 0, result.stderr
    assert names(pictures / "cpu-x") == ["01_vector_add_rate.svg", "01_vector_add_time.svg"]
    assert names(pictures) == ["cpu-x"]
    found = texts(pictures / "cpu-x" / "01_vector_add_time.svg")
    assert "Vector add: time of one run (CPU only)" in found
    assert any(text.startswith("A CPU ·") for text in found)
    assert not any("GPU" in text or "L2" in text or "faster than" in text for text in found)


def test_a_damaged_file_is_left_out_and_named(results):
    pictures, _ = draw(results)
    kept = (pictures / "h200" / "03_thread_hierarchy_rate.svg").read_bytes()
    (pictures / "h200" / "01_vector_add_time.svg").unlink()
    path = results / "h200" / "03_thread_hierarchy.json"
    path.write_text(path.read_text()[:1000])
    _, result = draw(results)
    assert result.returncode == 1
    assert f"{path}: damaged" in result.stderr and "left out" in result.stderr
    assert "Traceback" not in result.stderr
    assert (pictures / "h200" / "01_vector_add_time.svg").exists()
    assert (pictures / "h200" / "03_thread_hierarchy_rate.svg").read_bytes() == kept


def test_a_damaged_peer_leaves_the_chapter_its_pictures(results):
    path = results / "h200" / "03_thread_hierarchy.torch.json"
    path.write_text("{")
    pictures, result = draw(results)
    assert result.returncode == 1 and str(path) in result.stderr
    assert names(pictures / "h200") == ALL_PICTURES


def test_peers_are_drawn_beside_the_chapters_rows(results):
    powers = [(2**26,), (2**28,)]
    torch = curve("gpu_torch_add<calls>", powers, lambda n: 4e-6 + 3.5e-12 * n, 12)
    torch += curve("gpu_torch_add<graph>", powers, lambda n: 2e-6 + 3.5e-12 * n, 12)
    save(results / "h200", "03_thread_hierarchy", torch, ".torch", torch="2.11")
    pictures, result = draw(results)
    found = texts(pictures / "h200" / "03_thread_hierarchy_ladder.svg")
    assert result.returncode == 0 and "torch.add" in found
    # the calls, as our own rows are, against 2.8e-12 n + 5e-6 s
    share = (5e-6 + 2.8e-12 * 2**28) / (4e-6 + 3.5e-12 * 2**28)
    assert f"{100 * share:.1f} %" in found


def test_peers_from_another_gpu_are_left_out_and_named(results):
    torch = curve("gpu_torch_add<calls>", [(2**28,)], lambda n: 4e-6 + 3.5e-12 * n, 12)
    path = save(results / "h200", "03_thread_hierarchy", torch, ".torch", gpu="Tesla T4")
    pictures, result = draw(results)
    assert result.returncode == 1
    assert (f"{path}: from Tesla T4, but the chapter's results are from NVIDIA H200; left out"
            in result.stderr)
    assert names(pictures / "h200") == ALL_PICTURES
    assert "torch.add" not in texts(pictures / "h200" / "03_thread_hierarchy_ladder.svg")
    with pytest.raises(reader.BadResults, match="from Tesla T4"):
        reader.load("h200", "03_thread_hierarchy", results)


def test_a_foreign_file_is_named(results):
    (results / "h200" / "notes.json").write_text("{}")
    pictures, result = draw(results)
    assert result.returncode == 0
    assert "notes.json: no picture is made of this file" in result.stderr
    assert names(pictures / "h200") == ALL_PICTURES


def test_nothing_to_draw(tmp_path):
    _, result = draw(tmp_path / "results")
    assert result.returncode == 1 and "make bench" in result.stderr
    (tmp_path / "results" / "h200").mkdir(parents=True)
    _, result = draw(tmp_path / "results", "t4", "h200")
    assert result.returncode == 1 and "no results of t4" in result.stderr
    _, result = draw(tmp_path / "results")
    assert result.returncode == 1 and "nothing to draw" in result.stderr


def test_names_with_spaces_and_letters_of_other_languages(results):
    folder = results.parent / "Ergebnisse für 한국"
    results.rename(folder)
    (folder / "h200").rename(folder / "mein rechner")
    pictures, result = draw(folder, "mein rechner", to="schöne bilder", env={"LC_ALL": "C"})
    assert result.returncode == 0, result.stderr
    assert names(pictures / "mein rechner") == ALL_PICTURES


def test_another_version_than_the_pinned_one_is_said(results):
    _, result = draw(results)
    assert plot.pinned_version()
    assert ("whose bytes differ" in result.stderr) == (installed() != plot.pinned_version())


def test_committed_pictures_are_those_of_the_committed_results(tmp_path):
    """The same bytes, with the version that requirements.txt pins."""
    if installed() != plot.pinned_version():
        not_run(f"matplotlib {installed()} here, {plot.pinned_version()} in requirements.txt")
    machines = sorted(path.parent.name for path in reader.RESULTS.glob("*/*.json"))
    if not machines:
        pytest.skip("no results yet")
    result = run([sys.executable, PLOTS / "plot.py", "--pictures", tmp_path])
    assert result.returncode == 0, result.stderr
    drawn = {path.relative_to(tmp_path): path for path in tmp_path.glob("*/*")}
    committed = {path.relative_to(plot.PICTURES): path for path in plot.PICTURES.glob("*/*")}
    assert set(drawn) == set(committed), "run `make plots`"
    for name, path in drawn.items():
        assert path.read_bytes() == committed[name].read_bytes(), f"{name}: run `make plots`"


# ---- PyTorch ------------------------------------------------------------------------------------

# A GPU that moves 1 TB a second, and a host that takes 5 µs a call. It knows only what the clock
# needs: tensors have a size, and calls take time.
FAKE_TORCH = '''
import json, os, types

__version__ = "2.11.0+fake"
version = types.SimpleNamespace(cuda="13.0")
now = [0.0]
graph_now = None
log = {"outputs": [], "shortest": 1e9, "events": 0}
LIMIT = float(os.environ.get("FAKE_LIMIT", "inf"))


class Tensor:
    def __truediv__(self, number):
        return self

    def __init__(self, sizes):
        self.sizes, self.nbytes = tuple(sizes), 4
        for size in sizes:
            self.nbytes *= size
        if self.nbytes > LIMIT:
            raise RuntimeError("CUDA out of memory. Tried too much\\nmore words")


def rand(sizes, device):
    assert device == "cuda"
    return Tensor(sizes)


randn = rand


def empty_like(tensor):
    return Tensor(tensor.sizes)


def work(tensors, out):
    assert all(tensor.sizes == out.sizes for tensor in tensors)
    seconds = (len(tensors) + 1) * out.nbytes / 1e12
    if graph_now is not None:
        graph_now[0] += seconds
        return
    now[0] += max(seconds, 5e-6)
    log["outputs"].append(id(out))


def add(a, b, out):
    work([a, b], out)


def sigmoid(x, out=None):
    work([x], out or Tensor(x.sizes))


def linear(x, weight, bias):
    assert x.sizes[1] == weight.sizes[1] and weight.sizes[0] == bias.sizes[0]
    return Tensor((x.sizes[0], weight.sizes[0]))


nn = types.SimpleNamespace(functional=types.SimpleNamespace(linear=linear))


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = now[0]

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        log["shortest"] = min(log["shortest"], other.at - self.at)
        return 1e3 * (other.at - self.at)


class CUDAGraph:
    def replay(self):
        now[0] += self.seconds


class graph:
    def __init__(self, target):
        self.target = target

    def __enter__(self):
        global graph_now
        graph_now = [0.0]

    def __exit__(self, *error):
        global graph_now
        self.target.seconds, graph_now = graph_now[0], None


cuda = types.SimpleNamespace(
    is_available=lambda: os.environ.get("FAKE_GPU") != "none", Event=Event, CUDAGraph=CUDAGraph,
    graph=graph, synchronize=lambda: None, empty_cache=lambda: None,
    get_device_properties=lambda index: types.SimpleNamespace(
        name="NVIDIA H200" if os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else "Tesla T4",
        L2_cache_size=62914560))
'''


@pytest.fixture
def time_peers(results, tmp_path):
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "torch.py").write_text(FAKE_TORCH)
    save(results / "h200", "03_thread_hierarchy", thread_hierarchy_rows() + curve(
        "gpu_float4_cold", [(2**21,), (2**22,)], lambda n: 4e-12 * n, 12))

    def time(*arguments, **env):
        return run([sys.executable, PLOTS / "peers.py", "--results", results, *arguments],
                   env={"PYTHONPATH": str(tmp_path / "fake"), **env})

    return time


def test_peers_are_timed_at_the_programs_sizes(time_peers, results):
    result = time_peers("h200")
    assert result.returncode == 0, result.stderr
    found = reader.load("h200", "03_thread_hierarchy", results)
    assert found.context["torch"]["torch"] == "2.11.0+fake"
    assert found.context["torch"]["l2_bytes"] == "62914560"
    for own, name in (("gpu_float4", "gpu_torch_add"), ("gpu_float4_cold", "gpu_torch_add_cold")):
        for how in ("calls", "graph"):
            rows = found.named(f"{name}<{how}>")
            assert [each.sizes for each in rows] == [each.sizes for each in found.named(own)]
            for each in rows:
                assert each.repetitions == 5
                moved = 12 * each.elements / 1e12
                expected = max(moved, 5e-6) if how == "calls" else moved
                assert each.seconds == pytest.approx(expected)
                assert each.bytes == pytest.approx(12 * each.elements)
    best = found.best("gpu_torch_add")
    assert best[0].name == "gpu_torch_add<graph>"
    assert names(results / "h200") == sorted([
        "01_vector_add.json", "03_thread_hierarchy.json", "03_thread_hierarchy.torch.json",
        "04_matrix_2d_3d.accesses.csv", "04_matrix_2d_3d.accesses.csv.sha256"])


def test_matrices_and_sigmoid(time_peers, results):
    save(results / "h200", "04_matrix_2d_3d",
         curve("gpu_float4", [(1024, 1024), (5003, 7919)], lambda n: 3e-12 * n, 12))
    save(results / "h200", "05_device_functions",
         curve("gpu_float4", [(2**20,)], lambda n: 2e-12 * n, 8))
    assert time_peers("h200", "04_matrix_2d_3d", "05_device_functions").returncode == 0
    matrix = reader.load("h200", "04_matrix_2d_3d", results).named("gpu_torch_add<calls>")
    assert [each.sizes for each in matrix] == [(1024, 1024), (5003, 7919)]
    assert matrix[1].bytes == pytest.approx(12 * 5003 * 7919)
    (sigmoid,) = reader.load("h200", "05_device_functions", results).named(
        "gpu_torch_sigmoid<graph>")
    assert sigmoid.bytes == pytest.approx(8 * 2**20)


def test_layers(time_peers, results):
    save(results / "h200", "07_neural_layer",
         product("gpu_fused", [(1, 4096, 512)], lambda flop: 1e-5) +
         product("gpu_batch_tile<32>", [(64, 4096, 4096)], lambda flop: 1e-3))
    assert time_peers("h200", "07_neural_layer").returncode == 0
    found = reader.load("h200", "07_neural_layer", results)
    (one,) = found.named("gpu_torch_layer<calls>")
    assert one.sizes == (1, 4096, 512)
    assert one.bytes == pytest.approx(4 * (4096 * 512 + 4096 + 2 * 512))
    (batch,) = found.named("gpu_torch_batch<graph>")
    assert batch.flop == pytest.approx(2 * 64 * 4096 * 4096)


def test_the_clock_of_the_peers(tmp_path, monkeypatch):
    """Batches are long against the events, and cold data rotates through what no cache holds."""
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    import torch
    for cold, sets in ((False, 1), (True, 31)):
        torch.log.update(outputs=[], shortest=1e9)
        counts, timed = peers.time_case(torch, peers.add, (2**21,), cold)
        moved = counts["bytes"]
        assert moved == 12 * 2**21
        assert len(set(torch.log["outputs"])) == sets >= (768e6 / moved if cold else 1)
        following = zip(torch.log["outputs"], torch.log["outputs"][1:])
        assert all((a == b) != cold for a, b in following)
        for _, count, times in timed:
            assert len(times) == 5 and count * min(times) >= 0.03
    monkeypatch.delitem(sys.modules, "torch")


def test_a_size_that_pytorch_has_no_room_for(time_peers, results):
    result = time_peers("h200", "03_thread_hierarchy", FAKE_LIMIT="1e9")
    assert result.returncode == 0, result.stderr
    found = reader.load("h200", "03_thread_hierarchy", results)
    assert [each.sizes for each in found.named("gpu_torch_add<calls>")][-1] == (2**25,)
    assert (found.skipped[f"gpu_torch_add<calls>/{2**28}/manual_time"] ==
            "CUDA out of memory. Tried too much")


@pytest.mark.parametrize("torch, env, words", [
    ("raise ImportError('not here')", {}, "cannot be imported here (not here)"),
    ("raise OSError('libcudart.so: missing')", {}, "cannot be imported here"),
    (FAKE_TORCH, {"FAKE_GPU": "none"}, "finds no GPU here")])
def test_where_pytorch_or_the_gpu_is_missing(time_peers, results, tmp_path, torch, env, words):
    (tmp_path / "fake" / "torch.py").write_text(torch)
    result = time_peers("h200", **env)
    assert result.returncode == 0 and result.stderr == ""
    assert words in result.stdout and len(result.stdout.splitlines()) == 1
    assert not list(results.glob("*/*.torch.json"))


def test_results_of_another_gpu_are_not_given_peers(time_peers, results):
    save(results / "h200", "03_thread_hierarchy", thread_hierarchy_rows(), gpu="Tesla T4")
    result = time_peers("h200")
    assert result.returncode == 1
    assert "from Tesla T4, but this GPU is NVIDIA H200" in result.stderr
    assert not list(results.glob("*/*.torch.json"))


def test_chapters_without_a_peer(time_peers):
    result = time_peers("h200", "01_vector_add")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    result = time_peers("t4")
    assert result.returncode == 1 and "make bench" in result.stderr
    result = time_peers("h200", "04_matrix_2d_3d")
    assert result.returncode == 1 and "04_matrix_2d_3d.json" in result.stderr
