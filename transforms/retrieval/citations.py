"""The citation of a text: its place, in words that lead back to it."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def citation(hit: Mapping[str, Any]) -> str:
    """Node of a document, or Message-ID and attachment or block, or window of a conversation; then
    page and bytes.

    `hit` has doc_id, source_kind, node_id, attachment_id, block_index, page, byte_start and
    byte_end.
    """
    if hit["node_id"]:
        place = hit["node_id"]
    elif hit["attachment_id"]:
        place = f"{hit['doc_id']} attachment {hit['attachment_id'][:12]}"
    elif hit["block_index"] is not None:
        place = f"{hit['doc_id']} block {hit['block_index']}"
    else:
        place = hit["doc_id"]
    if hit["page"] is not None:
        place += f" page {hit['page']}"
    return cited(place, hit["byte_start"], hit["byte_end"])


def page_of_words(
    first: int | None, breaks: Sequence[int] | None, words: Iterable[tuple[int, int] | None]
) -> int | None:
    """The page that most of the words of a hit stand on; the hit's first page without any, None
    without pages.

    `breaks` are the bytes at which pages begin in the text of the hit, `words` the byte ranges of
    words in it.

    >>> page_of_words(3, [100], [(90, 95), (110, 115), (120, 125)])
    4
    """
    if first is None:
        return None
    pages = Counter(first + bisect_right(breaks or (), word[0]) for word in words if word)
    return max(pages, key=lambda page: (pages[page], -page), default=first)


def cited(place: str, byte_start: int, byte_end: int) -> str:
    """A place and the half-open range of UTF-8 bytes of its stored text."""
    return f"{place} bytes {byte_start}-{byte_end}"
