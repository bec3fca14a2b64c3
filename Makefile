# Weft: `make run` builds and searches the shipped sample, `make test` runs all checks and tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WEFT_CONFIG ?= data/sample/weft.toml
export WEFT_CONFIG
# Empty is off: else each of some fifty processes of the tests would compile all its modules again.
export PYTHONDONTWRITEBYTECODE =
STAMP := $(VENV)/.installed

.PHONY: run test exhaustive test-all faults lint ui bench bench-scale pictures clean

run: $(STAMP)
	@$(BIN)/weft build
	@$(BIN)/weft search --limit 2 "torn WAL record after a thunderstorm" "last() scans the whole store" \
	  "copying the file while somebody writes to it"
	@$(BIN)/weft eval run
	@printf '\n%s\n\n' "What the index knows about a group chat on three topics:"
	@$(BIN)/weft context --budget 1500 "data/sample/chat/WhatsApp Chat with Withy Brook gauges.txt"
	@printf '%s\n' "What next:" \
	  "  make ui                                          the assets, runs and schedule in the browser" \
	  "  $(BIN)/weft search \"your question\" --list quern-users    one list only; --json for programs" \
	  "  $(BIN)/weft sql \"SELECT subject, message_count FROM threads ORDER BY 2 DESC LIMIT 5\"" \
	  "  your own archive: three lines of TOML, see README.md"

test: lint
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not exhaustive"

exhaustive: $(STAMP)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m exhaustive

test-all: test exhaustive

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

ui: $(STAMP)
	@$(BIN)/weft ui

bench: $(STAMP)
	@$(BIN)/python benchmarks/reading.py
	@$(BIN)/python benchmarks/blocks.py
	@$(BIN)/python benchmarks/chunks.py
	@$(BIN)/python benchmarks/stages.py
	@$(BIN)/python benchmarks/retrieval.py
	@$(BIN)/python benchmarks/labels.py

faults: $(STAMP)
	@WEFT_KILLS=100 WEFT_DISK_POINTS=12 $(BIN)/python -m pytest -n 0 tests/dagster_project/orchestration/test_killed_builds.py \
	  tests/dagster_project/orchestration/triggers/test_killed_services.py tests/dagster_project/orchestration/test_faults.py

pictures: $(STAMP)
	@WEFT_SCREENSHOTS=docs/images $(BIN)/python -m pytest -n 0 -k picture \
	  tests/dagster_project/orchestration/triggers/test_ui.py tests/dagster_project/servers/web/test_browser.py

bench-scale: $(STAMP)
	@$(BIN)/python benchmarks/scale.py

clean:
	rm -rf $(VENV) data/sample/state

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Weft needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing packages into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[dev]"
	@touch $@
