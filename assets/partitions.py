"""The source types of partitions, what Dagster shows of a table, and how a partitioned asset goes through its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.protocols.lake import Lake, Partitions, Progress, Staged
from transforms.schemas.registry import tables_of
from transforms.schemas.table import Table


@dataclass(frozen=True)
class SourceType:
    """What one kind of source becomes: its name, its partitions, and its partitioned tables in order.

    The first table is there for every partition; by it the lake's partitions are listed. Where `compared` names tables,
    only a change of these makes a partition stale: they tell of all that is read of others.
    """

    name: str
    partitions: dg.DynamicPartitionsDefinition
    tables: tuple[str, ...]
    compared: tuple[str, ...] | None = None

    def made_from(self, inputs: Iterable[str]) -> list[str]:
        """Those of a stage's inputs whose content says whether what it made is still right."""
        return [table for table in inputs if self.compared is None or table in self.compared]


MAIL = SourceType(
    "mail",
    dg.DynamicPartitionsDefinition(name="mail"),
    tables_of("mail"),
)
DOCUMENTS = SourceType(
    "documents",
    dg.DynamicPartitionsDefinition(name="documents"),
    tables_of("documents"),
)
CONVERSATIONS = SourceType(
    "conversations",
    dg.DynamicPartitionsDefinition(name="conversations"),
    tables_of("conversations"),
)
SOURCE_TYPES = (MAIL, DOCUMENTS, CONVERSATIONS)
CHUNKS_OF = {
    MAIL.name: "message_chunks",
    DOCUMENTS.name: "document_chunks",
    CONVERSATIONS.name: "conversation_chunks",
}
"""The table of each source type whose texts are published and embedded."""
SLOW = SourceType(
    "slow",
    MAIL.partitions,
    tables_of("slow"),
    compared=("slow_queue", "slow_chunks"),
)
"""What the slow lane makes of the partitions of mail whose `slow_queue` has rows; it is made after publishing."""
SLOW_POOL = "slow"
SLOW_PARTS = {
    "message_chunks": "slow_chunks",
    "message_exclusions": "slow_exclusions",
    "message_terms": "slow_terms",
}
"""Tables of mail of which a part is made by the slow lane, and where that part is."""
GRAPH = SourceType(
    "graph",
    DOCUMENTS.partitions,
    tables_of("graph"),
)
"""What the graph makes of each partition of documents, when vectors and keywords are there; only where it is enabled."""
IN_PARTS = frozenset({"embeddings"})
"""Tables over the whole lake that are stored in parts, of which an hour's new rows leave most as they are."""
CONTEXT_TABLES = ("conversation_candidates", "conversation_documents", "conversation_context")
"""What is found for conversations in the published index; made after it, and no part of it."""
BACKFILL = dg.BackfillPolicy.multi_run(max_partitions_per_run=64)


def table_metadata(table: Table) -> dict[str, object]:
    """The declared columns as Dagster shows them in an asset's overview."""
    columns = [
        dg.TableColumn(
            c.name,
            str(c.type),
            c.comment,
            constraints=dg.TableColumnConstraints(nullable=c.nullable, unique=table.key == (c.name,)),
        )
        for c in table.columns
    ]
    return {"dagster/column_schema": dg.TableSchema(columns), "key": ", ".join(table.key)}


def described(table: Table, version: str, *kinds: str) -> dict[str, Any]:
    """Arguments of `dg.asset` or `dg.AssetOut` for what makes a table of the lake by the code `version`."""
    return {
        "description": table.comment,
        "code_version": version,
        "metadata": table_metadata(table),
        "kinds": {"parquet", *kinds},
    }


def outs(tables: Mapping[str, Table], version: str, *kinds: str) -> dict[str, dg.AssetOut]:
    """The outputs of a multi-asset that makes several tables of the lake."""
    return {name: dg.AssetOut(**described(table, version, *kinds)) for name, table in tables.items()}


def stage_partitions(
    context: dg.AssetExecutionContext,
    lake: Lake,
    progress: Progress,
    outputs: Sequence[str],
    inputs: Sequence[Partitions],
    make: Callable[..., Sequence[pa.Table]],
    *,
    fingerprints: Mapping[str, Callable[..., str]] | None = None,
    compared: str | None = None,
    noted: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> list[dict[str, Staged]]:
    """For each of `outputs`, the staged partitions of this run by key.

    `make(partition, *tables)` gets the partition's input tables and returns one table per output.
    What a partition was made from (the inputs' content hashes, and of what has no partitions its
    fingerprint, a function of the same arguments) is written into its files, so that a later run
    can tell whether it is still right; with `noted`, only the hashes of these inputs. With `columns`, these
    alone of the inputs are read. The metadata of
    the output `compared` says how many of its ids came, stayed and went. One partition is in
    memory at a time.
    """
    staged: list[dict[str, Staged]] = [{} for _ in outputs]
    versions = {k.path[-1]: v or "" for k, v in context.assets_def.code_versions_by_key.items()}
    keys = context.partition_keys

    def stage(partition: str) -> int:
        """Make the tables of one partition; returns the rows of the first. What it held goes with it."""
        loaded = [p.read(partition, columns) for p in inputs]
        given = [part.table for part in loaded]
        hashes = {p.table: part.content_hash for p, part in zip(inputs, loaded, strict=True)}
        made_from = {table: hashes[table] for table in (hashes if noted is None else noted)}
        tables = make(partition, *given)
        # After making: a file that changed while it was read gives its partition another fingerprint.
        made_from |= {name: of(partition, *given) for name, of in (fingerprints or {}).items()}
        for name, data, parts in zip(outputs, tables, staged, strict=True):
            facts = _ids_compared(lake, name, partition, data) if name == compared else {}
            parts[partition] = lake.stage(
                name, partition, data, code_version=versions[name], inputs=made_from
            )
            _record(context, name, partition, parts[partition], facts, alone=len(keys) == 1)
        return tables[0].num_rows

    for partition in keys:
        progress.step(outputs[0], partition, stage(partition))
        pa.default_memory_pool().release_unused()
    return staged


def _ids_compared(lake: Lake, table: str, partition: str, data: pa.Table) -> dict[str, int]:
    """How many ids of a partition's table are new, were there before, and are gone."""
    before, now = lake.ids(table, partition), set(data.column(0).to_pylist())
    return {"added": len(now - before), "kept": len(now & before), "removed": len(before - now)}


def _record(
    context: dg.AssetExecutionContext,
    name: str,
    partition: str,
    part: Staged,
    facts: Mapping[str, int],
    *,
    alone: bool,
) -> None:
    context.add_asset_metadata(
        {"dagster/row_count": part.row_count, "content_hash": part.content_hash, **facts},
        asset_key=name,
        partition_key=partition,
    )
    if alone:
        context.set_data_version(dg.AssetKey(name), dg.DataVersion(part.content_hash))
