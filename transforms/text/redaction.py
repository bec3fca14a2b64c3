"""Secrets and personal data in texts that leave this machine: patterns find, mask or withhold, and
count them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import polars as pl

from transforms.settings.models import SafetySettings
from transforms.text.finds import FIND_KINDS, SECRETS
from transforms.text.finds.finder import finds_in
from transforms.text.finds.forms import Find
from transforms.text.visible import is_picture


@dataclass(frozen=True)
class Screened:
    """Texts that may be sent, the number of finds of each kind, and the number of texts withheld."""

    texts: list[str]
    finds: Counter[str] = field(default_factory=Counter)
    withheld: int = 0


def screened(texts: Sequence[str], settings: SafetySettings) -> Screened:
    """`texts` with every find masked as `[kind]`, or replaced as a whole if the settings withhold
    its kind.

    `[held back: kind]` replaces a withheld text. Screening a second time changes nothing. A lone
    surrogate, which a command line or JSON may contain but a request cannot, becomes a question
    mark. A picture stays as it is.

    >>> screened(["password: hunter2 of ann@example.org"], SafetySettings(emails="mask")).texts
    ['password: [password] of [email]']
    """
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    actions, finds, withheld, rows = _actions(settings), Counter[str](), 0, list[int]()
    for row, in_text in finds_in(pl.Series(texts, dtype=pl.String), actions):
        if is_picture(texts[row]):
            continue
        rows.append(row)
        finds.update(find.kind for find in in_text)
        kind = next((find.kind for find in in_text if actions[find.kind] == "hold"), None)
        withheld += kind is not None
        texts[row] = (
            f"[held back: {kind}]" if kind else _marked(texts[row], in_text, in_place=False)
        )
    if rows:  # a mark may make a find of the words beside it
        again = screened([texts[row] for row in rows], settings)
        for row, text in zip(rows, again.texts, strict=True):
            texts[row] = text
        finds, withheld = finds + again.finds, withheld + again.withheld
    return Screened(texts, finds, withheld)


def masked_in_place(
    texts: Sequence[str], settings: SafetySettings, clear: Sequence[str] = ()
) -> tuple[list[str], list[Counter[str]]]:
    """`texts` with every find behind a mark that takes as many bytes, so that places in them stay
    right; the finds of each text by kind.

    Finds that the settings send stay as they are, and so does an address that one of the patterns
    `clear` matches.

    >>> masked_in_place(["Ask ann@example.org or bo@example.net."], SafetySettings(), ["*@example.net"])[0]
    ['Ask [email]******** or bo@example.net.']
    """
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    finds, rows = [Counter[str]() for _ in texts], list[int]()
    for row, in_text in finds_in(pl.Series(texts, dtype=pl.String), _actions(settings)):
        masked = [find for find in in_text if not _is_clear(texts[row], find, clear)]
        if (text := _marked(texts[row], masked, in_place=True)) != texts[row]:
            rows.append(row)
            finds[row].update(find.kind for find in masked)
            texts[row] = text
    if rows:  # a mark may make a find of the words beside it
        again = masked_in_place([texts[row] for row in rows], settings, clear)
        for row, text, more in zip(rows, *again, strict=True):
            texts[row] = text
            finds[row] += more
    return texts, finds


def _is_clear(text: str, find: Find, clear: Sequence[str]) -> bool:
    """True for an address that one of the patterns matches."""
    address = text.encode()[find.start : find.end].decode().lower() if clear else ""
    return find.kind == "email" and any(fnmatchcase(address, pattern.lower()) for pattern in clear)


def _marked(text: str, finds: Sequence[Find], *, in_place: bool) -> str:
    """A text with a mark for each find, of as many bytes if it is `in_place`."""
    data, parts, last = text.encode(), [], 0
    for start, end, kind in finds:
        mark, size = f"[{kind}]".encode(), end - start
        fitted = mark if not in_place else (mark if size >= len(mark) else b"").ljust(size, b"*")
        parts += (data[last:start], fitted)
        last = end
    return b"".join([*parts, data[last:]]).decode()


def sensitivity(texts: pl.Series) -> pl.Series:
    """Each text's sensitivity: `secret` with a key or password, else `personal` with an address or
    number, else `public`.

    >>> sensitivity(pl.Series(["It works.", "Ask ann@example.org.", 'password: "hunter2"'])).to_list()
    ['public', 'personal', 'secret']
    """
    names = ["public"] * len(texts)
    for row, finds in finds_in(texts, FIND_KINDS):
        names[row] = "secret" if any(find.kind in SECRETS for find in finds) else "personal"
    return pl.Series(names, dtype=pl.String)


def _actions(settings: SafetySettings) -> dict[str, str]:
    """The action for each kind of find that is not sent unchanged."""
    actions = dict.fromkeys(SECRETS, settings.secrets) | {
        "email": settings.emails,
        "phone": settings.phones,
    }
    return {kind: action for kind, action in actions.items() if action != "send"}
