"""Documents for tests: files by path, read into tables, and the chunks of these."""

from typing import Any

import pyarrow as pa

from transforms.documents.chunks.table import document_chunks
from transforms.documents.files import DocumentTables, RawFile, read_documents
from transforms.documents.nodes import document_nodes
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings


def read(files: dict[str, str | bytes], **settings: int) -> DocumentTables:
    """Both tables of files given as path and content, of the source `s`."""
    raw = [RawFile(p, c if isinstance(c, bytes) else c.encode()) for p, c in files.items()]
    return read_documents(raw, source="s", partition="u", settings=DocumentSettings(**settings))


def documents(**texts: str) -> pa.Table:
    """The table of documents whose paths are the names of the arguments with `.md` behind."""
    return read({f"{name}.md": text for name, text in texts.items()}).documents


def tables(**texts: str) -> tuple[pa.Table, pa.Table]:
    """`documents` and their nodes."""
    read_in = documents(**texts)
    return read_in, document_nodes(read_in)


def chunks_of(text: str, **settings: Any) -> list[dict[str, Any]]:
    return document_chunks(*tables(note=text), DocumentChunkSettings(**settings)).chunks.to_pylist()


def exclusions_of(text: str, **settings: Any) -> list[tuple[str, str]]:
    """Reason and text of what became no chunk."""
    found = document_chunks(
        *tables(note=text), DocumentChunkSettings(**settings)
    ).exclusions.to_pylist()
    data = text.encode()
    return [(row["reason"], data[row["byte_start"] : row["byte_end"]].decode()) for row in found]
