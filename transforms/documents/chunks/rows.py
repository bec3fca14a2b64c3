"""Rows of the table of chunks for the segments of a document, and its exclusions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.chunks.table import ChunkTables, chunk_table
from transforms.documents.chunks.segments import Document, Omission, Segment
from transforms.hashing import text_hash
from transforms.schemas.chunks import EXCLUSIONS
from transforms.settings.documents import DocumentChunkSettings

CODE_SHARE = 0.5
"""Lines of code : lines with text from which a chunk is code; fits 292 of 296 chunks that the
Information Graph published.
"""


class ChunkRows:
    """The growing columns of the chunks of documents, and of their exclusions."""

    def __init__(self, kind: str, chunker: str, settings: DocumentChunkSettings):
        self.kind, self.chunker, self.settings = kind, chunker, settings
        self.columns: dict[str, list] = {name: [] for name in _COLUMNS}
        self.spans: tuple[list[int], list[int], list[str], list[int]] = ([], [], [], [0])
        self.excluded: list[tuple] = []
        self.occurrences: dict[str, int] = {}

    def add(
        self,
        document: Document,
        segments: Sequence[Segment],
        omissions: Sequence[Omission] = (),
        embedded: Sequence[str] | None = None,
    ) -> None:
        """The chunks of one document, whose segments are in order, and the parts that the chunker
        omits.

        `embedded` are the texts to embed if the chunker makes them itself.
        """
        pieces = [p if document.visible(p.start, p.end) else p._replace(lead=0) for p in segments]
        texts = [document.display(p.start - p.lead, p.end) for p in pieces]
        blank = [(p.start, p.end) for p, text in zip(segments, texts, strict=True) if not text]
        self._exclude(document, blank, omissions)
        if blank:
            segments = [segment for segment, text in zip(segments, texts, strict=True) if text]
            texts = [text for text in texts if text]
        headers = self._headers(document, segments)
        if embedded is None:
            embedded = [header.prefix + text for header, text in zip(headers, texts, strict=True)]
        count = len(segments)
        code = document.code_shares([p.start - p.lead for p in segments], [p.end for p in segments])
        columns: tuple[Iterable[Any], ...] = (
            [
                self._chunk_id(header.scope, text)
                for header, text in zip(headers, texts, strict=True)
            ],
            [document.source] * count,
            [document.partition] * count,
            [document.doc_id] * count,
            [document.nodes[segment.node].node_id for segment in segments],
            range(count),
            [count] * count,
            [header.headings for header in headers],
            [header.title for header in headers],
            texts,
            embedded,
            self._wide(document, segments),
            map(len, texts),
            (code >= CODE_SHARE).tolist(),
            map(text_hash, embedded),
        )
        for column, values in zip(self.columns.values(), columns, strict=True):
            column.extend(values)
        self._place(document, segments)

    def tables(self) -> ChunkTables:
        """Both tables, as declared."""
        count = len(self.columns["chunk_id"])
        starts, ends, roles, offsets = self.spans
        struct = pa.StructArray.from_arrays(
            [
                pa.array(starts, pa.int64()),
                pa.array(ends, pa.int64()),
                pa.array(roles, pa.string()),
            ],
            names=["byte_start", "byte_end", "role"],
        )
        chunks = chunk_table(
            {
                **self.columns,
                "spans": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct),
                "source_kind": ["document"] * count,
                "chunk_kind": [self.kind] * count,
                "chunker": [self.chunker] * count,
                "content_class": ["code" if code else "text" for code in self.columns["is_code"]],
            }
        )
        rows = [dict(zip(EXCLUSIONS.names, row, strict=True)) for row in self.excluded]
        return ChunkTables(chunks, EXCLUSIONS.from_rows(rows))

    def _chunk_id(self, scope: str, text: str) -> str:
        """Hash of document, kind, headings and text; a repeated hash includes its number."""
        base = text_hash(scope + text)
        count = self.occurrences.get(base, 0)
        self.occurrences[base] = count + 1
        return text_hash(f"{base}{count}") if count else base

    def _headers(self, document: Document, segments: Sequence[Segment]) -> list[_Header]:
        """The headings above each segment; the segments of one section share them."""
        headers: dict[int, _Header] = {}
        for node in dict.fromkeys(p.node if p.under is None else p.under for p in segments):
            headings, title = document.headings[node], document.nodes[node].trail
            scope = text_hash("\0".join((document.doc_id, self.kind, *headings)))
            trail = document.embedded_trail(node)
            prefix = f"{trail}\n\n" if trail else ""
            headers[node] = _Header(headings, title, prefix, scope)
        return [headers[p.node if p.under is None else p.under] for p in segments]

    def _wide(self, document: Document, segments: Sequence[Segment]) -> list[str]:
        """Each text and its surroundings for the lexical index, the first with the document's other
        names.
        """
        text, low, reach = document.text, document.body_start, self.settings.context_chars
        texts = [text[max(p.start - p.lead - reach, low) : p.end + reach].strip() for p in segments]
        return ["\n".join([texts[0], *document.names]), *texts[1:]] if texts else texts

    def _place(self, document: Document, segments: Sequence[Segment]) -> None:
        """Add the spans of the segments, in bytes."""
        starts, ends, roles, offsets = self.spans
        begins, closes = [], []
        for start, end, _, lead, _ in segments:
            visible = document.visible(start, end)
            for role, ranges in (
                ("overlap", document.visible(start - lead, start) if lead else []),
                ("own", visible),
            ):
                for a, b in ranges:
                    begins.append(a)
                    closes.append(b)
                    roles.append(role)
            offsets.append(len(roles))
        starts += document.offsets.bytes(begins)
        ends += document.offsets.bytes(closes)

    def _exclude(
        self, document: Document, blank: list[tuple[int, int]], omissions: Sequence[Omission]
    ) -> None:
        """Record the exclusions: the frontmatter, comments, segments without visible text, and
        `omissions`.
        """
        excluded = [Omission(0, document.body_start, "frontmatter")] if document.body_start else []
        excluded += [Omission(*comment, "comment") for comment in document.comments]
        for omission in (*(Omission(*span, "empty") for span in blank), *omissions):
            excluded += [
                Omission(*span, omission.reason)
                for span in document.visible(omission.start, omission.end)
            ]
        merged: list[Omission] = []
        for omission in sorted(excluded):
            if merged and merged[-1].end == omission.start and merged[-1].reason == omission.reason:
                omission = Omission(merged.pop().start, omission.end, omission.reason)
            merged.append(omission)
        begins = document.offsets.bytes([omission.start for omission in merged])
        closes = document.offsets.bytes([omission.end for omission in merged])
        shared = (document.doc_id, None, document.source, document.partition)
        for omission, start, end in zip(merged, begins, closes, strict=True):
            self.excluded.append((*shared, start, end, omission.reason))


class _Header(NamedTuple):
    """The texts that chunks under the same headings share."""

    headings: list[str]
    title: str
    prefix: str
    scope: str


_COLUMNS = (
    "chunk_id",
    "source",
    "partition",
    "doc_id",
    "parent_id",
    "chunk_index",
    "chunk_count",
    "heading_path",
    "title",
    "text_display",
    "text_embed",
    "text_lex",
    "char_count",
    "is_code",
    "checksum",
)
