"""The Makefile, on copies of the tree with small chapters, and with tools that only pretend.

A copy lies in a folder with a space in its name. Its CPU device is a stand-in that hands the
chapter to the host compiler; the last tests use the real one.
"""

import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import CHAPTERS, NVCC, REPOSITORY, need, not_run, run

PASSES = '#include <cstdio>\nint main() { std::puts("fine\\nPASS"); }\n'
FAILS = '#include <cstdio>\nint main() { std::puts("FAIL: element 3"); return 1; }\n'

PYTHON = Path(sys.executable).resolve()         # not that of a virtual environment
CORES = run(["nproc"]).stdout.strip()

KNOWN = {
    "11.5": "35 37 50 52 53 60 61 62 70 72 75 80 86 87",
    "12.4": "50 52 53 60 61 62 70 72 75 80 86 87 89 90",
    "12.9": "50 52 53 60 61 62 70 72 75 80 86 87 89 90 100 101 103 120 121",
    "13.0": "75 80 86 87 88 89 90 100 103 110 120 121",
}

STAND_IN = r"""#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        --build) ;;
        -o) program=$2; shift ;;
        --*) mode=$1 ;;
        *) source=$1 ;;
    esac
    shift
done
if [ -n "$mode" ]; then
    echo "$mode $source" >>modes
    ! [ -e "fails$mode" ]
    exit
fi
echo "$source" >>compiled
[ -n "$CXX" ] || CXX=$(command -v g++ || command -v clang++)
exec $CXX -std=c++17 $CXXFLAGS -x c++ "$source" -o "$program" -x none $LDLIBS
"""

# What it "compiles" is a script that passes; of a benchmark, one that keeps its arguments.
FAKE_NVCC = r"""#!/bin/sh
case $1 in
    --version) echo "Cuda compilation tools, release RELEASE, VRELEASE.88"; exit ;;
    --list-gpu-arch) for n in KNOWN; do echo compute_$n; done; exit ;;
esac
echo "$*" >>nvcc.log
verdict=PASS
while [ $# -gt 0 ]; do
    case $1 in
        -o) program=$2 ;;
        *facts.cu) verdict='gpu=GPU "one", two=2\nl2_bytes=1024' ;;
        -DBENCHMARKS) bench=yes ;;
    esac
    shift
done
{
    echo '#!/bin/sh'
    if [ -n "$bench" ]; then
        echo 'for a; do echo "$a" >>bench.arguments; done'
        echo 'for a; do case $a in --benchmark_out=*) echo "}" >"${a#*=}" ;; esac; done'
    else
        echo "printf '$verdict\\n'"
    fi
} >"$program"
chmod +x "$program"
"""


# All that is on the PATH: what the Makefile and its scripts may rely on, and the compilers.
TOOLS = """
    make sh env awk basename cat chmod cmp cp cut dirname find flock grep head id ln lscpu mkdir
    mktemp mv nproc paste printf rm rmdir sed sha256sum sleep sort stdbuf tail tee timeout touch
    tr true uname uniq xargs python3 g++ gcc clang++ ar as ld
"""


class Tree:
    """A copy of what `make` needs, and a PATH of its own from which tools can be taken away."""

    def __init__(self, root):
        self.root = root / "My Drive" / "cuda tut"
        self.bin = root / "bin"
        self.bin.mkdir()
        for name in TOOLS.split():
            if path := PYTHON if name == "python3" else shutil.which(name):
                (self.bin / name).symlink_to(path)
        for part in ("Makefile", "make", "plots/source_hash", "requirements.txt"):
            target = self.root / part
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (REPOSITORY / part).is_dir() else shutil.copy
            copy(REPOSITORY / part, target)
        self.write("cpu_device/run", STAND_IN)
        (self.root / "home").mkdir()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def chapters(self, *texts):
        """Chapters 01_a, 02_b and so on."""
        for number, text in enumerate(texts, 1):
            letter = chr(ord("a") + number - 1)
            self.write(f"{number:02}_{letter}/{letter}.cu", text)

    def hide(self, *tools):
        for tool in tools:
            (self.bin / tool).unlink(missing_ok=True)

    def tool(self, name, script):
        self.hide(name)
        (self.bin / name).write_text(script, encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def nvcc(self, release="13.0"):
        self.tool("nvcc", FAKE_NVCC.replace("RELEASE", release).replace("KNOWN", KNOWN[release]))

    def gpus(self, *capabilities, name="NVIDIA H200", names=(), slices=()):
        """An nvidia-smi that lists these, each with its slices, and knows -i NUMBER."""
        names, caps = names or [name] * len(capabilities), " ".join(capabilities)
        lines = "".join(f"GPU {i}: {each} (UUID: GPU-{i}a-b)\n" for i, each in enumerate(names))
        lines += "".join(f"  MIG {size} Device  {i}: (UUID: MIG-{i}c-d)\n"
                         for i, size in enumerate(slices))
        self.tool("nvidia-smi", f"""#!/bin/sh
case $* in
    --query-gpu=compute_cap*" -i "*) set "$4" {caps}; shift $(($1 + 1)); echo "$1" ;;
    --query-gpu=compute_cap*) printf '%s\\n' {caps} ;;
    --query-gpu=driver_version*) echo 580.1 ;;
    -L) printf '{lines}' ;;
    -q) printf 'Driver Version                 : 550.54\\nCUDA Version              : 12.4\\n' ;;
esac
""")

    def environment(self, **env):
        clean = {"PATH": str(self.bin), "HOME": str(self.root / "home"), "LC_ALL": "C.UTF-8"}
        for name in ("TMPDIR",):
            if name in os.environ:
                clean[name] = os.environ[name]
        clean.update(env)
        return clean

    def make(self, *words, timeout=60, **env):
        return run(["env", "-i", *(f"{k}={v}" for k, v in self.environment(**env).items()),
                    "make", *words], cwd=self.root, timeout=timeout)

    def compiles(self):
        """The arguments of each call of the pretended nvcc, since the last time."""
        log = self.root / "nvcc.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def results(self, name):
        return self.root / "plots" / "results" / "box" / name

    def files(self):
        return {str(path.relative_to(self.root)): path.read_bytes()
                for path in sorted(self.root.rglob("*")) if path.is_file()}


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def first_line(result):
    return result.stdout.splitlines()[0]


def last_line(result):
    return result.stdout.splitlines()[-1]


# The device and the architecture.


@pytest.mark.parametrize("capabilities, flags", [
    (["9.0"], "-arch=sm_90"),
    (["12.0"], "-arch=sm_120"),
    (["9.0", "9.0"], "-arch=sm_90"),
    (["10.0", "8.6"], "-gencode=arch=compute_86,code=sm_86 -gencode=arch=compute_100,code=sm_100"
                      " -gencode=arch=compute_100,code=compute_100"),
    (["13.1"], "-gencode=arch=compute_121,code=compute_121"),
    (["8.0", "13.1"], "-gencode=arch=compute_80,code=sm_80"
                      " -gencode=arch=compute_121,code=compute_121"),
])
def test_architecture_is_what_the_gpus_are(tree, capabilities, flags):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus(*capabilities)
    result = tree.make("build")
    assert result.returncode == 0, result.stderr
    assert first_line(result).startswith("device: gpu (NVIDIA H200, compute capability ")
    assert [re.findall(r"-arch=\S+|-gencode=\S+", line) for line in tree.compiles()] == [
        flags.split()]


def test_gpu_that_nvcc_does_not_know_yet_is_said(tree):
    tree.chapters(PASSES)
    tree.nvcc("12.4")
    tree.gpus("12.0")
    assert first_line(tree.make("build")) == (
        "device: gpu (NVIDIA H200, compute capability 12.0; nvcc 12.4: compute_90 as PTX)")


SMI_WITHOUT_AN_ANSWER = {
    "prose": "echo 'NVIDIA-SMI has failed because it could not reach the driver. Version 9.0'",
    "nothing": "exit 0",
    "failure": "echo 9.0; echo broken >&2; exit 9".replace("echo 9.0; ", ""),
    "numbers that are none": "printf '9\\n9.0.1\\nnine\\n[N/A]\\n'",
}


@pytest.mark.parametrize("script", SMI_WITHOUT_AN_ANSWER.values(), ids=SMI_WITHOUT_AN_ANSWER)
def test_driver_tool_without_an_answer(tree, script):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.tool("nvidia-smi", f"#!/bin/sh\n{script}\n")
    result = tree.make("run")
    assert result.returncode == 0, result.stderr
    assert first_line(result) == (
        "device: cpu (nvidia-smi names no GPU; nvcc 13.0 is here)")


def test_driver_tool_that_hangs(tree):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.tool("nvidia-smi", "#!/bin/sh\ntrap '' TERM\nsleep 1000\nsleep 1000\n")
    result = tree.make("-n", "build", timeout=25)
    assert first_line(result) == (
        "device: cpu (nvidia-smi gave no answer in 10 s; nvcc 13.0 is here)")


def test_old_driver_that_does_not_know_the_question(tree):
    """It still lists its GPU, and the programs are built for all that it may be."""
    tree.chapters(PASSES)
    tree.nvcc("12.4")
    tree.tool("nvidia-smi", """#!/bin/sh
case $1 in
    -L) echo "GPU 0: Tesla T4 (UUID: GPU-1)" ;;
    *) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
esac
""")
    result = tree.make("build")
    assert first_line(result) == ("device: gpu (Tesla T4, compute capability unknown; nvcc 12.4:"
                                  " sm_75 sm_80 sm_86 sm_89 sm_90)")
    assert len(re.findall("code=sm_", tree.compiles()[0])) == 5


def test_gpu_that_nvcc_no_longer_knows(tree):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("5.0", name="GeForce GTX 750")
    result = tree.make("run")
    assert result.returncode == 0
    assert first_line(result) == ("device: cpu (GeForce GTX 750, compute capability 5.0, older"
                                  " than all that nvcc 13.0 knows)")
    result = tree.make("build", "DEVICE=gpu")
    assert result.returncode != 0
    assert "5.0, older than all that nvcc 13.0 knows" in result.stderr


@pytest.mark.parametrize("release, expected, warned", [
    ("11.5", "75 80 86", True),
    ("12.4", "75 80 86 89 90", False),
    ("12.9", "75 80 86 89 90 100 120", False),
    ("13.0", "75 80 86 89 90 100 120", False),
])
def test_forced_gpu_without_one_is_built_for_the_list(tree, release, expected, warned):
    tree.chapters(PASSES, PASSES)
    tree.nvcc(release)
    result = tree.make("build", "DEVICE=gpu")
    assert result.returncode == 0, result.stderr
    assert first_line(result).startswith(
        f"device: gpu (DEVICE=gpu; no GPU driver found; nvcc {release}: sm_75 sm_80")
    newest = expected.split()[-1]
    flags = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in expected.split()]
    flags.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    compiles = tree.compiles()
    assert len(compiles) == 2
    for line in compiles:
        assert re.findall(r"-arch=\S+|-gencode=\S+", line) == flags
    assert result.stdout.count("warning: nvcc 11.5 is older than CUDA 12") == warned


@pytest.mark.parametrize("device", ["DEVICE=", "DEVICE=gpu"])
def test_an_empty_variable_leaves_the_choice_to_us(tree, device):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("8.0")
    result = tree.make("build", device, "NVCC=", "ARCH=", "MACHINE=", "CXX=", "CCBIN=")
    assert result.returncode == 0, result.stderr
    assert first_line(result).startswith("device: gpu (")
    assert "-arch=sm_80" in tree.compiles()[0]


@pytest.mark.parametrize("arch, flag", [
    ("sm_75", "-arch=sm_75"), ("90", "-arch=sm_90"), ("sm_90a", "-arch=sm_90a"),
    ("native", "-arch=sm_80"), ("", "-arch=sm_80"),
    ("sm_80 sm_90", "-gencode=arch=compute_90,code=compute_90"),
])
def test_arch_is_on_every_line_that_compiles(tree, arch, flag):
    tree.chapters(PASSES, PASSES, PASSES)
    tree.nvcc()
    tree.gpus("8.0")
    result = tree.make("-n", "build", "bench", f"ARCH={arch}")
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if re.search(r"\bnvcc -", line)]
    assert len(lines) == 6
    for line in lines:
        assert flag in line.split()
    assert sum("code=sm" in line or "-arch=" in line for line in result.stdout.splitlines()) == 6


@pytest.mark.parametrize("arch", ["sm_50", "sm_", "foo", "sm_90x", "compute_90", "9.0", "native"])
def test_arch_that_is_none_is_named(tree, arch):
    tree.chapters(PASSES)
    tree.nvcc()
    result = tree.make("build", "DEVICE=gpu", f"ARCH={arch}")
    assert result.returncode != 0
    assert f"ARCH={arch}: " in result.stderr
    assert not tree.compiles()


def test_nvcc_is_looked_for_beside_cuda_home(tree):
    tree.chapters(PASSES)
    tree.nvcc("12.9")
    home = tree.root.parent.parent / "cuda" / "bin"
    home.mkdir(parents=True)
    (tree.bin / "nvcc").rename(home / "nvcc")
    result = tree.make("build", "DEVICE=gpu", CUDA_HOME=str(home.parent))
    assert "nvcc 12.9" in first_line(result)
    assert f"{home}/nvcc -O3 " in result.stdout
    assert len(tree.compiles()) == 1


def test_no_working_nvcc(tree):
    tree.chapters(PASSES)
    tree.gpus("9.0")
    result = tree.make("run", "NVCC=missing-nvcc")
    assert result.returncode == 0, result.stderr
    assert first_line(result) == ("device: cpu (NVIDIA H200, compute capability 9.0;"
                                  " missing-nvcc does not run)")
    result = tree.make("run", "NVCC=missing-nvcc", "DEVICE=gpu")
    assert result.returncode != 0
    assert "DEVICE=gpu: missing-nvcc does not run. It comes with the CUDA Toolkit" in result.stderr


def test_device_that_is_none_is_named(tree):
    tree.chapters(PASSES)
    result = tree.make("run", "DEVICE=tpu")
    assert result.returncode != 0
    assert "DEVICE=tpu: the device is gpu or cpu" in result.stderr


def test_cpu_by_choice_asks_neither_nvcc_nor_the_driver(tree):
    tree.chapters(PASSES)
    for name in ("nvcc", "nvidia-smi"):
        tree.tool(name, f"#!/bin/sh\ntouch {name}.called\n")
    result = tree.make("build", "DEVICE=cpu")
    assert first_line(result) == "device: cpu (DEVICE=cpu)"
    assert not list(tree.root.glob("*.called"))


@pytest.mark.parametrize("goals", [[], ["help"], ["clean"]])
def test_help_and_clean_ask_nobody(tree, goals):
    tree.chapters(PASSES)
    for name in ("nvcc", "nvidia-smi", "g++"):
        tree.tool(name, f"#!/bin/sh\ntouch {name}.called\n")
    result = tree.make(*goals)
    assert result.returncode == 0
    assert not list(tree.root.glob("*.called"))
    assert ("make run-01" in result.stdout) == (goals != ["clean"])


@pytest.mark.parametrize("visible, folder, capability", [
    (None, "rtx-a2000", "8.6 9.0"), ("0", "rtx-a2000", "8.6"), ("1", "h200", "9.0"),
    ("1,0", "h200", "9.0"), ("GPU-1a", "h200", "9.0"), ("GPU-0a-b,1", "rtx-a2000", "8.6"),
    (" 01", "h200", "9.0"),
])
@pytest.mark.parametrize("how", ["environment", "command line"])
def test_gpu_is_the_first_that_programs_see(tree, visible, folder, capability, how):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("8.6", "9.0", names=["NVIDIA RTX A2000", "NVIDIA H200"])
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    words = [f"{key}={value}" for key, value in env.items()] if how == "command line" else []
    result = tree.make("info", *words, **({} if words else env))
    assert f"compute capability {capability};" in first_line(result)
    assert f" plots/results/{folder}/\n" in result.stdout
    assert ("-arch=sm_" + capability.replace(".", "") in result.stdout) == (visible is not None)


def test_gpu_that_is_sliced(tree):
    """Below the GPU stand its slices. A program gets one of them, by its own name or the first."""
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("9.0", slices=["1g.18gb", "3g.71gb"])
    for visible, size in ("0", "1g.18gb"), ("GPU-0a", "1g.18gb"), ("MIG-1c-d", "3g.71gb"):
        result = tree.make("info", CUDA_VISIBLE_DEVICES=visible)
        assert first_line(result).startswith(
            f"device: gpu (NVIDIA H200 MIG {size}, compute capability 9.0; ")
        assert f" plots/results/h200-mig-{size.replace('.', '-')}/\n" in result.stdout


def test_programs_number_the_gpus_as_the_driver_tool_does(tree):
    tree.chapters('#include <cstdio>\n#include <cstdlib>\nint main()'
                  ' { std::puts(std::getenv("CUDA_DEVICE_ORDER")); std::puts("PASS"); }')
    result = tree.make("run", CUDA_DEVICE_ORDER="FASTEST_FIRST")
    assert "--- 01_a\nPCI_BUS_ID\nPASS\n" in result.stdout


@pytest.mark.parametrize("visible", ["", "-1", "99", "GPU-9", "MIG-", "NoDevFiles"])
def test_hidden_gpus_are_shown(tree, visible):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("9.0")
    hidden = f"CUDA_VISIBLE_DEVICES='{visible}'"
    assert first_line(tree.make("run", CUDA_VISIBLE_DEVICES=visible)) == (
        f"device: cpu ({hidden} shows none of the GPUs; nvcc 13.0 is here)")
    assert first_line(tree.make("build", "DEVICE=gpu", CUDA_VISIBLE_DEVICES=visible)).startswith(
        f"device: gpu (DEVICE=gpu; {hidden} shows none of the GPUs; nvcc 13.0: sm_75 ")
    info = tree.make("info", CUDA_VISIBLE_DEVICES=visible).stdout
    assert f"{hidden}: programs see" in info
    assert "Start nvidia-smi by itself" not in info


def test_visible_gpus_are_shown(tree):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("9.0")
    assert "; CUDA_VISIBLE_DEVICES='0')" in first_line(tree.make("run", CUDA_VISIBLE_DEVICES="0"))
    assert "VISIBLE" not in tree.make("run").stdout


# The lines that compile.


def test_ccbin_is_on_every_nvcc_line_or_on_none(tree):
    tree.chapters(PASSES, PASSES)
    tree.nvcc()
    for words, count in ([], 0), (["CCBIN=g++-12"], 4):
        result = tree.make("-n", "build", "bench", "DEVICE=gpu", *words)
        assert sum(bool(re.search(r"\bnvcc .*-ccbin g\+\+-12 ", line))
                   for line in result.stdout.splitlines()) == count
        assert result.stdout.count("-ccbin") == count


def test_host_flags_are_wrapped_for_nvcc(tree):
    tree.chapters(PASSES)
    tree.nvcc()
    result = tree.make("build", "DEVICE=gpu", "ARCH=sm_90",
                       "CXXFLAGS=-Wall -pthread -Wl,-rpath,/x -DSIZE=3")
    assert result.returncode == 0
    assert tree.compiles() == ["-O3 -lineinfo -arch=sm_90 -Xcompiler -Wall -Xcompiler -pthread "
                               "-Xcompiler -Wl\\,-rpath\\,/x -DSIZE=3 01_a/a.cu -o build/gpu/01_a"]


def test_bench_lines(tree):
    tree.chapters(PASSES)
    tree.nvcc()
    lines = tree.make("-n", "bench-01", "DEVICE=gpu", "ARCH=sm_90", "DEBUG=1").stdout
    assert ("nvcc -O3 -std=c++17 -DBENCHMARKS -Xcompiler -fopenmp -arch=sm_90 01_a/a.cu"
            " -o build/gpu/01_a_bench -lbenchmark -lpthread") in lines
    assert "nvcc -G -g -arch=sm_90 01_a/a.cu -o build/gpu/01_a\n" in lines
    lines = tree.make("-n", "bench-01", "DEVICE=cpu", "DEBUG=1", "CXXFLAGS=-Wall").stdout
    assert ("CXXFLAGS='-O3 -DBENCHMARKS -fopenmp -Wall' LDLIBS='-lbenchmark' sh cpu_device/run"
            " --build -o build/cpu/01_a_bench 01_a/a.cu") in lines
    assert "CXXFLAGS='-O0 -Wall' sh cpu_device/run --build -o build/cpu/01_a " in lines
    assert "march=native" not in lines


def test_other_flags_compile_anew_and_the_same_do_not(tree):
    tree.chapters(PASSES)
    compiled = tree.root / "compiled"
    for words, times in [([], 1), ([], 1), (["DEBUG=1"], 2), (["DEBUG=1"], 2), (["DEBUG=0"], 3),
                         (["CXXFLAGS=-DX='1'"], 4), (["CXXFLAGS=-DX='1'"], 4)]:
        assert tree.make("build", *words).returncode == 0
        assert compiled.read_text().count("01_a/a.cu") == times, words
    os.utime(tree.root / "01_a" / "a.cu")
    tree.make("build", "CXXFLAGS=-DX='1'")
    assert compiled.read_text().count("01_a/a.cu") == 5


def test_old_source_that_is_restored_compiles_anew(tree):
    tree.chapters(FAILS)
    assert tree.make("run").returncode != 0
    os.utime(tree.write("01_a/a.cu", PASSES), (1, 1))
    assert tree.make("run").returncode == 0
    (tree.root / "build/cpu/01_a.cu").unlink()      # as of a program that is older than this rule
    for times in 3, 3:
        tree.make("run")
        assert (tree.root / "compiled").read_text().count("01_a/a.cu") == times


def test_new_chapter_needs_no_edit(tree):
    tree.chapters(PASSES)
    tree.write("08_tensor_cores/tensor_cores.cu", PASSES)
    assert last_line(tree.make("run")) == "2 passed, 0 failed, 0 skipped"
    assert tree.make("run-08").returncode == 0


def test_numbered_folder_without_its_program_is_named(tree):
    tree.chapters(PASSES)
    tree.write("08_tensor_cores/tensors.cu", PASSES)
    result = tree.make("run")
    assert last_line(result) == "1 passed, 0 failed, 0 skipped"
    warning = "warning: 08_tensor_cores is no chapter: there is no 08_tensor_cores/tensor_cores.cu"
    assert warning in result.stdout.splitlines()
    for goal in "run-08", "bench-08", "build-08", "sanitize-08":
        result = tree.make(goal)
        assert result.returncode != 0
        assert warning.removeprefix("warning: ") in result.stderr


def test_two_chapters_with_one_number_are_named(tree):
    tree.chapters(PASSES, PASSES)
    tree.write("02_copy/copy.cu", PASSES)
    for goal in "run", "run-02":
        result = tree.make(goal)
        assert result.returncode != 0
        assert "02_b 02_copy: two chapters with one number" in result.stderr
    assert not (tree.root / "compiled").exists()
    (tree.root / "02_copy/copy.cu").unlink()
    assert last_line(tree.make("run")) == "2 passed, 0 failed, 0 skipped"
    assert "02_copy is no chapter" in tree.make("run-02").stderr


# Running.

MIXED = [
    PASSES,
    FAILS,
    '#include <cstdio>\nint main() { std::puts("all is well"); }',               # no verdict
    '#include <cstdio>\nint main() { std::puts("PASS"); return 3; }',            # two verdicts
    '#include <cstdio>\nint main() { std::puts("SKIP: needs a second GPU"); }',
    'int main() { this does not compile; }',
    '#include <cstdio>\nint main() { std::puts("last words"); __builtin_trap(); }',
    '#include <cstdio>\nint main() { std::puts("PASS"); std::puts("PASSED"); }',
    '#include <cstdio>\nint main() { std::puts("one\\ntwo\\nPASS"); }',
]


@pytest.mark.parametrize("jobs", [[], ["-j8"]])
def test_run_goes_on_and_counts(tree, jobs):
    tree.chapters(*MIXED)
    result = tree.make(*jobs, "run", timeout=120)
    assert result.returncode != 0
    lines = result.stdout.splitlines()
    assert lines[-2:] == ["failed: 02_b 03_c 04_d 06_f 07_g 08_h",
                          "2 passed, 6 failed, 1 skipped"]
    shown = "\n".join(lines[lines.index("--- 01_a"):-2])
    assert shown == "\n".join([
        "--- 01_a", "fine", "PASS", "--- 02_b", "FAIL: element 3", "--- 03_c", "all is well",
        "--- 04_d", "PASS", "--- 05_e", "SKIP: needs a second GPU", "--- 06_f",
        "--- 07_g", "last words", "--- 08_h", "PASS", "PASSED", "--- 09_i", "one", "two", "PASS"])
    for complaint in ("03_c: exit code 0, but its last line", "04_d: its last line is PASS, but",
                      "06_f: not built", "07_g: ended with exit code"):
        assert complaint in result.stderr


def test_everything_passes(tree):
    tree.chapters(PASSES, PASSES)
    result = tree.make("run")
    assert (result.returncode, last_line(result)) == (0, "2 passed, 0 failed, 0 skipped")


def test_chapter_that_no_longer_compiles_does_not_run_as_it_was(tree):
    tree.chapters(PASSES)
    assert tree.make("run").returncode == 0
    time.sleep(0.02)
    tree.chapters("int main() { broken }")
    assert tree.make("build").returncode != 0
    assert last_line(tree.make("run")) == "0 passed, 1 failed, 0 skipped"


def test_one_chapter(tree):
    echo = ('#include <cstdio>\nint main(int n, char** v) { for (int i = 1; i < n; ++i)'
            ' std::printf("[%s]", v[i]); std::puts("\\nPASS"); }')
    tree.chapters(PASSES, echo, FAILS, 'int main() { return std::puts("SKIP: x") < 0; }'.replace(
        "int main", "#include <cstdio>\nint main"))
    result = tree.make("run-02", 'ARGS=100 "a b" 3')
    assert result.returncode == 0
    assert result.stdout.endswith("--- 02_b 100 a b 3\n[100][a b][3]\nPASS\n")
    assert not (tree.root / "build/cpu/01_a").exists()
    assert tree.make("run-03").returncode != 0
    assert tree.make("run-04").returncode == 0
    assert tree.make("run-05").returncode != 0
    for goal in ("run", "bench-02", "sanitize", "build"):
        result = tree.make(goal, "ARGS=100")
        assert result.returncode != 0
        assert "ARGS are for one program" in result.stderr


def test_programs_do_not_mix_their_output(tree):
    slow = ('#include <cstdio>\n#include <unistd.h>\nint main() { std::puts("begin");'
            ' std::fflush(stdout); usleep(300000); std::puts("PASS"); }')
    tree.chapters(slow, slow)
    result = tree.make("-j8", "run-01", "run-02")
    assert result.stdout.count("begin\nPASS\n") == 2


def test_output_comes_line_by_line(tree):
    """A program that hangs has shown what it printed before."""
    tree.chapters('#include <cstdio>\n#include <unistd.h>\n'
                  'int main() { std::puts("first"); pause(); }')
    assert tree.make("build").returncode == 0
    with subprocess.Popen(["make", "run-01"], cwd=tree.root, env=tree.environment(),
                          stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            seen = b""
            while b"first\n" not in seen and select.select([process.stdout], [], [], 20)[0]:
                seen += os.read(process.stdout.fileno(), 4096)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert b"first\n" in seen


def test_forced_gpu_shows_the_programs_own_error(tree):
    if not NVCC:
        pytest.skip("not run: no nvcc here")
    if shutil.which("nvidia-smi"):
        pytest.skip("not run: for machines without a GPU")
    shutil.copytree(CHAPTERS[0].parent, tree.root / CHAPTERS[0].parent.name)
    result = tree.make("run", "DEVICE=gpu", "ARCH=sm_75", f"NVCC={NVCC}", timeout=120)
    assert result.returncode != 0
    assert re.search(r"\.cu:\d+: cudaErrorInsufficientDriver: ", result.stderr)
    assert last_line(result) == "0 passed, 1 failed, 0 skipped"


def test_host_flags_with_the_real_nvcc(tree):
    if not NVCC:
        pytest.skip("not run: no nvcc here")
    shutil.copytree(CHAPTERS[0].parent, tree.root / CHAPTERS[0].parent.name)
    result = tree.make("build", "DEVICE=gpu", "ARCH=sm_75", f"NVCC={NVCC}",
                       "CXXFLAGS=-Wall -Wextra -pthread", timeout=300)
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stdout + result.stderr


# Where things are.


@pytest.mark.parametrize("build", ["my folder", "", "a b/c"])
def test_build_must_be_one_word(tree, build):
    tree.chapters(PASSES)
    for goal in ("run", "clean"):
        result = tree.make(goal, f"BUILD={build}")
        assert result.returncode != 0
        assert f"BUILD={build}: " in result.stderr
    assert sorted(path.name for path in tree.root.iterdir() if path.is_dir()) == [
        "01_a", "cpu_device", "home", "make", "plots"]


def test_build_in_a_home_that_is_not_expanded(tree):
    """A shell leaves ~ alone in quotes, and some do so behind the = as well."""
    tree.chapters(PASSES)
    for goal in "run", "clean":
        result = tree.make(goal, "BUILD=~/x")
        assert result.returncode != 0
        assert "BUILD=~/x: ~ is not expanded here" in result.stderr


def test_tree_is_left_as_it_was(tree, tmp_path):
    tree.chapters(PASSES)
    (tree.root / "cpu_device" / "run").write_text(STAND_IN.replace('echo "$source" >>compiled', ""))
    before = tree.files()
    for path in [*tree.root.rglob("*"), tree.root]:
        if path.name != "home":
            path.chmod(0o555)
    try:
        result = tree.make("run", f"BUILD={tmp_path}/elsewhere")
        assert (result.returncode, last_line(result)) == (0, "1 passed, 0 failed, 0 skipped")
        assert tree.files() == before
        assert (tmp_path / "elsewhere" / "cpu" / "01_a").exists()
    finally:
        for path in [tree.root, *tree.root.rglob("*")]:
            path.chmod(0o755)


def test_build_that_cannot_be_made(tree):
    tree.chapters(PASSES)
    result = tree.make("run", "BUILD=Makefile")
    assert result.returncode != 0
    assert "BUILD= names another folder for what is built" in result.stderr
    assert not (tree.root / "compiled").exists()


def test_scripts_need_no_permission_to_execute(tree):
    """As on a mounted drive; only the programs need a disk that allows it."""
    tree.chapters(PASSES)
    for script in [*(tree.root / "make").iterdir(), tree.root / "plots/source_hash",
                   tree.root / "cpu_device/run"]:
        script.chmod(0o644)
    assert tree.make("run", "RECORD=1", "MACHINE=box").returncode == 0


def test_program_that_may_not_be_executed_there(tree):
    """As in a folder on a disk that is mounted noexec."""
    tree.chapters(PASSES)
    tree.make("build")
    (tree.root / "build/cpu/01_a").chmod(0o644)
    result = tree.make("run-01")
    assert result.returncode != 0
    assert "01_a: not executable there" in result.stderr
    assert "BUILD=" in result.stderr


def test_clean_takes_away_only_what_was_built(tree):
    tree.chapters(PASSES)
    tree.write("elsewhere/mine.txt", "keep")
    assert tree.make("build", "BUILD=elsewhere").returncode == 0
    assert tree.make("clean", "BUILD=elsewhere").returncode == 0
    assert [path.name for path in (tree.root / "elsewhere").iterdir()] == ["mine.txt"]
    tree.make("build")
    tree.make("clean")
    assert not (tree.root / "build").exists()
    tree.write("gpu/mine.txt", "keep")
    result = tree.make("clean", "BUILD=.")
    assert (result.returncode, result.stdout) == (0, "./gpu was not built here, and stays\n")
    assert (tree.root / "gpu/mine.txt").exists()


# What is missing.


def pose_as(tree, user):
    """Root or not, and an apt-get that notes its arguments and installs a false g++."""
    tree.tool("id", f"#!/bin/sh\necho {user}\n")
    gxx = need("g++")
    tree.tool("apt-get", f"""#!/bin/sh
echo "$*" >>apt.log
case $* in
    *g++*) ln -s {gxx} "{tree.bin}/g++" ;;
esac
""")


def test_no_compiler(tree):
    tree.chapters(PASSES)
    pose_as(tree, 1000)
    tree.hide("g++", "clang++")
    result = tree.make("run")
    assert result.returncode != 0
    assert "The compiler g++ is missing. " in result.stderr
    assert "    sudo apt-get install -y --no-install-recommends g++\n" in result.stderr
    assert not (tree.root / "apt.log").exists()


def test_no_compiler_as_root(tree):
    tree.chapters(PASSES)
    pose_as(tree, 0)
    tree.hide("g++", "clang++")
    result = tree.make("run")
    assert (result.returncode, last_line(result)) == (0, "1 passed, 0 failed, 0 skipped")
    assert ("    apt-get update && apt-get install -y --no-install-recommends g++\n"
            in result.stderr)
    assert (tree.root / "apt.log").read_text().splitlines() == [
        "update", "install -y --no-install-recommends g++"]
    tree.make("run")
    assert len((tree.root / "apt.log").read_text().splitlines()) == 2


def test_setup_installs_nothing_where_all_is_there(tree):
    tree.chapters(PASSES)
    pose_as(tree, 0)
    for name in "python3", "g++", "clang++", "gdb", "shellcheck":
        tree.tool(name, "#!/bin/sh\necho /bin/sh\n")     # clang++ names its symbolizer
    result = tree.make("setup")
    assert result.returncode == 0, result.stderr
    assert not (tree.root / "apt.log").exists()
    assert not (tree.root / ".venv").exists()


def test_clang_where_there_is_no_gcc(tree):
    need("clang++")
    tree.chapters(PASSES)
    tree.hide("g++")
    result = tree.make("run")
    assert result.returncode == 0, result.stderr


def test_compiler_that_is_named_and_missing(tree):
    tree.chapters(PASSES)
    pose_as(tree, 1000)
    for name, line in ("g++-99", "g++-99"), ("clang++-99", "clang-99"):
        result = tree.make("run", f"CXX={name}")
        assert result.returncode != 0
        assert f"The compiler {name} is missing" in result.stderr
        assert f"--no-install-recommends {line}\n" in result.stderr
    result = tree.make("run", "CXX=/no/such/compiler")
    assert result.returncode != 0
    assert "The compiler /no/such/compiler is missing" in result.stderr


def test_run_needs_no_python(tree):
    tree.chapters(PASSES)
    tree.hide("python3")
    pose_as(tree, 1000)
    assert tree.make("run", "RECORD=1", "MACHINE=box").returncode == 0
    result = tree.make("info")
    assert result.returncode == 0
    assert re.search(r"python3 +missing", result.stdout)
    result = tree.make("test")
    assert result.returncode != 0
    assert "python3 is missing. " in result.stderr
    assert "    sudo apt-get install -y --no-install-recommends python3 python3-venv\n" in (
        result.stderr)


def python_without_modules(tree):
    """A python3 that cannot import what is not in the standard library."""
    tree.tool("python3", f'#!/bin/sh\nexec "{PYTHON}" -S "$@"\n')


def test_python_modules_without_a_network(tree):
    tree.chapters(PASSES)
    python_without_modules(tree)
    with socket.create_server(("127.0.0.1", 0)) as silent:     # takes calls and never answers
        started = time.monotonic()
        result = tree.make("test", PIP_CONFIG_FILE="/dev/null", timeout=60,
                           PIP_INDEX_URL=f"https://127.0.0.1:{silent.getsockname()[1]}/simple")
        seconds = time.monotonic() - started
    assert result.returncode != 0
    if "venv module is missing" in result.stderr:
        not_run("python3 has no ensurepip")
    assert "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt" in (
        result.stderr)
    assert "pip could not install what requirements.txt names. Is there a network?" in result.stderr
    assert seconds < 45                         # 10 s where nothing else runs


@pytest.mark.parametrize("missing", ["matplotlib", "xdist"])
def test_pytest_alone_is_enough(tree, missing):
    """Without matplotlib all but the pictures is tested, without xdist one test after the other."""
    tree.chapters(PASSES)
    tree.tool("python3", f"""#!/bin/sh
case $* in
    *{missing}*|*venv*) exit 1 ;;
esac
echo "$*"
""")
    result = tree.make("test")
    assert result.returncode == 0, result.stderr
    side_by_side = "" if missing == "xdist" else f"-n {CORES} "
    assert last_line(result) == f"-m pytest -rs {side_by_side}tests"
    assert "python3 cannot import all of: pytest xdist matplotlib nbformat nbclient ipykernel." in result.stderr
    assert f"Going on without: {missing}.\n" in result.stderr


def test_what_only_some_tests_need(tree):
    tree.chapters(PASSES)
    tree.tool("python3", "#!/bin/sh\nexit 0\n")
    tree.hide("clang++")
    pose_as(tree, 1000)
    line = "apt-get install -y --no-install-recommends gdb shellcheck clang libclang-rt-dev llvm"
    result = tree.make("test")
    assert result.returncode == 0, result.stderr
    assert f"    sudo {line}" in result.stderr
    assert "Without it, those tests are not run." in result.stderr
    pose_as(tree, 0)
    result = tree.make("test")
    assert result.returncode == 0, result.stderr
    assert f"    apt-get update && {line}" in result.stderr
    assert line.partition(" ")[2] in (tree.root / "apt.log").read_text()


def test_test_hands_the_device_to_pytest(tree):
    tree.chapters(PASSES)
    tree.tool("python3", """#!/bin/sh
case $1 in
    -c) exit 0 ;;
esac
echo "$DEVICE: $*: $MAKEFLAGS:$MAKELEVEL$ARGS"
echo "==== 1 passed in 0.1s ===="
""")
    result = tree.make("test")
    assert result.returncode == 0, result.stderr
    assert last_line(result) == "==== 1 passed in 0.1s ===="
    assert f"cpu: -m pytest -rs -n {CORES} tests: :\n" in result.stdout
    tree.nvcc()
    result = tree.make("test", "DEVICE=gpu", "ARGS=-k makefile")
    assert f"gpu: -m pytest -rs -n {CORES} tests -k makefile: :\n" in result.stdout


def test_openblas_for_the_chapter_that_has_a_row_for_it(tree):
    tree.write("06_matmul/matmul.cu", PASSES)
    tree.chapters(PASSES)
    tree.nvcc()
    for device in ("gpu", "cpu"):
        lines = tree.make("-n", "bench", f"DEVICE={device}", "BLAS=openblas").stdout.splitlines()
        (bench,) = [line for line in lines if "matmul.cu" in line and re.search("-o .*_bench", line)]
        assert "-DOPENBLAS" in bench and "-lopenblas" in bench
        assert sum("openblas" in line.lower() for line in lines) == 1
    lines = tree.make("-n", "bench", "DEVICE=gpu").stdout
    assert "openblas" not in lines.lower()
    assert lines.count("-lcublas") == 1
    result = tree.make("bench", "BLAS=mkl")
    assert result.returncode != 0 and "BLAS=mkl: the library is openblas" in result.stderr


def test_no_openblas(google_benchmark, tree):
    tree.chapters(PASSES)
    gxx = need("g++")
    tree.tool("g++", f"""#!/bin/sh
case " $* " in
    *" -lopenblas "*) echo "cblas.h: No such file or directory" >&2; exit 1 ;;
esac
exec {gxx} "$@"
""")
    pose_as(tree, 1000)
    result = tree.make("bench", "BLAS=openblas")
    assert result.returncode != 0
    assert "OpenBLAS is missing. " in result.stderr
    assert "    sudo apt-get install -y --no-install-recommends libopenblas-dev\n" in result.stderr
    assert "leave out BLAS=openblas" in result.stderr


def without_benchmark(tree):
    """A compiler for which Google Benchmark is not installed."""
    gxx = need("g++")
    tree.tool("g++", f"""#!/bin/sh
case " $* " in
    *" -lbenchmark "*) echo "benchmark/benchmark.h: No such file or directory" >&2; exit 1 ;;
esac
exec {gxx} "$@"
""")


def test_no_google_benchmark(tree):
    tree.chapters(PASSES)
    without_benchmark(tree)
    pose_as(tree, 1000)
    result = tree.make("bench")
    assert result.returncode != 0
    assert "Google Benchmark is missing. " in result.stderr
    assert "    sudo apt-get install -y --no-install-recommends libbenchmark-dev\n" in result.stderr
    assert "From source: git clone " in result.stderr
    assert tree.make("run").returncode == 0


@pytest.mark.parametrize("user", [1000, 0])
def test_no_cublas(google_benchmark, tree, user):
    """As in an installation of the toolkit's smaller packages. Only two chapters need it."""
    tree.chapters(PASSES)
    for chapter in "06_matmul", "07_neural_layer":
        tree.write(f"{chapter}/{chapter[3:]}.cu", PASSES)
    tree.nvcc()
    script = (tree.bin / "nvcc").read_text()
    tree.tool("nvcc", script.replace("#!/bin/sh", """#!/bin/sh
case " $* " in
    *" -lcublas "*) echo "ld: cannot find -lcublas" >&2; exit 1 ;;
esac""", 1))
    tree.gpus("9.0")
    pose_as(tree, user)
    for goal in "bench", "bench-06", "bench-07":
        result = tree.make(goal, "MACHINE=box")
        assert result.returncode != 0
        assert "cuBLAS is missing. " in result.stderr
        assert "apt-get install -y --no-install-recommends libcublas-dev-13-0\n" in result.stderr
        if user:
            assert "It is a part of the CUDA Toolkit" in result.stderr
        else:                                   # the package was no remedy
            assert "ld: cannot find -lcublas\ncuBLAS is installed, and nvcc does not build" in (
                result.stderr)
        assert not (tree.root / "bench.arguments").exists()
    assert not any(line.startswith("-O3 -std") and "cublas" in line for line in tree.compiles())
    assert tree.make("bench-01", "MACHINE=box").returncode == 0
    assert tree.make("bench-06", "MACHINE=box", "DEVICE=cpu", "-n").returncode == 0


def test_an_install_line_that_fails(google_benchmark, tree):
    """NVIDIA's package, say, where NVIDIA's repository is not known."""
    tree.write("06_matmul/matmul.cu", PASSES)
    tree.nvcc()
    pose_as(tree, 0)
    script = (tree.bin / "nvcc").read_text()
    tree.tool("nvcc", script.replace("#!/bin/sh", '#!/bin/sh\ncase "$*" in *-lcublas*) exit 1 ;; esac'))
    tree.tool("apt-get", "#!/bin/sh\necho E: Unable to locate package >&2; exit 100\n")
    result = tree.make("bench", "DEVICE=gpu")
    assert result.returncode != 0
    assert "cuBLAS is missing, and that line failed.\nIt is a part of the CUDA Toolkit" in (
        result.stderr)


# Benchmarks.

ROWS = r"""
#ifdef BENCHMARKS
#include <benchmark/benchmark.h>
#include <cstdlib>
static void empty(benchmark::State& state) { for (auto _ : state) benchmark::ClobberMemory(); }
static void skipped(benchmark::State& state) { state.SkipWithError("out of memory"); }
MORE
BENCHMARK(empty)->Name("cpu_one_thread")->Arg(1)->Arg(2)->MinTime(0.001);
BENCHMARK(skipped)->Name("cpu_all_threads")->Arg(1 << 30);
BENCHMARK(empty)->Name("gpu_kernel")->Arg(1)->MinTime(0.001);
BENCHMARK_MAIN();
#else
""" + PASSES + "\n#endif\n"


@pytest.fixture(scope="session")
def google_benchmark():
    header = run([need("g++"), "-x", "c++", "-fsyntax-only", "-include", "benchmark/benchmark.h",
                  "/dev/null"])
    if header.returncode != 0:
        not_run("no Google Benchmark here")


def chapter_with_rows(tree, more=""):
    tree.chapters(ROWS.replace("MORE", more))


def old_results(tree):
    tree.results("").mkdir(parents=True)
    tree.results("01_a.json").write_text("earlier results")


def assert_old_results(tree):
    assert tree.results("01_a.json").read_text() == "earlier results"
    assert [path.name for path in tree.results("").iterdir()] == ["01_a.json"]


def test_bench_keeps_the_rows_of_the_cpu(google_benchmark, tree):
    chapter_with_rows(tree)
    result = tree.make("bench", "MACHINE=box", "CXXFLAGS=-DA=1,2", timeout=120)
    assert result.returncode == 0, result.stderr
    assert last_line(result) == "1 passed, 0 failed, 0 skipped"
    assert "Only the rows that begin with cpu_: the CPU device says nothing" in result.stdout
    document = json.loads(tree.results("01_a.json").read_text())
    rows = [row for row in document["benchmarks"] if row["run_type"] == "iteration"]
    assert {row["name"].split("/")[0] for row in rows} == {"cpu_one_thread", "cpu_all_threads"}
    assert sum(row["name"].startswith("cpu_one_thread/2/") for row in rows) == 5
    context = document["context"]
    assert "host_name" not in context
    assert context["executable"] == "01_a_bench"
    assert context["gpu"] == context["driver"] == context["toolkit"] == "none"
    assert context["flags"] == "-O3 -DBENCHMARKS -fopenmp -DA:1 2"
    assert context["threads"] == CORES
    assert context["cpu"] and context["date"]
    assert context["source_sha256"] == source_hash(tree.root / "01_a/a.cu", "--timed")
    assert [path.name for path in tree.results("").iterdir()] == ["01_a.json"]


def test_filter_prints_and_keeps_nothing(google_benchmark, tree):
    chapter_with_rows(tree)
    old_results(tree)
    result = tree.make("bench-01", "MACHINE=box", "FILTER=one_thread/2/", timeout=120)
    assert result.returncode == 0, result.stderr
    assert "cpu_one_thread/2/" in result.stdout
    assert "cpu_one_thread/1/" not in result.stdout
    assert "with FILTER the rows are not kept" in result.stderr
    assert_old_results(tree)
    result = tree.make("bench-01", "MACHINE=box", "FILTER=gpu_kernel")
    assert result.returncode != 0
    assert "no row begins with cpu_ and matches FILTER=gpu_kernel" in result.stderr
    assert_old_results(tree)


def test_filter_passes_over_chapters_without_such_a_row(google_benchmark, tree):
    chapter_with_rows(tree)
    tree.write("02_b/b.cu", (tree.root / "01_a/a.cu").read_text().replace("cpu_one_thread", "cpu_other"))
    result = tree.make("bench", "FILTER=one_thread", timeout=120)
    assert result.returncode == 0, result.stderr
    assert last_line(result) == "1 passed, 0 failed, 1 skipped"
    assert "02_b: no row matches FILTER=one_thread\n" in result.stderr
    result = tree.make("bench", "FILTER=nothing", timeout=120)
    assert result.returncode != 0
    assert last_line(result) == "0 passed, 0 failed, 2 skipped"


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("words, complaint", [
    ("one_thread(", "Could not compile benchmark re: "), ("nothing", "Failed to match any "),
])
def test_filter_that_matches_nothing(google_benchmark, tree, device, words, complaint):
    """The library ends with exit code 0, whether it finds none or cannot read the filter."""
    chapter_with_rows(tree)
    gxx = need("g++")
    tree.tool("nvcc", f"""#!/bin/sh
case $* in
    --version) echo "release 13.0," ;;
    --list-gpu-arch) echo compute_90 ;;
    *-DB*) {gxx} -DBENCHMARKS -x c++ 01_a/a.cu -o build/gpu/01_a_bench -lbenchmark ;;
    *) {gxx} -x c++ 01_a/a.cu -o build/gpu/01_a ;;
esac
""")
    result = tree.make("bench-01", f"DEVICE={device}", f"FILTER={words}", timeout=120)
    assert result.returncode != 0
    assert f"01_a: no row matches FILTER={words}\n" in result.stderr
    assert complaint in result.stderr


def test_nothing_is_timed_that_does_not_pass(google_benchmark, tree):
    chapter_with_rows(tree)
    old_results(tree)
    source = (tree.root / "01_a/a.cu").read_text()
    for verdict, code in ("FAIL: x", 2), ("SKIP: x", 0):
        time.sleep(0.02)
        (tree.root / "01_a/a.cu").write_text(source.replace("PASS", verdict))
        result = tree.make("bench-01", "MACHINE=box", timeout=120)
        assert result.returncode == code
        assert "cpu_one_thread" not in result.stdout
        assert_old_results(tree)


@pytest.mark.parametrize("more", [
    'static void bad(benchmark::State& s) { for (auto _ : s) std::exit(1); } BENCHMARK(bad)'
    '->Name("cpu_bad");',
    'static void bad(benchmark::State& s) { for (auto _ : s) std::abort(); } BENCHMARK(bad)'
    '->Name("cpu_bad");',
], ids=["exit", "abort"])
def test_row_that_ends_the_program_leaves_the_old_results(google_benchmark, tree, more):
    chapter_with_rows(tree, more)
    old_results(tree)
    result = tree.make("bench", "MACHINE=box", timeout=120)
    assert result.returncode != 0
    assert last_line(result) == "0 passed, 1 failed, 0 skipped"
    assert "plots/results/box/01_a.json is as it was" in result.stderr
    assert_old_results(tree)


def test_whole_results_of_a_program_that_failed_are_not_kept(google_benchmark, tree):
    """A check after the last row, say."""
    tree.chapters(PASSES)
    tree.nvcc()
    script = (tree.bin / "nvcc").read_text()
    tree.tool("nvcc", script.replace("esac; done'\n", "esac; done; exit 3'\n"))
    tree.gpus("9.0")
    old_results(tree)
    result = tree.make("bench-01", "MACHINE=box")
    assert result.returncode != 0
    assert "the benchmarks ended with exit code 3; plots/results/box/01_a.json is as it was" in (
        result.stderr)
    assert_old_results(tree)


def test_results_cut_short_by_a_full_disk_are_not_kept(google_benchmark, tree):
    """The library ends with exit code 0 then, as this pretended benchmark does."""
    tree.chapters(PASSES)
    tree.nvcc()
    script = (tree.bin / "nvcc").read_text()
    tree.tool("nvcc", script.replace('echo "}"', 'echo "{ context"'))
    tree.gpus("9.0")
    old_results(tree)
    result = tree.make("bench", "MACHINE=box")
    assert result.returncode != 0
    assert "the results are not whole" in result.stderr
    assert_old_results(tree)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_bench_leaves_the_old_results(google_benchmark, tree, number):
    chapter_with_rows(tree, """
        #include <unistd.h>
        #include <cstdio>
        static void long_row(benchmark::State& s)
        { for (auto _ : s) { std::fclose(std::fopen("started", "w")); pause(); } }
        BENCHMARK(long_row)->Name("cpu_long")->Iterations(1);""")
    old_results(tree)
    assert tree.make("build").returncode == 0
    with subprocess.Popen(["make", "bench", "MACHINE=box"], cwd=tree.root, env=tree.environment(),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as process:
        try:
            limit = time.monotonic() + 60
            while not (tree.root / "started").exists() and time.monotonic() < limit:
                time.sleep(0.05)
            assert (tree.root / "started").exists()
            os.killpg(process.pid, number)
            assert process.wait(timeout=20) != 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    while list(tree.results("").glob("*.part")) and time.monotonic() < limit:
        time.sleep(0.05)                        # make does not wait for what its shell started
    assert_old_results(tree)


def test_results_folder_that_cannot_be_made(google_benchmark, tree):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("9.0")
    tree.write("plots/results", "a file where the folder should be")
    result = tree.make("bench", "MACHINE=box")
    assert result.returncode != 0
    assert "01_a: cannot write in plots/results/box" in result.stderr


def test_fingerprint_of_a_gpu(google_benchmark, tree):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("9.0")
    result = tree.make("bench", timeout=60)
    assert result.returncode == 0, result.stderr
    arguments = (tree.root / "bench.arguments").read_text().splitlines()
    context = next(a for a in arguments if a.startswith("--benchmark_context="))
    pairs = dict(pair.split("=") for pair in context.partition("=")[2].split(","))
    assert pairs.pop("cpu") and pairs.pop("threads")
    assert pairs == {
        "gpu": "GPU  one   two:2", "l2_bytes": "1024", "driver": "580.1", "toolkit": "13.0",
        "flags": "-O3 -std:c++17 -DBENCHMARKS -Xcompiler -fopenmp -arch:sm_90",
        "source_sha256": source_hash(tree.root / "01_a/a.cu", "--timed")}
    assert "--benchmark_repetitions=5" in arguments
    assert "--benchmark_filter=." in arguments
    assert not any("min_time" in argument for argument in arguments)
    assert (tree.root / "plots/results/h200/01_a.json").read_text() == "}\n"


def test_hash_is_of_what_was_compiled(google_benchmark, tree):
    """The source is edited between the compiler and the results: here by the program itself."""
    edits = ROWS.replace("MORE", "").replace(
        "int main() {", "int main() { std::system(\"echo 'int edited;' >>01_a/a.cu\");")
    tree.chapters("#include <cstdlib>\n" + edits)
    before = source_hash(tree.root / "01_a/a.cu", "--timed")
    result = tree.make("bench", "MACHINE=box", timeout=120)
    assert result.returncode == 0, result.stderr
    context = json.loads(tree.results("01_a.json").read_text())["context"]
    assert context["source_sha256"] == before
    before = source_hash(tree.root / "01_a/a.cu")
    assert tree.make("run", "MACHINE=box", "RECORD=1").returncode == 0
    assert tree.results("01_a.txt.sha256").read_text().strip() == before
    assert source_hash(tree.root / "01_a/a.cu") != before


# What is kept of a run.


def test_record_keeps_what_was_printed(tree):
    tree.chapters(PASSES, FAILS)
    tree.results("").mkdir(parents=True)
    for name in ("02_b.txt", "02_b.txt.sha256"):
        tree.results(name).write_text("earlier")
    result = tree.make("run", "MACHINE=box", RECORD="1")
    assert result.returncode != 0
    assert tree.results("01_a.txt").read_text() == "fine\nPASS\n"
    assert tree.results("01_a.txt.sha256").read_text().strip() == source_hash(
        tree.root / "01_a/a.cu")
    assert tree.results("02_b.txt").read_text() == "earlier"
    assert sorted(path.name for path in tree.results("").iterdir()) == [
        "01_a.txt", "01_a.txt.sha256", "02_b.txt", "02_b.txt.sha256"]


READS = """#include <cstdio>
#include <cstring>
int main(int argc, char** argv)
{
    char word[9] = "PASS";
    if (argc == 3 && !std::strcmp(argv[1], "words"))
        std::fscanf(std::fopen(argv[2], "r"), "%8s", word);
    std::puts(word);
    return std::strcmp(word, "PASS") != 0;
}
"""


def test_program_with_a_data_file_runs_twice(tree):
    tree.chapters(READS, PASSES)
    data = tree.write("01_a/words.txt", "PASS")
    result = tree.make("run", "MACHINE=box", RECORD="1")
    assert result.returncode == 0, result.stderr
    assert "--- 01_a\nPASS\n--- 01_a words 01_a/words.txt\nPASS\n--- 02_b\n" in result.stdout
    assert last_line(result) == "2 passed, 0 failed, 0 skipped"
    assert tree.results("01_a.words.txt").read_text() == "PASS\n"
    assert tree.results("01_a.words.txt.sha256").read_text() == tree.results(
        "01_a.txt.sha256").read_text()
    assert "words" not in tree.make("run-01", "ARGS=1").stdout
    data.write_text("wrong")
    result = tree.make("run-01")
    assert result.returncode != 0 and "\nwrong\n" in result.stdout
    result = tree.make("run")
    assert last_line(result) == "1 passed, 1 failed, 0 skipped"


def test_nothing_is_kept_unasked(tree):
    tree.chapters(ROWS.replace("#ifdef BENCHMARKS", "#ifdef NEVER"))
    tree.make("run", "MACHINE=box")
    assert not (tree.root / "plots/results").exists()
    result = tree.make("run-01", "MACHINE=box", "RECORD=1", "ARGS=100")
    assert result.returncode != 0
    assert "RECORD keeps what a program prints without ARGS" in result.stderr


@pytest.mark.parametrize("name, folder", [
    ("NVIDIA H200", "h200"), ("Tesla T4", "tesla-t4"),
    ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"), ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
])
def test_folder_is_named_after_the_gpu(tree, name, folder):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("9.0", name=name)
    assert f" plots/results/{folder}/\n" in tree.make("info").stdout
    assert " plots/results/cpu-" in tree.make("info", "DEVICE=cpu").stdout


@pytest.mark.parametrize("machine", ["a/b", "..", "my box", ".hidden", "x;y"])
def test_machine_must_name_a_folder(tree, machine):
    tree.chapters(PASSES)
    result = tree.make("run", f"MACHINE={machine}")
    assert result.returncode != 0
    assert f"MACHINE={machine}: " in result.stderr


# Sanitizers and information.


def test_sanitize_on_the_cpu_device(tree):
    need("clang++")
    tree.chapters(PASSES, PASSES)
    result = tree.make("sanitize")
    assert (result.returncode, last_line(result)) == (0, "2 passed, 0 failed, 0 skipped")
    assert (tree.root / "modes").read_text().splitlines() == [
        f"--{mode} {source}" for source in ("01_a/a.cu", "02_b/b.cu")
        for mode in ("asan", "tsan", "lint")]
    for mode in ("asan", "tsan", "lint"):
        failing = tree.write(f"fails--{mode}", "")
        for goal in ("sanitize", "sanitize-02"):
            result = tree.make(goal)
            assert result.returncode != 0, mode
            assert "02_b: " in result.stderr
        failing.unlink()
    assert tree.make("sanitize-02").returncode == 0


def test_sanitize_without_clang(tree):
    tree.chapters(PASSES)
    tree.hide("clang++")
    result = tree.make("sanitize")
    assert (result.returncode, last_line(result)) == (0, "0 passed, 0 failed, 1 skipped")
    assert "not checked, since clang++ is missing" in result.stderr
    assert tree.make("sanitize", CI="true").returncode != 0


def test_sanitize_on_a_gpu(tree):
    tree.chapters(PASSES, PASSES)
    tree.nvcc()
    tree.gpus("9.0")
    tree.hide("compute-sanitizer")
    result = tree.make("sanitize")
    assert result.returncode != 0
    assert "compute-sanitizer is missing" in result.stderr
    tree.tool("compute-sanitizer", """#!/bin/sh
echo "$*" >>sanitizer.log
case $* in
    *"$REPORTS"*01_a) exit 99 ;;
esac
""")
    result = tree.make("sanitize", REPORTS="none")
    assert (result.returncode, last_line(result)) == (0, "2 passed, 0 failed, 0 skipped")
    assert (tree.root / "sanitizer.log").read_text().splitlines() == [
        f"--tool {tool} --error-exitcode 99 build/gpu/{chapter}" for chapter in ("01_a", "02_b")
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck")]
    result = tree.make("sanitize", REPORTS="racecheck")
    assert result.returncode != 0
    assert result.stdout.endswith("failed: 01_a\n1 passed, 1 failed, 0 skipped\n")


@pytest.mark.parametrize("does, verdict", [
    ("echo 'x.cu:1: cudaErrorAssert: text'; exit 1", None),
    ("echo '========= ERROR SUMMARY: 1 error'; exit 99", None),
    ("printf 'no error: here it works\\nPASS\\n'", None),
    ("echo 'FAIL: assert: there was no error'; exit 1", "found by nobody"),
    ("true", "neither stopped nor passed"),
])
def test_sanitize_and_the_mistakes_of_chapter_2(tmp_path, does, verdict):
    """Each that the usage line names is made, and must be stopped, or be none."""
    program = tmp_path / "gpu" / "02_error_checking"
    program.parent.mkdir()
    program.write_text("")
    (tmp_path / "compute-sanitizer").write_text(f"""#!/bin/sh
for argument; do :; done
case $argument in
    '?') echo "usage: x [n | assert | zero-blocks]   (sizes in decimal digits)" >&2; exit 2 ;;
    assert) {does} ;;
    zero-blocks) exit 1 ;;
esac
""")
    (tmp_path / "compute-sanitizer").chmod(0o755)
    result = run(["sh", REPOSITORY / "make" / "sanitize", "02_error_checking"],
                 env={"DEVICE": "gpu", "BUILD": tmp_path, "NVCC": "nvcc",
                      "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    made = re.findall(r"^--- 02_error_checking: (\S+), expected to fail$", result.stdout, re.M)
    assert made == ["assert", "zero-blocks"]
    assert result.returncode == (1 if verdict else 0), result.stdout + result.stderr
    assert result.stderr.strip() == (f"02_error_checking: assert: {verdict}" if verdict else "")


def test_info_without_a_gpu(tree):
    tree.chapters(PASSES)
    result = tree.make("info", "NVCC=missing-nvcc")
    assert result.returncode == 0, result.stderr
    assert re.search(r"^GPU +no GPU driver found$", result.stdout, re.M)
    assert "cudaErrorInsufficientDriver" in result.stdout
    assert re.search(r"^nvcc +missing-nvcc does not run$", result.stdout, re.M)
    assert "To build for a GPU: the CUDA Toolkit, 12 or 13" in result.stdout
    assert re.search(r"^device +cpu$", result.stdout, re.M)


@pytest.mark.parametrize("device, variable", [("cpu", "CXX"), ("gpu", "CCBIN")])
def test_info_without_the_compiler(google_benchmark, tree, device, variable):
    """What only a compiler can find is not called missing."""
    tree.chapters(PASSES)
    tree.nvcc()
    result = tree.make("info", f"DEVICE={device}", f"{variable}=no-compiler")
    assert result.returncode == 0 and not result.stderr
    assert re.search(r"^compiler +no-compiler is missing$", result.stdout, re.M)
    assert re.search(r"^benchmark +not looked for, since the compiler is", result.stdout, re.M)
    assert "Google Benchmark is here" in tree.make("info", f"DEVICE={device}").stdout


def test_info_with_a_gpu(tree):
    tree.chapters(PASSES)
    tree.nvcc()
    tree.gpus("9.0")
    result = tree.make("info")
    assert result.returncode == 0, result.stderr
    for line in (r"^GPU +NVIDIA H200, compute capability 9.0$", r"^nvcc +nvcc 13.0 is here$",
                 r"^driver +550.54$", r"^CUDA +the driver's: up to 12.4; nvcc's: 13.0$",
                 r"^built for +-arch=sm_90$", r"^results +plots/results/h200/$"):
        assert re.search(line, result.stdout, re.M), line


# The hash of a chapter's code.


def source_hash(path, *options):
    result = run(["sh", REPOSITORY / "plots/source_hash", path, *options])
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("source, code", [
    ("int a; // note\n", "int a;\n"),
    ("// # Title\n//\nint a;\n\n\n  \t\nint b;  \n", "int a;\nint b;\n"),
    ("int a; /* one */ int b;\n", "int a;   int b;\n"),
    ("int a; /* one\n two // three\n four */ int b;\n", "int a;\n  int b;\n"),
    ('f("// no comment", "/* nor this */"); // but this\n',
     'f("// no comment", "/* nor this */");\n'),
    ('f("a \\" // b", \'"\', "c"); // d\n', 'f("a \\" // b", \'"\', "c");\n'),
    ("f('\\'', '\\\\'); // d\n", "f('\\'', '\\\\');\n"),
    ("n = 1'000'003; // a prime\n", "n = 1'000'003;\n"),
    ("n = 0xFF'FFu + x1 'c'; // d\n", "n = 0xFF'FFu + x1 'c';\n"),
    ('f(R"(a " // b)"); // c\n', 'f(R"(a " // b)");\n'),
    ('f(u8R"x(\n// )" kept  \n\n)x"); // c\n', 'f(u8R"x(\n// )" kept  \n\n)x");\n'),
    ("// goes on \\\n int hidden;\nint a;\n", "int a;\n"),
    ("// goes on \\\n\nint a;\n", "int a;\n"),
    ('s = "two \\\n// lines"; // c\n', 's = "two \\\n// lines";\n'),
    ("#error don't\nint a; // b\n", "#error don't\nint a;\n"),
    ("#error the chapters'\nint a; // b\n", "#error the chapters'\nint a;\n"),
    ("a = b / c; // d\n", "a = b / c;\n"),
    ("a = b /* c */ / d;\n", "a = b   / d;\n"),
    ("int a;\r\n// b\r\n", "int a;\n"),
    ('s = "σ(x)"; // σ\n', 's = "σ(x)";\n'),
    ("int a;", "int a;\n"),
])
def test_hash_is_of_the_code_alone(tmp_path, source, code):
    path = tmp_path / "my chapter.cu"
    path.write_bytes(source.encode())
    expected = hashlib.sha256(code.encode()).hexdigest()
    assert source_hash(path) == source_hash(path, "--program") == expected


def test_hash_of_what_is_timed_ends_at_the_plumbing(tmp_path):
    path = tmp_path / "a.cu"
    path.write_text('int a;\nf("// ## Plumbing");\n// ## Plumbing\n//\nint helper;\n')
    timed = 'int a;\nf("// ## Plumbing");\n'
    assert source_hash(path, "--timed") == hashlib.sha256(timed.encode()).hexdigest()
    assert source_hash(path) == hashlib.sha256((timed + "int helper;\n").encode()).hexdigest()
    path.write_text("int a;\n /*\n// ## Plumbing\n*/ int b;\n")
    assert source_hash(path, "--timed") == source_hash(path)


def test_hash_agrees_with_the_compiler_about_comments(tmp_path):
    """gcc takes the comments out too; apart from white space the same is left."""
    gcc = need("g++")
    for source in [*CHAPTERS, *REPOSITORY.glob("cpu_device/*.cpp")]:
        stripped = run([gcc, "-x", "c++", "-std=c++17", "-fpreprocessed", "-dD", "-E", "-P",
                        source]).stdout
        path = tmp_path / "stripped.cu"
        path.write_text(stripped)
        text = source.read_text()
        assert "//" in text
        for name, content in ("ours", text), ("gcc", stripped):
            script = (REPOSITORY / "plots/source_hash").read_text()
            script = script.replace("| sha256sum | cut -d \" \" -f 1", "| tr -d '[:space:]'")
            (tmp_path / "strip").write_text(script)
            (tmp_path / f"{name}.cu").write_text(content)
        ours, theirs = (run(["sh", tmp_path / "strip", tmp_path / f"{name}.cu"]).stdout
                        for name in ("ours", "gcc"))
        assert ours == theirs


@pytest.mark.parametrize("arguments, complaint", [
    ([], "usage"), (["a.cu", "--timd"], "usage"), (["a.cu", "--timed", "x"], "usage"),
    (["missing.cu"], "missing.cu: no such file"), (["."], ".: no such file"),
])
def test_hash_of_nothing(tmp_path, arguments, complaint):
    (tmp_path / "a.cu").write_text("int a;\n")
    result = run(["sh", REPOSITORY / "plots/source_hash", *arguments], cwd=tmp_path)
    assert result.returncode != 0
    assert complaint in result.stderr
    assert not result.stdout


# The real thing.


def test_real_chapter_from_a_folder_that_is_not_written_to(tree, tmp_path):
    """In a path with spaces, with no Python, and with nothing built but the CPU device's cache."""
    chapter = CHAPTERS[0].parent
    shutil.copytree(chapter, tree.root / chapter.name)
    shutil.rmtree(tree.root / "cpu_device")
    shutil.copytree(REPOSITORY / "cpu_device", tree.root / "cpu_device")
    tree.hide("python3")
    cache = Path(os.environ.get("BUILD") or REPOSITORY / "build").resolve() / "cpu" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (tmp_path / "elsewhere" / "cpu").mkdir(parents=True)
    (tmp_path / "elsewhere" / "cpu" / "cache").symlink_to(cache)
    before = tree.files()
    result = tree.make("-j2", "run", f"BUILD={tmp_path}/elsewhere", timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"--- {chapter.name}\n" in result.stdout
    assert result.stdout.endswith("\nPASS\n1 passed, 0 failed, 0 skipped\n")
    assert tree.files() == before


def test_plots_of_a_machine_without_results(tree):
    """Said before anything is installed for it."""
    tree.chapters(PASSES)
    result = tree.make("plots", "MACHINE=nosuch")
    assert result.returncode == 2
    assert "there are no results of nosuch in plots/results" in result.stderr
    assert "nstalling" not in result.stdout + result.stderr
    assert not (tree.root / ".venv").exists()
