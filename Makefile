# Everything runs in .venv, which is made on first use. Needed beforehand: Python 3.11 to 3.13, make, git.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# ALL=1 runs the long tests of the CUDA build too, as CI does.
ALL ?=
# Two processes; a file stays in one of them, so that each kernel is compiled once. Arguments that are given take the
# place of all of these: pytest gets nothing else.
PYTEST_ARGS ?= -q -rsfE --disable-warnings -n 2 --dist loadfile $(if $(filter-out 0,$(ALL)),,-m "not long_cuda")
RUN_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help run test ci-env ci-tools lint format bench docs release-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.base ## simulate the humanoid scene, print a summary and take a picture (RUN_ARGS=...)
	$(BIN)/sap-warp run $(RUN_ARGS) --picture build/

test: $(VENV)/.dev ## run the tests (ALL=1 with all of the CUDA build, PYTEST_ARGS=...)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

ci-env: $(VENV)/.ci ## install what lint, docs and test need, at once

ci-tools: $(VENV)/.dev ## install what some tests look for and skip themselves without: a browser, torch, two trainers
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium >/dev/null)
	$(PIP) install --quiet --no-compile torch==2.13.0 stable-baselines3 'rsl-rl-lib>=5.5,<6'

lint: $(VENV)/.dev ## check style, formatting, types and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell --toml pyproject.toml README.md CONTRIBUTING.md CHANGELOG.md docs examples sap_warp tools

format: $(VENV)/.dev ## format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## compare the speed with MuJoCo C and Drake on the same scenes (BENCH_ARGS=--quick)
	$(BIN)/python benchmarks/compare.py $(BENCH_ARGS)

docs: $(VENV)/.docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

release-check: $(VENV)/.dev ## check that this commit can be released, and build it into dist/
	$(BIN)/python tools/release_check.py

clean: ## remove the environment, caches and build results
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; v = sys.version_info; (3, 11) <= v < (3, 14) or sys.exit("SAP Warp needs Python 3.11, 3.12 or 3.13; %s is %d.%d. Name another one: make PYTHON=python3.12" % (sys.executable, v[0], v[1]))'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# A stamp is newer than pyproject.toml once its packages are installed.
$(VENV)/.base: pyproject.toml | $(VENV)/.venv
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.venv
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml | $(VENV)/.venv
	$(PIP) install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.base

# What is imported is compiled then; bytecode of all that is installed would take a minute.
$(VENV)/.ci: pyproject.toml | $(VENV)/.venv
	$(PIP) install --quiet --no-compile --editable '.[dev,docs]'
	@touch $@ $(VENV)/.base $(VENV)/.dev $(VENV)/.docs
