"""How camelCase identifiers are found, whole and by their parts.

    python benchmarks/identifiers.py [--state FOLDER] [--markdown]

For each camelCase identifier that stands in at most five chunks of the PostgreSQL mails its parts
are asked as words (`GetPreparedTransactionList`: get prepared transaction list), and itself; right
are the chunks that hold it. Beside Weft stands BM25 (bm25s) over the same chunks, which knows whole
words alone.
"""

import re
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import tasks
from printing import new_parser, new_table
from retrieval import HEAD, ahead, show

from transforms.settings.search import BUILT_IN_PROFILES, SearchSettings

CAMEL = re.compile(r"\b(?:[a-z]+|[A-Z][a-z0-9]*)(?:[A-Z][a-z0-9]+)+\b")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_RARE, _SHORT = 5, 10


def main() -> None:
    """Print the table."""
    parser = new_parser(__doc__)
    parser.add_argument("--state", type=Path, help="where the index is kept between runs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        corpus = tasks.corpus("pgsql", arguments.state or Path(temporary))
    rows = corpus.index.connection.execute(
        "SELECT chunk_no, chunk_id, concat_ws('\n', title, text_lex, added_lex, removed_lex, quote_lex) FROM chunks "
        "ORDER BY chunk_no"
    ).fetchall()
    ids = {number: chunk for number, chunk, _ in rows}
    corpus = replace(corpus, items=ids)
    corpus.index.settings = corpus.index.settings.model_copy(update={"per_document": tasks.DEPTH})
    rank = tasks.ranker([(chunk, text) for _, chunk, text in rows])
    holding: dict[str, set[str]] = defaultdict(set)
    for _, chunk, text in rows:
        for word in CAMEL.findall(text):
            holding[word].add(chunk)
    rare = sorted(
        word for word, chunks in holding.items() if len(chunks) <= _RARE and len(word) >= _SHORT
    )
    right = [frozenset(holding[word]) for word in rare]
    lexical = SearchSettings.model_validate(
        {**corpus.index.settings.model_dump(), **BUILT_IN_PROFILES["lexical"]}
    )
    columns = ("asked", "Weft, default", "Weft, BM25 alone", "bm25s", "default ahead by", "p")
    table = new_table(f"{HEAD}, {len(rare):,} rare of {len(holding):,} camelCase words", columns)
    for name, queries in (
        ("its parts", [" ".join(parts(word)) for word in rare]),
        ("itself", rare),
    ):
        task = tasks.Task(name, queries, right)
        rankings = [
            tasks.weft_ranking(corpus, task, settings).ranked for settings in (None, lexical)
        ]
        found = [task.measured(ranked)[HEAD] for ranked in (*rankings, rank(queries))]
        table.add_row(
            name, *(f"{values.mean():.3f}" for values in found), *ahead(found[0], found[2])
        )
    show(table, arguments.markdown)


def parts(word: str) -> list[str]:
    """The words of a camelCase identifier, in lower case."""
    return [part.lower() for part in _PART.findall(word)]


if __name__ == "__main__":
    main()
