"""Chunks of a published index as a reader sees them, with lines, pages, and the section or mail around each."""

from collections.abc import Sequence
from typing import Any

import duckdb

from dagster_project.system.sql_files import SqlFile
from transforms.context.passages import Passage

_SQL = SqlFile(__file__, "passages.sql")


def passages(connection: duckdb.DuckDBPyConnection, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    """The passages of chunks by id; those that the index does not hold are left out."""
    ids = {"ids": sorted(set(chunk_ids))}
    rows = connection.execute(_SQL("rows"), ids).to_arrow_table().to_pylist()
    texts = {name: (text or "").encode() for name, text in connection.execute(_SQL("texts"), ids).fetchall()}
    return {row["chunk_id"]: _passage(row, texts[row["text_id"]]) for row in rows}


def _passage(row: dict[str, Any], text: bytes) -> Passage:
    """The passage of a row, whose bytes are those of `text`; around it is its section, or its mail."""
    start, end = row["start_byte"] or 0, row["end_byte"] or 0
    own, display = text[start:end].decode(errors="replace"), row["text_display"]
    around = None
    first, last = row["heading_start"] or 0, row["body_end"] or len(text)
    if row["heading_start"] is not None or row["source_kind"] == "message":
        around = text[first:last].decode()
    line, around_line = (1 + text.count(b"\n", 0, place) for place in (start, first))
    return Passage(
        chunk_id=row["chunk_id"],
        doc_id=row["doc_id"],
        place=row["place"],
        source_kind=row["source_kind"],
        title=row["shown_title"] or "(no title)",
        date=row["date"],
        tags=tuple(row["tags"] or ()),
        text=own if own.rstrip() == display.rstrip() else display,
        start=start,
        end=end,
        around=around,
        around_start=first,
        around_end=last if around is not None else 0,
        turn=row["turn"],
        page_starts=tuple(row["page_starts"] or ()),
        lines=(line, max(line, 1 + text[:end].rstrip(b"\n").count(b"\n"))),
        around_lines=(around_line, around_line + (around or "").rstrip("\n").count("\n")),
    )
