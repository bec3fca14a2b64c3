"""Header fields of a mail as values: decoded text, addresses, Message-IDs, and subjects with their
marks and tags.
"""

import binascii
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parseaddr
from functools import lru_cache
from typing import NamedTuple

import polars as pl

from transforms.mail.list_tags import PATCH_TAG
from transforms.text.charsets import decode_text

MAX_ID_BYTES = 998
"""Bytes of a Message-ID; a line of a mail may hold no more (RFC 5322 section 2.1.1)."""
MIN_ID_CHARS = 6
"""Characters below which something without an @ is not a Message-ID ("y", "n", "none")."""
MAX_FIELD_CHARS = 16384
"""Characters of a header that are looked at; the longest real ones are a quarter of it."""
_MAX_ADDRESS_CHARS = 4096

_FOLD = re.compile(r"[\r\n]+[ \t]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")
# RFC 2047 section 2; blanks inside a Q word are tolerated, as every mail program does.
_WORD = re.compile(r"=\?([^?\s]*)\?([qQbB])\?([^?]*(?:\?(?!=)[^?]*)*)\?=")
_SIMPLE_ADDRESS = re.compile(
    r'\s*(?:"([^"\\<>]*)"|([^"<>(),:;@\\\[\]]*?))\s*<([!#-+\--:=?A-~]+@[!#-+\--:=?A-~]+)>\s*\Z'
)
_BARE_ADDRESS = re.compile(
    r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\Z"
)
_PIPERMAIL_ADDRESS = re.compile(
    r"\s*([^\s<>()]+) at ([^\s<>()]+\.[^\s<>()]+)(?:\s+\((.*)\))?\s*\Z", re.S
)
# The text between two commas of a list of addresses (RFC 5322 section 3.4); a quoted name may hold
# a comma.
_LISTED = re.compile(r"(?:[^,;\"(<]++|\"(?:[^\"\\]|\\.)*\"|\([^()]*\)|<[^<>]*>|[^,;])+")
_LABEL = re.compile(r'\s*"((?:[^"]|"")*)"[^,]*|([^,]+)')
_GROUP_NAME = re.compile(r"\s*[^@<>\",;:]*:(?=.*@|\s*\Z)", re.S)
_ANY_ADDRESS = re.compile(r"[^\s<>\"'(),;:\[\]]+@[^\s<>\"'(),;:\[\]]+")
_ANGLED = re.compile(r"<([^<>]+)>")
# An id that needs no repair: printable ASCII without blanks, at least MIN_ID_CHARS long.
_SOUND_IDS = re.compile(r"<([!-;=?-~]{6,200})>")
_SOUND_ID = re.compile(r"\s*<([!-;=?-~]{6,200})>\s*\Z")
# An address in the phrase "Tom <tgl@example.org>'s message of ..." is not an id.
_SOMEONES_MESSAGE = re.compile(
    r"<[^<>]*>(?='s message\b)|\(?message from [^()<>]*<[^<>]*>(?=[^()<>]* on )", re.I
)
_SPACES = re.compile(r"\s+")


def header_text(raw: str) -> str:
    """An unstructured header, unfolded, RFC 2047 words decoded, raw 8-bit text through the charset
    ladder.

    `raw` is as the email package has it: non-ASCII bytes as surrogate escapes.
    """
    if raw.isascii() and raw.isprintable() and "=?" not in raw:
        return raw[:MAX_FIELD_CHARS].strip()
    text = _FOLD.sub(" ", raw[:MAX_FIELD_CHARS])
    if not text.isascii():
        text = decode_text(text.encode("utf-8", "surrogateescape"), None).text
    if "=?" in text:
        text = _decoded_words(text)
    return _CONTROL.sub("", text.replace("\t", " ")).strip()


def _decoded_words(text: str) -> str:
    """`text` with its encoded words decoded; bytes of neighbours in one charset are joined first."""
    out: list[str] = []
    pending: list[bytes] = []
    charset = ""
    position = 0
    for word in _WORD.finditer(text):
        gap = text[position : word.start()]
        data = _word_bytes(word[2], word[3])
        if data is None:
            continue
        if gap.strip() or not pending or word[1].lower() != charset:
            out.append(decode_text(b"".join(pending), charset or None).text)
            pending.clear()
            if gap.strip() or not position:
                out.append(gap)
        pending.append(data)
        charset = word[1].lower()
        position = word.end()
    out.append(decode_text(b"".join(pending), charset or None).text)
    out.append(text[position:])
    return _FOLD.sub(" ", "".join(out))


def _word_bytes(encoding: str, payload: str) -> bytes | None:
    data = payload.encode("utf-8", "surrogateescape")
    try:
        if encoding in "qQ":
            return binascii.a2b_qp(data, header=True)
        data = data.replace(b" ", b"").rstrip(b"=")
        return binascii.a2b_base64(data + b"=" * (-len(data) % 4))
    except binascii.Error:
        return None


def address(raw: str) -> tuple[str | None, str | None]:
    """Display name and lower-case address of a From header; None for a missing one."""
    return _address(raw[:_MAX_ADDRESS_CHARS])


def _parsed(text: str) -> tuple[str, str]:
    """The name and the address in a text of any form, "" for one that it lacks."""
    name, addr = "", ""
    with suppress(IndexError, ValueError, TypeError, RecursionError):
        name, addr = parseaddr(text)
    if "@" not in addr and (match := _ANY_ADDRESS.search(text)):
        return name or text[: match.start()].strip(" <\"'("), match[0]
    return name, addr


@lru_cache(maxsize=4096)
def _address(raw: str) -> tuple[str | None, str | None]:
    if raw.isascii() and (simple := _SIMPLE_ADDRESS.match(raw)) is not None:
        name = header_text(simple[1] or simple[2] or "")
        return name or None, simple[3].lower()
    if _BARE_ADDRESS.match(raw):
        return None, raw.lower()
    text = _FOLD.sub(" ", raw)
    if not text.isascii():
        text = decode_text(text.encode("utf-8", "surrogateescape"), None).text
    pipermail = _PIPERMAIL_ADDRESS.match(text)
    if pipermail is not None:
        return header_text(pipermail[3] or "") or None, f"{pipermail[1]}@{pipermail[2]}".lower()
    name, addr = _parsed(text)
    name = header_text(name).strip("\"' ")
    addr = _CONTROL.sub("", _SPACES.sub("", addr)).lower()
    if not name and "@" not in addr:
        name, addr = header_text(text), ""
    return name or None, addr or None


class Addresses(NamedTuple):
    """The addresses of a header, lower case, and beside each the display name, empty where there is
    none.
    """

    addresses: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def addresses(values: Sequence[str]) -> Addresses:
    """Who is named by the To or Cc headers of a mail, each address once; a group (RFC 5322) is its
    members.

    >>> addresses(['"Reiss, Thomas" <t@example.org>, list@example.org'])
    Addresses(addresses=('t@example.org', 'list@example.org'), names=('Reiss, Thomas', ''))
    """
    return _addresses(",".join(values)[:MAX_FIELD_CHARS]) if values else _NOBODY


def exchange_name(raw: str) -> str | None:
    """The name in a header X-From, which exports of Exchange and Notes write, or None.

    >>> exchange_name("Mann, Kay </O=ENRON/OU=NA/CN=RECIPIENTS/CN=KMANN>")
    'Mann, Kay'
    >>> exchange_name("Kay Mann/Corp/Enron@ENRON")
    'Kay Mann'
    """
    text = header_text(raw)
    name = _DIRECTORY.split(text.partition("<")[0], maxsplit=1)[0].strip(" \"'")
    return name if name and "@" not in name else None


_DIRECTORY = re.compile(r"/|@(?=\w+\s*$)")
"""Where the place of a person in a directory begins, behind the name."""
_IN_PLACE = re.compile(r"(?i)^['\"]?(\S.*?)['\"]? \(?via \S")
"""The name that a list gives a mail which it sends in its author's place."""
_RELAY = "devnull+"
"""How B4 Relay's addresses begin, which send patches in their authors' place."""


def author(fields: Mapping[str, Sequence[str]]) -> tuple[str | None, str | None]:
    """Display name and lower-case address of a mail's author; None for a missing one.

    A list that sends in its author's place, so that the policy of the author's domain (DMARC) does
    not refuse the mail, names the author in X-Original-From or Reply-To (Mailman's `from_is_list`).
    Exports of Exchange and Notes name the author in X-From, their From has the address alone.

    >>> author({"from": ["Ann via Dev <dev@example.org>"], "to": ["dev@example.org"], "reply-to": ["ann@example.com"]})
    ('Ann', 'ann@example.com')
    """
    name, addr = address(next(iter(fields.get("from", ())), ""))
    name = name or exchange_name(next(iter(fields.get("x-from", ())), ""))
    if not name or not addr or not (by_list := _IN_PLACE.match(name)):
        return name, addr
    lists = addresses((*fields.get("to", ()), *fields.get("cc", ()))).addresses
    is_list = addr in lists or addr.replace("@", ".") in map(
        list_header_id, fields.get("list-id", ())
    )
    if is_list or addr.startswith(_RELAY):
        for header in ("x-original-from", "reply-to"):
            others = [a for a in addresses(fields.get(header, ())).addresses if a != addr]
            if len(others) == 1:
                return by_list[1], others[0]
    return name, addr


_NOBODY = Addresses()


@lru_cache(maxsize=2048)
def _addresses(raw: str) -> Addresses:
    by_address: dict[str, str] = {}
    if ":" in raw:
        raw = _GROUP_NAME.sub("", raw, count=1)
    for one in _LISTED.findall(raw) if '"' in raw or "(" in raw or ";" in raw else raw.split(","):
        name, addr = _address(one.strip()[:_MAX_ADDRESS_CHARS])
        if addr and "@" in addr and not by_address.get(addr):
            by_address[addr] = name or ""
    return Addresses(tuple(by_address), tuple(by_address.values()))


@lru_cache(maxsize=1024)
def list_header_id(raw: str) -> str | None:
    """The id of a list in its List-Id header (RFC 2919), lower case; None if there is none.

    >>> list_header_id("Linux EROFS <linux-erofs.lists.ozlabs.org>")
    'linux-erofs.lists.ozlabs.org'
    """
    inner = raw.rpartition("<")[2].partition(">")[0].strip().lower()
    return (
        inner
        if inner and " " not in inner and inner.isprintable() and len(inner) < MAX_ID_BYTES
        else None
    )


def gmail_labels(raw: str) -> list[str]:
    """The labels of the header X-Gmail-Labels, which Google Takeout writes, each once; one with a
    comma is quoted.

    >>> gmail_labels('=?UTF-8?Q?Inbox,B=C3=BCro/T=C3=BCren,"Ann,_Lee"?=')
    ['Inbox', 'Büro/Türen', 'Ann, Lee']
    """
    names = (
        quoted.replace('""', '"') if quoted else bare
        for quoted, bare in _LABEL.findall(header_text(raw))
    )
    return list(dict.fromkeys(label for name in names if (label := name.strip())))


def message_id(raw: str) -> str | None:
    """The Message-ID of a header, without brackets and folding blanks; None if it holds no usable
    one.

    Unusable are an empty id, one longer than a line may be, and a word too short to be unique.
    """
    if (sound := _SOUND_ID.match(raw)) is not None:
        return sound[1]
    ids = _angled_ids(raw)
    return ids[0] if ids else clean_id(raw)


def in_reply_to(raw: str) -> str | None:
    """The last Message-ID of an In-Reply-To header, phrases such as `Message from X of "Fri"` left
    out.
    """
    if (sound := _SOUND_ID.match(raw)) is not None:
        return sound[1]
    raw = raw[-_MAX_ADDRESS_CHARS:]
    ids = _angled_ids(_SOMEONES_MESSAGE.sub("", _FOLD.sub(" ", raw)))
    if ids:
        return ids[-1]
    bare = [word for word in raw.split() if "@" in word and "<" not in word]
    if len(raw.split()) == 1 and "<" not in raw:
        return clean_id(raw)
    return (
        clean_id(bare[-1].strip('".,;()'))
        if len(bare) == 1 and "message" not in raw.lower()
        else None
    )


def references(raw: str) -> list[str]:
    """The Message-IDs of a References header in order, each once."""
    ids = _SOUND_IDS.findall(raw)
    if len(ids) != raw.count("<"):
        ids = _angled_ids(raw)
    if not ids and "<" not in raw:
        ids = [
            message_id
            for word in raw.split()
            if "@" in word and (message_id := clean_id(word)) is not None
        ]
    return list(dict.fromkeys(ids))


def _angled_ids(raw: str) -> list[str]:
    return [
        message_id for inner in _ANGLED.findall(raw) if (message_id := clean_id(inner)) is not None
    ]


def clean_id(raw: str) -> str | None:
    """`raw` without blanks and control characters, or None if the rest cannot identify a mail."""
    text = raw
    if not text.isascii():
        text = decode_text(text.encode("utf-8", "surrogateescape"), None).text
    if not text.isprintable() or " " in text:
        text = _CONTROL.sub("", _SPACES.sub("", text))
    text = text.strip("<>")
    if (
        not text
        or ("@" not in text and len(text) < MIN_ID_CHARS)
        or len(text.encode()) > MAX_ID_BYTES
    ):
        return None
    return text


_REPLY = r"(?:re|aw|antw|antwort|sv|vs|rif|ris|res|odp|ynt|ang|ref|回复|答复|回覆)"
_FORWARD = r"(?:fwd?|fw|wg|tr|rv|vl|vb|enc|pd|转发)"
_COUNT = r"\s*(?:\[\d+\]|\(\d+\)|\^\d+)?\s*[:：]"
_PREFIX = re.compile(rf"\s*(?:(?:{_REPLY}|{_FORWARD}){_COUNT}|\[[^\[\]]*\])\s*", re.I)


@lru_cache(maxsize=2048)
def subject_norm(subject: str) -> str:
    """`subject` without leading Re:, Fwd: (many languages) and [tags], blanks collapsed, lower
    case.

    A subject that is nothing but tags and prefixes keeps its text, so that it does not match all
    others.
    """
    text = subject
    while (prefix := _PREFIX.match(text)) is not None:
        text = text[prefix.end() :]
    return _SPACES.sub(" ", text).strip().lower() or _SPACES.sub(" ", subject).strip().lower()


_TAG = r"(?:\[[^\[\]]*\]|\(subset\)|subject:)"
# The text before the title: tags, marks of replies and of forwarded mail, in any order.
_HEAD = rf"(?i)^(?:\s*(?:(?:{_REPLY}|{_FORWARD}){_COUNT}|{_TAG}))*\s*"
_REPLY_MARK = rf"(?i)^(?:\s*(?:{_FORWARD}{_COUNT}|{_TAG}))*\s*{_REPLY}{_COUNT}"
_VERSION = r"(?i)(?:\b|patch|rfc)v[\s.]?(\d{1,3})(?:\.\d+)?\b"
_PART = r"\b(\d{1,4})\s*/\s*(\d{1,4})\b"
_TITLE_VERSION = r"(?i)(?:\s*\(|\s*\[|\s*,)\s*v(\d{1,3})\s*[)\]]?\s*$"
_BRANCH = r"(?i)(?:^|[\s\[,])(\d+\.\d+(?:\.\d+|\.y)?(?:-\d+\.\d+)?)\b"
_MAX_CHARS = 1000


def is_reply(subject: str) -> bool:
    """True if a subject begins with `Re:` or its like in another language, tags aside."""
    return re.match(_REPLY_MARK, subject[:_MAX_CHARS]) is not None


def patch_subjects(subjects: pl.Series) -> pl.DataFrame:
    """The facts of each subject, one row per subject.

    Columns: is_reply; is_patch (a tag such as `[PATCH v3 2/7]`, `[RFC v2]` or `[3/5]` is before the
    title); version (1 where none is named), part and parts (null if none is named), branch (the
    release a backport is for, null for others), title (lower case, without tags, marks and version,
    blanks collapsed; empty if there is nothing else).
    """
    subject = subjects.fill_null("").str.slice(0, _MAX_CHARS).alias("subject")
    head = pl.col("subject").str.extract(f"({_HEAD})", 1).fill_null("")
    rest = pl.col("subject").str.replace(_HEAD, "")
    tagged = (
        # A thread has few: each is looked at once.
        pl.DataFrame({"subject": subject.unique()})
        .with_columns(head=head, rest=rest)
        .with_columns(tag=pl.col("head").str.extract(f"({PATCH_TAG})", 1))
    )
    is_patch = pl.col("tag").is_not_null()
    tail = pl.when(is_patch).then(pl.col("rest").str.extract(_TITLE_VERSION, 1))
    title = (
        pl.when(is_patch)
        .then(pl.col("rest").str.replace(_TITLE_VERSION, ""))
        .otherwise(pl.col("rest"))
    )
    version = pl.coalesce(pl.col("head").str.extract(_VERSION, 1), tail).cast(pl.Int64)
    without_version = pl.col("tag").str.replace_all(r"(?i)v[\s.]?\d+(?:\.\d+)?", "")
    facts = tagged.select(
        "subject",
        is_reply=pl.col("subject").str.contains(_REPLY_MARK),
        is_patch=is_patch,
        version=pl.when(is_patch).then(version.fill_null(1)),
        part=pl.when(is_patch).then(pl.col("head").str.extract(_PART, 1).cast(pl.Int64)),
        parts=pl.when(is_patch).then(pl.col("head").str.extract(_PART, 2).cast(pl.Int64)),
        branch=without_version.str.extract(_BRANCH, 1),
        title=title.str.replace_all(r"\s+", " ").str.strip_chars().str.to_lowercase(),
    )
    rows = pl.DataFrame({"subject": subject}).join(
        facts, on="subject", how="left", maintain_order="left"
    )
    return rows.drop("subject")
