"""Raw mails to the tables `messages`, `attachments` and `quarantine`: every mail ends in one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.hashing import bytes_sha256, parts_hash
from transforms.mail.attachments import AttachmentText, attachment_text
from transforms.mail.dates import effective_time, envelope_time, received_times, sent_date
from transforms.mail.headers import address, header_text, in_reply_to, message_id, references, subject_norm
from transforms.mail.mbox import Dialect, mbox_layout, unescape
from transforms.mail.mime import KNOWN_HEADERS, MIME_FAULTS, MailContent, Part, read_content, read_headers
from transforms.schemas.mail import ATTACHMENTS, MESSAGES
from transforms.schemas.operations import QUARANTINE
from transforms.schemas.table import Table
from transforms.settings.mail import MailSettings
from transforms.text.charsets import decode_text

VERSION = "3"

SYNTHETIC_DOMAIN = "synthesised.weft.invalid"
"""Domain of the ids made for mails that have none; `.invalid` is reserved by RFC 2606."""

_FROM_LINE = re.compile(rb"\A(?:\xef\xbb\xbf)?[\r\n]*(>?From [^\n]*\n)?")
_BLANKS = b" \t\n\r\f\v"
TABLES = (MESSAGES, ATTACHMENTS, QUARANTINE)
_FROM_LINE_BYTES = 256
_BATCH_ROWS = 4096
_BATCH_BYTES = 32 << 20
_FOOTER_CHARS = 2500
"""Characters at the end of a body in which a list footer is looked for."""
_FOOTER = re.compile(
    r"\n(?:_{30,}\n(?=.*(?:mailing list|list info|listinfo|subscri))"
    r"|-{20,}\(end of broadcast\)-{20,}\n"
    r"|-- ?\nSent via \S+ mailing list"
    r"|-- ?\nTo unsubscribe from this list|-\nTo unsubscribe from this list)",
    re.S | re.I,
)


@dataclass(frozen=True)
class RawMail:
    """The bytes of one mail, where they stand, and the time of their From_ line if there is one.

    A `fault` (`code: explanation`) says that the bytes are no mail; they go to quarantine with it.
    """

    place: str
    data: bytes
    envelope_at: datetime | None = None
    fault: str | None = None


class MailTables(NamedTuple):
    """The tables of one unit, as declared in `transforms.schemas`."""

    messages: pa.Table
    attachments: pa.Table
    quarantine: pa.Table


class _Mail(NamedTuple):
    """One mail read: the values of its row, its id as its header gives it, its parts."""

    row: dict[str, Any]
    parts: list[Part]


def split_mbox(
    data: bytes, *, name: str, dialect: Dialect = "mboxrd"
) -> tuple[Iterator[RawMail], list[RawMail]]:
    """The mails of an mbox file, and the bytes that belong to none as mails with a fault.

    The place is `<name>:<byte offset of the From_ line>`. Each mail is copied out of `data` when it
    is asked for, so that one at a time is in memory.
    """
    layout = mbox_layout(data, dialect)
    mails = (
        RawMail(
            f"{name}:{entry.envelope}",
            unescape(data[entry.start : entry.end], dialect),
            envelope_time(data[entry.envelope : min(entry.start, entry.envelope + _FROM_LINE_BYTES)]),
        )
        for entry in layout.entries
    )
    why = "before the first From_ line" if layout.entries else "the file has no From_ line"
    garbage = [
        RawMail(f"{name}:{start}", data[start:end], fault=f"not_mail: {why}") for start, end in layout.garbage
    ]
    return mails, garbage


def read_mail(
    raw: Iterable[RawMail],
    *,
    source: str,
    unit: str,
    list_id: str | None,
    settings: MailSettings,
    quick: bool = True,
) -> MailTables:
    """The three tables of one unit's mails.

    A mail never fails to load: what is broken is repaired and named in `defects`. Quarantined are
    bytes that are no mail (`not_mail`), mails over `max_message_bytes` (`too_large`) and second
    copies with the same Message-ID and content (`duplicate`). A Message-ID that comes again with
    other content gets the first eight digits of the content hash behind a `+`.

    `raw` is gone through once, one mail at a time; beside the tables themselves, memory holds a
    batch of rows and an id, a hash and a place per mail. `quick=False` takes every header and every
    mail through the email package, slower and with the same tables; it is what the tests compare.
    """
    shared = {"source": source, "unit": unit, "list_id": list_id}
    messages, attachments, quarantine = (_Rows(table, shared) for table in TABLES)
    places: dict[str, tuple[str, str]] = {}
    for mail in raw:
        fault = mail.fault or _size_fault(mail, settings)
        read = None if fault else _read_one(mail, settings, quick)
        if read is None:
            quarantine.add(_set_aside(mail, fault or "not_mail: no header that mails have", None))
            continue
        row = read.row
        digest = row["content_hash"]
        known = places.get(row["message_id"])
        if known is not None and known[0] != digest:
            row["defects"].append("message_id_reused")
            row["message_id"] = f"{row['message_id']}+{digest[:8]}"
            known = places.get(row["message_id"])
        if known is not None:
            reason = f"duplicate: same Message-ID and content as {known[1]}"
            quarantine.add(_set_aside(mail, reason, row["header_message_id"]))
            continue
        places[row["message_id"]] = (digest, mail.place)
        for part in read.parts:
            attached, had_nul = _attachment_row(part, row["message_id"], digest, settings)
            attachments.add(attached, attached["char_count"])
            if had_nul and "nul_removed" not in row["defects"]:
                row["defects"].append("nul_removed")
        messages.add(row, row["raw_bytes"])
    return MailTables(messages.table(), attachments.table(), quarantine.table())


class _Rows:
    """Rows of one table under construction; a full batch of them becomes Arrow columns at once."""

    def __init__(self, table: Table, shared: Mapping[str, Any]) -> None:
        self.schema = table.arrow
        self.shared = shared
        self.rows: list[dict[str, Any]] = []
        self.size = 0
        self.batches: list[pa.RecordBatch] = []

    def add(self, row: dict[str, Any], size: int = 0) -> None:
        self.rows.append(row)
        self.size += size
        if self.size >= _BATCH_BYTES or len(self.rows) >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        columns = [
            pa.repeat(pa.scalar(self.shared[f.name], f.type), len(self.rows))
            if f.name in self.shared
            else pa.array([row[f.name] for row in self.rows], f.type)
            for f in self.schema
        ]
        self.batches.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        self.rows.clear()
        self.size = 0

    def table(self) -> pa.Table:
        if self.rows:
            self._flush()
        return pa.Table.from_batches(self.batches, self.schema)


def _set_aside(mail: RawMail, reason: str, ident: str | None) -> dict[str, Any]:
    return {
        "place": mail.place,
        "reason": reason,
        "message_id": ident,
        "byte_count": len(mail.data),
        "bytes_sha256": bytes_sha256(mail.data),
    }


def _size_fault(mail: RawMail, settings: MailSettings) -> str | None:
    if len(mail.data) <= settings.max_message_bytes:
        return None
    limit = settings.max_message_bytes
    return f"too_large: {len(mail.data)} bytes, MailSettings.max_message_bytes is {limit}"


def _read_one(mail: RawMail, settings: MailSettings, quick: bool) -> _Mail | None:
    """The row of one mail without the columns of its unit; None if the bytes are no mail."""
    lead = _FROM_LINE.match(mail.data)
    data, envelope_at = mail.data, mail.envelope_at
    if lead is not None and lead.end():
        data = data[lead.end() :]
        envelope_at = envelope_at or (envelope_time(lead[1].lstrip(b">")) if lead[1] else None)
    try:
        headers = read_headers(data, quick=quick)
    except MIME_FAULTS:
        return None
    fields = headers.fields
    if KNOWN_HEADERS.isdisjoint(fields):
        return None
    try:
        content = read_content(data, headers, settings, quick=quick)
    except MIME_FAULTS as error:
        content = _unread_content(data[headers.body_start :], error)
    row = _times(fields, envelope_at, content)
    row |= _identity(fields, row, content)
    row |= {
        "place": mail.place,
        "body": content.body,
        "body_format": content.body_format,
        "charset_outcome": content.charset_outcome,
        "defects": content.defects,
        "raw_bytes": len(mail.data),
    }
    return _Mail(row, content.parts)


def _unread_content(payload: bytes, error: BaseException) -> MailContent:
    """The undecoded payload as body, for a mail whose parts the email package cannot take apart."""
    decoded = decode_text(payload, None)
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    content = MailContent(text, "plain" if text else "none", decoded.outcome if text else "none")
    content.note(f"mime_unreadable_{type(error).__name__.lower()}")
    return content


def _times(
    fields: dict[str, list[str]], envelope_at: datetime | None, content: MailContent
) -> dict[str, Any]:
    sent = sent_date(_first(fields, "date"))
    received, first_hop = received_times(fields.get("received", ()))
    effective, quality = effective_time(sent, received, first_hop, envelope_at)
    if sent.at is None:
        content.note("date_unreadable" if _first(fields, "date").strip() else "no_date")
    elif sent.repaired:
        content.note("date_repaired")
    if sent.at is not None and quality not in ("sent", "sent_repaired"):
        content.note("date_implausible")
    return {"sent_at": sent.at, "received_at": received, "effective_at": effective, "date_quality": quality}


def _identity(fields: dict[str, list[str]], times: dict[str, Any], content: MailContent) -> dict[str, Any]:
    """Ids, subject and author of a mail, and the hash of what makes it the same mail elsewhere."""
    raw_from, raw_subject = _first(fields, "from"), _first(fields, "subject")
    if not raw_from.isascii() or not raw_subject.isascii():
        content.note("header_8bit")
    subject = header_text(raw_subject)
    norm = subject_norm(subject)
    from_name, from_addr = address(raw_from)
    digest = parts_hash(
        (
            from_addr or "",
            header_text(_first(fields, "date")),
            norm,
            without_list_footer(content.body).encode().translate(None, _BLANKS),
        )
    )
    header_id = next(filter(None, map(message_id, fields.get("message-id", ()))), None)
    if header_id is None:
        content.note("no_message_id")
    ident = header_id or f"{digest}@{SYNTHETIC_DOMAIN}"
    parent = in_reply_to(_last(fields, "in-reply-to"))
    refs = references(" ".join(fields.get("references", ())))
    if parent == ident or ident in refs:
        content.note("self_reference")
        parent = None if parent == ident else parent
        refs = [ref for ref in refs if ref != ident]
    return {
        "message_id": ident,
        "header_message_id": header_id,
        "content_hash": digest,
        "in_reply_to": parent,
        "refs": refs,
        "subject": subject,
        "subject_norm": norm,
        "from_name": from_name,
        "from_addr": from_addr,
    }


def without_list_footer(body: str) -> str:
    """`body` without the footer that mailman or majordomo put behind it, so that copies compare equal."""
    tail = body[-_FOOTER_CHARS:]
    found = _FOOTER.search(tail)
    return body if found is None else body[: len(body) - len(tail) + found.start()]


def _attachment_row(
    part: Part, ident: str, content_hash: str, settings: MailSettings
) -> tuple[dict[str, Any], bool]:
    if part.text is not None:
        read = AttachmentText("text", part.text, None)
        data = part.text.encode()
    elif part.reason is not None:
        read, data = AttachmentText("other", None, part.reason), part.data
    else:
        data = part.data
        read = attachment_text(
            data,
            filename=part.filename,
            declared_type=part.declared_type,
            charset=part.charset,
            settings=settings,
        )
    chars = len(read.text) if read.text is not None else 0
    longest = settings.max_log_chars if read.content_class == "log" else settings.max_attachment_chars
    row = {
        "attachment_id": parts_hash((ident, content_hash, str(part.position), bytes_sha256(data))),
        "message_id": ident,
        "part_index": part.position,
        "filename": part.filename,
        "declared_type": part.declared_type,
        "content_class": read.content_class,
        "text": read.text,
        "char_count": chars,
        "byte_count": len(data),
        "reason": read.reason,
        "lane": "slow" if chars > longest else "fast",
    }
    return row, read.had_nul


def _first(fields: dict[str, list[str]], name: str) -> str:
    values: Sequence[str] = fields.get(name, ())
    return values[0] if values else ""


def _last(fields: dict[str, list[str]], name: str) -> str:
    values: Sequence[str] = fields.get(name, ())
    return values[-1] if values else ""
