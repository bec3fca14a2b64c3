"""Raw mails to the tables `messages`, `attachments` and `quarantine`; every mail is in one of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.errors import unread_because
from transforms.hashing import bytes_sha256
from transforms.mail.attachments import Convert
from transforms.mail.copies import Copy, ListedCopies
from transforms.mail.dates import envelope_time
from transforms.mail.header_block import MIME_FAULTS, read_headers
from transforms.mail.headers import author, message_id
from transforms.mail.mbox import BOM, Dialect, mbox_layout, unescape
from transforms.mail.mime import ParsedMail, parsed_mail
from transforms.mail.rows import attachment_rows, message_row
from transforms.schemas.mail import ATTACHMENTS, MESSAGES
from transforms.schemas.operations import QUARANTINE
from transforms.schemas.table import Table
from transforms.settings.mail import MailSettings

_FROM_LINE = re.compile(rb"\A(?:%b)?[\r\n]*(>?From [^\n]*\n)?" % BOM)
_NO_PARTS: frozenset[str] = frozenset()
_TABLES = (MESSAGES, ATTACHMENTS, QUARANTINE)
_FROM_LINE_BYTES = 256
_HEADER, _HEADER_BYTES = re.compile(rb"^([A-Za-z-]+):", re.M), 1 << 16
_OF_DRAFTS = {b"Date", b"MIME-Version", b"Content-Type"}
"""A mail that is not sent yet, without a Message-ID, has From and one of these headers."""
_BATCH_ROWS = 4096
_BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class RawMail:
    """The bytes of one mail, their place in the archive, and the time of their From_ line if there
    is one.

    Bytes with a `fault` (`code: explanation`) are not a mail and go to quarantine with it. Where
    the archive holds several lists, `list_id` is that of the mail.
    """

    place: str
    data: bytes
    envelope_at: datetime | None = None
    fault: str | None = None
    list_id: str | None = None


class Means(NamedTuple):
    """The means of reading mails.

    Without `quick` every header and every mail is parsed with the email package: slower, with equal
    tables; tests compare both. `convert` makes texts of attached documents.
    """

    quick: bool = True
    convert: Convert | None = None


QUICK = Means()


class MailTables(NamedTuple):
    """The tables of one partition, as declared in `transforms.schemas`."""

    messages: pa.Table
    attachments: pa.Table
    quarantine: pa.Table


def split_mbox(
    data: bytes, *, name: str, dialect: Dialect = "mboxrd"
) -> tuple[Iterator[RawMail], list[RawMail]]:
    """The mails of an mbox file, and the bytes outside of mails as mails with a fault.

    The place is `<name>:<byte offset of the From_ line>`. The iterator copies one mail at a time
    out of `data`.
    """
    layout = mbox_layout(data, dialect)
    mails = (
        RawMail(
            f"{name}:{entry.envelope}",
            unescape(raw, dialect) if entry.has_escapes else raw,
            envelope_time(
                data[entry.envelope : min(entry.start, entry.envelope + _FROM_LINE_BYTES)]
            ),
        )
        for entry in layout.entries
        for raw in (data[entry.start : entry.end],)
    )
    why = "before the first From_ line" if layout.entries else "the file has no From_ line"
    garbage = [
        RawMail(f"{name}:{start}", data[start:end], fault=f"not_mail: {why}")
        for start, end in layout.garbage
    ]
    if data and not layout.entries and not garbage:
        garbage = [RawMail(f"{name}:0", data, fault="not_mail: the file has blanks alone")]
    return mails, garbage


def id_and_author(mail: RawMail) -> tuple[str, str | None] | None:
    """Message-ID and author's address of a mail, as `read_mail` gives them before it looks for
    copies; None for no mail.
    """
    data, _ = _without_envelope(mail)
    try:
        fields = read_headers(data).fields
    except MIME_FAULTS:
        fields = {}
    if ident := next(filter(None, map(message_id, fields.get("message-id", ()))), None):
        return ident, author(fields)[1]
    parsed = parsed_mail(data)
    if parsed is None:
        return None
    row = message_row(parsed, data, None)
    return row["message_id"], row["from_addr"]


def read_mail(
    raw: Iterable[RawMail],
    *,
    source: str,
    partition: str,
    list_id: str | None,
    settings: MailSettings,
    means: Means = QUICK,
) -> MailTables:
    """The three tables of one partition's mails.

    A mail never fails to load: defects are repaired and listed in `defects`. Quarantined are bytes
    that are not a mail (`not_mail`), mails over `max_message_bytes` (`too_large`), copies with the
    same Message-ID, author, date, subject, body and parts (`duplicate`), and copies with only a
    share of another's parts (`lesser_copy`). A repeated Message-ID with other content, and a copy
    in another list of the partition, gets the suffix `+` and the first eight digits of the content
    hash, once more for each that has it already. `list_id` is the list of all mails that name none.

    `raw` is read once, one mail at a time; beside the tables themselves, memory holds a
    batch of rows and some 500 bytes per mail.
    """
    shared = {"source": source, "partition": partition, "list_id": list_id}
    messages, attachments, quarantine = (_Rows(table, shared) for table in _TABLES)
    listed = ListedCopies()
    for mail in raw:
        parsed, row, reason = _parsed_row(mail, settings.max_message_bytes, quick=means.quick)
        if parsed is None:
            quarantine.add(
                _quarantined(mail.place, reason, None, len(mail.data), bytes_sha256(mail.data))
            )
            continue
        row["place"], row["raw_bytes"] = mail.place, len(mail.data)
        row["list_id"] = mail.list_id or list_id
        copies, is_elsewhere = listed.of(row["list_id"]), listed.has(row)
        original_id, begin = row["message_id"], (messages.count, attachments.count)
        is_known = copies.is_known(row)
        if not is_known:
            row["message_id"] = copies.free_id(row)
            if row["message_id"] != original_id and not is_elsewhere:
                parsed.note("message_id_reused")
            for attached in attachment_rows(parsed, row, settings, means.convert):
                attachments.add(attached, attached["char_count"] + len(attached["picture"] or ""))
            messages.add(row, row["raw_bytes"])
        row_number, attached_rows = (
            None if is_known else begin[0],
            range(begin[1], attachments.count),
        )
        copies.add(_copy(mail, row, original_id, row_number, attached_rows))
    rejected = listed.rejected()
    for copy, reason in rejected:
        facts = copy.header_message_id, copy.byte_count, copy.bytes_sha256
        quarantine.add(_quarantined(copy.place, reason, *facts))
    return MailTables(
        _without(messages.table(), {copy.row for copy, _ in rejected if copy.row is not None}),
        _without(attachments.table(), {row for copy, _ in rejected for row in copy.attached}),
        quarantine.table(),
    )


def _parsed_row(
    mail: RawMail, limit: int, *, quick: bool
) -> tuple[ParsedMail | None, dict[str, Any], str]:
    """A mail with its row of `messages`; else None with the reason why it is in quarantine."""
    if mail.fault:
        return None, {}, mail.fault
    if (size := len(mail.data)) > limit:
        return None, {}, f"too_large: {size} bytes, mail.max_message_bytes is {limit}"
    data, envelope_at = _without_envelope(mail)
    try:
        if parsed := parsed_mail(data, quick=quick):
            return parsed, message_row(parsed, data, envelope_at), ""
    except Exception as error:  # noqa: BLE001 - one mail never stops the others
        return None, {}, unread_because(error)
    return None, {}, "not_mail: no header that mails have"


def mail_in(data: bytes, settings: MailSettings) -> dict[str, Any] | None:
    """The row of `messages` of a mail as a program stores or pipes it; None for bytes without a
    Message-ID at their top, nor From with a header of drafts.
    """
    head = data[:_HEADER_BYTES].partition(b"\n\n")[0].partition(b"\r\n\r\n")[0]
    names = {*_HEADER.findall(head)}
    is_draft = b"From" in names and names & _OF_DRAFTS
    if not is_draft and b"message-id" not in map(bytes.lower, names):
        return None
    tables = read_mail(
        [RawMail("", data)], source="", partition="", list_id=None, settings=settings
    )
    return next(iter(tables.messages.to_pylist()), None)


def _without(table: pa.Table, rows: set[int]) -> pa.Table:
    return table.filter(pa.array(n not in rows for n in range(table.num_rows))) if rows else table


class _Rows:
    """Rows of one table under construction; a full batch becomes Arrow columns at once."""

    def __init__(self, table: Table, shared: Mapping[str, Any]) -> None:
        self.schema = table.arrow
        self.shared = dict(shared)
        self.rows: list[dict[str, Any]] = []
        self.size = 0
        self.count = 0
        self.batches: list[pa.RecordBatch] = []

    def add(self, row: dict[str, Any], size: int = 0) -> None:
        self.rows.append(row)
        self.size += size
        self.count += 1
        if self.size >= _BATCH_BYTES or len(self.rows) >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        self.batches.append(
            pa.RecordBatch.from_pylist([self.shared | row for row in self.rows], self.schema)
        )
        self.rows.clear()
        self.size = 0

    def table(self) -> pa.Table:
        if self.rows:
            self._flush()
        return pa.Table.from_batches(self.batches, self.schema)


def _quarantined(*facts: Any) -> dict[str, Any]:
    return dict(
        zip(("place", "reason", "message_id", "byte_count", "bytes_sha256"), facts, strict=True)
    )


def _copy(
    mail: RawMail, row: dict[str, Any], original_id: str, number: int | None, attached: range
) -> Copy:
    return Copy(
        original_id,
        row["text_hash"],
        row["content_hash"],
        frozenset(row["part_hashes"]) if row["part_hashes"] else _NO_PARTS,
        row["message_id"],
        row["header_message_id"],
        mail.place,
        len(mail.data),
        bytes_sha256(mail.data) if number is None else None,
        number,
        attached,
        row["header_message_id"] is None
        and (row["from_addr"] is None or "no_date" in row["defects"]),
    )


def _without_envelope(mail: RawMail) -> tuple[bytes, datetime | None]:
    """The mail without its own envelope line, and the time of that line if the archive gives no
    time.
    """
    lead = _FROM_LINE.match(mail.data)
    if lead is None or not lead.end():
        return mail.data, mail.envelope_at
    at = mail.envelope_at or (envelope_time(lead[1].lstrip(b">")) if lead[1] else None)
    return mail.data[lead.end() :], at
