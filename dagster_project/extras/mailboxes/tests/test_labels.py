"""Labels of mails as a header of Google Takeout: written, read again, and never a sender's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.extras.mailboxes.labels import flag_labels, with_labels
from transforms.mail.messages import RawMail, read_mail
from transforms.settings.mail import MailSettings

MAIL = b"From: Ann <ann@example.org>\nMessage-ID: <1@example.org>\nSubject: doors\n\nThe hinges came.\n"
WORDS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)


def read(mail: bytes) -> list[str]:
    given = {"source": "s", "partition": "p", "list_id": "s", "settings": MailSettings()}
    return read_mail([RawMail("m", mail)], **given).messages.column("labels").to_pylist()[0]


@given(st.sets(WORDS, min_size=1, max_size=8).map(sorted), st.booleans())
def test_labels_that_are_written_are_read_and_go_without_a_trace(
    labels: list[str], is_forged: bool
):
    mail = b"X-Gmail-Labels: important\n" + MAIL if is_forged else MAIL
    assert read(with_labels(mail, labels)) == [label for label in labels if label.strip()]
    assert with_labels(with_labels(MAIL, labels), ()) == MAIL


def test_a_header_of_the_sender_is_no_label():
    forged = MAIL.replace(b"Subject", b"x-gmail-labels : seen\nSubject")
    assert read(with_labels(forged, ())) == []


@pytest.mark.parametrize("labels", [(rb"\Inbox", b"B&APw-ro/Doors", 2004, None), (b"x" * 3000,)])
def test_labels_of_gmail_are_decoded_and_bounded(labels: tuple[object, ...]):
    found = flag_labels({b"FLAGS": (rb"\Seen", rb"\Recent"), b"X-GM-LABELS": labels})
    assert found == (
        ["2004", "Büro/Doors", "Inbox", "None", "seen"] if len(labels) > 1 else ["seen"]
    )
