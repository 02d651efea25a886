"""The book: woven from the chapters alone, the same bytes each time, and every notebook runs."""

import ast
import json
import os
import re
import shutil
import statistics
import stat
import sys
from pathlib import Path

import pytest
from conftest import CHAPTERS, REPOSITORY, not_run, run

BOOK = REPOSITORY / "book"
sys.path.insert(0, str(BOOK))
import contents  # noqa: E402
import figures  # noqa: E402
import weave  # noqa: E402
from figures import reader  # noqa: E402

each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.parent.name)


# ---- woven --------------------------------------------------------------------------------------

@pytest.fixture
def copy(tmp_path):
    """What the weaver reads and writes, in a folder of its own."""
    folder = tmp_path / "a copy"
    for name in ("book", "plots", *(chapter.parent.name for chapter in CHAPTERS)):
        shutil.copytree(REPOSITORY / name, folder / name,
                        ignore=shutil.ignore_patterns("__pycache__", "*.part"))
    (folder / "README.md").write_text(
        "# A book\n\n<!-- generated: chapters -->\n\nold\n\n<!-- end -->\n\n"
        "<!-- generated: tests -->\n<!-- end -->\n\n## And more\n")
    return folder


def weave_in(folder, *arguments, **env):
    return run([sys.executable, folder / "book" / "weave.py", *arguments], env=env, cwd="/")


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in (".md", ".ipynb") and path.is_file()}


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_what_is_committed_is_what_is_woven():
    result = weave_in(REPOSITORY, "--check")
    assert result.returncode == 0, result.stderr + "`make book` mends this"


def test_the_same_bytes_each_time(copy):
    assert weave_in(copy, PYTHONHASHSEED="1").returncode == 0
    first = files_of(copy)
    for path in first:
        if path != "README.md":
            (copy / path).unlink()
    assert weave_in(copy, PYTHONHASHSEED="2", LC_ALL="C", PYTHONUTF8="0").returncode == 0
    assert files_of(copy) == first
    result = weave_in(copy)
    assert result.stdout.endswith("0 of them changed\n")


def test_check_names_what_differs_and_changes_nothing(copy):
    assert weave_in(copy).returncode == 0
    assert weave_in(copy, "--check").returncode == 0
    first, second = (chapter.parent.name for chapter in CHAPTERS[:2])
    with (copy / first / "README.md").open("a") as file:
        file.write("and more\n")
    (copy / second / f"{second[3:]}.ipynb").unlink()
    before = files_of(copy)
    result = weave_in(copy, "--check")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        f"{first}/README.md is not what `make book` makes",
        f"{second}/{second[3:]}.ipynb is not what `make book` makes"]
    assert files_of(copy) == before


def test_check_notices_an_edit_of_the_source(copy):
    assert weave_in(copy).returncode == 0
    source = copy / "05_device_functions" / "device_functions.cu"
    source.write_text(source.read_text(encoding="utf-8").replace("// ## ", "// ## So: ", 1))
    result = weave_in(copy, "--check")
    assert result.returncode == 1
    assert [line.split()[0] for line in result.stderr.splitlines()] == [
        "05_device_functions/README.md", "05_device_functions/device_functions.ipynb"]


@each_chapter
def test_no_wrapped_line_begins_like_an_item_of_a_list(chapter):
    """Markdown would make one of it, in the middle of a sentence."""
    item = re.compile(r" *([-+*]|\d+\.) ")
    for kind, text in weave.pieces_of(chapter.read_text(encoding="utf-8")):
        first, *others = text.splitlines()
        if kind == "prose" and not item.match(first) and "```" not in text and not first.startswith("    "):
            assert not [line for line in others if item.match(line)]


def test_a_readme_without_its_marks(copy):
    (copy / "README.md").write_text("# Nothing\n")
    result = weave_in(copy)
    assert result.returncode == 1
    assert "README.md: there must be one line <!-- generated: chapters -->" in result.stderr
    assert (copy / "README.md").read_text() == "# Nothing\n"
    for chapter in CHAPTERS:
        assert (copy / chapter.parent.name / "README.md").is_file()


def test_a_chapter_of_which_the_contents_say_nothing(copy):
    (copy / "99_new").mkdir()
    (copy / "99_new" / "new.cu").write_text("// # New\n\nint x;\n")
    result = weave_in(copy)
    assert result.returncode == 1
    assert result.stderr == "weave.py: book/contents.py says nothing of 99_new\n"


# ---- the pages ----------------------------------------------------------------------------------

def page_of(chapter):
    return (chapter.parent / "README.md").read_text(encoding="utf-8")


@each_chapter
def test_every_line_of_the_source_is_on_the_page_in_its_order(chapter):
    """Code as it stands, prose without its slashes. A lone #endif may stand a little later."""
    lines = iter(page_of(chapter).splitlines())
    for line in chapter.read_text(encoding="utf-8").splitlines():
        if line.startswith("//"):
            line = re.sub("^// ?", "", line)
        if not line.strip() or line == "#endif" or re.fullmatch(r"!\[\w+\]", line):
            continue
        answer = re.sub(r"^( *)\*Answer:\* (.)", lambda match: match[1] + match[2].upper(), line)
        assert any(found == answer for found in lines), line


@each_chapter
def test_the_page_leads_on_and_back(chapter):
    page, at = page_of(chapter), CHAPTERS.index(chapter)
    for neighbour in CHAPTERS[max(at - 1, 0):at] + CHAPTERS[at + 1:at + 2]:
        assert page.count(f"](../{neighbour.parent.name}/README.md)") >= 2
    assert page.count("[Contents](../README.md)") == 2
    assert f"`make run-{chapter.parent.name[:2]}`" in page


@each_chapter
def test_the_plumbing_is_folded_away_after_chapter_1(chapter):
    _, heading, plumbing = page_of(chapter).partition("\n## Plumbing\n")
    assert heading
    first_code = plumbing.index("```cuda")
    if chapter == CHAPTERS[0]:
        assert "<details>" not in plumbing
    else:
        assert plumbing.count("<details>") == plumbing.count("</details>") == 1
        assert plumbing.index("<details>") < first_code
        assert plumbing.index("</details>") > plumbing.rindex("```\n")


def outside_code(markdown):
    """A page without its fences, indented code, code spans and what the weaver itself writes."""
    text = re.sub(r"^( *)```.*?^\1```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?:^|(?<=\n\n))(?: {4}.*\n)+", "", text)
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->|</?(?:details|summary)>", "", text, flags=re.DOTALL)


@each_chapter
def test_nothing_is_swallowed_when_the_page_is_shown(chapter):
    """What Markdown takes for HTML, mathematics or bold type must stand between backticks."""
    prose = outside_code(page_of(chapter))
    assert re.findall(r"<[a-zA-Z/!].*|\$.*|(?<!\w)__\w.*|~~.*", prose) == []
    assert prose.count("`") == 0


@each_chapter
def test_the_output_of_the_reference_run_is_on_the_page(chapter):
    path = reader.RESULTS / contents.MACHINE / f"{chapter.parent.name}.txt"
    if not path.is_file():
        pytest.skip("not run yet on the machine that the texts quote")
    page = page_of(chapter)
    assert f"prints:\n\n```\n{path.read_text(encoding='utf-8')}```\n" in page.replace(
        f"{figures.OUT_OF_DATE}\n\n", "")
    assert page.index("prints:\n") < page.index("\n## How fast?\n")


# ---- what the weaver makes of a source ----------------------------------------------------------

def woven_prose(source):
    return [text for _, text in weave.fold_answers(weave.pieces_of(source))]


def test_prose_and_code():
    source = ("// # Title\n//\n// One\n// two.\n//\n//     indented\n\n#include <x>\n\n"
              "void f()\n{\n    // a remark\n}\n\n//   * list\n// ```\n// a\n//\n// b\n// ```\n")
    assert weave.pieces_of(source) == [
        ("prose", "# Title"), ("prose", "One\ntwo."), ("prose", "    indented"),
        ("code", "#include <x>\n\nvoid f()\n{\n    // a remark\n}"),
        ("prose", "  * list\n```\na\n\nb\n```")]


def test_a_lone_endif_goes_to_the_next_code():
    assert weave.pieces_of("int a;\n// One.\n\n#endif\n\n// Two.\nint b;\n") == [
        ("code", "int a;"), ("prose", "One."), ("prose", "Two."), ("code", "#endif\n\nint b;")]
    assert weave.pieces_of("// One.\n#endif\n") == [("prose", "One."), ("code", "#endif")]


def test_answers_are_folded():
    source = """\
// 1. What now?
//
//    *Answer:* this,
//    and that:
//
//        output
//
// 2. And then?
//
//    *Answer:* Nothing.
//
// A question without a list.
//
// *Answer:* Yes.
//
// The text goes on.
"""
    assert woven_prose(source) == [
        "1. What now?",
        "   <details><summary>Answer</summary>", "   This,\n   and that:", "       output",
        "   </details>",
        "2. And then?",
        "   <details><summary>Answer</summary>", "   Nothing.", "   </details>",
        "A question without a list.",
        "<details><summary>Answer</summary>", "Yes.", "</details>",
        "The text goes on."]
    assert woven_prose("// *Answer:* Yes.\n") == [
        "<details><summary>Answer</summary>", "Yes.", "</details>"]


def test_a_picture_may_have_a_place_in_the_text(copy):
    chapter = copy / "04_matrix_2d_3d"
    source = (chapter / "matrix_2d_3d.cu").read_text(encoding="utf-8")
    source = re.sub(r"// !\[accesses\]\n", "", source)
    (chapter / "matrix_2d_3d.cu").write_text(source, encoding="utf-8")
    assert weave_in(copy).returncode == 0
    picture = "(../plots/pictures/h200/04_matrix_2d_3d_accesses.svg)"
    page = (chapter / "README.md").read_text(encoding="utf-8")
    assert page.count(picture) == 1
    assert page.index(picture) > page.index("\n## How fast?\n")

    edit(chapter / "matrix_2d_3d.cu", "// ## A matrix is a vector after all\n",
         "// ![accesses]\n//\n// ## A matrix is a vector after all\n")
    assert weave_in(copy).returncode == 0
    page = (chapter / "README.md").read_text(encoding="utf-8")
    assert page.count(picture) == 1 and "![accesses]" not in page
    assert page.index(picture) < page.index("\n## A matrix is a vector after all\n")
    assert page.count("Matrix, columns on x: neighbouring lanes 4 bytes apart") == 1

    edit(chapter / "matrix_2d_3d.cu", "// ![accesses]\n", "// ![access]\n")
    result = weave_in(copy)
    assert result.returncode == 1
    assert result.stderr == "weave.py: 04_matrix_2d_3d: plots/catalogue.py has no picture access\n"


# ---- figures ------------------------------------------------------------------------------------

def timed():
    return [chapter for chapter in CHAPTERS
            if reader.results_file(contents.MACHINE, chapter.parent.name).is_file()]


def median(chapter, row, sizes, what):
    """From the file itself, by a way of our own."""
    path = reader.results_file(contents.MACHINE, chapter)
    runs = [run for run in json.loads(path.read_text())["benchmarks"]
            if re.match(rf"{re.escape(row)}/{sizes}(/|$)", run["name"])
            and run["run_type"] == "iteration"]
    assert len(runs) >= 5
    return statistics.median(run[what] for run in runs)


def test_the_figures_are_those_of_the_results():
    chapter = next(chapter for chapter in CHAPTERS if chapter.parent.name.startswith("03"))
    name, page = chapter.parent.name, page_of(chapter)
    rate = median(name, "gpu_float4", 2**28, "bytes_per_second")
    ceiling = max(median(name, f"gpu_ceiling<{shape}>", 2**28, "bytes_per_second")
                  for shape in ("256, 1", "256, 2", "1024, 1"))
    time = median(name, "gpu_float4", 2**28, "real_time")
    line, = re.findall(r"^\| GPU, one `float4` a thread \|.*", page, re.MULTILINE)
    _, _, *cells, _ = (cell.strip() for cell in line.split("|"))
    assert cells == [f"{time / 1e3:.0f} µs", f"{rate / 1e12:.2f} TB/s",
                     f"{100 * rate / ceiling:.1f} %"]
    table = figures.chapters_table({name: weave.title_of(name)})
    assert f"| {rate / 1e12:.2f} TB/s, {100 * rate / ceiling:.1f} % of the ceiling |" in table


@pytest.mark.parametrize("chapter", timed(), ids=lambda path: path.parent.name)
def test_every_row_of_the_tables_has_been_timed(chapter):
    name = chapter.parent.name
    results = reader.load(contents.MACHINE, name)
    for table in contents.CHAPTERS[name].tables:
        sizes = table.sizes or figures.largest_for_all(table, results)
        for row in (*table.rows, *filter(None, [table.ceiling])):
            assert sizes in figures.rows_of(row, results), row
    assert figures.reached(name)
    assert "{" not in figures.reached(name)


def test_a_chapter_that_has_not_been_timed(copy):
    for path in (copy / "plots" / "results" / "h200").glob("03_*"):
        path.unlink()
    assert weave_in(copy).returncode == 0
    page = (copy / "03_thread_hierarchy" / "README.md").read_text(encoding="utf-8")
    assert "generated" not in page and ".svg" not in page
    row, = re.findall(r"^\| \[03 .*", (copy / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert row.endswith("|  |")


def test_what_is_out_of_date_is_marked(copy):
    source = copy / "03_thread_hierarchy" / "thread_hierarchy.cu"
    page = copy / "03_thread_hierarchy" / "README.md"
    notebook = copy / "03_thread_hierarchy" / "thread_hierarchy.ipynb"

    def marks():
        assert weave_in(copy).returncode == 0
        table = (copy / "README.md").read_text(encoding="utf-8")
        assert notebook.read_text(encoding="utf-8").count("Out of date") <= 2
        return page.read_text(encoding="utf-8").count(figures.OUT_OF_DATE), table.count("(out of date)")

    before = marks()
    edit(source, "// # Thread hierarchy", "// # The thread hierarchy")
    assert marks() == before
    with source.open("a", encoding="utf-8") as file:
        file.write("int one_more;\n")       # plumbing: its output may differ, its times may not
    assert marks()[0] <= 1
    edit(source, "__global__ void add(", "int one_more_still;\n\n__global__ void add(")
    assert marks() == (6, 1)                # the output, the tables and four pictures


# ---- notebooks ----------------------------------------------------------------------------------

def notebook_path(chapter):
    return chapter.with_suffix(".ipynb")


def cells_of(path):
    return [(cell, "".join(cell["source"]))
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


@each_chapter
def test_a_notebook_asks_for_a_gpu_and_is_valid(chapter):
    document = json.loads(notebook_path(chapter).read_text(encoding="utf-8"))
    metadata = document["metadata"]
    assert metadata["accelerator"] == "GPU"
    assert metadata["colab"]["gpuType"] == "T4"
    assert metadata["kernelspec"]["name"] == "python3"
    assert metadata["language_info"]["name"] == "python"
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in document["cells"]]
    assert ids == [f"cell-{number:03}" for number in range(len(ids))]
    try:
        import nbformat
    except ImportError:
        not_run("no nbformat here")
    nbformat.validate(nbformat.from_dict(document))


@each_chapter
def test_the_parts_of_a_notebook_are_the_program(chapter, tmp_path):
    parts, folded = {}, {}
    for cell, text in cells_of(notebook_path(chapter)):
        first, _, rest = text.partition("\n")
        match = re.fullmatch(r"%%writefile (part_\d+\.cu)", first)
        if match:
            parts[match[1]] = rest + "\n"
            folded[match[1]] = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
    assert list(parts) == sorted(parts) and len(set(map(len, parts))) == 1
    joined = tmp_path / chapter.name
    joined.write_text("".join(parts.values()), encoding="utf-8")
    hashes = [run(["sh", REPOSITORY / "plots" / "source_hash", path]).stdout
              for path in (joined, chapter)]
    assert hashes[0] == hashes[1] != ""

    plumbing = max(parts)
    assert folded[plumbing] == (chapter != CHAPTERS[0])
    kernel = next(name for name, text in parts.items() if "__global__" in text)
    assert not folded[kernel]


@each_chapter
def test_a_notebook_never_builds_without_an_architecture(chapter):
    commands = [line for cell, text in cells_of(notebook_path(chapter))
                if cell["cell_type"] == "code" and not text.startswith("%%writefile")
                for line in text.splitlines() if line.lstrip().startswith("!nvcc")]
    assert len(commands) == 2
    assert all(" -arch={arch} " in command for command in commands)


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """execute(notebook, folder) -> [(source, what it printed)] of its code cells.

    No cell may raise. `fake` holds the commands of the machine that the notebook sees.
    """
    try:
        import ipykernel  # noqa: F401
        import nbclient
        import nbformat
    except ImportError as error:
        not_run(f"no {error.name} here")
    fake = tmp_path / "fake"
    fake.mkdir()
    monkeypatch.setenv("PATH", f"{fake}{os.pathsep}{os.environ['PATH']}")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("BUILD", os.environ.get("BUILD") or str(REPOSITORY / "build"))

    def run_all(notebook, folder):
        folder.mkdir(parents=True)
        document = nbformat.reads(notebook.read_text(encoding="utf-8"), as_version=4)
        nbclient.NotebookClient(document, timeout=300, kernel_name="python3",
                                resources={"metadata": {"path": str(folder)}}).execute()
        assert list(folder.iterdir()) == []     # the notebook's own folder stays as it was
        return [(cell.source, "".join(output.get("text", "") for output in cell.outputs))
                for cell in document.cells if cell.cell_type == "code"]

    run_all.fake = fake
    return run_all


def command(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


NO_DRIVER = "echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9"


@each_chapter
def test_a_notebook_runs_whole_without_a_gpu(chapter, execute, tmp_path):
    """In a clone: on the CPU device, from a path with a space in it."""
    command(execute.fake / "nvidia-smi", NO_DRIVER)
    clone = tmp_path / "a clone"
    clone.mkdir()
    (clone / "cpu_device").symlink_to(REPOSITORY / "cpu_device")
    cells = execute(notebook_path(chapter), clone / chapter.parent.name)
    assert "Runtime → Change runtime type → T4 GPU" in cells[0][1]
    assert "runs on the CPU device" in cells[0][1]
    programs = [printed for source, printed in cells if f"    !./{chapter.stem}" in source]
    assert len(programs) == 1 + len(list(chapter.parent.glob("*.txt")))
    for printed in programs:
        assert printed.split()[-1] == "PASS", printed
    assert cells[-1][1] == "Not timed: there is no GPU here.\n"


def test_a_notebook_alone_and_without_a_gpu(execute, tmp_path):
    command(execute.fake / "nvidia-smi", NO_DRIVER)
    cells = execute(notebook_path(CHAPTERS[0]), tmp_path / "alone" / "content")
    said = "".join(printed for source, printed in cells if not source.startswith("%%writefile"))
    assert "Traceback" not in said
    assert said.splitlines() == [
        "There is no GPU here. In Colab: Runtime → Change runtime type → T4 GPU → Save, and then",
        "run this cell again.",
        "Until then nothing is built or run, and you can read on.",
        "Not built: there is no GPU here, and no CPU device.",
        "There is no program to run: the cell that builds it built none.",
        "Not timed: there is no GPU here."]


@pytest.mark.parametrize("left_out", [
    ("%%writefile", "#@title"), "%%writefile", "%%writefile part_03"], ids=[
    "all but the last", "after a restart", "a part"])
def test_a_notebook_of_which_some_cells_are_not_run(left_out, execute, tmp_path):
    """It says which come first, and touches nothing: its folder holds the chapter itself."""
    command(execute.fake / "nvidia-smi", NO_DRIVER)
    document = json.loads(notebook_path(CHAPTERS[0]).read_text(encoding="utf-8"))
    document["cells"] = [cell for cell in document["cells"]
                         if not "".join(cell["source"]).startswith(left_out)]
    (tmp_path / "some.ipynb").write_text(json.dumps(document), encoding="utf-8")
    printed = [text for source, text in execute(tmp_path / "some.ipynb", tmp_path / "alone")
               if not source.startswith(("%%writefile", "#@title"))]
    assert printed == ["Not built: run the cells above first, all of them, from the top.\n",
                       "There is no program to run: the cell that builds it built none.\n",
                       "Not timed: run the cells above first, all of them, from the top.\n"]


NVIDIA_SMI = """case $1 in
    *=name) echo 'Tesla T4' ;;
    *=compute_cap) echo 7.5 ;;
    *) exit 1 ;;
esac"""

NVCC = """echo "$*" >>"$0.log"
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || program=$2
    shift
done
printf '#!/bin/sh\\necho "this is %s, $CUDA_DEVICE_ORDER"\\n' "$program" >"$program" && chmod +x "$program\""""


@pytest.mark.parametrize("chapter", CHAPTERS[-1:], ids=lambda path: path.parent.name)
def test_a_notebook_on_a_t4(chapter, execute, tmp_path):
    """What it would type there, with a GPU and an nvcc that are made up."""
    command(execute.fake / "nvidia-smi", NVIDIA_SMI)
    command(execute.fake / "nvcc", NVCC)
    command(execute.fake / "apt-get", 'echo "$*" >>"$0.log"')
    cells = execute(notebook_path(chapter), tmp_path / "alone" / "content")
    assert cells[0][1] == "Tesla T4: the cells below build for it with nvcc -arch=sm_75.\n"
    name = chapter.stem
    build, bench = (execute.fake / "nvcc.log").read_text().splitlines()
    assert build == f"-arch=sm_75 {name}.cu -o {name}"
    assert bench.startswith(f"-O3 -std=c++17 -arch=sm_75 -DBENCHMARKS -Xcompiler -fopenmp {name}.cu "
                            f"-o {name}_bench -lbenchmark -lpthread")
    assert bench.endswith(" -lcublas") == ("cublas_v2.h" in chapter.read_text(encoding="utf-8"))
    log = execute.fake / "apt-get.log"
    if not Path("/usr/include/benchmark/benchmark.h").exists():
        assert log.read_text().splitlines() == ["-qq update", "-qq install -y libbenchmark-dev"]
    else:
        assert not log.exists()
    assert f"this is {name}_bench, PCI_BUS_ID" in cells[-1][1]


@pytest.mark.parametrize("gpu, nvcc, words", [
    (NVIDIA_SMI, True, "Tesla T4: the cells below build for it with nvcc -arch=sm_75."),
    ("echo 'Tesla K80'; [ $1 != --query-gpu=compute_cap ]", True,
     "Tesla K80: the cells below build for it with nvcc -arch=native."),
    ("printf 'Tesla\\351\\n'", True, "Tesla\ufffd: the cells below build for it"),
    (NVIDIA_SMI, False, "Tesla T4, but no nvcc."),
    (NO_DRIVER, True, "There is no GPU here. In Colab: Runtime → Change runtime type"),
    (None, False, "There is no GPU here. In Colab: Runtime → Change runtime type")])
def test_the_first_cell(gpu, nvcc, words, tmp_path):
    if gpu:
        command(tmp_path / "nvidia-smi", gpu)
    if nvcc:
        command(tmp_path / "nvcc", "")
    text = (BOOK / "which_gpu.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 8))
    (tmp_path / "cell.py").write_text(text.replace("/usr/local/cuda", str(tmp_path / "none")))
    result = run([sys.executable, "cell.py"], cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(words)


# ---- the address of the repository --------------------------------------------------------------

def links_to_the_outside(files):
    return {name for name, text in files.items() if b"colab.research.google.com/github" in text
            or b"git clone" in text}


def test_without_an_address_none_is_made_up(copy):
    (copy / "book" / "repository").write_text("REPOSITORY=\n")
    (copy / "book" / "book.ipynb").write_text("from an earlier address")
    assert weave_in(copy).returncode == 0
    assert links_to_the_outside({name: text for name, text in files_of(copy).items()
                                 if name != "README.md"}) == set()
    assert not (copy / "book" / "book.ipynb").exists()
    notebook = copy / CHAPTERS[0].parent.name / f"{CHAPTERS[0].stem}.ipynb"
    assert "File → Upload notebook" in notebook.read_text(encoding="utf-8")


def test_with_an_address(copy):
    (copy / "book" / "repository").write_text("REPOSITORY=somebody/some.cuda\n")
    assert weave_in(copy).returncode == 0
    github = "https://colab.research.google.com/github/somebody/some.cuda/blob/main"
    for chapter in CHAPTERS:
        name = f"{chapter.parent.name}/{chapter.stem}.ipynb"
        for path in (f"{chapter.parent.name}/README.md", name):
            text = (copy / path).read_text(encoding="utf-8")
            assert text.count(f"({github}/{name})") == 1
            assert "File → Upload notebook" not in text
    whole = [text for _, text in cells_of(copy / "book" / "book.ipynb")]
    assert f"({github}/book/book.ipynb)" in whole[0]
    assert ("!git clone --depth 1 https://github.com/somebody/some.cuda\n%cd some.cuda") in whole
    assert "!make run" in whole
    try:
        import nbformat
    except ImportError:
        not_run("no nbformat here")
    nbformat.validate(nbformat.read(copy / "book" / "book.ipynb", as_version=4))


@pytest.mark.parametrize("line", ["", "REPOSITORY=https://github.com/a/b", "REPOSITORY=a",
                                  "REPOSITORY=a/b/c", "REPOSITORY=a/b\nREPOSITORY=c/d"])
def test_an_address_that_is_none(copy, line):
    (copy / "book" / "repository").write_text(f"{line}\n")
    result = weave_in(copy)
    assert result.returncode == 1
    assert "weave.py: book/repository: one line REPOSITORY=owner/name" in result.stderr


# ---- another language ---------------------------------------------------------------------------

def test_another_language(copy):
    chapter = CHAPTERS[0].parent.name
    paragraphs = [text for kind, text in weave.pieces_of(CHAPTERS[0].read_text(encoding="utf-8"))
                  if kind == "prose"]
    folder = copy / "book" / "translations" / "ko"
    folder.mkdir(parents=True)
    (folder / f"{chapter}.md").write_text(
        f"<!-- {weave.key_of(paragraphs[0])} -->\n# 벡터 덧셈\n\n"
        f"<!-- {weave.key_of(paragraphs[1])} -->\n첫 문단.\n", encoding="utf-8")
    assert weave_in(copy, "--language", "ko").returncode == 0
    page = (copy / chapter / "README.ko.md").read_text(encoding="utf-8")
    assert "\n# 벡터 덧셈\n" in page and "\n\n첫 문단.\n\n" in page
    assert paragraphs[1] not in page
    mark = f"{paragraphs[3]}\n\n*(not translated since it changed: {weave.key_of(paragraphs[3])})*"
    assert mark in page
    assert page.count("*(not translated since it changed: ") == len(paragraphs) - 2
    assert "not translated" not in (copy / chapter / "README.md").read_text(encoding="utf-8")
    assert (copy / chapter / f"{CHAPTERS[0].stem}.ko.ipynb").is_file()


def test_a_language_that_is_none(copy):
    before = files_of(copy)
    result = weave_in(copy, "--language", "zz")
    assert result.returncode == 1
    assert "weave.py: --language zz: there is no folder book/translations/zz" in result.stderr
    assert files_of(copy) == before


# ---- links --------------------------------------------------------------------------------------

def without_code(markdown):
    text = re.sub(r"^( *)(```+|~~~+).*?^ *\2[ \t]*$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def anchors_of(markdown):
    """The anchors that GitHub makes of headings, and those that a page sets itself."""
    text, found, seen = without_code(markdown), set(), {}
    for heading in re.findall(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", text, re.MULTILINE):
        heading = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading)
        heading = re.sub(r"<[^>]+>", "", heading)
        parts = re.split(r"(`[^`]*`)", heading)     # emphasis goes, but not what code looks like
        heading = "".join(part if part.startswith("`") else re.sub(r"[*]|(?<!\w)_|_(?!\w)", "", part)
                          for part in parts)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def links_of(markdown):
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", without_code(markdown))
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    found += re.findall(r"^ {0,3}\[[^]]+\]:\s*<?(\S+?)>?\s*$", text, re.MULTILINE)
    return found + re.findall(r"<(?:a|img)\b[^>]*?(?:href|src)=\"([^\"]+)\"", text)


def broken_links(folder, pages):
    """["page: link"] of the links that lead nowhere inside the folder, or out of it."""
    broken = []
    for page in pages:
        for link in links_of(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            fine = target.exists() and target.is_relative_to(folder.resolve())
            if fine and anchor:
                if target.is_dir():
                    target = target / "README.md"
                fine = target.suffix == ".md" and target.is_file() and anchor in anchors_of(
                    target.read_text(encoding="utf-8"))
            if not fine:
                broken.append(f"{page.relative_to(folder)}: {link}")
    return broken


def pages_of(folder):
    return [path for path in sorted(folder.rglob("*.md"))
            if not {".venv", ".git", "build", ".pytest_cache"} & set(path.relative_to(folder).parts)]


def test_every_link_leads_somewhere():
    pages = pages_of(REPOSITORY)
    assert len(pages) > len(CHAPTERS)
    assert broken_links(REPOSITORY, pages) == []


def test_links_alone_lead_from_the_readme_to_every_chapter():
    seen, waiting = set(), [REPOSITORY / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        for link in links_of(page.read_text(encoding="utf-8")):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file() and target not in seen:
                waiting.append(target)
    assert {chapter.parent / "README.md" for chapter in CHAPTERS} <= seen


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "other.md").write_text(
        "# How `CUDA_CHECK` is *made*, really?\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text("""# One two
[a](#one-two) [b](other.md#how-cuda_check-is-made-really) `[code](nowhere)` [c](#three)
![i](picture.svg) [![in a link](badge.svg)](other.md) [e](https://example.org/x) [f](/etc/passwd)
[g](../outside.md) [h](other.md#no-heading) [i](<other.md#twice-1>) [j](other.md#twice-2)

```
[in a fence](nowhere)
```

[ref]: missing.md
<img src="gone.png">
""")
    assert broken_links(tmp_path, [page]) == [f"page.md: {link}" for link in [
        "#three", "picture.svg", "badge.svg", "/etc/passwd", "../outside.md", "other.md#no-heading",
        "other.md#twice-2", "missing.md", "gone.png"]]
