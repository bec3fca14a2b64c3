"""Raw mails to tables: what becomes body, attachment, quarantine, and how the broken is repaired."""

from __future__ import annotations

import base64
import bz2
import gzip
import lzma
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.mail.attachments import text_class
from transforms.mail.headers import address, header_text, in_reply_to, message_id, references, subject_norm
from transforms.mail.html_text import html_text
from transforms.mail.messages import RawMail, read_mail, split_mbox, without_list_footer
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
    result = read_mail(mails, source="s", unit="u", list_id="l", settings=settings)
    for table, schema in zip(result, (MESSAGES, ATTACHMENTS, QUARANTINE), strict=True):
        assert schema.conform(table).equals(table)
    return tuple(table.to_pylist() for table in result)


def one(raw: bytes, settings: MailSettings = SETTINGS):
    messages, attachments, quarantine = tables(raw, settings=settings)
    assert len(messages) == 1 and not quarantine
    return messages[0], attachments


def multipart(*parts: str, kind: str = "mixed") -> bytes:
    body = "".join(f"--b\n{part}\n" for part in parts)
    return HEAD + f'MIME-Version: 1.0\nContent-Type: multipart/{kind}; boundary="b"\n\n{body}--b--\n'.encode()


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
        pytest.param(HEAD.replace(b"\n", b"\r\n") + b"\r\n\n\nx", "\n\nx", None, id="CRLF headers, LF body"),
        pytest.param(HEAD + b"\na\0b\n", "ab\n", "nul_removed", id="NUL"),
        pytest.param(HEAD + b"\n caf\xe9\n", " café\n", "charset_guessed", id="undeclared 8 bit"),
        pytest.param(HEAD + b"", "", None, id="no body"),
        pytest.param(
            HEAD + b"hello there\n", "hello there\n", "missing_header_body_separator", id="no blank line"
        ),
        pytest.param(
            b"Subject: a\nsplit by a relay\n" + HEAD + b"\nx\n", "x\n", "header_line_broken", id="fold lost"
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\naGVsbG8K\n____\nfooter\n",
            "hello\n____\nfooter\n",
            "base64_trailing_text",
            id="footer behind base64",
        ),
        pytest.param(
            HEAD + b"Content-Transfer-Encoding: base64\n\naGVsbG8\n", "hello", "base64_broken", id="cut"
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
            HEAD + b"Content-Transfer-Encoding: 9bit\n\nx\n", "x\n", "transfer_encoding_unknown", id="9bit"
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
        pytest.param(HEAD + b"Content-Type: nonsense; charset\n\nx\n", "x\n", None, id="nonsense type"),
    ],
)
def test_bodies(raw, body, defect):
    mail, _ = one(raw)
    assert mail["body"] == body
    assert mail["defects"] == ([] if defect is None else [defect])


@pytest.mark.parametrize(
    ("raw", "body", "body_format", "names"),
    [
        pytest.param(multipart(PLAIN, PLAIN), "hello\nhello\n", "plain", [], id="two plain"),
        pytest.param(multipart(PLAIN, HTML, kind="alternative"), "hello\n", "plain", [], id="alternative"),
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


def attachment(content: bytes, name: str = "x", kind: str = "application/octet-stream", settings=SETTINGS):
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


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compression_bomb_is_refused(pack):
    row = attachment(pack(b"\0" * (40 << 20)))
    assert row["text"] is None and row["reason"].startswith("compression bomb: ")


def test_a_large_compressed_file_is_refused():
    small = MailSettings(max_attachment_bytes=1000)
    assert attachment(gzip.compress(b"ab" * 900, mtime=0), settings=small)["reason"].startswith(
        "compression bomb: "
    )


def test_a_cut_gzip_gives_what_can_be_read():
    text = "".join(f"line {n * n}\n" for n in range(4000))
    row = attachment(gzip.compress(text.encode())[:-2000], "x.txt.gz")
    assert row["text"] and text.startswith(row["text"])
    assert attachment(b"\x1f\x8bnonsense")["reason"].startswith("broken archive: ")


def test_signatures_and_oversized_text():
    signed = multipart(PLAIN, "Content-Type: application/pgp-signature\n\n-----BEGIN PGP\n", kind="signed")
    (row,) = one(signed)[1]
    assert (row["text"], row["reason"], row["content_class"]) == (None, "signature", "other")
    assert attachment(b"abcd", settings=MailSettings(max_attachment_chars=3))["lane"] == "slow"


def test_a_mail_inside_a_mail_is_an_attachment_with_its_text():
    inner = (
        "Content-Type: message/rfc822\n\nFrom: B <b@x>\nSubject: =?utf-8?q?in=C3=A9?=\nX-Y: z\n\ninner body\n"
    )
    (row,) = one(multipart(PLAIN, inner))[1]
    assert row["text"] == "From: B <b@x>\nSubject: iné\n\ninner body\n"


def test_uuencode_is_decoded():
    part = (
        "Content-Transfer-Encoding: x-uuencode\nContent-Disposition: attachment\n\n"
        "begin 644 f\n#86)C\n`\nend\n"
    )
    (row,) = one(multipart(PLAIN, part))[1]
    assert row["text"] == "abc"


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
    deep = b"".join(b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(2000))
    assert "mime_too_deep" in one(HEAD + deep + b"\nx")[0]["defects"]
    nested = b"Content-Type: message/rfc822\n\n" * 3000
    assert one(HEAD + nested + b"Subject: x\n\nx")[0]["defects"]
    wide = multipart(*[PLAIN] * 50)
    assert one(wide, MailSettings(max_mime_parts=10))[0]["defects"] == ["mime_too_many_parts"]


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
        "duplicate: same Message-ID and content as f:0",
        "duplicate: same Message-ID and content as f:2",
    ]


def test_a_mail_without_id_gets_a_stable_one():
    raw = HEAD.replace(b"Message-ID: <m1@example.org>\n", b"Message-ID: <y>\n") + b"\nx\n"
    mail, _ = one(raw)
    assert mail["message_id"] == f"{mail['content_hash']}@synthesised.weft.invalid"
    assert mail["header_message_id"] is None and mail["defects"] == ["no_message_id"]


def test_a_reference_to_oneself_is_removed():
    mail, _ = one(HEAD + b"In-Reply-To: <m1@example.org>\nReferences: <a@b> <m1@example.org> <a@b>\n\nx\n")
    assert (mail["in_reply_to"], mail["refs"], mail["defects"]) == (None, ["a@b"], ["self_reference"])


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
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
)
def test_message_ids(raw, expected):
    assert message_id(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
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
)
def test_in_reply_to(raw, expected):
    assert in_reply_to(raw) == expected


def test_references():
    assert references("<a@b>\n\t<c\n d@e> <a@b> <y>") == ["a@b", "cd@e"]
    assert references("a@b c@d") == ["a@b", "c@d"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
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
)
def test_header_text(raw, text):
    assert header_text(raw) == text


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
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
)
def test_addresses(raw, expected):
    assert address(raw) == expected


@pytest.mark.parametrize(
    ("subject", "norm"),
    [
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
)
def test_subject_norm(subject, norm):
    assert subject_norm(subject) == norm


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a</p><p>b</p>", "a\n\nb\n"),
        ("a<br>b", "a\nb\n"),
        ("<div>a</div><div>b <a href='u'>link</a></div>", "a\nb link\n"),
        ("x<script>no()</script><style>p{}</style><div style='display:none'>no</div>", "x\n"),
        ("<p>re</p><blockquote><p>q</p><blockquote>qq</blockquote></blockquote>", "re\n\n> q\n>\n> > qq\n"),
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


def test_deep_html():
    assert html_text("<div>" * 5000 + "x").strip() == "x"


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
    assert (
        without_list_footer(
            "a\n\n---------------------------(end of broadcast)---------------------------\nTIP"
        )
        == "a\n"
    )
    assert without_list_footer("a\n" + "_" * 45 + "\nnot a footer") == "a\n" + "_" * 45 + "\nnot a footer"


def test_an_mbox_with_garbage_before_its_mails():
    data = b"junk\n\nFrom a@b Fri Apr 12 08:35:52 2002\n" + HEAD + b"\n>From here\n"
    mails, garbage = split_mbox(data, name="f")
    result = read_mail([*mails, *garbage], source="s", unit="u", list_id=None, settings=SETTINGS)
    assert result.messages["body"].to_pylist() == ["From here\n"]
    assert result.messages["place"].to_pylist() == ["f:6"]
    assert result.quarantine["reason"].to_pylist() == ["not_mail: before the first From_ line"]


SEEDS = [
    HEAD + b"\nbody\n",
    multipart(PLAIN, HTML, 'Content-Type: x/y; name="a"\nContent-Transfer-Encoding: base64\n\naGVsbG8='),
    multipart("Content-Type: message/rfc822\n\nSubject: x\n\nbody\n", "Content-Type: text/html\n\n<p>x"),
]


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), st.binary(max_size=30)), max_size=6),
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
    for raw in (data, HEAD + data, HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n" + data):
        messages, _, quarantine = tables(raw)
        assert len(messages) + len(quarantine) == 1
