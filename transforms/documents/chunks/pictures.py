"""Pictures to chunks: one for each, whose vector is made of the picture."""

import pyarrow as pa

from transforms.chunks.table import chunks_from_rows
from transforms.hashing import parts_hash
from transforms.schemas.table import rows_of

VERSION = "1"
PICTURE = "picture"


def picture_chunks(documents: pa.Table) -> pa.Table:
    """A chunk of the kind `picture` for each of `documents`, all with a `picture`, which is embedded.

    Its words are those of its file's name and those that OCR finds in it."""
    columns = ("doc_id", "source", "partition", "title", "text", "picture")
    return chunks_from_rows(
        [
            {
                "chunk_id": parts_hash((PICTURE, doc_id, text, picture)), "source_kind": "document",
                "source": source, "partition": partition, "doc_id": doc_id, "parent_id": doc_id,
                "chunk_kind": PICTURE, "chunk_index": 0, "chunk_count": 1, "title": title,
                "text_display": text.strip(), "text_embed": picture,
                "spans": [{"byte_start": 0, "byte_end": len(text.encode()), "role": "own"}],
                "chunker": f"{PICTURE}-{VERSION}",
            }
            for doc_id, source, partition, title, text, picture in rows_of(documents, *columns)
        ]
    )  # fmt: skip
