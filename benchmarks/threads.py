"""Threading by subject, judged on replies whose parent is known: their headers are hidden and guessed anew.

    python benchmarks/threads.py [--days 7 30 90] [--times 16]

Of each mail corpus, replies (`Re:` and its like) whose parent is in the archive lose In-Reply-To and
References: a tenth of them (an archive with some broken mail programs), or all (an archive without such
headers). A link that the subject fallback then makes is right if it leads into the reply's own thread.
If it leads elsewhere, it is wrong, or undecided if one of the two threads begins with a mail that is
missing or with a reply: then they may be pieces of one. Precision is right / (right + wrong), recall
right / replies; "parent" is the share of all replies whose very parent is found. Then the time that
threading takes for the mails of linux-erofs, repeated under other ids.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path
from zlib import crc32

import mail_collections as collections
import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from transforms.mail.messages import read_mail, split_mbox
from transforms.mail.subjects import patch_subjects
from transforms.mail.threads.threads import build_threads
from transforms.settings.mail import MailSettings, ThreadSettings

PATTERNS = {"pgsql": "pgsql-*.[0-9]*", "linux-erofs": "linux-erofs.*.gz"}
COLUMNS = ["message_id", "list_id", "in_reply_to", "refs", "subject", "from_addr", "effective_at"]
OFF = ThreadSettings(subject_days=0)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, nargs="+", default=[7, 30, 90], help="windows to try")
    parser.add_argument(
        "--times", type=int, default=16, help="how often linux-erofs is repeated for the time"
    )
    arguments = parser.parse_args()
    console = Console(width=110)
    table = Table(
        "list", "hidden", "replies", "days", "right", "wrong", "undecided", "precision", "recall", "parent"
    )
    for name, pattern in PATTERNS.items():
        lists, mails = archive(collections.corpora_folder() / name, pattern)
        for share in (10, 1):
            for days in arguments.days:
                table.add_row(name, f"1/{share}", *judged(mails, lists, share, days))
    console.print(table)
    console.print(times(mails, arguments.times))


def archive(folder: Path, pattern: str) -> tuple[pa.Table, pa.Table]:
    """Of all mails their lists, and of each its headers once."""
    read = []
    for file in sorted(folder.glob(pattern)):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        mails, _ = split_mbox(data, name=file.name, dialect="mboxrd")
        name = file.name.rpartition(".")[0].partition(".")[0]
        tables = read_mail(mails, source="s", partition=file.name, list_id=name, settings=MailSettings())
        read.append(tables.messages.select(COLUMNS))
    every = pa.concat_tables(read)
    seen: set[str] = set()
    ids = every.column("message_id").to_pylist()
    first = [not (i in seen or seen.add(i)) for i in ids]  # type: ignore[func-returns-value]
    return every.select(["message_id", "list_id"]), every.filter(pa.array(first))


def judged(mails: pa.Table, lists: pa.Table, share: int, days: int) -> list[str]:
    """Hidden replies, window, links by outcome, precision, recall and right parents, as text."""
    truth = {r["message_id"]: r for r in build_threads(mails, lists, OFF).tree.to_pylist()}
    ids = mails.column("message_id").to_pylist()
    hidden = {i for i in ids if (above := truth[i]["parent_id"]) and not truth[above]["is_ghost"]}
    marks = dict(zip(ids, patch_subjects(pl.Series(mails["subject"]))["is_reply"], strict=True))
    hidden = {i for i in hidden if marks[i] and crc32(i.encode()) % share == 0}
    headers = {
        "in_reply_to": pa.array(
            [None if i in hidden else v for i, v in zip(ids, mails["in_reply_to"].to_pylist(), strict=True)],
            pa.string(),
        ),
        "refs": pa.array(
            [[] if i in hidden else v for i, v in zip(ids, mails["refs"].to_pylist(), strict=True)],
            pa.list_(pa.string()),
        ),
    }
    columns = {name: headers.get(name, mails[name]) for name in mails.column_names}
    tree = build_threads(pa.table(columns), lists, ThreadSettings(subject_days=days)).tree.to_pylist()
    linked = {r["message_id"]: r["parent_id"] for r in tree if r["link_method"] == "subject"}
    linked = {i: above for i, above in linked.items() if i in hidden}
    torn = {
        r["thread_id"] for r in truth.values() if not r["depth"] and (r["is_ghost"] or marks[r["message_id"]])
    }
    threads = [(truth[i]["thread_id"], truth[above]["thread_id"]) for i, above in linked.items()]
    right = sum(own == found for own, found in threads)
    undecided = sum(own != found and not torn.isdisjoint((own, found)) for own, found in threads)
    parents = sum(truth[i]["parent_id"] == above for i, above in linked.items())
    wrong = len(linked) - right - undecided
    counts = [len(hidden), days, right, wrong, undecided]
    shares = [right / max(right + wrong, 1), right / len(hidden), parents / len(hidden)]
    return [f"{n:,}" for n in counts] + [f"{n:.3f}" for n in shares]


def times(mails: pa.Table, repeated: int) -> str:
    """Seconds for the mails once and `repeated` times under ids of their own."""

    def renamed(n: int) -> pa.Table:
        def mark(i: str | None) -> str | None:
            return i and f"{n}.{i}"

        columns = {name: mails[name] for name in mails.column_names}
        columns |= {
            name: pa.array([mark(i) for i in mails[name].to_pylist()], pa.string())
            for name in ("message_id", "in_reply_to", "list_id")
        }
        columns["refs"] = pa.array([[mark(i) for i in r] for r in mails["refs"].to_pylist()])
        return pa.table(columns)

    texts = []
    for some in (mails, pa.concat_tables([renamed(n) for n in range(repeated)])):
        start = time.perf_counter()
        build_threads(some, some, ThreadSettings())
        texts.append(f"{some.num_rows:,} mails in {time.perf_counter() - start:.2f} s")
    return "threads of " + ", of ".join(texts)


if __name__ == "__main__":
    main()
