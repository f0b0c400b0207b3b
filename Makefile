# Everything a newcomer needs: make demo, make test, make serve.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := $(VENV)/.bench

.PHONY: demo serve test test-corpus lint format clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Callgate needs Python 3.11 or newer, found " + sys.version if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(BENCH): $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	touch $@

demo: $(READY) ## start a gateway, register the demo toolsets, call them in every mode
	$(BIN)/callgate demo

serve: $(READY) ## leave a gateway running on loopback
	$(BIN)/callgate serve

test: $(READY) lint ## lint, types, and every test but the full corpora
	$(BIN)/pytest -m 'not corpus' --cov --cov-report=term

test-corpus: $(BENCH) ## the full runs over the shared corpora, other engines beside ours: hours
	$(BIN)/pytest -m corpus -s

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment
	rm -rf $(VENV)
