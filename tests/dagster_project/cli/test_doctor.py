"""What `weft doctor` finds, and what it says to do."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from dagster_project.cli.doctor import documents_without_headings, examination
from dagster_project.cli.main import main
from dagster_project.orchestration.outcomes import Finding
from dagster_project.system.locks import RUNS, living_run
from tests.archives import Mail, Workspace, flip


def found(work: Workspace) -> dict[str, Finding]:
    """The worst finding of each area."""
    order = {"ok": 0, "warning": 1, "fault": 2}
    ranked = sorted(examination(work.settings), key=lambda f: order[f.state])
    return {f.area: f for f in ranked}


@pytest.mark.exhaustive
def test_a_built_workspace_is_well(built_once: Workspace):
    told = found(built_once)
    areas = {
        "versions",
        "model",
        "extensions",
        "settings",
        "permissions",
        "sources",
        "lake",
        "index",
        "cache",
        "history",
    }
    assert areas <= set(told)
    assert told["model"].found == "vectors are of weft-1-256"
    assert {area: f.found for area, f in told.items() if f.state == "fault"} == {}


def _lake_file(work: Workspace) -> Path:
    return next((work.settings.root / "lake" / "messages").rglob("*.parquet"))


def _truncated_lake_file(work: Workspace) -> None:
    file = _lake_file(work)
    file.write_bytes(file.read_bytes()[:-20])


def _damaged_index(work: Workspace) -> None:
    (work.index / "CURRENT").resolve().write_bytes(bytes(4096))


def _index_with_fewer_rows(work: Workspace) -> None:
    with duckdb.connect(str((work.index / "CURRENT").resolve())) as connection:
        connection.execute(
            "DELETE FROM links WHERE true; DELETE FROM exclusions; DELETE FROM blocks"
        )


def _damaged_vectors(work: Workspace) -> None:
    file = next((work.settings.root / "cache" / "embeddings").rglob("vectors.sqlite"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE answers SET answer = zeroblob(8) WHERE rowid = 1")


def _no_sources(work: Workspace) -> None:
    for path in (work.folder / "mail" / "users").iterdir():
        path.unlink()


WRONG: dict[str, tuple[Callable[[Workspace], object], str, str, str]] = {
    "truncated file": (_truncated_lake_file, "lake", "fault", "weft build"),
    "flipped bit": (lambda work: flip(_lake_file(work)), "lake", "fault", "weft build --verify"),
    "damaged index": (_damaged_index, "index", "fault", "delete"),
    "index with fewer rows": (_index_with_fewer_rows, "index", "fault", "blocks"),
    "damaged vectors": (_damaged_vectors, "cache", "fault", "weft cache verify --discard"),
    "no index": (lambda work: (work.index / "CURRENT").unlink(), "index", "warning", "weft build"),
    "new mail": (
        lambda w: w.write("dev/dev.2004-09.mbox", [Mail(800)]),
        "sources",
        "warning",
        "dev/2004-09",
    ),
    "no sources": (_no_sources, "sources", "fault", "source users"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found_and_comes_with_a_remedy(built: Workspace, case: str):
    damage, area, state, words = WRONG[case]
    damage(built)
    finding = found(built)[area]
    assert finding.state == state
    assert words in f"{finding.found} {finding.remedy}"
    assert finding.remedy


def test_an_index_that_another_program_writes_to_is_not_to_be_deleted(built: Workspace):
    writer = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", writer, str((built.index / "CURRENT").resolve())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout and other.stdout.readline() == "open\n"
        finding = found(built)["index"]
        other.kill()
    assert finding.state == "fault" and "lock" in finding.found
    assert "delete" not in finding.remedy
    assert found(built)["index"].state == "ok"


@pytest.mark.parametrize(
    ("is_alive", "state", "words"),
    [
        (True, "ok", "run some-run is going on"),
        (False, "warning", "was ended before it was done weft build"),
    ],
)
def test_what_goes_on_or_was_killed_is_told(
    built: Workspace, is_alive: bool, state: str, words: str
):
    root = built.settings.root
    (root / RUNS).mkdir(exist_ok=True)
    (root / RUNS / "some-run").touch()
    with living_run(root, "some-run") if is_alive else nullcontext():
        told = found(built)["work"]
    assert told.state == state and words in f"{told.found} {told.remedy}"


def test_the_command_exits_with_a_failed_check_and_speaks_json(built: Workspace):
    run = ["doctor", "--json", "--config", str(built.config)]
    well = CliRunner().invoke(main, run)
    assert well.exit_code == 0, well.output
    _damaged_index(built)
    ill = CliRunner().invoke(main, run)
    assert ill.exit_code == 7
    told = json.loads(ill.stdout.splitlines()[0])
    assert {"area", "state", "found", "remedy"} == set(told[0])
    shown = built.weft("doctor")
    assert "cannot be read" in shown.stdout


def test_documents_without_headings_that_are_cut_by_headings_are_a_warning():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE chunks AS FROM (VALUES ('a', 'semantic_section'), ('b', 'semantic_section'), ('c', 'section')) "
        "t(doc_id, chunk_kind)"
    )
    connection.execute("CREATE TABLE nodes AS FROM (VALUES ('a'), ('b'), ('b'), ('c')) t(doc_id)")
    (found,) = documents_without_headings(connection)
    assert (
        found.state == "warning"
        and found.found.startswith("1 documents")
        and "sections" in found.remedy
    )
    connection.execute("DELETE FROM chunks WHERE doc_id = 'a'")
    assert list(documents_without_headings(connection)) == []
