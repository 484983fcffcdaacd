# Everything a newcomer needs: each target does its own set-up. Needs Python 3.11 or later and nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-all check bench wheel-test clean

help:
	@echo "make demo      install into .venv and play a captured run back live (screen in a terminal, report without one)"
	@echo "make test      install into .venv, check types and imports, run the tests, try the wheel in a second venv"
	@echo "make test-all  the same, the slow tests, and all examples of the property tests"
	@echo "make check     ruff, mypy, import contracts"
	@echo "make bench     benchmarks: ratios against peers measured in the same run"

$(VENV)/.app: pyproject.toml
	@echo "installing into $(VENV), once; this takes about half a minute"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.app
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: $(VENV)/.app
	@$(BIN)/tic-tui demo

# Types and the wheel take one core, and the wheel's demo waits most of its time: they run beside the tests, and what they
# say is told after them. Either's failure is a failure.
test: $(VENV)/.dev
	@said=$$(mktemp); $(MAKE) --no-print-directory check wheel-test >$$said 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null; rm -f $$said' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/python -m pytest -n 4 --dist worksteal; tests=$$?; \
	wait $$beside; checks=$$?; cat $$said; \
	[ $$tests = 0 ] || echo "the tests failed; what they said stands above"; \
	[ $$checks = 0 ] || echo "the types, the import contracts or the wheel failed; what they said stands above"; \
	exit $$((tests > checks ? tests : checks))

$(VENV)/.peers: $(VENV)/.dev
	@$(PIP) --extra-index-url https://download.pytorch.org/whl/cpu --editable '.[dev,peers]'
	@touch $@

test-all: $(VENV)/.peers check
	TIC_THOROUGH=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m ''
	@$(MAKE) --no-print-directory wheel-test

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What a stranger gets from the wheel, without the source tree: installed elsewhere, run from another folder.
wheel-test: $(VENV)/.dev
	@$(BIN)/python tests/wheel_check.py

bench: $(VENV)/.dev
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) dist build tic-demo bench-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
