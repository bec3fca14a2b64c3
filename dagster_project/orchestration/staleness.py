"""The rows of the ledger that the plan is a query over: what is to be in the lake, and what is
there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import duckdb

from assets.partitions import CONTEXT, CONVERSATIONS, IN_PARTS, SOURCE_TYPES
from assets.protocols.sources import SourcePartition
from assets.stages.stage import LAKE, lake_state
from dagster_project.composition.objects import make_publisher
from dagster_project.config.settings import Settings
from dagster_project.index.publish.versions import version_of
from dagster_project.lake.forgotten import Forgotten
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.recorded_footers import row_of
from dagster_project.ledger.ledger import PlanStep, Row, steps_of
from dagster_project.orchestration.asset_graph import make_assets, partition_stages
from transforms.conversations.windows import windows_behind

_Rows = dict[Row, Row]


def steps(
    settings: Settings,
    partitions: Sequence[SourcePartition],
    state: str,
    forgets: Collection[str],
    lake: ParquetLake,
) -> list[PlanStep]:
    """The steps of a build, one for each table that is not as it is to be, in order.

    The `kind` of a step is a source type, `context`, or `lake` for tables over the whole lake,
    whose state is `state`. The partitions `forgets` hold texts to forget.
    """
    windows = [u.key for u in partitions if u.source_type == CONVERSATIONS.name]
    asking, citing = _asking(settings, windows, lake)
    kinds = {u.key: u.source_type for u in partitions}
    rows: dict[str, _Rows] = {
        **_declared(settings, lake),
        "partitions": {
            **{(u.source_type, u.key): (u.fingerprint,) for u in partitions},
            **{(CONTEXT.name, window): (version,) for window, version in asking.items()},
            (LAKE, ""): (state,),
        },
        "forgets": {
            **{(kinds[key], key): () for key in forgets if key in kinds},
            **{(CONTEXT.name, window): () for window in citing},
        },
    }
    for table, own in rows.items():
        lake.ledger.change(table, lake.ledger.rows(table), own)
    return steps_of({**rows, "outputs": dict(_outputs(rows, lake))})


def whole_tables(settings: Settings, lake: ParquetLake) -> dict[str, str]:
    """The code version of every table without partitions, by its name."""
    return {
        key.path[-1]: version or ""
        for definition in make_assets(settings)
        if definition.partitions_def is None
        for key, version in definition.code_versions_by_key.items()
        if key.path[-1] in lake.tables
    }


def state_of(partitions: Iterable[SourcePartition], lake: ParquetLake) -> str:
    """The hash of the tables of `partitions` in the lake."""
    of_type: dict[str, list[str]] = {}
    for partition in partitions:
        of_type.setdefault(partition.source_type, []).append(partition.key)
    return lake_state(lake, of_type)


def _declared(settings: Settings, lake: ParquetLake) -> dict[str, _Rows]:
    """The rows of `stages` and `reads`."""
    stages: _Rows = {}
    reads: _Rows = {}
    for position, stage in enumerate(partition_stages(settings)):
        assert stage.source_type
        for table in stage.tables:
            own = position, stage.name, *_code_and_settings(stage.declared_version)
            stages[stage.source_type.name, table] = own
            inputs = stage.compared_inputs() or ["partition"]
            reads |= {(table, name): (int(name in lake.tables),) for name in inputs}
    for position, (table, version) in enumerate(whole_tables(settings, lake).items()):
        stages[LAKE, table] = (position, table, *_code_and_settings(version))
        if table not in IN_PARTS:
            reads[table, LAKE] = (0,)
    return {"stages": stages, "reads": reads}


def _code_and_settings(version: str) -> tuple[str, str]:
    """The parts of a code version: that of the code, then hashes of settings."""
    code, _, settings = version.partition("-")
    return code, settings


def _outputs(rows: Mapping[str, _Rows], lake: ParquetLake) -> Iterator[tuple[Row, Row]]:
    """The rows of `outputs` of the tables that are to be there, and of partitions that left the
    sources.
    """
    tables: dict[object, list[str]] = {}
    for kind, table in rows["stages"]:
        tables.setdefault(kind, []).append(str(table))
    desired = ((table, part) for kind, part in rows["partitions"] for table in tables[kind])
    first = [kind.tables[0] for kind in SOURCE_TYPES]
    stored = ((table, part) for table in first for part in lake.partitions(table))
    for place in dict.fromkeys(chain(desired, stored)):
        table, part = place[0], str(place[1]) or None
        if footer := lake.footer(table, part):
            yield place, ("", *row_of(footer))
        elif lake.is_stored(table, part):
            code = lake.code_version(table, part)
            known = _code_and_settings(code) if code else (None, None)
            yield place, ("", "", *known, "{}", None, 0, 0)


def _asking(
    settings: Settings, windows: Iterable[str], lake: ParquetLake
) -> tuple[dict[str, str], list[str]]:
    """By window of a conversation the version of the index that its context is to ask, and the
    windows whose context cites what is no longer published, while texts are to be forgotten.

    The last window of each conversation, which more messages may follow, asks each published
    version; the others stay with their first context.
    """
    current = make_publisher(settings, lake).current()
    if current is None:
        return {}, []
    ids = None
    if Forgotten(lake.base).unfinished:
        with duckdb.connect(str(current), read_only=True) as connection:
            ids = {row[0] for row in connection.execute("SELECT chunk_id FROM chunks").fetchall()}
    windows = list(windows)
    behind = windows_behind(windows)
    asking: dict[str, str] = {}
    citing = []
    for window in windows:
        queries, context = (
            lake.footer(t, window) for t in ("conversation_query_chunks", CONTEXT.tables[0])
        )
        if queries is None:
            continue
        stays = context and not (behind[window] == 0 and queries.row_count)
        asking[window] = (
            context.inputs.get("search_index", "") if context and stays else version_of(current)
        )
        if ids is not None and context:
            cited = lake.stored(CONTEXT.tables[0], ["chunk_id"], window)
            if cited and set(cited.column("chunk_id").to_pylist()) - ids:
                citing.append(window)
    return asking, citing
