"""How long a mail takes from its rename into a Maildir until a server finds it.

    python benchmarks/follow.py [--state FOLDER] [--mails 20] [--base 15000]

Splits linux-erofs: the oldest `--base` mails are built, the next ones come one by one. Starts `weft
follow --json` and `weft serve`, delivers each mail by a rename, and asks `/api/search` for its
Message-ID until that is found. Prints percentiles of the seconds, processor seconds and bytes
written of a batch, processor seconds and memory of the follower at rest, and the mean seconds of
each step.
"""

import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import psutil
from mail_collections import corpora_folder
from printing import new_parser, new_table
from rich.console import Console

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.processes import free_port  # noqa: E402 - benchmarks are run from their folder
from transforms.mail.header_block import read_headers  # noqa: E402
from transforms.mail.messages import split_mbox  # noqa: E402

_LONGEST, _REST = 600, 20
_SETTINGS = """
[storage]
root = "state"
[[sources]]
name = "erofs"
kind = "maildir"
path = "mail"
"""


def mails() -> list[bytes]:
    """The mails of linux-erofs, in order of their months."""
    files = sorted((corpora_folder() / "linux-erofs").glob("*.gz"))
    return [
        mail.data
        for file in files
        for mail in split_mbox(gzip.decompress(file.read_bytes()), name=file.name)[0]
    ]


def deliver(folder: Path, name: str, data: bytes) -> None:
    """Write a mail aside and rename it into the Maildir, as programs of delivery do."""
    draft = folder / "tmp" / name
    draft.write_bytes(data)
    draft.rename(folder / "new" / name)


def prepare(folder: Path, base: list[bytes]) -> None:
    """Write settings and the mails to begin with, unless they are there, and build."""
    for part in ("cur", "new", "tmp"):
        (folder / "mail" / part).mkdir(parents=True, exist_ok=True)
    (folder / "weft.toml").write_text(_SETTINGS)
    for number, data in enumerate(base):
        place = folder / "mail" / "cur" / f"{number:06}.host:2,S"
        if not place.exists():
            place.write_bytes(data)
    subprocess.run(command(folder, "build", "--quiet"), check=True)


def command(folder: Path, *arguments: str) -> list[str]:
    """A command of Weft by the settings of a folder."""
    weft = str(Path(sys.executable).parent / "weft")
    return [weft, *arguments, "--config", str(folder / "weft.toml")]


def is_there(port: int, ident: str) -> bool:
    """True if the server finds a mail by its Message-ID."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/search?q={quote(ident)}&limit=1") as answer:
            return ident in answer.read().decode()
    except URLError:
        return False


def waited(port: int, ident: str) -> float:
    """Seconds until the server finds a mail."""
    start = time.monotonic()
    while not is_there(port, ident):
        if time.monotonic() - start > _LONGEST:
            raise SystemExit(f"{ident} was not found within {_LONGEST} s")
        time.sleep(0.05)
    return time.monotonic() - start


def used(process: psutil.Process) -> tuple[float, int]:
    """Processor seconds and written bytes of a process so far."""
    times = process.cpu_times()
    return times.user + times.system, process.io_counters().write_bytes


def measured(folder: Path, coming: list[bytes]) -> Iterator[dict[str, Any]]:
    """A record of each mail that comes, and at last one of the rest after them."""
    port, log = free_port(), folder / "batches.jsonl"
    with (
        log.open("w") as lines,
        subprocess.Popen(command(folder, "follow", "--json"), stdout=lines) as follower,
        subprocess.Popen(command(folder, "serve", "--port", str(port)), stderr=-3) as server,
    ):
        try:
            process = psutil.Process(follower.pid)
            time.sleep(_REST)
            for number, data in enumerate(coming):
                ident = read_headers(data).fields["message-id"][0].strip().strip("<>")
                before = used(process)
                deliver(folder / "mail", f"{number}.{time.time_ns()}", data)
                seconds = waited(port, ident)
                time.sleep(1)
                after = used(process)
                yield {
                    "seconds": seconds,
                    "processor": after[0] - before[0],
                    "megabytes": (after[1] - before[1]) / 1e6,
                }
            before = used(process)
            time.sleep(_REST)
            share = (used(process)[0] - before[0]) / _REST
            yield {"rest": share, "memory": process.memory_info().rss / 1e6}
        finally:
            server.terminate()
            follower.terminate()


def main() -> None:
    """Measure and print the table."""
    parser = new_parser(__doc__)
    parser.add_argument("--state", type=Path, help="where mail and index stay")
    parser.add_argument("--base", type=int, default=15_000)
    parser.add_argument("--mails", type=int, default=20)
    given = parser.parse_args()
    every = mails()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.state or Path(temporary)
        prepare(folder, every[: given.base])
        *records, rest = measured(folder, every[given.base : given.base + given.mails])
        batches = [json.loads(line) for line in (folder / "batches.jsonl").read_text().splitlines()]
    table = new_table(f"{given.base:,} mails, {len(records)} come", ("what", "p50", "p95"))
    for what in ("seconds", "processor", "megabytes"):
        values = sorted(record[what] for record in records)
        last = values[min(len(values) - 1, round(0.95 * len(values)))]
        table.add_row(what, f"{statistics.median(values):.2f}", f"{last:.2f}")
    console = Console(width=110)
    console.print(table)
    console.print(f"at rest: {rest['rest']:.2%} of a processor, {rest['memory']:,.0f} MB")
    steps = defaultdict(list)
    for batch in batches[1:]:
        for name, seconds in batch["steps"].items():
            steps[name].append(seconds)
    for name, values in sorted(steps.items(), key=lambda one: -sum(one[1])):
        console.print(f"{name:<24}{statistics.mean(values):8.2f} s")


if __name__ == "__main__":
    main()
