#@title Which GPU is here?
# The cells below use what this one finds. There is nothing to change in it.

import os
import re
import shutil
import subprocess
import tempfile


def ask(what):
    """What nvidia-smi says of the first GPU, or nothing."""
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace",
                                timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.partition("\n")[0].strip()


# The parts go to a folder of their own, on a disk from which programs can be started.
if "scratch" not in globals():
    start, scratch = os.getcwd(), tempfile.TemporaryDirectory()
os.chdir(scratch.name)

nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
if nvcc:
    os.environ["PATH"] += os.pathsep + os.path.dirname(nvcc)
os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # of several GPUs programs take nvidia-smi's first
gpu, capability = ask("name"), ask("compute_cap")
arch = "native"                             # for a driver that does not know that question
if re.fullmatch(r"\d+\.\d", capability):
    arch = "sm_" + capability.replace(".", "")
if not (gpu and nvcc):
    arch = ""
cpu_device = os.path.join(start, "..", "cpu_device", "run")
if not os.path.exists(cpu_device):
    cpu_device = ""

if arch:
    print(f"{gpu}: the cells below build for it with nvcc -arch={arch}.")
elif gpu:
    print(f"{gpu}, but no nvcc. It is in the CUDA Toolkit: developer.nvidia.com/cuda-downloads")
else:
    print("There is no GPU here. In Colab: Runtime → Change runtime type → T4 GPU → Save, and then")
    print("run this cell again.")
if cpu_device and not arch:
    print("Until then the chapter runs on the CPU device: its results are real, its times are not.")
elif not arch:
    print("Until then nothing is built or run, and you can read on.")
