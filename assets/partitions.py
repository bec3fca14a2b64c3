"""The source types with their partitions and tables, and what Dagster shows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from transforms.schemas.registry import tables_of
from transforms.schemas.table import Table


@dataclass(frozen=True)
class SourceType:
    """What one kind of source becomes: its name, its partitions, and its partitioned tables in order.

    Every partition has the first table, by which the lake lists its partitions. If `compared` names tables, only a
    change of these makes a partition stale: they change with all that is read of others. `pool` limits concurrent runs.
    """

    name: str
    partitions: dg.DynamicPartitionsDefinition
    tables: tuple[str, ...]
    compared: tuple[str, ...] | None = None
    pool: str | None = None

    def compared_inputs(self, inputs: Iterable[str]) -> list[str]:
        """Those of a stage's inputs whose content decides whether its outputs are up to date."""
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
SLOW_POOL = "slow"
SLOW = SourceType(
    "slow",
    MAIL.partitions,
    tables_of("slow"),
    compared=("slow_queue", "slow_chunks"),
    pool=SLOW_POOL,
)
"""The tables that the slow queue makes of those mail partitions whose `slow_queue` has rows, after publishing."""
SLOW_PARTS = {
    "message_chunks": "slow_chunks",
    "message_exclusions": "slow_exclusions",
    "message_terms": "slow_terms",
}
"""Tables of mail of which the slow queue makes a part, and the table that stores this part."""
GRAPH = SourceType(
    "graph",
    DOCUMENTS.partitions,
    tables_of("graph"),
)
"""The tables of the document graph by partition, made after vectors and keywords if the graph is enabled."""
IN_PARTS = frozenset(
    {
        *("embeddings", "threads", "thread_tree", "inferred_quotes", "compared_replies"),
        *("chunk_context", "context_terms"),
    }
)
"""Tables over the whole lake that are stored in parts, so that an hour's new rows rewrite only a few of them."""
WHOLE_PART = "_/whole"
"""The only part of such a table that is made as a whole."""
CONTEXT = SourceType(
    "context",
    CONVERSATIONS.partitions,
    tables_of("context"),
    compared=(
        "conversation_query_chunks",
        "conversation_candidates",
        "conversation_documents",
        "search_index",
    ),
)
"""The tables of what each window of a conversation finds in the published index, which does not contain them."""
BACKFILL = dg.BackfillPolicy.multi_run(max_partitions_per_run=32)


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
