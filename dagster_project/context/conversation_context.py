"""The context of a conversation that somebody hands over: the work behind `weft context`."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from assets.protocols.search import Asker
from dagster_project.config.settings import (
    ConversationSourceSettings,
    DocumentSourceSettings,
    Settings,
)
from dagster_project.context.context_index import PublishedVersions
from dagster_project.context.rules import Rules, context_rules, included_chunks
from dagster_project.index.search.completeness import Completeness
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.index.search.statements.sql import query_current
from dagster_project.ledger.ledger import ledger_in
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.outgoing.screen import Screen
from dagster_project.sources.chat_exports import (
    Export,
    chat_names,
    decoded,
    exports_at,
    is_named_as_export,
)
from dagster_project.sources.chats import ChatFiles
from transforms.context import block as context_block
from transforms.context import selection
from transforms.context.passages import Passage, stretches
from transforms.conversations import query_chunks
from transforms.conversations import windows as conversations
from transforms.conversations.exports import Chat
from transforms.conversations.whatsapp import looks_like_whatsapp, read_whatsapp
from transforms.errors import (
    ChatFormatError,
    ContextError,
    IndexUnavailableError,
    QueryError,
    SourceError,
    UnknownIdError,
    shortened,
)
from transforms.mail.messages import mail_in
from transforms.retrieval.citations import cited
from transforms.settings.conversations import ContextSettings
from transforms.text.passages import CountTokens

_GIVEN = "given"
_NO_EXPORT = ("no_chat:", "no_column:", "no_discord:", "not_mail:")
"""The fault of a file that is named as exports are and is none."""
_WINDOW = "SELECT * FROM conversation_windows WHERE doc_id = $window"


@dataclass(frozen=True)
class ConversationText:
    """A conversation to find context for: its Markdown, its messages, and who it is in the
    published index.
    """

    markdown: str
    messages: int = 1
    asker: Asker = Asker()
    rules: Rules = Rules()


@dataclass(frozen=True)
class ContextResult:
    """The outcome for one conversation: CONTEXT with a block, or NO_HITS; faults are raised."""

    outcome: str
    block: str
    manifest: Mapping[str, Any]
    queries: int
    results: int
    documents: int
    seconds: float
    completeness: Completeness
    passages: Sequence[Passage] = ()
    stages: Sequence[Mapping[str, Any]] = ()
    texts: Sequence[str] = ()

    def disclosed(self) -> list[Disclosed]:
        """The passages of the block, with the bytes that it shows of each."""
        spans = [
            (own[0], own[0].shown[1], own[-1].shown[2], own) for own in stretches(self.passages)
        ]
        return [
            Disclosed(
                cited(p.place, start, end), "\n".join(turn.shown[0] for turn in own), p.doc_id
            )
            for p, start, end, own in spans
        ]

    def explained(self) -> dict[str, Any]:
        """The output of `weft context --explain`: stages with counts and milliseconds, queries with
        passages, omissions.
        """
        pairs = zip(self.manifest["queries"], self.texts, strict=True)
        queries = [{**query, "text": text} for query, text in pairs]
        names = ("index_version", "model", "settings", "chosen", "dropped")
        return {
            "stages": list(self.stages),
            "queries": queries,
            **{n: self.manifest[n] for n in names},
        }

    def as_json(self) -> dict[str, Any]:
        """The output of `weft context --json`."""
        return {
            "outcome": self.outcome,
            "version": self.manifest["index_version"],
            "seconds": round(self.seconds, 6),
            "queries": self.queries,
            "results": self.results,
            "documents": self.documents,
            "tokens": self.manifest["block_tokens"],
            "budget_tokens": self.manifest["budget_tokens"],
            "stopped": self.manifest["stopped"],
            "completeness": self.completeness.model_dump(mode="json"),
            "block": self.block,
            "manifest": dict(self.manifest),
        }


def read_conversation(
    settings: Settings, path: Path | None, text: str | bytes | None, timezone: str | None = None
) -> ConversationText:
    """The conversation in a chat export or a mail, or in any other text in UTF-8, such as a source
    file.

    A chat of a configured source is read as that reads it, with its pseudonyms, so that it asks as
    its windows do; other names stay, since nothing of it is stored. Times without a zone are in
    `timezone`, else in that of the source, else UTC. SourceError for a file that cannot be read,
    ChatFormatError for an export that is broken.
    """
    own, chats = _chats_at(settings, path, timezone) if path else ([], [])
    messages, faults = _messages(chats), [fault.reason for chat in chats for fault in chat.faults]
    rules = context_rules(settings, path)
    try:
        if not messages and _is_text(path, faults):
            data = path.read_bytes() if path else text or b""
            read = _text_or_messages(data, settings, timezone or "UTC")
            if isinstance(read, _Text):
                return ConversationText(read.content, 1, Asker([*own, *read.ids]), rules)
            messages = read
    except ChatFormatError as error:
        raise ChatFormatError(str(error) if path is None else f"{path}: {error}") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error}") from error
    if not messages:
        raise ChatFormatError(
            f"{path} holds no conversation: {'; '.join(faults) or 'there is no export'}"
        )
    columns = ([getattr(e, name) for e in messages] for name in ("author", "at", "text"))
    markdown, last = conversations.consolidate(*columns).markdown, max(e.at for e in messages)
    return ConversationText(markdown, len(messages), Asker(own, until=last), rules)


def _chats_at(settings: Settings, path: Path, timezone: str | None) -> tuple[list[str], list[Chat]]:
    """The ids of the windows and documents of configured sources that a file is, and its chats."""
    files = ChatFiles(settings, ledger_in(settings.root))
    exports: Sequence[Export] = files.exports_of(path)
    own = [*files.window_ids(exports), *_document_ids(settings, path)]
    if not exports and is_named_as_export(path):
        exports = _unknown_exports(path)
    return own, [chat for export in _in_zone(exports, timezone) for chat in files.chats(export)]


def _in_zone(exports: Sequence[Export], timezone: str | None) -> Sequence[Export]:
    """Exports whose times without a zone are in `timezone`, unless that is None."""
    if not timezone:
        return exports
    zone = {"timezone": timezone}
    return [
        replace(e, source=e.source.model_copy(update=zone), digest=e.digest + timezone)
        for e in exports
    ]


def _is_text(path: Path | None, faults: Iterable[str]) -> bool:
    """True if a file without messages may be another text than an export."""
    if path is None:
        return True
    return not path.is_dir() and all(fault.startswith(_NO_EXPORT) for fault in faults)


class _Text(NamedTuple):
    """A text that is not a chat, with the Message-ID of a mail."""

    content: str
    ids: Sequence[str] = ()


def _text_or_messages(data: str | bytes, settings: Settings, timezone: str) -> _Text | list[Any]:
    """A mail or another text, or the messages of a chat of WhatsApp that was pasted."""
    data = data if isinstance(data, bytes) else data.encode(errors="replace")
    if mail := mail_in(data, settings.mail):
        return _Text(f"{mail['subject'] or ''}\n\n{mail['body']}", [mail["message_id"]])
    content = decoded(data)
    if not looks_like_whatsapp(content):
        return _Text(content)
    chat = read_whatsapp(content, _GIVEN, timezone)
    return _messages([conversations.masked_chat(chat, None)])


def _messages(chats: Iterable[Chat]) -> list[Any]:
    """The messages of chats, in order, without lines of the program."""
    return [entry for chat in chats for entry in chat.entries if entry.kind == "message"]


def read_window(settings: Settings, window: str) -> ConversationText:
    """A window of the published index, as its context is made by the build; UnknownIdError if there
    is none.
    """
    rows = query_current(settings.root / "index", _WINDOW, {"window": window}).to_pylist()
    if not rows:
        raise UnknownIdError(f"the index holds no window of a conversation {shortened(window)!r}")
    (row,) = rows
    asker = Asker((window,), row["conversation_id"], row["last_at"])
    return ConversationText(row["markdown"], row["message_count"], asker)


def _document_ids(settings: Settings, path: Path) -> list[str]:
    """The documents of configured sources that a file is."""
    sources = [s for s in settings.sources if isinstance(s, DocumentSourceSettings)]
    trees, file = {s.name: Path(settings.place(s)).resolve() for s in sources}, path.resolve()
    own = {name: tree for name, tree in trees.items() if file.is_relative_to(tree)}
    return [f"{name}:{file.relative_to(tree).as_posix()}" for name, tree in own.items()]


def _unknown_exports(path: Path) -> list[Export]:
    """The exports at a place that no source knows."""
    source = ConversationSourceSettings(
        name=_GIVEN, kind="conversation", path=str(path), pseudonyms=False
    )
    exports = list(exports_at(path, source))
    names = chat_names([(str(place), format_) for place, format_, _ in exports])
    return [
        Export(source, str(place), name, format_, files, str(place))
        for name, (place, format_, files) in zip(names, exports, strict=True)
    ]


class _Clock:
    """The stages of one context: the counts before and after each, and its milliseconds."""

    def __init__(self) -> None:
        self.stages: list[dict[str, Any]] = []
        self._start = time.perf_counter()

    def ended(self, stage: str, got: int, gave: int, unit: str) -> None:
        """Note the stage that ends now."""
        now = time.perf_counter()
        took = round((now - self._start) * 1000, 3)
        self.stages.append(
            {"stage": stage, "got": got, "gave": gave, "unit": unit, "milliseconds": took}
        )
        self._start = now


def context_of(
    settings: Settings,
    conversation: ConversationText,
    open_index: SearchIndex | None = None,
    earlier: Sequence[Mapping[str, Any]] = (),
) -> ContextResult:
    """The context of a conversation in the published index (`open_index`, if given), without the
    conversation itself.

    Its passages pass the screen of `open_index`, else that of answers to assistants. Passages that
    blocks with the manifests `earlier` showed are left out. QueryError if the conversation has no
    text.
    """
    if not conversation.markdown.strip():
        raise QueryError("the text is empty: give a question, a mail or a chat to find context for")
    start, clock, counter = time.perf_counter(), _Clock(), PackagedTokenCounter()
    chosen = conversation.rules.narrowed(settings.context)
    queries = _queries(settings, conversation, chosen, counter, clock)
    published = PublishedVersions(settings)
    before = {entry["chunk_id"]: entry for recorded in earlier for entry in recorded["chosen"]}
    with published.open() if open_index is None else nullcontext(published.of(open_index)) as index:
        chosen = index.suited(chosen)
        asker = replace(conversation.asker, text=conversation.markdown)
        candidates = index.candidates(queries, chosen, {_GIVEN: asker})
        candidates = candidates.filter(~pl.col("chunk_id").is_in(list(before)))
        clock.ended("candidates", len(queries), len(candidates), "chunks")
        documents = selection.window_documents(candidates, chosen, index.chunk_vectors)
        results = len(selection.shown_candidates(candidates))
        clock.ended("documents", results, len(documents), "chunks")
        screen = _screen_of(settings, open_index)
        first, unknown = included_chunks(
            index.index, conversation.rules.include, conversation.asker.own
        )
        passages = index.passages([*documents["chunk_id"].to_list(), *first, *before])
        facts, complete = dict(index.facts), index.index.completeness.lacking(index.missing)
    others = selection.scored_passages(documents.filter(~pl.col("chunk_id").is_in(first)), passages)
    ordered = [*(passages[chunk] for chunk in first), *others]
    clock.ended("passages", len(documents), len(ordered), "passages")
    compiling = _compiling(chosen, counter, _shown_before(passages, before))
    compiled = _screened(ordered, compiling, screen)
    clock.ended("block", len(ordered), len(compiled.chosen), "passages")
    facts["rules"] = {**asdict(conversation.rules), "unknown": unknown}
    facts["queries"] = selection.query_coverage(queries, candidates, compiled)
    return ContextResult(
        selection.CONTEXT if compiled.chosen else selection.NO_HITS,
        compiled.block,
        selection.context_manifest(compiled, "\x00".join(queries["text"]), facts, chosen),
        len(queries),
        results,
        len(documents),
        time.perf_counter() - start,
        complete,
        compiled.chosen,
        clock.stages,
        queries["text"].to_list(),
    )


def _queries(
    settings: Settings,
    conversation: ConversationText,
    chosen: ContextSettings,
    counter: PackagedTokenCounter,
    clock: _Clock,
) -> pl.DataFrame:
    """The queries of a conversation: those of its segments, with the terms of its rules."""
    windows, chunks = _cut(settings, conversation, counter)
    clock.ended("cut", conversation.messages, len(chunks), "segments")
    queries = _with_terms(selection.window_queries(windows, chunks, chosen), conversation.rules)
    clock.ended("queries", len(chunks), len(queries), "queries")
    return queries


def _shown_before(
    passages: Mapping[str, Passage], before: Mapping[str, Mapping[str, Any]]
) -> list[Passage]:
    """The passages of earlier blocks that the index still has, as those blocks showed them."""
    return [
        context_block.as_shown(passages[chunk], entry)
        for chunk, entry in before.items()
        if chunk in passages
    ]


def _compiling(
    chosen: ContextSettings, counter: PackagedTokenCounter, earlier: Sequence[Passage]
) -> Callable[[Sequence[Passage]], context_block.CompiledBlock]:
    """The function that makes a block of passages, beside those of earlier blocks."""
    return partial(
        context_block.compile_block,
        budget_tokens=chosen.budget_tokens,
        count=_remembering(counter.counts),
        expand=chosen.expand,
        earlier=earlier,
    )


def _screen_of(settings: Settings, open_index: SearchIndex | None) -> Screen:
    """The screen of an open index, else that of answers to assistants."""
    if open_index is not None:
        return open_index.screen
    return Screen(settings.safety, for_assistant=True)


def _screened(
    ordered: Sequence[Passage],
    compiling: Callable[[Sequence[Passage]], context_block.CompiledBlock],
    screen: Screen,
) -> context_block.CompiledBlock:
    """The block of passages with masks on those that it shows.

    A block shows some thirty of hundreds of passages, and masks took most of its time. A masked
    text may have other tokens, so the block is compiled until all that it shows is masked.
    """
    stored = {passage.chunk_id: passage for passage in ordered}
    masked: dict[str, Passage] = {}
    done: set[tuple[str, bool]] = set()
    while True:
        compiled = compiling([masked.get(chunk, passage) for chunk, passage in stored.items()])
        new = [p for p in compiled.chosen if (p.chunk_id, p.expanded) not in done]
        if screen.is_open or not new:
            return compiled
        shown = {
            p.chunk_id: replace(
                stored[p.chunk_id],
                around=stored[p.chunk_id].around if p.expanded else None,
            )
            for p in new
        }
        for chunk, passage in screen.passages(shown).items():
            is_whole = passage.around is not None
            masked[chunk] = passage if is_whole else replace(passage, around=stored[chunk].around)
            done |= {(chunk, False), (chunk, is_whole)}


def _remembering(count: CountTokens) -> CountTokens:
    """As `count`, which gets each text once."""
    known: dict[str, int] = {}

    def counts(texts: Sequence[str]) -> list[int]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, count(new), strict=True))
        return [known[text] for text in texts]

    return counts


def _cut(
    settings: Settings, conversation: ConversationText, counter: PackagedTokenCounter
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The conversation as a window, and the segments that it is cut into."""
    window = {"doc_id": _GIVEN, "source": "", "partition": ""}
    windows = pl.DataFrame(
        [{**window, "markdown": conversation.markdown, "message_count": conversation.messages}]
    )
    return windows, pl.DataFrame(
        query_chunks.conversation_query_chunks(
            windows.to_arrow(), settings.conversations, counter.counts
        )
    )


def _with_terms(queries: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The queries, and one more with the words of rules."""
    if not rules.terms:
        return queries
    last = queries["query"].max()
    number = int(last) + 1 if isinstance(last, int) else 0
    row = pl.DataFrame({"window_id": [_GIVEN], "query": [number], "text": [" ".join(rules.terms)]})
    return pl.concat([queries, row.cast(queries.schema)])


def reproduced(settings: Settings, recorded: Mapping[str, Any], *, unmasked: bool) -> str:
    """The block of a manifest, rebuilt from the index version that it names, else from the current
    one.

    IndexUnavailableError if that version is not kept and the current one gives other bytes,
    ContextError if it is kept and does.
    """
    place = settings.root / "index" / f"weft-{recorded['index_version']}.duckdb"
    is_kept = place.exists()
    with PublishedVersions(settings).open(place if is_kept else None) as index:
        now = index.facts["index_version"]
        screen = Screen(settings.safety, for_assistant=not unmasked)
        passages = screen.passages(index.passages([e["chunk_id"] for e in recorded["chosen"]]))
    try:
        return context_block.reproduce_block(recorded, passages)
    except ContextError as fault:
        if is_kept:
            raise ContextError(
                f"{fault}; a block made with --unmasked is reproduced with it"
            ) from fault
        raise IndexUnavailableError(
            f"version {recorded['index_version']} of the index is not kept any more, and in the current {now} {fault}; "
            "index.keep_versions says how many are"
        ) from fault


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest that `weft context` wrote; ContextError if the file is none."""
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        recorded = inner if isinstance(inner := recorded.get("manifest"), dict) else recorded
        _ = recorded["index_version"], recorded["block_sha256"], recorded["chosen"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ContextError(f"{path} is not a manifest of a context") from error
    return dict(recorded)


def difference_lines(changes: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """A difference of two manifests as people read it."""
    marks, lines = {"added": "+", "removed": "-", "moved": "~", "resized": "="}, []
    for what, entries in changes.items():
        for e in entries:
            resized = "with what is around it" if e.get("expanded") else "alone"
            details = {"moved": f"{e.get('from')} to {e.get('to')}", "resized": resized}
            place = f"place {e.get('rank')}"
            lines.append(f"{marks[what]} {what:<8} {e['place']} ({details.get(what, place)})")
    return lines or ["no difference"]
