#!/usr/bin/env python3
"""Times PyTorch on the chapters' own problems, as the chapters' programs time their kernels.

Run after `make bench` of a chapter, on the same machine: the sizes are those that its program was
timed at. The figures go beside its results, to <chapter>.torch.json, in the same format. Where
PyTorch is missing there are none.
"""

import argparse
import datetime
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import results_reader as reader

COLD = 768e6                    # bytes: no L2 cache holds what was used so long ago
BATCH = 1e-3                    # seconds between two events, against their own 5 µs
LENGTH = 0.03                   # seconds a repetition lasts, at least
REPETITIONS = 5


# ---- the problems: each makes its data and returns a call, and what it moves and computes --------

def add(torch, sizes):
    a, b = (torch.rand(sizes, device="cuda") for _ in range(2))
    c = torch.empty_like(a)
    return lambda: torch.add(a, b, out=c), {"bytes": 3 * c.nbytes}


def sigmoid(torch, sizes):
    x = torch.randn(sizes, device="cuda")
    y = torch.empty_like(x)
    return lambda: torch.sigmoid(x, out=y), {"bytes": 2 * y.nbytes}


def layer(torch, sizes):
    """As one writes it: PyTorch makes its results anew in each call, from memory that it keeps."""
    batch, inputs, outputs = sizes
    x = torch.rand((batch, inputs), device="cuda")
    weight = torch.rand((outputs, inputs), device="cuda") / inputs
    bias = torch.rand((outputs,), device="cuda")
    moved = x.nbytes + weight.nbytes + bias.nbytes + 4 * batch * outputs
    return (lambda: torch.sigmoid(torch.nn.functional.linear(x, weight, bias)),
            {"bytes": moved, "items": 2 * batch * inputs * outputs})


# chapter: (a row that has the sizes, PyTorch's row, the problem). The data of a *cold* row rotates
# through more memory than a cache holds.
CASES = {
    "03_thread_hierarchy": (("gpu_float4", "gpu_torch_add", add),
                            ("gpu_float4_cold", "gpu_torch_add_cold", add)),
    "04_matrix_2d_3d": (("gpu_float4", "gpu_torch_add", add),),
    "05_device_functions": (("gpu_float4", "gpu_torch_sigmoid", sigmoid),),
    "07_neural_layer": (("gpu_fused", "gpu_torch_layer", layer),
                        ("gpu_batch_tile<32>", "gpu_torch_batch", layer)),
}


# ---- the clock ----------------------------------------------------------------------------------

def elapsed(torch, run):
    """Seconds on the GPU from before the first to after the last launch of `run`."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3


def time_case(torch, problem, sizes, cold):
    """[(how, calls timed in each repetition, [seconds a call])], called and from a CUDA graph.

    The host is part of the first, as it is of our own kernels' times. In a CUDA graph the launches
    are prepared, so that the host's part vanishes: that is how our own cold rows are timed.
    """
    call, counts = problem(torch, sizes)
    calls = [call] + [problem(torch, sizes)[0]
                      for _ in range(math.ceil(COLD / counts["bytes"]) - 1 if cold else 0)]

    def call_all(times):
        for _ in range(times):
            for one in calls:
                one()

    call_all(1)                 # the first call also loads the kernel
    torch.cuda.synchronize()
    rounds = max(1, math.ceil(BATCH / elapsed(torch, lambda: call_all(1))))
    rounds = max(1, math.ceil(BATCH * rounds / elapsed(torch, lambda: call_all(rounds))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call_all(rounds)

    timed = []
    for how, run in (("calls", lambda: call_all(rounds)), ("graph", graph.replay)):
        batches = max(1, math.ceil(LENGTH / elapsed(torch, run)))
        count = batches * rounds * len(calls)
        timed.append((how, count, [sum(elapsed(torch, run) for _ in range(batches)) / count
                                   for _ in range(REPETITIONS)]))
    return counts, timed


def entries(torch, own_row, name, problem):
    """One size of a problem, as Google Benchmark writes it."""
    def entry(how, **more):
        full = f"{name}<{how}>/{'/'.join(map(str, own_row.sizes))}/manual_time"
        return {"name": full, "run_name": full, "run_type": "iteration",
                "repetitions": REPETITIONS, "threads": 1, **more}

    try:
        counts, timed = time_case(torch, problem, own_row.sizes, name.endswith("_cold"))
    except RuntimeError as error:           # PyTorch's "out of memory" is one
        first_line = str(error).partition("\n")[0]
        return [entry(how, repetition_index=0, error_occurred=True, error_message=first_line)
                for how in ("calls", "graph")]
    return [entry(how, repetition_index=i, iterations=count, real_time=seconds * 1e9,
                  time_unit="ns",
                  **{f"{what}_per_second": each / seconds for what, each in counts.items()})
            for how, count, times in timed for i, seconds in enumerate(times)]


def driver():
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=10)
        return answer.stdout.partition("\n")[0].strip() or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


def time_chapter(torch, machine, chapter, results):
    own = reader.read(reader.results_file(machine, chapter, results))
    properties = torch.cuda.get_device_properties(0)
    if own.context.get("gpu") != properties.name:
        raise reader.BadResults(f"{reader.results_file(machine, chapter, results)}: from "
                                f"{own.context.get('gpu')}, but this GPU is {properties.name}")
    benchmarks = []
    for own_name, name, problem in CASES[chapter]:
        for row in own.named(own_name):
            benchmarks += entries(torch, row, name, problem)
            torch.cuda.empty_cache()
    document = {
        "context": {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
                    "gpu": properties.name, "driver": driver(), "torch": torch.__version__,
                    "toolkit": torch.version.cuda,
                    "l2_bytes": str(getattr(properties, "L2_cache_size", "unknown"))},
        "benchmarks": benchmarks,
    }
    target = reader.results_file(machine, f"{chapter}.torch", results)
    reader.write_whole(target, json.dumps(document, indent=2) + "\n")
    return target


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("machine", help="a folder in plots/results")
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER",
                        help="such as 03_thread_hierarchy (default: all that were timed there)")
    parser.add_argument("--results", type=Path, default=reader.RESULTS)
    options = parser.parse_args(arguments)
    chapters = [chapter for chapter in options.chapters or CASES if chapter in CASES]
    if not options.chapters:
        chapters = [chapter for chapter in chapters
                    if reader.results_file(options.machine, chapter, options.results).exists()]
        if not chapters:
            print(f"peers.py: no results of {options.machine} in {options.results}: first "
                  "`make bench`", file=sys.stderr)
            return 1
    if not chapters:
        return 0                # PyTorch has no part in these chapters
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"      # as make numbers the GPUs
    try:
        import torch
    except (ImportError, OSError) as error:
        print(f"PyTorch is not timed: it cannot be imported here ({error})")
        return 0
    if not torch.cuda.is_available():
        print("PyTorch is not timed: it finds no GPU here")
        return 0
    failed = False
    for chapter in chapters:
        try:
            print(f"PyTorch {torch.__version__} on {chapter}: "
                  f"{time_chapter(torch, options.machine, chapter, options.results)}")
        except reader.BadResults as error:
            print(f"peers.py: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
