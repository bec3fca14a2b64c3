"""Documents to chunks by the chunker that the settings name."""

from __future__ import annotations

import pyarrow as pa

from transforms.chunks.table import ChunkTables
from transforms.documents.chunks import headings, sections, semantic
from transforms.settings.documents import DocumentChunkSettings

VERSION = f"{sections.VERSION}.{semantic.VERSION}.{headings.VERSION}"


def document_chunks(documents: pa.Table, nodes: pa.Table, settings: DocumentChunkSettings) -> ChunkTables:
    """The chunks of documents and their exclusions, as declared in `transforms.schemas`.

    Chunks are ordered by document and position. `parent_id` is the node that holds the chunk, for
    expansion to its surroundings; spans are UTF-8 bytes of the stored text, those with the role
    overlap repeat the end of the previous chunk.
    """
    if settings.chunker == "tree":
        return headings.tree_chunks(documents, nodes)
    chunker = sections.section_chunks if settings.chunker == "sections" else semantic.semantic_chunks
    return chunker(documents, nodes, settings)
