"""What the test files share: where things are, how to run a command, how to build a program."""

import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
CHAPTERS = sorted(cu for cu in REPOSITORY.glob("[0-9][0-9]_*/*.cu")
                  if cu.stem == cu.parent.name[3:])
DEVICE = os.environ.get("DEVICE") or "cpu"
# Its whole path, because some tests run in an environment of their own.
NVCC = shutil.which(os.environ.get("NVCC") or "nvcc") or os.environ.get("NVCC") or shutil.which(
    "nvcc", path=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin")

if DEVICE not in ("gpu", "cpu"):
    raise pytest.UsageError(f"DEVICE={DEVICE}: the device is gpu or cpu")


def environment(changes=None):
    """This process's environment with some variables changed; None takes one away."""
    result = dict(os.environ)
    for name, value in (changes or {}).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = str(value)
    return result


def run(command, *, timeout=60, env=None, cwd=None):
    """Runs a command and returns it with returncode, stdout and stderr.

    It has a process group of its own, which is ended whole when the time is up: the test fails
    then, and shows what the command had printed.
    """
    command = [str(word) for word in command]
    with subprocess.Popen(command, env=environment(env), cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          encoding="utf-8", errors="replace", start_new_session=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            pytest.fail(f"not over after {timeout} s: {' '.join(command)}\n{stdout}{stderr}")
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def mutate(source, old, new):
    """The source, a text or a file, with one edit, which must match exactly once."""
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    matches = text.count(old)
    if matches != 1:
        pytest.fail(f"the edit must match exactly once and matches {matches} times: {old!r}")
    return text.replace(old, new)


def not_run(reason):
    """Ends a test for which something is missing. In CI nothing may be missing that a
    package of Debian's has, and so everything but the CUDA Toolkit."""
    if os.environ.get("CI") == "true" and "nvcc" not in reason:
        pytest.fail(f"not run: {reason}", pytrace=False)
    pytest.skip(f"not run: {reason}")


def need(tool):
    """The path of a tool, or the end of the test."""
    return shutil.which(tool) or not_run(f"no {tool} here")


@pytest.fixture(scope="session")
def build_program(tmp_path_factory):
    """build_program(source) -> the path of the program, built for the device under test.

    The source is the path of a .cu file or the text of one. `name` is the stem of the file that a
    text is written to. `flags` go to nvcc, or to the host compiler on the CPU device, where
    `cxx` may name another one. The same call twice builds once.
    """
    built = {}

    def build(source, *, name="program", device=DEVICE, flags=(), cxx=None):
        if isinstance(source, Path):
            name = source.stem
            text = source.read_text(encoding="utf-8")
        else:
            text = source
        key = hashlib.sha256(repr((text, name, device, flags, cxx)).encode()).hexdigest()
        if key in built:
            return built[key]
        folder = tmp_path_factory.mktemp(name)
        program = folder / name
        if not isinstance(source, Path):
            source = folder / f"{name}.cu"
            source.write_text(text, encoding="utf-8")
        if device == "gpu":
            if not NVCC:
                pytest.skip("not run: no nvcc here")
            result = run([NVCC, "-O3", "-arch=native", *flags, source, "-o", program],
                         timeout=300)
        else:
            compiler = need(cxx or os.environ.get("CXX") or "g++")
            result = run([REPOSITORY / "cpu_device" / "run", "--build", "-o", program, source],
                         timeout=300, env={"CXX": compiler, "CXXFLAGS": " ".join(flags)})
        if result.returncode != 0:
            pytest.fail(f"{source.name} does not build:\n{result.stdout}{result.stderr}")
        built[key] = program
        return program

    return build
