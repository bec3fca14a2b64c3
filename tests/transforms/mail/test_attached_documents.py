"""Attached PDFs and office files have a text, pages and a reason for none."""

from email.message import EmailMessage
from functools import partial
from typing import Any

import pytest

from tests import format_files as made
from tests.format_files import Text, paragraph, pdf, picture
from transforms.formats.read import read_format
from transforms.mail import rows
from transforms.mail.messages import QUICK, Means, RawMail, read_mail
from transforms.settings.mail import MailSettings
from transforms.text.visible import is_picture


def attachment(
    data: bytes, name: str, declared: str = "application/octet-stream", means: Means | None = None
) -> Any:
    """The row of the file attached to a mail."""
    mail = EmailMessage()
    mail["From"], mail["Message-ID"] = "a@example.org", "<1@example.org>"
    mail["Date"] = "1 Jan 2024 00:00:00 +0000"
    mail.set_content("See the attached file.\n")
    main, _, sub = declared.partition("/")
    mail.add_attachment(data, maintype=main, subtype=sub, filename=name)
    given = {"source": "s", "partition": "u", "list_id": None, "settings": MailSettings()}
    means = means or Means(convert=read_format)
    tables = read_mail([RawMail("f:0", mail.as_bytes())], **given, means=means)
    (row,) = tables.attachments.to_pylist()
    return row


TEA = b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Tea\nEND:VEVENT\nEND:VCALENDAR\n"
WORD = made.docx(paragraph("the plan"))


@pytest.mark.parametrize(
    ("data", "name", "declared", "text", "pages"),
    [
        (
            pdf([[Text("one")], [Text("two")]]),
            "x",
            "application/octet-stream",
            "one\n\ntwo\n\n",
            [0, 5],
        ),
        (WORD, "plan.docx", "application/octet-stream", "the plan\n", None),
        (
            WORD,
            "plan",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "the plan\n",
            None,
        ),
        (made.xlsx({"S": [["a"]]}), "s.XLSX", "application/zip", "## S\n\n| a |\n| --- |\n", None),
        (TEA, "invite.ics", "text/calendar", "## Tea\n", None),
        (TEA[:16], "x.ics", "text/calendar", TEA[:16].decode(), None),
    ],
    ids=["pdf", "by name", "by type", "sheet", "calendar", "broken calendar"],
)
def test_an_attached_document_has_its_text(
    data: bytes, name: str, declared: str, text: str, pages: list[int] | None
):
    row = attachment(data, name, declared)
    assert (row["content_class"], row["text"], row["page_starts"]) == ("text", text, pages)
    assert (
        row["char_count"] == len(text) and row["byte_count"] == len(data) and row["reason"] is None
    )


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"%PDF-1.4\n", "a.pdf", "unreadable: "),
        (made.zipped({"a.txt": "x"}), "a.zip", "archive: zip"),
        (b"\x89PNG\0", "a.png", "needs_ocr: "),
    ],
)
def test_what_has_no_text_says_why(data: bytes, name: str, reason: str):
    row = attachment(data, name)
    assert row["text"] is None and row["reason"].startswith(reason)


def test_a_picture_is_seen_unless_it_is_a_logo_or_one_of_too_many(monkeypatch: pytest.MonkeyPatch):
    seen, logo = (
        Means(convert=partial(read_format, seen_pixels=least)) for least in (266_000, 266_001)
    )
    row = attachment(picture("x"), "a.png", means=seen)
    assert row["text"].strip() == "Picture of 1400 × 190 pixels" and is_picture(row["picture"])
    reasons = [row["reason"], attachment(picture("x"), "a.png", means=logo)["reason"]]
    assert reasons == [None, "binary: 1400 × 190 pixels are taken for a logo"]
    monkeypatch.setattr(rows, "_MOST_PICTURES", 0)
    row = attachment(picture("x"), "a.png", means=seen)
    assert (row["text"], row["picture"]) == (None, None) and row["reason"].startswith(
        "binary: of a mail's"
    )


def test_who_cannot_convert_reads_none():
    assert attachment(pdf([[Text("one")]]), "a.pdf", means=QUICK)["reason"] == "binary: PDF"
