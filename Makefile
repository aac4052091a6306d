# Every target works alone on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo test nightly lint style docs wheel tiny index outputs kills hostile clean

install: $(VENV)/.installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Gradus needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml setup.py $(wildcard gradus/policies/kernels/*.[ch]) constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[search]"
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[search,duckdb,datasets,peft,quantised,gymnasium,reasoning_gym,gem,textarena,verifiers,ray,tensorboard,prometheus,opentelemetry,serve,simulate,mcp,docs,dev]"
	@touch $@

demo: $(VENV)/.installed  ## train the built-in model until it solves what it could not
	$(BIN)/gradus train grpo --task arithmetic --steps 40

style: $(VENV)/.tested  ## ruff, spelling, phrases
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/python -m scripts.english

lint: style  ## style and types
	$(BIN)/mypy

# Bytecode is kept, because the tests start some hundred processes.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest
WORKERS ?= auto

# mypy has one core, and the tests that run one at a time have the other.
test: style  ## style, tests in parallel, then types beside the tests that watch the clock or other processes
	@sh scripts/debian-packages.sh
	$(PYTEST) -m "not alone" -n $(WORKERS) --maxprocesses 8 --dist worksteal
	@mkdir -p build
	$(BIN)/mypy > build/types.txt 2>&1 & types=$$!; \
	$(PYTEST) -m alone $$(grep -rl --include='test_*.py' 'mark\.alone' tests | sort); tests=$$?; \
	wait $$types; types=$$?; cat build/types.txt; exit $$((tests | types))

nightly: test  ## all of test, then the long ones: kills of every kind, hostile texts, learning, resumed runs of every recipe
	$(PYTEST) --nightly
	$(MAKE) kills hostile
	$(BIN)/python -m benchmarks.learning
	$(BIN)/python -m benchmarks.invariance --every 1

docs: $(VENV)/.tested  ## build the documents into build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs build/docs

wheel: $(VENV)/.tested  ## build the source distribution and two wheels, with and without compiled kernels, into build/dist
	rm -rf build/dist
	$(BIN)/python -m build --outdir build/dist
	GRADUS_KERNELS=none $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/dist build/dist/*.tar.gz

MODELS ?= base
tiny: $(VENV)/.installed  ## pre-train built-in models again: ten minutes for base; MODELS=puzzles,formal,words,passages,programs for the others, ten minutes each
	$(BIN)/python -m benchmarks.tiny --models $(MODELS)
	$(BIN)/python -m benchmarks.tiny_flow

index: $(VENV)/.installed  ## renew the index of recipes that `gradus papers` reads, and the reference pages
	$(BIN)/python -m gradus.recipe.index
	$(BIN)/python -m scripts.reference_pages
	$(BIN)/python -m scripts.coverage
	$(BIN)/python -m scripts.figures

outputs: $(VENV)/.tested  ## run the commands of README and docs, and renew the outputs that do not depend on training
	$(BIN)/python -m scripts.outputs

kills: $(VENV)/.installed  ## kill runs of every kind of recipe twenty times in all, resume them, and compare every byte
	$(BIN)/python -m benchmarks.kills --kills 20

hostile: $(VENV)/.installed  ## fuzz every judge with a million hostile texts: half an hour
	$(BIN)/python -m benchmarks.hostile --texts 1000000

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
