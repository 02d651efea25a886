#!/usr/bin/env python3
"""What catches which mistake.

Every defects/*.cu is a small program with one mistake. The comment on top of it says what a run
shows and which tool names the mistake. This module reads that comment and runs the tools;
test_defects.py holds the one against the other. As a script it writes the table of what it saw to
defects/README.md.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = HERE.parent.parent / "cpu_device" / "run"
DEFECTS = sorted((HERE / "defects").glob("*.cu"))
TABLE = HERE / "defects" / "README.md"

PLAIN = "plain run"
TOOLS = (PLAIN, "--asan", "--tsan", "--lint")

# Seconds before a kernel that spins is given up, and before a run is.
WATCHDOG, LIMIT = 2, 120


@dataclass
class Defect:
    path: Path
    mistake: str        # in words
    sees: str           # pattern of what a plain run prints, where the tool is another
    tool: str           # what names the mistake
    message: str        # pattern of how
    line: int           # the line that it names, or 0
    corrected: str      # the same program without the mistake


def read(path):
    """A defect, from its file."""
    text = path.read_text(encoding="utf-8")
    comment = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        comment.append(line[3:])
    words, _, rest = "\n".join(comment).partition("\n\n")
    field = dict(re.match(r"(\w+): +(.*)", line).groups() for line in rest.splitlines())
    unknown = field.keys() - {"sees", "tool", "message", "line", "corrected"}
    if unknown or field.get("tool") not in TOOLS:
        raise ValueError(f"{path.name}: {unknown or field.get('tool')} is unknown")

    body = text.splitlines()[len(comment):]
    def number_of(part):
        found = [i for i, line in enumerate(body) if part in line]
        if len(found) != 1:
            raise ValueError(f"{path.name}: {len(found)} lines hold '{part}'")
        return found[0]

    wrong = number_of("// MISTAKE: ")
    indent = re.match(" *", body[wrong]).group()
    right = body[:wrong] + [indent + field["corrected"]] + body[wrong + 1:]
    return Defect(path, " ".join(words.split()), field.get("sees", ""), field["tool"],
                  field["message"],
                  len(comment) + 1 + number_of(field["line"]) if "line" in field else 0,
                  "\n".join(["//"] * len(comment) + right) + "\n")


def run(tool, path, *options):
    """Runs a program under a tool. Returns its exit status and all that the two print."""
    command = [RUN, *([] if tool == PLAIN else [tool]), *options, path]
    environment = os.environ | {"CPU_DEVICE_QUIET": "1", "CPU_DEVICE_TIMEOUT": str(WATCHDOG)}
    result = subprocess.run([str(word) for word in command], env=environment, timeout=LIMIT,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")
    about_the_build = re.compile(r"^cpu_device/run: .*\n", re.MULTILINE)
    return result.returncode, about_the_build.sub("", result.stdout)


def seen(output):
    """The line of a plain run's output that tells most: the device's or the verdict."""
    lines = [line for line in output.splitlines() if line]
    told = [line for line in lines if line.startswith("cpu device: ")] or lines[:1]
    return portable(told[0] if told else "")


def portable(text):
    """Without what differs from machine to machine: folders and addresses."""
    text = re.sub(r"\S*/(?=[^/\s]+\.cu)", "", text)
    text = re.sub(r"0x[0-9a-f]{9,}", "0x…", text)
    return re.sub(r"\s*\n(cpu device:)?\s*", "; ", text)


def row(defect, plain_output, tool_output):
    """The table's line for a defect."""
    def code(text):
        return "`" + text.replace("|", "\\|") + "`" if text else ""

    named = re.search(defect.message, tool_output, re.DOTALL)
    named = portable(named.group()) if named else "nothing"
    source = defect.path.read_text(encoding="utf-8").splitlines()
    what = code(named) if defect.tool == PLAIN else f"`{defect.tool}`: {code(named)}"
    if defect.line:
        text = re.sub(r"\s*// MISTAKE.*", "", source[defect.line - 1]).strip()
        what += f", line {defect.line}: {code(text)}"
    return f"| [{defect.path.stem}]({defect.path.name}) | {defect.mistake} " \
           f"| {code(seen(plain_output))} | {what} |"


def table(rows):
    return "\n".join([
        "# Mistakes, and what names them",
        "",
        "Each program here holds one mistake, on the line that says so. The table is made from a",
        "run of them all on the CPU device; `python3 tests/cpu_device/mistakes.py` makes it anew.",
        "",
        "| Program | Mistake | What a run shows | What names it |",
        "|---|---|---|---|",
        *rows,
        ""])


def observe(defect):
    """A plain run of the defect, with one worker so that it is the same each time, and one under
    its tool: exit status and output of both."""
    plain = run(PLAIN, defect.path, "--workers=1") if defect.tool != "--lint" else (0, "")
    return plain, plain if defect.tool == PLAIN else run(defect.tool, defect.path)


def main():
    rows = []
    for path in DEFECTS:
        defect = read(path)
        rows.append(row(defect, *(output for _, output in observe(defect))))
    TABLE.write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
