"""The MIME tree of a mail as nodes of the email package: quick for regular mails, repaired for
broken ones.

The email package parses; this module builds the tree of a regular multipart itself from its
delimiter lines, and puts back the lines that the email package leaves out of a broken one.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from email import message_from_bytes, message_from_string
from email.errors import StartBoundaryNotFoundDefect
from email.message import Message
from email.policy import compat32
from email.utils import collapse_rfc2231_value, quote
from functools import lru_cache
from typing import NamedTuple

from transforms.mail.header_block import BLOCK, MIME_FAULTS, regular_fields
from transforms.mail.headers import MAX_FIELD_CHARS, header_text

CONTENT_FIELDS = ("content-type", "content-transfer-encoding", "content-disposition")
_BLANK_LINE = re.compile(rb"\r?\n")
_REGULAR_DEPTH = 8
"""Nesting of multiparts beyond which a mail is unusual."""
_BOUNDARY_GUESS = re.compile(
    r"^--(\S[^\r\n]{0,69}?)[ \t]*\r?\n(?:[!-9;-~]+:.*\n(?:[ \t].*\n)*){0,20}Content-", re.M
)
_HEADERS_AMID = re.compile(r"^(?:--\S.*\r?\n)?Content-[\w-]+:", re.M | re.I)
_COMMENT = re.compile(r"\([^()]*\)")
_NOT_TYPE = re.compile(r"[^!-~]+")
_PATH = re.compile(r"[/\\]")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
MAX_FILENAME_CHARS = 255


class Declared(NamedTuple):
    """The facts of a Content-Type header."""

    kind: str
    charset: str | None
    body_format: str


class MimeLeaf(NamedTuple):
    """A part that holds no others, the multipart/alternative it is in, and how deep."""

    position: int
    part: Message
    declared: Declared
    alternative: int | None
    depth: int


class Tree(NamedTuple):
    """The root of a mail's parts, the text and the pieces that are in none of them, and the
    defects.

    `behind` is the text that list servers write below the last part; `rest` may hold headers and
    encoded lines.
    """

    root: Message
    behind: bytes
    rest: bytes
    defects: list[str]


def mime_headers(fields: dict[str, list[str]]) -> Message:
    """A part that has the Content headers of the mail and nothing else."""
    message = Message(policy=compat32)
    for name, values in fields.items():
        if name.startswith("content-"):
            for value in values:
                message[name] = value[:MAX_FIELD_CHARS]
    return message


def mime_values(fields: dict[str, list[str]], name: str) -> list[str]:
    """The headers of that name as the email package gives them out, one empty value where there is
    none.
    """
    if name not in fields:
        return [""]
    return [
        v[:MAX_FIELD_CHARS]
        if v.isascii()
        else v[:MAX_FIELD_CHARS].encode("ascii", "surrogateescape").decode("ascii", "replace")
        for v in fields[name]
    ]


def repeated_fields(values: Mapping[str, Sequence[str]]) -> list[str]:
    """Defects of Content headers that come twice with different values."""
    return [
        f"{name.replace('-', '_')}_repeated"
        for name, texts in values.items()
        if len(set(texts)) > 1
    ]


def preferred_type(values: Sequence[str], payload: str) -> str:
    """The one of several Content-Type headers that loses no text.

    A multipart whose boundary is in the payload holds parts; plain text shows whatever it is; other
    text comes before types without text.
    """
    kinds = [declared(value, "text/plain").kind for value in values]
    for value, kind in zip(values, kinds, strict=True):
        boundary = (
            mime_headers({"content-type": [value]}).get_boundary()
            if kind.startswith("multipart/")
            else None
        )
        if boundary and f"--{boundary}" in payload:
            return value
    for prefix in ("text/plain", "text/"):
        for value, kind in zip(values, kinds, strict=True):
            if kind.startswith(prefix):
                return value
    return values[0]


def regular_tree(fields: dict[str, list[str]], payload: bytes) -> Tree | None:
    """The parts of a mail if its multiparts are all built as they must be, else None."""
    if b"\r" in payload and payload.count(b"\r") != payload.count(b"\r\n"):
        return None
    root = mime_headers(fields)
    return Tree(root, b"", b"", []) if _with_parts(root, payload, 0) else None


def _with_parts(message: Message, payload: bytes, depth: int) -> bool:
    """Give `message` the parts or the text in `payload`; False if that takes a full parser."""
    kind = declared_by(message).kind
    if not kind.startswith(("multipart/", "message/")):
        message.set_payload(payload.decode("ascii", "surrogateescape"))
        return True
    boundary = message.get_boundary()
    is_known = (
        message.get_content_maintype() == "multipart"
    )  # of a folded type the email package makes text
    if depth > _REGULAR_DEPTH or not is_known or kind == "multipart/digest" or not boundary:
        return False
    parts = regular_parts(payload, boundary.encode("ascii", "replace"))
    if parts is None:
        return False
    for part in parts:
        head = BLOCK.match(part)
        end = 0 if head is None else head.end()
        blank_line = _BLANK_LINE.match(part, end)
        if blank_line is None:
            return False
        fields = regular_fields(part[:end])
        inside = mime_headers(fields)
        if len(inside) > len(fields) or not _with_parts(
            inside, part[blank_line.end() :], depth + 1
        ):
            return False
        message.attach(inside)
    return True


def parsed_tree(fields: dict[str, list[str]], payload: bytes) -> Tree:
    """The parts of any mail as the email package reads them, with the lines that it left out."""
    mime = "".join(f"{name}: {value}\n" for name, value in mime_headers(fields).raw_items())
    root = message_from_bytes(mime.encode("ascii", "surrogateescape") + b"\n" + payload)
    defects: list[str] = []
    kind = declared_by(root).kind
    guess = _BOUNDARY_GUESS.search(payload_text(root)) if kind.startswith("multipart/") else None
    if guess is not None:
        boundary = guess[1].encode("ascii", "replace").decode()
        reparsed = message_from_bytes(
            f'Content-Type: {kind}; boundary="{boundary}"\n\n'.encode() + payload
        )
        if reparsed.is_multipart():
            defects.append("multipart_without_boundary")
            root = reparsed
    trailing, rest = _repair(root, defects)
    if any(
        isinstance(d, StartBoundaryNotFoundDefect) for node in root.walk() for d in node.defects
    ):
        rest.append(_missing_lines(payload.decode("ascii", "surrogateescape"), root, trailing))
    texts = ["\n".join(text for text in group if text.strip()) for group in (trailing, rest)]
    if any(texts):
        defects.append("text_outside_parts")
    below, odd = (text.encode("utf-8", "surrogateescape") for text in texts)
    return Tree(root, below, odd, defects)


def _repair(root: Message, defects: list[str]) -> tuple[list[str], list[str]]:
    """Mend the nodes of a tree in place; returns the texts behind the last part of a multipart, and
    defects there.
    """
    trailing: list[str] = []
    rest: list[str] = []
    stack: list[tuple[Message, int, frozenset[str]]] = [(root, 0, frozenset())]
    while stack:
        node, depth, above = stack.pop()
        if node is not root:
            fields = {name: [str(v) for v in node.get_all(name, [])] for name in CONTENT_FIELDS}
            defects += repeated_fields(fields)
            if len(set(fields["content-type"])) > 1 and not node.is_multipart():
                _retype(node, fields["content-type"])
        if node.is_multipart() and node.epilogue and node.epilogue.strip():
            text = _reopened(node, defects) if depth <= _REGULAR_DEPTH else node.epilogue
            (rest if _HEADERS_AMID.search(text) else trailing).append(text)
        boundary = node.get_boundary() if declared_by(node).kind.startswith("multipart/") else None
        if boundary:
            # A delimiter that closes one multipart opens a part of another.
            if not above.isdisjoint((boundary, f"{boundary}--", boundary.removesuffix("--"))):
                defects.append("multipart_boundary_ambiguous")
            above |= {boundary}
        stack.extend((child, depth + 1, above) for child in children(node))
    return trailing, rest


def _retype(node: Message, values: list[str]) -> None:
    """Give a node without parts the one of its types with which no text is lost, and the parts of
    that type.
    """
    text = payload_text(node)
    chosen = preferred_type(values, text)
    del node["content-type"]
    node["content-type"] = chosen
    if declared_by(node).kind.startswith("multipart/"):
        reparsed = message_from_string(f"Content-Type: {chosen}\n\n{text}")
        node.set_payload(reparsed._payload)  # type: ignore[attr-defined]
        node.epilogue = reparsed.epilogue


def _reopened(node: Message, defects: list[str]) -> str:
    """Attach the parts that stand behind the closing delimiter of a multipart; the text that is in
    no part.
    """
    boundary, epilogue = node.get_boundary() or "", node.epilogue or ""
    delimiter = re.compile(rf"^--{re.escape(boundary)}(?:--)?[ \t]*(?=\r?$)", re.M)
    first = delimiter.search(epilogue)
    if first is None:
        return epilogue
    # Closing delimiters become plain ones, so that one more pass reads all that is behind them.
    trailing = delimiter.sub(lambda _: f"--{boundary}", epilogue[first.start() :])
    reparsed = message_from_string(
        f'Content-Type: multipart/mixed; boundary="{quote(boundary)}"\n\n{trailing}'
    )
    parts = [
        part
        for part in children(reparsed)
        if len(part) or part.is_multipart() or payload_text(part).strip()
    ]
    for part in parts:
        node.attach(part)
    if parts:
        defects.append("multipart_reopened")
    return epilogue[: first.start()] if reparsed.is_multipart() else epilogue


def _missing_lines(source: str, root: Message, trailing: list[str]) -> str:
    """The lines of `source` that are in no node: the email package drops lines behind a wrong
    delimiter.
    """
    present = Counter(_line_keys("\n".join(trailing)))
    for node in root.walk():
        if node is not root:
            present.update(
                _line_keys("".join(f"{name}:{value}\n" for name, value in node.raw_items()))
            )
        present.update(_line_keys(payload_text(node)))
    missing: list[str] = []
    for line in source.splitlines(keepends=True):
        key = "".join(line.split())
        if present[key]:
            present[key] -= 1
        elif key and not key.startswith("--"):
            missing.append(line)
    return "".join(missing)


def _line_keys(text: str) -> Iterator[str]:
    return ("".join(line.split()) for line in text.splitlines())


_MAX_PARTS = 1000
"""Parts of one mail that are looked at."""


def leaves(
    root: Message, levels: int, note: Callable[[str], None], first: int
) -> Iterator[MimeLeaf]:
    """The parts that hold no others, in order, without recursion; messages inside count as one
    part.
    """
    stack: list[tuple[Message, int | None, int]] = [(root, None, 0)]
    index = first - 1
    while stack:
        part, alternative, depth = stack.pop()
        index += 1
        if index >= _MAX_PARTS:
            note("mime_too_many_parts")
            return
        content = declared_by(part)
        kind = content.kind
        if part.is_multipart() and not kind.startswith("message/"):
            if depth >= levels:
                note("mime_too_deep")
                continue
            inside = index if kind == "multipart/alternative" else alternative
            for child in reversed(children(part)):
                stack.append((child, inside, depth + 1))
            continue
        yield MimeLeaf(index, part, content, alternative, depth)
        if kind.startswith("message/") and part.is_multipart():
            index += sum(1 for _ in part.walk()) - 1


def children(part: Message) -> list[Message]:
    """The parts directly inside a part."""
    payload = part._payload  # type: ignore[attr-defined]  # get_payload would decode, and fail for a charset with NUL
    return (
        [child for child in payload if isinstance(child, Message)]
        if isinstance(payload, list)
        else []
    )


def is_body(leaf: MimeLeaf) -> bool:
    """Whether a part is shown as the mail's text; a multipart that could not be taken apart is."""
    if leaf.depth == 0:
        return leaf.declared.kind.startswith(("text/", "multipart/"))
    if not leaf.declared.kind.startswith(("text/plain", "text/html", "multipart/")):
        return False
    try:
        disposition = leaf.part.get_content_disposition()
    except MIME_FAULTS:
        disposition = None
    return disposition != "attachment" and filename(leaf.part) is None


def payload_text(part: Message) -> str:
    """The undecoded payload of a part that holds no others, bytes that are not ASCII as surrogate
    escapes.
    """
    payload = part._payload  # type: ignore[attr-defined]
    return payload if isinstance(payload, str) else ""


def declared_by(part: Message) -> Declared:
    """The facts of the Content-Type header of a part."""
    return declared(str(part.get("content-type", "")), part.get_default_type())


@lru_cache(maxsize=4096)
def declared(raw: str, default: str) -> Declared:
    """The facts of a Content-Type header; most mails of an archive share a handful of them."""
    part = Message(policy=compat32)
    part.set_default_type(default)
    if raw:
        part["Content-Type"] = raw
    try:
        kind = part.get_content_type()
    except MIME_FAULTS:
        kind = "text/plain"
    kind = _NOT_TYPE.sub("", kind)[:MAX_FILENAME_CHARS]
    body_format = "html" if kind == "text/html" else "plain"
    if kind == "text/plain" and _param(part, "format").strip().lower() == "flowed":
        body_format = "flowed_delsp" if _param(part, "delsp").strip().lower() == "yes" else "flowed"
    return Declared(kind, _param(part, "charset") or None, body_format)


@lru_cache(maxsize=1024)
def encoding_name(raw: str) -> str:
    """The transfer encoding that a header names, without comments and parameters."""
    return _COMMENT.sub("", raw).lower().partition(";")[0].strip(" \t\r\n\"'")


def _param(part: Message, name: str) -> str:
    try:
        value = part.get_param(name, "")
        return collapse_rfc2231_value(value) if isinstance(value, tuple) else str(value or "")
    except MIME_FAULTS:
        return ""


def filename(part: Message) -> str | None:
    """The file name of a part, without directories and control characters, cut at 255 characters."""
    try:
        raw = part.get_filename()
    except MIME_FAULTS:
        raw = None
    if not raw:
        return None
    name = _PATH.split(header_text(raw))[-1]
    name = _UNPRINTABLE.sub("", name).strip(" .\t\"'") if name.strip(". ") else ""
    return name[:MAX_FILENAME_CHARS] or None


def regular_parts(payload: bytes, boundary: bytes) -> list[bytes] | None:
    """The parts between the delimiter lines, without the line end before each delimiter.

    None if the body needs a full parser: a longer line begins like a delimiter, the closing
    delimiter is missing, text follows it, or a part has no line.

    >>> regular_parts(b"--x\\n\\none\\n--x\\n\\ntwo\\n--x--\\n", b"x")
    [b'\\none', b'\\ntwo']
    """
    delimiter = b"--" + boundary
    parts: list[bytes] = []
    at = 0 if payload.startswith(delimiter) else payload.find(b"\n" + delimiter) + 1
    if not at and not payload.startswith(delimiter):
        return None
    while True:
        line = payload.find(b"\n", at) + 1
        mark = payload[at + len(delimiter) : line or len(payload)].rstrip(b"\r\n")
        if mark == b"--":
            return None if line and payload[line:].strip() else parts or None
        following = payload.find(b"\n" + delimiter, line - 1) + 1
        if mark or not line or not following:
            return None
        end = following - 1
        if payload.startswith(b"\r", end - 1):
            end -= 1
        if end < line:
            return None
        parts.append(payload[line:end])
        at = following
