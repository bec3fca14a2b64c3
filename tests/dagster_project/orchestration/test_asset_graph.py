"""What the asset graph says of each table: where its columns come from, which code makes it, under
which settings.
"""

from pathlib import Path

import dagster as dg
import pytest

from assets.sources import partitions_key, source_key
from dagster_project.definitions import build_definitions
from tests.archives import Workspace
from transforms.operations import publish_checks, table_checks

JANUARY = "dev/2004-01"


@pytest.fixture(scope="module")
def specs(built_once: Workspace) -> dict[dg.AssetKey, dg.AssetSpec]:
    return {
        spec.key: spec for spec in build_definitions(built_once.settings).resolve_all_asset_specs()
    }


def columns_of(spec: dg.AssetSpec) -> set[str]:
    return {column.name for column in spec.metadata["dagster/column_schema"].columns}


def test_a_column_comes_from_columns_of_tables_above(specs: dict[dg.AssetKey, dg.AssetSpec]):
    declared = 0
    for spec in specs.values():
        if lineage := spec.metadata.get("dagster/column_lineage"):
            assert set(lineage.deps_by_column) <= columns_of(spec), spec.key
            above = {dep.asset_key for dep in spec.deps}
            for dep in (dep for deps in lineage.deps_by_column.values() for dep in deps):
                assert dep.asset_key in above or spec.key.path[0] == "published", (spec.key, dep)
                if dep.asset_key in specs:
                    assert dep.column_name in columns_of(specs[dep.asset_key]), (spec.key, dep)
                    declared += 1
    assert declared > 200


def test_a_table_links_to_the_function_that_makes_it(specs: dict[dg.AssetKey, dg.AssetSpec]):
    for table, function in {
        "messages": "def read_mail(",
        "message_chunks": "def chunks_in_time(",
        "message_blocks": "def message_blocks(",
        "threads": "def build_threads(",
    }.items():
        (place,) = specs[dg.AssetKey(table)].metadata["dagster/code_references"].code_references
        assert isinstance(place, dg.LocalFileCodeReference) and place.line_number
        assert (
            Path(place.file_path)
            .read_text()
            .splitlines()[place.line_number - 1]
            .startswith(function)
        )


def test_no_two_assets_are_described_alike(specs: dict[dg.AssetKey, dg.AssetSpec]):
    told = [spec.description for spec in specs.values()]
    assert len(set(told)) == len(told)


def test_sources_stand_at_the_left_edge(specs: dict[dg.AssetKey, dg.AssetSpec]):
    sources = {source_key("dev"), source_key("users")}
    mail = partitions_key("mail")
    assert {key for key, spec in specs.items() if spec.group_name == "sources"} == {*sources, mail}
    assert {dep.asset_key for dep in specs[mail].deps} == sources
    assert {dep.asset_key for dep in specs[dg.AssetKey("messages")].deps} == {mail}
    assert dg.AssetKey("documents") not in specs, "no source has documents"


@pytest.mark.exhaustive
def test_a_run_with_other_settings_is_of_another_code_version(built: Workspace):
    config = {"ops": {"chunk_messages": {"config": {"message_chars": 900}}}}
    declared = built.lake.footer("message_chunks", JANUARY)
    with built.instance() as instance:
        build_definitions(
            built.settings
        ).resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            partition_key=JANUARY,
            asset_selection=[dg.AssetKey(t) for t in ("message_chunks", "message_exclusions")],
            run_config=config,
        )
        event = instance.get_latest_materialization_event(dg.AssetKey("message_chunks"))
    other = built.lake.footer("message_chunks", JANUARY)
    assert declared and other and declared.code_version != other.code_version
    assert event and event.asset_materialization and event.asset_materialization.tags
    assert event.asset_materialization.tags["dagster/code_version"] == other.code_version
    assert built.plan().reasons == {JANUARY: "other settings of message_chunks"}
    with_other = built.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
        chunks={"message_chars": 900},
    )
    assert JANUARY not in {
        p for p, tables in with_other.plan().stale.items() if "message_chunks" in tables
    }


def test_each_asset_is_made_and_each_check_runs_alone(built_once: Workspace):
    definitions = build_definitions(built_once.settings)
    graph, job = (
        definitions.resolve_asset_graph(),
        definitions.resolve_implicit_global_asset_job_def(),
    )
    for key in graph.materializable_asset_keys:
        assert job.get_subset(asset_selection={key}).asset_selection == {key}
    for check in graph.asset_check_keys:
        job.get_subset(asset_selection=set(), asset_check_selection={check})


@pytest.mark.exhaustive
def test_each_table_is_checked_alone(built: Workspace):
    definitions = build_definitions(built.settings)
    graph = definitions.resolve_asset_graph()
    keys = [
        dg.AssetCheckKey(dg.AssetKey(["published", table]), rule)
        for table in table_checks.KEYS
        if graph.has(dg.AssetKey(["published", table]))
        for rule in table_checks.rules_of(table)
    ]
    one = dg.AssetCheckKey(dg.AssetKey(["published", "chunks"]), table_checks.UNIQUE)
    of_builds = [*publish_checks.PUBLISH_RULES, "unchanged_texts_are_reused", "no_text_is_refused"]
    for asset, rules in (("embeddings", of_builds), ("readiness", ["the_slow_lane_keeps_up"])):
        keys += [dg.AssetCheckKey(dg.AssetKey(asset), rule) for rule in rules]
    found = [checked(definitions, built, keys), checked(definitions, built, [one])]
    assert set(found[0]) == set(keys) and all(found[0].values())
    assert found[1] == {one: True}


def checked(
    definitions: dg.Definitions, work: Workspace, keys: list[dg.AssetCheckKey]
) -> dict[dg.AssetCheckKey, bool]:
    """Whether each check passes, run by itself."""
    job = dg.define_asset_job("check", selection=dg.AssetSelection.checks(*keys))
    merged = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
    with work.instance() as instance:
        result = merged.resolve_job_def("check").execute_in_process(instance=instance)
    return {c.asset_check_key: c.passed for c in result.get_asset_check_evaluations()}
