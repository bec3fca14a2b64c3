"""In which state the index is, and what a page says and answers when it cannot show anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dagster_project.index.publish.versions import CURRENT
from dagster_project.index.search.completeness import changed_since
from dagster_project.index.search.index_pool import AllBusyError
from dagster_project.outgoing.limits import fault_text
from dagster_project.system.locks import BUILD_LOCK, is_held
from transforms.errors import (
    DisclosureLimitError,
    IndexUnavailableError,
    ModelMismatchError,
    QueryError,
    QueryInterruptedError,
    SourceError,
    UnknownIdError,
    WeftError,
)

RETRY_SECONDS = 5
"""Seconds after which to ask a busy server again."""


@dataclass(frozen=True)
class State:
    """When the version was published that answers, whether a build is running, since when what came later waits for it."""

    published_at: datetime | None
    is_building: bool
    stale_since: datetime | None


@dataclass(frozen=True)
class Trouble:
    """Why a page has nothing to show: a code that programs read, the status of the answer, and words for people."""

    code: str
    status: int
    title: str
    message: str


def state(root: Path, published_at: str | None, lens: str | None) -> State:
    """The state of the index below `root`, whose version says when it was published.

    Under a lens nothing is said of builds and of sources, which may be others than those that it shows.
    """
    published = datetime.fromisoformat(published_at) if published_at else None
    if lens is not None:
        return State(published, False, None)
    return State(published, is_held(root / BUILD_LOCK), changed_since(root, published))


def trouble(fault: WeftError | TimeoutError, root: Path, lens: str | None = None) -> Trouble:
    """What a fault of a search or of reading means to whoever asked, perhaps under a lens."""
    message = fault_text(fault, lens) if isinstance(fault, WeftError) else ""
    if isinstance(fault, AllBusyError):
        text = f"Questions that took too long are still at work. Ask again in {RETRY_SECONDS} seconds."
        return Trouble("BUSY", 503, "The server is busy", text)
    if isinstance(fault, TimeoutError | QueryInterruptedError):
        text = "The answer took too long and was given up. Ask for less: a longer word, a shorter time, one list."
        return Trouble("TIMED_OUT", 504, "No answer in time", text)
    if isinstance(fault, IndexUnavailableError):
        if (root / "index" / CURRENT).exists():
            return Trouble("INDEX_DAMAGED", 503, "The index cannot be read", message)
        if is_held(root / BUILD_LOCK):
            text = "The first build is running. This page looks again by itself."
            return Trouble("BUILDING", 503, "The index is being built", text)
        return Trouble("NO_INDEX", 503, "There is no index yet", "Run weft build; then search here.")
    if isinstance(fault, ModelMismatchError):
        return Trouble("MODEL_MISMATCH", 503, "The index belongs to another model", message)
    if isinstance(fault, UnknownIdError):
        return Trouble("UNKNOWN_ID", 404, "The index does not hold this", message)
    if isinstance(fault, QueryError):
        return Trouble("QUERY", 400, "The query cannot be understood", message.replace(" (--plain)", ""))
    if isinstance(fault, SourceError):
        return Trouble("NOT_AT_SOURCE", 404, "The source does not give this mail", message)
    if isinstance(fault, DisclosureLimitError):
        return Trouble("WITHHELD", 403, "This is not shown here", message)
    return Trouble("ERROR", 500, "That did not work", message)


def ago(at: datetime | None) -> str:
    """How long ago a time is, in words."""
    if at is None:
        return "never"
    seconds = (datetime.now(UTC) - at).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
