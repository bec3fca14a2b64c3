"""Speed of the way from bodies to blocks and chunks, beside two parsers of replies on the same
bodies.

    python benchmarks/chunks.py [--runs N]

Prints MB of body text per second, by the wall and per second of processor time, best of the runs,
and the peak memory beyond the result for all mails and for a quarter of them. quotequail and
mail-parser-reply only part quoted from authored text, which here the blocks do; they read a sample.
"""

import gzip
import threading
import time
from collections.abc import Callable
from pathlib import Path

import mail_collections as collections
import pyarrow as pa
import pyarrow.compute as pc
import quotequail
from mailparser_reply import EmailReplyParser
from printing import new_parser, new_table
from rich.console import Console

from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks.table import message_chunks
from transforms.mail.messages import read_mail, split_mbox
from transforms.settings.mail import BlockSettings, ChunkSettings, MailSettings

SAMPLE = 500
"""Mails that the peers read; they are slow."""


def main() -> None:
    """Read the mails, then measure and print."""
    parser = new_parser(__doc__)
    parser.add_argument("--runs", type=int, default=3, help="times each stage runs")
    runs = parser.parse_args().runs
    folder = collections.corpora_folder() / "linux-erofs"
    messages, attachments = mails(sorted(folder.glob("linux-erofs.*.gz")))
    blocks = message_blocks(messages, BlockSettings())
    none = attachments.slice(0, 0)
    peaks = _peaks(messages, blocks, none)
    columns = ("stage", "MB", "MB/s", "MB per processor second")
    table = new_table(f"linux-erofs: {len(messages):,} mails", columns)
    chunk = ChunkSettings()
    whole = ChunkSettings(policy="message")
    step = max(1, len(messages) // SAMPLE)
    sample = messages.take(list(range(0, len(messages), step)))
    peers = sample["body"].to_pylist()
    stages: dict[str, tuple[pa.Table, Callable[[], object]]] = {
        "blocks": (messages, lambda: message_blocks(messages, BlockSettings())),
        "chunks": (messages, lambda: message_chunks(messages, blocks, none, chunk)),
        "chunks, policy message": (messages, lambda: message_chunks(messages, blocks, none, whole)),
        "quotequail (a sample)": (sample, lambda: [quotequail.quote(body) for body in peers]),
        "mail-parser-reply (a sample)": (sample, lambda: [_reply(body) for body in peers]),
    }
    for name, (read, stage) in stages.items():
        size = pc.sum(pc.binary_length(read["body"])).as_py() / 1e6
        wall, processor = best(stage, runs if read is messages else 1)
        table.add_row(name, f"{size:.1f}", f"{size / wall:.1f}", f"{size / processor:.1f}")
    table.caption = f"peak memory of the chunks beyond their table: {peaks}"
    Console(width=100).print(table)


def mails(paths: list[Path]) -> tuple[pa.Table, pa.Table]:
    """The tables `messages` and `attachments` of mbox archives."""
    raw = []
    for path in paths:
        entries, _ = split_mbox(
            gzip.decompress(path.read_bytes()), name=path.name, dialect="mboxrd"
        )
        raw.extend(entries)
    read = read_mail(raw, source="s", partition="u", list_id=None, settings=MailSettings())
    return read.messages, read.attachments


def best(stage: Callable[[], object], runs: int) -> tuple[float, float]:
    """The least wall and processor seconds of some runs."""
    walls, processors = [], []
    for _ in range(runs):
        wall, processor = time.perf_counter(), time.process_time()
        stage()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return min(walls), min(processors)


def _reply(body: str) -> str:
    return str(EmailReplyParser(languages=["en"]).parse_reply(text=body))


def _peaks(messages: pa.Table, blocks: pa.Table, none: pa.Table) -> str:
    """Resident memory that a run adds at its peak, less its result, for a quarter and for all
    mails.
    """
    told = []
    for share in (4, 1):
        part = messages.slice(0, len(messages) // share)
        before, peak, done = _resident(), [0.0], threading.Event()
        watch = threading.Thread(target=_watch, args=(peak, done))
        watch.start()
        made = message_chunks(part, blocks, none, ChunkSettings())
        done.set()
        watch.join()
        told.append(f"{peak[0] - before - made.chunks.nbytes / 1e6:.0f} MB for {len(part):,} mails")
    return ", ".join(told)


def _watch(peak: list[float], done: threading.Event) -> None:
    while not done.wait(0.02):
        peak[0] = max(peak[0], _resident())


def _resident() -> float:
    """Resident memory of this process in MB, from Linux's /proc."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1e3


if __name__ == "__main__":
    main()
