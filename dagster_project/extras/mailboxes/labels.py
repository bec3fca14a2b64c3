"""Labels and flags of a fetched mail, in the header X-Gmail-Labels before its own, as Google
Takeout writes it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from email.header import Header
from typing import Any

from imapclient.imap_utf7 import decode

_OWN = re.compile(rb"\AX-Gmail-Labels:[^\n]*\n")
_ANY = re.compile(rb"(?im)^x-gmail-labels[ \t]*:")
_MOST_CHARS = 2000
"""Characters of all labels of a mail; a reader of the header takes 16,384 after encoding, four for
a character.
"""


def flag_labels(parts: Mapping[bytes, Any]) -> list[str]:
    """The labels of a mail by its FLAGS and X-GM-LABELS, sorted: `seen` for \\Seen, `Inbox` for
    Gmail's \\Inbox.

    \\Recent is of the session, not of the mail.
    """
    words, labels = (
        # A name of digits comes as a number, and NIL as None.
        [
            decode(one if isinstance(one, bytes) else str(one).encode())
            for one in parts.get(item, ())
        ]
        for item in (b"FLAGS", b"X-GM-LABELS")
    )
    own = (word for word in words if word.lower() != "\\recent")
    names = [word[1:].lower() if word.startswith("\\") else word for word in own]
    return clean_labels([*names, *(label.removeprefix("\\") for label in labels)])


def clean_labels(names: Iterable[str]) -> list[str]:
    """The names as labels of a mail: sorted, without signs that nobody sees, and no more than a
    header holds.
    """
    short, chars = list[str](), 0
    for label in sorted(
        {"".join(filter(str.isprintable, label)).strip() for label in names} - {""}
    ):
        chars += len(label) + 4
        short += [label] if chars <= _MOST_CHARS else []
    return short


def label_line(labels: Collection[str]) -> bytes:
    """The header with labels; one with a comma or a quote is quoted, and letters outside ASCII are
    encoded.

    >>> label_line(["Ann, Lee", "seen"])
    b'X-Gmail-Labels: "Ann, Lee",seen\\n'
    """
    quoted = (
        '"{}"'.format(one.replace('"', '""')) if {",", '"'} & set(one) else one for one in labels
    )
    text = ",".join(quoted)
    is_plain = text.isascii() and "=?" not in text
    return f"X-Gmail-Labels: {text if is_plain else Header(text, 'utf-8').encode(maxlinelen=0)}\n".encode()


def with_labels(mail: bytes, labels: Collection[str]) -> bytes:
    """A mail, stored or as it came, with these labels; one without any is as it came.

    A sender's own header gets an empty one before it, as the first counts.
    """
    own = _OWN.match(mail)
    mail = mail[own.end() :] if own else mail
    is_forged = _ANY.search(mail.partition(b"\n\n")[0])
    return label_line(labels) + mail if labels or is_forged else mail
