"""Quality and speed of blocks on mail that people labelled, against others in the same run.

    python benchmarks/blocks.py [--lines]

Prints author-line F1 and accuracy over five kinds, the confusion table, and with `--lines` every
line that is judged otherwise than its label. Then the bodies per second of linux-erofs, with one
thread and with two, beside the other parsers and a plain Python loop over lines, whose speed says
how busy the machine is. Separator and blank lines do not count. The other parsers know no kinds but
text and quote, so F1 is given a second time over the lines alone that people called the author's, a
quote or a header.
"""

import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import mail_collections as collections
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import quotequail
from mailparser_reply import EmailReplyParser
from printing import new_parser
from rich.console import Console
from rich.table import Table

from transforms.mail.blocks.table import message_blocks
from transforms.mail.messages import read_mail, split_mbox
from transforms.settings.mail import BlockSettings, MailSettings

KINDS = ("author", "header", "patch_or_code", "quote", "signature")
# How much of linux-erofs the fast and the slow are timed on, and how often.
FAST_BYTES, SLOW_MAILS, REPEATS = 60_000_000, 150, 3
RESAMPLES = 4000

Labelled = Sequence[tuple[str, str]]
Judge = Callable[[str], list[str]]


def main() -> None:
    """Run and print everything."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--lines", action="store_true", help="print every line that is judged otherwise"
    )
    arguments = parser.parse_args()
    corpora = collections.corpora_folder()
    console = Console(width=120)
    for name in ("lines", "office"):
        mails = labelled_mails(corpora, name)
        found = [weft(body(mail)) for mail in mails]
        console.print(quality_table(name, mails, found))
        console.print(confusion_table(confusion(mails, found)))
        if arguments.lines:
            print_wrong(console, mails, found)
    console.print(speed_table(erofs_bodies(corpora)))


def labelled_mails(corpora: Path, name: str) -> list[Labelled]:
    """The lines of each mail as (label, text): `lines` of list mails, `office` of office mails."""
    text = (corpora / "labelled-mail" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [
        [(kind, line) for kind, line in json.loads(mail)["lines"]]
        for mail in text.split("\n")
        if mail
    ]


def body(mail: Labelled) -> str:
    """The text of a labelled mail."""
    return "\n".join(text for _, text in mail) + "\n"


def weft(text: str) -> list[str]:
    """The kind of each line."""
    rows = message_blocks(
        pa.table({"message_id": ["m"], "body": [text]}), BlockSettings()
    ).to_pylist()
    return [row["kind"] for row in rows for _ in range(row["line_count"])]


def without_quotes(text: str) -> list[str]:
    """Every line without `>` at its beginning is the author's."""
    return [
        "quote" if line.lstrip().startswith(">") else "author" for line in text.split("\n")[:-1]
    ]


PATCH_LINE = re.compile(r"\s*$|[ +\-@\\*!]|diff |index |Index: |=== ")
CODE_LINE = re.compile(r"(?:\t| {4,})\S.*[;{}()=]|.*[;{}]$|[#$] \S|\S*=[#>] ")


def thirty_rules(text: str) -> list[str]:
    """What anybody would write first: marks, `wrote:`, `-- `, diff lines, footers."""
    kinds, signature, patch = [], False, False
    for line in text.split("\n")[:-1]:
        bare = line.strip()
        patch = patch or bool(re.match(r"diff -|--- \S+/|Index: |@@ -|\*{15}", line))
        if re.match(r"--\s*$|_{20,}|-{20,}\(end|TIP \d+:", line):
            signature = True
        if re.match(r"\s{0,3}>", line):
            kind, signature, patch = "quote", False, False
        elif re.search(r"(?:wrote|writes|schrieb|escribió|a écrit|ha scritto|пишет)\s*:$", bare):
            kind, signature = "header", False
        elif re.match(r"-{3,}\s*Original Message|(?:From|Sent|To|Cc|Subject|Date):\s", line):
            kind = "header"
        elif signature:
            kind = "signature"
        elif patch and PATCH_LINE.match(line) or CODE_LINE.match(line):
            kind = "patch_or_code"
        else:
            kind, patch = "author", False
        kinds.append(kind)
    return kinds


def quotequail_lines(text: str) -> list[str]:
    """quotequail's expanded parts are the author's text."""
    kinds: list[str] = []
    for shown, part in quotequail.quote(text, limit=10**6, quote_intro_line=True):
        kinds += ["author" if shown else "quote"] * (part.count("\n") + 1)
    return kinds[: text.count("\n")]


def reply_parser_lines(text: str) -> list[str]:
    """The text of mail-parser-reply's latest reply is the author's, each of its lines once and in
    order.
    """
    reply = EmailReplyParser(
        languages=["en", "cs", "da", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "sv", "zh"]
    )
    kept = Counter(line.strip() for line in reply.parse_reply(text=text).split("\n"))
    kinds = []
    for line in text.split("\n")[:-1]:
        own = kept[line.strip()] > 0
        kept[line.strip()] -= own
        kinds.append("author" if own else "quote")
    return kinds


PEERS: dict[str, Judge] = {
    "thirty naive rules": thirty_rules,
    "lines without >": without_quotes,
    "quotequail": quotequail_lines,
    "mail-parser-reply": reply_parser_lines,
}


def confusion(mails: Sequence[Labelled], found: Sequence[list[str]]) -> Counter[tuple[str, str]]:
    """How many lines of each label were given each kind."""
    return Counter(
        (label, kind)
        for mail, kinds in zip(mails, found, strict=True)
        for (label, text), kind in zip(mail, kinds, strict=True)
        if label not in ("separator", "blank") and text.strip()
    )


def author_f1(counts: Counter[tuple[str, str]]) -> float:
    """F1 of the lines called the author's."""
    called = sum(n for (_, kind), n in counts.items() if kind == "author")
    labels = sum(n for (label, _), n in counts.items() if label == "author")
    return 2 * counts["author", "author"] / (called + labels)


def f1_interval(mails: Sequence[Labelled], found: Sequence[list[str]]) -> str:
    """F1 with its 95 % interval by a bootstrap over mails."""
    counts = [confusion([mail], [kinds]) for mail, kinds in zip(mails, found, strict=True)]
    right = np.array([of_mail["author", "author"] for of_mail in counts])
    both = np.array(
        [sum(n * key.count("author") for key, n in of_mail.items()) for of_mail in counts]
    )
    drawn = np.random.default_rng(1).integers(0, len(mails), (RESAMPLES, len(mails)))
    low, high = np.quantile(2 * right[drawn].sum(axis=1) / both[drawn].sum(axis=1), [0.025, 0.975])
    return f"{2 * right.sum() / both.sum():.4f} ({low:.3f} to {high:.3f})"


def quality_table(name: str, mails: Sequence[Labelled], found: Sequence[list[str]]) -> Table:
    """F1 and accuracy of Weft and the others on the labelled mails of this name."""
    table = Table(
        "",
        "author-line F1",
        "the same, text and quotes only",
        "five kinds",
        title=f"labelled: {name}",
    )
    judged = {"weft": found} | {
        peer: [kinds(body(m)) for m in mails] for peer, kinds in PEERS.items()
    }
    for judge, kinds in judged.items():
        counts = confusion(mails, kinds)
        accuracy = sum(counts[k, k] for k in KINDS) / counts.total()
        shown = f"{accuracy:.4f}" if judge in ("weft", "thirty naive rules") else "-"
        spoken = Counter(
            {key: n for key, n in counts.items() if key[0] in ("author", "quote", "header")}
        )
        table.add_row(judge, f1_interval(mails, kinds), f"{author_f1(spoken):.4f}", shown)
    return table


def confusion_table(counts: Counter[tuple[str, str]]) -> Table:
    """Labels down, found kinds across."""
    table = Table("label", *KINDS, title="lines")
    for label in KINDS:
        table.add_row(label, *(str(counts[label, kind]) for kind in KINDS))
    return table


def print_wrong(console: Console, mails: Sequence[Labelled], found: Sequence[list[str]]) -> None:
    """Each line whose kind is not its label."""
    for number, (mail, kinds) in enumerate(zip(mails, found, strict=True)):
        for row, ((label, text), kind) in enumerate(zip(mail, kinds, strict=True)):
            if label not in ("separator", "blank") and text.strip() and label != kind:
                line = f"{number:4} {row:4} {label:>14} {kind:>14} | {text[:80]}"
                console.print(line, markup=False, highlight=False)


def erofs_bodies(corpora: Path) -> pa.Table:
    """Ids and bodies of linux-erofs."""
    parts, size = [], 0
    for file in sorted((corpora / "linux-erofs").glob("linux-erofs.*.gz")):
        raw, _ = split_mbox(gzip.decompress(file.read_bytes()), name=file.name)
        mail = read_mail(raw, source="s", partition="u", list_id="l", settings=MailSettings())
        parts.append(mail.messages.select(["message_id", "body"]))
        size += pc.sum(pc.binary_length(parts[-1]["body"])).as_py()
        if size > FAST_BYTES:
            break
    return pa.concat_tables(parts)


def speed_table(mails: pa.Table) -> Table:
    """Megabytes of body per second: the best of a few runs, and as a multiple of the plain loop."""
    few = mails.slice(0, SLOW_MAILS)
    runs: dict[str, tuple[pa.Table, Callable[[list[str]], object] | int]] = {
        "weft, 1 thread": (mails, 1),
        "weft, 2 threads": (mails, 2),
        "a loop over lines": (mails, plain_loop),
        "thirty naive rules": (few, lambda texts: [thirty_rules(t) for t in texts]),
        "quotequail": (few, lambda texts: [quotequail_lines(t) for t in texts]),
        "mail-parser-reply": (few, lambda texts: [reply_parser_lines(t) for t in texts]),
    }
    best: dict[str, float] = {}
    for _ in range(REPEATS):
        for name, (bodies, run) in runs.items():
            texts = bodies["body"].to_pylist()
            start = time.perf_counter()
            if isinstance(run, int):
                message_blocks(bodies, BlockSettings(), threads=run)
            else:
                run(texts)
            size = pc.sum(pc.binary_length(bodies["body"])).as_py() / 1e6
            best[name] = max(best.get(name, 0.0), size / (time.perf_counter() - start))
    table = Table("", "MB/s", "× the loop", title="body text to blocks")
    for name, rate in best.items():
        table.add_row(name, f"{rate:.2f}", f"{rate / best['a loop over lines']:.4f}")
    return table


def plain_loop(texts: list[str]) -> int:
    """Counts the lines without a quote mark."""
    return sum(not line.startswith(">") for text in texts for line in text.split("\n"))


if __name__ == "__main__":
    main()
