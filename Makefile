PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-wheel frameworks docs soak fuzz frames lint format lock bench quick-bench clean

demo: $(VENV)/.demo
	$(BIN)/python examples/nested_ellipses.py
	$(BIN)/barymesh paper all --quick --output demo/paper
	@echo "Look at demo/nested-ellipses.png too. Next, your own data: docs/tutorials/quickstart.md"

test: $(VENV)/.testing
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# the same tests, against the wheel as a user installs it; those that make a wheel themselves are for the sources
test-wheel: $(VENV)/.testing
	rm -rf .venv-wheel dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet "$$(echo dist/*.whl)[test]"
	.venv-wheel/bin/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --ignore tests/test_release.py

# the tests of the integrations, each in an environment of its own: docs/design/decisions.md
frameworks: .venv-flower/.installed .venv-nvflare/.installed
	.venv-flower/bin/python -m pytest tests/integrations/test_flower.py
	.venv-nvflare/bin/python -m pytest tests/integrations/test_nvflare.py

.venv-%/.installed: pyproject.toml CMakeLists.txt $(shell find src cmake -type f -not -name '*.pyc')
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet '.[$*]' -r tests/integrations/$*.txt
	touch $@

# the site, in docs/_build/html; a warning is an error, and so is an example of the gallery that fails
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -n -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/_ext/check_links.py docs/_build/html

# harm done at random to a network of real processes, for so many minutes
MINUTES ?= 5
SEED ?= 0
soak: $(VENV)/.testing
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

# random problems on random simulated networks
CASES ?= 1000
fuzz: $(VENV)/.testing
	$(BIN)/python -m tests.fuzz --count $(CASES) --seed $(SEED)

# frames of neighbours that lie
FRAMES ?= 1000000
frames: $(VENV)/.testing
	$(BIN)/python -m tests.frames --count $(FRAMES) --seed $(SEED)

lint: $(VENV)/.linting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.linting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# the exact packages of the image, with their hashes: newer ones with the next `make lock`
LOCK = $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-annotate --no-emit-index-url --python-version 3.12 \
	--python-platform linux --custom-compile-command "make lock"
lock: $(BIN)/python
	$(PIP) uv
	$(LOCK) pyproject.toml --extra images --extra parquet --extra peers --extra privacy -o deploy/docker/requirements.txt
	$(BIN)/python -c "import tomllib; print('cmake', 'ninja', \
	  *tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" \
	  | $(LOCK) - -o deploy/docker/build-requirements.txt
	@echo "The base image has no digest yet: docker buildx imagetools inspect python:3.12-slim-bookworm prints it," \
	  "and docker build --build-arg PYTHON_IMAGE=python:3.12-slim-bookworm@sha256:... uses it."

bench: $(VENV)/.benching
	$(BIN)/python -m benchmarks --output benchmarks/results

# small cases, for crashes only
quick-bench: $(VENV)/.testing
	results="$$(mktemp -d)" && trap 'rm -rf "$$results"' EXIT && $(BIN)/python -m benchmarks --quick --output "$$results"

clean:
	rm -rf $(VENV) .venv-* build .mypy_cache .ruff_cache .pytest_cache .hypothesis dist demo out docs/_build docs/gallery docs/reference/objects

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# each stamp stands for one set of packages installed, and for the kernels built, from the present sources
SOURCES := pyproject.toml CMakeLists.txt $(wildcard cmake/*) $(wildcard src/barymesh/core/*.cpp src/barymesh/core/*.h)
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# with the tools of this environment, so that only what has changed is compiled again
INSTALL = $(PIP) --no-build-isolation --editable
# the gallery reads one file of data that scanpy ships; what scanpy needs to compute with, 340 MB, stays away
CELLS = $(PIP) --no-deps 'scanpy>=1.11'
# what pip would do on one core, after every package; some have templates that are not Python, and pip does not mind
COMPILE = $(BIN)/python -W ignore -m compileall -qq -j 0 $$($(BIN)/python -c "import sysconfig; \
	  print(sysconfig.get_path('purelib'))") || true

# what builds the kernels, and setuptools for packages that have no wheel of their own (autograd-gamma, of lifelines);
# without a compiler pip would print two pages
$(VENV)/.builder: | $(BIN)/python
	@command -v $${CXX:-c++} > /dev/null || { echo "barymesh is built with a C++20 compiler, and there is none:" \
	  "apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), xcode-select --install (macOS)." >&2; exit 1; }
	$(PIP) cmake ninja 'setuptools>=77' $$($(BIN)/python -c "import tomllib; \
	  print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'])")
	touch $@

$(VENV)/.demo: $(SOURCES) | $(VENV)/.builder
	$(INSTALL) '.[mnist,report]'
	$(COMPILE)
	touch $@

$(VENV)/.testing: $(SOURCES) | $(VENV)/.builder
	$(INSTALL) '.[test]'
	$(COMPILE)
	touch $@ $(VENV)/.demo

$(VENV)/.linting: $(SOURCES) | $(VENV)/.builder
	$(INSTALL) '.[test,lint]'
	$(COMPILE)
	touch $@ $(VENV)/.testing

$(VENV)/.docs: $(SOURCES) | $(VENV)/.builder
	$(INSTALL) '.[docs]'
	$(CELLS)
	$(COMPILE)
	touch $@

$(VENV)/.benching: $(SOURCES) | $(VENV)/.builder
	$(INSTALL) '.[test,bench]'
	$(COMPILE)
	touch $@

# all of it in one go, for CI
$(VENV)/.everything: $(SOURCES) | $(VENV)/.builder
	$(INSTALL) '.[test,lint,docs]'
	$(CELLS)
	$(COMPILE)
	touch $(VENV)/.demo $(VENV)/.testing $(VENV)/.linting $(VENV)/.docs $@
