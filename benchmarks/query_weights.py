"""Whether the weight of words should depend on the query, as pginbox asks for symbols.

    python benchmarks/query_weights.py [--corpus NAME ...] [--state FOLDER] [--markdown]

Each query has a kind by its form alone: `symbols` (an identifier, a path, a number with a unit or a
quoted string), `question` (it ends with a question mark or begins with a word of questions), else
`words`. Every weight of WEIGHTS is tried on all queries of each corpus. For each corpus the weight
of each kind is that with the best mean of nDCG@10 over the other corpora, the shipped one where no
other is better. Printed is how far these weights are ahead of the shipped one, query by query, with
the 95 % interval and p-value, for all queries and for those of each kind.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tasks
from printing import new_parser, new_table
from retrieval import HEAD, ahead, show
from rich.progress import track
from rich.table import Table

WEIGHTS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SHIPPED = tasks.SearchSettings().lexical_weight
STEPS = {"erofs": 8, "conversations": 3, "meetings": 3, "peps": 3}
"""Of the queries of a corpus every so manieth is asked."""
KINDS = ("symbols", "question", "words")
SYMBOL = re.compile(
    r'"[^"]+"|`[^`]+`|\b\w+_\w+|\b\w+\(\)|\b[a-z]+[A-Z]\w*|\w[/\\]\w|\b\w+\.[a-z]{1,4}\b|::|->|\b0x'
)
QUESTION = re.compile(
    r"^(?:who|what|when|where|which|why|how|is|are|do|does|did|can|could|should|was|were)\b", re.I
)


def kind_of(query: str) -> str:
    """The kind of a query.

    >>> [kind_of(q) for q in ("pg_dump fails", "why does it fail?", "slow vacuum")]
    ['symbols', 'question', 'words']
    """
    if SYMBOL.search(query):
        return "symbols"
    is_question = query.rstrip().endswith("?") or QUESTION.match(query)
    return "question" if is_question else "words"


def main() -> None:
    """Measure, choose, print the table."""
    parser = new_parser(__doc__)
    parser.add_argument("--corpus", action="append", choices=tasks.CORPORA, help="default: all")
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    arguments = parser.parse_args()
    names = arguments.corpus or tasks.CORPORA
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        found = {name: measured(name, state) for name in names}
    columns = ("corpus", "chosen elsewhere", "queries", "shipped", "by kind", "ahead by", "p")
    table = new_table(f"{HEAD}, the weight of words by the kind of a query", columns, left=2)
    for name in names:
        weights = chosen([of for other, of in found.items() if other != name])
        add_rows(table, name, weights, found[name])
    show(table, arguments.markdown)


def measured(name: str, state: Path) -> dict[str, dict[float, np.ndarray]]:
    """By kind and weight the measure of each query of a corpus, in one order."""
    corpus = tasks.corpus(name, state)
    found: dict[str, dict[float, np.ndarray]] = {kind: {} for kind in KINDS}
    asked = [task.every(STEPS.get(name, 1)) for task in corpus.tasks]
    kinds = np.array([kind_of(query) for task in asked for query in task.queries])
    for weight in track(WEIGHTS, description=name):
        settings = corpus.index.settings.model_copy(update={"lexical_weight": weight})
        values = np.concatenate(
            [
                task.measured(tasks.weft_ranking(corpus, task, settings).ranked)[HEAD]
                for task in asked
            ]
        )
        for kind in KINDS:
            found[kind][weight] = values[kinds == kind]
    corpus.index.close()
    return found


def chosen(others: Sequence[Mapping[str, Mapping[float, np.ndarray]]]) -> dict[str, float]:
    """By kind the weight with the best mean over some corpora that have such queries."""

    def mean(kind: str, weight: float) -> float:
        values = [of[kind][weight].mean() for of in others if of[kind][weight].size]
        return round(float(np.mean(values)), 6) if values else 0.0

    order = sorted(WEIGHTS, key=lambda weight: weight != SHIPPED)
    return {kind: max(order, key=lambda weight: mean(kind, weight)) for kind in KINDS}


def add_rows(
    table: Table,
    name: str,
    weights: Mapping[str, float],
    found: Mapping[str, Mapping[float, np.ndarray]],
) -> None:
    """A row for all queries of a corpus, and one for those of each kind that it has."""
    before = np.concatenate([found[kind][SHIPPED] for kind in KINDS])
    after = np.concatenate([found[kind][weights[kind]] for kind in KINDS])
    rows = [(name, ", ".join(f"{k} {w:.1f}" for k, w in weights.items()), before, after)]
    for kind in KINDS:
        values = found[kind][SHIPPED], found[kind][weights[kind]]
        if values[0].size:
            rows.append((f"{name}, {kind}", f"{weights[kind]:.1f}", *values))
    for label, choice, shipped, by_kind in rows:
        means = (f"{values.mean():.3f}" for values in (shipped, by_kind))
        table.add_row(label, choice, f"{shipped.size:,}", *means, *ahead(by_kind, shipped))


if __name__ == "__main__":
    main()
