"""Precision and recall of masks, for each form of secret and personal datum.

    python benchmarks/masks.py [--missed]

Screens the shapes of tests/transforms/text/secret_shapes.txt, in which « and » stand around each secret, and the
sentences of ordinary_sentences.txt, which hold none. The form of a secret is told from its own line by FORMS, not by the
finder. Recall is the share of secrets of a form that a find overlaps, whatever its kind; precision the share of finds
of a kind that overlap a secret, with the finds in ordinary sentences among them. Both have Wilson's 95 % interval.
Whoever wrote the patterns saw both lists: the figures are a bound from above.
"""

import re
import sys
from collections import Counter
from pathlib import Path

import polars as pl
from printing import new_parser, new_table
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.transforms.text.secret_shapes import SHAPES  # noqa: E402
from transforms.evaluation.quality import wilson  # noqa: E402
from transforms.text.finds import FIND_KINDS  # noqa: E402
from transforms.text.finds.finder import finds_in  # noqa: E402

SENTENCES = ROOT / "tests/transforms/text/ordinary_sentences.txt"
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
    """Print a table of recall by form, and one of precision by kind."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--missed", action="store_true", help="print each secret that no find overlaps"
    )
    arguments = parser.parse_args()
    plain, spans = zip(*map(unmarked, SHAPES), strict=True)
    texts = [*plain, *SENTENCES.read_text(encoding="utf-8").splitlines()]
    found = dict(finds_in(pl.Series(texts), FIND_KINDS))
    there, masked, right, false = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for row, text in enumerate(texts):
        secrets = spans[row] if row < len(spans) else []
        finds = found.get(row, [])
        for start, end in secrets:
            form = next(name for name, pattern in FORMS if re.search(pattern, SHAPES[row]))
            is_masked = any(find.start < end and start < find.end for find in finds)
            there[form] += 1
            masked[form] += is_masked
            if arguments.missed and not is_masked:
                print(f"missed: {text!r}")
        for find in finds:
            hits = any(find.start < end and start < find.end for start, end in secrets)
            (right if hits else false)[find.kind] += 1
    console = Console(width=100)
    table = new_table("Recall", ("form", "secrets", "masked", "recall", "95 %"))
    for form, _ in FORMS:
        if there[form]:
            table.add_row(
                form, str(there[form]), str(masked[form]), *share(masked[form], there[form])
            )
    table.add_row(
        "all", str(there.total()), str(masked.total()), *share(masked.total(), there.total())
    )
    console.print(table)
    table = new_table("Precision", ("kind of find", "finds", "of secrets", "precision", "95 %"))
    for kind in FIND_KINDS:
        if count := right[kind] + false[kind]:
            table.add_row(kind, str(count), str(right[kind]), *share(right[kind], count))
    count = right.total() + false.total()
    table.add_row("all", str(count), str(right.total()), *share(right.total(), count))
    console.print(table)


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
