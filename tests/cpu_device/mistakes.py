"""What catches which mistake.

Every defects/*.cu is a small program with one mistake. The comment on top of it says what a run
shows and which tool names the mistake. This module reads that comment and runs the tools;
test_defects.py holds the one against the other. As a script it writes the table of what it saw to
defects/README.md.
"""

import os
import re
import signal
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
WATCHDOG, LIMIT = 5, 120


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
    output = re.sub(r"^cpu_device/run: .*\n", "", result.stdout, flags=re.MULTILINE)
    if result.returncode < 0:
        output += f"killed by {signal.Signals(-result.returncode).name}\n"
    return result.returncode, output


def portable(text):
    """Without what differs from machine to machine: folders and addresses."""
    text = text.replace(f"{HERE / 'defects'}/", "")
    text = re.sub(r"0x[0-9a-f]{9,}", "0x…", text)
    text = re.sub(r"^cpu device: *", "", text, flags=re.MULTILINE)
    return re.sub(r"\s*\n\s*", "; ", text)


def code(text):
    mark = "``" if "`" in text else "`"
    return mark + text.replace("|", "\\|") + mark


def row(defect, plain_output, tool_output):
    """The table's line for a defect."""
    shown = portable(plain_output.partition("\n")[0])
    message = re.search(defect.message, tool_output, re.DOTALL)
    named = portable(message.group()) if message else "nothing"
    if defect.tool == PLAIN:
        names = "the run" if defect.line else "the program's own check"
    else:
        names = f"`{defect.tool}`"
    if named not in shown:
        names += f": {code(named)}"
    if defect.line:
        line = defect.path.read_text(encoding="utf-8").splitlines()[defect.line - 1]
        names += f", line {defect.line}: {code(line.partition('// MISTAKE')[0].strip())}"
    return f"| [{defect.mistake}]({defect.path.name}) | {code(shown)} | {names} |"


def table(rows):
    return "\n".join([
        "# Mistakes, and what names them",
        "",
        "Each program here holds one mistake, on the line that says so. The table is made from a",
        "run of them all on the CPU device; `python3 tests/cpu_device/mistakes.py` makes it anew.",
        "",
        "| Mistake | What a run shows first | What names it |",
        "|---|---|---|",
        *rows,
        ""])


def observe(defect):
    """A plain run of the defect, with one worker so that it is the same each time, and one under
    its tool: exit status and output of both."""
    plain = run(PLAIN, defect.path, "--workers=1")
    return plain, plain if defect.tool == PLAIN else run(defect.tool, defect.path)


def main():
    rows = []
    for path in DEFECTS:
        defect = read(path)
        rows.append(row(defect, *(output for _, output in observe(defect))))
    TABLE.write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
