"""What crosses partitions: memberships, threads and the context of short replies, over the whole lake."""

from typing import Any

import dagster as dg
import ibis
import pyarrow as pa

from assets.partitions import table_metadata
from transforms import context as context_transforms
from transforms import families as families_transforms
from transforms import schemas, terms, threads
from transforms.settings import ChunkSettings, FamilySettings, TermSettings, ThreadSettings


def memberships_asset() -> dg.AssetsDefinition:
    """The asset `memberships`."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "ibis"},
        code_version=threads.VERSION,
        description=schemas.MEMBERSHIPS.comment,
        metadata=table_metadata(schemas.MEMBERSHIPS),
    )
    def memberships(messages: ibis.Table) -> ibis.Table:
        return threads.memberships(messages)

    return memberships


def threads_asset(settings: ThreadSettings) -> dg.AssetsDefinition:
    """The multi-asset `threads`, `thread_tree`."""
    tables = {"threads": schemas.THREADS, "thread_tree": schemas.THREAD_TREE}

    @dg.multi_asset(
        name="build_threads",
        group_name="relations",
        outs={
            name: dg.AssetOut(
                description=table.comment,
                code_version=f"{threads.VERSION}-{settings.digest()}",
                metadata=table_metadata(table),
                kinds={"parquet"},
            )
            for name, table in tables.items()
        },
    )
    def build_threads(messages: ibis.Table, memberships: ibis.Table) -> tuple[Any, Any]:
        columns = [
            "source",
            "unit",
            "message_id",
            "in_reply_to",
            "refs",
            "subject",
            "from_addr",
            "effective_at",
        ]
        mails = threads.canonical(messages.select(columns), memberships)
        lists = memberships.select("message_id", "list_id")
        return threads.build_threads(mails.to_pyarrow(), lists.to_pyarrow(), settings)

    return build_threads


def families_asset(settings: FamilySettings) -> dg.AssetsDefinition:
    """The asset `families`."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "polars"},
        code_version=f"{families_transforms.VERSION}-{settings.digest()}",
        description=schemas.FAMILIES.comment,
        metadata=table_metadata(schemas.FAMILIES),
    )
    def families(
        messages: ibis.Table, memberships: ibis.Table, thread_tree: ibis.Table, message_links: ibis.Table
    ) -> pa.Table:
        columns = ["source", "unit", "message_id", "subject", "from_addr", "from_name", "effective_at"]
        mails = threads.canonical(messages.select(columns), memberships)
        return families_transforms.families(
            mails.to_pyarrow(), thread_tree.to_pyarrow(), message_links.to_pyarrow(), settings
        )

    return families


def chunk_context_asset(settings: ChunkSettings, term_settings: TermSettings) -> dg.AssetsDefinition:
    """The multi-asset `chunk_context`, `context_terms`."""
    version = f"{context_transforms.VERSION}-{settings.digest()}-{term_settings.digest()}"
    tables = {"chunk_context": schemas.CHUNK_CONTEXT, "context_terms": schemas.TERMS}

    @dg.multi_asset(
        name="build_chunk_context",
        group_name="relations",
        outs={
            name: dg.AssetOut(
                description=table.comment,
                code_version=version,
                metadata=table_metadata(table),
                kinds={"parquet", "ibis"},
            )
            for name, table in tables.items()
        },
    )
    def build_chunk_context(message_chunks: ibis.Table, memberships: ibis.Table) -> tuple[Any, Any]:
        published = threads.canonical(message_chunks, memberships, "doc_id")
        parents = context_transforms.parent_texts(published, settings).to_pyarrow()
        added = context_transforms.chunk_context(parents, settings)
        return added, terms.context_terms(added, term_settings)

    return build_chunk_context
