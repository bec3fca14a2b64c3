"""What it would give to find camelCase identifiers in their parts, as those with underscores are found.

    python benchmarks/identifiers.py [--state FOLDER] [--markdown]

BM25 (bm25s) over the chunks of the PostgreSQL mails, as they are and with the parts of every camelCase word written
behind it. Asked are the topics, and for each camelCase identifier that stands in at most five chunks its parts
(`GetPreparedTransactionList`: get prepared transaction list) and itself; right are the chunks that hold it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import mail_collections as collections
import tasks
from retrieval import HEAD, ahead, new_table, show

CAMEL = re.compile(r"\b(?:[a-z]+|[A-Z][a-z0-9]*)(?:[A-Z][a-z0-9]+)+\b")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_RARE, _SHORT = 5, 10


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", type=Path, help="where the index is kept between runs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        corpus = tasks.corpus("pgsql", arguments.state or Path(temporary))
    rows = corpus.index.connection.execute(
        "SELECT chunk_id, doc_id, concat_ws('\n', title, text_lex, added_lex, removed_lex, quote_lex) FROM chunks "
        "ORDER BY chunk_id"
    ).fetchall()
    holding: dict[str, set[str]] = defaultdict(set)
    for chunk, _, text in rows:
        for word in CAMEL.findall(text):
            holding[word].add(chunk)
    rare = sorted(word for word, chunks in holding.items() if len(chunks) <= _RARE and len(word) >= _SHORT)
    topics, answers = corpus.tasks[0].queries, corpus.tasks[0].relevant
    chunks = [frozenset(holding[word]) for word in rare]
    asked = {
        f"topics ({len(topics)})": (topics, answers, 1),
        f"parts of an identifier ({len(rare)})": ([" ".join(parts(word)) for word in rare], chunks, 0),
        f"the identifier ({len(rare)})": (rare, chunks, 0),
    }
    table = new_table(
        f"{HEAD} of BM25, {len(holding):,} camelCase words",
        ("asked", "whole", "and in parts", "whole ahead by", "p"),
    )
    for name, (queries, relevant, item) in asked.items():
        found = [
            measured(queries, relevant, [(row[item], written(row[2])) for row in rows])
            for written in (str, with_parts)
        ]
        table.add_row(name, *(f"{values.mean():.3f}" for values in found), *ahead(*found))
    show(table, arguments.markdown)


def measured(queries: Sequence[str], relevant: Sequence[frozenset[str]], texts: Sequence[tuple[str, str]]):
    """HEAD of each query."""
    return collections.measured(tasks.ranker(texts)(queries), relevant)[HEAD]


def parts(word: str) -> list[str]:
    """The words of a camelCase identifier, in lower case."""
    return [part.lower() for part in _PART.findall(word)]


def with_parts(text: str) -> str:
    """The text with the parts of every camelCase word behind it."""
    return CAMEL.sub(lambda found: f"{found.group()} {' '.join(parts(found.group()))}", text)


if __name__ == "__main__":
    main()
