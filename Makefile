# Development of scalene-trace. `make` alone lists the targets.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PACKAGES := formats recorder analyze cli
C_FILES := $(wildcard shim/*/*.[ch] shim/*/*/*.[ch]) formats/spool/spool.h formats/spool/records.h
PY_FILES := $(PACKAGES) shim/dynamic_flags.py tests benchmarks examples docs
UNITS := test-units-none test-units-address test-units-thread
TREE := build/tree
WEB := build/web
DEMO := build/demo.parquet
# Part of what tests do is wait: six at a time keep two cores busy. Tests that measure share four seats.
PYTEST_ARGS ?= -n 6
MEASURE_ARGS ?= -n 4

# Rules of the source, which `make test` checks too. Those about the wheel and generated files take longer.
RULES ?= $(BIN)/pytest -q tests/unit/source_rules -k "not wheel and not generated"

.DEFAULT_GOAL := help
# Otherwise each of the thousands of processes that the tests start compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help dev demo check format packages test measure compiled-tests test-units $(UNITS) test-units-musl test-stress-undefined test-c wheels stress bench generate html clean wheel-x86_64 wheel-aarch64 arm64

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

# ---- the environment -------------------------------------------------------------------------------------------------

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found. Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The build tools stay in the environment, so that rebuilding the shim takes seconds and needs no network. Older pips do not
# run on Python 3.15, into which the tests install packages.
$(VENV)/.stamp-tools: Makefile | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check 'pip>=25.1' 'scikit-build-core>=0.11' cmake ninja
	@touch $@

# An editable install keeps a list of the modules, so it is repeated when that list changes.
MODULES := build/.modules
$(shell mkdir -p build; find $(PACKAGES) -name '*.py' | sort >$(MODULES).new; \
	cmp -s $(MODULES).new $(MODULES) || cp $(MODULES).new $(MODULES); rm -f $(MODULES).new)

$(VENV)/.stamp-install: pyproject.toml shim/CMakeLists.txt cli/top_level.py $(MODULES) $(wildcard shim/*/*.[ch] shim/*/*/*.[ch]) $(wildcard formats/spool/*.h) \
		$(VENV)/.stamp-tools
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation \
		-e '.[test,lint]'
	@touch $@

dev: $(VENV)/.stamp-install ## create .venv with the tools, build the shim, install everything editable

# ---- use -------------------------------------------------------------------------------------------------------------

demo: $(VENV)/.stamp-install ## record examples/catalogue.py (threads, native code, memory) and print the report
	@mkdir -p build
	$(BIN)/scalene-record -o $(DEMO) --python $(BIN)/python examples/catalogue.py
	$(BIN)/scalene-analyze $(DEMO)

# ---- checks ----------------------------------------------------------------------------------------------------------

# mypy needs a folder of the package's name above the modules: the checkout may be called anything.
$(TREE)/scalene_trace: Makefile
	@mkdir -p $(TREE)
	@ln -sfn $(CURDIR) $@

check: $(VENV)/.stamp-install $(TREE)/scalene_trace ## ruff, mypy --strict, clang-format, import directions
	$(BIN)/ruff check $(PY_FILES)
	$(BIN)/ruff format --check $(PY_FILES)
	MYPYPATH=$(TREE) $(BIN)/mypy --namespace-packages --explicit-package-bases $(PACKAGES:%=-p scalene_trace.%)
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	$(RULES)

format: $(VENV)/.stamp-tools ## lay out Python and C the way `make check` wants it
	$(BIN)/ruff format $(PY_FILES)
	$(BIN)/ruff check --fix $(PY_FILES)
	$(BIN)/clang-format -i $(C_FILES)

# Debian packages that some tests need, where apt-get may install them; the tests are skipped elsewhere.
packages:
	@tests/support/system_packages.sh

# CPython 3.14 and 3.15 if the machine lacks them and Debian's packages are in reach (build/pythons). Then environments with numpy,
# pandas and greenlet, and with servers and event loops, for each interpreter of the tests.
build/targets/.stamp: tests/support/target_environments.py tests/support/interpreters.py tests/support/unpacked_python.py $(VENV)/.stamp-install
	$(BIN)/python -m tests.support.target_environments
	@touch $@

# Imports all tests once, so that the workers of pytest find their compiled forms. It decides nothing.
compiled-tests: $(VENV)/.stamp-install
	@$(BIN)/pytest --collect-only -q -p no:cacheprovider >/dev/null 2>&1 || true

test: packages build/targets/.stamp ## tests of behaviour, on every interpreter from 3.10 to 3.15 that is here
	$(BIN)/pytest -m "not long and not figures" $(PYTEST_ARGS)

measure: packages build/targets/.stamp ## tests that hold figures against clocks and random samples; what misses is measured again
	$(BIN)/python -m tests.support.measure $(MEASURE_ARGS)

test-units: $(UNITS) ## unit tests of the shim: plain, with ASan + UBSan, with TSan

$(UNITS): test-units-%: $(VENV)/.stamp-install
	@echo "== shim unit tests, sanitizer: $*"
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S shim -B build/c-$* -G Ninja -DCMAKE_BUILD_TYPE=Debug \
		-DSHIM_TESTS=ON -DSHIM_WERROR=ON -DSHIM_SANITIZE=$* >/dev/null
	@MAKEFLAGS= PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/c-$*
	@$(BIN)/ctest --test-dir build/c-$* -j 3 --output-on-failure --no-tests=error

# Debian's musl comes without the kernel's headers, and its compiler does not ask the linker for the unwind tables' index.
test-units-musl: $(VENV)/.stamp-install ## shim and watcher compiled with musl-gcc (package musl-tools), and their unit tests
	@echo "== shim unit tests, libc: musl"
	@mkdir -p build/musl-headers
	@ln -sfn /usr/include/linux build/musl-headers/linux
	@ln -sfn /usr/include/asm-generic build/musl-headers/asm-generic
	@ln -sfn /usr/include/$(shell uname -m)-linux-gnu/asm build/musl-headers/asm
	@CC=musl-gcc CFLAGS="-isystem $(CURDIR)/build/musl-headers" LDFLAGS=-Wl,--eh-frame-hdr PATH="$(CURDIR)/$(BIN):$$PATH" \
		cmake -S shim -B build/c-musl -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSHIM_TESTS=ON -DSHIM_WERROR=ON >/dev/null
	@MAKEFLAGS= PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/c-musl
	@$(BIN)/ctest --test-dir build/c-musl -j 2 --output-on-failure --no-tests=error

test-stress-undefined: build/targets/.stamp
	@echo "== the shim as a whole, sanitizer: undefined"
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S shim -B build/c-undefined -G Ninja -DSHIM_SANITIZE=undefined >/dev/null
	@MAKEFLAGS= PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/c-undefined
	@SCALENE_TRACE_SHIM=$(CURDIR)/build/c-undefined/libscalene_shim.so $(BIN)/python -m tests.long.stress --ticks 5000 --print-only

test-c: test-units test-stress-undefined ## the unit tests, and a UBSan build of the shim under stress

# ---- wheels ----------------------------------------------------------------------------------------------------------

# Compiled against the symbols of glibc 2.28, so that older distributions can load the libraries. auditwheel refuses others
# of this machine's processor.
$(VENV)/.stamp-wheel-tools: pyproject.toml | $(VENV)/.stamp-tools
	$(BIN)/python -m pip install -q --disable-pip-version-check --group wheels
	@touch $@

# auditwheel refuses to name the platform of another processor, but finds it.
wheels: wheel-x86_64 wheel-aarch64 ## wheels for x86-64 and arm64 and glibc 2.28 or newer, in dist/

wheel-x86_64 wheel-aarch64: wheel-%: $(VENV)/.stamp-wheel-tools
	@rm -rf build/wheels/$* dist/scalene_trace-*$*.whl
	@PATH="$(CURDIR)/$(BIN):$$PATH" CC="$(CURDIR)/$(BIN)/python -m ziglang cc -target $*-linux-gnu.2.28" \
		_PYTHON_HOST_PLATFORM=linux-$* \
		$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/wheels/$* \
		-C build-dir=build/wheel-$* \
		$(if $(filter $(shell uname -m),$*),,-C cmake.define.CMAKE_SYSTEM_NAME=Linux -C cmake.define.CMAKE_SYSTEM_PROCESSOR=$*) .
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --only-plat -w dist \
		--plat $(if $(filter $(shell uname -m),$*),manylinux_2_28_$*,auto) build/wheels/$*/*.whl

# ---- arm64, in emulation ---------------------------------------------------------------------------------------------

arm64: wheel-aarch64 ## record programs on an emulated arm64 machine (MINUTES=10 of the hardest); results into benchmarks/results/
	$(BIN)/python -m tests.long.arm64 $(if $(MINUTES),--minutes $(MINUTES))

# ---- long runs -------------------------------------------------------------------------------------------------------

stress: packages build/targets/.stamp ## 2 million ticks on each interpreter, CPython's own tests, 400 kills, the programs of the system, fuzzing, the shim with musl, native stacks against libgcc, native time of calls against perf, exports read by their programs, fleets on Spark and at S3, 200 killed indexers, ten minutes of recording into a bucket; results into benchmarks/results/
	$(BIN)/pytest -m long
	$(BIN)/pytest --hypothesis-profile=long tests/unit/random_traces tests/unit/convert/test_convert_cuda_calls.py
	$(MAKE) test-units-musl
	$(BIN)/python -m tests.long.stress --ticks 2000000
	$(BIN)/python -m tests.long.regression
	$(BIN)/python -m tests.long.kills
	$(BIN)/python -m tests.long.attached_memory
	$(BIN)/python -m tests.long.executables
	$(BIN)/python -m tests.long.executables --each
	$(BIN)/python -m tests.long.executables --work
	$(BIN)/python -m tests.long.consumers
	$(BIN)/python -m tests.long.fuzz
	$(BIN)/python -m tests.long.unwinding
	$(BIN)/python -m tests.long.calls
	$(BIN)/python -m tests.long.old_calls
	$(BIN)/python -m tests.long.ways
	$(BIN)/python -m tests.long.shares
	$(BIN)/python -m tests.long.tick_cost
	$(BIN)/python -m tests.long.pairs
	$(BIN)/python -m tests.long.fleet_engines
	$(BIN)/python -m tests.long.fleet_kills
	$(BIN)/python -m tests.long.bucket

bench: build/targets/.stamp ## overhead, accuracy, memory, start-up and report speed; results into benchmarks/results/
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/allocator.py
	$(BIN)/python benchmarks/instructions.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/leaks.py false
	$(BIN)/python benchmarks/leaks.py hidden
	$(BIN)/python benchmarks/random_lines.py
	$(BIN)/python benchmarks/diff.py
	$(BIN)/python benchmarks/startup.py
	PYTHONPATH=benchmarks:. $(BIN)/python benchmarks/always_on/budget.py --kept --seconds 40
	PYTHONPATH=benchmarks:. $(BIN)/python benchmarks/always_on/unbiased.py
	PYTHONPATH=benchmarks:. $(BIN)/python benchmarks/always_on/unbiased.py --phases 16
	PYTHONPATH=benchmarks:. $(BIN)/python benchmarks/always_on/sending.py
	PYTHONPATH=benchmarks:. $(BIN)/python benchmarks/always_on/turned_on.py
	PYTHONPATH=benchmarks:. $(BIN)/python benchmarks/always_on/turned_on.py --attached
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/long/long_recording.py
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/long/growth.py
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/long/two_days.py
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/long/fleet.py
	PYTHONPATH=benchmarks:. $(BIN)/python benchmarks/long/fleet_comparisons.py
	$(BIN)/python benchmarks/watching.py
	$(BIN)/python benchmarks/gpu_cost.py
	$(BIN)/python benchmarks/report_speed.py
	$(BIN)/python benchmarks/server.py

generate: $(VENV)/.stamp-install ## formats/spool/layout_ffi.py, docs/trace-format.md, docs/cli.md, and docs/demo.md
	$(BIN)/python -m scalene_trace.formats.spool.generate_layout
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate.py --demo

# What it makes is committed: a wheel is built without Node.js. The lock file says which versions are in it.
html: ## bundle the page of `scalene-analyze html` from analyze/html/web; needs Node.js and npm
	@rm -rf $(WEB)/src && mkdir -p $(WEB)
	cp -r analyze/html/web/. $(WEB)
	cd $(WEB) && npm ci --silent && node build.mjs $(CURDIR)/analyze/html/assets

clean: ## remove everything that was built
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis $(VENV)/.stamp-install
