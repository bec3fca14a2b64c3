"""Which mails of one partition are copies of each other, and which of the copies is kept."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple


class Copy(NamedTuple):
    """One mail as it came: the id of its header or text, its hashes, its id in the tables, and where it stands.

    `row` is None and `attached` empty where the mail is in no table because a copy of it already was.
    """

    came_as: str
    text_hash: str
    content_hash: str
    part_hashes: frozenset[str]
    message_id: str
    header_message_id: str | None
    place: str
    byte_count: int
    bytes_sha256: str | None
    row: int | None
    attached: range


class Refused(NamedTuple):
    """A copy that is not kept, and why."""

    copy: Copy
    reason: str


_MOST_VARIANTS = 64
"""Copies of one mail with different parts that others are compared with; more, and only equal ones are found.

It bounds the time that mails take whose sender made thousands of them alike.
"""


class Copies:
    """All mails of a partition, those with one Message-ID, author, date, subject and body together.

    These are copies of one mail. One whose parts are all in another copy too is not kept; copies of which
    each has a part that the other lacks are different mails. What is kept does not depend on the order,
    but that of equal copies it is the first.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Copy] = {}
        """The first copy of each id and content."""
        self._with_parts: defaultdict[tuple[str, str], list[Copy]] = defaultdict(list)
        """Of these, the ones that have parts, by id and text."""
        self._equal: list[Copy] = []
        self._taken: set[str] = set()

    def is_known(self, row: dict[str, Any]) -> bool:
        """Whether a copy of this mail with all of its parts has come before."""
        if (row["message_id"], row["content_hash"]) in self._first:
            return True
        return bool(self._with_parts) and any(
            copy.part_hashes.issuperset(row["part_hashes"])
            for copy in self._variants(row["message_id"], row["text_hash"])
        )

    def free_id(self, row: dict[str, Any]) -> str:
        """The id for a mail that is not known: its own, or with a mark where another mail has that one.

        A copy with fewer parts than this one gives its id away.
        """
        ident: str = row["message_id"]
        given_away = set()
        if row["part_hashes"]:
            came = [*self._variants(ident, row["text_hash"]), *self._partless(ident, row["text_hash"])]
            came = [copy for copy in came if copy.row is not None]
            of_others = {c.message_id for c in came if not c.part_hashes.issubset(row["part_hashes"])}
            given_away = {copy.message_id for copy in came} - of_others
        while ident in self._taken and ident not in given_away:
            ident = f"{ident}+{row['content_hash'][:8]}"
        return ident

    def add(self, copy: Copy) -> None:
        """Remember a mail."""
        content = copy.came_as, copy.content_hash
        self._taken.add(copy.message_id)
        if content in self._first:
            self._equal.append(copy)
            return
        self._first[content] = copy
        if copy.part_hashes:
            self._with_parts[copy.came_as, copy.text_hash].append(copy)

    def refused(self) -> list[Refused]:
        """The copies that are not kept."""
        copies = list(self._equal)
        for (ident, text), found in self._with_parts.items():
            copies += [*found, *self._partless(ident, text)]
        kept = ((copy, self._kept(copy)) for copy in copies)
        return [Refused(copy, _reason(copy, other)) for copy, other in kept if other is not copy]

    def _variants(self, ident: str, text: str) -> list[Copy]:
        return self._with_parts.get((ident, text), [])[:_MOST_VARIANTS]

    def _partless(self, ident: str, text: str) -> list[Copy]:
        copy = self._first.get((ident, text))
        return [] if copy is None else [copy]

    def _kept(self, copy: Copy) -> Copy:
        """The fullest of the copies that have all parts of this one."""
        variants = self._variants(copy.came_as, copy.text_hash)
        fuller = [other for other in variants if copy.part_hashes <= other.part_hashes]
        fuller.append(self._first[copy.came_as, copy.content_hash])
        return min(fuller, key=lambda other: (-len(other.part_hashes), other.content_hash))


def _reason(copy: Copy, kept: Copy) -> str:
    same = "same Message-ID, author, date, subject"
    parts = len(kept.part_hashes)
    if copy.content_hash != kept.content_hash:
        return (
            f"lesser_copy: {same} and body as {kept.place}, "
            f"and only {len(copy.part_hashes)} of its {parts} attached parts"
        )
    if not parts:
        return f"duplicate: {same} and body as {kept.place}, and no attached part in either"
    return f"duplicate: {same}, body and {parts} attached parts as {kept.place}"
