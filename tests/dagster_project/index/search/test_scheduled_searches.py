"""The job `search` keeps what its configuration asks for, search by search."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from dagster_project.definitions import build_definitions
from dagster_project.orchestration.names import SEARCH
from tests.archives import Workspace
from transforms.schemas.search import SEARCH_RESULTS


def run(work: Workspace, **config: Any) -> dg.ExecuteInProcessResult:
    job = build_definitions(work.settings).resolve_job_def(SEARCH)
    with work.instance() as instance:
        return job.execute_in_process(
            {"ops": {"search_results": {"config": config}}}, instance=instance
        )


def stored(work: Workspace) -> list[dict[str, Any]]:
    table = work.lake.stored("search_results", SEARCH_RESULTS.names)
    assert isinstance(table, pa.Table)
    return table.to_pylist()


def test_answers_are_kept_per_search_and_replaced_by_its_next_run(built: Workspace):
    first = run(built, name="a", queries=["compactor load", "xyzzy"], limit=3)
    run(built, name="b", queries=["garbage collector"], limit=2, list="users")
    again = run(built, name="a", queries=["write-ahead log"], limit=1)
    rows = stored(built)
    assert [(r["search"], r["query"], r["rank"]) for r in rows] == [
        ("a", "write-ahead log", 1),
        ("b", "garbage collector", 1),
        ("b", "garbage collector", 2),
    ]
    assert rows[0]["run_id"] == again.run_id != first.run_id
    assert rows[0]["searched_at"] is not None and rows[0]["citation"].startswith(rows[0]["doc_id"])
    assert {r["index_version"] for r in rows} == set(
        built.column("SELECT value FROM manifest WHERE key = 'version'")
    )


def test_metadata_show_the_hits(built: Workspace):
    (event,) = run(built, queries=["compactor load"], limit=3).get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert metadata["hits"].value == 3
    assert [r.data["rank"] for r in metadata["preview"].value.records] == [1, 2, 3]


def test_a_search_that_finds_nothing_is_a_table_without_rows(built: Workspace):
    run(built, name="none", queries=["compactor"], since="2099-01-01")
    assert stored(built) == []


@pytest.mark.exhaustive
def test_a_scheduled_search_takes_the_options_of_the_command(built: Workspace):
    run(built, name="far", queries=["xyzzy"], limit=3)
    assert stored(built) == []
    run(
        built,
        name="far",
        queries=["xyzzy"],
        limit=3,
        weak=True,
        profile="vector",
        expand=["parent"],
    )
    assert [r["rank"] for r in stored(built)] == [1, 2, 3]


def test_an_unknown_list_fails_the_run(built: Workspace):
    with pytest.raises(Exception, match="no mailing list is called 'nowhere'"):
        run(built, queries=["compactor"], list="nowhere")
