"""Accounts of texts that were shown: sessions of `weft context`, files of manifests without text; a
command under a lens.
"""

import fcntl
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from dagster_project.config.settings import Settings
from dagster_project.index.search.lookup import document_bytes
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.outgoing.receipts import Disclosed, Receipts, Seen
from dagster_project.outgoing.screen import Disclosure, Disclosures
from transforms.errors import ContextError

_FOLDER = "sessions"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Session:
    """The turns of a session, and the file to which the next is added."""

    def __init__(self, name: str, file: BinaryIO):
        self.name, self._file = name, file
        self.turns: list[dict[str, Any]] = []
        end = 0
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break  # a kill cut it off: its block was never shown
            self.turns.append(_turn(line, number, name))
            end += len(line)
        self._end = end

    @property
    def manifests(self) -> list[Mapping[str, Any]]:
        """The manifests of the turns, the first first."""
        return [turn["manifest"] for turn in self.turns]

    @property
    def entries(self) -> list[Disclosure]:
        """The disclosures of the turns that a lens counts."""
        return [Disclosure(*entry) for turn in self.turns for entry in turn["entries"]]

    def manifest(self, number: int) -> Mapping[str, Any]:
        """The manifest of a turn, from 1; ContextError if the session lacks it."""
        if not 1 <= number <= len(self.turns):
            raise ContextError(f"session {self.name} has {len(self.turns)} turns, not {number}")
        return self.manifests[number - 1]

    def require_lens(self, lens: str | None) -> None:
        """ContextError if the session goes under another lens: its turns would show texts that this
        one does not.
        """
        if self.turns and self.turns[0]["lens"] != lens:
            under = f"lens {self.turns[0]['lens']}" if self.turns[0]["lens"] else "no lens"
            raise ContextError(f"session {self.name} goes under {under}; begin one of another name")

    def add(
        self, lens: str | None, manifest: Mapping[str, Any], entries: Sequence[Disclosure]
    ) -> None:
        """Add a turn, before its block is shown."""
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        turn = {
            "turn": len(self.turns) + 1,
            "at": at,
            "lens": lens,
            "manifest": manifest,
            "entries": entries,
        }
        line = json.dumps(turn, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._file.truncate(self._end)
        self._file.seek(self._end)
        self._file.write(line)
        self._file.flush()
        self._end += len(line)
        self.turns.append(json.loads(line))


@contextmanager
def opened_session(root: Path, name: str) -> Iterator[Session]:
    """The session of that name below the folder of a storage, for one command at a time;
    ContextError for a bad name.
    """
    if not _NAME.fullmatch(name):
        raise ContextError(
            "a session is named by 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        )
    place = root / _FOLDER / f"{name}.jsonl"
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.touch(exist_ok=True)
    with place.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield Session(name, file)


def _turn(line: bytes, number: int, name: str) -> dict[str, Any]:
    try:
        turn = json.loads(line)
        _ = turn["manifest"]["chosen"], turn["lens"], turn["entries"]
    except (ValueError, KeyError, TypeError) as error:
        raise ContextError(
            f"line {number} of session {name} is not a turn: move the file away to begin again"
        ) from error
    return dict(turn)


class Account:
    """The account of one command, which sees `index` under the lens of that name, behind the
    disclosures `before`.
    """

    def __init__(
        self, settings: Settings, lens: str, index: SearchIndex, before: Iterable[Disclosure] = ()
    ):
        self.settings, self.lens, self.index = settings, lens, index
        self.disclosures = Disclosures(lens, settings.lenses[lens], before)

    def note(
        self, tool: str, question: str, passages: Sequence[Disclosed], masked: Counter[str]
    ) -> Sequence[Disclosure]:
        """The additions of an answer to the session, after its receipt is written;
        DisclosureLimitError beyond bounds.
        """
        sizes = partial(document_bytes, self.index.ask)
        entries = self.disclosures.add(passages, PackagedTokenCounter().counts, sizes)
        if self.settings.mcp.receipts:
            view = Seen(self.index.version, self.lens)
            Receipts(self.settings.root).add(tool, question, view, passages, masked)
        return entries
