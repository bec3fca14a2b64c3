"""Random and damaged mails: none is lost, none raises, and the quick way reads what the full one
reads.
"""

import base64
import gzip
import os
import quopri
from pathlib import Path

from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.mail.messages import MailTables, Means, RawMail, read_mail, split_mbox
from transforms.settings.mail import MailSettings

FUZZ = examples(120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
ROOT = Path(__file__).resolve().parents[3]
CORPORA = Path(os.environ.get("WEFT_CORPORA", ROOT.parent / "shared" / "corpora"))


def tables(raw: list[RawMail], *, quick: bool) -> MailTables:
    return read_mail(
        raw, source="s", partition="u", list_id="l", settings=MailSettings(), means=Means(quick)
    )


def assert_sound(raw: list[RawMail]) -> MailTables:
    """Every mail is in one table, every text is clean, and both ways of reading agree."""
    read = tables(raw, quick=True)
    assert read.messages.num_rows + read.quarantine.num_rows == len(raw)
    for row in read.messages.to_pylist() + read.attachments.to_pylist():
        for value in row.values():
            if isinstance(value, str):
                assert "\0" not in value
                value.encode()
    for body in read.messages["body"].to_pylist():
        assert "\r" not in body
    assert all(reason for reason in read.quarantine["reason"].to_pylist())
    full = tables(raw, quick=False)
    for one, other in zip(read, full, strict=True):
        assert one.to_pylist() == other.to_pylist()
    return read


def real_mails() -> list[bytes]:
    """Small mails of the real archives, of each list some; without them, the mails of the shipped
    sample.
    """
    files = [
        *sorted(CORPORA.glob("pgsql/pgsql-*"))[::9],
        *sorted(CORPORA.glob("linux-erofs/*.gz"))[::12],
    ]
    raws = []
    for file in files or sorted((ROOT / "data" / "sample").glob("*/*.20*")):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        mails, _ = split_mbox(data, name=file.name)
        small = [mail.data for mail in mails if len(mail.data) < 12_000]
        raws += [*small[:2], *(raw for raw in small if b"\nContent-Type: multipart/" in raw)][:4]
    return raws


REAL = real_mails()
SPLICES = (
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\0",
    b"\xff",
    b"--",
    b"=",
    b"=?utf-8?b?",
    b"From ",
    b">From ",
    b":",
    b" ",
    b"\t",
    b"Content-Type: multipart/mixed; boundary=\n",
    b"Content-Transfer-Encoding: base64\n",
    b'"',
    b"\x1b$B",
    b"(" * 50,
)
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 60),
        st.one_of(st.sampled_from(SPLICES), st.binary(max_size=12)),
    ),
    max_size=8,
)


@FUZZ
@example(b"From: a@b.c\nContent-Type: multipart\n /mixed; boundary=b\n\n--b\n\nx\n--b--\n", [])
@example(b'From: a@b.c\nContent-Type: text/html; charset="\0"\n\n<p>\xc3\xa9', [])
@given(st.sampled_from(REAL), EDITS)
def test_damaged_real_mails(raw: bytes, edits: list[tuple[float, int, bytes]]):
    for share, length, replacement in edits:
        start = int(share * len(raw))
        raw = raw[:start] + replacement + raw[start + length :]
    assert_sound([RawMail("f:0", raw)])


@FUZZ
@given(
    st.lists(st.sampled_from(REAL), min_size=1, max_size=4),
    EDITS,
    st.sampled_from(["mboxrd", "mboxo"]),
)
def test_damaged_archives(raws: list[bytes], edits: list[tuple[float, int, bytes]], dialect):
    data = b"\n".join(b"From a@example.org Fri Dec 18 09:41:40 1998\n" + raw for raw in raws)
    for share, length, replacement in edits:
        start = int(share * len(data))
        data = data[:start] + replacement + data[start + length :]
    mails, garbage = split_mbox(data, name="f", dialect=dialect)
    assert_sound([*mails, *garbage])


VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            "x",
            "A B <a@example.org>",
            "<a@b> <c@d>",
            "=?utf-8?q?caf=C3=A9?=",
            "Fri, 12 Apr 2002 09:35:52 +0100",
            "from a by b; Fri, 12 Apr 2002 09:35:52 -9900",
            "text/plain; charset=utf-8; format=flowed; delsp=yes",
            "text/html; charset=x-unknown",
            'multipart/mixed; boundary="b 1"',
            "multipart/mixed",
            "message/rfc822",
            "text/x-patch; name=a.diff",
            "base64",
            "quoted-printable",
            "8bit",
            "attachment; filename*=utf-8''%C3%A9",
        ]
    ),
    st.text(st.characters(codec="latin-1"), max_size=40),
)
NAMES = st.sampled_from(
    [
        "From",
        "FROM",
        "Date",
        "Subject",
        "Message-ID",
        "Message-Id",
        "In-Reply-To",
        "References",
        "Received",
        "Content-Type",
        "content-type",
        "Content-Transfer-Encoding",
        "Content-Disposition",
        "X-Odd",
        "To ",
        "List-Id",
        "Bad Name",
        "",
    ]
)
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\n ", b"\n\t"])


@st.composite
def loose_mails(draw: st.DrawFn) -> bytes:
    """Headers and bodies as they come: folded, repeated, misspelt, with any line ends."""
    lines = [
        f"{name}: {value}".encode("latin-1") + draw(ENDS)
        for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=10))
    ]
    body = draw(
        st.lists(
            st.sampled_from(
                [
                    b"text\n",
                    b"--b 1\n",
                    b"--b 1--\n",
                    b"--b 1x\n",
                    b"\n",
                    b"> q\n",
                    b"aGVsbG8=\n",
                    b"\r",
                    b"Content-Type: text/html\n\n<p>x\n",
                    b"Content-Type: multipart/mixed; boundary=c\n\n--c\n\nin\n--c--\n",
                    b"From x\n",
                    b"\0\xff\n",
                ]
            ),
            max_size=12,
        )
    )
    return b"".join(lines) + draw(st.sampled_from([b"\n", b"\r\n", b""])) + b"".join(body)


@FUZZ
@given(st.lists(loose_mails(), min_size=1, max_size=3))
def test_loose_mails(raws: list[bytes]):
    assert_sound([RawMail(f"f:{n}", raw) for n, raw in enumerate(raws)])


def part(headers: str, content: bytes) -> bytes:
    return headers.encode() + b"\n" + content


@st.composite
def leaves(draw: st.DrawFn, words: list[str]) -> bytes:
    """A text or a file that holds a word of its own, in one of the transfer encodings."""
    word = f"word{len(words)}x"
    words.append(word)
    charset = draw(st.sampled_from(["utf-8", "iso-8859-1", "koi8-r", "us-ascii"]))
    odd = {"utf-8": "é日", "iso-8859-1": "ü", "koi8-r": "ж", "us-ascii": ""}[charset]
    content = f"{word} {odd}\nline = two\n".encode(charset)
    encoding = draw(st.sampled_from(["8bit", "quoted-printable", "base64"]))
    if encoding == "base64":
        content = base64.encodebytes(content)
    elif encoding == "quoted-printable":
        content = quopri.encodestring(content)
    disposition = draw(st.sampled_from(["", 'Content-Disposition: attachment; filename="f.txt"\n']))
    kind = draw(st.sampled_from(["text/plain", "text/html", "application/octet-stream"]))
    head = f"Content-Type: {kind}; charset={charset}\nContent-Transfer-Encoding: {encoding}\n{disposition}"
    return part(head, content)


@st.composite
def trees(draw: st.DrawFn, words: list[str], depth: int = 0) -> bytes:
    """A well-formed MIME tree of any shape without alternatives."""
    if depth == 3 or draw(st.booleans()):
        return draw(leaves(words))
    boundary = f"b{len(words)}-{depth}"
    kind = draw(st.sampled_from(["mixed", "related", "signed"]))
    children = [draw(trees(words, depth + 1)) for _ in range(draw(st.integers(1, 3)))]
    lines = [draw(st.sampled_from([b"", b"preamble\n"]))]
    lines += [b"--" + boundary.encode() + b"\n" + child + b"\n" for child in children]
    lines.append(b"--" + boundary.encode() + b"--\n" + draw(st.sampled_from([b"", b"epilogue\n"])))
    return part(f'Content-Type: multipart/{kind}; boundary="{boundary}"\n', b"".join(lines))


@FUZZ
@given(st.data(), st.sampled_from([b"\n", b"\r\n"]))
def test_no_word_of_a_well_formed_mail_is_lost(data: st.DataObject, line_end: bytes):
    words: list[str] = []
    tree = data.draw(trees(words))
    raw = b"From: a@example.org\nSubject: x\nMIME-Version: 1.0\n" + tree
    read = assert_sound([RawMail("f:0", raw.replace(b"\n", line_end))])
    texts = read.messages["body"].to_pylist() + [
        t or "" for t in read.attachments["text"].to_pylist()
    ]
    (defects,) = read.messages["defects"].to_pylist()
    assert set(defects) - {"text_outside_parts"} == {"no_date", "no_message_id"}
    assert sum(text.count("epilogue") for text in texts) == tree.count(b"epilogue")
    for word in words:
        assert sum(text.count(word) for text in texts) == 1
