"""Notes and documentation: files to documents, nodes, references, chunks and terms, one partition per partition."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from assets.partitions import DOCUMENTS
from assets.stages import Stage, reading_asset, stage_asset, terms_asset
from transforms.documents import files as documents
from transforms.documents import links, nodes
from transforms.documents.chunks import table as document_chunks
from transforms.schemas.chunks import CHUNKS, EXCLUSIONS
from transforms.schemas.documents import DOCUMENT_NODES, DOCUMENT_REFERENCES
from transforms.schemas.documents import DOCUMENTS as DOCUMENTS_SCHEMA
from transforms.schemas.operations import QUARANTINE
from transforms.settings.base import digest_of
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings
from transforms.settings.search import TermSettings


def document_assets(
    settings: DocumentSettings, chunkers: Mapping[str, DocumentChunkSettings], term_settings: TermSettings
) -> list[dg.AssetsDefinition]:
    """The partitioned assets of documents, in order; `chunkers` has the chunk settings by source."""
    return [
        reading_asset(
            DOCUMENTS,
            "read_documents",
            {"documents": DOCUMENTS_SCHEMA, "document_quarantine": QUARANTINE},
            f"{documents.VERSION}-{settings.digest()}",
            lambda sources, partition: documents.read_documents(
                sources.files(partition), source=partition.source, partition=partition.key, settings=settings
            ),
        ),
        stage_asset(
            DOCUMENTS,
            Stage(
                "document_nodes",
                {"document_nodes": DOCUMENT_NODES},
                ["documents"],
                nodes.VERSION,
                lambda partition, table: (nodes.document_nodes(table),),
            ),
        ),
        stage_asset(
            DOCUMENTS,
            Stage(
                "document_references",
                {"document_references": DOCUMENT_REFERENCES},
                ["documents"],
                links.VERSION,
                lambda partition, table: (links.document_references(table),),
            ),
        ),
        stage_asset(
            DOCUMENTS,
            Stage(
                "chunk_documents",
                {"document_chunks": CHUNKS, "document_exclusions": EXCLUSIONS},
                ["documents", "document_nodes"],
                f"{document_chunks.VERSION}-{digest_of(chunkers)}",
                lambda partition, files, tree: document_chunks.document_chunks(
                    files, tree, chunkers[partition.partition("/")[0]]
                ),
            ),
        ),
        terms_asset(DOCUMENTS, "document_terms", "document_chunks", term_settings),
    ]
