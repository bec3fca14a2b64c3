"""Documents to chunks by the chunker that the settings name; pictures that have a vector are a
chunk each.
"""

import pyarrow as pa
import pyarrow.compute as pc

from transforms.chunks.table import ChunkTables, chunks_from_rows
from transforms.documents.chunks import headings, sections, semantic
from transforms.documents.files import WORD_LIST
from transforms.hashing import parts_hash
from transforms.schemas.chunks import EXCLUSIONS, PICTURE
from transforms.schemas.table import rows_of
from transforms.settings.documents import DocumentChunkSettings
from transforms.text.visible import picture_words


def document_chunks(
    documents: pa.Table, nodes: pa.Table, settings: DocumentChunkSettings
) -> ChunkTables:
    """The chunks of documents and their exclusions, as declared in `transforms.schemas`.

    Chunks are ordered by document and position. `parent_id` is the node that holds the chunk, for
    expansion to its surroundings; spans are UTF-8 bytes of the stored text, those with the role
    overlap repeat the end of the previous chunk. A list of keywords has no chunks, a picture that
    has a vector has one.
    """
    paths, is_seen = documents.column("path"), pc.is_valid(documents.column("picture"))
    is_list = pc.or_(pc.equal(paths, WORD_LIST), pc.ends_with(paths, f"/{WORD_LIST}"))
    chunks, exclusions = _chunks(
        documents.filter(pc.invert(pc.or_(is_list, is_seen))), nodes, settings
    )
    chunks = pa.concat_tables([chunks, _picture_chunks(documents.filter(is_seen))])
    lists = documents.filter(is_list)
    rows = [
        (doc_id, None, source, partition, 0, len(text.encode()), "word_list")
        for doc_id, source, partition, text in rows_of(
            lists, "doc_id", "source", "partition", "text"
        )
    ]
    excluded = EXCLUSIONS.from_rows([dict(zip(EXCLUSIONS.names, row, strict=True)) for row in rows])
    return ChunkTables(chunks, pa.concat_tables([exclusions, excluded]))


def _picture_chunks(documents: pa.Table) -> pa.Table:
    columns = ("doc_id", "source", "partition", "title", "text", "picture")
    return chunks_from_rows(
        [
            {
                "chunk_id": parts_hash((PICTURE, doc_id, text, picture)),
                "source_kind": "document",
                "source": source,
                "partition": partition,
                "doc_id": doc_id,
                "parent_id": doc_id,
                "chunk_kind": PICTURE,
                "chunk_index": 0,
                "chunk_count": 1,
                "title": title,
                "text_display": text.strip(),
                "text_lex": picture_words(text),
                "text_embed": picture,
                "spans": [{"byte_start": 0, "byte_end": len(text.encode()), "role": "own"}],
                "chunker": PICTURE,
            }
            for doc_id, source, partition, title, text, picture in rows_of(documents, *columns)
        ]
    )


def _chunks(documents: pa.Table, nodes: pa.Table, settings: DocumentChunkSettings) -> ChunkTables:
    if settings.chunker == "tree":
        return headings.tree_chunks(documents, nodes)
    chunker = (
        sections.section_chunks if settings.chunker == "sections" else semantic.semantic_chunks
    )
    return chunker(documents, nodes, settings)
