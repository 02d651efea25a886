# Builds, runs, times and tests the chapters. `make` by itself says how.

BUILD ?= build

# A chapter is a folder with a number and a name, and in it a .cu of that name.

space := $(subst ,, )
source = $1/$(subst $(space),_,$(wordlist 2,99,$(subst _, ,$1))).cu
folders := $(sort $(patsubst %/,%,$(wildcard [0-9][0-9]_*/)))
chapters := $(strip $(foreach name,$(folders),$(if $(wildcard $(call source,$(name))),$(name))))
number = $(firstword $(subst _, ,$1))
numbers := $(foreach chapter,$(chapters),$(call number,$(chapter)))

define help
make run             build and run every chapter, and count what passed
make run-01          one of them; ARGS="100" goes to the program
make build, build-01 compile only; with DEVICE=gpu this needs nvcc and no GPU
make bench, bench-01 check, then time; results go to plots/results/
make plots           draw plots/pictures/ from plots/results/
make book            weave the chapters' pages and notebooks from their .cu
make mistakes        make the page about mistakes, from a run of them all
make sanitize        look for memory faults, races and misuse; sanitize-01: in one
make test            what continuous integration runs; ARGS="-k words" selects
make info            what was found here, what was chosen, what to do about the rest
make setup           install what is missing for all of these
make clean           remove what was built

DEVICE=gpu|cpu       default: gpu where there are a GPU and nvcc, else cpu
ARCH=sm_90           GPU architecture; default: that of the GPU here
NVCC= CCBIN=         nvcc, and the host compiler that it is to use
CXX= CXXFLAGS=       compiler of the CPU device, and flags for host code on either
DEBUG=1              for debuggers: -G -g, or -O0 -g
BUILD=build          where programs go
BLAS=openblas        bench: time that library too, where a chapter has a row for it
FILTER=regex         bench: these rows alone; they are printed and not kept
RECORD=1             run: keep what the programs print in plots/results/; test: what it came to
MACHINE=name         folder in plots/results/; default: from the GPU's or CPU's name

Chapters: $(chapters)
endef

.PHONY: help
help:
	$(info $(help))@:

.PHONY: clean
clean:
	@for folder in $(BUILD)/gpu $(BUILD)/cpu; do \
	    if [ -f $$folder/flags ] || [ -d $$folder/cache ]; then \
	        echo rm -rf $$folder; rm -rf $$folder; \
	    elif [ -e $$folder ]; then \
	        echo "$$folder was not built here, and stays"; \
	    fi; \
	done
	@rmdir $(BUILD) 2>/dev/null || true

ifneq ($(words $(BUILD)),1)
$(error BUILD=$(BUILD): the name of this folder must be one word, without spaces)
endif
ifneq ($(filter ~%,$(BUILD)),)
$(error BUILD=$(BUILD): ~ is not expanded here; write the whole name of the folder)
endif

# For all other targets we ask what this machine has: once, and first of all.

ifneq ($(filter-out help clean,$(MAKECMDGOALS)),)

ifeq ($(chapters),)
$(error There are no chapters here; make works from the folder of the Makefile)
endif
twice := $(strip $(foreach chapter,$(chapters),\
    $(if $(word 2,$(filter $(call number,$(chapter)),$(numbers))),$(chapter))))
ifneq ($(twice),)
$(error $(twice): two chapters with one number)
endif
record := $(filter-out 0,$(RECORD))
ifneq ($(and $(ARGS),$(filter-out run-% test,$(MAKECMDGOALS))),)
$(error ARGS are for one program, as in: make run-01 ARGS="$(ARGS)")
endif
ifneq ($(and $(ARGS),$(record)),)
$(error RECORD keeps what a program prints without ARGS)
endif

define newline


endef
quote = '$(subst ','\'',$1)'

# CUDA's own order is the fastest GPU first. With nvidia-smi's we know which one a program gets.
override export CUDA_DEVICE_ORDER := PCI_BUS_ID
visible := $(if $(filter-out undefined,$(origin CUDA_VISIBLE_DEVICES)),\
    CUDA_VISIBLE_DEVICES=$(call quote,$(CUDA_VISIBLE_DEVICES)))
$(eval $(subst |,$(newline),$(shell DEVICE=$(call quote,$(DEVICE)) ARCH=$(call quote,$(ARCH)) \
    NVCC=$(call quote,$(NVCC)) MACHINE=$(call quote,$(MACHINE)) $(visible) sh make/detect)))
ifneq ($(problem),)
$(error $(problem))
endif
$(info device: $(DEVICE) ($(why)))
ifneq ($(notice),)
$(info warning: $(notice))
endif

# A chapter whose .cu has another name would be missed by nobody.
say = $(if $(filter %-$(call number,$1),$(MAKECMDGOALS)),$(error $2),$(info warning: $2))
$(foreach folder,$(filter-out $(chapters),$(folders)),\
    $(call say,$(folder),$(folder) is no chapter: there is no $(call source,$(folder))))

ifeq ($(origin CXX),default)
CXX :=
endif
export BLAS BUILD DEVICE NVCC CCBIN CXX FILTER
export arch_flags gpu gpu_is machine nvcc_is smi toolkit

# How a program is compiled, on either device. Nothing is tuned to the machine that compiles.

debug := $(filter-out 0,$(DEBUG))
bin := $(BUILD)/$(DEVICE)

ifeq ($(DEVICE),gpu)

comma := ,
host_flag = $(if $(filter -D% -I% -U%,$1),$1,-Xcompiler $(subst $(comma),\\$(comma),$1))
common := $(arch_flags) $(if $(CCBIN),-ccbin $(CCBIN)) \
    $(foreach flag,$(CXXFLAGS),$(call host_flag,$(flag)))
flags := $(strip $(if $(debug),-G -g,-O3 -lineinfo) $(common))
bench_flags := $(strip -O3 -std=c++17 -DBENCHMARKS -Xcompiler -fopenmp $(common))
settings := $(NVCC) $(toolkit) $(flags) $(bench_flags) $(LDLIBS) $(BLAS)
compile_program = $(NVCC) $(flags) $< -o $@
compile_bench = $(NVCC) $(bench_flags) $< -o $@ -lbenchmark -lpthread $(LDLIBS)

# Benchmarks that compare with NVIDIA's library:
compare := $(bin)/06_matmul_bench $(bin)/07_neural_layer_bench
$(compare): LDLIBS += -lcublas
$(compare): | cublas
.PHONY: cublas
cublas: export FLAGS := $(LDLIBS) $(filter -I% -L%,$(CXXFLAGS))
cublas: benchmark-library ; @sh make/setup $@

else

flags := $(strip $(if $(debug),-O0) $(CXXFLAGS))
bench_flags := $(strip -O3 -DBENCHMARKS -fopenmp $(CXXFLAGS))
settings := $(CXX) $(flags) $(bench_flags) $(LDLIBS) $(BLAS)
set = $(if $(strip $2),$1=$(call quote,$(strip $2)))
compile = $(strip BUILD=$(BUILD) $(call set,CXX,$(CXX)) $(call set,CXXFLAGS,$1) \
    $(call set,LDLIBS,$2) sh cpu_device/run --build -o $@ $<)
compile_program = $(call compile,$(flags),$(LDLIBS))
compile_bench = $(call compile,$(bench_flags),-lbenchmark $(LDLIBS))
parts := $(wildcard $(addprefix cpu_device/,run *.cpp engine/* include/* include/*/*))

endif

ifeq ($(BLAS),openblas)
$(bin)/06_matmul_bench: bench_flags += -DOPENBLAS
$(bin)/06_matmul_bench: LDLIBS += -lopenblas
else ifneq ($(BLAS),)
$(error BLAS=$(BLAS): the library is openblas)
endif

# The programs. `run` and its like go on after a chapter that does not compile, and count it as
# failed. A change of flags compiles anew: a file holds what they were. So does a source that is
# newer, or is not the one that lies beside the program as PROGRAM.cu: an old one that has been
# restored. From that copy comes the hash beside results, whatever is edited meanwhile.

programs := $(chapters:%=$(bin)/%)
benches := $(chapters:%=$(bin)/%_bench)
go_on := $(if $(filter run bench sanitize,$(MAKECMDGOALS)),-)

restored = $(if $(wildcard $2),$(shell cmp -s $1 $2.cu || echo compiler))
made_of = $(call source,$1) $(call restored,$(call source,$1),$2)

.SECONDEXPANSION:

$(programs): $(bin)/%: $$(call made_of,$$*,$$@) $(bin)/flags $(parts)
	@rm -f $@ $@.cu && cp $< $@.cu
	$(go_on)$(compile_program)

$(benches): $(bin)/%_bench: $$(call made_of,$$*,$$@) $(bin)/flags $(parts) | benchmark-library
	@rm -f $@ $@.cu && cp $< $@.cu
	$(go_on)$(compile_bench)

$(bin)/flags: export settings := $(settings)
$(bin)/flags: compiler
	@mkdir -p $(bin) || { echo "BUILD= names another folder for what is built" >&2; exit 1; }
	@printf '%s\n' "$$settings" | cmp -s - $@ || printf '%s\n' "$$settings" >$@

.PHONY: compiler benchmark-library
benchmark-library: compiler             # one after the other: apt is for one at a time
compiler benchmark-library: ; @sh make/setup $@

chapter = $(filter $1_%,$(chapters))
program = $(bin)/$(call chapter,$1)

.PHONY: build $(numbers:%=build-%)
build: $(programs)
$(numbers:%=build-%): build-%: $$(call program,$$*)

# $(call each,COMMAND) runs a command for every $$chapter in turn, whatever becomes of the one
# before, and counts: exit code 0 is passed, 77 skipped, and any other failed. 78 is a chapter
# without a row that matches FILTER, which some must have.

define each
@passed=0 skipped=0 failed= missed=; \
for chapter in $(chapters); do \
    $1; \
    case $$? in \
        0) passed=$$((passed + 1)) ;; \
        77) skipped=$$((skipped + 1)) ;; \
        78) skipped=$$((skipped + 1)) missed=yes ;; \
        *) failed="$$failed $$chapter" ;; \
    esac; \
done; \
set -- $$failed; \
[ $$# = 0 ] || echo "failed: $$*"; \
echo "$$passed passed, $$# failed, $$skipped skipped"; \
[ $$# = 0 ] && { [ -z "$$missed" ] || [ $$passed != 0 ]; }
endef

# $(call one,COMMAND): the same command for one chapter, for which a skip is no failure.
one = @$1 || [ $$? = 77 ]

run_chapter = $(if $(record),KEEP_AS=plots/results/$(machine)/$1.txt) sh make/run $(bin)/$1
.PHONY: run $(numbers:%=run-%)
run: $(programs)
	$(call each,$(call run_chapter,$$chapter))
$(numbers:%=run-%): run-%: $$(call program,$$*)
	$(call one,$(call run_chapter,$(call chapter,$*)) $(ARGS))

.PHONY: bench $(numbers:%=bench-%)
bench $(numbers:%=bench-%): export FLAGS := $(bench_flags)
bench: benchmark-library $(programs) $(benches)
	$(call each,sh make/bench $$chapter)
$(numbers:%=bench-%): bench-%: benchmark-library $$(call program,$$*) \
    $$(call program,$$*)_bench
	$(call one,sh make/bench $(call chapter,$*))

# Everything is drawn, or what belongs to the MACHINE that is named.
.PHONY: plots
plots:
	@$(if $(MACHINE),[ -d plots/results/$(MACHINE) ] || \
	    { echo "there are no results of $(MACHINE) in plots/results" >&2; exit 1; })
	@python=$$(sh make/setup python matplotlib) && "$$python" plots/plot.py $(MACHINE)

# The chapters' README.md and notebooks, from their .cu and plots/results/.
.PHONY: book
book:
	@python=$$(sh make/setup python json) && "$$python" book/weave.py

# tests/mistakes/README.md.
.PHONY: mistakes
mistakes:
	@python=$$(sh make/setup python pytest) && "$$python" tests/mistakes/page.py

# The CPU device has builds of its own for this.
.PHONY: sanitize $(numbers:%=sanitize-%)
sanitize: $(if $(filter gpu,$(DEVICE)),$(programs),compiler)
	$(call each,sh make/sanitize $$chapter)
$(numbers:%=sanitize-%): sanitize-%: $$(if $$(filter gpu,$(DEVICE)),$$(call program,$$*),compiler)
	$(call one,sh make/sanitize $(call chapter,$*))

# Two of these at once would disturb each other's times, and mix what they print.
ifneq ($(word 2,$(filter run run-% bench bench-% sanitize sanitize-%,$(MAKECMDGOALS))),)
.NOTPARALLEL:
endif

export test_modules := pytest xdist matplotlib nbformat nbclient ipykernel

.PHONY: test
test:
	@sh make/setup test-tools
	@python=$$(sh make/setup python $(test_modules)) || exit; \
	workers=$$("$$python" -c "import xdist" >/dev/null 2>&1 && nproc); \
	exec env -u ARGS -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u RECORD PYTHONDONTWRITEBYTECODE=1 \
	    BUILD=$(call quote,$(if $(filter /%,$(BUILD)),$(BUILD),$(CURDIR)/$(BUILD))) \
	    "$$python" -m pytest -rs $${workers:+-n "$$workers"} tests $(ARGS) \
	    $(if $(record),--keep=plots/results/$(machine)/tests.txt)

.PHONY: info setup
info:
	@sh make/info
setup: benchmark-library
	@sh make/setup test-tools
	@python=$$(sh make/setup python $(test_modules)) && echo "python: $$python"

endif
