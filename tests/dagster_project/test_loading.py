"""What Dagster loads from a clone: the sample where nothing is named, one asset that says why where
settings are wrong.

And what a process of Weft does not load.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.definitions import SETTINGS_FAULT, defs
from dagster_project.orchestration.instance import instance_place
from tests.archives import Workspace, lake_hashes
from tests.dagster_project.composition.test_resources import shown

ROOT = Path(__file__).parents[2]
SHIPPED = (
    "transforms",
    "assets",
    "dagster_project",
    "data/sample",
    "workspace.yaml",
    "pyproject.toml",
)
VALIDATE = ("definitions", "validate", "-w", "workspace.yaml")
UNSET = ("WEFT_CONFIG", "DAGSTER_HOME", "PYTHONPATH")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone has that Dagster needs, never built."""
    folder = tmp_path_factory.mktemp("clone")
    for name in SHIPPED:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(
                place, folder / name, ignore=shutil.ignore_patterns("state", "__pycache__")
            )
        else:
            shutil.copy(place, folder / name)
    return folder


def dagster(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Dagster's own command in `folder`, with no variable but those."""
    environment = {k: v for k, v in os.environ.items() if k not in UNSET} | variables
    command = [str(Path(sys.executable).parent / "dagster"), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.exhaustive
def test_a_clone_is_valid_without_any_variable(clone: Path):
    done = dagster(clone, *VALIDATE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All code locations passed validation" in done.stdout
    assert not (clone / "data/sample/state").exists()


@pytest.mark.exhaustive
def test_wrong_settings_are_not_valid_and_the_reason_is_one_line(clone: Path):
    wrong = clone / "wrong.toml"
    wrong.write_text('[[sources]]\nname = "a"\nkind = "mbx"\npath = "."\n')
    done = dagster(clone, *VALIDATE, WEFT_CONFIG=str(wrong))
    assert done.returncode == 1
    assert f"{wrong}:3: source a: sources.0.kind: must be one of" in done.stdout
    assert "pydantic" not in done.stdout


@pytest.mark.exhaustive
def test_where_nothing_is_named_the_sample_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert shown(defs())["lake"] == {"uri": str(ROOT / "data/sample/state/lake")}


@pytest.mark.exhaustive
def test_settings_in_the_folder_go_before_the_sample(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(workspace.folder)
    assert shown(defs())["lake"] == {"uri": workspace.settings.lake_uri}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(None, "no settings file at", id="missing"),
        pytest.param("[[sources]", "is not valid TOML", id="no TOML"),
        pytest.param(
            '[[sources]]\nname = "a"\nkind = "mbx"\npath = "."\n',
            "sources.0.kind: must be one of",
            id="wrong",
        ),
        pytest.param('sources = ["x"]', "weft.toml:1: sources.0", id="no table"),
    ],
)
def test_settings_that_do_not_load_are_one_asset_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, reason: str
):
    file = tmp_path / "weft.toml"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("WEFT_CONFIG", str(file))
    loaded = defs()
    dg.Definitions.validate_loadable(loaded)
    (spec,) = loaded.resolve_all_asset_specs()
    assert spec.key == dg.AssetKey(SETTINGS_FAULT)
    assert str(file) in spec.description and reason in spec.description
    assert "Deployment" in spec.description


MATERIALIZE = "asset materialize -m dagster_project.definitions --select"
JANUARY = "dev/2004-01"
MADE = {
    f"{MATERIALIZE} messages --partition {JANUARY}": f"lake/messages/{JANUARY}.parquet",
    f"{MATERIALIZE} message_blocks --partition {JANUARY}": f"lake/message_blocks/{JANUARY}.parquet",
    f"{MATERIALIZE} thread_tree": "lake/thread_tree.parquet",
    f"{MATERIALIZE} search_index": "index/CURRENT",
    "job execute -m dagster_project.definitions -j whole_lake -o publish_checks": "",
}
"""Commands of Dagster, and the file below the storage that each makes."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", MADE)
def test_each_asset_is_made_alone_by_dagsters_command_and_checks_run_alone(
    built: Workspace, command: str
):
    root, before = built.settings.root, lake_hashes(built)
    if MADE[command]:
        (root / MADE[command]).unlink()
    done = dagster(
        ROOT,
        *command.split(),
        WEFT_CONFIG=str(built.config),
        DAGSTER_HOME=str(instance_place(built.settings)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (root / MADE[command]).exists() and lake_hashes(built) == before
    with built.instance() as instance:
        (run,) = instance.get_runs(limit=1)
        found = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        assert run.is_success and len(found) >= (not MADE[command])
    assert built.plan().is_empty


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("code", "is_there"),
    [
        (
            "pa.array([1]); duckdb.connect().execute('SELECT ?', [1]); import pyarrow.dataset, polars",
            False,
        ),
        (
            "unasked_pandas.let_in(); import pandas; assert pa.table({'a': [1]}).to_pandas().shape == (1, 1)",
            True,
        ),
    ],
    ids=["looked for", "imported"],
)
def test_pandas_is_loaded_by_code_that_lets_it_in_and_not_by_libraries_that_look_for_it(
    code: str, is_there: bool
):
    begin = "from dagster_project.system import unasked_pandas; unasked_pandas.keep_out()"
    end = f"assert ('pandas' in sys.modules) is {is_there}"
    lines = ["import sys, duckdb, pyarrow as pa", begin, code, end]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
