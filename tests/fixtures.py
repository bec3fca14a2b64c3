"""Fixtures that several folders of tests share."""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import dagster as dg
import hypothesis
import pytest
from alembic.script import ScriptDirectory

from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import Once, Workspace, two_lists
from tests.cases import examples
from tests.gemini_loopback import KEY, Loopback, loopback
from tests.library import library as new_library
from tests.s3_loopback import s3_service

hypothesis.settings.register_profile("part of the examples", examples())
hypothesis.settings.load_profile("part of the examples")


# Each instance of Dagster that opens reads its ninety migrations anew; more than half of what
# opening one takes.
ScriptDirectory.from_config = cache(ScriptDirectory.from_config)  # type: ignore[method-assign]


class _WithoutClusters:
    """A finder of modules (PEP 451) that finds all that another does but the packages that only the
    clusters install.
    """

    def __init__(self, finder: Any):
        self.finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """What the other finder says of a module; None for these packages, as if they were not
        installed.
        """
        return (
            None
            if name in {"pandas", "pyspark", "ray"}
            else self.finder.find_spec(name, path, target)
        )


@pytest.fixture(autouse=True)
def _no_clusters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick test passes where pandas, pyspark and ray are not installed, as in most environments."""
    if not request.node.get_closest_marker("exhaustive"):
        monkeypatch.setattr(
            sys, "meta_path", [_WithoutClusters(finder) for finder in sys.meta_path]
        )


@pytest.fixture(autouse=True)
def _own_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tests use the instance, the settings and the states of their own folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "states"))
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
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", state.url)
        yield state


@pytest.fixture(scope="module")
def s3_variables() -> Iterator[dict[str, str]]:
    """The variables of the environment that lead clients to a running S3 service."""
    pytest.importorskip("s3fs", reason="the extra `s3` is not installed")
    with s3_service() as variables:
        yield variables


@pytest.fixture
def s3(s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of an S3 service without buckets, to which the environment leads."""
    import boto3

    reset = f"{s3_variables['AWS_ENDPOINT_URL']}/moto-api/reset"
    urlopen(Request(reset, method="POST")).close()  # the services of a process share their buckets
    for name, value in s3_variables.items():
        monkeypatch.setenv(name, value)
    return boto3.client("s3")


@pytest.fixture(scope="module")
def every_key() -> Iterator[None]:
    """A settings file may set internal keys, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dagster_project.config.settings.dotted_keys", lambda *_, **__: set())
        yield


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """An empty workspace without settings."""
    return Workspace(tmp_path / "work")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace with one source over mail/*."""
    return Workspace(tmp_path / "work").configure()


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Once:
    """Gives a workspace built of the same files, once for all processes of a run of the tests; for
    reading only.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if hasattr(pytestconfig, "workerinput") else own

    def built(work: Workspace) -> Workspace:
        place = shared / f"built-{work.digest[:16]}"
        place.mkdir(exist_ok=True)
        with (place / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "built").exists():
                shutil.rmtree(place / "work", ignore_errors=True)
                made = work.copied(place / "work")
                made.build()
                assert made.due() == {}
                (place / "built").touch()
        return Workspace(place / "work")

    return built


@pytest.fixture(scope="session")
def built_once(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """`two_lists`, built; for reading only."""
    return once(two_lists(tmp_path_factory.mktemp("two-lists") / "work"))


@pytest.fixture(scope="module")
def index(built_once: Workspace) -> Iterator[SearchIndex]:
    """The opened index of `built_once`."""
    with closing(open_index(built_once.settings)) as opened:
        yield opened


@pytest.fixture(scope="session")
def library(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Mail, odd archives, notes, documents and a chat, built; for reading only."""
    return once(new_library(tmp_path_factory.mktemp("library") / "work"))


@pytest.fixture(scope="session")
def shipped(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("shipped") / "sample"
    sample = Path(__file__).parents[1] / "data" / "sample"
    return once(Workspace(shutil.copytree(sample, folder, ignore=shutil.ignore_patterns("state"))))


@pytest.fixture
def built(built_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy of `built_once` that a test may change."""
    return built_once.copied(tmp_path / "work")


@pytest.fixture
def instance(built: Workspace) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of `built`."""
    with built.instance() as opened:
        yield opened


@pytest.fixture
def made(made_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy, which a test may change, of the workspace that its module built as `made_once`."""
    return made_once.copied(tmp_path / "work")
