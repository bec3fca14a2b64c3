"""Which search settings are best, on corpora that did not choose them.

    python benchmarks/sweeps.py [--corpus NAME ...] [--state FOLDER] [--markdown]

Asks every task of benchmarks/retrieval.py under every setting of a grid over fusion, weights, threads and
whole mails, and with single stages switched on; of linux-erofs every twentieth commit, of the chats every fifth question.
First table: nDCG@10 per task, its mean over the tasks, milliseconds per query, and the frontier of the two. Second:
for each corpus the setting that is best on all others, and what it changes there against the default.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tasks
from printing import new_parser, new_table
from retrieval import HEAD, ahead, show
from rich.progress import track

from dagster_project.cli.sweeps import with_frontier
from transforms.settings.search import SearchSettings

STEPS = {"pgsql": 1, "erofs": 20, "documents": 1, "conversations": 5}
"""Of the queries of a corpus every so manieth is asked."""
DEFAULT = "default"
SINGLE: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "no whole mails": {"mail_weight": 0.0},
    "rank fusion, threads 0.6": {"fusion": "rrf"},
    "rank fusion, threads 0": {"fusion": "rrf", "thread_weight": 0.0},
    "reranked by features": {"rerank": "features"},
    "sections": {"aggregation": "after_elbow"},
    "elbow": {"elbow": True},
    "diversity 0.2": {"diversity": 0.2},
    "diversity 0.5": {"diversity": 0.5},
    "duplicates collapsed": {"collapse_duplicates": True},
    "title weight 1": {"title_weight": 1.0},
    "title weight 4": {"title_weight": 4.0},
    "quote weight 0": {"quote_weight": 0.0},
    "candidates 200 and 100": {"candidates_lexical": 200, "candidates_vector": 100},
}
LEXICAL, THREAD = (0.5, 0.6, 0.7, 0.8), (0.0, 0.3, 0.6, 1.0)

Found = dict[str, dict[str, tuple[np.ndarray, float]]]
"""By task and setting HEAD of each query, and the milliseconds of one."""


def grid() -> dict[str, dict[str, Any]]:
    """What each setting changes, by its name."""
    weights = {
        f"words {words}, threads {thread}": {"lexical_weight": words, "thread_weight": thread}
        for words, thread in itertools.product(LEXICAL, THREAD)
    }
    return SINGLE | weights


def main() -> None:
    """Ask, and print both tables."""
    parser = new_parser(__doc__)
    parser.add_argument("--corpus", action="append", choices=tasks.CORPORA, help="default: all")
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    parser.add_argument("--markdown", action="store_true", help="print tables as docs/evaluation.md has them")
    arguments = parser.parse_args()
    names = arguments.corpus or tasks.CORPORA
    with tempfile.TemporaryDirectory() as temporary:
        by_corpus = {name: asked(name, arguments.state or Path(temporary)) for name in names}
    print_settings(
        {t: found for tasks_ in by_corpus.values() for t, found in tasks_.items()}, arguments.markdown
    )
    if len(by_corpus) > 1:
        print_held_out(by_corpus, arguments.markdown)


def asked(name: str, state: Path) -> Found:
    """Every task of a corpus under every setting."""
    corpus = tasks.corpus(name, state)
    whole = corpus.index.settings.model_dump()
    found: Found = {task.name: {} for task in corpus.tasks}
    for setting, changes in track(grid().items(), description=name, total=len(grid())):
        settings = SearchSettings.model_validate({**whole, **changes})
        for task in corpus.tasks:
            part = task.every(STEPS[name])
            timed = tasks.weft_ranking(corpus, part, settings)
            values = part.measured(timed.ranked)[HEAD]
            found[task.name][setting] = values, 1000 * timed.seconds / len(values)
    corpus.index.close()
    return found


def print_settings(found: Found, as_markdown: bool) -> None:
    """Every setting, best first."""
    rows = [
        {
            "profile": setting,
            "mean": float(np.mean([of[setting][0].mean() for of in found.values()])),
            "ms_per_query": float(np.mean([of[setting][1] for of in found.values()])),
        }
        for setting in grid()
    ]
    table = new_table(f"{HEAD} by setting", ("setting", *found, "mean", "ms/query", "frontier"))
    for row in with_frontier(rows):
        setting = row["profile"]
        table.add_row(
            setting,
            *(f"{of[setting][0].mean():.3f}" for of in found.values()),
            f"{row['mean']:.4f}",
            f"{row['ms_per_query']:.1f}",
            "*" if row["frontier"] else "",
        )
    show(table, as_markdown)


def print_held_out(by_corpus: Mapping[str, Found], as_markdown: bool) -> None:
    """What the choice of the other corpora is worth on each."""
    columns = ("corpus", "chosen", "task", "default", "chosen has", "ahead by", "p")
    table = new_table("chosen on the other corpora", columns)
    for name, chosen, task, default, values in held_out(by_corpus):
        means = (f"{v.mean():.3f}" for v in (default, values))
        table.add_row(name, chosen, task, *means, *ahead(values, default))
    show(table, as_markdown)


def held_out(
    by_corpus: Mapping[str, Found],
) -> Iterator[tuple[str, str, str, Sequence[float] | np.ndarray, np.ndarray]]:
    """Corpus, the setting with the best mean over the tasks of all others, and each task with the values of both."""
    for name, own in by_corpus.items():
        others = [of for other, found in by_corpus.items() if other != name for of in found.values()]
        chosen = max(grid(), key=lambda setting: float(np.mean([of[setting][0].mean() for of in others])))
        for task, of in own.items():
            yield name, chosen, task, of[DEFAULT][0], of[chosen][0]


if __name__ == "__main__":
    main()
