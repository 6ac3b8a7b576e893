# make demo    train, score and try the sample system: a few minutes on two cores
# make test    all tests, quick and slow, and the linter
# make lint    the linter alone
# make bench   measure speed beside other systems, on data/multi30k, logs/multi30k
# make soak    200 trainings killed and continued, 100,000 odd lines translated: an hour
# make clean   remove environments and caches; data and logs stay
#
# Each target sets up what it needs in VENV. TensorFlow 2 wants Python 3.10 or newer,
# genuine TensorFlow 1.15 wants Python 3.7:
#
#   make test VENV=.venv-tf1 PYTHON=python3.7

PYTHON ?= python3
VENV ?= .venv
LOGDIR ?= logs/sample

BIN := $(VENV)/bin
DATA := data/sample
export TF_CPP_MIN_LOG_LEVEL ?= 2
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: help demo test lint bench soak clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

$(VENV)/installed: setup.py
	@$(PYTHON) -c 'import sys' || { \
	  echo "$(PYTHON) does not run: say which Python to use, make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit( \
	  None if v >= (3, 10) or v == (3, 7) else "found Python %d.%d, wanted 3.10 or " \
	  "newer (TensorFlow 2) or 3.7 (TensorFlow 1.15): make PYTHON=..." % v)'
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "$(PYTHON) cannot make environments: install its venv module" \
	    "(Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

demo: $(VENV)/installed
	$(BIN)/python scripts/prepare.py --out $(DATA) --vocab-size 2000
	$(BIN)/python train.py --preset sample --logdir $(LOGDIR)
	$(BIN)/python eval.py --logdir $(LOGDIR) --split test
	@echo "Source, translation and reference:"
	@head -n 5 $(DATA)/test.de | $(BIN)/python scripts/translate.py --logdir $(LOGDIR) \
	  | paste -d '\n' $(DATA)/test.de - $(DATA)/test.en \
	  | awk 'NR % 3 == 1 && NR <= 15 { print "" } NR <= 15'
	@echo
	@echo "Settings, checkpoints, events, scores and translations: $(LOGDIR)"
	@echo "Translate your own: echo 'Ein Satz.' |" \
	  "$(BIN)/python scripts/translate.py --logdir $(LOGDIR)"

test: $(VENV)/installed
	$(BIN)/python -m pytest -m "slow or not slow"
	@$(MAKE) --no-print-directory lint

lint: $(VENV)/installed
	@if [ -x $(BIN)/ruff ]; then echo "$(BIN)/ruff check" && $(BIN)/ruff check; \
	else echo "no ruff in $(VENV) (it comes with Python 3.10 or newer): not linted"; fi

# Options of tools/bench/benchmark.py: make bench BENCH="--quick --json bench.json"
BENCH ?= --json bench.json
BENCH_DATA ?= data/multi30k
BENCH_LOGDIR ?= $(wildcard logs/multi30k)

$(VENV)/bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

bench: $(VENV)/bench
	$(BIN)/python tools/bench/benchmark.py --data $(BENCH_DATA) \
	  $(if $(BENCH_LOGDIR),--logdir $(BENCH_LOGDIR)) $(BENCH)

soak: $(VENV)/installed
	$(BIN)/python tools/soak/soak.py --cycles 200 --lines 100000

clean:
	rm -rf .venv .venv-* $(VENV) build *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
