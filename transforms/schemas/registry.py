"""The one list of the lake's tables: schema, source type, partitions, and where it is published."""

from dataclasses import dataclass

from transforms.schemas import chunks, conversations, documents, mail, operations, relations, search
from transforms.schemas.table import Table

ANY_DIMENSIONS = 1
"""Dimensions of vectors in a registry that is used for names alone."""


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake.

    `partitions` names whose partitions it has: a source type, or an extra that adds to those of
    one; None for a table over the whole lake. `published` is the table of the published file that
    shows its rows, None without one; `is_input` says that a publish reads it.
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
            messages=(mail.MESSAGES, "messages"),
            attachments=(mail.ATTACHMENTS, "attachments"),
            quarantine=(operations.QUARANTINE, "quarantine"),
            message_blocks=(mail.MESSAGE_BLOCKS, "blocks"),
            message_chunks=(chunks.CHUNKS, "chunks"),
            message_exclusions=(chunks.EXCLUSIONS, "exclusions"),
            message_terms=(chunks.TERMS, None),
            message_references=(mail.MESSAGE_REFERENCES, None),
            message_trailers=(mail.MESSAGE_TRAILERS, "trailers"),
            address_uses=(mail.ADDRESS_USES, None),
        ),
        **_partitioned(
            "documents",
            documents=(documents.DOCUMENTS, "documents"),
            document_quarantine=(operations.QUARANTINE, "quarantine"),
            document_nodes=(documents.DOCUMENT_NODES, "nodes"),
            document_references=(documents.DOCUMENT_REFERENCES, None),
            document_chunks=(chunks.CHUNKS, "chunks"),
            document_exclusions=(chunks.EXCLUSIONS, "exclusions"),
            document_terms=(chunks.TERMS, None),
        ),
        **_partitioned(
            "conversations",
            conversations=(conversations.CONVERSATION_MESSAGES, "conversations"),
            conversation_attachments=(mail.ATTACHMENTS, "attachments"),
            conversation_quarantine=(operations.QUARANTINE, "quarantine"),
            conversation_markdown=(conversations.CONVERSATION_WINDOWS, "conversation_windows"),
            conversation_query_chunks=(conversations.CONVERSATION_QUERY_CHUNKS, None),
            conversation_chunks=(chunks.CHUNKS, "chunks"),
            conversation_exclusions=(chunks.EXCLUSIONS, "exclusions"),
            conversation_terms=(chunks.TERMS, None),
        ),
        **_partitioned(
            "context",
            conversation_candidates=(conversations.CONVERSATION_CANDIDATES, None),
            conversation_documents=(conversations.CONVERSATION_DOCUMENTS, None),
            conversation_context=(conversations.CONVERSATION_CONTEXT, None),
        ),
        **_lake_wide(dimensions),
    }


def _partitioned(partitions: str, **tables: tuple[Table, str | None]) -> dict[str, LakeTable]:
    return {
        name: LakeTable(schema, partitions, published, is_input=partitions != "context")
        for name, (schema, published) in tables.items()
    }


def _lake_wide(dimensions: int) -> dict[str, LakeTable]:
    inputs: dict[str, tuple[Table, str | None]] = {
        "memberships": (relations.MEMBERSHIPS, "memberships"),
        "threads": (relations.THREADS, "threads"),
        "thread_tree": (relations.THREAD_TREE, "thread_tree"),
        "people": (relations.PEOPLE, "people"),
        "patch_series": (relations.PATCH_SERIES, "patch_series"),
        "inferred_quotes": (relations.INFERRED_QUOTES, "inferred_quotes"),
        "message_links": (relations.LINKS, "links"),
        "document_links": (relations.LINKS, "links"),
        "chunk_context": (chunks.CHUNK_CONTEXT, "chunk_context"),
        "context_terms": (chunks.TERMS, None),
        "corpus_measures": (operations.CORPUS_MEASURES, "corpus_measures"),
        "embeddings": (chunks.embeddings_table(dimensions), None),
        "embedding_refusals": (chunks.EMBEDDING_REFUSALS, None),
    }
    other_tables: dict[str, tuple[Table, str | None]] = {
        "mail_buckets": (relations.MAIL_BUCKETS, None),
        "compared_replies": (relations.COMPARED_REPLIES, None),
        "measure_counts": (operations.MEASURE_COUNTS, None),
        "readiness": (operations.READINESS, "readiness"),
        "evaluation_queries": (operations.EVALUATION_QUERIES, None),
        "evaluation_relevance": (operations.EVALUATION_RELEVANCE, None),
        "evaluation_runs": (operations.EVALUATION_RUNS, None),
        "search_results": (search.SEARCH_RESULTS, None),
    }
    return {
        name: LakeTable(schema, None, published, is_input=name in inputs)
        for name, (schema, published) in (inputs | other_tables).items()
    }


REGISTRY = lake_registry()


def lake_tables(dimensions: int) -> dict[str, Table]:
    """The declared table behind every asset in the lake, for vectors of so many dimensions."""
    return {name: table.schema for name, table in lake_registry(dimensions).items()}


def tables_of(partitions: str) -> tuple[str, ...]:
    """The tables that the partitions of a source type have, or of its additions, in the order of
    the stages.
    """
    return tuple(name for name, table in REGISTRY.items() if table.partitions == partitions)


def lake_wide_inputs() -> tuple[str, ...]:
    """The tables over the whole lake that every published file is built from, without those of
    extras.
    """
    return tuple(n for n, t in REGISTRY.items() if t.is_input and t.partitions is None)


def partitions_of(table: str) -> str | None:
    """Whose partitions a table has; None for one over the whole lake, as all are that extras
    declare.
    """
    return REGISTRY[table].partitions if table in REGISTRY else None


def lake_names(published: str) -> tuple[str, ...]:
    """The tables of the lake whose rows a published table shows."""
    return tuple(name for name, table in REGISTRY.items() if table.published == published)
