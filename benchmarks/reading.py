"""Speed of reading mail on one core: mbox bytes to the tables messages, attachments and quarantine.

    python benchmarks/reading.py [--rounds 3]

Reads linux-erofs and prints messages/s and MB/s of processor time, the best of the rounds, for
Weft, for Weft with every mail through the email package (what the quick way is checked against),
and for Python's `mailbox` and `email` on the same bytes, which decode the text parts and do no
more. The rounds of the three alternate, so that a busy machine is equally unfair to all.
"""

import email
import gzip
import mailbox
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mail_collections as collections
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table

from transforms.mail.messages import Means, read_mail, split_mbox
from transforms.settings.mail import MailSettings

Archives = dict[str, bytes]


def main() -> None:
    """Run and print everything."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each reader reads everything"
    )
    rounds = parser.parse_args().rounds
    files = sorted((collections.corpora_folder() / "linux-erofs").glob("linux-erofs.*.gz"))
    archives = {file.name: gzip.decompress(file.read_bytes()) for file in files}
    with tempfile.TemporaryDirectory() as folder:
        for name, data in archives.items():
            (Path(folder) / name).write_bytes(data)
        readers: dict[str, Callable[[], int]] = {
            "weft": lambda: weft(archives, quick=True),
            "weft, all through email": lambda: weft(archives, quick=False),
            "mailbox + email": lambda: library(Path(folder)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        counts: dict[str, int] = {}
        for _ in range(rounds):
            for name, reader in readers.items():
                start = time.process_time()
                counts[name] = reader()
                seconds[name].append(time.process_time() - start)
    Console(width=100).print(rates(seconds, counts, sum(map(len, archives.values()))))


def weft(archives: Archives, *, quick: bool) -> int:
    """Mails in the tables that Weft makes."""
    count = 0
    for name, data in archives.items():
        mails, garbage = split_mbox(data, name=name)
        tables = read_mail(
            (*mails, *garbage),
            source="erofs",
            partition=name,
            list_id=None,
            settings=MailSettings(),
            means=Means(quick),
        )
        count += tables.messages.num_rows + tables.quarantine.num_rows
    return count


def library(folder: Path) -> int:
    """Mails that the standard library finds; their main headers and decoded texts are made and
    dropped.
    """
    count = 0
    for file in sorted(folder.iterdir()):
        box = mailbox.mbox(file, factory=email.message_from_binary_file, create=False)
        for mail in box:
            str(mail["Message-ID"]), str(mail["From"]), str(mail["Subject"]), str(mail["Date"])
            for part in mail.walk():
                if part.get_content_maintype() == "text":
                    payload = part.get_payload(decode=True)
                    assert isinstance(payload, bytes)
                    payload.decode("utf-8", "replace")
            count += 1
        box.close()
    return count


def rates(seconds: dict[str, list[float]], counts: dict[str, int], size: int) -> Table:
    """Rates of the best round of each reader."""
    columns = ("reader", "mails", "seconds", "messages/s", "MB/s", "times mailbox + email")
    table = new_table(f"linux-erofs, {size / 1e6:,.0f} MB, one core", columns)
    slowest = min(seconds["mailbox + email"])
    for name, taken in seconds.items():
        best = min(taken)
        table.add_row(
            name,
            f"{counts[name]:,}",
            f"{best:.2f}",
            f"{counts[name] / best:,.0f}",
            f"{size / best / 1e6:,.1f}",
            f"{slowest / best:.1f}",
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table.caption = f"peak memory {peak:,.0f} MiB, the uncompressed archives included"
    return table


if __name__ == "__main__":
    main()
