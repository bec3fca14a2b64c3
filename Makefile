# Weft: `make run` installs Weft, builds the shipped sample and searches it; `make test` installs what checks and tests need
# besides, and runs them.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WEFT_CONFIG ?= data/sample/weft.toml
export WEFT_CONFIG
# Empty is off: else each of some fifty processes of the tests would compile all its modules again.
export PYTHONDONTWRITEBYTECODE =
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
CLUSTERS := $(VENV)/.installed-clusters
# What pip is at, in one line that moves; its are on standard error.
INSTALL = PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check --no-compile -c constraints.txt -e
SHOWN = awk -v moves="$$([ -t 2 ] && echo 1)" '/^ *(Collecting|Downloading|Using cached|Building|Installing)/ \
  { gsub(/^ +| \(from .*/, ""); printf moves ? "\r  %-76.76s" : "  %.76s\n", $$0; fflush() } END { if (moves) print "" }'

# Three at once on two cores: cases wait for disks and processes. Tests of one file share what it builds, so they stay in
# one process; the files that take longest begin (tests/longest_first.txt). Long proofs wait more, so five run at once.
FILES = --dist loadfile --no-loadscope-reorder
# The formatter of stylesheets and scripts. It knows no Jinja: templates have a test of their own.
PRETTIER = prettier@3.10.1
SCRIPTS = dagster_project/extras/web/static/weft.css dagster_project/extras/web/static/weft.js \
  dagster_project/evaluation_page.html
SLOWEST = --durations=$(if $(CI),60,0 --durations-min=20)

.PHONY: run test suite exhaustive test-all lint ui wheel bench bench-scale docs pictures clean

run: $(STAMP)
	@$(BIN)/weft build
	@$(BIN)/weft search --limit 2 "torn WAL record after a thunderstorm"
	@sed -n 's/^## //p' Makefile

## What next:
##   make ui                     # the assets, their runs and the schedule in Dagster
##   .venv/bin/weft serve --config data/sample/weft.toml     # search and read in a browser
##   .venv/bin/weft search --config data/sample/weft.toml "your question" --list quern-users
##   .venv/bin/weft context --config data/sample/weft.toml --budget 1500 "data/sample/chat/WhatsApp Chat with Withy Brook gauges.txt"
##   .venv/bin/weft eval run --config data/sample/weft.toml  # how good the search is, on 36 questions
##   .venv/bin/weft sql --config data/sample/weft.toml "SELECT subject, message_count FROM threads ORDER BY 2 DESC LIMIT 5"
##   .venv/bin/weft init ~/mail  # your own archive: mail, notes, documents or exported chats

# Linters first: they fail in seconds. Tests of an extra run if its folder or they changed since they passed here.
EXTRAS := changed
test: lint suite

suite: $(DEV)
	@WEFT_EXTRAS=$(EXTRAS) $(BIN)/python -m pytest -n 3 $(FILES) -m "not exhaustive" $(SLOWEST)

# Kills, disks, browser, clusters, fuzzing and corpora, and all examples of the property tests.
exhaustive: $(CLUSTERS)
	@WEFT_EXAMPLES=1 $(BIN)/python -m pytest -n 5 $(FILES) -m "exhaustive or property" $(SLOWEST)

test-all: EXTRAS := all
test-all: test exhaustive

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/pyrefly check --output-format min-text
	@if command -v npx >/dev/null; then npx --yes $(PRETTIER) --log-level warn --check $(SCRIPTS); \
	  else echo "The stylesheet and scripts are not checked: Node.js is not installed"; fi

ui: $(STAMP)
	@$(BIN)/weft ui

# Of what is committed alone, at the time of its commit: the same commit gives the same bytes.
wheel: $(STAMP)
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && umask 022 && \
	  git archive HEAD | tar -x -C "$$folder" --no-same-permissions && \
	  SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel -q --disable-pip-version-check \
	  --no-deps -w dist "$$folder" && ls -l dist

bench: $(DEV)
	@$(BIN)/python benchmarks/reading.py
	@$(BIN)/python benchmarks/blocks.py
	@$(BIN)/python benchmarks/chunks.py
	@$(BIN)/python benchmarks/stages.py
	@$(BIN)/python benchmarks/retrieval.py
	@$(BIN)/python benchmarks/labels.py

docs: $(DEV)
	@$(BIN)/zensical build --strict

pictures: $(DEV)
	@WEFT_SCREENSHOTS=docs/images $(BIN)/python -m pytest -n 0 -k picture \
	  tests/dagster_project/orchestration/triggers/test_ui.py dagster_project/extras/web/tests/test_browser.py

# A night's run: four sizes, of which the pages are made, and a million mails, cut to as much disk as a quarter of it takes,
# beside what the plan says of so many chunks.
bench-scale: $(DEV)
	@$(BIN)/python benchmarks/scale.py --json docs/measurements/scale.json
	@$(BIN)/python benchmarks/scale.py --sizes 1000000 --longest 1500 --without-notmuch --json docs/measurements/million.json
	@$(BIN)/python benchmarks/scale_plan.py docs/measurements/scale.json --built docs/measurements/million.json
	@$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) data/sample/state site

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Weft needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing packages into $(VENV): a minute or two, 1 GB on disk"
	@$(INSTALL) ".[evaluation,ui,web]" | $(SHOWN)
	@touch $@

$(DEV): $(STAMP)
	@echo "Installing what checks and tests need into $(VENV)"
	@$(INSTALL) ".[dev]" | $(SHOWN)
	@touch $@

$(CLUSTERS): $(DEV)
	@echo "Installing Spark and Ray into $(VENV)"
	@$(INSTALL) ".[dev,spark,ray]" | $(SHOWN)
	@touch $@
