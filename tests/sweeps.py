#!/usr/bin/env python3
"""Runs every chapter over and over: what one run does not show, many do.

Shapes that nobody chose, sanitizers on the odd ones, the same run twenty times, leaks, memory that
grows. What was run, how often and with what result goes to plots/results/<machine>/sweeps.txt;
`--only` and `--quick` print it and keep nothing. A failure is shown when it happens and the rest
goes on. Needs the standard library alone.
"""

import argparse
import datetime
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "plots"))
import results_reader as reader  # noqa: E402

MIB = 1 << 20

# How many sizes a chapter's program takes, and how large their product may be: a shape is to take
# about a second on a GPU at most, and its counterpart on the CPU takes longer than its kernels.
SHAPES = {
    "01_vector_add": ((1,), 1_000_000),
    "02_error_checking": ((1,), 10_000_000),
    "03_thread_hierarchy": ((1,), 10_000_000),
    "04_matrix_2d_3d": ((2, 3), 10_000_000),
    "05_device_functions": ((1,), 3_000_000),
    "06_matmul": ((3,), 100_000_000),
    "07_neural_layer": ((3,), 30_000_000),
}

# Chapter 2 without arguments makes mistakes, so sanitizers get its right part alone.
SOUND = {"02_error_checking": ["100000"]}

# What may differ between two runs of a program: in chapter 3 the SM that a block ran on, and the
# memory that others leave free. No program prints a time.
VARIES = [(r"^(  block \d+, )SM \d+ *", r"\1SM "), (r", [\d.]+ GB of them free", "")]

# Google Benchmark keeps the time of each repetition, and a driver its tables. A buffer that twenty
# repetitions more forget is far beyond this at the sizes that we time.
MAY_GROW = 4 * MIB


class Sweeps:
    def __init__(self, options):
        self.device, self.quick, self.build = options.device, options.quick, options.build
        self.only = options.only or PHASES
        self.seed, self.limit = options.seed, options.timeout
        self.gpu = self.device == "gpu"
        known = sorted(path.parent.name for path in ROOT.glob("[0-9][0-9]_*/*.cu")
                       if path.stem == path.parent.name[3:])
        self.chapters = [name for name in known
                         if not options.chapters or name[:2] in options.chapters]
        # The CPU device uses all cores for one program.
        self.jobs = options.jobs or (max(1, (os.cpu_count() or 2) - 2) if self.gpu else 1)
        self.lines, self.runs, self.failures = [], 0, 0
        self.began = time.monotonic()

    def say(self, text):
        print(f"[{time.monotonic() - self.began:5.0f} s] {text}", flush=True)

    # ---- commands ----

    def command(self, words, env=None, watch=None):
        """(exit code, standard output and error) of a command; it is ended when its time is up."""
        env = {**os.environ, "CPU_DEVICE_QUIET": "1", "BUILD": self.build, **(env or {})}
        try:
            process = subprocess.Popen([str(word) for word in words], cwd=ROOT, env=env, text=True,
                                       errors="replace", stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        except OSError as error:
            return 127, str(error)
        if watch:
            threading.Thread(target=watch, args=(process,), daemon=True).start()
        try:
            output, _ = process.communicate(timeout=self.limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise

    def program(self, chapter, suffix=""):
        return Path(self.build) / self.device / (chapter + suffix)

    def fails(self, words, *, env=None, passes=True):
        """What is wrong with a run, or None where its exit code is 0 and its last line PASS."""
        code, output = self.command(words, env)
        if code == 0 and (not passes or output.splitlines()[-1:] == ["PASS"]):
            return None
        how = "is not over" if code is None else f"exit code {code}"
        last = "\n".join(output.splitlines()[-12 if passes else -100:])   # a sanitizer says more
        return f"{how}: {' '.join(f'{k}={v} ' for k, v in (env or {}).items())}" \
               f"{' '.join(map(str, words))}\n{last}"

    # ---- the report ----

    def note(self, chapter, what, problems):
        """One line of the report, of as many runs as there are problems and Nones."""
        problems = list(problems)
        bad = [problem for problem in problems if problem]
        self.runs += len(problems)
        self.failures += len(bad)
        result = f"{len(bad)} FAILED" if bad else "passed"
        self.lines.append(f"{chapter:<20} {what:<48} {len(problems):>4}  {result}")
        self.say(self.lines[-1])
        for problem in bad[:5]:
            print("    " + problem.replace("\n", "\n    "), flush=True)

    def at_once(self, work):
        """Runs (chapter, function, arguments…) side by side: chapter after chapter, what they
        returned."""
        pool = ThreadPoolExecutor(self.jobs)
        try:
            futures = [(chapter, pool.submit(*call)) for chapter, *call in work]
            for chapter in self.chapters:
                yield chapter, [future.result() for name, future in futures if name == chapter]
        finally:
            pool.shutdown(cancel_futures=True)

    # ---- shapes ----

    def shapes(self, chapter, count):
        """Seeded, the same each time: small and large alike, with 0, 1 and the neighbours of powers
        of two oftener than by chance."""
        dice = random.Random(f"{self.seed} {chapter}")
        dimensions, most = SHAPES[chapter]
        if not self.gpu:
            most //= 100
        found = []
        while len(found) < count:
            room = int(2 ** dice.uniform(0, math.log2(most)))
            shape = []
            for _ in range(dice.choice(dimensions)):
                size = int(2 ** dice.uniform(0, math.log2(room + 1)))
                if dice.random() < 0.3:
                    size = (1 << size.bit_length() - 1) + dice.randrange(-1, 2)
                if dice.random() < 0.05:
                    size = dice.randrange(2)
                size = min(size, room)
                room //= max(size, 1)
                shape.append(str(size))
            dice.shuffle(shape)
            found.append(shape)
        return found

    def sweep_shapes(self):
        count = 12 if self.quick else 200 if self.gpu else 40
        found = self.at_once((chapter, self.fails, [self.program(chapter), *shape])
                             for chapter in self.chapters
                             for shape in self.shapes(chapter, count))
        for chapter, problems in found:
            self.note(chapter, f"random shapes, seed {self.seed}", problems)

    # ---- sanitizers ----

    def sweep_sanitizers(self):
        """make/sanitize has every tool look at one run."""
        def sanitize(chapter, *shape):
            return self.fails(["sh", "make/sanitize", chapter, *shape], passes=False,
                              env={"DEVICE": self.device, "NVCC": nvcc() or ""})

        tools = ("memcheck, racecheck, initcheck, synccheck" if self.gpu else
                 "ASan, UBSan, TSan, CUDA's rules")
        odd = {chapter: [shape for shape in self.shapes(chapter, 100)
                         if 1 < math.prod(map(int, shape)) < 100_000][:1 if self.quick else 3]
               for chapter in self.chapters}
        found = self.at_once((chapter, sanitize, chapter, *shape) for chapter in self.chapters
                             for shape in [[], *odd[chapter]])
        for chapter, problems in found:
            self.note(chapter, tools, problems)

    # ---- the same again ----

    def sweep_repeats(self):
        repeats = 3 if self.quick else 20

        def fails(chapter, env, expected):
            code, output = self.command([self.program(chapter)], env)
            for pattern, instead in VARIES:
                output = re.sub(pattern, instead, output, flags=re.MULTILINE)
            first = expected.setdefault(chapter, output)
            if code == 0 and output == first:
                return None
            lines = [f"    {one!r}\n    {two!r}" for one, two in
                     zip(first.splitlines(), output.splitlines()) if one != two]
            return f"exit code {code}, lines that differ:\n" + "\n".join(lines[:5])

        expected = {}                   # one text for all runs, whatever the variable says
        for value in "0", "1":
            found = self.at_once(
                (chapter, fails, chapter, {"CUDA_LAUNCH_BLOCKING": value}, expected)
                for chapter in self.chapters for _ in range(repeats))
            for chapter, problems in found:
                self.note(chapter, f"the same output, CUDA_LAUNCH_BLOCKING={value}", problems)

    # ---- leaks ----

    def sweep_leaks(self):
        """Nothing that was allocated is left when a program ends. That the tool would say so is
        seen on chapter 1 without one of its cudaFree."""
        folder = Path(self.build).resolve() / "sweeps"
        folder.mkdir(parents=True, exist_ok=True)
        # compute-sanitizer counts when the context is destroyed, which a program that just ends
        # leaves to the driver. The CPU device counts by itself, and AddressSanitizer the host's.
        at_the_end = "CUDA_CHECK(cudaDeviceReset())" if self.gpu else (
            "[] { size_t free, total; if (cudaMemGetInfo(&free, &total) || free != total) "
            'std::puts("device memory is left"), std::exit(99); }()')

        def fails(chapter, source, name):
            path, arguments = folder / f"{name}.cu", SOUND.get(chapter, [])
            if 'std::puts("PASS")' not in source:
                return "does not say PASS in a way that is known here"
            source = source.replace('std::puts("PASS")', f'{at_the_end}, std::puts("PASS")')
            path.write_text(source, encoding="utf-8")
            if not self.gpu:
                return self.fails(["sh", "cpu_device/run", "--asan", path, *arguments],
                                  env={"ASAN_OPTIONS": "detect_leaks=1:exitcode=99"})
            return self.fails([nvcc(), "-O1", "-arch=native", path, "-o", folder / name],
                              passes=False) or self.fails(
                [compute_sanitizer(), "--leak-check", "full", "--error-exitcode", "99",
                 folder / name, *arguments], passes=False)

        sources = {chapter: (ROOT / chapter / f"{chapter[3:]}.cu").read_text(encoding="utf-8")
                   for chapter in self.chapters}
        found = self.at_once((chapter, fails, chapter, source, chapter)
                             for chapter, source in sources.items())
        for chapter, problems in found:
            self.note(chapter, "no leak", problems)
        good = (ROOT / "01_vector_add" / "vector_add.cu").read_text(encoding="utf-8")
        leaks = good.replace("    CUDA_CHECK(cudaFree(d_c));\n", "")
        told = leaks != good and fails("01_vector_add", leaks, "leaks")
        self.note("01_vector_add", "a leak on purpose is reported",
                  [None if told and "exit code 99" in told else f"it is not: {told}"])

    # ---- growth ----

    def sweep_growth(self):
        """One at a time, since what is seen of the device's memory is that of all programs."""
        for chapter in self.chapters:
            row, problem = self.grows(self.program(chapter, "_bench"))
            self.note(chapter, f"memory over 30 x {row}", [problem])

    def grows(self, bench):
        """(row, problem or None): the most memory used in 30 repetitions exceeds that in 10."""
        code, output = self.command([bench, "--benchmark_list_tests=true"])
        rows = [line for line in output.splitlines() if line.startswith(f"{self.device}_")]
        if code != 0 or not rows:
            return "-", f"no rows: exit code {code}: {bench}\n{output}"
        # The largest that does not take minutes; of several, one with transfers.
        most = math.inf if self.gpu else 1 << 22
        rows = [row for row in rows if elements(row) <= most]
        full = max(rows, key=lambda row: (elements(row), "with_transfers" in row))
        name, sizes, _ = reader.split_name(full)
        row = f"{name} {'x'.join(map(str, sizes))}"
        literal = re.sub(r"[][().*+?^$|{}\\]", r"\\\g<0>", full)
        peaks = {}
        for repetitions in 10, 30:
            host, device = [0], [0]
            with DeviceMemory(device, self.gpu):
                code, output = self.command(
                    [bench, f"--benchmark_filter=^{literal}$",
                     f"--benchmark_repetitions={repetitions}"],
                    watch=lambda process: watch(process, host))
            if code != 0 or "ERROR OCCURRED" in output or output.count(full) < repetitions:
                return row, f"exit code {code}: {bench}\n{output[-2000:]}"
            peaks[repetitions] = max(host), max(device)
        for what, few, many in zip(("host", "device"), peaks[10], peaks[30]):
            if many - few > MAY_GROW or many == 0 and (what == "host" or self.gpu):
                return row, f"memory of the {what}: {few} bytes in 10 repetitions, {many} in 30"
        return row, None


def elements(row):
    _, sizes, named = reader.split_name(row)
    return math.prod(sizes) // math.prod(named[key] for key in reader.SETTINGS if key in named)


def watch(process, samples):
    """Appends the most memory that the process has used so far, until it ends."""
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            samples.append(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024)
        except (OSError, TypeError):
            pass                        # it has just ended
        time.sleep(0.02)


class DeviceMemory:
    """Appends what of the GPU's memory is used, every tenth of a second.

    Of the whole GPU: in a container nvidia-smi does not see which process uses how much.
    """

    def __init__(self, samples, gpu):
        self.process = None
        if not gpu:
            return
        number = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]
        self.process = subprocess.Popen(
            ["nvidia-smi", "-i", number, "--query-gpu=memory.used",
             "--format=csv,noheader,nounits", "-lms", "100"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.process.stdout.readline()  # it looks from now on

        def read():
            samples.extend(int(line) * MIB for line in self.process.stdout if line.strip())

        threading.Thread(target=read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()


def nvcc():
    return shutil.which(os.environ.get("NVCC") or "nvcc") or shutil.which(
        "nvcc", path=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin")


def compute_sanitizer():
    return shutil.which("compute-sanitizer") or str(Path(nvcc() or "").parent / "compute-sanitizer")


PHASES = ["shapes", "sanitizers", "repeats", "leaks", "growth"]


def at_least_1(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", metavar="NN", help="01, say (default: every one)")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--only", nargs="+", choices=PHASES, metavar="PHASE",
                        help=f"some of: {' '.join(PHASES)}")
    parser.add_argument("--quick", action="store_true", help="fewer runs of everything")
    parser.add_argument("--build", default=os.environ.get("BUILD") or "build", metavar="FOLDER")
    parser.add_argument("--machine", default="", help="folder in plots/results/ (default: as make)")
    parser.add_argument("--jobs", type=at_least_1, help="programs at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=at_least_1, default=300, help="seconds for one run")
    return parser.parse_args()


def main():
    options = arguments()
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"      # as make numbers the GPUs
    sweeps = Sweeps(options)
    unknown = [name for name in sweeps.chapters if name not in SHAPES]
    if unknown or not sweeps.chapters:
        sys.exit(f"tests/sweeps.py: no shapes for {' '.join(unknown or options.chapters)}")
    make = ["make", f"DEVICE={options.device}", f"BUILD={options.build}",
            f"MACHINE={options.machine}"]
    code, info = sweeps.command([*make, "info"])
    machine = re.search(r"^results +plots/results/(.*)/$", info, re.MULTILINE)
    if code != 0 or not machine:
        sys.exit(info)
    sweeps.say(info.splitlines()[0])
    if options.device == "gpu" and "compute capability" not in info.splitlines()[0]:
        sys.exit("tests/sweeps.py: there is no GPU here; --device cpu sweeps without one")
    numbers = [name[:2] for name in sweeps.chapters]
    benches = [sweeps.program(name, "_bench") for name in sweeps.chapters]
    code, output = sweeps.command([*make, "-k", f"-j{max(sweeps.jobs, 2)}",
                                   *(f"build-{number}" for number in numbers),
                                   *(benches if "growth" in sweeps.only else [])])
    sweeps.note("", "built", [output if code else None])

    for phase in sweeps.only:
        getattr(sweeps, f"sweep_{phase}")()

    verdict = f"FAIL: {sweeps.failures} of {sweeps.runs} runs" if sweeps.failures else "PASS"
    hashes = [f"{name:<20} code {reader.source_hash(name, '--program')}"
              for name in sweeps.chapters]
    report = [f"{info.splitlines()[0].removeprefix('device: ')}",
              f"{datetime.date.today()}, {sweeps.runs} runs in "
              f"{time.monotonic() - sweeps.began:.0f} s, {sweeps.jobs} at once",
              *hashes, *sweeps.lines, verdict]
    print("\n" + "\n".join(report))
    if not (options.only or options.quick or options.chapters):
        path = ROOT / "plots" / "results" / machine[1] / "sweeps.txt"
        reader.write_whole(path, "\n".join(report) + "\n")
        print(f"kept as {path.relative_to(ROOT)}", file=sys.stderr)
    return int(sweeps.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
