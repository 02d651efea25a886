"""What the book says of each chapter that is not in its .cu: two phrases, and which figures."""

from dataclasses import dataclass

# The machine whose figures the texts quote: its folder in plots/results, and its name.
MACHINE, MACHINE_NAME = "h200", "an H200"


@dataclass(frozen=True)
class Table:
    rows: dict                  # row of the benchmarks, or rows<variant> of which the fastest
                                # counts -> what the table calls it
    ceiling: str = ""           # the row of which the others' rates are shares
    share: str = "share of the ceiling"
    of: str = "bytes"           # what rates count: "bytes" or "flop"
    sizes: tuple = ()           # default: the largest problem that was timed for all the rows


@dataclass(frozen=True)
class Chapter:
    question: str               # that it answers
    builds: str                 # what the reader has at its end
    reaches: str                # {row:time}, {row:rate} and {row:share} are figures of the first
                                # table; {row@1024:time} is one at another size
    tables: tuple


CHAPTERS = {
    "01_vector_add": Chapter(
        "What is a kernel, and why does the first one lose?",
        "the sum of two vectors, by one thread and by a block",
        "{gpu_one_block@1024:time} for 1024 sums; one CPU thread {cpu_one_thread@1024:time}",
        (Table({"cpu_one_thread": "CPU, one thread", "gpu_one_thread": "GPU, one thread",
                "gpu_copy_ceiling": "GPU, a copy"}),)),
    "02_error_checking": Chapter(
        "Nothing complained, and nothing happened: how do I know that a launch worked?",
        "`CUDA_CHECK`, and a gallery of mistakes with what CUDA says to each",
        "{gpu_launch_get_last_error:time} for a launch that is checked, "
        "{gpu_launch_synchronize:time} if it is waited for",
        (Table({"gpu_launch_alone": "launch, no check",
                "gpu_launch_get_last_error": "launch, `cudaGetLastError`",
                "gpu_launch_synchronize": "launch, `cudaDeviceSynchronize`",
                "cpu_one_thread": "the same sums on the CPU"}),)),
    "03_thread_hierarchy": Chapter(
        "How many threads, how many blocks, and how near to the limit of the memory?",
        "the sum of vectors of any size, four floats a thread",
        "{gpu_float4:rate}, {gpu_float4:share} of the ceiling",
        (Table({"cpu_one_thread": "CPU, one thread", "cpu_all_threads": "CPU, all threads",
                "gpu_with_transfers_pageable": "GPU, transfers, pageable memory",
                "gpu_with_transfers_pinned": "GPU, transfers, pinned memory",
                "gpu_scalar": "GPU, one element a thread",
                "gpu_grid_stride": "GPU, grid-stride loop",
                "gpu_four_scalars": "GPU, four elements a thread",
                "gpu_float4": "GPU, one `float4` a thread",
                "gpu_torch_add<calls>": "`torch.add`",
                "gpu_ceiling": "ceiling"}, "gpu_ceiling"),)),
    "04_matrix_2d_3d": Chapter(
        "Does it matter which index is the row's?",
        "sums of matrices and tensors, and a map of what a warp touches",
        "{gpu_float4:rate}, {gpu_float4:share} of the ceiling",
        (Table({"cpu_one_thread": "CPU, one thread", "cpu_all_threads": "CPU, all threads",
                "gpu_matrix_rows_on_x": "GPU, rows on x",
                "gpu_matrix_columns_on_x": "GPU, columns on x",
                "gpu_float4": "GPU, `float4`, no rows",
                "gpu_torch_add<calls>": "`torch.add`",
                "gpu_ceiling": "ceiling"}, "gpu_ceiling"),
         Table({"gpu_tensor_depth_on_x": "GPU, depth on x",
                "gpu_tensor_columns_on_x": "GPU, columns on x"}))),
    "05_device_functions": Chapter(
        "What may a kernel call, and what does the fast sigmoid cost?",
        "σ(x) of a vector, in five ways, each with its error",
        "{gpu_float4:rate}, {gpu_float4:share} of the ceiling",
        (Table({"gpu_scalar": "one float a thread",
                "gpu_scalar<__expf>": "one, `__expf`",
                "gpu_scalar<__fdividef>": "one, `__fdividef`",
                "gpu_scalar<use_fast_math>": "one, `-use_fast_math`",
                "gpu_scalar<tanh.approx>": "one, `tanh.approx`",
                "gpu_float4": "four floats a thread",
                "gpu_float4<tanh.approx>": "four, `tanh.approx`",
                "gpu_copy": "`cudaMemcpyAsync`",
                "gpu_torch_sigmoid<calls>": "`torch.sigmoid`",
                "gpu_torch_sigmoid<graph>": "`torch.sigmoid`, in a CUDA graph",
                "gpu_ceiling": "ceiling"}, "gpu_ceiling"),)),
    "06_matmul": Chapter(
        "Who reads an element, and how often?",
        "the product of two matrices, up to tiles in shared memory",
        "{gpu_tile<32>:rate}, {gpu_tile<32>:share} of cuBLAS",
        (Table({"gpu_rows_on_x": "one thread an output, rows on x",
                "gpu_columns_on_x": "one thread an output, columns on x",
                "gpu_tile<8>": "tile of 8 × 8", "gpu_tile<16>": "tile of 16 × 16",
                "gpu_tile<32>": "tile of 32 × 32", "gpu_cublas": "cuBLAS"},
               "gpu_cublas", "share of cuBLAS", "flop", (4096, 4096, 4096)),
         Table({"cpu_ijk_one_thread": "CPU, ijk, one thread",
                "cpu_one_thread": "CPU, ikj, one thread",
                "cpu_all_threads": "CPU, ikj, all threads",
                "cpu_blas_all_threads": "CPU, OpenBLAS, all threads",
                "gpu_with_transfers_pageable": "GPU, tile of 32 × 32, with transfers",
                "gpu_tile<32>": "GPU, tile of 32 × 32", "gpu_cublas": "GPU, cuBLAS"},
               "gpu_cublas", "share of cuBLAS", "flop", (1024, 1024, 1024)))),
    "07_neural_layer": Chapter(
        "What does a framework do when it computes a layer?",
        "y = σ(Wx + b) for one vector and for many, and a network that reads digits",
        "{gpu_block_a_row:rate}, {gpu_block_a_row:share} of the ceiling",
        (Table({"gpu_three_kernels": "three kernels", "gpu_fused": "one kernel",
                "gpu_warp_a_row": "a warp a row", "gpu_block_a_row": "a block a row, `float4`",
                "gpu_cublas": "cuBLAS and one kernel",
                "gpu_torch_layer<calls>": "PyTorch", "gpu_ceiling": "ceiling"},
               "gpu_ceiling", sizes=(1, 16384, 16384)),
         Table({"gpu_batch_tile": "tile, fused",
                "gpu_batch_cublas": "cuBLAS and one kernel",
                "gpu_torch_batch<calls>": "PyTorch"},
               "gpu_batch_cublas", "share of cuBLAS", "flop", (1024, 4096, 4096)))),
}
