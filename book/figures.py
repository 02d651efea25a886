"""What the results say, as Markdown: the output of a program, tables of figures, pictures."""

import math
import re
import sys
from pathlib import Path

from contents import CHAPTERS, MACHINE, MACHINE_NAME

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "plots"))
import catalogue  # noqa: E402
import drawing  # noqa: E402
import results_reader as reader  # noqa: E402

OUT_OF_DATE = "**Out of date:** the program has changed since."


def generated(what, text):
    return f"<!-- generated: {what} -->\n\n{text}\n\n<!-- end -->"


def blocks(*texts):
    return "\n\n".join(text for text in texts if text)


def data_of(chapter):
    """The data beside a chapter's .cu, such as digits.txt, on which `make run` runs it as well."""
    return sorted((ROOT / chapter).glob("*.txt"))


def printed(path):
    try:
        return path.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise reader.BadResults(f"{path}: not readable: {error}") from error


def output_of(chapter):
    """What the reference runs printed."""
    texts = []
    for mode, arguments in [("", ""), *((f".{data.stem}", f" {data.stem} {data.name}")
                                        for data in data_of(chapter))]:
        path = reader.RESULTS / MACHINE / f"{chapter}{mode}.txt"
        if path.is_file():
            current = reader.is_output_of_this_program(path, chapter)
            texts += [f"On {MACHINE_NAME} `./{chapter[3:]}{arguments}` prints:",
                      "" if current else OUT_OF_DATE, f"```\n{printed(path)}\n```"]
    return generated("output", blocks(*texts)) if texts else ""


# ---- tables -------------------------------------------------------------------------------------

def rows_of(name, results):
    """{sizes: row}, by the row's own name or, of rows name<…>, the fastest."""
    return {row.sizes: row for row in results.named(name) or results.best(name)}


def largest_for_all(table, results):
    """The sizes of the largest problem that was timed for all rows of a table."""
    found = [set(rows_of(name, results)) for name in table.rows if rows_of(name, results)]
    return max(set.intersection(*found), key=math.prod, default=None) if found else None


def figure(what, name, sizes, table, results):
    """The time, the rate or the share of a row, in words; nothing where there is none."""
    row = rows_of(name, results).get(sizes)
    work = row and getattr(row, table.of)
    if row and what == "time":
        return drawing.write_time(row.seconds, drawing.three_digits)
    if work and what == "rate":
        return drawing.write_rate(work / row.seconds, table.of, drawing.three_digits)
    whole = rows_of(table.ceiling, results).get(sizes)
    if work and whole and what == "share":
        share = work / row.seconds / (getattr(whole, table.of) / whole.seconds)
        return drawing.write_share(share, drawing.three_digits)
    return ""


def table_of(table, results):
    sizes = table.sizes or largest_for_all(table, results)
    lines = [[label, *(figure(what, name, sizes, table, results)
                       for what in ("time", "rate", "share"))]
             for name, label in table.rows.items() if sizes in rows_of(name, results)]
    if not lines:
        return ""
    shape = " × ".join(map(str, sizes))
    if len(sizes) == 1:
        shape = f"{reader.exactly(*sizes)} elements"
    lines = [[shape, "time", "rate", table.share], ["---", "---:", "---:", "---:"], *lines]
    filled = [column for column in range(4) if any(line[column] for line in lines[2:])]
    return "\n".join(f"| {' | '.join(line[column] for column in filled)} |" for line in lines)


def tables_of(chapter):
    results = reader.load(MACHINE, chapter)
    if results is None:
        return ""
    facts = results.context
    missing = [name for name in ("gpu", "driver", "toolkit", "threads", "cpu") if name not in facts]
    if missing:
        raise reader.BadResults(f"{reader.results_file(MACHINE, chapter)}: not from `make bench`: it "
                                f"does not say {', '.join(missing)}")
    where = (f"{facts['gpu']}, driver {facts['driver']}, CUDA {facts['toolkit']}; "
             f"CPU: {facts['threads']} threads of {facts['cpu']}. Medians of "
             f"{max(row.repetitions for row in results.rows)} repetitions.")
    return generated("tables", blocks(
        where, "" if reader.times_this_program(results, chapter) else OUT_OF_DATE,
        *(table_of(table, results) for table in CHAPTERS[chapter].tables)))


# ---- pictures -----------------------------------------------------------------------------------

def names_of_pictures(chapter):
    return {picture.name for picture in catalogue.PICTURES.get(chapter, ())}


def pictures_of(chapter):
    """{name: Markdown} of a chapter's pictures. What one has said, the next does not repeat."""
    found, said = {}, set()
    for file, title, caption, current in catalogue.pictures(MACHINE, chapter):
        path = f"plots/pictures/{MACHINE}/{file}"
        if not (ROOT / path).is_file():
            print(f"{path} is missing: `make plots` draws it", file=sys.stderr)
            continue
        words = "" if caption in said else caption
        said.add(caption)
        found[file[len(chapter) + 1:-len(".svg")]] = generated("picture", blocks(
            f"![{title}](../{path})", words, "" if current else OUT_OF_DATE))
    return found


# ---- the table of contents ----------------------------------------------------------------------

def reached(chapter):
    """What a chapter reaches, or nothing where not all of its figures have been measured."""
    results = reader.load(MACHINE, chapter)
    if results is None:
        return ""
    table = CHAPTERS[chapter].tables[0]
    default = table.sizes or largest_for_all(table, results)
    missing = []

    def fill(match):
        name, at, what = match.groups()
        sizes = tuple(map(int, at.split("/"))) if at else default
        found = figure(what, name, sizes, table, results)
        return found or missing.append(match[0]) or ""

    words = re.sub(r"\{([^{}@]+?)(?:@([\d/]+))?:(\w+)\}", fill, CHAPTERS[chapter].reaches)
    stale = "" if reader.times_this_program(results, chapter) else " (out of date)"
    return "" if missing else words + stale


def chapters_table(titles):
    lines = [f"| chapter | the question | what you build | on {MACHINE_NAME} |",
             "|---|---|---|---|"]
    for chapter, title in titles.items():
        about = CHAPTERS[chapter]
        link = f"[{chapter[:2]} {title.partition(':')[0]}]({chapter}/README.md)"
        lines.append(f"| {link} | {about.question} | {about.builds} | {reached(chapter)} |")
    return "\n".join(lines)


# ---- the tests ----------------------------------------------------------------------------------

def tests_came_to():
    """The lines that the last whole runs of the tests came to, on each machine, without the modes' names."""
    lines = [re.sub(r" \(.*?\)", "", printed(path)) for path in sorted(reader.RESULTS.glob("*/tests.txt"))]
    return "\n".join(["```", *lines, "```"]) if lines else ""
