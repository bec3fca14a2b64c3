"""Documents to chunks by the chunker that the settings name."""

from __future__ import annotations

import pyarrow as pa

from transforms.chunks.table import ChunkTables
from transforms.documents.chunks import headings, sections, semantic
from transforms.settings.documents import DocumentChunkSettings

VERSION = f"{sections.VERSION}.{semantic.VERSION}.{headings.VERSION}"

_CHUNKERS = {
    "tree": headings.tree_chunks,
    "sections": sections.section_chunks,
    "semantic": semantic.semantic_chunks,
}


def document_chunks(documents: pa.Table, nodes: pa.Table, settings: DocumentChunkSettings) -> ChunkTables:
    """The chunks of documents and what became none, as declared in `transforms.schemas`.

    Chunks are ordered by document and position. `parent_id` is the node that holds the chunk, for
    expansion to what stands around it; spans are UTF-8 bytes of the stored text, those with the role
    overlap repeat the end of the chunk before.
    """
    return _CHUNKERS[settings.chunker](documents, nodes, settings)
