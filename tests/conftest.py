"""Fixtures that several folders of tests share."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from alembic.script import ScriptDirectory

from tests.archives import Once, Workspace, two_lists
from tests.gemini_loopback import KEY, Loopback, loopback

hypothesis.settings.register_profile("no time limit", deadline=None)
hypothesis.settings.load_profile("no time limit")


# Each instance of Dagster that opens reads its ninety migrations anew; more than half of what opening one takes.
ScriptDirectory.from_config = cache(ScriptDirectory.from_config)  # type: ignore[method-assign]


def pytest_configure() -> None:
    """Let Ctrl-C end the commands that tests start: a shell ignores it for what runs in its background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_ALL_EXHAUSTIVE = re.compile(r"^pytestmark = \[?pytest\.mark\.exhaustive", re.M)
_SOME_EXHAUSTIVE = re.compile(r"exhaustive|^from tests\.(examples|cases) import", re.M)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files from which the run selects nothing: their imports are most of what a collection takes."""
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    nothing = {
        "not exhaustive": bool(_ALL_EXHAUSTIVE.search(text)),
        "exhaustive or property": not _SOME_EXHAUSTIVE.search(text),
    }
    return nothing.get(config.option.markexpr) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, in the order of `longest_first.txt`: no process ends with one of them."""
    names = (Path(__file__).parent / "longest_first.txt").read_text().split()
    places = {name: place for place, name in enumerate(names)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    """Modules stay until the end: no garbage collection goes through their third of a million objects again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests use the instance and the settings of their own folder."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("WEFT_CONFIG", raising=False)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Headless Chromium, in which each test opens pages of its own."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = (os.environ.get("WEFT_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, (shutil.which(name) for name in names if name)), None)
    if not found:
        pytest.skip("no Chromium on this machine; WEFT_CHROMIUM names one")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """The loopback server of Google's service, its key in the environment."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with loopback() as state:
        yield state


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace with one source over mail/*."""
    return Workspace(tmp_path / "work").configure()


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Gives a workspace built of the same files, once for all processes of a run of the tests; for reading only."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def built(work: Workspace) -> Workspace:
        place = shared / f"built-{work.digest[:16]}"
        place.mkdir(exist_ok=True)
        with (place / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "built").exists():
                shutil.rmtree(place / "work", ignore_errors=True)
                work.copied(place / "work").build()
                (place / "built").touch()
        return Workspace(place / "work")

    return built


@pytest.fixture(scope="session")
def built_once(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """`two_lists`, built; for reading only."""
    return once(two_lists(tmp_path_factory.mktemp("two-lists") / "work"))


@pytest.fixture
def built(built_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy of `built_once` that a test may change."""
    return built_once.copied(tmp_path / "work")


@pytest.fixture
def made(made_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy, which a test may change, of the workspace that its module built as `made_once`."""
    return made_once.copied(tmp_path / "work")
