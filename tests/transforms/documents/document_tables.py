"""Tables of documents made from texts, as the chunkers read them."""

from typing import Any

import pyarrow as pa

from transforms.documents.chunks.table import document_chunks
from transforms.documents.files import RawFile, read_documents
from transforms.documents.nodes import document_nodes
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings


def tables(**texts: str) -> tuple[pa.Table, pa.Table]:
    """Documents and nodes of Markdown texts by file name without extension."""
    files = [RawFile(f"{name}.md", text.encode()) for name, text in texts.items()]
    documents = read_documents(files, source="s", partition="u", settings=DocumentSettings()).documents
    return documents, document_nodes(documents)


def chunks_of(text: str, **settings: Any) -> list[dict[str, Any]]:
    return document_chunks(*tables(note=text), DocumentChunkSettings(**settings)).chunks.to_pylist()


def exclusions_of(text: str, **settings: Any) -> list[tuple[str, str]]:
    """Reason and text of what became no chunk."""
    found = document_chunks(*tables(note=text), DocumentChunkSettings(**settings)).exclusions.to_pylist()
    data = text.encode()
    return [(row["reason"], data[row["byte_start"] : row["byte_end"]].decode()) for row in found]
