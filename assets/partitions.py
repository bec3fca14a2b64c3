"""The source types with their partitions and tables."""

from dataclasses import dataclass

from transforms.schemas.registry import tables_of


@dataclass(frozen=True)
class SourceType:
    """A kind of source: its name, that of its partitions, and its partitioned tables in order.

    Every partition has the first table, by which the lake lists its partitions. If `compared` names
    tables, only a change of these makes a partition stale: they change with every row that stages
    read of others.
    """

    name: str
    partitions: str
    tables: tuple[str, ...]
    compared: tuple[str, ...] | None = None


MAIL = SourceType("mail", "mail", tables_of("mail"))
DOCUMENTS = SourceType("documents", "documents", tables_of("documents"))
CONVERSATIONS = SourceType("conversations", "conversations", tables_of("conversations"))
PARTITIONS_OF_RUN = 32
"""Partitions that a run makes one after the other, at most."""
SOURCE_TYPES = (MAIL, DOCUMENTS, CONVERSATIONS)
CHUNKS_OF = {
    MAIL.name: "message_chunks",
    DOCUMENTS.name: "document_chunks",
    CONVERSATIONS.name: "conversation_chunks",
}
"""The table of each source type whose texts are published and embedded."""
IN_PARTS = frozenset(
    {
        *("embeddings", "threads", "thread_tree", "inferred_quotes", "compared_replies"),
        *("chunk_context", "context_terms", "measure_counts"),
    }
)
"""Tables over the whole lake that are stored in parts, so that an hour's new rows rewrite only a
few of them.
"""
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
"""The tables of context for each window of a conversation from the published index, which does not
contain them.
"""
