"""The edges of the graph: the sources that are read, and the tables of the published file with
their checks.
"""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from assets.fetch import fetched_key
from assets.partitions import SourceType
from assets.protocols.search import PublishedTables
from assets.protocols.sources import SourcePartition
from assets.stages.shown import violated
from assets.stages.stage import partitions_def
from transforms.hashing import parts_hash
from transforms.operations import table_checks
from transforms.schemas.registry import REGISTRY, lake_names
from transforms.schemas.table import Table

GROUP = "sources"
DATA_VERSION = "dagster/data_version"


def source_key(source: str) -> dg.AssetKey:
    """Key of the asset of a source."""
    return dg.AssetKey(["source", source])


def partitions_key(source_type: str) -> dg.AssetKey:
    """Key of the asset of all partitions of a source type."""
    return dg.AssetKey(["partitions", source_type])


def source_spec(source: str, kind: str, place: str, *, fetched: bool) -> dg.AssetSpec:
    """The external asset of a source, below the asset that fetches it if there is one."""
    return dg.AssetSpec(
        source_key(source),
        group_name=GROUP,
        kinds={kind},
        deps=[fetched_key(source)] if fetched else [],
        description=f"The source {source}, read from {place}. An observation says that its files changed.",
        metadata={"place": place},
    )


def partitions_spec(source_type: SourceType, sources: Sequence[str]) -> dg.AssetSpec:
    """The external asset of the partitions of a source type, below its sources.

    All readers of a partition are below this one asset: a source that comes or goes makes nothing
    of others stale.
    """
    return dg.AssetSpec(
        partitions_key(source_type.name),
        group_name=GROUP,
        kinds={"file"},
        partitions_def=partitions_def(source_type),
        deps=[source_key(source) for source in sources],
        description=f"The files of all sources of {source_type.name}, by partition. An observation says that those of a "
        "partition changed; its data version is their fingerprint.",
    )


def changed_sources(
    instance: dg.DagsterInstance, partitions: Sequence[SourcePartition]
) -> dict[str, list[str]]:
    """Report an observation of each of `partitions` with another fingerprint than last time, and of
    their sources.

    The data version of a source is a hash of the fingerprints of its partitions. Returns the keys
    of the partitions that changed, by source.
    """
    changes: dict[str, list[str]] = {}
    smaller: set[str] = set()
    for source_type in sorted({partition.source_type for partition in partitions}):
        key = partitions_key(source_type)
        tags = instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_OBSERVATION, [DATA_VERSION]
        )
        own = {p.key: p for p in partitions if p.source_type == source_type}
        for partition in own.values():
            if tags.get(partition.key, {}).get(DATA_VERSION) != partition.fingerprint:
                _observe(instance, key, partition.fingerprint, partition.key)
                changes.setdefault(partition.source, []).append(partition.key)
        smaller |= {name.partition("/")[0] for name in tags.keys() - own.keys()}
    for source in (changes.keys() | smaller) & {partition.source for partition in partitions}:
        version = parts_hash(
            text for p in partitions if p.source == source for text in (p.key, p.fingerprint)
        )
        last = instance.fetch_observations(source_key(source), limit=1).records
        if not last or (last[0].event_log_entry.tags or {}).get(DATA_VERSION) != version:
            _observe(instance, source_key(source), version)
    return changes


def _observe(
    instance: dg.DagsterInstance, key: dg.AssetKey, version: str, partition: str | None = None
) -> None:
    observation = dg.AssetObservation(key, partition=partition, tags={DATA_VERSION: version})
    instance.report_runless_asset_event(observation)


PUBLISHED_GROUP = "published"
_EXAMPLES = 5

Columns = Mapping[str, str]
"""The columns of a table with their meaning."""


def published_key(table: str) -> dg.AssetKey:
    """Key of the asset of a table of the published file."""
    return dg.AssetKey([PUBLISHED_GROUP, table])


def published_spec(table: str, comment: str, columns: Columns) -> dg.AssetSpec:
    """The external asset of a table of the published file, below the asset that publishes."""
    lineage = {
        column: [dg.TableColumnDep(dg.AssetKey(name), column) for name in there]
        for column in columns
        if (there := [name for name in lake_names(table) if column in REGISTRY[name].schema.names])
    }
    schema = dg.TableSchema(
        [dg.TableColumn(name, description=text) for name, text in columns.items()]
    )
    return dg.AssetSpec(
        published_key(table),
        group_name=PUBLISHED_GROUP,
        kinds={"duckdb"},
        deps=["search_index"],
        description=f"{comment}\n\nA table of the file that `search_index` publishes.",
        metadata={
            "dagster/column_schema": schema,
            **({"dagster/column_lineage": dg.TableColumnLineage(lineage)} if lineage else {}),
        },
    )


def published_checks(
    tables: Mapping[str, Columns], schemas: Mapping[str, Table]
) -> dg.AssetChecksDefinition:
    """The checks on the tables of the published file; no build runs them, and they block nothing.

    `schemas` are those of tables that an extra declares.
    """
    rules = [
        (table, rule)
        for table in tables
        for rule in table_checks.rules_of(table, schemas.get(table))
    ]

    @dg.multi_asset_check(
        name="check_published",
        specs=[
            dg.AssetCheckSpec(
                rule, asset=published_key(table), description=table_checks.RULES[rule]
            )
            for table, rule in rules
        ],
        can_subset=True,
    )
    def check(
        context: dg.AssetCheckExecutionContext, published_tables: dg.ResourceParam[PublishedTables]
    ) -> Iterator[dg.AssetCheckResult]:
        with published_tables.open() as file:
            for key in sorted(context.selected_asset_check_keys, key=str):
                table = key.asset_key.path[-1]
                if key.name == table_checks.DECLARED:
                    examples = sorted(set(tables[table]) ^ set(file[table].columns))
                    count = len(examples)
                else:
                    rows = table_checks.violations(key.name, table, file, schemas.get(table))
                    count = rows.count().to_pyarrow().as_py()
                    examples = (
                        rows.limit(_EXAMPLES).to_pyarrow().column("id").to_pylist() if count else []
                    )
                yield violated(key, count, examples[:_EXAMPLES])

    return check
