# Every target needs Python 3.11 or later, and make. The first one sets up .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready

.PHONY: demo run test chaos lint format clean

demo: $(READY)
	$(BIN)/python demo.py

run: $(READY)
	$(BIN)/python -m devhost

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal

chaos: $(READY)
	$(BIN)/python -m tests.verification.chaos

.PHONY: bench
bench: $(READY)  # prints a table, and writes bench/results/
	$(BIN)/python -m bench

.PHONY: soak
soak: $(READY)  # simulates seeds until stopped
	$(BIN)/python -m tests.verification.simulation --soak --jobs 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): requirements.txt requirements-dev.txt constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -c constraints.txt
	touch $(READY)

clean:
	rm -rf $(VENV) .data .mypy_cache .ruff_cache .pytest_cache
