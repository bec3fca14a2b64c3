"""A mailing-list archive of any size, made of real text, with the distributions of a real quarter
of a million mails.

    python benchmarks/scale_corpus.py FOLDER [--share 1.0] [--seed 1] [--longest BYTES]

Writes monthly mboxrd files. Counts and sizes follow what was read off a database of the PostgreSQL
lists (pginbox): messages, threads, attachments, the quantiles of their sizes, and how many mails
answer, refer and quote. Between two given quantiles the size is a power of the share that lies
above it. The text is that of the mail corpora: paragraphs that people wrote, signatures, file diffs
and other code, drawn at random and told apart by words and digits that are exchanged, so that texts
seldom repeat. The same seed, share and corpora give the same bytes.
"""

import base64
import gzip
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import mail_collections as collections
import numpy as np
import polars as pl
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table

from transforms.mail.blocks.table import message_blocks
from transforms.mail.messages import read_mail, split_mbox
from transforms.settings.mail import BlockSettings, MailSettings

MESSAGES, THREADS, ATTACHMENTS = 250_771, 31_476, 78_842
ANSWERS, REFERRING, QUOTING, QUOTE_FIRST = 220_057, 212_908, 209_677, 12_368
WITHOUT_TEXT = ATTACHMENTS - 75_619
MONTHS = 351
FIRST_MONTH = (1997, 1)
BODY = ((0.5, 1_308), (0.9, 4_282), (0.99, 25_862), (1.0, 2_123_695))
ATTACHED = ((0.5, 9_472), (0.9, 66_147), (0.99, 318_562), (1.0, 33_385_745))
THREAD = ((0.5, 1), (0.9, 18), (0.99, 94), (1.0, 936))
_SMALLEST = {"body": 40, "attached": 200}
_QUOTE_SHARE = 0.45


@dataclass
class Pools:
    """Real text to draw from: paragraphs, signatures, file diffs, other code, subjects and authors."""

    paragraphs: list[bytes] = field(default_factory=list)
    signatures: list[bytes] = field(default_factory=list)
    diffs: list[bytes] = field(default_factory=list)
    code: list[bytes] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    authors: list[tuple[str, str]] = field(default_factory=list)

    @cached_property
    def words(self) -> list[bytes]:
        """Words of the paragraphs, to exchange others by."""
        found = re.findall(rb"\b[a-z]{4,12}\b", b" ".join(self.paragraphs[:4000]))
        return sorted(set(found))


def pools(corpora: Path) -> Pools:
    """The pools of the PostgreSQL lists and of every fourth month of linux-erofs."""
    files = [
        *sorted((corpora / "pgsql").glob("pgsql-*")),
        *sorted((corpora / "linux-erofs").glob("*.gz"))[::4],
    ]
    made = Pools()
    for file in files:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        mails, _ = split_mbox(data, name=file.name)
        tables = read_mail(
            mails, source="scale", partition="all", list_id=None, settings=MailSettings()
        )
        blocks = pl.DataFrame(message_blocks(tables.messages, BlockSettings()))
        messages = pl.DataFrame(
            tables.messages.select(["message_id", "body", "subject", "from_name", "from_addr"])
        )
        made.subjects += messages.get_column("subject").to_list()
        made.authors += [
            (n, a) for n, a in messages.select("from_name", "from_addr").iter_rows() if n and a
        ]
        rows = blocks.join(messages, on="message_id", maintain_order="left").select(
            "kind", "byte_start", "byte_end", "body"
        )
        for kind, start, end, body in rows.iter_rows():
            _sort_in(made, kind, body.encode()[start:end])
    made.subjects = sorted(
        {re.sub(r"(?i)^(re: *)+|\[[^]]*\] *", "", s)[:90] for s in made.subjects if s}
    )
    made.authors = sorted(set(made.authors))
    return made


def _sort_in(made: Pools, kind: str, text: bytes) -> None:
    """Put one block's text into the pool it belongs to."""
    if kind == "author":
        pieces = (p.strip(b"\n") for p in re.split(rb"\n[ \t]*\n", text))
        made.paragraphs += [p for p in pieces if 40 <= len(p) <= 2000]
    elif kind == "signature" and len(text) < 400:
        made.signatures.append(text.strip(b"\n"))
    elif kind == "patch_or_code" and len(text) > 200:
        pieces = re.split(rb"^(?=diff --git )", text, flags=re.M)
        made.code += [
            p for p in pieces[:1] if len(p) > 200 and not re.search(rb"^[-+]|^@@", p, re.M)
        ]
        made.diffs += [p for p in pieces[1:] if b"\n@@ " in p and b"GIT binary" not in p]


def sizes(
    count: int, quantiles: Sequence[tuple[float, int]], smallest: int, seed: int, bend: float = 0.0
) -> np.ndarray:
    """`count` sizes in random order whose quantiles are the given ones, int64.

    Between two quantiles the logarithm of the size goes with that of the share above it; with
    `bend` 1 it goes with the share itself, which makes sizes in between larger.
    """
    above = 1 - (np.arange(count) + 0.5) / count
    made = np.empty(count)
    share, size = quantiles[0]
    low = above > 1 - share
    made[low] = smallest * (size / smallest) ** ((1 - above[low]) / share)
    for (share, size), (next_share, next_size) in pairwise(quantiles):
        begin, end = 1 - share, 1 - next_share if next_share < 1 else 0.5 / count
        here = (above <= begin) & (above >= end * 0.999)
        steep = np.log(begin / above[here]) / math.log(begin / end)
        even = (begin - above[here]) / (begin - end)
        made[here] = size * (next_size / size) ** (bend * even + (1 - bend) * steep)
    return np.random.default_rng(seed).permutation(np.rint(made).astype(np.int64))


def thread_sizes(threads: int, messages: int, seed: int) -> np.ndarray:
    """Messages of each thread, in all `messages`; what lies between the quantiles is what the sum
    asks for.
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        bend = (low + high) / 2
        made = sizes(threads, THREAD, 1, seed, bend)
        low, high = (low, bend) if made.sum() > messages else (bend, high)
    spare = messages - int(made.sum())
    made[np.argsort(made, kind="stable")[::-1][1 : abs(spare) + 1]] += 1 if spare > 0 else -1
    return made


@dataclass(frozen=True)
class Plan:
    """Every mail's thread, parent (-1 for the first of a thread), month, time, size, and its
    attachments' sizes.
    """

    thread: np.ndarray
    parent: np.ndarray
    minutes: np.ndarray
    size: np.ndarray
    attached: list[list[int]]
    seed: int

    def __len__(self) -> int:
        return len(self.thread)


def plan(share: float, seed: int, longest: int | None = None) -> Plan:
    """The plan of an archive with this share of the messages; bodies and attachments are cut to
    `longest` bytes.
    """
    rng = np.random.default_rng(seed)
    messages, threads, attachments = (round(n * share) for n in (MESSAGES, THREADS, ATTACHMENTS))
    per_thread = thread_sizes(threads, messages, seed)
    thread = np.repeat(np.arange(threads), per_thread)
    first = np.cumsum(per_thread) - per_thread
    place = np.arange(len(thread)) - first[thread]
    # Mostly the last mails of a thread are answered.
    back = np.minimum(place, rng.geometric(0.6, len(thread)))
    parent = np.where(place > 0, np.arange(len(thread)) - back, -1)
    begin = np.sort(rng.integers(0, MONTHS * 30 * 24 * 60, threads))
    gaps = np.where(place > 0, rng.exponential(16 * 60, len(thread)), 0)
    since = np.cumsum(gaps)
    minutes = begin[thread] + (since - since[first[thread]])
    attached: list[list[int]] = [[] for _ in range(len(thread))]
    carriers = rng.choice(len(thread), size=max(1, int(attachments * 0.62)), replace=False)
    receivers = np.concatenate([carriers, rng.choice(carriers, attachments - len(carriers))])
    for receiver, size in zip(
        receivers, sizes(attachments, ATTACHED, _SMALLEST["attached"], seed + 1), strict=True
    ):
        attached[receiver].append(min(int(size), longest or int(size)))
    size = np.minimum(sizes(len(thread), BODY, _SMALLEST["body"], seed + 2), longest or BODY[-1][1])
    return Plan(thread, parent, minutes.astype(np.int64), size, attached, seed)


class Writer:
    """Writes the mails of a plan, every one made of nothing but the seed and its number."""

    def __init__(self, made: Plan, text: Pools):
        self.plan, self.text = made, text

    def write(self, folder: Path, order: np.ndarray) -> None:
        """Append the mails of these numbers, which are in order of time, to the monthly files."""
        folder.mkdir(parents=True, exist_ok=True)
        months = np.minimum(self.plan.minutes[order] // (30 * 24 * 60), MONTHS - 1)
        edges = np.flatnonzero(np.diff(months, prepend=-1, append=MONTHS))
        for begin, end in pairwise(edges):
            with (folder / f"scale.{month_name(int(months[begin]))}").open("ab") as file:
                for number in order[begin:end]:
                    file.write(self.mail(int(number)))

    def mail(self, number: int) -> bytes:
        """One mail with its From_ line, quoted as mboxrd wants it."""
        draw = random.Random(self.plan.seed << 40 | number)
        head = self.headers(number, draw)
        body = self.body(number)
        parts = [self.attachment(size, draw) for size in self.plan.attached[number]]
        if parts:
            mark = f"----=_part_{number:x}"
            head += f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{mark}"\n'
            plain = (
                b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n"
                + body
            )
            middle = b"".join(b"--%s\n%s\n" % (mark.encode(), part) for part in (plain, *parts))
            content = middle + b"--%s--\n" % mark.encode()
        else:
            head += "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n"
            content = body
        content = re.sub(rb"^(?=>*From )", b">", content, flags=re.M)
        return b"From archive@lists.example %s\n%s\n%s\n" % (
            self.time(number).strftime("%a %b %d %H:%M:%S %Y").encode(),
            head.encode(),
            content,
        )

    def time(self, number: int) -> datetime:
        """When the mail was sent; a month of the plan has thirty days and lies in a calendar month."""
        month, minute = divmod(int(self.plan.minutes[number]), 30 * 24 * 60)
        year, index = divmod(FIRST_MONTH[0] * 12 + FIRST_MONTH[1] - 1 + min(month, MONTHS - 1), 12)
        return datetime(year, index + 1, 1, tzinfo=UTC) + timedelta(minutes=minute * 27 / 30)

    def headers(self, number: int, draw: random.Random) -> str:
        """Header lines up to those of MIME."""
        chosen = random.Random(self.plan.seed << 41 | int(self.plan.thread[number]))
        subject = (
            f"{chosen.choice(self.text.subjects)} {chosen.choice(self.text.words).decode()}".encode(
                "ascii", "ignore"
            )
            .decode()
            .strip()
        )
        name, address = draw.choice(self.text.authors)
        name = name.encode("ascii", "ignore").decode().replace('"', "").replace("\\", "")
        parent = int(self.plan.parent[number])
        lines = [
            f"Message-ID: <{self.ident(number)}>",
            f"Date: {format_datetime(self.time(number))}",
            f'From: "{name}" <{address}>',
            "To: scale@lists.example",
            f"Subject: {'Re: ' if parent >= 0 else ''}{subject}",
        ]
        if parent >= 0:
            lines.append(f"In-Reply-To: <{self.ident(parent)}>")
            if draw.random() < REFERRING / (MESSAGES - THREADS):
                lines.append(f"References: {self.references(parent)}")
        elif draw.random() < (ANSWERS - MESSAGES + THREADS) / THREADS:
            lines.append(f"In-Reply-To: <gone.{self.ident(number)}>")
        return "\n".join(lines) + "\n"

    def ident(self, number: int) -> str:
        """The Message-ID of a mail."""
        return f"{self.plan.seed:x}.{number:x}.{number * 2654435761 % (1 << 32):08x}@lists.example"

    def references(self, parent: int) -> str:
        """Up to eight ancestors, the oldest first."""
        found: list[int] = []
        while parent >= 0 and len(found) < 8:
            found.append(parent)
            parent = int(self.plan.parent[parent])
        return "\n ".join(f"<{self.ident(p)}>" for p in reversed(found))

    def body(self, number: int) -> bytes:
        """The text: quotes of the parent and own paragraphs in turn, and sometimes a signature."""
        parent, size = int(self.plan.parent[number]), int(self.plan.size[number])
        draw = random.Random(self.plan.seed << 42 | number)
        quotes = parent >= 0 and draw.random() < QUOTING / (MESSAGES - THREADS)
        points = self.quoted(parent, round(size * _QUOTE_SHARE), draw) if quotes else []
        own = self.own(number)
        # A parent is often too short to be quoted that much: the author wrote the rest.
        missing = size - sum(map(len, [*own, *points]))
        own += self.pieces(
            self.pool(size), missing, random.Random(self.plan.seed << 44 | number), _changed
        )
        if not quotes:
            text = b"\n\n".join(own)
        else:
            attribution = (
                b"" if draw.random() < QUOTE_FIRST / QUOTING else self.attribution(parent) + b"\n"
            )
            text = attribution + _in_turn(points, own, draw.random() < 0.3)
        if self.text.signatures and draw.random() < 0.3:
            text += b"\n\n" + draw.choice(self.text.signatures)
        return text + b"\n"

    def own(self, number: int) -> list[bytes]:
        """The paragraphs that the mail's author wrote, and that answers quote."""
        size = int(self.plan.size[number])
        draw = random.Random(self.plan.seed << 43 | number)
        share = 1 - _QUOTE_SHARE if self.plan.parent[number] >= 0 else 1.0
        return list(self.pieces(self.pool(size), max(20, round(size * share)), draw, _changed))

    def pool(self, size: int) -> list[bytes]:
        """What a mail of a size is made of: a very long one has code in it."""
        return self.text.code if size > 100_000 else self.text.paragraphs

    def quoted(self, parent: int, size: int, draw: random.Random) -> list[bytes]:
        """Paragraphs of the parent behind quote marks, up to a size."""
        marked, left = [], size
        for paragraph in self.own(parent):
            if left <= 0:
                break
            lines = paragraph[: max(left, 80)].split(b"\n")
            marked.append(b"\n".join(b"> " + line if line else b">" for line in lines))
            left -= len(paragraph)
        return marked

    def attribution(self, parent: int) -> bytes:
        """The line above a quote."""
        name, _ = random.Random(self.plan.seed << 40 | parent).choice(self.text.authors)
        return f"On {self.time(parent):%a, %d %b %Y at %H:%M}, {name} wrote:".encode()

    def pieces(
        self,
        pool: Sequence[bytes],
        size: int,
        draw: random.Random,
        change: Callable[[bytes, Sequence[bytes], random.Random], bytes],
    ) -> Iterator[bytes]:
        """Changed pieces of a pool until the size is reached, the last cut at a word or line."""
        while size > 0:
            piece = change(draw.choice(pool), self.text.words, draw)
            if len(piece) > size:
                cut = max(piece.rfind(b"\n", 0, size), piece.rfind(b" ", 0, size))
                piece = piece[: cut if cut > 0 else size].decode("utf-8", "ignore").encode()
                size = 0
            if piece:
                yield piece
            size -= len(piece) + 2

    def attachment(self, size: int, draw: random.Random) -> bytes:
        """One MIME part: a patch, mostly, else a log, SQL or an image; very large ones are logs."""
        kind = draw.random()
        if kind < WITHOUT_TEXT / ATTACHMENTS:
            return _part(
                "figure.png", "image/png", b"\x89PNG\r\n\x1a\n" + draw.randbytes(min(size, 40_000))
            )
        if size > 1_000_000 or kind > 0.93:
            text = b"\n".join(self.pieces(self.text.code, size, draw, _changed))
            return _part("regression.log", "text/plain", text)
        text = b"".join(self.pieces(self.text.diffs, size, draw, _changed_diff))
        name = f"v{draw.randint(1, 9)}-000{draw.randint(1, 9)}-{draw.choice(self.text.words).decode()}.patch"
        if kind > 0.89:
            return _part(name + ".gz", "application/gzip", gzip.compress(text, 1, mtime=0))
        if kind > 0.55:
            return _part(name, "text/x-patch", text, plain=True)
        return _part(name, "application/octet-stream" if kind > 0.3 else "text/x-patch", text)


def _in_turn(points: list[bytes], own: list[bytes], interleaved: bool) -> bytes:
    """Quotes and replies in turn, or the quotes before the reply."""
    if not interleaved:
        return b"\n>\n".join(points) + b"\n\n" + b"\n\n".join(own)
    made = []
    for place in range(max(len(points), len(own))):
        made += [*points[place : place + 1], *own[place : place + 1]]
    return b"\n\n".join(made)


def _changed(text: bytes, words: Sequence[bytes], draw: random.Random) -> bytes:
    """The text with its digits exchanged and two of its words replaced."""
    text = text.translate(bytes.maketrans(b"0123456789", bytes(draw.sample(b"0123456789", 10))))
    for _ in range(2):
        start = draw.randrange(len(text)) if text else 0
        found = re.compile(rb"\b[a-z]{4,12}\b").search(text, start)
        if found:
            text = text[: found.start()] + draw.choice(words) + text[found.end() :]
    return text


def _changed_diff(text: bytes, words: Sequence[bytes], draw: random.Random) -> bytes:
    """The diff with one word of each hunk replaced; its headers stay as they are."""
    head, *hunks = re.split(rb"^(?=@@ )", text, flags=re.M)
    for place, hunk in enumerate(hunks):
        line, end, rest = hunk.partition(b"\n")
        hunks[place] = line + end + _changed(rest, words, draw)
    return head + b"".join(hunks)


def _part(name: str, declared: str, content: bytes, plain: bool = False) -> bytes:
    """A MIME part with a file name, in base64 unless `plain`."""
    encoding = "8bit" if plain else "base64"
    head = (
        f'Content-Type: {declared}; name="{name}"\nContent-Transfer-Encoding: {encoding}\n'
        f'Content-Disposition: attachment; filename="{name}"\n\n'
    )
    return head.encode() + (content if plain else base64.encodebytes(content))


def in_time(made: Plan) -> np.ndarray:
    """The numbers of all mails in order of time."""
    return np.lexsort((np.arange(len(made)), made.minutes))


def month_name(month: int) -> str:
    """Year and month of a month of the plan, as in `199701`."""
    year, index = divmod(FIRST_MONTH[0] * 12 + FIRST_MONTH[1] - 1 + month, 12)
    return f"{year}{index + 1:02}"


def described(made: Plan) -> Table:
    """What the plan holds, beside what it is made after."""
    table = new_table("archive", ("", "made", "model"))
    threads = np.bincount(made.thread)
    attached = np.array([size for sizes_ in made.attached for size in sizes_])
    for name, value, model in (
        ("messages", len(made), MESSAGES),
        ("threads", len(threads), THREADS),
        ("attachments", len(attached), ATTACHMENTS),
        ("answers", int((made.parent >= 0).sum()), ANSWERS),
    ):
        table.add_row(name, f"{value:,}", f"{model:,}")
    for name, values, model_values in (
        ("body characters", made.size, [v for _, v in BODY]),
        ("attachment characters", attached, [v for _, v in ATTACHED]),
        ("messages of a thread", threads, [v for _, v in THREAD]),
    ):
        quantiles = np.quantile(values, [0.5, 0.9, 0.99, 1.0])
        shown = (" / ".join(f"{v:,.0f}" for v in row) for row in (quantiles, model_values))
        table.add_row(f"{name}: median / p90 / p99 / max", *shown)
    return table


def main() -> None:
    """Write an archive and print what it holds."""
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the messages of the model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=int, help="bytes that bodies and attachments are cut to")
    arguments = parser.parse_args()
    made = plan(arguments.share, arguments.seed, arguments.longest)
    Writer(made, pools(collections.corpora_folder())).write(arguments.folder, in_time(made))
    total = sum(file.stat().st_size for file in arguments.folder.iterdir())
    console = Console(width=110)
    console.print(described(made))
    console.print(f"{total / 1e6:,.0f} MB in {arguments.folder}")


if __name__ == "__main__":
    main()
