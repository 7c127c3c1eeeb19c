PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test docs soak lint format bench clean

demo: $(VENV)/.demo
	$(BIN)/python examples/nested_ellipses.py
	$(BIN)/barymesh paper all --quick --output demo/paper

test: $(VENV)/.testing
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# the site, in docs/_build/html; a warning is an error, and so is an example of the gallery that fails
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -n -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/_ext/check_links.py docs/_build/html

# harm done at random to a network of real processes, for so many minutes
MINUTES ?= 5
SEED ?= 0
soak: $(VENV)/.testing
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

lint: $(VENV)/.linting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.linting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.benching
	$(BIN)/python -m benchmarks --output benchmarks/results

clean:
	find src -name '*.nb[ic]' -delete
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist demo out docs/_build docs/gallery

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# each stamp stands for one set of packages installed for the present pyproject.toml
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mnist,report]'
	touch $@

$(VENV)/.testing: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

$(VENV)/.linting: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

$(VENV)/.benching: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	touch $@
