"""How complete an answer is: how much was searched, what is missing and why, and how fresh the index is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import duckdb
from pydantic import BaseModel, Field

from dagster_project.system.globs import seen_times

_TEXTS = """
SELECT kind, count(*) FILTER (is_searchable), count(*) FILTER (NOT is_searchable), count(waits_for)
FROM readiness GROUP BY kind
"""
_TURNS = "SELECT count(*) FROM chunks WHERE chunk_kind = 'turn'"
_SET_ASIDE = "SELECT split_part(reason, ':', 1), count(*) FROM quarantine GROUP BY ALL ORDER BY ALL"


class Completeness(BaseModel):
    """The statement of one answer; under a lens it counts only what the lens shows."""

    published_at: datetime
    mails: int
    documents: int
    turns: int = Field(description="turns of chats")
    without_text: int
    waiting: int = Field(description="mails, documents and windows that wait for the slow lane")
    without_vector: int = Field(description="passages that only their words find")
    set_aside: dict[str, int] = Field(
        description="what was not read, by reason; the table `quarantine` has it"
    )
    changed_at: datetime | None = Field(
        description="since when the sources hold what the index does not show"
    )

    def line(self) -> str:
        """The statement in one line; what is zero is left out."""
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.set_aside.items())
        missing = {
            "without text": self.without_text,
            "waiting": self.waiting,
            "without vector": self.without_vector,
            f"set aside ({reasons})": sum(self.set_aside.values()),
        }
        found = (
            f"searchable: {self.mails:,} mails, {self.documents:,} documents, {self.turns:,} turns of chats"
        )
        lost = ", ".join(f"{count:,} {name}" for name, count in missing.items() if count)
        times = [("published", self.published_at), ("sources changed", self.changed_at)]
        dated = [f"{what} {at:%Y-%m-%d %H:%M} UTC" for what, at in times if at]
        return "; ".join([found, *([lost] if lost else []), *dated])


def completeness(connection: duckdb.DuckDBPyConnection, published_at: str, unembedded: int) -> Completeness:
    """The statement of a published file, as if no source had changed; `unembedded` of its chunks have no vector."""
    texts = {kind: counts for kind, *counts in connection.execute(_TEXTS).fetchall()}
    searchable = {kind: counts[0] for kind, counts in texts.items()}
    ((turns,),) = connection.execute(_TURNS).fetchall()
    return Completeness(
        published_at=datetime.fromisoformat(published_at),
        mails=searchable.get("message", 0),
        documents=searchable.get("document", 0),
        turns=turns,
        without_text=sum(counts[1] for counts in texts.values()),
        waiting=sum(counts[2] for counts in texts.values()),
        without_vector=unembedded,
        set_aside=dict(connection.execute(_SET_ASIDE).fetchall()),
        changed_at=None,
    )


def changed_since(root: Path, published_at: datetime | None) -> datetime | None:
    """When the first change of a source was seen that the version published at that time does not show, if one was."""
    seen = (at for _, at in seen_times(root / "cache" / "seen.json").values())
    return min((at for at in seen if published_at is None or at > published_at), default=None)
