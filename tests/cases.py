"""What goes wrong for people who learn CUDA, and the tests that hold it away from them here.

A test stands for all its parameters, or with [...] for one set of them.
"""

MISTAKE = "test_mistakes.py::test_a_mistake_is_caught"
SECTION = "test_texts.py::test_a_case_has_its_section"


def mistake(name):
    return f"{MISTAKE}[{name}]"


def section(name):
    return f"{SECTION}[{name}]"


CASES = {
    "a plain build runs and does nothing on an older driver": [
        "test_makefile.py::test_architecture_is_what_the_gpus_are", section("no checks, PTX of too new a toolkit"),
        "test_book.py::test_a_notebook_never_builds_without_an_architecture"],
    "two tools name two versions of CUDA": [
        "test_makefile.py::test_info_without_a_gpu", "test_makefile.py::test_info_with_a_gpu",
        section("two versions of CUDA")],
    "an architecture that is fixed or missing": [
        "test_makefile.py::test_arch_is_on_every_line_that_compiles",
        "test_makefile.py::test_arch_that_is_none_is_named",
        "test_texts.py::test_the_readme_names_the_architectures_that_are_built_for",
        section("built for another GPU"), section("no GPU where it is compiled")],
    "an architecture that is too old": [
        "test_makefile.py::test_forced_gpu_without_one_is_built_for_the_list",
        "test_makefile.py::test_gpu_that_nvcc_no_longer_knows", section("an architecture that CUDA 13 dropped")],
    "fields of the device that are gone": [
        "test_03_thread_hierarchy.py::test_no_field_that_cuda_13_took_away",
        "test_chapters.py::test_nvcc_builds_the_file_alone_without_a_warning",
        section("fields that CUDA 13 dropped")],
    "a host compiler that is too new": [
        "test_makefile.py::test_ccbin_is_on_every_nvcc_line_or_on_none",
        "test_texts.py::test_the_newest_gcc_is_what_this_toolkit_says", section("gcc too new"),
        section("glibc too new")],
    "a toolkit that is too old": [
        "test_makefile.py::test_forced_gpu_without_one_is_built_for_the_list[11.5-75 80 86-True]",
        section("nvcc 11.5 and g++ 11")],
    "flags for the host": [
        "test_makefile.py::test_host_flags_are_wrapped_for_nvcc",
        "test_makefile.py::test_host_flags_with_the_real_nvcc", section("flags for the host")],
    "a disk from which nothing is executed": [
        "test_makefile.py::test_program_that_may_not_be_executed_there",
        "test_makefile.py::test_tree_is_left_as_it_was",
        "test_makefile.py::test_real_chapter_from_a_folder_that_is_not_written_to",
        section("a disk without the exec bit")],
    "a notebook where there is no GPU": [
        "test_book.py::test_a_notebook_asks_for_a_gpu_and_is_valid", "test_book.py::test_the_first_cell",
        "test_book.py::test_a_notebook_runs_whole_without_a_gpu", section("Colab without a GPU")],
    "no driver": [
        "test_chapters.py::test_every_chapter_checks_itself_on_a_machine_without_a_gpu_and_says_so",
        "test_makefile.py::test_forced_gpu_shows_the_programs_own_error", section("no driver, or an old one")],
    "a GPU that a variable hides": ["test_makefile.py::test_hidden_gpus_are_shown", section("a hidden GPU")],
    "a driver for Linux inside Windows": [section("WSL")],
    "more threads than a block may have": [
        mistake("01 More threads or blocks than there may be: a block of 2048 threads"),
        "test_02_error_checking.py::test_a_mistake_by_itself_fails_as_any_program_would[too-many-threads]"],
    "more blocks than an axis may have": [
        "test_04_matrix_2d_3d.py::test_shapes[(1048577, 1)]",
        "test_06_matmul.py::test_no_axis_of_the_grid_ends_the_matrix",
        mistake("04 More threads or blocks than there may be: no limit in y"), section("a launch that is refused")],
    "no elements": [
        "test_01_vector_add.py::test_sizes[0]",
        "test_02_error_checking.py::test_a_size_runs_the_part_that_is_right[0]",
        "test_03_thread_hierarchy.py::test_no_elements", "test_04_matrix_2d_3d.py::test_shapes[(0, 0)]",
        "test_05_device_functions.py::test_no_elements", "test_06_matmul.py::test_shapes[(0, 0, 0)]",
        "test_07_neural_layer.py::test_sizes[(0, 0, 0)]"],
    "a check that passes though nothing ran": [
        mistake("01 The kernel does nothing: one block"),
        mistake("03 The kernel does nothing: one element a thread"),
        mistake("01 The right result lies there from before, and the kernel does nothing: in the host's memory")],
    "a macro that evaluates twice": [
        "test_02_error_checking.py::test_the_macro_evaluates_once_and_fits_an_if_without_braces"],
    "an error that sticks": [
        "test_02_error_checking.py::test_the_lesson_and_the_gallery", section("errors that stick")],
    "a build for a debugger needs more registers": [
        "test_modes.py::test_a_chapter_passes_when_built_for_a_debugger", section("too many registers")],
    "out of memory": [
        "test_01_vector_add.py::test_more_host_memory_than_there_is",
        "test_06_matmul.py::test_more_host_memory_than_there_is",
        "test_01_vector_add.py::test_a_device_that_is_too_small", section("out of memory")],
    "one chapter fails and make does not": ["test_makefile.py::test_run_goes_on_and_counts"],
    "a tail that is dropped": [
        "test_03_thread_hierarchy.py::test_sizes", mistake("03 The number of blocks is rounded down: all kernels")],
    "a tile that must divide the matrix": [
        "test_06_matmul.py::test_shapes", mistake("06 The end of a tile: its zeros past k are left out")],
    "dimensions that a square hides": [
        "test_06_matmul.py::test_shapes", "test_04_matrix_2d_3d.py::test_shapes",
        mistake("04 Rows and columns are exchanged: columns on x: the length of a row")],
    "rows on x: right and slow": [
        "test_04_matrix_2d_3d.py::test_accesses",
        "test_04_matrix_2d_3d.py::test_columns_on_x_are_at_least_twice_as_fast"],
    "an index in three dimensions": [
        "test_04_matrix_2d_3d.py::test_shapes[(5, 25, 4)]",
        mistake("04 Rows and columns are exchanged: planes of as many rows as there are planes")],
    "a product that is widened too late": [
        "test_03_thread_hierarchy.py::test_no_product_of_indexes_in_32_bits",
        "test_04_matrix_2d_3d.py::test_a_product_of_two_32_bit_numbers_is_widened_first",
        "test_06_matmul.py::test_a_product_of_two_32_bit_numbers_is_widened_first"],
    "bytes for elements": [
        "test_modes.py::test_a_chapter_passes", mistake("01 Elements are counted as bytes: a copy")],
    "a barrier that is missing": [
        "test_modes.py::test_a_chapter_passes[06_matmul---tsan]", mistake("06 A barrier is missing: the first"),
        mistake("06 A barrier is missing: the second")],
    "a kernel that prints nothing": [
        "test_02_error_checking.py::test_a_kernel_prints_nothing_if_nobody_synchronises",
        section("nothing printed")],
    "a tolerance that long sums exceed": [
        "test_06_matmul.py::test_shapes[(64, 64, 4096)]",
        mistake("06 The tolerance is absolute: a hundred thousandth")],
    "digits that differ": [
        "test_06_matmul.py::test_shapes",
        "test_06_matmul.py::test_a_host_compiler_that_fuses_does_not_disturb_the_pairs", section("other digits")],
    "the sigmoid of large numbers": [
        "test_05_device_functions.py::test_the_limits",
        "test_05_device_functions.py::test_the_special_values_are_all_there",
        mistake("05 The sigmoid's formula: exp(x) / (1 + exp(x)), which overflows")],
    "double precision that nobody asked for": [
        "test_05_device_functions.py::test_no_hidden_double_precision",
        "test_06_matmul.py::test_no_hidden_double_precision",
        "test_07_neural_layer.py::test_no_hidden_double_precision"],
    "a function of the host in a kernel": [
        "test_05_device_functions.py::test_the_compiler_says_what_the_text_quotes",
        mistake("01 CUDA's words in the wrong place: a kernel calls a function of the host"),
        section("host function in a kernel")],
    "a clock that does not wait": [
        "test_mistakes.py::test_a_mistake_of_timing_is_an_edit",
        "test_results.py::test_rows_are_repeated_and_timed_as_they_must_be", section("a clock that does not wait")],
    "the first run is counted": [
        "test_results.py::test_a_kernel_takes_the_same_time_each_time", section("the first measurement")],
    "thousands of runs for one figure": ["test_results.py::test_rows_are_repeated_and_timed_as_they_must_be"],
    "a time that is asked for too early": [
        "test_03_thread_hierarchy.py::test_every_elapsed_time_is_waited_for",
        "test_chapters.py::test_helpers_that_chapters_share_are_the_same_text"],
    "a library for benchmarks that is missing": [
        "test_makefile.py::test_no_google_benchmark", "test_makefile.py::test_bench_lines",
        section("no Google Benchmark"), section("DEBUG")],
    "the C++ standard": [
        "test_chapters.py::test_nvcc_builds_the_file_alone_without_a_warning",
        "test_makefile.py::test_bench_lines"],
    "chatter among the results": ["test_makefile.py::test_bench_keeps_the_rows_of_the_cpu"],
    "a count that overflows": ["test_results.py::test_rows_are_repeated_and_timed_as_they_must_be"],
    "a loop that the compiler takes away": ["test_results.py::test_the_loop_of_the_cpu_was_not_optimised_away"],
    "a machine without a screen": ["test_plots.py::test_without_a_screen", "test_plots.py::test_without_matplotlib"],
    "batches that differ": ["test_results.py::test_rows_are_repeated_and_timed_as_they_must_be"],
    "half a result": [
        "test_makefile.py::test_interrupted_bench_leaves_the_old_results",
        "test_plots.py::test_a_damaged_or_foreign_file_is_named", section("half a result")],
    "ten questions": ["test_texts.py::test_the_ten_questions_lead_to_their_answers"],
}
