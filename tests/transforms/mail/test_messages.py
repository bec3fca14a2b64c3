"""Raw mails to tables: what becomes body, attachment, quarantine, and how the broken is repaired."""

import base64
import bz2
import gzip
import lzma
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.mail.attachments import text_class
from transforms.mail.headers import (
    address,
    header_text,
    in_reply_to,
    message_id,
    references,
    subject_norm,
)
from transforms.mail.html_text import html_text
from transforms.mail.messages import RawMail, read_mail, split_mbox
from transforms.mail.rows import without_additions
from transforms.schemas.mail import ATTACHMENTS, MESSAGES
from transforms.schemas.operations import QUARANTINE
from transforms.settings.mail import MailSettings

SETTINGS = MailSettings()
HEAD = (
    b"From: A <a@example.org>\nDate: Fri, 12 Apr 2002 09:35:52 +0100\n"
    b"Message-ID: <m1@example.org>\nSubject: s\n"
)
DIFF = "--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n-old\n+new\n"


def tables(*raws: bytes, settings: MailSettings = SETTINGS):
    mails = [RawMail(f"f:{n}", raw, None) for n, raw in enumerate(raws)]
    result = read_mail(mails, source="s", partition="u", list_id="l", settings=settings)
    for table, schema in zip(result, (MESSAGES, ATTACHMENTS, QUARANTINE), strict=True):
        assert schema.conform(table).equals(table)
    return tuple(table.to_pylist() for table in result)


def one(raw: bytes, settings: MailSettings = SETTINGS):
    messages, attachments, quarantine = tables(raw, settings=settings)
    assert len(messages) == 1 and not quarantine
    return messages[0], attachments


def multipart(*parts: str, kind: str = "mixed") -> bytes:
    body = "".join(f"--b\n{part}\n" for part in parts)
    return (
        HEAD
        + f'MIME-Version: 1.0\nContent-Type: multipart/{kind}; boundary="b"\n\n{body}--b--\n'.encode()
    )


PLAIN = "Content-Type: text/plain\n\nhello\n"
HTML = "Content-Type: text/html\n\n<p>hello <b>html</b></p>\n"


def test_a_plain_mail():
    mail, attachments = one(HEAD + b"\nHello\n\n> quoted\n")
    assert not attachments
    assert mail["message_id"] == mail["header_message_id"] == "m1@example.org"
    assert (mail["from_name"], mail["from_addr"], mail["subject"]) == ("A", "a@example.org", "s")
    assert mail["effective_at"] == datetime(2002, 4, 12, 8, 35, 52, tzinfo=UTC)
    assert (mail["body"], mail["body_format"]) == ("Hello\n\n> quoted\n", "plain")
    assert (mail["date_quality"], mail["defects"], mail["list_id"]) == ("sent", [], "l")


@pytest.mark.parametrize(
    ("raw", "body", "defect"),
    [
        pytest.param(HEAD + b"\na\r\nb\rc\n", "a\nb\nc\n", None, id="line ends"),
        pytest.param(
            HEAD.replace(b"\n", b"\r\n") + b"\r\n\n\nx", "\n\nx", None, id="CRLF headers, LF body"
        ),
        pytest.param(HEAD + b"\na\0b\n", "ab\n", "nul_removed", id="NUL"),
        pytest.param(HEAD + b"\n caf\xe9\n", " café\n", "charset_guessed", id="undeclared 8 bit"),
        pytest.param(HEAD + b"", "", None, id="no body"),
        pytest.param(
            HEAD + b"hello there\n",
            "hello there\n",
            "missing_header_body_separator",
            id="no blank line",
        ),
        pytest.param(
            b"To: a\nsplit by a relay\n" + HEAD + b"\nx\n",
            "x\n",
            "header_line_broken",
            id="fold lost",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\naGVsbG8K\n____\nfooter\n",
            "hello\n____\nfooter\n",
            "base64_trailing_text",
            id="footer behind base64",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\naGVsbG8\n",
            "hello",
            "base64_broken",
            id="cut",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\nNot, in fact!\n",
            "Not, in fact!\n",
            "base64_broken",
            id="no base64",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: quoted-printable\n\na=3Db =ZZ =\nc\n",
            "a=b =ZZ c\n",
            "quoted_printable_broken",
            id="broken quoted-printable",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: 9bit\n\nx\n",
            "x\n",
            "transfer_encoding_unknown",
            id="9bit",
        ),
        pytest.param(
            HEAD + b"Content-Type: multipart/mixed\n\nno parts\n",
            "no parts\n",
            "multipart_without_boundary",
            id="no boundary",
        ),
        pytest.param(
            HEAD + b"Content-Type: multipart/mixed\n\n--q\nContent-Type: text/plain\n\nin\n--q--\n",
            "in",
            "multipart_without_boundary",
            id="boundary guessed",
        ),
        pytest.param(
            HEAD + b"Content-Type: nonsense; charset\n\nx\n", "x\n", None, id="nonsense type"
        ),
        pytest.param(
            HEAD + b"Content-Type: text/plain; charset=utf-7\n\ncaf+AOk-\n",
            "café\n",
            None,
            id="UTF-7",
        ),
        pytest.param(
            HEAD + b"Content-Type: text/plain; charset=utf-7\n\n1 + 1\n",
            "1 + 1\n",
            "charset_guessed",
            id="no UTF-7",
        ),
        pytest.param(
            HEAD + b"Content-Type: text/plain; charset=iso-2022-cn\n\n\x1b$)A\x0eVP\x0f\n",
            "\x1b$)A\x0eVP\x0f\n",
            "charset_guessed",
            id="a charset that Python does not know",
        ),
        pytest.param(
            HEAD + b"Content-Type: image/png\nContent-Type: text/plain\n\nx\n",
            "x\n",
            "content_type_repeated",
            id="two types, the first without text",
        ),
        pytest.param(
            HEAD
            + b"Content-Type: text/plain\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\n",
            "x",
            "content_type_repeated",
            id="two types, the second with parts",
        ),
        pytest.param(
            HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n"
            b"--b\nContent-Type: image/png\nContent-Type: text/plain\n\nx\n--b--\n",
            "x",
            "content_type_repeated",
            id="two types of a part",
        ),
        pytest.param(
            HEAD
            + b"Content-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n",
            "hello",
            "content_transfer_encoding_repeated",
            id="two encodings",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: (a comment) quoted-printable\n\na=3Db\n",
            "a=b\n",
            None,
            id="comment",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\naGVsbG8=\naGVsbG8=\n",
            "hellohello",
            "base64_broken",
            id="two",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\naGVsb===\naGVsbG8=\n",
            "hel\naGVsbG8=\n",
            "base64_broken base64_trailing_text",
            id="a piece of one character",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\naGVsbG8=\nThanks\n",
            "hello\nThanks\n",
            "base64_trailing_text",
            id="a word behind base64",
        ),
        pytest.param(
            HEAD
            + b"Content-Transfer-Encoding: uuencode\n\nbefore\nbegin 644 f\n#86)C\n`\nend\nafter\n",
            "before\nabcafter\n",
            "uuencode_amid_text",
            id="text around uuencode",
        ),
        pytest.param(HEAD + b"Subject: other\n\nx\n", "x\n", "header_repeated", id="two subjects"),
        pytest.param(
            HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\nfooter\n",
            "x\nfooter\n",
            "text_outside_parts",
            id="text behind the parts",
        ),
        pytest.param(
            HEAD
            + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\n--b\n\ny\n--b--\n",
            "x\ny",
            "multipart_reopened",
            id="parts behind the end",
        ),
    ],
)
def test_bodies(raw, body, defect):
    mail, _ = one(raw)
    assert mail["body"] == body
    assert mail["defects"] == (defect or "").split()


@pytest.mark.parametrize(
    ("raw", "body", "body_format", "names"),
    [
        pytest.param(multipart(PLAIN, PLAIN), "hello\nhello\n", "plain", [], id="two plain"),
        pytest.param(
            multipart(PLAIN, HTML, kind="alternative"), "hello\n", "plain", [], id="alternative"
        ),
        pytest.param(multipart(HTML), "hello html\n", "html", [], id="HTML only"),
        pytest.param(
            multipart("Content-Type: text/plain\n\n \n", HTML, kind="alternative"),
            " \nhello html\n",
            "html",
            [],
            id="empty alternative",
        ),
        pytest.param(
            multipart(PLAIN, 'Content-Type: text/plain; name="x.txt"\n\nnamed\n'),
            "hello\n",
            "plain",
            ["x.txt"],
            id="named text",
        ),
        pytest.param(
            multipart(PLAIN, "Content-Disposition: attachment\n\nunnamed\n"),
            "hello\n",
            "plain",
            [None],
            id="attachment without a name",
        ),
        pytest.param(
            multipart(PLAIN, "Content-Type: text/plain\n\n____\nlist footer\n"),
            "hello\n____\nlist footer\n",
            "plain",
            [],
            id="list footer",
        ),
        pytest.param(
            HEAD + b"Content-Type: text/plain; format=flowed\n\n joined \nline\n",
            " joined \nline\n",
            "flowed",
            [],
            id="flowed",
        ),
        pytest.param(
            HEAD + b"Content-Type: text/plain; Format=Flowed; DelSp=Yes\n\na \nb\n",
            "a \nb\n",
            "flowed_delsp",
            [],
            id="flowed, DelSp",
        ),
        pytest.param(
            HEAD + b'Content-Type: text/plain; name="mail.txt"\n\nx\n',
            "x\n",
            "plain",
            [],
            id="a mail with a name",
        ),
    ],
)
def test_which_parts_are_the_body(raw, body, body_format, names):
    mail, attachments = one(raw)
    assert (mail["body"].replace("\n\n", "\n"), mail["body_format"]) == (body, body_format)
    assert [a["filename"] for a in attachments] == names


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("b", "b"), ("b", "b1"), ("b1", "b"), ("b", "b--"), ("b--", "b"), ("b", "b-"), ("b", "bb")],
)
@pytest.mark.parametrize("end", ["", "--{inner}--\n"])
def test_boundaries_that_begin_alike_lose_nothing(outer, inner, end):
    inside = f"--{inner}\nContent-Type: text/plain\n\nfirst\n--{inner}\nContent-Type: text/plain\n\nsecond\n"
    raw = (
        HEAD
        + (
            f'Content-Type: multipart/mixed; boundary="{outer}"\n\n--{outer}\n'
            f'Content-Type: multipart/mixed; boundary="{inner}"\n\n{inside}{end.format(inner=inner)}\n'
            f'--{outer}\nContent-Type: text/plain; name="f.txt"\n\nthird\n--{outer}--\n'
        ).encode()
    )
    mail, attachments = one(raw)
    texts = mail["body"] + "".join(a["text"] or "" for a in attachments)
    for word in ("first", "second", "third"):
        assert word in texts
    assert "Content-Type" not in mail["body"]
    if {outer, inner} in ({"b"}, {"b", "b--"}):
        assert "multipart_boundary_ambiguous" in mail["defects"]
    else:
        assert not mail["defects"]


def test_text_before_a_first_delimiter_that_closes_is_not_lost():
    mail, (rest,) = one(HEAD + b"Content-Type: multipart/mixed; boundary=b\n\nx\n--b--\nmore\n")
    assert (mail["body"], rest["text"]) == ("x\n", "more\n")
    assert mail["defects"] == ["text_outside_parts", "multipart_without_boundary"]


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("base64", "U3ViamVjdDogaW4KCmlubmVyIGJvZHkK"),
        ("quoted-printable", "Subject: i=6E\n\ninner b=6Fdy\n"),
    ],
)
def test_a_mail_inside_a_mail_in_a_transfer_encoding(encoding, content):
    part = f"Content-Type: message/rfc822\nContent-Transfer-Encoding: {encoding}\n\n{content}"
    mail, (row,) = one(multipart(PLAIN, part))
    assert row["text"].rstrip() == "Subject: in\n\ninner body"
    assert mail["defects"] == ["inner_message_encoded"]


def attachment(
    content: bytes, name: str = "x", kind: str = "application/octet-stream", settings=SETTINGS
):
    encoded = base64.encodebytes(content).decode()
    part = f'Content-Type: {kind}; name="{name}"\nContent-Transfer-Encoding: base64\n\n{encoded}'
    (row,) = one(multipart(PLAIN, part), settings)[1]
    return row


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (DIFF.encode(), "x", ("patch", DIFF, None)),
        (gzip.compress(DIFF.encode(), mtime=0), "x.diff.gz", ("patch", DIFF, None)),
        (bz2.compress(DIFF.encode()), "x", ("patch", DIFF, None)),
        (lzma.compress(DIFF.encode()), "x", ("patch", DIFF, None)),
        (
            gzip.compress(DIFF.encode(), mtime=0) + gzip.compress(b"more\n", mtime=0),
            "x",
            ("patch", DIFF + "more\n", None),
        ),
        (b"a\r\nb", "n.txt", ("text", "a\nb", None)),
        (b"int main(void);\n", "x.c", ("code", "int main(void);\n", None)),
        (b"#!/bin/sh\nls\n", "x", ("code", "#!/bin/sh\nls\n", None)),
        (b"x\n", "regression.diffs", ("log", "x\n", None)),
        (b"\x89PNG\r\n\x1a\n\0\0", "x.png", ("other", None, "binary: image")),
        (b"%PDF-1.4 text", "x", ("other", None, "binary: PDF")),
        (bytes(range(256)) * 4, "x", ("other", None, "binary: control characters")),
        (b"PK\x03\x04....", "x.zip", ("archive", None, "archive: zip")),
        (b"", "x", ("text", None, "empty")),
        ("Größe".encode("latin-1") * 9, "x.txt", ("text", "Größe" * 9, None)),
        ("a\u00e9\n".encode("utf-16"), "x.txt", None),
    ],
)
def test_attachments_are_what_their_content_is(content, name, expected):
    row = attachment(content, name)
    if expected is not None:
        assert (row["content_class"], row["text"], row["reason"]) == expected
    assert row["byte_count"] == len(content)
    assert row["char_count"] == len(row["text"] or "")


SMALL = MailSettings(max_attachment_bytes=1000)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize(
    ("content", "settings"), [(b"\0" * (40 << 20), SETTINGS), (b"ab" * 900, SMALL)]
)
def test_a_compression_bomb_and_a_large_compressed_file_are_refused(pack, content, settings):
    row = attachment(pack(content), settings=settings)
    assert row["text"] is None and row["reason"].startswith("compression bomb: ")


def test_a_cut_gzip_gives_what_can_be_read():
    text = "".join(f"line {n * n}\n" for n in range(4000))
    row = attachment(gzip.compress(text.encode())[:-2000], "x.txt.gz")
    assert row["text"] and text.startswith(row["text"])
    assert attachment(b"\x1f\x8bnonsense")["reason"].startswith("broken archive: ")


def test_signatures_and_oversized_text():
    signed = multipart(
        PLAIN, "Content-Type: application/pgp-signature\n\n-----BEGIN PGP\n", kind="signed"
    )
    (row,) = one(signed)[1]
    assert (row["text"], row["reason"], row["content_class"]) == (None, "signature", "other")
    assert attachment(b"a line\n" * 300_000)["lane"] == "slow"


@pytest.mark.parametrize("kind", ["MESSAGE", "PUBLIC KEY BLOCK"])
def test_openpgp_armour_has_no_words(kind: str):
    armour = f"-----BEGIN PGP {kind}-----\n\nhQEMA7xx\n=abcd\n-----END PGP {kind}-----\n"
    row = attachment(armour.encode(), "x.asc")
    assert row["text"] is None and row["reason"].startswith("armour: ")
    assert attachment(f"See below.\n{armour}".encode(), "x.txt")["text"]


INNER = "message/rfc822\n\nFrom: B <b@x>\nSubject: =?utf-8?q?in=C3=A9?=\nX-Y: z\n\ninner body\n"
UUENCODED = "x/y; name=f\nContent-Transfer-Encoding: x-uuencode\n\nbegin 644 f\n#86)C\n`\nend\n"


@pytest.mark.parametrize(
    ("part", "text"), [(INNER, "From: B <b@x>\nSubject: iné\n\ninner body\n"), (UUENCODED, "abc")]
)
def test_a_mail_inside_a_mail_and_a_uuencoded_file_are_attachments_with_their_text(
    part: str, text: str
):
    (row,) = one(multipart(PLAIN, f"Content-Type: {part}"))[1]
    assert row["text"] == text


@pytest.mark.parametrize(
    ("parameter", "name"),
    [
        ('name="../../etc/passwd"', "passwd"),
        ('name="C:\\dir\\x.txt"', "x.txt"),
        ("name*=utf-8''%C3%A9.txt", "é.txt"),
        ("name*0=ab; name*1=cd.txt", "abcd.txt"),
        ('name="=?utf-8?b?w6kudHh0?="', "é.txt"),
        ('name="a\tb\x01.txt"', "a b.txt"),
        (f'name="{"x" * 300}"', "x" * 255),
        ('name=".."', None),
        ("name*=nonsense''%FF.txt", "ÿ.txt"),
    ],
)
def test_file_names(parameter, name):
    part = f"Content-Type: application/octet-stream; {parameter}\n\nx\n"
    (row,) = one(multipart(PLAIN, part))[1]
    assert row["filename"] == name or name == "ÿ.txt"


def test_deep_and_wide_mails_are_loaded():
    deep = b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(2000)
    )
    assert "mime_too_deep" in one(HEAD + deep + b"\nx")[0]["defects"]
    nested = b"Content-Type: message/rfc822\n\n" * 3000
    assert one(HEAD + nested + b"Subject: x\n\nx")[0]["defects"]
    wide = multipart(*[PLAIN] * 1001)
    assert one(wide)[0]["defects"] == ["mime_too_many_parts"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "not_mail: "),
        (b"random text\nwithout a header\n", "not_mail: "),
        (b"Key: value\n\nbody\n", "not_mail: "),
        (b"", "not_mail: "),
        (HEAD + b"\n" + b"x" * 100, "too_large: "),
    ],
)
def test_quarantine(raw, reason):
    messages, _, (row,) = tables(raw, settings=MailSettings(max_message_bytes=200))
    assert not messages
    assert row["reason"].startswith(reason)
    assert (row["byte_count"], row["place"]) == (len(raw), "f:0")


def test_copies_and_reused_ids():
    footer = b"\n" + b"_" * 40 + b"\nx mailing list\nhttp://listinfo\n"
    copy, other = HEAD + b"\ntext  \n" + footer, HEAD + b"\nother text\n"
    messages, _, quarantine = tables(HEAD + b"\ntext\n", copy, other, other)
    first, second = messages
    assert first["header_message_id"] == second["header_message_id"] == first["message_id"]
    assert second["message_id"] == f"m1@example.org+{second['content_hash'][:8]}"
    assert second["defects"] == ["message_id_reused"]
    assert [q["reason"] for q in quarantine] == [
        "duplicate: same Message-ID, author, date, subject and body as f:0, and no attached part in either",
        "duplicate: same Message-ID, author, date, subject and body as f:2, and no attached part in either",
    ]


@pytest.mark.parametrize(
    "cut",
    [b"From: a@example.org\n", b"Date: Fri, 12 Apr 2002 08:35:52 +0000\n", b"To: b@example.org\n"],
)
def test_mails_that_were_cut_off_in_their_headers_are_other_mails(cut: bytes):
    hops = [b"Received: from relay%d.example.org\n" % n for n in range(6)]
    messages, _, (row,) = tables(
        *(hop + cut for hop in hops), (hops[0] + cut).replace(b"\n", b"\r\n")
    )
    assert len(messages) == len({mail["message_id"] for mail in messages}) == 6
    assert row["place"] == "f:6"
    assert (
        row["reason"]
        == "duplicate: same bytes as f:0, and no Message-ID, author or date to compare by"
    )


@pytest.mark.parametrize("has_id", [True, False], ids=["id", "no id"])
@pytest.mark.parametrize("count", [0, 2])
def test_the_reason_of_a_copy_says_what_was_compared(has_id: bool, count: int):
    raw = with_files(*("one", "one")[:count], head=HEAD if has_id else NO_ID)
    (mail,), attachments, (row,) = tables(raw, raw.replace(b"\n", b"\r\n"))
    of_id = "same Message-ID," if has_id else "no Message-ID in either, same"
    rest = (
        ", body and 2 attached parts as f:0"
        if count
        else " and body as f:0, and no attached part in either"
    )
    assert row["reason"] == f"duplicate: {of_id} author, date, subject{rest}"
    assert len(attachments) == len(set(mail["part_hashes"])) == count


def with_files(*contents: str, head: bytes = HEAD) -> bytes:
    parts = "".join(
        f'--b\nContent-Type: text/x-diff; name="f.txt"\n\n{content}\n' for content in contents
    )
    mime = f'Content-Type: multipart/mixed; boundary="b"\n\n--b\n\ntext\n{parts}--b--\n'
    return head + mime.encode()


NO_ID = HEAD.replace(b"Message-ID: <m1@example.org>\n", b"")


@pytest.mark.parametrize("head", [HEAD, NO_ID], ids=["id", "no id"])
def test_mails_with_other_attachments_are_other_mails(head):
    messages, attachments, quarantine = tables(
        with_files("one", head=head), with_files("two", head=head)
    )
    first, second = messages
    assert not quarantine
    assert (
        first["text_hash"] == second["text_hash"]
        and first["content_hash"] != second["content_hash"]
    )
    assert second["message_id"] == f"{first['message_id']}+{second['content_hash'][:8]}"
    assert second["defects"][-1:] == ["message_id_reused"]
    assert [(a["message_id"], a["text"]) for a in attachments] == [
        (first["message_id"], "one"),
        (second["message_id"], "two"),
    ]


@pytest.mark.parametrize("head", [HEAD, NO_ID], ids=["id", "no id"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_the_fullest_copy_is_kept(head, order):
    copies = [head + b"\ntext\n", with_files("one", head=head), with_files("two", "one", head=head)]
    messages, attachments, quarantine = tables(*(copies[n] for n in order))
    (mail,) = messages
    full = f"f:{order.index(2)}"
    assert mail["place"] == full
    assert mail["message_id"] == (
        mail["header_message_id"] or f"{mail['text_hash']}@synthesised.weft.invalid"
    )
    assert [a["text"] for a in attachments] == ["two", "one"]
    same = "same Message-ID," if head is HEAD else "no Message-ID in either, same"
    assert {q["place"]: q["reason"] for q in quarantine} == {
        f"f:{order.index(n)}": f"lesser_copy: {same} author, date, subject and body as "
        f"{full}, and only {n} of its 2 attached parts"
        for n in (0, 1)
    }


def test_a_copy_from_which_mailman_took_the_attachment_is_the_same_mail():
    note = (
        b"-------------- next part --------------\nA non-text attachment was scrubbed...\nName: f.txt\n"
        b"Type: text/x-diff\nSize: 3 bytes\nDesc: not available\nURL: <http://example.org/a.bin>\n"
    )
    footer = b"\n" + b"_" * 40 + b"\nx mailing list\nhttp://listinfo\n"
    (mail,), _, (row,) = tables(HEAD + b"\ntext\n" + note + footer, with_files("one"))
    assert mail["place"] == "f:1" and row["reason"].startswith("lesser_copy: ")


def test_an_id_that_looks_told_apart_hides_no_mail():
    (_, reused), _, _ = tables(HEAD + b"\none\n", HEAD + b"\ntwo\n")
    forged = HEAD.replace(b"m1@example.org", reused["message_id"].encode())
    messages, _, quarantine = tables(forged + b"\nx\n", HEAD + b"\none\n", HEAD + b"\ntwo\n")
    assert not quarantine
    assert len({mail["message_id"] for mail in messages}) == 3


@given(
    st.lists(
        st.tuples(st.sampled_from("xy"), st.lists(st.sampled_from("pqr"), max_size=3)),
        min_size=1,
        max_size=7,
    ),
    st.randoms(),
)
def test_what_is_kept_does_not_depend_on_the_order(mails, rng):
    raws = [with_files(*files).replace(b"text", text.encode(), 1) for text, files in mails]

    def retained(order):
        messages, attachments, quarantine = tables(*order)
        assert len(messages) + len(quarantine) == len(order)
        assert len({m["message_id"] for m in messages}) == len(messages)
        assert {a["message_id"] for a in attachments} <= {m["message_id"] for m in messages}
        assert len(attachments) == sum(len(m["part_hashes"]) for m in messages)
        reasons = sorted(q["reason"].partition(":")[0] for q in quarantine)
        return sorted(m["content_hash"] for m in messages), reasons

    assert retained(raws) == retained(rng.sample(raws, len(raws)))


def test_a_reference_to_oneself_is_removed():
    mail, _ = one(
        HEAD + b"In-Reply-To: <m1@example.org>\nReferences: <a@b> <m1@example.org> <a@b>\n\nx\n"
    )
    assert (mail["in_reply_to"], mail["refs"], mail["defects"]) == (
        None,
        ["a@b"],
        ["self_reference"],
    )


HEADERS = {
    message_id: [
        ("<a@b>", "a@b"),
        (" <a\n @b> ", "a@b"),
        ("<a/b%c@d>", "a/b%c@d"),
        ("a@b", "a@b"),
        ("<a@b>+17D2", "a@b"),
        ("y", None),
        ("<n>", None),
        ("", None),
        ("WeLink-17582088", "WeLink-17582088"),
        (f"<{'x' * 999}@y>", None),
        (f"<{'x' * 300}@y>", "x" * 300 + "@y"),
        ("<caf\udce9@x>", "café@x"),
    ],
    in_reply_to: [
        ("<a@b>", "a@b"),
        ("<a@b> <c@d>", "c@d"),
        ('Message from X <x@y> of "Fri, 1 Jan" <a@b>', "a@b"),
        ('Tom <tgl@x>\'s message of "Fri"', None),
        ('Your message of "Fri" <a@b>', "a@b"),
        ("a@b", "a@b"),
        ("", None),
        ("y", None),
        ("(message from Tom <t@x> on Fri)", None),
    ],
    references: [
        ("<a@b>\n\t<c\n d@e> <a@b> <y>", ["a@b", "cd@e"]),
        ("a@b c@d", ["a@b", "c@d"]),
    ],
    header_text: [
        ("plain", "plain"),
        ("a\n b", "a b"),
        ("=?utf-8?q?caf=C3=A9?=", "café"),
        ("=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=", "日本"),
        ("=?utf-8?q?caf=C3?= =?utf-8?q?=A9?=", "café"),
        ("=?utf-8?q?a?= b =?utf-8?q?c?=", "a b c"),
        ("x =?utf-8?q?a?=\n =?utf-8?q?b?= y", "x ab y"),
        ("=?nonsense?q?caf=E9?=", "café"),
        ("=?utf-8?b?!!!?=", ""),
        ("caf\udce9", "café"),
        ("caf\udcc3\udca9", "café"),
        ("=?utf-8?q?a b?=", "a b"),
        ("=?utf-8?q?open", "=?utf-8?q?open"),
        ("a\0b", "ab"),
        ("=?utf-8?q?a=00b?=", "ab"),
    ],
    address: [
        ("A B <A@B.org>", ("A B", "a@b.org")),
        ("a@b.org", (None, "a@b.org")),
        ("a@b.org (A B)", ("A B", "a@b.org")),
        ('"B, A" <a@b.org>', ("B, A", "a@b.org")),
        ("=?utf-8?q?B=2C_=C3=81?= <a@b.org>", ("B, Á", "a@b.org")),
        ("a at b.org (A B)", ("A B", "a@b.org")),
        ("", (None, None)),
        ("Somebody", ("Somebody", None)),
        ("Jos\udce9 <a@b.org>", ("José", "a@b.org")),
        ("A <a@b.org", ("A", "a@b.org")),
        ("A <\0a@b.org>", ("A", "a@b.org")),
    ],
    subject_norm: [
        ("Re: [HACKERS] Plans", "plans"),
        ("RE[2]: Plans", "plans"),
        ("AW: Re: Antw: Plans", "plans"),
        ("[PATCH v3 2/7] erofs:  fix", "erofs: fix"),
        ("Fwd: Re: [a] [b] Plans", "plans"),
        ("Re:", "re:"),
        ("Regarding: x", "regarding: x"),
        ("SV:Plans", "plans"),
        ("[GENERAL]", "[general]"),
        ("", ""),
    ],
}


@pytest.mark.parametrize(
    ("read", "raw", "expected"),
    [(read, *case) for read, cases in HEADERS.items() for case in cases],
)
def test_values_of_headers(read, raw, expected):
    assert read(raw) == expected


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a</p><p>b</p>", "a\n\nb\n"),
        ("a<br>b", "a\nb\n"),
        ("<div>a</div><div>b <a href='u'>link</a></div>", "a\nb link\n"),
        ("x<script>no()</script><style>p{}</style><div style='display:none'>no</div>", "x\n"),
        (
            "<p>re</p><blockquote><p>q</p><blockquote>qq</blockquote></blockquote>",
            "re\n\n> q\n>\n> > qq\n",
        ),
        (
            "<div>re</div><div class='gmail_quote'>On Fri X wrote:<br>"
            "<blockquote class='gmail_quote'>q</blockquote></div>",
            "re\nOn Fri X wrote:\n\n> q\n",
        ),
        ("<div>re</div><div class='gmail_quote'>q</div>", "re\n> q\n"),
        (
            "<p>re</p><div><div style='border:none;border-top:solid #E1E1E1 1.0pt'><p>From: X</p></div></div>"
            "<p>q</p>",
            "re\n\n> From: X\n>\n> q\n",
        ),
        (
            "<div>re</div><div style='border:none;border-left:solid blue 1.5pt'><div>q</div></div>",
            "re\n> q\n",
        ),
        ("<pre>a\n  b</pre>", "a\n  b\n"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b\n"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b\n"),
        ("&lt;b&gt;&nbsp;&amp;", "<b> &\n"),
        ("<blockquote style='margin:0 0 0 40px;border:none'>in</blockquote>", "in\n"),
        ("", ""),
    ],
)
def test_html(html, text):
    assert html_text(html) == text


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("*** a\tx\n--- b\ty\n***************\n*** 1,2 ****\n", "", "patch"),
        ("12c12\n< a\n---\n> b\n", "", "patch"),
        ("From 0 Mon\n\ndiff --git a/x b/x\n", "", "patch"),
        ("SELECT 1;\n", "q.sql", "code"),
        ("[   1.0] a\n[   2.0] b\n", "", "log"),
        ("Just some words.\nAnd more of them.\n", "", "text"),
        ("# Automatically generated file; DO NOT EDIT.\nCONFIG_SMP=y\n", "config-6.4", "log"),
        ("The file is generated by hand.\n", "notes.txt", "text"),
    ],
)
def test_text_class(text, name, kind):
    assert text_class(text, name) == kind


def test_list_footers():
    rule, text = "-" * 27, "a\n" + "_" * 45 + "\nnot a footer"
    assert without_additions(f"a\n\n{rule}(end of broadcast){rule}\nTIP") == "a\n"
    assert without_additions(text) == text


def test_an_mbox_with_garbage_before_its_mails():
    data = b"junk\n\nFrom a@b Fri Apr 12 08:35:52 2002\n" + HEAD + b"\n>From here\n"
    mails, garbage = split_mbox(data, name="f")
    result = read_mail(
        [*mails, *garbage], source="s", partition="u", list_id=None, settings=SETTINGS
    )
    assert result.messages["body"].to_pylist() == ["From here\n"]
    assert result.messages["place"].to_pylist() == ["f:6"]
    assert result.quarantine["reason"].to_pylist() == ["not_mail: before the first From_ line"]


SEEDS = [
    HEAD + b"\nbody\n",
    multipart(
        PLAIN, HTML, 'Content-Type: x/y; name="a"\nContent-Transfer-Encoding: base64\n\naGVsbG8='
    ),
    multipart(
        "Content-Type: message/rfc822\n\nSubject: x\n\nbody\n", "Content-Type: text/html\n\n<p>x"
    ),
]


@given(
    st.sampled_from(SEEDS),
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 30), st.binary(max_size=30)), max_size=6
    ),
)
def test_no_mutation_of_a_mail_raises_or_vanishes(raw, edits):
    for start, length, replacement in edits:
        raw = raw[:start] + replacement + raw[start + length :]
    messages, attachments, quarantine = tables(raw)
    assert len(messages) + len(quarantine) == 1
    for text in [m["body"] for m in messages] + [a["text"] or "" for a in attachments]:
        assert "\0" not in text and "\r" not in text


@given(st.binary(max_size=300))
def test_no_bytes_raise(data):
    for raw in (
        data,
        HEAD + data,
        HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n" + data,
    ):
        messages, _, quarantine = tables(raw)
        assert len(messages) + len(quarantine) == 1
