"""Where the mails of an mbox file stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.mail.mbox import BOM, mbox_layout, unescape

FROM = b"From a@example.org Fri Dec 18 09:41:40 1998\n"
GIT = b"From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n"
MAIL = b"From: a@example.org\nSubject: x\n\nbody\n"


def mails(data: bytes, dialect="mboxrd") -> list[bytes]:
    return [data[entry.start : entry.end] for entry in mbox_layout(data, dialect).entries]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(FROM + MAIL, [MAIL], id="one"),
        pytest.param(FROM + MAIL + b"\n" + FROM + MAIL + b"\n", [MAIL, MAIL], id="two"),
        pytest.param(b"\n\n" + FROM + MAIL, [MAIL], id="blank lines first"),
        pytest.param(BOM + FROM + MAIL, [MAIL], id="a byte-order mark first"),
        pytest.param(
            BOM + b"\r\n" + FROM + MAIL, [MAIL], id="a byte-order mark and a blank line first"
        ),
        pytest.param(b" \n" + FROM + MAIL, [MAIL], id="a line of blanks first"),
        pytest.param(
            FROM + MAIL + b"\n" + BOM + FROM + MAIL,
            [MAIL, MAIL],
            id="files joined with their marks",
        ),
        pytest.param(
            FROM + MAIL + BOM + FROM + MAIL,
            [MAIL + BOM + FROM + MAIL],
            id="a mark without a blank line before",
        ),
        pytest.param(
            (FROM + MAIL + b"\n" + FROM + MAIL).replace(b"\n", b"\r\n"),
            [MAIL.replace(b"\n", b"\r\n")] * 2,
            id="CRLF",
        ),
        pytest.param(
            FROM + MAIL + b"\n\n\n" + FROM + MAIL, [MAIL + b"\n\n", MAIL], id="one separator only"
        ),
        pytest.param(FROM + MAIL + FROM + MAIL, [MAIL + FROM + MAIL], id="no blank line before"),
        pytest.param(
            FROM + MAIL + b"\nFrom the book:\nNote: it says\n",
            [MAIL + b"\nFrom the book:\nNote: it says\n"],
            id="a sentence",
        ),
        pytest.param(
            FROM + MAIL + b"\nFrom here at 10:30 on\nwe go\n",
            [MAIL + b"\nFrom here at 10:30 on\nwe go\n"],
            id="no header next",
        ),
        pytest.param(
            FROM + MAIL + b"\n" + GIT + MAIL, [MAIL + b"\n" + GIT + MAIL], id="a git patch inside"
        ),
        pytest.param(GIT + MAIL + b"\n" + GIT + MAIL, [MAIL, MAIL], id="a git format-patch file"),
        pytest.param(FROM + b">From b remote from c\n" + MAIL, [MAIL], id="second envelope line"),
        pytest.param(
            FROM + b"X!#$%&'*+/=?^_`{|}~: odd\n\nb\n",
            [b"X!#$%&'*+/=?^_`{|}~: odd\n\nb\n"],
            id="name",
        ),
        pytest.param(b"From nobody\n" + MAIL, [MAIL], id="no time"),
        pytest.param(FROM + b"Subject: cut", [b"Subject: cut"], id="cut in the headers"),
        pytest.param(b"\xff\xd8\xff\xe0JFIF\n\n", [], id="JPEG"),
        pytest.param(b"", [], id="empty"),
        pytest.param(b"From ", [], id="a word"),
    ],
)
def test_mails_are_found(data, expected):
    assert mails(data) == expected


def test_bytes_of_no_mail_are_garbage():
    assert mbox_layout(b"junk\n\n" + FROM + MAIL, "mboxrd").garbage == [(0, 6)]
    assert mbox_layout(b"\xff\xd8\xff\xe0", "mboxrd").garbage == [(0, 4)]
    assert mbox_layout(b" \n\n", "mboxrd").garbage == []


def test_content_length_is_believed_where_it_leads_to_a_mail():
    body = b"\n" + FROM + b"Subject: quoted\n\nend\n"
    mail = b"Subject: x\nContent-Length: %d\n\n" % len(body) + body
    data = FROM + mail + b"\n" + FROM + MAIL
    assert mails(data, "content-length") == [mail, MAIL]
    assert len(mails(data, "mboxrd")) == 3


def test_a_wrong_content_length_is_ignored():
    mail = b"Subject: x\nContent-Length: 3\n\nlonger body\n"
    assert mails(FROM + mail + b"\n" + FROM + MAIL, "content-length") == [mail, MAIL]


@pytest.mark.parametrize(
    ("stored", "dialect", "expected"),
    [
        (b">From x", "mboxrd", b"From x"),
        (b">>From x\n>From y", "mboxrd", b">From x\nFrom y"),
        (b"> From x", "mboxrd", b"> From x"),
        (b"a >From x", "mboxrd", b"a >From x"),
        (b">From x", "mboxo", b">From x"),
        (b">From x", "content-length", b">From x"),
    ],
)
def test_unescape(stored, dialect, expected):
    assert unescape(stored, dialect) == expected


LINES = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        FROM,
        GIT,
        b">From x\n",
        b"Subject: x\n",
        b"text\n",
        b"Content-Length: 9\n",
        b"From ",
        b"\xff",
    ]
)


@given(
    st.one_of(st.binary(), st.lists(LINES, max_size=40).map(b"".join)),
    st.sampled_from(["mboxrd", "mboxo", "content-length"]),
)
def test_every_byte_is_accounted_for(data, dialect):
    layout = mbox_layout(data, dialect)
    position = 0
    for start, end in layout.garbage:
        assert data[position:start].strip() == b""
        position = end
    for entry in layout.entries:
        assert data[position : entry.envelope].strip() == b""
        assert data[entry.envelope : entry.start].startswith(b"From ")
        assert entry.envelope < entry.start <= entry.end
        position = entry.end
    assert data[position:].strip() == b""
