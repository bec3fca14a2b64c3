"""Screens and bounds of answers: secrets masked or held back as `safety.outputs` says, and the
bounds of a lens.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from dagster_project.outgoing.receipts import Disclosed
from transforms.context.passages import Passage
from transforms.errors import (
    DisclosureLimitError,
    LensError,
    QueryError,
    QueryInterruptedError,
    UnknownIdError,
    WeftError,
)
from transforms.hashing import bytes_sha256
from transforms.settings.models import SafetySettings
from transforms.settings.search import LensSettings
from transforms.text.finds import FIND_KINDS

_NAMES = {
    "id",
    "path",
    "place",
    "slug",
    "citation",
    "source",
    "source_kind",
    "chunk_kind",
    "kind",
    "reason",
    "stands_for",
    "reranker",
    "label",
}
"""Columns that name things, beside those that end with _id."""
_SHOWN_OF_HITS = (
    "subject",
    "title",
    "from_name",
    "from_addr",
    "breadcrumb",
    "filename",
    "thread_subject",
    "answered_name",
)
Ask = Callable[[str, Mapping[str, object]], pa.Table]
"""Gives the rows of a statement with named parameters on one published file."""
_MARK = re.compile(rf"\[({'|'.join(FIND_KINDS)})\]")


@dataclass
class Screen:
    """The screen for texts of one answer; `finds` counts by kind what it masked or held back.

    Addresses that a pattern of `clear` matches stay as they are.
    """

    settings: SafetySettings
    for_assistant: bool = False
    clear: tuple[str, ...] = ()
    finds: Counter[str] = field(default_factory=Counter)

    def text(self, text: str) -> str:
        """The text as it may be shown: of the same number of bytes, unless it is held back as a
        whole.
        """
        return self.shown([text])[0]

    def shown(self, texts: Sequence[str]) -> list[str]:
        """Each of the texts as `text`: many at once take a fraction of the time."""
        if self.is_open:
            return list(texts)
        shown = []
        for text, masked, finds in zip(texts, *self._masked(texts), strict=True):
            finds.update(_MARK.findall(text))
            self.finds += finds
            is_held = finds and self.settings.outputs == "hold"
            shown.append(f"[held back: {', '.join(sorted(finds))}]" if is_held else masked)
        return shown

    def count(self, texts: Iterable[str]) -> None:
        """Let `finds` be those behind the marks in texts that are shown."""
        self.finds.clear()
        if not self.is_open:
            self.finds.update(mark for text in texts for mark in _MARK.findall(text))

    def masked(self, texts: Sequence[str]) -> list[str]:
        """Whole texts, masked before parts of them are shown: a cut before that could cut a key so
        that nothing finds it.
        """
        return list(texts) if self.is_open else self._masked(texts)[0]

    def _masked(self, texts: Sequence[str]) -> tuple[list[str], list[Counter[str]]]:
        from transforms.text.redaction import masked_in_place

        return masked_in_place(texts, self.settings, self.clear)

    @property
    def is_open(self) -> bool:
        """True if all texts are shown as they are."""
        action = self.settings.outputs
        return action == "send" or (action == "assistants" and not self.for_assistant)

    def asking(self, ask: Ask) -> Ask:
        """As `ask`, with the texts of its rows masked; names of things stay, since they open them."""
        if self.is_open:
            return ask

        def masked(statement: str, values: Mapping[str, object]) -> pa.Table:
            rows = ask(statement, values)
            for number, name in enumerate(rows.column_names):
                if _is_text(name, rows.schema.field(number).type):
                    texts = self._masked_values(rows.column(number).to_pylist())
                    rows = rows.set_column(
                        number, name, pa.array(texts, rows.schema.field(number).type)
                    )
            return rows

        return masked

    def _masked_values(self, values: list[Any]) -> list[Any]:
        """Texts, and lists of texts, masked; None stays None."""
        if any(isinstance(value, list) for value in values):
            return [value and self._masked_values(value) for value in values]
        texts = iter(self.masked([value for value in values if value is not None]))
        return [None if value is None else next(texts) for value in values]

    def hits(self, hits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Hits with their texts masked, and as they may be shown those that are shown as a whole."""
        rows = [dict(hit) for hit in hits]
        if self.is_open or not rows:
            return rows
        for name in ("text_display", "answered_text"):
            for row, text in zip(
                rows, self._masked_values([row[name] for row in rows]), strict=True
            ):
                row[name] = text
        for name in _SHOWN_OF_HITS:
            texts = self.shown([row[name] or "" for row in rows])
            for row, text in zip(rows, texts, strict=True):
                row[name] = row[name] and text
        for row in rows:
            titles = self.shown([part["title"] for part in row["more"]])
            row["more"] = [
                {**part, "title": title} for part, title in zip(row["more"], titles, strict=True)
            ]
        return rows

    def words(self, words: Sequence[str]) -> list[str]:
        """Words of the index as they may be suggested: one with a digit may be a part of a key."""
        return list(words) if self.is_open else [word for word in words if word.isalpha()]

    def optional(self, text: str | None) -> str | None:
        """As `text`; None stays None."""
        return None if text is None else self.text(text)

    def passages(self, passages: Mapping[str, Passage]) -> dict[str, Passage]:
        """Passages with masks on their texts."""
        own = [(p.text, p.title, p.around or "") for p in passages.values()]
        shown = self.shown([text for texts in own for text in texts])
        return {
            chunk: replace(
                passage,
                text=text,
                title=title,
                around=None if passage.around is None else around,
            )
            for (chunk, passage), text, title, around in zip(
                passages.items(), shown[::3], shown[1::3], shown[2::3], strict=True
            )
        }


def _is_text(name: str, kind: pa.DataType) -> bool:
    item = kind.value_type if pa.types.is_list(kind) else kind
    is_string = pa.types.is_string(item) or pa.types.is_large_string(item)
    return is_string and name not in _NAMES and not name.endswith("_id")


_OF_THE_QUESTION = (
    QueryError,
    UnknownIdError,
    LensError,
    DisclosureLimitError,
    QueryInterruptedError,
)
"""Faults whose texts are made of the question and of shown texts."""


def fault_text(fault: WeftError, lens: str | None) -> str:
    """The text of a fault as servers answer it: without a lens, or if it is the question's, all but
    a command's option.
    """
    if lens is None or isinstance(fault, _OF_THE_QUESTION):
        return str(fault).replace(" (--plain)", "")
    return "there is no answer now: whoever runs this server can ask `weft doctor` why"


_SHORT = 4_000
"""Bytes of a document that may be shown as a whole: one passage of a mail is often all of it."""
Sizes = Callable[[Sequence[str]], Mapping[str, int]]
"""Gives the bytes of documents by id."""


class Disclosure(NamedTuple):
    """A text that a session was shown: the document it is of, its hash, tokens and bytes."""

    doc_id: str
    sha256: str
    tokens: int
    bytes: int


class Disclosures:
    """The texts that one session was shown, each once; several threads may add to it."""

    def __init__(self, name: str, lens: LensSettings, entries: Iterable[Disclosure] = ()):
        self.name, self.lens = name, lens
        self._entries = {entry.sha256: entry for entry in entries}
        self._lock = threading.Lock()

    def add(
        self,
        passages: Sequence[Disclosed],
        count: Callable[[Sequence[str]], list[int]],
        sizes: Sizes,
    ) -> list[Disclosure]:
        """Note the texts of an answer and return the new ones; DisclosureLimitError, and none
        noted, if that is too much.
        """
        if not self.lens.is_limited:
            return []
        entries = [
            Disclosure(
                passage.doc_id, bytes_sha256(data := passage.text.encode()), tokens, len(data)
            )
            for passage, tokens in zip(
                passages, count([passage.text for passage in passages]), strict=True
            )
        ]
        with self._lock:
            before = len(self._entries), sum(entry.tokens for entry in self._entries.values())
            all_of_it = self._entries | {entry.sha256: entry for entry in entries}
            new = [all_of_it[name] for name in all_of_it.keys() - self._entries.keys()]
            self._require("passages", self.lens.passages, before[0], len(new))
            self._require("tokens", self.lens.tokens, before[1], sum(entry.tokens for entry in new))
            if self.lens.share is not None:
                of = sorted({entry.doc_id for entry in new if entry.bytes})
                self._require_share(all_of_it.values(), dict.fromkeys(of) | dict(sizes(of)))
            self._entries = all_of_it
        return new

    def _require(self, what: str, limit: int | None, before: int, more: int) -> None:
        if limit is not None and before + more > limit:
            raise DisclosureLimitError(
                f"the lens {self.name!r} shows {limit:,} {what} in a session, {max(0, limit - before):,} are left and this "
                f"answer has {more:,} new ones: ask for less, or begin another session"
            )

    def _require_share(
        self, entries: Iterable[Disclosure], sizes: Mapping[str, int | None]
    ) -> None:
        """A thing without a size of its own, as a thread, is shown by its parts alone."""
        share = self.lens.share or 1
        bytes_of = dict.fromkeys(sizes, 0)
        for entry in entries:
            if entry.doc_id in bytes_of:
                bytes_of[entry.doc_id] += entry.bytes
        for doc_id, size in sizes.items():
            if size is None or (size > _SHORT and bytes_of[doc_id] > share * size):
                raise DisclosureLimitError(
                    f"the lens {self.name!r} shows {share:.0%} of a document in a session, which this answer would pass for "
                    f"{doc_id}: ask for a smaller part"
                )
