"""Search as shipped, with weights that the other collections choose, and beside what anybody would
build.

    python benchmarks/held_out.py [--corpus NAME ...] [--weight NAME ...] [--state FOLDER] [--markdown]

Every weight and choice of WEIGHTS is tried by itself on every task of benchmarks/retrieval.py; of
linux-erofs every eighth commit is asked, of the chats every third question. For each collection the
weights are put together that have the best mean of nDCG@10 and MRR@10 over the tasks of all others,
and measured on it; in a second table over the tasks of all other kinds (`tasks.KINDS`). Printed
are, for each task, both measures of the default and of these weights with 95 % intervals, and of
`tasks.baselines`: bm25s over whole texts, bm25s with .6 of the best score of the thread, a min-max
blend of bm25s (.6) with the vectors of the same texts, and the formulas of msgvault and qmd. A last
table has for each task what the words of questions among the stop words change by themselves, and
whether the other collections choose them.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import tasks
from printing import new_parser, new_table
from retrieval import ahead, show
from rich.progress import track
from rich.table import Table

from transforms.evaluation.quality import bootstrap
from transforms.retrieval import reranking

SHIPPED = tasks.SearchSettings()
ALL_WORDS = SHIPPED.stopwords[: SHIPPED.stopwords.index("how")]
"""The stop words without those of questions, which rank then."""
STEPS = {"erofs": 8, "conversations": 3, "meetings": 3, "peps": 3}
"""Of the queries of a corpus every so manieth is asked."""
Value = float | str | tuple[str, ...] | None
WEIGHTS: Mapping[str, Sequence[Value]] = {
    "lexical_weight": (0.5, 0.6, 0.7, 0.8),
    "mail_weight": (0.0, 0.3, 0.5, 0.7, 1.0),
    "thread_weight": (0.3, 0.6, 1.0, 1.5),
    "title_weight": (1.0, 2.0, 4.0),
    "quote_weight": (0.0, 0.3, 1.0),
    "rerank": ("as_set", "off"),
    "stopwords": (SHIPPED.stopwords, ALL_WORDS),
    "own": (0.0, 0.5, 1.0, 1.5, 2.0),
    "lexical_weight_symbols": (None, 0.6, 0.8, 0.9, 1.0),
    "lexical_weight_questions": (None, 0.4, 0.5, 0.6, 0.8),
}
"""Settings of [search], and weights of the second look."""
MEASURES = ("nDCG@10", "MRR@10")
COLUMNS = (
    "task",
    "measure",
    "default",
    "95 %",
    "held out",
    "95 %",
    *tasks.BASELINES,
)
WORD_COLUMNS = (
    "task",
    "measure",
    "chosen elsewhere",
    "without",
    "95 %",
    "with",
    "95 %",
    "gain",
    "p",
)

Found = dict[str, np.ndarray]
"""By measure the values of every query."""


def main() -> None:
    """Ask, choose, and print both tables."""
    parser = new_parser(__doc__)
    parser.add_argument("--corpus", action="append", choices=tasks.CORPORA, help="default: all")
    parser.add_argument("--weight", action="append", choices=WEIGHTS, help="default: all")
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    parser.add_argument(
        "--markdown",
        action="store_true",
        help="print tables as docs/measurements/quality.md has them",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        corpora = [tasks.corpus(name, state) for name in arguments.corpus or tasks.CORPORA]
        names = arguments.weight or [*WEIGHTS]
        tried = {corpus.name: alternatives(corpus, names) for corpus in corpora}
        collections = {corpus.name: corpus.name for corpus in corpora}
        for title, part in (("collection", collections), ("kind", tasks.KINDS)):
            table = new_table(f"chosen without the {title}", COLUMNS, left=2)
            for corpus in corpora:
                others = [of for name, of in tried.items() if part[name] != part[corpus.name]]
                weights = chosen(others, names)
                table.caption = f"{table.caption or ''}{corpus.name}: {choices(weights)}\n"
                for task in asked(corpus):
                    add_rows(table, corpus, task, weights)
            show(table, arguments.markdown)
            print(table.caption)
        if "stopwords" not in names:
            return
        words = new_table("words of questions are stop words", WORD_COLUMNS, left=3)
        for corpus in corpora:
            others = [of for name, of in tried.items() if name != corpus.name]
            is_chosen = chosen(others, ["stopwords"])["stopwords"] == SHIPPED.stopwords
            for task in asked(corpus):
                add_word_rows(words, corpus, task, "yes" if is_chosen else "no")
        show(words, arguments.markdown)


def choices(weights: Mapping[str, Value]) -> str:
    """The weights, with a word in place of the list of stop words."""
    if "stopwords" not in weights:
        return str(weights)
    choice = "yes" if weights["stopwords"] == SHIPPED.stopwords else "no"
    others = {name: value for name, value in weights.items() if name != "stopwords"}
    return f"{others}, stop words of questions: {choice}"


def asked(corpus: tasks.Corpus) -> list[tasks.Task]:
    """The tasks of a corpus, with every so manieth query."""
    return [task.every(STEPS.get(corpus.name, 1)) for task in corpus.tasks]


def measured(corpus: tasks.Corpus, task: tasks.Task, weights: Mapping[str, Value]) -> Found:
    """MEASURES of every query with these weights."""
    looks = {name: value for name, value in weights.items() if name in reranking.WEIGHTS}
    searched = {name: value for name, value in weights.items() if name not in looks}
    settings = corpus.index.settings.model_copy(update=searched)
    with patch.dict(reranking.WEIGHTS, looks):
        values = task.measured(tasks.weft_ranking(corpus, task, settings).ranked)
    return {name: values[name] for name in MEASURES}


def alternatives(corpus: tasks.Corpus, names: Sequence[str]) -> dict[tuple[str, Value], float]:
    """By weight of these names and value the mean of MEASURES over the tasks, the other weights as
    shipped.
    """
    shipped = SHIPPED.model_dump() | reranking.WEIGHTS
    pairs = [(name, value) for name in names for value in WEIGHTS[name]]
    as_shipped = _mean(corpus, {})
    return {
        (name, value): as_shipped if value == shipped[name] else _mean(corpus, {name: value})
        for name, value in track(pairs, description=corpus.name)
    }


def _mean(corpus: tasks.Corpus, weights: Mapping[str, Value]) -> float:
    """The mean of MEASURES over the tasks of a corpus."""
    values = [list(measured(corpus, task, weights).values()) for task in asked(corpus)]
    return float(np.mean([np.mean(of_task) for of_task in values]))


def chosen(
    others: Sequence[Mapping[tuple[str, Value], float]], names: Sequence[str]
) -> dict[str, Value]:
    """The best value of each weight of these names by the mean over some collections. The shipped
    value stays unless another is better.
    """
    shipped = SHIPPED.model_dump() | reranking.WEIGHTS
    return {
        name: max(
            sorted(WEIGHTS[name], key=lambda value: value != shipped[name]),
            key=lambda value: round(float(np.mean([of[name, value] for of in others])), 6),
        )
        for name in names
    }


def add_rows(
    table: Table, corpus: tasks.Corpus, task: tasks.Task, weights: Mapping[str, Value]
) -> None:
    """One row per measure."""
    ours = measured(corpus, task, {}), measured(corpus, task, weights)
    peers = [task.measured(ranked) for ranked in tasks.baselines(corpus, task).values()]
    for name in MEASURES:
        intervals = [bootstrap(found[name]) for found in ours]
        table.add_row(
            f"{task.name} ({len(task.queries)})",
            name,
            *(
                cell
                for i in intervals
                for cell in (f"**{i.mean:.3f}**", f"{i.low:.3f}–{i.high:.3f}")
            ),
            *(f"{found[name].mean():.3f}" for found in peers),
        )


def add_word_rows(table: Table, corpus: tasks.Corpus, task: tasks.Task, choice: str) -> None:
    """One row per measure: without and with words of questions as stop words, the other weights as
    shipped.
    """
    without, default = (
        measured(corpus, task, {"stopwords": words}) for words in WEIGHTS["stopwords"][::-1]
    )
    for name in MEASURES:
        intervals = bootstrap(without[name]), bootstrap(default[name])
        table.add_row(
            task.name,
            name,
            choice,
            *(cell for i in intervals for cell in (f"{i.mean:.3f}", f"{i.low:.3f}–{i.high:.3f}")),
            *ahead(default[name], without[name]),
        )


if __name__ == "__main__":
    main()
