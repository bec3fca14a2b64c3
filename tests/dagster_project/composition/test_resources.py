"""Resources as Dagster's UI shows them: values of the settings, names of variables, and nothing
that a run can change.
"""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import ResourceConfigEnvVarSnap, ResourceSnap

from dagster_project.definitions import build_definitions
from tests.archives import Workspace
from transforms.errors import SettingsError

SECRET = "opensesame-4711"


def shown(definitions: dg.Definitions) -> dict[str, dict[str, Any]]:
    """What the UI shows of each resource that has a configuration; a variable of the environment as
    `$NAME`.
    """
    found = definitions.get_repository_def().get_top_level_resources()
    snaps = [ResourceSnap.from_def(made, name, *[{}] * 6) for name, made in found.items()]
    return {
        snap.name: {
            key: f"${value.name}"
            if isinstance(value, ResourceConfigEnvVarSnap)
            else json.loads(value)
            for key, value in snap.configured_values.items()
        }
        for snap in snaps
        if snap.configured_values
    }


@pytest.mark.exhaustive
def test_the_ui_shows_what_the_settings_say(workspace: Workspace):
    assert shown(build_definitions(workspace.settings)) == {
        "lake": {"uri": workspace.settings.lake_uri},
        "publisher": {"folder": str(workspace.index), "keep_versions": 2},
        "embedder": {"model": "weft-1-256", "dimensions": 256, "api_key": None},
        "language_model": {"model": "none", "api_key": None},
        "remotes": {"sources": {}},
    }


def test_the_ui_names_the_variables_of_secrets_and_never_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("dagster_project.extras.services")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    for name in ("GOOGLE_API_KEY", "LISTS_USER", "LISTS_PASSWORD"):
        monkeypatch.setenv(name, SECRET)
    remote = {
        "kind": "http",
        "since": "2004-01",
        "url": f"https://example.org/{{year}}{{month:02}}?token={SECRET}",
        "credentials": "LISTS",
    }
    work = Workspace(tmp_path / "work").configure(
        {"name": "far", "kind": "mbox", "fetch": remote},
        embedding={"model": "gemini"},
        sentences={"kind": "gemini"},
    )
    resources = shown(build_definitions(work.settings))
    assert (
        resources["embedder"]["api_key"]
        == resources["language_model"]["api_key"]
        == "$GOOGLE_API_KEY"
    )
    assert resources["remotes"] == {
        "sources": {"far": "http, credentials in LISTS_USER and LISTS_PASSWORD"}
    }
    assert SECRET not in str(resources)


def loaded(definitions: dg.Definitions, uri: str | None = None) -> Any:
    """What a run gets as the resource `lake`, with `uri` in its configuration where that is given."""
    found = []

    @dg.op
    def look(lake: dg.ResourceParam[Any]) -> None:
        found.append(lake)

    @dg.job(resource_defs={"lake": (definitions.resources or {})["lake"]})
    def looks() -> None:
        look()

    configuration = {"resources": {"lake": {"config": {"uri": uri}}}} if uri else {}
    with dg.DagsterInstance.ephemeral() as instance:
        looks.execute_in_process(configuration, instance)
    return found[0]


@pytest.mark.exhaustive
def test_assets_get_the_working_object_and_every_run_the_same(workspace: Workspace):
    definitions = build_definitions(workspace.settings)
    first, second = loaded(definitions), loaded(definitions, workspace.settings.lake_uri)
    assert first is second
    assert type(first).__name__ == "ParquetLake"


def test_a_run_that_changes_what_the_settings_say_is_refused(workspace: Workspace, tmp_path: Path):
    with pytest.raises(dg.DagsterResourceFunctionError) as fault:
        loaded(build_definitions(workspace.settings), str(tmp_path / "elsewhere"))
    assert isinstance(fault.value.user_exception, SettingsError)
    assert "changes uri of Lake" in str(fault.value.user_exception)
