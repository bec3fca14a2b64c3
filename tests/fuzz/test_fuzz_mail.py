"""A thousand damaged mails from mbox bytes to chunks: each is a row or set aside, both ways of
reading agree.
"""

import random
import re
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.fuzz.fuzzing import seeds, within_limits
from tests.transforms.mail.test_messages import (
    DIFF,
    HEAD,
    HTML,
    PLAIN,
    SEEDS,
    multipart,
    with_files,
)
from tests.transforms.mail.test_messages_fuzz import REAL, assert_sound
from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks.table import message_chunks
from transforms.mail.messages import split_mbox
from transforms.settings.mail import BlockSettings, ChunkSettings

ARCHIVE_LINE = b"From a@example.org Fri Dec 18 09:41:40 1998\n"
MAILS = [
    *REAL,
    *SEEDS,
    multipart(PLAIN, HTML, kind="alternative"),
    with_files(DIFF, "int x;"),
    with_files(DIFF),
    HEAD + b"\ntext\n",
    HEAD.replace(b"Message-ID: <m1@example.org>\n", b"") + b"\nno id\n",
]
CHARSETS = b"utf-7 utf-8 utf-16 utf-32 iso-2022-jp iso-2022-cn hz-gb-2312 koi8-r shift_jis x-unknown cp037".split()
PIECES = (
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\0",
    b"\x1b$B",
    b"\x1b(B",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xff\xfe",
    b"+AOk-",
    b"=?utf-7?q?+AOk-?=",
    b"=",
    b"\n--",
    b"--\n",
    b"begin 644 f\n",
    b"\n>From a@b\n",
    b"\nFrom a@b Fri Dec 18 09:41:40 1998\nTo: b\n",
    b"Content-Type: message/rfc822\n\n",
    b"Content-Transfer-Encoding: base64\n",
    b'Content-Type: text/html; charset="',
)


def flip_bytes(raw: bytes, rng: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def change_headers(raw: bytes, rng: random.Random) -> bytes:
    """A header twice, gone, folded anywhere, or with the value of another."""
    head, blank, body = raw.partition(b"\n\n")
    lines = head.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.choice(lines)
    fold = rng.randint(0, len(lines[at]))
    lines[at : at + 1] = rng.choice(
        [
            [lines[at], other],
            [lines[at], lines[at].partition(b":")[0] + b":" + other.partition(b":")[2]],
            [],
            [lines[at][:fold], rng.choice([b" ", b"\t", b""]) + lines[at][fold:]],
        ]
    )
    return b"\n".join(lines) + blank + body


def change_boundaries(raw: bytes, rng: random.Random) -> bytes:
    """One boundary for another, with a tail, or without its end."""
    found = re.findall(rb'boundary="?([^"\s;]+)', raw) or [b"b"]
    one, tail = rng.choice(found), rng.choice([b"", b"--", b"1", b" ", b"\t"])
    changed = raw.replace(b"--" + one, b"--" + rng.choice(found) + tail, rng.choice([1, 2, -1]))
    return changed.replace(b"boundary=", b"boundary=x", 1) if rng.random() < 0.2 else changed


def change_charset(raw: bytes, rng: random.Random) -> bytes:
    return re.sub(rb"(?i)(charset=\"?)[\w-]+", lambda m: m[1] + rng.choice(CHARSETS), raw)


def insert(raw: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 5)):
        at = rng.choice([0, rng.randint(0, len(raw)), raw.find(b"\n\n") + 1])
        raw = raw[:at] + rng.choice(PIECES) + raw[at:]
    return raw


def truncate(raw: bytes, rng: random.Random) -> bytes:
    return raw[rng.randint(0, 20) : rng.randint(0, len(raw))]


def nest(raw: bytes, rng: random.Random) -> bytes:
    boundary = rng.choice([b"b", b"b1", b"b--", b"=_x"])
    kind = rng.choice(
        [
            b"message/rfc822",
            b"multipart/mixed; boundary=b",
            b"text/plain",
            b"multipart/digest; boundary=b",
        ]
    )
    inside = b"--%b\nContent-Type: %b\n\n%b\n" % (boundary, kind, raw)
    return HEAD + b'Content-Type: multipart/mixed; boundary="%b"\n\n%b--%b--\n' % (
        boundary,
        inside * rng.randint(1, 3),
        boundary,
    )


def join(raw: bytes, rng: random.Random) -> bytes:
    """Two mails cut anywhere, or a second one behind the first with or without its From_ line."""
    other = rng.choice(MAILS)
    between = rng.choice([b"", b"\n", b"\n" + ARCHIVE_LINE])
    return (
        raw[: rng.randint(0, len(raw))]
        + between
        + other[rng.choice([0, rng.randint(0, len(other))]) :]
    )


def change_line_ends(raw: bytes, rng: random.Random) -> bytes:
    lines = raw.split(b"\n")
    return b"".join(line + rng.choice([b"\n", b"\n", b"\r\n", b"\r"]) for line in lines)


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bytes,
    change_headers,
    change_boundaries,
    change_charset,
    insert,
    truncate,
    nest,
    join,
    change_line_ends,
)


def damaged(rng: random.Random) -> bytes:
    raw = rng.choice(MAILS)
    for change in rng.choices(CHANGES, k=rng.randint(1, 4)):
        raw = change(raw, rng) or b"\n"
    return raw


def assert_read_to_the_end(raws: list[bytes], dialect: str) -> None:
    """Tables of both ways agree, blocks cover each body, and chunks stand inside of their texts."""
    mails, garbage = split_mbox(
        b"\n".join(ARCHIVE_LINE + raw for raw in raws), name="f", dialect=dialect
    )  # type: ignore[arg-type]
    read = assert_sound([*mails, *garbage])
    blocks = message_blocks(read.messages, BlockSettings())
    bodies = {row["message_id"]: row["body"].encode() for row in read.messages.to_pylist()}
    assert len(bodies) == read.messages.num_rows
    covered = dict.fromkeys(bodies, 0)
    for block in sorted(
        blocks.to_pylist(), key=lambda row: (row["message_id"], row["block_index"])
    ):
        assert block["byte_start"] == covered[block["message_id"]] <= block["byte_end"]
        covered[block["message_id"]] = block["byte_end"]
        bodies[block["message_id"]][block["byte_start"] : block["byte_end"]].decode()
    assert covered == {ident: len(body) for ident, body in bodies.items()}
    texts = {
        row["attachment_id"]: (row["text"] or "").encode() for row in read.attachments.to_pylist()
    }
    assert len(texts) == read.attachments.num_rows
    chunks, _ = message_chunks(read.messages, blocks, read.attachments, ChunkSettings())
    assert_spans_inside(chunks, bodies | texts)


def assert_spans_inside(chunks: pa.Table, texts: dict[str, bytes]) -> None:
    for chunk in chunks.to_pylist():
        text = texts[chunk["attachment_id"] or chunk["doc_id"]]
        for span in chunk["spans"]:
            assert 0 <= span["byte_start"] <= span["byte_end"] <= len(text), chunk["chunk_id"]
            text[span["byte_start"] : span["byte_end"]].decode()


@pytest.mark.exhaustive
def test_1000_damaged_mails():
    for seed, rng in seeds(100):
        raws = [damaged(rng) for _ in range(10)]
        with within_limits(f"seed {seed}"):
            try:
                assert_read_to_the_end(raws, rng.choice(["mboxrd", "mboxo", "content-length"]))
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise
