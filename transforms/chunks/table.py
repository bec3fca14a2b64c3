"""The table of chunks: columns from a chunker, neutral or derived values in the others."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.errors import SchemaError
from transforms.hashing import text_hash
from transforms.schemas.chunks import CHUNKS


class ChunkTables(NamedTuple):
    """The chunks of a partition, and the ranges of text that are in no chunk."""

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
    "rest_lex": "",
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
"""Values of the columns that a chunker does not fill."""


def chunk_table(columns: Mapping[str, Sequence[Any] | pa.Array]) -> pa.Table:
    """The table `chunks` from columns of equal length, by name; a column is a list or an Arrow
    array.

    A missing column is neutral (`NEUTRAL`) or derived: `char_count` and `text_lex` from
    `text_display`, `checksum` from `text_embed`. Raises SchemaError that names a missing column
    that is neither, or an undeclared column.
    """
    filled = dict(columns)
    count = len(next(iter(filled.values()), []))
    display = filled.get("text_display", [])
    filled.setdefault("text_lex", display)
    if "char_count" not in filled:
        filled["char_count"] = [len(text) for text in _values(display)]
    if "checksum" not in filled:
        filled["checksum"] = [text_hash(text) for text in _values(filled.get("text_embed", []))]
    arrow = CHUNKS.arrow
    for name, value in NEUTRAL.items():
        if name not in filled:
            filled[name] = pa.array([value] * count, arrow.field(name).type)
    missing = [n for n in CHUNKS.names if n not in filled]
    if missing:
        raise SchemaError(f"table chunks: a chunker must fill the columns {missing}")
    arrays = {name: _array(values, arrow, name) for name, values in filled.items()}
    return CHUNKS.conform(pa.table(arrays))


def chunks_from_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The table `chunks` from row dictionaries that all have the same keys (see `chunk_table`)."""
    if not rows:
        return CHUNKS.empty()
    return chunk_table({name: [row[name] for row in rows] for name in rows[0]})


def _array(values: Sequence[Any] | pa.Array, arrow: pa.Schema, name: str) -> pa.Array:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    return pa.array(values, arrow.field(name).type if name in arrow.names else None)


def _values(column: Sequence[Any] | pa.Array) -> Sequence[str]:
    return list(column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else column)
