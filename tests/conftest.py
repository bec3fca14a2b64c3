"""Fixtures that several folders of tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.archives import Workspace, two_lists


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests use the instance and the settings of their own folder."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("WEFT_CONFIG", raising=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace with one source over mail/*."""
    return Workspace(tmp_path / "work").configure()


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """`two_lists`, built; for reading only."""
    made = two_lists(tmp_path_factory.mktemp("built") / "work")
    made.build()
    return made


@pytest.fixture
def built(built_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy of `built_once` that a test may change."""
    return built_once.copied(tmp_path / "work")


@pytest.fixture
def made(made_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy, which a test may change, of the workspace that its module built as `made_once`."""
    return made_once.copied(tmp_path / "work")
