"""Notes and documentation: files to documents, nodes, references, chunks and terms, each partition by itself."""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from assets.partitions import DOCUMENTS
from assets.protocols.sources import SourcePartition, Sources
from assets.stages.declaration import Display, Stage, terms_stage
from transforms.documents import files as documents
from transforms.documents import links, nodes
from transforms.documents.chunks import table as document_chunks
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings
from transforms.settings.search import TermSettings

_CHUNK_LINEAGE = {
    "doc_id": ("documents.doc_id",),
    "parent_id": ("document_nodes.node_id",),
    "title": ("documents.title",),
    "heading_path": ("document_nodes.breadcrumb",),
    **dict.fromkeys(("text_display", "text_embed", "text_lex"), ("documents.text",)),
}


def document_stages(
    settings: DocumentSettings,
    chunkers: Mapping[str, DocumentChunkSettings],
    term_settings: TermSettings,
) -> list[Stage]:
    """The partitioned stages of documents, in order; `chunkers` has the chunk settings by source."""
    stage = partial(Stage, source_type=DOCUMENTS)
    return [
        stage(
            "read_documents",
            _read_documents,
            documents.VERSION,
            Display(
                "Reads the files of a partition as Markdown; unreadable ones go to quarantine.",
                kinds=("python",),
                code=documents.read_documents,
            ),
            outputs=("documents", "document_quarantine"),
            settings=settings,
        ),
        stage(
            "document_nodes",
            nodes.document_nodes,
            nodes.VERSION,
            Display("Finds the tree of headings of each document, with the text below each."),
            inputs=("documents",),
        ),
        stage(
            "document_references",
            links.document_references,
            links.VERSION,
            Display("Finds links, wikilinks, embeds and tags in documents, as they are written."),
            inputs=("documents",),
        ),
        stage(
            "chunk_documents",
            document_chunks.document_chunks,
            document_chunks.VERSION,
            Display(
                "Cuts documents into chunks by the chunker of their source; text without a chunk gets a reason.",
                lineage=_CHUNK_LINEAGE,
            ),
            inputs=("documents", "document_nodes"),
            outputs=("document_chunks", "document_exclusions"),
            settings=chunkers,
        ),
        terms_stage(DOCUMENTS, "document_terms", "document_chunks", term_settings),
    ]


def _read_documents(
    sources: Sources, partition: SourcePartition, settings: DocumentSettings
) -> Sequence[pa.Table]:
    return documents.read_documents(
        sources.files(partition),
        source=partition.source,
        partition=partition.key,
        settings=settings,
    )
