"""Precision and recall of masks, for each form of secret and personal datum.

    python benchmarks/masks.py [--missed] [--false] [--aside]

Screens the shapes of tests/transforms/text/secret_shapes.txt, in which « and » stand around each
secret, and the sentences of ordinary_sentences.txt, which hold none: whoever wrote the patterns saw
both lists, so these figures are a bound from above. Then the same for the two halves of
unseen_shapes.txt and unseen_lines.txt, which were written before the patterns; the half kept aside
was not looked at until they were finished (`--missed` and `--false` leave it out without
`--aside`), and those of newest_shapes.txt, written later by somebody else. Last, REAL lines of real
mail that look most like secrets: Message-IDs, dumps, hashes and numbers.

The form of a secret is told from its own line by FORMS, not by the finder. Recall is the share of
secrets of a form that a find overlaps, whatever its kind; precision the share of finds of a kind
that overlap a secret, with the finds in ordinary sentences among them. All have Wilson's 95 %
interval.
"""

import gzip
import re
import sys
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import polars as pl
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.transforms.text import secret_shapes  # noqa: E402
from transforms.evaluation.quality import wilson  # noqa: E402
from transforms.text.finds import FIND_KINDS  # noqa: E402
from transforms.text.finds.finder import finds_in  # noqa: E402

CORPORA = ROOT.parent / "shared/corpora"
MAILS = ("pgsql/*.[12]*", "linux-erofs/*4.gz", "linux-raid/*4.gz")
REAL = 400
REAL_FORMS = (
    ("Message-ID", r"(?i)^(message-id|in-reply-to|references|link):|/r/|/msgid/|message-id/"),
    ("dump", r"(?:[0-9a-f]{2,4}[ :]){6}|0x[0-9a-f]{8}"),
    ("hash", r"\b[0-9a-f]{12,64}\b"),
    ("number", r"\d[\d -]{6,}\d"),
    ("name of a secret", r"(?i)pass|secret|token|\bkey|auth|login"),
)
"""Forms of ordinary lines of mail, by the pattern of a line; one with an address is none of them,
unless it is the first."""
FORMS = (
    ("private key", r"PRIVATE KEY|AGE-SECRET"),
    ("password in an address", r"://[^/\s]*«[^»]*»[^/\s]*@|://«"),
    ("e-mail address", r"«[^»]*(@|\(at\)|\[at\]|%40|&#64;|&commat;)[^»]*»"),
    ("token of three parts (JWT)", r"«[^»]*eyJ"),
    ("account (IBAN)", r"(?i)iban|«[A-Z]{2}\d\d[ \dA-Z]{10,}»"),
    ("card", r"(?i)\b(card|visa|amex|mastercard)\b|«(\d{4}[ -]?){3,4}\d*»"),
    ("telephone", r"«[+(]?[\d][\d ()./-]{5,}»"),
    ("header of authorization", r"(?i)authorization|bearer|cookie|curl"),
    ("password", r"(?i)pass|pw\b|pwd|kennwort|login|pin\b"),
    ("key or token", r""),
)
"""Forms by the pattern of a line that has a secret of it; the first that fits counts."""
MARKED = re.compile("«([^»]*)»")
Span = tuple[int, int]


def main() -> None:
    """Print a table of recall by form, and one of precision by kind, for each collection."""
    parser = new_parser(__doc__)
    parser.add_argument("--missed", action="store_true", help="print secrets that no find overlaps")
    parser.add_argument("--false", action="store_true", help="print ordinary lines with a find")
    parser.add_argument("--aside", action="store_true", help="print those of the half aside too")
    arguments = parser.parse_args()
    unseen, newest = (
        list(zip(secret_shapes.lines(name), secret_shapes.shapes(name), strict=True))
        for name in ("unseen_shapes.txt", "newest_shapes.txt")
    )
    aside = secret_shapes.is_kept_aside
    halves = [
        (
            name,
            [shape for raw, shape in unseen if aside(raw) == is_aside],
            [line for line in secret_shapes.UNSEEN_LINES if aside(line) == is_aside],
        )
        for name, is_aside in (("unseen, open half", False), ("unseen, half kept aside", True))
    ]
    collections = [
        ("known", secret_shapes.SHAPES, secret_shapes.SENTENCES),
        *halves,
        ("newest, open half", [shape for raw, shape in newest if not aside(raw)], []),
        ("newest, half kept aside", [shape for raw, shape in newest if aside(raw)], []),
        ("lines of real mail", [], real_lines()),
    ]
    for name, shapes, lines in collections:
        is_shown = arguments.aside or "aside" not in name
        measure(name, shapes, lines, arguments.missed and is_shown, arguments.false and is_shown)


def measure(
    name: str, shapes: Sequence[str], lines: Sequence[str], shows_missed: bool, shows_false: bool
) -> None:
    """Print the tables of a collection of shapes and of ordinary lines."""
    marked = [unmarked(shape) for shape in shapes]
    texts = [*(text for text, _ in marked), *lines]
    found = dict(finds_in(pl.Series(texts, dtype=pl.String), FIND_KINDS))
    there, masked, right, false = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for row, text in enumerate(texts):
        secrets = marked[row][1] if row < len(shapes) else []
        finds = found.get(row, [])
        for start, end in secrets:
            form = next(name for name, pattern in FORMS if re.search(pattern, shapes[row]))
            is_masked = any(find.start < end and start < find.end for find in finds)
            there[form] += 1
            masked[form] += is_masked
            if shows_missed and not is_masked:
                print(f"missed: {text!r}")
        for find in finds:
            hits = any(find.start < end and start < find.end for start, end in secrets)
            (right if hits else false)[find.kind] += 1
            if shows_false and not hits:
                print(f"false {find.kind}: {text!r}")
    console = Console(width=100)
    if shapes:
        console.print(
            shares(f"Recall, {name}", "form", [form for form, _ in FORMS], masked, there, "all")
        )
        all_finds = right + false
        console.print(shares(f"Precision, {name}", "kind", FIND_KINDS, right, all_finds, "all"))
    ordinary = sum(row >= len(shapes) for row in found)
    console.print(f"{name}: ordinary lines masked", ordinary, "of", len(lines))
    console.print(*share(ordinary, len(lines)))


def shares(
    title: str,
    name: str,
    rows: Sequence[str],
    part: Counter[str],
    of: Counter[str],
    total: str,
) -> Table:
    """A table of the share `part` of `of` in each row, and of all."""
    table = new_table(title, (name, "all", "of these", "share", "95 %"))
    for row in rows:
        if of[row]:
            table.add_row(row, str(of[row]), str(part[row]), *share(part[row], of[row]))
    table.add_row(total, str(of.total()), str(part.total()), *share(part.total(), of.total()))
    return table


def real_lines() -> list[str]:
    """REAL lines of the mail in CORPORA, as many of each form, chosen by their hashes."""
    lines: set[str] = set()
    for pattern in MAILS:
        for path in sorted(CORPORA.glob(pattern)):
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            lines.update(line[:400] for line in data.decode("latin-1").splitlines())
    ordered = sorted(lines, key=lambda line: sha256(line.encode()).digest())
    return [
        line
        for number, (_, form) in enumerate(REAL_FORMS)
        for line in [
            line for line in ordered if re.search(form, line) and (number == 0 or "@" not in line)
        ][: REAL // len(REAL_FORMS)]
    ]


def unmarked(shape: str) -> tuple[str, list[Span]]:
    """A shape without its marks, and the bytes at which its secrets begin and end."""
    parts, spans, size, last = [], [], 0, 0
    for match in MARKED.finditer(shape):
        before, secret = shape[last : match.start()], match[1]
        start = size + len(before.encode())
        size = start + len(secret.encode())
        spans.append((start, size))
        parts += (before, secret)
        last = match.end()
    return "".join([*parts, shape[last:]]), spans


def share(count: int, of: int) -> tuple[str, str]:
    """A share, and its interval."""
    mean, low, high = wilson(count, of)
    return f"{mean:.3f}", f"{low:.3f}–{high:.3f}"


if __name__ == "__main__":
    main()
