"""The table of chunks, made from the columns that a chunker fills; the others are neutral."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.errors import SchemaError
from transforms.hashing import text_hash
from transforms.schemas.chunks import CHUNKS


class ChunkTables(NamedTuple):
    """The chunks of a partition and what became no chunk."""

    chunks: pa.Table
    exclusions: pa.Table


NEUTRAL: Mapping[str, Any] = {
    "attachment_id": None,
    "parent_id": None,
    "heading_path": [],
    "title": "",
    "quote_lex": "",
    "added_lex": "",
    "removed_lex": "",
    "quote_anchor_chars": 0,
    "anchor_source": "none",
    "quote_depth_max": 0,
    "has_patch_markers": False,
    "content_class": "text",
    "diff_files": [],
    "diff_functions": [],
    "lines_added": None,
    "lines_removed": None,
    "is_quote_heavy": False,
    "is_code": False,
    "lane": "fast",
    "needs_parent": False,
}
"""What a column says where a chunker has nothing to say."""


def chunk_table(columns: Mapping[str, Sequence[Any] | pa.Array]) -> pa.Table:
    """The table `chunks` from columns of equal length, by name.

    What is missing is neutral (`NEUTRAL`) or derived: `char_count` and `text_lex` from
    `text_display`, `checksum` from `text_embed`. A column may be a list or an Arrow array.
    SchemaError names a missing column that is neither, and an undeclared one.
    """
    given = dict(columns)
    count = len(next(iter(given.values()), []))
    display = given.get("text_display", [])
    given.setdefault("text_lex", display)
    if "char_count" not in given:
        given["char_count"] = [len(text) for text in _values(display)]
    if "checksum" not in given:
        given["checksum"] = [text_hash(text) for text in _values(given.get("text_embed", []))]
    for name, value in NEUTRAL.items():
        if name not in given:
            type_ = CHUNKS.arrow.field(name).type
            given[name] = pa.array([value] * count, type_)
    missing = [n for n in CHUNKS.names if n not in given]
    if missing:
        raise SchemaError(f"table chunks: a chunker must fill the columns {missing}")
    arrow = CHUNKS.arrow
    arrays = {
        name: values if isinstance(values, pa.Array | pa.ChunkedArray) else _array(values, arrow, name)
        for name, values in given.items()
    }
    return CHUNKS.conform(pa.table(arrays))


def chunks_from_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The table `chunks` from row dictionaries that all have the same keys (see `chunk_table`)."""
    if not rows:
        return CHUNKS.empty()
    return chunk_table({name: [row[name] for row in rows] for name in rows[0]})


def _array(values: Sequence[Any], arrow: pa.Schema, name: str) -> pa.Array:
    declared = set(arrow.names)
    return pa.array(values, arrow.field(name).type) if name in declared else pa.array(values)


def _values(column: Sequence[Any] | pa.Array) -> Sequence[str]:
    listed = column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else column
    return list(listed)
