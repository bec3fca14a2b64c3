"""Documents for tests: files by path, read into tables."""

import pyarrow as pa

from transforms.documents.files import DocumentTables, RawFile, read_documents
from transforms.settings.documents import DocumentSettings


def read(files: dict[str, str | bytes], **settings: int) -> DocumentTables:
    """Both tables of files given as path and content, of the source `s`."""
    raw = [RawFile(p, c if isinstance(c, bytes) else c.encode()) for p, c in files.items()]
    return read_documents(raw, source="s", partition="u", settings=DocumentSettings(**settings))


def documents(**texts: str) -> pa.Table:
    """The table of documents whose paths are the names of the arguments with `.md` behind."""
    return read({f"{name}.md": text for name, text in texts.items()}).documents
