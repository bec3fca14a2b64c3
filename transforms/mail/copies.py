"""Copies of one mail within a list of a partition: which copy to retain, and why the others are
rejected.
"""

from collections import defaultdict
from typing import Any, NamedTuple


class Copy(NamedTuple):
    """One mail: the id of its header or text, its hashes, its id in the tables, and its place in
    the archive.

    `row` is its row of `messages` and `attached` are those of `attachments`; a mail that repeats an
    earlier one lacks them. `is_by_bytes` if it lacks author or time, so that all its bytes are
    compared.
    """

    original_id: str
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
    is_by_bytes: bool


_MOST_VARIANTS = 64
"""Copies with different parts that a mail is compared with; beyond them, only equal copies are
recognised.

This bounds the time for thousands of similar mails of one sender.
"""


class Copies:
    """The mails of one list of a partition, grouped by Message-ID, author, date, subject and body.

    Mails of one group are copies of one mail. A copy is rejected if another copy has all of its
    parts; two copies that each have a part of their own are different mails. Only among equal
    copies does the order decide: the first is retained.
    """

    def __init__(self, used_ids: set[str]) -> None:
        """`used_ids` are those of all lists of the partition; the ids of this one are added."""
        self._first: dict[tuple[str, str], Copy] = {}
        """The first copy of each id and content."""
        self._with_parts: defaultdict[tuple[str, str], list[Copy]] = defaultdict(list)
        """The first copies that have parts, by id and text."""
        self._equal: list[Copy] = []
        self._used_ids = used_ids

    def has(self, row: dict[str, Any]) -> bool:
        """Whether the list has an equal copy of a mail, with the same parts."""
        return (row["message_id"], row["content_hash"]) in self._first

    def is_known(self, row: dict[str, Any]) -> bool:
        """Whether an earlier copy of this mail has all of its parts."""
        if self.has(row):
            return True
        variants = self._variants(row["message_id"], row["text_hash"])
        return bool(variants) and any(
            copy.part_hashes.issuperset(row["part_hashes"]) for copy in variants
        )

    def free_id(self, row: dict[str, Any]) -> str:
        """The id for a new mail: its own, or its own with a suffix if another mail uses that.

        A copy with fewer parts than this one releases its id.
        """
        ident: str = row["message_id"]
        if ident not in self._used_ids:
            return ident
        released = set()
        if row["part_hashes"]:
            earlier = [
                *self._variants(ident, row["text_hash"]),
                *self._partless(ident, row["text_hash"]),
            ]
            earlier = [copy for copy in earlier if copy.row is not None]
            of_others = {
                c.message_id for c in earlier if not c.part_hashes.issubset(row["part_hashes"])
            }
            released = {copy.message_id for copy in earlier} - of_others
        while ident in self._used_ids and ident not in released:
            ident = f"{ident}+{row['content_hash'][:8]}"
        return ident

    def add(self, copy: Copy) -> None:
        """Add a mail to its group."""
        content = copy.original_id, copy.content_hash
        self._used_ids.add(copy.message_id)
        if content in self._first:
            self._equal.append(copy)
            return
        self._first[content] = copy
        if copy.part_hashes:
            self._with_parts[copy.original_id, copy.text_hash].append(copy)

    def rejected(self) -> list[tuple[Copy, str]]:
        """The copies that are not retained, and the reason for each."""
        copies = list(self._equal)
        for (ident, text), variants in self._with_parts.items():
            copies += [*variants, *self._partless(ident, text)]
        pairs = ((copy, self._fullest(copy)) for copy in copies)
        return [(copy, _reason(copy, other)) for copy, other in pairs if other is not copy]

    def _variants(self, ident: str, text: str) -> list[Copy]:
        return self._with_parts.get((ident, text), [])[:_MOST_VARIANTS]

    def _partless(self, ident: str, text: str) -> list[Copy]:
        copy = self._first.get((ident, text))
        return [] if copy is None else [copy]

    def _fullest(self, copy: Copy) -> Copy:
        """The copy with the most parts among those that have all parts of this one."""
        variants = self._variants(copy.original_id, copy.text_hash)
        fuller = [other for other in variants if copy.part_hashes <= other.part_hashes]
        fuller.append(self._first[copy.original_id, copy.content_hash])
        return min(fuller, key=lambda other: (-len(other.part_hashes), other.content_hash))


class ListedCopies:
    """The mails of a partition by list: a mail in two lists is stored in each."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._lists: dict[str | None, Copies] = {}

    def of(self, list_id: str | None) -> Copies:
        """The copies in a list."""
        return self._lists.setdefault(list_id, Copies(self._ids))

    def has(self, row: dict[str, Any]) -> bool:
        """Whether any list has an equal copy of a mail."""
        return any(copies.has(row) for copies in self._lists.values())

    def rejected(self) -> list[tuple[Copy, str]]:
        """The copies that are not retained, and the reason for each."""
        return [copy for copies in self._lists.values() for copy in copies.rejected()]


def _reason(copy: Copy, retained: Copy) -> str:
    if copy.is_by_bytes:
        return f"duplicate: same bytes as {retained.place}, and no Message-ID, author or date to compare by"
    of_id = "same Message-ID," if copy.header_message_id else "no Message-ID in either, same"
    same = f"{of_id} author, date, subject"
    parts = len(retained.part_hashes)
    if copy.content_hash != retained.content_hash:
        return (
            f"lesser_copy: {same} and body as {retained.place}, "
            f"and only {len(copy.part_hashes)} of its {parts} attached parts"
        )
    if not parts:
        return f"duplicate: {same} and body as {retained.place}, and no attached part in either"
    return f"duplicate: {same}, body and {parts} attached parts as {retained.place}"
