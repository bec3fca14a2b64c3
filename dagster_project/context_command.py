"""The context of a conversation that somebody hands over: the work behind `weft context`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dagster_project.composition import make_published
from dagster_project.resources.chats import ChatFiles, read_chats
from dagster_project.resources.publisher import CURRENT
from dagster_project.resources.tokens import PackagedTokenCounter
from dagster_project.settings import Settings
from transforms import context_block, conversation_context, conversations, query_chunks
from transforms.errors import ChatFormatError, ContextError, IndexUnavailableError, SourceError
from transforms.whatsapp import looks_like_whatsapp, read_whatsapp

_GIVEN = "given"
_TEXT_SUFFIXES = ("", ".txt", ".md", ".markdown", ".text")


@dataclass(frozen=True)
class GivenContext:
    """The outcome for one conversation: CONTEXT with a block, or NO_HITS; faults are raised."""

    outcome: str
    block: str
    manifest: Mapping[str, Any]
    queries: int
    results: int
    documents: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """What `weft context --json` prints."""
        return {
            "outcome": self.outcome,
            "version": self.manifest["index_version"],
            "seconds": round(self.seconds, 6),
            "queries": self.queries,
            "results": self.results,
            "documents": self.documents,
            "tokens": self.manifest["block_tokens"],
            "block": self.block,
            "manifest": dict(self.manifest),
        }


def markdown_of(path: Path | None, text: str | None, settings: Settings) -> tuple[str, int]:
    """The consolidated Markdown of a chat export, or the text itself where it is none; and its messages.

    Names stay as they are, since nothing of it is stored. SourceError for a file that cannot be
    read, ChatFormatError for an export that is none.
    """
    try:
        if path is not None and (path.is_dir() or path.suffix.lower() not in _TEXT_SUFFIXES):
            chats = read_chats(path, settings.conversations)
            if not chats or not any(c.entries for c in chats):
                reasons = "; ".join(f.reason for c in chats for f in c.faults) or "it is empty"
                raise ChatFormatError(f"{path} holds no conversation: {reasons}")
        else:
            said = path.read_bytes().decode("utf-8-sig") if path is not None else text or ""
            if not looks_like_whatsapp(said):
                return said, 1
            chats = [read_whatsapp(said, _GIVEN, "UTC")]
    except ChatFormatError as error:
        raise ChatFormatError(
            str(error) if path is None or str(path) in str(error) else f"{path}: {error}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path} cannot be read: {error}") from error
    said_all = [e for chat in chats for e in conversations.told(chat, None).entries if e.kind == "message"]
    made = conversations.consolidated(
        *(list(c) for c in zip(*((e.author, e.at, e.text) for e in said_all), strict=True))
    )
    return made.markdown, len(said_all)


def context_of(
    settings: Settings, markdown: str, messages: int = 1, path: Path | None = None
) -> GivenContext:
    """The context of a conversation's Markdown in the published index.

    Windows of the file `path`, where that is part of a configured source, are not found.
    """
    start = time.perf_counter()
    counter = PackagedTokenCounter()
    window = {"doc_id": _GIVEN, "source": "", "unit": "", "markdown": markdown, "message_count": messages}
    windows = pl.DataFrame([window])
    chunks = query_chunks.conversation_query_chunks(
        windows.to_arrow(), settings.conversations, counter.counts
    )
    frame = pl.from_arrow(chunks)
    assert isinstance(frame, pl.DataFrame)
    chosen = settings.context
    queries = conversation_context.window_queries(windows, frame, chosen)
    own = ChatFiles(settings, settings.root / "cache" / "chats.json").window_ids(path) if path else []
    with make_published(settings).open() as index:
        found = index.candidates(queries, chosen, {_GIVEN: own})
        documents = conversation_context.window_documents(found, chosen, index.chunk_vectors)
        passages = index.passages(documents["chunk_id"].to_list())
        facts = dict(index.facts)
    ordered = conversation_context.scored(documents, passages)
    made = context_block.compiled(ordered, chosen.budget_tokens, counter.counts, expand=chosen.expand)
    question = "\x00".join(queries["text"])
    return GivenContext(
        conversation_context.CONTEXT if made.chosen else conversation_context.NO_HITS,
        made.block,
        conversation_context.context_manifest(made, question, facts, chosen),
        len(queries),
        len(found),
        len(documents),
        time.perf_counter() - start,
    )


def reproduced(settings: Settings, recorded: Mapping[str, Any]) -> str:
    """The block of a manifest, made again from the index version that it names.

    IndexUnavailableError if that version is not kept any more, ContextError if the bytes differ.
    """
    folder = settings.root / "index"
    place = folder / f"weft-{recorded['index_version']}.duckdb"
    if not place.exists():
        now = (folder / CURRENT).resolve().stem.removeprefix("weft-")
        raise IndexUnavailableError(
            f"version {recorded['index_version']} of the index is not kept any more, the current one is {now}; "
            "index.keep_versions says how many are"
        )
    with make_published(settings).open(place) as index:
        passages = index.passages([e["chunk_id"] for e in recorded["chosen"]])
    return context_block.reproduced(recorded, passages)


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest that `weft context` wrote; ContextError if the file is none."""
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        recorded = (
            recorded.get("manifest", recorded) if isinstance(recorded.get("manifest"), dict) else recorded
        )
        _ = recorded["index_version"], recorded["block_sha256"], recorded["chosen"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ContextError(f"{path} is no manifest of a context") from error
    return dict(recorded)


def difference_lines(changes: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """A difference of two manifests as people read it."""
    marks = {"added": "+", "removed": "-", "moved": "~", "resized": "="}
    lines = [
        f"{marks[what]} {what:<8} {entry['place']} ({_detail(what, entry)})"
        for what, entries in changes.items()
        for entry in entries
    ]
    return lines or ["no difference"]


def _detail(what: str, entry: Mapping[str, Any]) -> str:
    if what == "moved":
        return f"{entry['from']} to {entry['to']}"
    if what == "resized":
        return "with what is around it" if entry["expanded"] else "alone"
    return f"place {entry['rank']}"
