"""What of the tests a run collects, in which order, and how its processes share the work of it;
fixtures are in tests/.
"""

import compileall
import gc
import os
import re
import signal
import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

from tests.changed_extras import digests

ROOT = Path(__file__).parent
EXTRAS = ROOT / "dagster_project" / "extras"
FOLDERS = ("transforms", "assets", "dagster_project", "weft", "tests")
_ALL_EXHAUSTIVE = re.compile(r"^pytestmark = \[?pytest\.mark\.exhaustive", re.M)
_EXHAUSTIVE, _TEST = (
    re.compile(r"^@pytest\.mark\.exhaustive", re.M),
    re.compile(r"^def test_", re.M),
)
_SOME_EXHAUSTIVE = re.compile(r"exhaustive|^@given|^from tests\.cases import", re.M)


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C end the commands that tests start: a shell ignores it for what runs in its
    background.

    A process that only hands out the tests loads no fixtures: their imports take seconds, for which
    all others wait.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.dist == "no":
        _compile_a_share(config)
        config.pluginmanager.import_plugin("tests.fixtures")


def _compile_a_share(config: pytest.Config) -> None:
    """Compile some of the modules that tests import; the other processes of the run read the
    result.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    modules = sorted(
        f for name in FOLDERS for f in (ROOT / name).rglob("*.py") if not f.name.startswith("test_")
    )
    for file in modules[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        compileall.compile_file(file, quiet=2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files from which the run selects nothing: their imports are most of what a
    collection takes.
    """
    extra = (
        collection_path.relative_to(EXTRAS).parts[0] if EXTRAS in collection_path.parents else ""
    )
    if extra in _left_out(config):
        return True
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    if not is_test(collection_path):
        return ">>>" not in text or None
    nothing = {
        "not exhaustive": _ALL_EXHAUSTIVE.search(text)
        or 0 < len(_TEST.findall(text)) == len(_EXHAUSTIVE.findall(text)),
        "exhaustive or property": not _SOME_EXHAUSTIVE.search(text),
    }
    return bool(nothing.get(config.option.markexpr)) or None


def is_test(file: Path) -> bool:
    """True for the files of tests/ and of the folder `tests` of an extra."""
    return "tests" in file.relative_to(ROOT).parts


@cache
def _left_out(config: pytest.Config) -> list[str]:
    """The extras that `make test` leaves out, since neither they nor their tests changed since they
    passed.
    """
    if os.environ.get("WEFT_EXTRAS") != "changed":
        return []
    passed = config.cache.get("weft/extras", {}) if config.cache else {}
    return [name for name, digest in digests(ROOT).items() if passed.get(name) == digest]


@cache
def missing_extras() -> list[str]:
    """The extras that the page of the architecture lists and whose folders are deleted; the pages
    describe all of them.
    """
    _, _, listed = (ROOT / "docs" / "architecture.md").read_text().partition("### Extras")
    names = re.findall(r"^\| `(\w+)` \|", listed.partition("\n## ")[0], re.M)
    return [
        name
        for name in names
        if not (ROOT / "dagster_project" / "extras" / name / "__init__.py").exists()
    ]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the extras that were left out."""
    if left_out := _left_out(config):
        terminalreporter.write_line(
            f"extras that are as they were when they passed: {', '.join(left_out)}"
        )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remember the extras whose quick tests passed, or passed before and are the same."""
    _left_out(session.config)  # which the summary names, as they were before the run
    if (
        exitstatus == 0
        and "WEFT_EXTRAS" in os.environ
        and getattr(session.config, "cache", None)
        and session.config.option.dist != "no"
    ):
        session.config.cache.set("weft/extras", digests(ROOT))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings of the product alone: of a helper of tests this is all that
    would import it.
    """
    found = yield
    return [f for f in found if type(f) is pytest.Module] if is_test(file_path) else found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, in the order of `longest_first.txt`: no process ends
    with one of them.

    The mark `property` is what `make test-all` selects in order to try all examples.
    """
    for item in items:
        if isinstance(item, pytest.Function) and getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker("property")
        if item.path.is_relative_to(ROOT / "tests" / "docs") and (missing := missing_extras()):
            item.add_marker(
                pytest.mark.skip(f"the pages describe what is not here: {', '.join(missing)}")
            )
    names = (ROOT / "tests" / "longest_first.txt").read_text().split()
    places = {name: place for place, name in enumerate(names)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    """Modules stay until the end: no garbage collection goes through their third of a million
    objects again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
