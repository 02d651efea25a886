"""What each picture shows and what it says in words. Needs no matplotlib, so the book can ask."""

from __future__ import annotations

import math
from dataclasses import dataclass

import results_reader as reader

# Okabe and Ito's colours, which stay apart for colour-blind readers: warm ones for the CPU and
# what is slow on purpose, cool ones for the GPU. Each line has a marker of its own as well.
ORANGE, VERMILLION = "#E69F00", "#D55E00"
BLUE, SKY, GREEN, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#CC79A7"
BLACK, GREY = "#222222", "#666666"


@dataclass(frozen=True)
class Line:
    rows: str                   # the name of its rows
    label: str                  # beside the line; {threads} comes from the context
    colour: str
    marker: str = ""
    words: str = ""             # the label inside a sentence
    best: bool = False          # rows<variant>, of which the fastest counts at each size
    dashed: bool = False


@dataclass(frozen=True)
class Axis:
    label: str
    at: object                  # Row -> where it stands on this axis, or None if nowhere
    tick: object                # Row -> what is written there
    in_words: object = lambda size: f"{reader.about(size)} elements"


@dataclass(frozen=True)
class Picture:
    name: str                   # the file is <chapter>_<name>.svg
    title: str
    y: str                      # "time", "rate", "share" (of the ceiling's rate), "roofline"
                                # (rate over intensity) or "accesses"
    lines: tuple
    x: Axis | None = None       # None: bars, one a line, at the largest size that all lines have
    every_size: bool = False    # bars: at every size that all lines have
    at: tuple = ()              # or at these sizes alone
    of: str = "bytes"           # what rates and shares count: "bytes" or "flop"
    ceiling: Line | None = None # for "share"; for "roofline" that of the FLOPs
    slope: Line | None = None   # for "roofline": the ceiling of the bytes
    crossovers: tuple = ()      # (line of the CPU, line of the GPU)
    marks_l2: bool = True


# ---- the pictures -------------------------------------------------------------------------------

def elements(row):
    return row.elements


def shape(row):
    if len(row.sizes) > 1 and len(set(row.sizes)) == 1:
        return f"{row.sizes[0]}{'²³'[len(row.sizes) - 2]}"
    return "×".join(str(size) for size in row.sizes)


def side(row):
    """N, of a problem that is N × N × N."""
    return row.sizes[0] if len(set(row.sizes)) == 1 else None


def intensity(row):
    return row.flop / row.bytes


VECTOR = Axis("elements in a vector", elements, lambda row: reader.exactly(row.elements))
MATRIX = Axis("rows × columns", elements, shape)
TENSOR = Axis("depth × rows × columns", elements, shape)
CUBE = Axis("N, for matrices of N × N", side, lambda row: str(row.sizes[0]),
            lambda size: f"N = {reader.about(size)}")
LAYER = Axis("inputs, as many as outputs",
             lambda row: row.sizes[1] if row.sizes[0] == 1 and row.sizes[1] == row.sizes[2] else None,
             lambda row: str(row.sizes[1]), lambda size: f"{reader.about(size)} inputs")
BATCH = Axis("vectors in a batch, 4096 inputs and outputs",
             lambda row: row.sizes[0] if row.sizes[1:] == (4096, 4096) else None,
             lambda row: str(row.sizes[0]), lambda size: f"{reader.about(size)} vectors")


def intensity_of(axis):
    """The arithmetic intensity of the rows that stand on that axis."""
    def in_words(row):
        return f"{intensity(row):.2g}" if intensity(row) < 10 else reader.about(intensity(row))

    return Axis("FLOP for each byte that the memory has to move",
                lambda row: None if axis.at(row) is None else intensity(row), in_words)


BLOCK = Axis("threads a block", lambda row: row.named["block"],
             lambda row: str(row.named["block"]))

CPU_ONE = Line("cpu_one_thread", "CPU, one thread", ORANGE, "o", "one CPU thread")
CPU_ALL = Line("cpu_all_threads", "CPU, {threads} threads", VERMILLION, "s",
               "{threads} CPU threads")
CEILING = Line("gpu_ceiling", "ceiling", GREY, best=True, dashed=True)
FLOAT4 = Line("gpu_float4", "GPU, float4", BLUE, "D", "the float4 kernel alone")
PAGEABLE = Line("gpu_with_transfers_pageable", "transfers, pageable", PURPLE, "v",
                "the GPU with transfers from pageable memory")
PINNED = Line("gpu_with_transfers_pinned", "transfers, pinned", GREEN, "^",
              "the GPU with transfers from pinned memory")
# Like beside like: launches one after another where ours are that, a graph where ours are one.
TORCH_ADD = Line("gpu_torch_add<calls>", "torch.add", GREEN, "^")
TORCH_SIGMOID = Line("gpu_torch_sigmoid<calls>", "torch.sigmoid", GREEN, "^")
TORCH_ADD_COLD = Line("gpu_torch_add_cold<graph>", "torch.add", GREEN)

CPU_IJK = Line("cpu_ijk_one_thread", "ijk, one thread", BLACK, "X")
CPU_BLAS = Line("cpu_blas_all_threads", "OpenBLAS", GREEN, "P", "OpenBLAS")
ROWS_ON_X = Line("gpu_rows_on_x", "rows on x", VERMILLION, "v")
COLUMNS_ON_X = Line("gpu_columns_on_x", "columns on x", SKY, "o")
TILE = Line("gpu_tile<32>", "tile of 32", BLUE, "D", "the tile kernel alone")
CUBLAS = Line("gpu_cublas", "cuBLAS", GREY, dashed=True)
FMA_CEILING = Line("gpu_fma_ceiling", "FMAs alone", GREY, dashed=True)
READ_CEILING = Line("gpu_read_ceiling", "ceiling of the bytes", GREY, best=True)
BLOCK_A_ROW = Line("gpu_block_a_row", "a block a row", BLUE, "D", "the kernel with a block a row",
                   best=True)
WARP_A_ROW = Line("gpu_warp_a_row", "a warp a row", SKY, "o")
FUSED = Line("gpu_fused", "one kernel", ORANGE, "s")
THREE_KERNELS = Line("gpu_three_kernels", "three kernels", VERMILLION, "v")
LAYER_CUBLAS = Line("gpu_cublas", "cuBLAS, then σ", PURPLE, "^")
LAYER_TORCH = Line("gpu_torch_layer<calls>", "PyTorch", GREEN, "X")
TRANSFERS = Line("gpu_with_transfers_pageable", "transfers of x and y", PURPLE, "v",
                 "the GPU with transfers of x and y")
BATCH_TILE = Line("gpu_batch_tile", "tile, fused", BLUE, "D", best=True)
BATCH_CUBLAS = Line("gpu_batch_cublas", "cuBLAS, then σ", GREY, "P")
BATCH_TORCH = Line("gpu_torch_batch<calls>", "PyTorch", GREEN, "X")

ONE_THREAD = Line("gpu_one_thread", "GPU, one thread", PURPLE, "v", "one GPU thread")
ONE_BLOCK = Line("gpu_one_block", "GPU, one block", BLUE, "D", "one block of GPU threads")
ONE_BLOCK_TRIP = Line("gpu_one_block_with_transfers", "block and transfers", GREEN, "^",
                      "the block with transfers")


def each_with_each(cpu_lines, gpu_lines):
    return tuple((cpu, gpu) for gpu in gpu_lines for cpu in cpu_lines)


def in_both_forms(variant, label):
    return (Line(f"gpu_scalar{variant}", f"scalar{label}", SKY),
            Line(f"gpu_float4{variant}", f"float4{label}", BLUE))


PICTURES = {
    "01_vector_add": (
        Picture("time", "Vector add: time of one run", "time",
                (CPU_ONE, ONE_THREAD, ONE_BLOCK, ONE_BLOCK_TRIP), VECTOR,
                crossovers=each_with_each((CPU_ONE,), (ONE_THREAD, ONE_BLOCK, ONE_BLOCK_TRIP))),
        Picture("rate", "Vector add: bytes moved per second", "rate",
                (CPU_ONE, ONE_THREAD, ONE_BLOCK, ONE_BLOCK_TRIP,
                 Line("gpu_copy_ceiling", "a copy on the GPU", GREY, dashed=True)), VECTOR,
                crossovers=each_with_each((CPU_ONE,), (ONE_THREAD, ONE_BLOCK, ONE_BLOCK_TRIP))),
    ),
    "02_error_checking": (
        Picture("cost", "What checking costs: time of one launch on the host", "time",
                (Line("gpu_launch_alone", "no check", SKY),
                 Line("gpu_launch_get_last_error", "cudaGetLastError", BLUE),
                 Line("gpu_launch_synchronize", "cudaDeviceSynchronize", PURPLE))),
    ),
    "03_thread_hierarchy": (
        Picture("rate", "Vector add: bytes moved per second", "rate",
                (CPU_ONE, CPU_ALL, FLOAT4, PAGEABLE, PINNED, CEILING), VECTOR,
                crossovers=each_with_each((CPU_ONE, CPU_ALL), (FLOAT4, PAGEABLE, PINNED))),
        Picture("ladder", "Vector add: one element a thread, or four", "share",
                (Line("gpu_scalar", "one element", SKY),
                 Line("gpu_grid_stride", "grid-stride loop", SKY),
                 Line("gpu_four_scalars", "four elements", BLUE),
                 Line("gpu_float4", "one float4", BLUE), TORCH_ADD), ceiling=CEILING),
        Picture("blocks", "Vector add: how many threads a block", "share",
                (Line("gpu_scalar_blocks", "one element a thread", SKY, "o"),
                 Line("gpu_float4_blocks", "one float4 a thread", BLUE, "D")), BLOCK,
                ceiling=CEILING, marks_l2=False),
        Picture("cold", "Vector add: data that is not in the L2 cache", "rate",
                (Line("gpu_ceiling_cold", "ceiling", GREY, best=True),
                 Line("gpu_float4_cold", "one float4", BLUE),
                 TORCH_ADD_COLD), every_size=True),
    ),
    "04_matrix_2d_3d": (
        Picture("accesses", "What the first warp touches", "accesses",
                (Line("matrix_columns_on_x", "Matrix, columns on x", BLUE),
                 Line("matrix_rows_on_x", "Matrix, rows on x", VERMILLION),
                 Line("tensor_columns_on_x", "Tensor, columns on x", BLUE),
                 Line("tensor_depth_on_x", "Tensor, depth on x", VERMILLION))),
        Picture("matrix", "Matrix add: which mapping?", "share",
                (Line("gpu_matrix_columns_on_x", "columns on x", SKY, "o"),
                 Line("gpu_matrix_rows_on_x", "rows on x", VERMILLION, "v"), FLOAT4, TORCH_ADD),
                MATRIX, ceiling=CEILING),
        Picture("tensor", "Tensor add: which mapping?", "share",
                (Line("gpu_tensor_columns_on_x", "columns on x", SKY, "o"),
                 Line("gpu_tensor_depth_on_x", "depth on x", VERMILLION, "v")), TENSOR,
                ceiling=CEILING),
        Picture("rate", "Matrix add: bytes moved per second", "rate",
                (CPU_ONE, CPU_ALL,
                 Line("cpu_one_thread_by_columns", "one thread, by columns", BLACK, "X"),
                 FLOAT4, PAGEABLE, CEILING), MATRIX,
                crossovers=each_with_each((CPU_ONE, CPU_ALL), (FLOAT4, PAGEABLE))),
    ),
    "05_device_functions": (
        Picture("rate", "Sigmoid: bytes moved per second", "rate",
                (CPU_ONE, CPU_ALL, FLOAT4, PAGEABLE, CEILING), VECTOR,
                crossovers=each_with_each((CPU_ONE, CPU_ALL), (FLOAT4, PAGEABLE))),
        Picture("share", "Sigmoid: share of the ceiling", "share",
                (Line("gpu_scalar", "GPU, scalar", SKY, "o"), FLOAT4, TORCH_SIGMOID,
                 Line("gpu_copy", "cudaMemcpyAsync", GREY, "s")), VECTOR, ceiling=CEILING),
        Picture("variants", "Sigmoid: what the fast functions gain", "share",
                (*in_both_forms("", ""), *in_both_forms("<__expf>", ", __expf"),
                 *in_both_forms("<__fdividef>", ", __fdividef"),
                 *in_both_forms("<use_fast_math>", ", -use_fast_math"),
                 *in_both_forms("<tanh.approx>", ", tanh.approx")), every_size=True,
                ceiling=CEILING),
    ),
    "06_matmul": (
        Picture("rate", "Matrix product: FLOP per second", "rate",
                (CPU_IJK, CPU_ONE, CPU_ALL, CPU_BLAS, TILE, PAGEABLE, CUBLAS), CUBE, of="flop",
                crossovers=each_with_each((CPU_ONE, CPU_ALL, CPU_BLAS), (TILE, PAGEABLE))),
        Picture("ladder", "Matrix product: share of cuBLAS", "share",
                (ROWS_ON_X, COLUMNS_ON_X, Line("gpu_tile<8>", "tile of 8", BLUE),
                 Line("gpu_tile<16>", "tile of 16", BLUE), Line("gpu_tile<32>", "tile of 32", BLUE)),
                at=((4096, 4096, 4096),), of="flop", ceiling=CUBLAS),
        Picture("roofline", "Matrix product: under the roofline", "roofline",
                (ROWS_ON_X, COLUMNS_ON_X, TILE, Line("gpu_cublas", "cuBLAS", GREEN, "^")), intensity_of(CUBE),
                of="flop", ceiling=FMA_CEILING, slope=READ_CEILING, marks_l2=False),
    ),
    "07_neural_layer": (
        Picture("rate", "A layer for one vector: bytes per second", "rate",
                (CPU_ONE, CPU_ALL, BLOCK_A_ROW, TRANSFERS, CEILING), LAYER,
                crossovers=each_with_each((CPU_ONE, CPU_ALL), (BLOCK_A_ROW, TRANSFERS))),
        Picture("share", "A layer for one vector: share of the ceiling", "share",
                (THREE_KERNELS, FUSED, WARP_A_ROW, BLOCK_A_ROW, LAYER_CUBLAS, LAYER_TORCH), LAYER,
                ceiling=CEILING),
        Picture("ladder", "A layer for one vector: share of the library", "share",
                (THREE_KERNELS, FUSED, WARP_A_ROW, BLOCK_A_ROW, LAYER_TORCH), every_size=True,
                at=((1, 4096, 4096), (1, 16384, 16384)), ceiling=CUBLAS),
        Picture("batch", "A layer for a batch: FLOP per second", "rate",
                (BATCH_TILE, BATCH_CUBLAS, BATCH_TORCH), BATCH, of="flop"),
        Picture("roofline", "A layer for a batch: under the roofline", "roofline",
                (BATCH_TILE, BATCH_CUBLAS), intensity_of(BATCH), of="flop",
                ceiling=BATCH_CUBLAS, slope=CEILING, marks_l2=False),
    ),
}


# ---- their numbers ------------------------------------------------------------------------------

@dataclass(frozen=True)
class Point:
    x: float
    y: float
    low: float
    high: float
    row: reader.Row


def rows_of(line, results):
    return results.best(line.rows) if line.best else results.named(line.rows)


def points_of(picture, line, results):
    """The points of one line, from left to right; of bars, from small to large."""
    ceiling = {}
    if picture.y == "share":
        ceiling = {row.elements: getattr(row, picture.of) / row.seconds
                   for row in rows_of(picture.ceiling, results)}
    points = []
    for row in rows_of(line, results):
        work = getattr(row, picture.of)
        values = [row.seconds, row.fastest, row.slowest]
        if picture.y != "time":
            if work is None:
                continue
            values = [work / seconds for seconds in values]
        if picture.y == "share":
            if row.elements not in ceiling:
                continue
            values = [value / ceiling[row.elements] for value in values]
        x = picture.x.at(row) if picture.x else row.elements
        if x is None or (picture.at and row.sizes not in picture.at):
            continue
        points.append(Point(x, values[0], min(values), max(values), row))
    return sorted(points, key=lambda point: point.x)


def lines_of(picture, data):
    """[(line, its points)]; a line for which there is nothing is left out."""
    if picture.y == "accesses":
        found = [(line, data.get(line.rows)) for line in picture.lines]
    else:
        found = [(line, points_of(picture, line, data)) for line in picture.lines]
    return [(line, points) for line, points in found if points]


def bars_of(picture, results):
    """[(number of elements, [(line, point)])], the bars that stand together."""
    groups = {}
    for line, points in lines_of(picture, results):
        for point in points:
            groups.setdefault(point.x, []).append((line, point))
    most = max(len(group) for group in groups.values())
    complete = sorted((size, group) for size, group in groups.items() if len(group) == most)
    return complete if picture.every_size else complete[-1:]


def roof_of(picture, results):
    """(bytes per second, FLOP per second): the fastest of the rows that are the two ceilings. None
    where one of them was not timed."""
    slope = [row.bytes / row.seconds for row in rows_of(picture.slope, results) if row.bytes]
    flat = [row.flop / row.seconds for row in rows_of(picture.ceiling, results) if row.flop]
    return (max(slope), max(flat)) if slope and flat else None


def crossovers_of(picture, results):
    """[(line of the CPU, line of the GPU, Crossover)] where both were timed."""
    found = [(cpu, gpu, reader.crossover(rows_of(cpu, results), rows_of(gpu, results),
                                         picture.x.at))
             for cpu, gpu in picture.crossovers]
    return [(cpu, gpu, crossover) for cpu, gpu, crossover in found if crossover]


def l2_bytes(context):
    """The size of the GPU's L2 cache, where the results tell it."""
    size = str(context.get("l2_bytes"))
    return int(size) if size.isdigit() else None


def end_of_l2(picture, results):
    """How far the data of the GPU's rows fits its L2 cache: a place on the x axis, or None.

    Infinity where all of it fits.
    """
    size = l2_bytes(results.context)
    if not (picture.x and picture.marks_l2 and size):
        return None
    points = [point for line, points in lines_of(picture, results) for point in points
              if line.rows.startswith("gpu_") and not line.dashed and point.row.bytes]
    inside = [point for point in points if point.row.bytes <= size]
    outside = [point for point in points if point.row.bytes > size]
    if not inside or not outside:
        return math.inf if inside else None
    last = max(inside, key=lambda point: point.x)
    first = min(outside, key=lambda point: point.x)
    part = math.log(size / last.row.bytes) / math.log(first.row.bytes / last.row.bytes)
    return last.x * (first.x / last.x) ** part


def sectors_of(accesses):
    """{number of a sector: {which of its floats: lane}}."""
    sectors = {}
    for lane, address in accesses:
        sectors.setdefault(address // reader.SECTOR, {})[address % reader.SECTOR // 4] = lane
    return dict(sorted(sectors.items()))


# ---- their words --------------------------------------------------------------------------------

def filled_in(text, context):
    return text.format(threads=context.get("threads", "all"))


def title_of(picture, data):
    cpu_only = picture.y != "accesses" and not data.has_gpu
    return picture.title + (" (CPU only)" if cpu_only else "")


def listed(words, joint=" and "):
    """a, b and c."""
    return joint.join(filter(None, [", ".join(words[:-1]), words[-1]]))


def crossovers_in_words(picture, results):
    """Where the lines of the GPU are faster. Lines of which the same is true share a sentence."""
    found = crossovers_of(picture, results)
    same = {}                              # what is said -> of which lines
    for gpu in dict.fromkeys(gpu for _, gpu, _ in found):
        against = {}                       # where -> than which lines of the CPU
        for cpu, line, crossover in found:
            if line == gpu:
                where = crossover.when(picture.x.in_words), " or " if crossover.wins == "never" else " and "
                against.setdefault(where, []).append(filled_in(cpu.words, results.context))
        said = ", and ".join(f"than {listed(cpus, joint)} {where}" for (where, joint), cpus in against.items())
        same.setdefault(said, []).append(filled_in(gpu.words, results.context))
    return [f"{(lines := listed(gpus))[0].upper()}{lines[1:]} {'are' if gpus[1:] else 'is'} faster {said}."
            for said, gpus in same.items()]


def left_out_in_words(picture, results):
    """What the program left out of the rows that this picture is about, and why."""
    left_out = {}
    for full, why in results.skipped.items():
        name, sizes, _ = reader.split_name(full)
        if picture.at and sizes not in picture.at:
            continue
        if any(name == line.rows or (line.best and name.partition("<")[0] == line.rows)
               for line in picture.lines):
            left_out.setdefault(why, []).append("/".join([name, *map(str, sizes)]))
    return [f"Left out: {', '.join(rows)} ({why})." for why, rows in left_out.items()]


def accesses_in_words(accesses):
    addresses = [address for _, address in sorted(accesses)]
    apart = {after - before for before, after in zip(addresses, addresses[1:])}
    distance = f"{min(apart):,} bytes apart" if len(apart) == 1 else "at uneven distances"
    sectors, used = len(sectors_of(accesses)), 4 * len(set(addresses))
    return (f"neighbouring lanes {distance}: {sectors} sectors, "
            f"{reader.SECTOR * sectors:,} bytes moved, {used:,} used")


def caption(picture, data):
    """What the picture says in words: sentences, perhaps none."""
    if picture.y == "accesses":
        return [f"{line.label}: {accesses_in_words(accesses)}."
                for line, accesses in lines_of(picture, data)]
    sentences = crossovers_in_words(picture, data)
    if picture.y == "roofline":
        slope, flat = roof_of(picture, data)
        sentences.append(f"Up to about {reader.about(flat / slope)} FLOP a byte the memory is the "
                         "limit, and beyond that the arithmetic.")
    if end_of_l2(picture, data) == math.inf:
        sentences.append("All this data fits in the GPU's L2 cache.")
    return sentences + left_out_in_words(picture, data)


# ---- what there is of a machine -----------------------------------------------------------------

def file_name(chapter, picture):
    return f"{chapter}_{picture.name}.svg"


def drawable(machine, chapter, results=reader.RESULTS, bad=None):
    """[(picture, its data, whether the program is still the same)] of what results there are.

    A file that cannot be used is an error, or, given a list `bad`, left out and added to it.
    """
    found = []
    timed = reader.load(machine, chapter, results, bad)
    for picture in PICTURES[chapter]:
        if picture.y == "accesses":
            path = reader.accesses_file(machine, chapter, results)
            data = reader.read_or_note(path, bad, reader.read_accesses)
            current = reader.is_output_of_this_program(path, chapter)
        else:
            data = timed
            current = timed is not None and reader.times_this_program(timed, chapter)
        if data is None or not lines_of(picture, data):
            continue
        if picture.y != "roofline" or roof_of(picture, data):
            found.append((picture, data, current))
    return found


def pictures(machine, chapter, results=reader.RESULTS):
    """For the book: (file name, title, caption, whether it is current) of a chapter's pictures."""
    if chapter not in PICTURES:
        return []
    return [(file_name(chapter, picture), title_of(picture, data),
             " ".join(caption(picture, data)), current)
            for picture, data, current in drawable(machine, chapter, results)]
