# `make demo` and `make test` set up everything they need; only bash, make and a Python with venv are assumed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= $(CURDIR)/.venv
PEERS := $(CURDIR)/.venv-peers
SBOM ?= $(CURDIR)/.venv-sbom
DOCS ?= $(CURDIR)/.venv-docs
SITE ?= $(CURDIR)/dist/docs
DIST ?= $(CURDIR)/dist
BIN := $(VENV)/bin
LOCKS := deploy/requirements
CASE ?= answers_10m
WORKERS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo test test-rest test-full check lint types imports bench peers exams mutants audit soak sbom docs lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.core ## Generate two small datasets, release them, show the error
	$(BIN)/marquee demo
	@test -e $(VENV)/.warm || { echo "compiling the kernels of all other mechanisms, once" && $(BIN)/marquee warm && touch $(VENV)/.warm; }

# Every test is of exactly one tier, `full` or not, and Spark takes all cores by itself: one JVM serves all its tests.
# Tests whose assertions are rewritten are cached as bytecode: without, each process spends ten seconds on them.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n $(WORKERS) --dist worksteal

test: $(VENV)/.test $(VENV)/.warm ## Run the fast tier (six minutes on two idle cores)
	$(PYTEST) $(PARALLEL) -m "not spark and not full"
	$(PYTEST) -m "spark and not full"

test-rest: $(VENV)/.test $(VENV)/.warm ## Run what the fast tier leaves out
	$(PYTEST) -m "spark and full"
	$(PYTEST) $(PARALLEL) -m "not spark and full"

test-full: test test-rest ## Run the whole suite

check: lint types imports ## Style, types and import contracts

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy --strict dpcore pipelines jobs marquee

imports: $(VENV)/.test
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.test ## Run one benchmark: make bench CASE=answers_10m
	$(BIN)/python -m tests.benchmarks $(CASE)

peers: $(PEERS)/.peers ## Install what some benchmarks compare with, in an environment of its own

audit: $(VENV)/.test ## Run the privacy audit at full size, and write tests/audit/RESULTS.md (about two hours)
	$(BIN)/python -m tests.audit $(SECTIONS)

soak: $(VENV)/.test ## Run the reliability suite at full size, and write tests/reliability/RESULTS.md (under an hour)
	$(BIN)/python -m tests.reliability $(PARTS)

mutants: $(VENV)/.test ## Plant every fault of tests/mutation, and print those that no test notices (under half an hour)
	$(BIN)/python -m tests.mutation $(WORDS)

exams: $(VENV)/.test $(VENV)/.warm ## Let other people's programs examine releases, and write tests/exams/RESULTS.md (half an hour)
	$(BIN)/python -m tests.exams $(NAMES)

sbom: $(SBOM)/.sbom ## Write software bills of materials (CycloneDX) of the locked dependencies into dist
	mkdir -p $(DIST)
	for name in core spark; do $(SBOM)/bin/cyclonedx-py requirements $(LOCKS)/$$name.txt --pyproject pyproject.toml \
	    --output-reproducible --output-file $(DIST)/marquee-$$name.cdx.json; done

# The theme announces its successor on every build.
docs: $(DOCS)/.docs ## Build the documentation into dist/docs, in strict mode: a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --site-dir $(SITE)

lock: ## Refresh deploy/requirements from pyproject.toml (needs uv)
	deploy/requirements/lock

clean: ## Remove the environment, caches and generated data
	rm -rf $(VENV) $(PEERS) $(SBOM) $(DOCS) dist out tests/benchmarks/data .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find dpcore pipelines jobs marquee tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "marquee needs Python 3.11 or newer; $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "$(PYTHON) cannot make virtual environments; install its venv package (Debian: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp stands for an installed lock file, so that nothing is installed twice. Bytecode of what is never imported would be
# 90 of 680 MB: Python writes it for what is.
$(VENV)/.core: $(LOCKS)/core.txt pyproject.toml | $(BIN)/python
	$(PIP) install --no-compile --require-hashes -r $(LOCKS)/core.txt
	$(PIP) install --no-compile --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.test: $(LOCKS)/test.txt $(VENV)/.core
	$(PIP) install --no-compile --require-hashes -r $(LOCKS)/test.txt
	touch $@

# A stamp stands for kernels that are compiled, so that no test and no first release waits for them.
$(VENV)/.warm: $(VENV)/.core
	$(BIN)/marquee warm
	touch $@

$(SBOM)/.sbom: $(LOCKS)/sbom.txt
	$(PYTHON) -m venv $(SBOM)
	$(SBOM)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r $(LOCKS)/sbom.txt
	touch $@

$(DOCS)/.docs: $(LOCKS)/docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r $(LOCKS)/docs.txt
	touch $@

$(PEERS)/.peers: $(LOCKS)/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r $(LOCKS)/peers.txt
	touch $@
