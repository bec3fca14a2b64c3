"""A parsed mail to its rows of the tables `messages` and `attachments`."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from transforms.formats.kinds import CALENDAR
from transforms.hashing import bytes_sha256, parts_hash
from transforms.mail import headers
from transforms.mail.attachments import AttachmentText, Convert, attachment_text, document_text
from transforms.mail.dates import effective_time, received_times, sender_zone, sent_date
from transforms.mail.mime import MimePart, ParsedMail
from transforms.settings.mail import MailSettings
from transforms.toml_file import patterns

SYNTHETIC_DOMAIN = "synthesised.weft.invalid"
"""Domain of the ids of mails without a Message-ID; RFC 2606 reserves `.invalid`."""

_BLANKS = b" \t\n\r\f\v"
_SINGLE_FIELDS = ("from", "date", "subject", "message-id")
"""Headers that a mail has once (RFC 5322 section 3.6); the first of several counts."""
_FOOTER_CHARS = 2500
"""Characters at the end of a body that may contain a list footer."""
_FOOTER = re.compile(rf"\n(?:{patterns(__name__, 'patterns.toml')['footer']})", re.S | re.I)

# Mailman replaces a part that it removes from its archive by this note.
_SCRUBBED = re.compile(
    r"^(?:-{14} next part -{14}\n)?An? .{3,60} (?:was|were) scrubbed\.\.\.\n(?:[A-Z][A-Za-z]+: ?.*(?:\n|\Z))+",
    re.M,
)


def message_row(mail: ParsedMail, data: bytes, envelope_at: datetime | None) -> dict[str, Any]:
    """The row of a mail without the columns of its partition, its place and its size; adds defects
    to the mail.

    `message_id` is the id of its header, or is derived from its `text_hash`. If a mail without id
    lacks author or time, all bytes (`data`) count: nothing else shows that two such mails are
    copies.
    """
    return {
        **_times(mail, envelope_at),
        **_identity(mail, data),
        **_people(mail.fields),
        "body": mail.body,
        "body_format": mail.body_format,
        "charset_outcome": mail.charset_outcome,
        "defects": mail.defects,
    }


def _times(mail: ParsedMail, envelope_at: datetime | None) -> dict[str, Any]:
    fields = mail.fields
    date = sent_date(_first(fields, "date"))
    received, first_hop = received_times(fields.get("received", ()))
    effective, quality = effective_time(date, received, first_hop, envelope_at)
    if date.at is None:
        mail.note("date_unreadable" if _first(fields, "date").strip() else "no_date")
    elif date.repaired:
        mail.note("date_repaired")
    if date.at is not None and quality not in ("sent", "sent_repaired"):
        mail.note("date_implausible")
    return {
        "sent_at": date.at,
        "sent_offset_minutes": None if date.at is None else sender_zone(_first(fields, "date")),
        "received_at": received,
        "effective_at": effective,
        "date_quality": quality,
    }


def _identity(mail: ParsedMail, data: bytes) -> dict[str, Any]:
    """Ids, subject and author of a mail, and the hashes that identify its copies."""
    fields = mail.fields
    for name in _SINGLE_FIELDS:
        if len(fields.get(name, ())) > 1 and len(set(fields[name])) > 1:
            mail.note("header_repeated")
    raw_from, raw_subject = _first(fields, "from"), _first(fields, "subject")
    if not raw_from.isascii() or not raw_subject.isascii():
        mail.note("header_8bit")
    subject = headers.header_text(raw_subject)
    norm = headers.subject_norm(subject)
    from_name, from_addr = headers.author(fields)
    header_id = next(filter(None, map(headers.message_id, fields.get("message-id", ()))), None)
    date = headers.header_text(_first(fields, "date"))
    body = without_additions(mail.body).encode().translate(None, _BLANKS)
    compared: list[str | bytes] = [from_addr or "", date, norm, body]
    if header_id is None:
        mail.note("no_message_id")
        compared += [] if from_addr and date else [data.replace(b"\r\n", b"\n")]
    text = parts_hash(compared)
    hashes = part_hashes(mail.parts)
    ident = header_id or f"{text}@{SYNTHETIC_DOMAIN}"
    parent = headers.in_reply_to(fields.get("in-reply-to", [""])[-1])
    refs = headers.references(" ".join(fields.get("references", ())))
    if parent == ident or ident in refs:
        mail.note("self_reference")
        parent = None if parent == ident else parent
        refs = [ref for ref in refs if ref != ident]
    return {
        "message_id": ident,
        "header_message_id": header_id,
        "text_hash": text,
        "content_hash": parts_hash((text, *hashes)) if hashes else text,
        "part_hashes": hashes,
        "in_reply_to": parent,
        "refs": refs,
        "subject": subject,
        "subject_norm": norm,
        "from_name": from_name,
        "from_addr": from_addr,
    }


def _people(fields: dict[str, list[str]]) -> dict[str, Any]:
    """To whom a mail goes and answers go, through which list, and with which program it was
    written.
    """
    to, cc = headers.addresses(fields.get("to", ())), headers.addresses(fields.get("cc", ()))
    reply_to = headers.addresses(fields.get("reply-to", ())).addresses
    agent = _first(fields, "user-agent") or _first(fields, "x-mailer")
    return {
        "to_addrs": to.addresses,
        "to_names": to.names,
        "cc_addrs": cc.addresses,
        "cc_names": cc.names,
        "reply_to": reply_to[0] if reply_to else None,
        "header_list_id": headers.list_header_id(_first(fields, "list-id"))
        if "list-id" in fields
        else None,
        "labels": headers.gmail_labels(_first(fields, "x-gmail-labels"))
        if "x-gmail-labels" in fields
        else (),
        "user_agent": headers.header_text(agent) or None if agent else None,
    }


def part_hashes(parts: Sequence[MimePart]) -> Sequence[str]:
    """A hash of the content of each part, in order of the hashes; of equal parts each has another.

    Names and types of parts do not count, nor do line ends, which relays change.
    """
    if not parts:
        return ()
    contents = Counter(_content(part).replace(b"\r\n", b"\n").rstrip(b"\n") for part in parts)
    return sorted(
        parts_hash((data, str(n))) for data, count in contents.items() for n in range(count)
    )


def _content(part: MimePart) -> bytes:
    return part.data if part.text is None else part.text.encode()


def without_additions(body: str) -> str:
    """`body` without the additions of lists, so that copies compare equal.

    These are the footers of Mailman or majordomo, and Mailman's notes about removed parts.
    """
    tail = body[-_FOOTER_CHARS:]
    footer = _FOOTER.search(tail)
    body = body if footer is None else body[: len(body) - len(tail) + footer.start()]
    return _SCRUBBED.sub("", body) if "scrubbed..." in tail else body


_MAX_ATTACHMENT_CHARS = 2_000_000
"""Characters; a longer attachment is very long: of 78,842 on PostgreSQL's lists 99 % have fewer
than 318,562, the longest 33,385,745.
"""
_MAX_LOG_CHARS = 500_000
"""Characters; a longer log or build output is very long: it has many chunks and few readers."""
_MOST_PICTURES = 50
"""Pictures of a mail that are found by what they show."""
_MORE_PICTURES = f"binary: of a mail's pictures the first {_MOST_PICTURES} are read"


def attachment_rows(
    mail: ParsedMail, row: dict[str, Any], settings: MailSettings, convert: Convert | None = None
) -> list[dict[str, Any]]:
    """The rows of the parts of a mail whose own row has its final id; NULs in them are a defect of
    the mail.
    """
    rows, picture_count = [], 0
    for part in mail.parts:
        attached, had_nul = _attachment_row(part, row, settings, convert)
        if attached["picture"] and (picture_count := picture_count + 1) > _MOST_PICTURES:
            attached |= {"text": None, "char_count": 0, "picture": None, "reason": _MORE_PICTURES}
        rows.append(attached)
        if had_nul:
            mail.note("nul_removed")
    return rows


def _attachment_row(
    part: MimePart, mail: dict[str, Any], settings: MailSettings, convert: Convert | None
) -> tuple[dict[str, Any], bool]:
    data = _content(part)
    if part.text is not None:
        content = AttachmentText("text", part.text, None)
    elif part.reason is not None:
        content = AttachmentText("other", None, part.reason)
    else:
        content = attachment_text(
            data,
            filename=part.filename,
            declared_type=part.declared_type,
            charset=part.charset,
            max_bytes=settings.max_attachment_bytes,
        )
        if convert is not None and (content.text is None or content.text.startswith(CALENDAR)):
            document = document_text(data, part.filename, part.declared_type, convert)
            content = document if document and (document.text or not content.text) else content
    chars = len(content.text) if content.text is not None else 0
    longest = _MAX_LOG_CHARS if content.content_class == "log" else _MAX_ATTACHMENT_CHARS
    row = {
        "attachment_id": parts_hash(
            (mail["message_id"], mail["content_hash"], str(part.position), bytes_sha256(data))
        ),
        "message_id": mail["message_id"],
        "part_index": part.position,
        "filename": part.filename,
        "declared_type": part.declared_type,
        "content_class": content.content_class,
        "text": content.text,
        "page_starts": content.page_starts,
        "char_count": chars,
        "byte_count": len(data),
        "reason": content.reason,
        "picture": content.picture,
        "lane": "slow" if chars > longest else "fast",
    }
    return row, content.had_nul


def _first(fields: dict[str, list[str]], name: str) -> str:
    return next(iter(fields.get(name, ())), "")
