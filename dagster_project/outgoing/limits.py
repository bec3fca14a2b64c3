"""Bounds of answers under a lens: how much one session may show, and what the text of a fault says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dagster_project.outgoing.receipts import Disclosed
from transforms.errors import (
    DisclosureLimitError,
    LensError,
    QueryError,
    QueryInterruptedError,
    UnknownIdError,
    WeftError,
)
from transforms.hashing import bytes_sha256
from transforms.settings.search import LensSettings

_OF_THE_QUESTION = (QueryError, UnknownIdError, LensError, DisclosureLimitError, QueryInterruptedError)
"""Faults whose texts are made of the question and of what the lens shows."""


def fault_text(fault: WeftError, lens: str | None) -> str:
    """The text of a fault as it is answered: all of it without a lens, or if it is the question's."""
    if lens is None or isinstance(fault, _OF_THE_QUESTION):
        return str(fault)
    return "there is no answer now: `weft doctor` tells whoever runs this server why"


_SHORT = 4_000
"""Bytes of a document that may be shown as a whole: one passage of a mail is often all of it."""
Sizes = Callable[[Sequence[str]], Mapping[str, int]]
"""Gives the bytes of documents by id."""


class Entry(NamedTuple):
    """A text that a session was shown: the document it is of, its hash, tokens and bytes."""

    doc_id: str
    sha256: str
    tokens: int
    bytes: int


class Disclosures:
    """What one session was shown, each text once; several threads may add to it."""

    def __init__(self, name: str, lens: LensSettings, shown: Iterable[Entry] = ()):
        self.name, self.lens = name, lens
        self._entries = {entry.sha256: entry for entry in shown}
        self._lock = threading.Lock()

    def add(
        self, shown: Sequence[Disclosed], count: Callable[[Sequence[str]], list[int]], sizes: Sizes
    ) -> list[Entry]:
        """Note the texts of an answer and return the new ones; DisclosureLimitError, and none noted, if that is too much."""
        if not self.lens.is_limited:
            return []
        found = [
            Entry(passage.doc_id, bytes_sha256(data := passage.text.encode()), tokens, len(data))
            for passage, tokens in zip(shown, count([passage.text for passage in shown]), strict=True)
        ]
        with self._lock:
            before = len(self._entries), sum(entry.tokens for entry in self._entries.values())
            all_of_it = self._entries | {entry.sha256: entry for entry in found}
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

    def _require_share(self, entries: Iterable[Entry], sizes: Mapping[str, int | None]) -> None:
        """What has no size of its own, as a thread, is shown by its parts alone."""
        share = self.lens.share or 1
        shown = dict.fromkeys(sizes, 0)
        for entry in entries:
            if entry.doc_id in shown:
                shown[entry.doc_id] += entry.bytes
        for doc_id, size in sizes.items():
            if size is None or (size > _SHORT and shown[doc_id] > share * size):
                raise DisclosureLimitError(
                    f"the lens {self.name!r} shows {share:.0%} of a document in a session, which this answer would pass for "
                    f"{doc_id}: ask for a smaller part"
                )
