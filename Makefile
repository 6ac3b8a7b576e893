# make demo            train, score and try the sample system: 4 minutes on two cores
# make test            the quick tests, on one TensorFlow
# make test-all        all tests, quick and slow, and the linter
# make test-versions   five test files on each of TensorFlow 2.16 to 2.21
# make coverage        which lines of transformer/ the quick tests do not reach
# make lint            the linter and the formatter alone
# make bench           measure speed beside other systems, on data/multi30k
# make faults          fail every call that writes a file, one after the other
# make findings        show what surprised us about other libraries
# make docs            the documentation as a site, with the API: build/site;
#                      with logs/sample, it has a page that translates
# make clean           remove environments and caches; data and logs stay
#
# Each target sets up what it needs in VENV. TensorFlow 2 wants Python 3.10 to 3.13,
# genuine TensorFlow 1.15 wants Python 3.7:
#
#   make test VENV=.venv-tf1 PYTHON=python3.7
#
# Options of the programs behind them: make demo TRAIN="--max_steps 100",
# make test PYTEST="tests/test_batches.py -x", make bench BENCH="--quick",
# make faults FAULTS="--every 20".

PYTHON ?= python3
VENV ?= .venv
LOGDIR ?= logs/sample
WORKERS ?= auto
TRAIN ?=
PYTEST ?=
BENCH ?= --json bench.json
BENCH_DATA ?= data/multi30k
BENCH_LOGDIR ?= $(wildcard logs/multi30k)
FAULTS ?=
TRY := build/try.html
VERSIONS ?= 2.16.2 2.17.1 2.18.1 2.19.1 2.20.0 2.21.0
VERSION_TESTS ?= $(patsubst %,tests/test_%.py,modules model data decoding training_math)

BIN := $(VENV)/bin
DATA := data/sample
# One process a core. Each begins with half of the files and takes tests from the other
# when it is done: what a file sets up is mostly set up once, and none waits long.
RUN_TESTS = $(if $(COVERAGE),COVERAGE_FILE=$(COVERAGE)) $(BIN)/python -m pytest \
  --numprocesses $(WORKERS) --maxprocesses 8 --dist worksteal \
  $(if $(COVERAGE),--cov --cov-report= --cov-fail-under=0)
# make test COVERAGE=FILE writes there what the quick tests reach of transformer/.
COVERAGE ?=
export TF_CPP_MIN_LOG_LEVEL ?= 3
SHELL := bash
# GNU make 3.81, that of macOS, ignores this: a recipe with a pipe sets pipefail, too.
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: help demo test test-all test-versions coverage coverage-report lint \
  bench faults findings docs clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

$(VENV)/installed: setup.py
	@$(PYTHON) -c 'import sys' || { \
	  echo "$(PYTHON) does not run: say which Python to use, make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit( \
	  None if (3, 10) <= v <= (3, 13) or v == (3, 7) else "expected Python 3.10 to 3.13 " \
	  "(TensorFlow 2) or 3.7 (TensorFlow 1.15), got %d.%d: make PYTHON=..." % v)'
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "$(PYTHON) cannot make environments: install its venv module" \
	    "(Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

demo: $(VENV)/installed
	$(BIN)/python scripts/prepare.py --out $(DATA) --vocab_size 2000
	$(BIN)/python train.py --preset sample --logdir $(LOGDIR) $(TRAIN)
	$(BIN)/python eval.py --logdir $(LOGDIR) --split test
	@echo "Source, translation and reference:"
	@set -o pipefail; head -n 5 $(DATA)/test.de \
	  | $(BIN)/python scripts/translate.py --logdir $(LOGDIR) \
	  | paste -d '\n' $(DATA)/test.de - $(DATA)/test.en \
	  | awk 'NR % 3 == 1 && NR <= 15 { print "" } NR <= 15'
	@echo
	@echo "Settings, checkpoints, events, scores and translations: $(LOGDIR)"
	@echo "Translate your own: echo 'Ein Satz.' |" \
	  "$(BIN)/python scripts/translate.py --logdir $(LOGDIR)"
	@echo "See how it translates, in a browser:" \
	  "$(BIN)/python scripts/page.py --logdir $(LOGDIR) --out page.html"

test: $(VENV)/installed
	$(RUN_TESTS) $(PYTEST)

test-all: $(VENV)/installed
	$(RUN_TESTS) -m "slow or not slow" $(PYTEST)
	@$(MAKE) --no-print-directory lint

test-versions:
	for version in $(VERSIONS); do \
	  $(PYTHON) -m venv .venv-tf$$version; \
	  .venv-tf$$version/bin/python -m pip install --quiet --editable '.[test]' \
	    tensorflow==$$version; \
	  echo "TensorFlow $$version"; \
	  .venv-tf$$version/bin/python -m pytest --quiet $(VERSION_TESTS); \
	done

coverage: $(VENV)/installed
	rm -f .coverage covered.*
	@$(MAKE) --no-print-directory test COVERAGE=covered.tf2
	@$(MAKE) --no-print-directory coverage-report

# .ci/run writes a file for each TensorFlow; both are reported together.
coverage-report: $(VENV)/installed
	$(BIN)/python -m coverage combine --keep $(wildcard covered.tf1 covered.tf2)
	$(BIN)/python -m coverage report

lint: $(VENV)/installed
	@if [ -x $(BIN)/ruff ]; then \
	  echo "$(BIN)/ruff check" && $(BIN)/ruff check && \
	  echo "$(BIN)/ruff format --check" && $(BIN)/ruff format --check && \
	  echo "$(BIN)/mypy" && $(BIN)/mypy; \
	else echo "no ruff in $(VENV) (it comes with TensorFlow 2): not linted"; fi

$(VENV)/bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

bench: $(VENV)/bench
	$(BIN)/python tools/bench/benchmark.py --data $(BENCH_DATA) \
	  $(if $(BENCH_LOGDIR),--logdir $(BENCH_LOGDIR)) $(BENCH)

faults: $(VENV)/installed
	$(BIN)/python tools/faults/sweep.py $(FAULTS)

findings:
	@for script in findings/*.sh; do echo "== $$script"; bash "$$script" || exit 1; done

$(VENV)/docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(VENV)/docs
	$(BIN)/python docs/walkthrough/run.py --fill
	mkdir -p build
	rm -f $(TRY)
	if [ -e $(LOGDIR)/hparams.json ]; then \
	  $(BIN)/python scripts/page.py --logdir $(LOGDIR) --out $(TRY) --docs .; fi
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean
	@echo "To read it: $(BIN)/python -m http.server --directory build/site"

clean:
	rm -rf .venv .venv-* $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache
	rm -f .coverage covered.*
	find . -name __pycache__ -prune -exec rm -rf {} +
