"""Names of people to stable pseudonyms: keyed, in the form of UUIDs, in author columns and inside
texts.
"""

import hmac
import re
import unicodedata
import uuid
from collections.abc import Callable, Iterable

_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_MARKED = re.compile("@\u2068([^\u2068\u2069\n]{1,120})\u2069")
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
_WORD = re.compile(r"\w+")
_MENTIONED = re.compile(r"@\W?(\w+)")
_NUMBER = 6
_LETTERS = 3
"""Names with fewer letters or digits are replaced only after an @, as they are often other words.
"""

Pseudonym = Callable[[str], str]


def keyed_pseudonym(key: bytes) -> Pseudonym:
    """A function from a name to its pseudonym: the first 16 bytes of HMAC-SHA-256 in the form of a
    UUID.

    Names that differ in case, invisible marks, blanks or Unicode form alone are one name.
    """

    def pseudonym(name: str) -> str:
        digest = hmac.digest(key, _folded(name).encode(), "sha256")
        return str(uuid.UUID(bytes=digest[:16], version=5))

    return pseudonym


def is_pseudonym(author: str) -> bool:
    """True if an author is a pseudonym."""
    return bool(_UUID.fullmatch(author))


def short_pseudonyms(text: str) -> str:
    """`text` with its pseudonyms cut to their first eight letters, as people read them.

    >>> short_pseudonyms("4a230d6a-85bc-5254-acb3-4797a548f01b added you")
    '4a230d6a added you'
    """
    return _UUID.sub(lambda match: match[0][:8], text)


def pseudonym_tails(text: str) -> list[int]:
    """The start and end, in characters, of each piece of `text` that `short_pseudonyms` leaves out.

    >>> pseudonym_tails("4a230d6a-85bc-5254-acb3-4797a548f01b added you")
    [8, 36]
    """
    return [at for match in _UUID.finditer(text) for at in (match.start() + 8, match.end())]


def masked_texts(texts: Iterable[str], names: Iterable[str], pseudonym: Pseudonym) -> list[str]:
    """`texts` with the names of people replaced by their pseudonyms.

    Replaced are full names of `names` (those of two and more words, and addresses, whatever their
    case, single words as written), a name or an unambiguous first name behind an `@`, a telephone
    number behind an `@`, and whatever is between the marks that WhatsApp puts around a mention.
    First names without an `@` stay: they are too often other words.
    """
    originals = list(texts)
    joined = "\n".join(originals)
    folded = joined.casefold()
    words, mentioned = set(_WORD.findall(folded)), set(_MENTIONED.findall(folded))
    people = {" ".join(_INVISIBLE.sub("", n).split()) for n in names}
    people = {n for n in people if _WORD.search(n) and not _UUID.fullmatch(n)}
    present = [n for n in people if _first(n) in words]
    mentions = {m: n for m, n in _mentions(people).items() if _first(m) in mentioned}
    by_word = _by_first_word([n for n in present if sum(c.isalnum() for c in n) >= _LETTERS])
    at = re.compile(rf"@(?:{_longest_first(mentions)})(?!\w)", re.I) if mentions else None

    def masked(text: str) -> str:
        text = _MARKED.sub(lambda m: f"@{pseudonym(m[1])}", text)
        if at:
            text = at.sub(lambda m: f"@{pseudonym(mentions[m[0][1:].casefold()])}", text)
        return _replaced(text, by_word, pseudonym) if by_word else text

    return (
        [masked(text) for text in originals] if at or by_word or "@\u2068" in joined else originals
    )


def _mentions(names: set[str]) -> dict[str, str]:
    """The person named by each text behind an `@`, in lower case: a name, a first name of one
    alone, a number.
    """
    firsts: dict[str, set[str]] = {}
    for name in sorted(names):
        # The first segment may not be a name: `~ Bob` is a contact that the phone does not know.
        first = next(word for word in name.split(" ") if _WORD.search(word))
        firsts.setdefault(first.casefold(), set()).add(name)
    mentions = {first: next(iter(full)) for first, full in firsts.items() if len(full) == 1}
    mentions |= {digits: n for n in sorted(names) if len(digits := re.sub(r"\D", "", n)) >= _NUMBER}
    return mentions | {n.casefold(): n for n in sorted(names)}


def _first(name: str) -> str:
    """The first word of a name, in lower case."""
    match = _WORD.search(name)
    assert match
    return match[0].casefold()


def _by_first_word(names: list[str]) -> dict[str, list[tuple[int, re.Pattern[str]]]]:
    """For each first word the names that begin with it, longest first: the offset of the word, and
    a pattern.

    Names of several words and addresses are found whatever their case, single words as they are.
    """
    patterns: dict[str, list[tuple[int, re.Pattern[str]]]] = {}
    for name in sorted(names, key=lambda n: (-len(n), n)):
        first_word = _WORD.search(name)
        flags = re.I if " " in name or "@" in name else 0
        pattern = re.compile(rf"(?<!\w){_longest_first([name])}(?!\w)", flags)
        patterns.setdefault(_first(name), []).append(
            (first_word.start() if first_word else 0, pattern)
        )
    return patterns


def _replaced(
    text: str, names: dict[str, list[tuple[int, re.Pattern[str]]]], pseudonym: Pseudonym
) -> str:
    """`text` with names replaced: one look-up per word, so that the work does not grow with the
    names.
    """
    texts: list[str] = []
    end = 0
    for word in _WORD.finditer(text):
        for offset, pattern in names.get(word[0].casefold(), ()):
            start = word.start() - offset
            if start >= end and (match := pattern.match(text, start)):
                texts += [text[end:start], pseudonym(match[0])]
                end = match.end()
                break
    return "".join([*texts, text[end:]]) if texts else text


def _longest_first(names: Iterable[str]) -> str:
    ordered = sorted(names, key=lambda n: (-len(n), n))
    return "|".join(re.escape(n).replace(r"\ ", r"\s+") for n in ordered)


def _folded(name: str) -> str:
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
    return " ".join(visible.split()).casefold()
