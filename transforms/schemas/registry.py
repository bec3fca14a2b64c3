"""The one list of the lake's tables: schema, source type, partitions, and where it is published."""

from __future__ import annotations

from dataclasses import dataclass

from transforms.schemas.chunks import (
    CHUNK_CONTEXT,
    CHUNKS,
    EMBEDDING_REFUSALS,
    EXCLUSIONS,
    SLOW_QUEUE,
    TERMS,
    embeddings_table,
)
from transforms.schemas.conversations import (
    CONVERSATION_CANDIDATES,
    CONVERSATION_CONTEXT,
    CONVERSATION_DOCUMENTS,
    CONVERSATION_MESSAGES,
    CONVERSATION_QUERY_CHUNKS,
    CONVERSATION_WINDOWS,
)
from transforms.schemas.documents import DOCUMENT_NODES, DOCUMENT_REFERENCES, DOCUMENTS
from transforms.schemas.evaluation import EVALUATION_QUERIES, EVALUATION_RELEVANCE, EVALUATION_RUNS
from transforms.schemas.graph import (
    CHUNK_CLASSES,
    CHUNK_KEYWORDS,
    CHUNK_SIMILARITIES,
    DOCUMENT_GRAPH,
    KEYWORDS,
    PROMPT_HASHES,
    STRIPE_ORDERS,
)
from transforms.schemas.mail import ATTACHMENTS, MESSAGE_BLOCKS, MESSAGE_REFERENCES, MESSAGES
from transforms.schemas.operations import CORPUS_MEASURES, QUARANTINE, READINESS
from transforms.schemas.relations import (
    COMPARED_REPLIES,
    INFERRED_QUOTES,
    LINKS,
    MEMBERSHIPS,
    PATCH_SERIES,
    THREAD_TREE,
    THREADS,
)
from transforms.schemas.search import SEARCH_RESULTS
from transforms.schemas.table import Table

ANY_DIMENSIONS = 1
"""Of the vectors in a registry that is used for names alone."""


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake.

    `partitions` names whose partitions it has: a source type, or what adds to those of one (`slow`, `graph`); None
    for a table over the whole lake. `published` is the table of the published file that shows its rows, None if
    there is none; `is_input` says that a publish reads it.
    """

    schema: Table
    partitions: str | None = None
    published: str | None = None
    is_input: bool = False


def lake_registry(dimensions: int = ANY_DIMENSIONS) -> dict[str, LakeTable]:
    """Every table of the lake by name, those of partitions in the order of the stages."""
    return {
        **_partitioned(
            "mail",
            messages=(MESSAGES, "messages"),
            attachments=(ATTACHMENTS, "attachments"),
            quarantine=(QUARANTINE, "quarantine"),
            message_blocks=(MESSAGE_BLOCKS, "blocks"),
            message_chunks=(CHUNKS, "chunks"),
            message_exclusions=(EXCLUSIONS, "exclusions"),
            slow_queue=(SLOW_QUEUE, None),
            message_terms=(TERMS, None),
            message_references=(MESSAGE_REFERENCES, None),
        ),
        **_partitioned(
            "slow", slow_chunks=(CHUNKS, None), slow_exclusions=(EXCLUSIONS, None), slow_terms=(TERMS, None)
        ),
        **_partitioned(
            "documents",
            documents=(DOCUMENTS, "documents"),
            document_quarantine=(QUARANTINE, "quarantine"),
            document_nodes=(DOCUMENT_NODES, "nodes"),
            document_references=(DOCUMENT_REFERENCES, None),
            document_chunks=(CHUNKS, "chunks"),
            document_exclusions=(EXCLUSIONS, "exclusions"),
            document_terms=(TERMS, None),
        ),
        **_partitioned(
            "conversations",
            conversations=(CONVERSATION_MESSAGES, "conversations"),
            conversation_quarantine=(QUARANTINE, "quarantine"),
            conversation_markdown=(CONVERSATION_WINDOWS, "conversation_windows"),
            conversation_query_chunks=(CONVERSATION_QUERY_CHUNKS, None),
            conversation_chunks=(CHUNKS, "chunks"),
            conversation_exclusions=(EXCLUSIONS, "exclusions"),
            conversation_terms=(TERMS, None),
        ),
        **_partitioned(
            "graph",
            chunk_classes=(CHUNK_CLASSES, "chunk_classes"),
            chunk_similarities=(CHUNK_SIMILARITIES, "chunk_similarities"),
            stripe_orders=(STRIPE_ORDERS, "stripe_orders"),
            chunk_keywords=(CHUNK_KEYWORDS, "chunk_keywords"),
        ),
        **_lake_wide(dimensions),
    }


def _partitioned(partitions: str, **tables: tuple[Table, str | None]) -> dict[str, LakeTable]:
    return {
        name: LakeTable(schema, partitions, published, is_input=True)
        for name, (schema, published) in tables.items()
    }


def _lake_wide(dimensions: int) -> dict[str, LakeTable]:
    """The tables over the whole lake."""
    inputs: dict[str, tuple[Table, str | None]] = {
        "memberships": (MEMBERSHIPS, "memberships"),
        "threads": (THREADS, "threads"),
        "thread_tree": (THREAD_TREE, "thread_tree"),
        "patch_series": (PATCH_SERIES, "patch_series"),
        "inferred_quotes": (INFERRED_QUOTES, "inferred_quotes"),
        "message_links": (LINKS, "links"),
        "document_links": (LINKS, "links"),
        "chunk_context": (CHUNK_CONTEXT, "chunk_context"),
        "context_terms": (TERMS, None),
        "corpus_measures": (CORPUS_MEASURES, "corpus_measures"),
        "embeddings": (embeddings_table(dimensions), None),
        "embedding_refusals": (EMBEDDING_REFUSALS, None),
        "keywords": (KEYWORDS, "keywords"),
        "prompt_hashes": (PROMPT_HASHES, "prompt_hashes"),
    }
    other_tables: dict[str, tuple[Table, str | None]] = {
        "compared_replies": (COMPARED_REPLIES, None),
        "readiness": (READINESS, "readiness"),
        "document_graph": (DOCUMENT_GRAPH, None),
        "conversation_candidates": (CONVERSATION_CANDIDATES, None),
        "conversation_documents": (CONVERSATION_DOCUMENTS, None),
        "conversation_context": (CONVERSATION_CONTEXT, None),
        "evaluation_queries": (EVALUATION_QUERIES, None),
        "evaluation_relevance": (EVALUATION_RELEVANCE, None),
        "evaluation_runs": (EVALUATION_RUNS, None),
        "search_results": (SEARCH_RESULTS, None),
    }
    return {
        name: LakeTable(schema, None, published, is_input=name in inputs)
        for name, (schema, published) in (inputs | other_tables).items()
    }


REGISTRY = lake_registry()
GRAPH_TABLES = (*(n for n, t in REGISTRY.items() if t.partitions == "graph"), "keywords", "prompt_hashes")
"""The tables that exist only if the document graph is enabled."""


def lake_tables(dimensions: int) -> dict[str, Table]:
    """The declared table behind every asset in the lake, for vectors of so many dimensions."""
    return {name: table.schema for name, table in lake_registry(dimensions).items()}


def tables_of(partitions: str) -> tuple[str, ...]:
    """The tables that the partitions of a source type have, or of its additions, in the order of the stages."""
    return tuple(name for name, table in REGISTRY.items() if table.partitions == partitions)


def lake_wide_inputs() -> tuple[str, ...]:
    """The tables over the whole lake that every published file is built from, without those of the graph."""
    return tuple(
        n for n, t in REGISTRY.items() if t.is_input and t.partitions is None and n not in GRAPH_TABLES
    )


def lake_names(published: str) -> tuple[str, ...]:
    """The tables of the lake whose rows a published table shows."""
    return tuple(name for name, table in REGISTRY.items() if table.published == published)
