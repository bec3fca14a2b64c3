"""Notes and documentation: files to documents, nodes, references, chunks and terms, each partition
by itself.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from assets.partitions import DOCUMENTS
from assets.protocols.sources import SourcePartition, Sources
from assets.stages.declaration import Display, Stage
from transforms.documents import files as documents
from transforms.documents import links, nodes
from transforms.documents.chunks import table as document_chunks
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings

_CHUNK_LINEAGE = {
    "doc_id": ("documents.doc_id",),
    "parent_id": ("document_nodes.node_id",),
    "title": ("documents.title",),
    "heading_path": ("document_nodes.breadcrumb",),
    **dict.fromkeys(("text_display", "text_embed", "text_lex"), ("documents.text",)),
}

_stage = partial(Stage, source_type=DOCUMENTS)


def read_documents_stage(settings: DocumentSettings) -> Stage:
    """The stage that reads files as Markdown."""
    return _stage(
        "read_documents",
        _read_documents,
        Display(
            "Reads the files of a partition as Markdown; unreadable ones go to quarantine.",
            kinds=("numpy",),
            code=documents.read_documents,
        ),
        outputs=("documents", "document_quarantine"),
        settings=settings,
    )


def document_nodes_stage() -> Stage:
    """The stage of the trees of headings."""
    return _stage(
        "document_nodes",
        nodes.document_nodes,
        Display(
            "Finds the tree of headings of each document, with the text below each.",
            kinds=("numpy",),
        ),
        inputs=("documents",),
    )


def document_references_stage() -> Stage:
    """The stage of links and tags, as they are written."""
    return _stage(
        "document_references",
        links.document_references,
        Display(
            "Finds links, wikilinks, embeds and tags in documents, as they are written.",
            kinds=("numpy",),
        ),
        inputs=("documents",),
    )


def chunk_documents_stage(chunkers: Mapping[str, DocumentChunkSettings]) -> Stage:
    """The stage that cuts documents into chunks; `chunkers` has the chunk settings by source."""
    return _stage(
        "chunk_documents",
        document_chunks.document_chunks,
        Display(
            "Cuts documents into chunks by the chunker of their source; text without a chunk gets a reason.",
            kinds=("numpy", "polars"),
            lineage=_CHUNK_LINEAGE,
        ),
        inputs=("documents", "document_nodes"),
        outputs=("document_chunks", "document_exclusions"),
        settings=chunkers,
    )


def _read_documents(
    sources: Sources, partition: SourcePartition, settings: DocumentSettings
) -> Sequence[pa.Table]:
    return documents.read_documents(
        sources.files(partition),
        source=partition.source,
        partition=partition.key,
        settings=settings,
    )
