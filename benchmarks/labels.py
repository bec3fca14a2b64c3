"""How often the label of a result is right: what is in an index, what is not, and what only sounds like it.

    python benchmarks/labels.py [--state FOLDER] [--markdown] [--set NAME=VALUE ...]

Asks three indexes (the PostgreSQL mails, the sample, a speech and encyclopaedia articles) for what they hold:
questions with known answers, titles, and single words, identifiers and versions drawn from the index; and for what
they do not: everyday questions, the questions of the other collections, words that stand in no text of the index.
Printed is the share of each label. A right label of the first kind is PASS, of the second any other.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import mail_collections as collections
import tasks
import yaml
from printing import new_parser, new_table
from retrieval import show
from rich.table import Table

from dagster_project.resources.search.search_index import SearchIndex
from transforms.retrieval.bm25 import terms_by_query
from transforms.retrieval.labels import LABELS
from transforms.text.terms import query_terms

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
COUNT, SEED = 60, 3
EVERYDAY = (
    "How do I make sourdough bread rise better", "best hiking trails in the Dolomites", "symptoms of vitamin D deficiency",
    "who won the world cup in 1998", "cheap flights to Lisbon in May", "how to train a puppy not to bite",
    "guitar chords for beginners", "mortgage rates compared to last year", "how long to boil an egg",
    "what is the capital of Mongolia", "planting tomatoes in clay soil", "electric car battery life in winter",
    "history of the Roman aqueducts", "knitting pattern for baby socks", "why do cats purr",
    "best exercises for lower back pain", "how do vaccines work", "Shakespeare sonnet 18 meaning",
    "repairing a bicycle puncture", "violin concerto in D major",
)  # fmt: skip
DRAWN = {
    "words": r"regexp_matches(term, '^[a-z]{5,10}$')",
    "identifiers": r"regexp_matches(term, '^[a-z0-9]+(_[a-z0-9]+)+$')",
    "versions": r"regexp_matches(term, '^v?[0-9]+(\.[0-9]+)+$')",
}
"""Conditions on the terms that are drawn of an index; they stand in 2 to 30 chunks each."""


def main() -> None:
    """Print one table per index."""
    parser = new_parser(__doc__)
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [search]"
    )
    parser.add_argument("--markdown", action="store_true", help="print tables as docs/search.md has them")
    arguments = parser.parse_args()
    changed = dict(pair.split("=", 1) for pair in arguments.set)
    questions = known_questions()
    with tempfile.TemporaryDirectory() as temporary:
        for name, index in indexes(arguments.state or Path(temporary), changed).items():
            show(label_table(name, index, asked(name, index, questions)), arguments.markdown)


def known_questions() -> dict[str, list[str]]:
    """Questions by the collection that answers them, COUNT of each at most."""
    folder, chance = collections.corpora_folder(), random.Random(SEED)
    mail = collections.pgsql(folder).tasks["topics"][0]
    sample = [q["query"] for q in yaml.safe_load((SAMPLE / "queries.yaml").read_text())["queries"]]
    lines = (folder / "passages" / "questions.jsonl").read_text().splitlines()
    chats = (folder / "conversations" / "locomo.jsonl").read_text().splitlines()
    patches = (folder / "linux-erofs" / "erofs_commits.jsonl").read_text().splitlines()
    every = {
        "pgsql": list(mail),
        "sample": sample,
        "documents": [json.loads(line)["question"] for line in lines],
        "chats": [q["question"] for line in chats for q in json.loads(line)["qa"]],
        "patches": [json.loads(line)["subject"] for line in patches],
    }
    return {name: chance.sample(of, min(COUNT, len(of))) for name, of in every.items()}


def indexes(state: Path, changed: Mapping[str, str]) -> dict[str, SearchIndex]:
    """The three indexes by name."""
    if not (state / "sample").exists():
        shutil.copytree(SAMPLE, state / "sample", ignore=shutil.ignore_patterns("state"))
    return {
        "pgsql": tasks.corpus("pgsql", state, changed).index,
        "sample": tasks.built(state / "sample" / "weft.toml", changed),
        "documents": tasks.corpus("documents", state, changed).index,
    }


def asked(
    name: str, index: SearchIndex, questions: Mapping[str, Sequence[str]]
) -> dict[tuple[bool, str], Sequence[str]]:
    """Queries by whether the index holds an answer, and what they are."""
    drawn = {kind: _drawn(index, f"SELECT term FROM terms WHERE df BETWEEN 2 AND 30 AND {condition}")
             for kind, condition in DRAWN.items()}  # fmt: skip
    titles = _drawn(index, "SELECT DISTINCT title FROM chunks WHERE length(title) BETWEEN 12 AND 60")
    others = {f"questions of {other}": of for other, of in questions.items() if other != name}
    words = sorted(
        {word for of in others.values() for query in of for word in query.split() if word.isalpha()}
    )
    return {
        (True, "questions"): questions[name],
        (True, "titles"): titles,
        **{(True, kind): of for kind, of in drawn.items()},
        (False, "everyday questions"): EVERYDAY,
        **{(False, kind): of for kind, of in others.items()},
        (False, "words that are nowhere"): _absent(index, words),
    }


def _drawn(index: SearchIndex, statement: str) -> list[str]:
    found = [text for (text,) in index.connection.execute(f"{statement} ORDER BY 1").fetchall()]
    return random.Random(SEED).sample(found, min(COUNT, len(found)))


def _absent(index: SearchIndex, words: Sequence[str]) -> list[str]:
    asked_terms = terms_by_query(query_terms(words, index.term_settings), len(words))
    absent = [
        word for word, own in zip(words, asked_terms, strict=True) if not any(map(index.postings.df, own))
    ]
    return random.Random(SEED).sample(absent, min(COUNT, len(absent)))


def label_table(name: str, index: SearchIndex, queries: Mapping[tuple[bool, str], Sequence[str]]) -> Table:
    """The share of each label by kind of query."""
    table = new_table(f"labels of {name}", ("asked for", "held", "queries", *LABELS))
    for (held, kind), texts in queries.items():
        if not texts:
            continue
        told = index.ranked(list(texts)).labels
        shares = (f"{told.count(label) / len(told):.2f}" for label in LABELS)
        table.add_row(kind, "yes" if held else "no", str(len(texts)), *shares)
    return table


if __name__ == "__main__":
    main()
