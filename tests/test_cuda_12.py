"""The chapters with the headers of CUDA 12, which differ from those of CUDA 13.

clang++ reads both passes of each file, the host's and the device's, and builds nothing: a name that
one of the two toolkits does not have is found, an nvcc that is different is not. CUDA12_HOME is a
toolkit, or a folder with its headers from pip:

    pip install --no-deps --target cuda12 nvidia-cuda-runtime-cu12==12.0.* \
        nvidia-cuda-nvcc-cu12==12.0.* nvidia-cuda-cccl-cu12==12.0.* nvidia-curand-cu12 \
        nvidia-cublas-cu12
    CUDA12_HOME=$PWD/cuda12 make test ARGS="-k cuda_12"
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import CHAPTERS, run

HOME = os.environ.get("CUDA12_HOME") or max(map(str, Path("/usr/local").glob("cuda-12*")), default="")
CLANGS = [f"clang++{suffix}" for suffix in ("", *(f"-{n}" for n in range(21, 15, -1)))]

if not HOME:
    pytest.skip("not run: no CUDA 12 here (CUDA12_HOME)", allow_module_level=True)

# What only one of the two has.
ONLY_12 = "int main() { cudaDeviceProp p; return p.clockRate; }\n"
ONLY_13 = "int main() { cudaMemLocation l{}; return cudaMemPrefetchAsync(nullptr, 0, l, 0, nullptr); }\n"


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory):
    """A folder as an installed toolkit has it, of what pip puts into one for each package."""
    home = Path(HOME).resolve()
    if not (home / "include" / "cuda.h").is_file():
        parts = [path for name in ("include", "nvvm") for path in home.glob(f"nvidia/*/{name}")]
        home = tmp_path_factory.mktemp("cuda")
        (home / "bin").mkdir()
        for part in parts:
            shutil.copytree(part, home / part.name, dirs_exist_ok=True)
    version = re.search(r"#define CUDA_VERSION (\d+)", (home / "include" / "cuda.h").read_text())
    assert 12000 <= int(version[1]) < 13000, f"{HOME} is not CUDA 12"
    return home


@pytest.fixture(scope="module")
def check(toolkit, tmp_path_factory):
    """check(source, flags…): what clang++ has to say, which is nothing where all is well."""
    programs = tmp_path_factory.mktemp("programs")

    def read_with(clang, source, *flags):
        # Explicitly, since another toolkit's headers may lie in /usr/local/include.
        result = run([clang, "-x", "cuda", f"--cuda-path={toolkit}", "-isystem", toolkit / "include",
                      "--cuda-gpu-arch=sm_75", "--cuda-gpu-arch=sm_90", "-std=c++17", "-fsyntax-only",
                      "-Wall", "-Wextra", "-Wno-unknown-cuda-version", *flags, source], timeout=300)
        return result.stdout + result.stderr or "exit code" * (result.returncode != 0)

    (programs / "only_12.cu").write_text(ONLY_12)
    (programs / "only_13.cu").write_text(ONLY_13)
    for clang in filter(shutil.which, CLANGS):
        if not read_with(clang, programs / "only_12.cu"):
            assert "error" in read_with(clang, programs / "only_13.cu")
            return lambda *words: read_with(clang, *words)
    pytest.skip("not run: no clang++ here that can read CUDA 12")


@pytest.mark.parametrize("flags", [(), ("-DBENCHMARKS", "-fopenmp")], ids=["program", "benchmarks"])
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_cuda_12_has_all_that_a_chapter_uses(chapter, flags, check):
    assert check(chapter, *flags) == ""
