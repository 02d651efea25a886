"""What the test files share: where things are, how to run a command, how to build a program."""

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from summary import pytest_addoption, pytest_terminal_summary  # noqa: F401

REPOSITORY = Path(__file__).resolve().parent.parent
CHAPTERS = sorted(cu for cu in REPOSITORY.glob("[0-9][0-9]_*/*.cu")
                  if cu.stem == cu.parent.name[3:])
DEVICE = os.environ.get("DEVICE") or "cpu"
BUILD = Path(os.environ.get("BUILD") or REPOSITORY / "build").resolve()
# More of the same, which takes long: FULL=1 runs it.
FULL = os.environ.get("FULL", "0") != "0"
# Flags for a program whose answer matters and whose speed does not, such as an edited chapter: it
# is built in two thirds of the time.
QUICK = ("-O0", "-g0") if DEVICE == "cpu" else ()
# Its whole path, because some tests run in an environment of their own.
NVCC = shutil.which(os.environ.get("NVCC") or "nvcc") or os.environ.get("NVCC") or shutil.which(
    "nvcc", path=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin")

if DEVICE not in ("gpu", "cpu"):
    raise pytest.UsageError(f"DEVICE={DEVICE}: the device is gpu or cpu")


def chapter_with(number):
    """The .cu of the chapter whose folder begins with these digits."""
    return next(path for path in CHAPTERS if path.parent.name.startswith(number))


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


def mutate(source, old, new, *, inside=None):
    """The source, a text or a file, with one edit, which must match exactly once: in all of it, or
    inside the function that begins with these words."""
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    start = text.index(inside) if inside else 0
    end = text.index("\n}\n", start) if inside else len(text)
    matches = text.count(old, start, end)
    if matches != 1:
        pytest.fail(f"the edit must match exactly once and matches {matches} times: {old!r}")
    return text[:start] + text[start:end].replace(old, new) + text[end:]


# What every chapter's program does with bad input.

# Arguments that a program of one size must not take.
NO_SIZES = [["abc"], ["-3"], ["+3"], ["1e6"], ["0x10"], ["1.0"], [""], [" 7"], ["7 "],
            ["1000000000000000000000"], ["5", "6"], ["١٢"]]


def check_usage(result, usage):
    """One line says what the arguments are, and nothing has been done."""
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].endswith(usage)
    assert sum("usage:" in line for line in result.stderr.splitlines()) == 1


def check_host_memory(program, *arguments):
    """More host memory than there is: refused before it is touched."""
    result = run([program, *arguments], timeout=10)
    assert result.returncode == 1
    assert re.fullmatch(r"FAIL: needs [\d.]+ GB of host memory, and there are [\d.]+ GB",
                        result.stdout.splitlines()[-1])


def check_device_memory(result, chapter):
    """A device that is too small: CUDA's error with its line, and what the device has."""
    assert result.returncode == 1
    assert "PASS" not in result.stdout
    assert re.search(rf"{chapter}\.cu:\d+: cudaErrorMemoryAllocation: out of memory\n    .*\n"
                     r"    the device has \d+ bytes, \d+ of them free\n", result.stderr)


def not_run(reason):
    """Ends a test for which something is missing. In CI nothing may be missing that a
    package of Debian's has, and so everything but the CUDA Toolkit."""
    if os.environ.get("CI") == "true" and "nvcc" not in reason:
        pytest.fail(f"not run: {reason}", pytrace=False)
    pytest.skip(f"not run: {reason}")


def need(tool):
    """The path of a tool, or the end of the test."""
    return shutil.which(tool) or not_run(f"no {tool} here")


def need_compiler(name):
    """The name of a compiler that is here, or the end of the test. It is the name as given: for
    another name of the same compiler cpu_device/run would build another engine."""
    need(name)
    return name


# With pytest-xdist the tests run in several processes, the workers, side by side.

def pytest_configure(config):
    config.addinivalue_line("markers", "alone: measures time, so nothing else runs meanwhile")
    # What a shell starts with & ignores Ctrl-C, and so would all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config):
    if not config.pluginmanager.hasplugin("xdist"):
        return "one test after the other, since pytest-xdist is missing"
    return None


def shared_folder(config):
    """The workers' common folder, or None in a process that has all the tests to itself."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    return Path(config.getoption("basetemp")).parent


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """A test with the mark `alone` has the room to itself; any number of others may be there.

    Who waits for the room stands in the door. Behind a test that waits for the room to be empty
    nobody else goes in, so that it does become empty.
    """
    folder = shared_folder(item.config)
    if not folder:
        yield
        return
    alone = item.get_closest_marker("alone")
    with open(folder / "room", "w", encoding="utf-8") as room:
        with open(folder / "door", "w", encoding="utf-8") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory, pytestconfig):
    """once(key, make) -> a folder in which make(folder) has been called: once for this key, by the
    worker that came first. The others wait until it is done."""
    root = shared_folder(pytestconfig) or tmp_path_factory.getbasetemp()

    def folder_of(key, make):
        folder = root / "once" / hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "done").exists():
                make(folder)
                (folder / "done").touch()
        return folder

    return folder_of


def write_source(path, text):
    """Writes a file, but leaves one that is the same as it is: cpu_device/run finds what it has
    built from it before, and another process that reads it sees it whole."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


@pytest.fixture(scope="session")
def build_program(once):
    """build_program(source) -> the path of the program, built for the device under test.

    The source is the path of a .cu file or the text of one. `name` is the stem of the file that a
    text is written to. `flags` go to nvcc, or to the host compiler on the CPU device, where
    `cxx` may name another one. The same call twice builds once.
    """
    def build(source, *, name="program", device=DEVICE, flags=(), cxx=None):
        is_file = isinstance(source, Path)
        text = source.read_text(encoding="utf-8") if is_file else source
        name = source.stem if is_file else name

        def make(folder):
            program = folder / name
            file = source
            if not is_file:
                file = BUILD / "tests" / folder.name / f"{name}.cu"
                write_source(file, text)
            if device == "gpu":
                if not NVCC:
                    pytest.skip("not run: no nvcc here")
                result = run([NVCC, "-O3", "-arch=native", *flags, file, "-o", program],
                             timeout=300)
            else:
                compiler = need_compiler(cxx or os.environ.get("CXX") or "g++")
                result = run([REPOSITORY / "cpu_device" / "run", "--build", "-o", program, file],
                             timeout=300, env={"CXX": compiler, "CXXFLAGS": " ".join(flags)})
            if result.returncode != 0:
                pytest.fail(f"{file.name} does not build:\n{result.stdout}{result.stderr}")

        return once((text, name, device, flags, cxx), make) / name

    return build
