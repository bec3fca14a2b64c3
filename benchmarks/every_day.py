"""First hits for questions of every day (every_day.yaml), on manuals, chats and mail, by kind.

    python benchmarks/every_day.py --manuals FOLDER --state FOLDER [--wrong] [--aside]

FOLDER of the manuals has the unpacked packages git-doc, sqlite3-doc, debian-reference-en and
python3.11-doc of Debian (`apt-get download`, `dpkg -x`); chats and mail are those of the corpora.
Half of the questions, by the hash of their text, are aside: nothing is chosen on those, and they are
asked with --aside alone. Printed are for each kind and half the numbers with a right first hit, with
one among three, and labelled WEAK though the first is right; with --wrong each question whose first
hit is wrong.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mail_collections
import yaml
from conversations import locomo
from printing import new_parser, new_table
from questions import is_aside_text
from rich.console import Console
from tasks import built

from dagster_project.index.search.filters import Filters
from dagster_project.index.search.search_index import SearchIndex
from transforms.retrieval.folding import COPY
from transforms.text.passages import file_ending

QUESTIONS = Path(__file__).with_suffix(".yaml")
MANUALS = {
    "git": "usr/share/doc/git-doc",
    "sqlite": "usr/share/doc/sqlite3",
    "debian": "usr/share/debian-reference",
    "python": "usr/share/doc/python3.11/html",
}
_FACTS = """
SELECT c.chunk_id, CASE WHEN c.source_kind = 'conversation' THEN c.text_display
  WHEN c.source_kind = 'message' THEN c.title
  ELSE c.doc_id || ' ' || c.title END FROM chunks c
"""


def main() -> None:
    """Build, ask and print."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--manuals",
        type=lambda text: Path(text).resolve(),
        required=True,
        help="the unpacked packages",
    )
    parser.add_argument("--state", type=Path, required=True, help="where indexes are kept")
    parser.add_argument("--wrong", action="store_true", help="print wrong first hits")
    parser.add_argument("--aside", action="store_true", help="ask the half kept aside, too")
    parser.add_argument("--only", action="append", help="kinds, default all")
    arguments = parser.parse_args()
    console = Console(width=160)
    columns = ("kind", "half", "questions", "first", "in three", "right and WEAK")
    table = new_table("questions of every day", columns, left=2)
    sums: dict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
    for kind, asked in yaml.safe_load(QUESTIONS.read_text()).items():
        if arguments.only and kind not in arguments.only:
            continue
        index = built(config(kind, arguments.manuals, arguments.state), {})
        facts = dict(index.connection.execute(_FACTS).fetchall())
        halves: dict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
        for question in asked:
            half = "aside" if is_aside_text(question["ask"]) else "tuned"
            if half == "aside" and not arguments.aside:
                continue
            label, shown = answer(index, facts, question)
            right = [bool(re.search(question["right"], text)) for text in shown]
            row = right[:1] == [True], any(right), label == "WEAK" and right[:1] == [True]
            halves[half].append(row)
            if arguments.wrong and not row[0]:
                titles = [text[:60] for text in shown]
                console.print(f"{kind} [{label}] {question['ask']!r}: {titles}", markup=False)
        for half, rows in sorted(halves.items()):
            table.add_row(kind, half, *cells(rows))
            sums[half] += rows
    for half, rows in sums.items():
        table.add_row("all", half, *cells(rows))
    console.print(table)


def answer(
    index: SearchIndex, facts: Mapping[str, str], question: Mapping[str, Any], limit: int = 3
) -> tuple[str, list[str]]:
    """The label of a question and what its first hits are: of a page also its other formats,
    of a turn also the turns shown beside it.
    """
    source = question.get("source")
    result = index.search([question["ask"]], Filters(source=source) if source else Filters(), limit)
    shown = []
    for hit in result.hits.to_pylist():
        copies = (
            part["chunk_id"]
            for part in hit["folded"]
            if part["relation"] == COPY
            and file_ending(part["doc_id"]) != file_ending(hit["doc_id"])
        )
        texts = [*map(facts.__getitem__, (hit["chunk_id"], *copies)), hit["before"], hit["after"]]
        shown.append("\n".join(filter(None, texts)))
    return result.labels[0], shown


def cells(rows: list[tuple[bool, bool, bool]]) -> list[str]:
    """The figures of a row of the table."""
    return [str(len(rows)), *(str(sum(column)) for column in zip(*rows, strict=True))]


def config(kind: str, manuals: Path, state: Path) -> Path:
    """The settings of the archive of a kind."""
    if kind == "chats":
        return locomo(mail_collections.corpora_folder(), state / kind)[0]
    if kind == "mail":
        place, form = (
            mail_collections.corpora_folder() / "linux-raid" / "linux-raid.2021*.gz",
            "mbox",
        )
    else:
        place, form = manuals / MANUALS[kind], "tree"
    file = state / kind / "weft.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f'[storage]\nroot = "state"\n\n[[sources]]\nname = "{kind}"\nkind = "{form}"\n'
        f'path = "{place}"\n'
    )
    return file


if __name__ == "__main__":
    main()
