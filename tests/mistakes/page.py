"""Applies the mistakes of table.py and writes down what is seen: README.md, a page of the book.

As a script it makes that page anew, from a run of all of them on the CPU device.
"""

import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from conftest import BUILD, QUICK, REPOSITORY, chapter_with, mutate, run, write_source  # noqa: E402
from table import ASAN, CHECK, CLOCK, COMPILER, DEVICE, LINT, MISTAKES, TSAN  # noqa: E402

HEAD = '''# Mistakes in the chapters, and who names them

Each row is a mistake that beginners make, put into a chapter by changing a few words, and then run.
*What you see* is what a plain run on the CPU device prints: its verdict, the CUDA error that ends
it, or what the CPU device says about the thread that went astray. (The sign of a NaN, which means
nothing, is left out.) The program's own check compares results and cannot name a line. `CUDA_CHECK`
names the line of the call that reports the error. The CPU device names kernel, block and thread, and
what they use; for the line in the kernel run the same with `--asan`. `make test` makes every one of
these mistakes but those of the clock, which need a GPU, and fails if one is not caught.

`make mistakes` writes this page, from a run of them all.'''
CLOCK_HEAD = '''
## The clock

The results are right here, and a time or a count is not. No check of the results sees that. A
figure shows it: one above the ceiling that was measured beside it, which no GPU reaches, or one
that makes no sense. `DEVICE=gpu make test` makes these mistakes too.

| Chapter | Mistake | What you see, on a GPU |
|---|---|---|'''
PAGE = HERE / "README.md"
RUN = REPOSITORY / "cpu_device" / "run"
# One worker, so that it is always the same thread that is named first.
SAME_EACH_TIME = {"CPU_DEVICE_QUIET": "1", "CPU_DEVICE_WORKERS": "1", "CUDA_LAUNCH_BLOCKING": None}
CUDA_ERROR = r"\w+\.cu:(\d+): (cudaError\w+): .*\n {4}(.*)"
FAULT = r"cpu device: (?!the program ended)(.*)"


def chapter_of(mistake):
    return chapter_with(mistake.chapter)


def edited(mistake):
    """The text of the chapter with the mistake in it."""
    text = chapter_of(mistake).read_text(encoding="utf-8")
    for inside, old, new in mistake.edits:
        text = mutate(text, old, new, inside=inside)
    return text


def switched(number):
    """The text of a chapter with all its switched mistakes in it, of which it makes the one that
    the environment has the number of. It is built once, and not for each of them."""
    text = chapter_with(number).read_text(encoding="utf-8")
    those = [(i, *edit) for i, mistake in enumerate(MISTAKES)
             if mistake.switched and mistake.chapter == number for edit in mistake.edits]
    places = {}
    for i, inside, old, new in those:
        # An edit in the middle of what another one replaces is made there as a whole.
        around = max((other for _, where, other, _ in those if where == inside and old in other), key=len)
        edits = places.setdefault((inside, around), {})
        edits[i] = mutate(edits.get(i, around), old, new)
    for (inside, old), edits in places.items():
        if old.rstrip().endswith(";"):              # statements, on lines of their own: the page shows them
            choice = "".join(f"if (mistake == {i}) {{\n{new}\n}} else " for i, new in edits.items())
            new = f"{{ {choice}{{\n{old}\n}} }}\n"
        else:                                       # an expression
            new = "(" + "".join(f"mistake == {i} ? {new} : " for i, new in edits.items()) + old + ")"
        text = mutate(text, old, new, inside=inside)
    text = mutate(text, "#include <vector>\n", "#include <vector>\n__managed__ int mistake = -1;\n")
    main = "int main(int argc, char** argv)\n{\n"
    return mutate(text, main, main + """    if (std::getenv("MISTAKE"))
        mistake = std::atoi(std::getenv("MISTAKE"));
""")


def file_of(text, name):
    """The text in a file of this name, which is another one for each text."""
    folder = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = BUILD / "tests" / "mistakes" / folder / name
    write_source(path, text)
    return path


def source_of(mistake):
    text = switched(mistake.chapter) if mistake.switched else edited(mistake)
    return file_of(text, chapter_of(mistake).name)


def flags_of(mistake):
    """What is built for one mistake is built quickly; what is built for many is to run quickly."""
    return () if mistake.switched else QUICK


def run_plainly(mistake, program, arguments, *tool):
    which = {"MISTAKE": MISTAKES.index(mistake)} if mistake.switched else {}
    return run([*tool, program, *arguments], env=SAME_EACH_TIME | which, timeout=180)


def run_tool(mistake, source):
    """What a tool makes of the first run."""
    arguments = [] if mistake.tool == LINT else mistake.runs[0]
    return run([RUN, mistake.tool, source, *arguments], timeout=300,
               env=SAME_EACH_TIME | {"CXX": None, "CXXFLAGS": None})


@dataclass
class Seen:
    source: Path
    plain: subprocess.CompletedProcess | None     # the first run, unless nothing can be run
    tool: subprocess.CompletedProcess | None      # what the tool or the compiler does


def see(mistake, program_of):
    """All that the page tells of a mistake. program_of(mistake, source) builds it."""
    source, tool = source_of(mistake), None
    if mistake.tool == LINT:
        return Seen(source, None, run_tool(mistake, source))
    if mistake.tool == COMPILER:
        tool = run([RUN, "--cxx=g++", "--build", "-o", source.with_suffix(".strict"), source], timeout=120,
                   env={"CXXFLAGS": "-O0 -g0 -Wall -Wextra -Werror"})
        if re.search(r"error: (?!.*\[-Werror)", tool.stderr):
            return Seen(source, None, tool)
    plain = run_plainly(mistake, program_of(mistake, source), mistake.runs[0])
    return Seen(source, plain, tool or (run_tool(mistake, source) if mistake.tool in (ASAN, TSAN) else None))


def verdict(result):
    """What a run ends with: FAIL, or an error of CUDA's, or its last line."""
    last = (result.stdout.splitlines() or [""])[-1]
    error = re.search(CUDA_ERROR, result.stderr)
    return last if last.startswith("FAIL: ") or not error else error.group().partition("\n")[0]


def fault(result):
    """What the CPU device says of a kernel that went wrong, or None."""
    found = re.search(FAULT, result.stderr)
    return found and found[1]


def is_caught(result):
    """A run that nobody takes for a good one."""
    return (result.returncode != 0 and "PASS" not in result.stdout
            and (verdict(result).startswith("FAIL: ") or re.search(CUDA_ERROR, result.stderr) is not None))


# The page.

def portable(text):
    """Without what differs between machines, or with every edit further up in the chapter."""
    for pattern, instead in ((r"0x[0-9a-f]{9,}", "0x…"), (r"-nan\b", "nan"), (r"\.cu:\d+:", ".cu:"),
                             (r"\bline \d+", "line …")):
        text = re.sub(pattern, instead, text)
    return text


def code(text):
    mark = "``" if "`" in text else "`"
    return mark + text.replace("|", "\\|") + mark


def line_of(source, number):
    """A line of the source as code, without the remark behind it."""
    line = source.read_text(encoding="utf-8").splitlines()[int(number) - 1]
    return code(re.sub(r" *// .*", "", line.strip()))


def named(mistake, seen):
    """(how the tool says it, the number of the line that it names)."""
    printed = seen.tool.stdout + seen.tool.stderr
    says = re.search(mistake.says, printed)
    if not says:
        return None
    line = printed.rfind("\n", 0, says.start()) + 1        # a compiler has the number before it
    number = re.search(rf"{seen.source.name}:(\d+)", printed[line:])
    return says.group(), number and number[1]


def row(mistake, seen):
    if mistake.tool == DEVICE:
        shows = code(portable(fault(seen.plain)))
    elif seen.plain:
        shows = code(portable(verdict(seen.plain)))
    else:
        shows = "it does not compile" + (" with nvcc" if mistake.tool == LINT else "")
    if mistake.tool in (CHECK, DEVICE):
        line = mistake.tool == DEVICE and re.search(r"\bline (\d+)", fault(seen.plain))
        error = not verdict(seen.plain).startswith("FAIL: ") and re.search(CUDA_ERROR, seen.plain.stderr)
        who = [f"the CPU device, line {line_of(seen.source, line[1])}" if line else
               "the CPU device" if mistake.tool == DEVICE else "",
               f"`CUDA_CHECK`, line {line_of(seen.source, error[1])}" if error else "the check"]
        names = "; ".join(filter(None, who))
    else:
        says, number = named(mistake, seen)
        who = (f"`{mistake.tool}`" if mistake.tool != COMPILER else
               "the compiler's `-Wall -Wextra`" if seen.plain else "the compiler")
        names = f"{who}: {code(portable(says))}, line {line_of(seen.source, number)}"
    chapter = chapter_of(mistake).parent.name
    return f"| [{mistake.chapter}](../../{chapter}/README.md) | {mistake.words} | {shows} | {names} |"


def page(rows):
    """The page with a row for each mistake."""
    lines = [HEAD]
    for mistake, text in zip(MISTAKES, rows):
        heading = f"\n## {mistake.kind}\n\n| Chapter | Mistake | What you see | Who names it |\n|---|---|---|---|"
        if heading not in lines:
            lines.append(heading)
        lines.append(text)
    return "\n".join([*lines, CLOCK_HEAD, *(
        f"| [{clock.chapter}](../../{chapter_of(clock).parent.name}/README.md) | {clock.words} | {clock.factor} |"
        for clock in CLOCK)]) + "\n"


def main():
    def program_of(mistake, source):
        program = source.with_suffix("")
        built = run([RUN, "--build", "-o", program, source], timeout=300, env={"CXXFLAGS": " ".join(flags_of(mistake))})
        if built.returncode:
            raise SystemExit(f"{mistake.name}: {built.stderr}")
        return program

    def observe(mistake):
        return row(mistake, see(mistake, program_of))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        PAGE.write_text(page(list(pool.map(observe, MISTAKES))), encoding="utf-8")


if __name__ == "__main__":
    main()
