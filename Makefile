# Everything a developer does with this repository. `make` alone prints the menu.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := build/venv/bin
PYTHON ?= python3
PREFIX ?= /usr/local
SOAK_MINUTES ?= 30
SEEDS ?= 20

# $(call compile,PRESET): configures once (ninja repeats it by itself when needed), then builds.
compile = test -f build/$(1)/build.ninja || cmake --preset $(1) -Wno-dev; cmake --build build/$(1) --target $(2)

.PHONY: help
help: ## This menu
	@[ -t 1 ] && colour=36 || colour=; \
	awk -v colour="$$colour" 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / { \
	  name = sprintf("%-13s", $$1); if (colour) name = "\033[" colour "m" name "\033[0m"; \
	  print "  " name " " $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Three jobs in trouble (a hang, a slow one, a leak), each found while it runs
	@tools/install_deps.sh torch
	@tools/demo.sh

.PHONY: test
test: deps ## Everything that must hold: C++ tests, integration tests, layers, symbols
	@tools/install_deps.sh servers
	@tools/install_deps.sh clients
	@tools/install_deps.sh frameworks
	@tools/install_deps.sh e2e
	@tools/install_pythons.sh --missing
	@$(call compile,release,all cpp_tests ring_bench)
	@$(VENV)/python tools/run_tests.py

.PHONY: build
build: deps ## What users get, in build/release/bin (old glibc, static libc++)
	@$(call compile,release,all)

.PHONY: test-arm64
test-arm64: deps ## Tests of all that knows processors, on Debian's arm64 kernel in qemu (cross-builds the programs; an hour)
	@tools/install_deps.sh arm64
	@$(call compile,release-arm64,all arch_test process_test inject_test unwind_test ring_test)
	@$(VENV)/python tools/arm64_tests.py build/test-results/arm64.xml

.PHONY: test-arm64-core
test-arm64-core: deps ## Of these the core, on the probe alone: enter, read, evaluate, leave, fork
	@tools/install_deps.sh arm64
	@$(call compile,release-arm64,probing_so direct_probing)
	@$(VENV)/python tools/arm64_tests.py build/test-results/arm64-core.xml core

.PHONY: debug
debug: deps ## The same with g++, assertions and symbols, and the C++ tests, in build/debug
	@$(call compile,debug,all cpp_tests)

# One that misses a promise keeps none of the others from being measured, nor the page from being made.
BENCHES := inject sampling query server talk cluster fleet start_hook flight_recorder heap torch_profile
.PHONY: bench
bench: build ## What we promise about cost, measured beside other tools: bench/results, with a page of plots
	@for part in bench servers torch frameworks; do tools/install_deps.sh $$part || exit 1; done
	@cmake --build build/release --target ring_bench
	@missed=; for name in $(BENCHES); do $(VENV)/python bench/$$name.py || missed+=" $$name"; done; \
	build/torch-venv/bin/python bench/torch_steps.py || missed+=" torch_steps"; \
	build/torch-venv/bin/python bench/stalls.py --short || missed+=" stalls"; \
	$(VENV)/python tools/bench_page.py; \
	[ -z "$$missed" ] || { echo "not as promised:$$missed"; exit 1; }

.PHONY: bench-gate
bench-gate: build ## Ratios that go red when something has become five times slower (10 minutes; a short form is in `make test`)
	@tools/install_deps.sh clients
	@tools/install_deps.sh torch
	@cmake --build build/release --target ring_bench
	@tools/apart.sh $(VENV)/python bench/gate.py

.PHONY: bench-torch
bench-torch: build ## Of these, what tracing PyTorch costs, beside torch.profiler, py-spy and PyPI's probing (installs torch, 1 GB)
	@tools/install_deps.sh torch
	@tools/install_deps.sh bench
	@build/torch-venv/bin/python bench/torch_steps.py
	@$(VENV)/python tools/bench_page.py

.PHONY: torch-matrix
torch-matrix: build ## Of the tests of PyTorch, those of its insides on other versions: TORCH="2.4.1 2.15.0" (2 GB each; root)
	@tools/install_deps.sh torch
	@$(VENV)/python tools/torch_matrix.py $(TORCH)

.PHONY: diagnose-runs
diagnose-runs: build ## Jobs of real frameworks that go wrong in every way, SEEDS=20 times each: is it named? (installs them; a day)
	@tools/install_deps.sh frameworks
	@tools/apart.sh $(VENV)/python bench/diagnose.py --seeds $(SEEDS) --machines $(SEEDS)

.PHONY: e2e
e2e: build ## Of these, the web page and flame graphs in a real browser (chromium, torch); pictures in build/e2e
	@tools/install_deps.sh e2e
	@tools/install_deps.sh torch
	@tools/apart.sh build/e2e-venv/bin/python -m pytest -q -o pythonpath=tests/e2e tests/e2e

.PHONY: screenshots
screenshots: build ## Pictures of the web page: docs/images, and all pages in four sizes in build/screenshots
	@tools/install_deps.sh e2e
	@tools/install_deps.sh torch
	@PYTHONPATH=tests/e2e build/e2e-venv/bin/python tests/e2e/screenshots.py

.PHONY: soak
soak: build ## Hours in short: 10,000 inject/eval/eject/fork cycles, 1,000 fresh targets, SOAK_MINUTES=30 of use; nothing may grow
	@PROBING_SOAK=1 $(VENV)/python -m pytest tests/integration -m soak
	@SOAK_MINUTES=$(SOAK_MINUTES) $(VENV)/python -m pytest -rP tests/integration/test_soak.py
	@$(call compile,release,all cpp_tests)
	@$(VENV)/python tools/mutants.py --random 10

.PHONY: mutants
mutants: build ## Breaks safety-relevant code line by line, in views of their own: tests must notice each (hours; root)
	@$(call compile,release,all cpp_tests)
	@$(VENV)/python tools/mutants.py $(MUTANTS)

.PHONY: lint
lint: deps ## ruff, clang-format, the dependency rule, machine names in committed files, types of the web page
	@$(VENV)/python tools/lint.py

.PHONY: format
format: deps ## Rewrites C++ and Python in the style of the house
	@git ls-files '*.h' '*.cc' '*.c' | xargs -r $(VENV)/clang-format -i
	@$(VENV)/ruff check --quiet --fix .
	@$(VENV)/ruff format --quiet .

.PHONY: tidy
tidy: deps ## clang-tidy on every C++ file (slow)
	@tools/install_deps.sh clang
	@$(call compile,tidy,all cpp_tests)

.PHONY: asan
asan: deps ## C++ tests under the address and undefined-behaviour sanitizers
	@tools/install_deps.sh clang
	@$(call compile,asan,cpp_tests)
	@ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan --output-on-failure

# What reads bytes that others write, and what goes into targets. The rest needs boost or DuckDB, and minutes.
ASAN_QUICK := base wire process cpython unwind ring table net store
ASAN_FUZZERS := maps status core_file elf_image job_identity line_table object_reader stack_reader cfi module \
  ring_reader message settings names http_answer answer history_files
EMPTY :=
BAR = $(subst $(EMPTY) $(EMPTY),|,$(strip $(1)))
.PHONY: asan-quick
asan-quick: deps ## Of these, the folders that parse what others write or go into targets, and the fuzzers' corpus
	@tools/install_deps.sh clang
	@$(call compile,asan,$(ASAN_QUICK:%=%_test) $(ASAN_FUZZERS:%=%_fuzz_corpus))
	@ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan --output-on-failure \
	  -R '^($(call BAR,$(ASAN_QUICK)))\.|^corpus\.($(call BAR,$(ASAN_FUZZERS)))_fuzz$$'

.PHONY: tsan
tsan: deps ## C++ tests under the thread sanitizer
	@tools/install_deps.sh clang
	@$(call compile,tsan,cpp_tests)
# DuckDB's library is not built for the sanitizer, which cannot see how it orders its threads.
	@ctest --test-dir build/tsan --output-on-failure -E '^(query|history)\.'

.PHONY: fuzz
fuzz: deps ## Feeds garbage to every reader, FUZZ_SECONDS=20 each; what breaks one stays in build/fuzz
	@tools/install_deps.sh clang
	@test -f build/fuzz/build.ninja || cmake --preset fuzz -Wno-dev
	@cmake --build build/fuzz --target fuzzers
	@$(VENV)/python tools/fuzz.py $(FUZZ)

.PHONY: truth
truth: build ## Whether shares of profiles are true: 100 recordings of each program, Python and rate (half a day)
	@tools/apart.sh $(VENV)/python bench/truth.py

.PHONY: nightly
nightly: ## What takes hours: asan, tsan, fuzz, soak with Spark's reader, mutants, bench, arm64; one that fails keeps none from running
	@tools/install_deps.sh spark
	@failed=; for part in asan tsan fuzz soak mutants bench test-arm64; do $(MAKE) $$part || failed+=" $$part"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

.PHONY: wheel
wheel: build ## dist/probing-*.whl: one file for every Python 3, checked by auditwheel
	@$(VENV)/python tools/make_wheel.py

.PHONY: wheel-arm64
wheel-arm64: build ## The same for arm64, cross-built (manual pages and completions are those of build/release)
	@tools/install_deps.sh arm64
	@$(call compile,release-arm64,probing probingd probing_so nccl_plugin)
	@$(VENV)/python tools/check_symbols.py build/release-arm64/bin/libprobing.so build/release-arm64/bin/libprobing-nccl.so
	@PROBING_BIN=build/release-arm64/bin $(VENV)/python tools/make_wheel.py

.PHONY: wheel-test
wheel-test: build ## The wheel in a fresh environment of every Python here, into targets of every Python
	@PROBING_WHEEL_MATRIX=1 $(VENV)/python -m pytest tests/integration/test_wheel.py

.PHONY: install
install: build ## Programs, libraries, manual pages and completions below PREFIX=/usr/local (DESTDIR= before it)
	@DESTDIR=$(DESTDIR) $(VENV)/python tools/stage.py install $(PREFIX)

.PHONY: tarball
tarball: build ## The same as dist/probing-*.tar.gz, which works wherever it is unpacked
	@$(VENV)/python tools/stage.py tarball

.PHONY: docs
docs: build ## The documentation as a site in build/site; dead links fail
	@tools/install_deps.sh docs
	@$(VENV)/python tools/make_docs.py

.PHONY: hook
hook: build ## Makes PROBING=1 work for PYTHON=… (tools/install_hook.py --uninstall undoes it)
	@$(VENV)/python tools/install_hook.py --python $(PYTHON) --library build/release/bin/libprobing.so

.PHONY: pythons
pythons: deps ## Python 3.14, 3.15, 3.13t, 3.14t and 3.15t as further targets for the tests, and 3.4 and 3.5 (40 minutes)
	@tools/install_pythons.sh
	@$(VENV)/python tools/old_pythons.py

.PHONY: completion
completion: build ## Shell completions of bash, zsh and fish, in build/completion
	@mkdir -p build/completion
	@for shell in bash zsh fish; do build/release/bin/probing completion $$shell > build/completion/probing.$$shell; done
	@echo "for this shell:  source build/completion/probing.bash"

.PHONY: reference
reference: build ## docs/reference/tables.md from the tables' declarations
	@cmake --build build/release --target tables_reference
	@build/release/bin/tables_reference > docs/reference/tables.md
	@build/release/bin/tables_reference --rows > src/table/written_rows.h

.PHONY: deps
deps: ## Installs what building and testing needs (Debian 12; nothing to do the second time)
	@tools/install_deps.sh

.PHONY: clean
clean: ## Removes what was built, keeps the tools in build/venv and build/deps
	@find build -mindepth 1 -maxdepth 1 ! -name '*venv' ! -name deps -exec rm -rf {} +
