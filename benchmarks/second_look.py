"""What each feature of the second look gives on each kind of text, and what a trained model gives.

    python benchmarks/second_look.py [--corpus NAME ...] [--state FOLDER] [--markdown]

The hits before the second look and their features are stored once; any weights then give an order
without a search. Of `held_out.STEPS` every so manieth query is asked. Measured is the mean of
nDCG@10 and MRR@10. The first table has, for each task, the weights that ship, those of a pairwise
linear model that is trained on all other kinds of text (`tasks.KINDS`; each kind and each query of
it weighs the same), and the order without a second look. The second has what a task loses without
each feature.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import tasks
from held_out import MEASURES, asked
from printing import new_parser, new_table
from retrieval import ahead, show

from dagster_project.index.search.filters import Filters
from transforms.evaluation.quality import bootstrap
from transforms.retrieval import reranking

_PENALTY = 0.003
"""Weight of the square of the weights in training."""
_STEPS = 25
"""Steps of Newton's method, which needs fewer."""
SHIPPED = np.array([reranking.WEIGHTS.get(name, 1.0) for name in reranking.PARTS])
NONE = np.array([float(name == "fused") for name in reranking.PARTS])


@dataclass(frozen=True)
class Look:
    """A task with, for each query, the items of its hits before the second look and the parts,
    weighing 1, of the first of them.
    """

    kind: str
    task: tasks.Task
    items: Sequence[Sequence[str]]
    parts: Sequence[np.ndarray]

    def values(self, weights: np.ndarray) -> np.ndarray:
        """The mean of MEASURES of each query with these weights of PARTS."""
        ranked = []
        for items, parts in zip(self.items, self.parts, strict=True):
            first = np.argsort(-(parts @ weights), kind="stable").tolist()
            order = [*first, *range(len(first), len(items))]
            ranked.append([(items[n], float(-place)) for place, n in enumerate(order)])
        measured = self.task.measured(ranked)
        return np.mean([measured[name] for name in MEASURES], axis=0)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Differences of the parts of a better and a worse hit, and their weights: 1 a query."""
        differences, weights = [np.empty((0, len(SHIPPED)))], [np.empty(0)]
        for number, parts in enumerate(self.parts):
            right = self.task.relevant[number]
            grades = right if isinstance(right, Mapping) else dict.fromkeys(right, 1)
            grade = np.array([grades.get(item, 0) for item in self.items[number][: len(parts)]])
            better, worse = np.nonzero(grade[:, None] > grade[None, :])
            differences.append(parts[better] - parts[worse])
            weights.append(np.full(len(better), 1 / max(1, len(better))))
        return np.concatenate(differences), np.concatenate(weights)


def main() -> None:
    """Ask once, train, and print both tables."""
    parser = new_parser(__doc__)
    parser.add_argument("--corpus", action="append", choices=tasks.CORPORA, help="default: all")
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    parser.add_argument("--markdown", action="store_true", help="print tables for the docs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        corpora = [tasks.corpus(name, state) for name in arguments.corpus or tasks.CORPORA]
        print_tables([look for corpus in corpora for look in looks(corpus)], arguments.markdown)


def print_tables(taken: Sequence[Look], markdown: bool) -> None:
    """Both tables, and the weights that all kinds train."""
    columns = ("task", "as set", "95 %", "trained elsewhere", "as set ahead by", "p", "without")
    table = new_table("the second look", columns, left=1)
    for look in taken:
        others = [other for other in taken if other.kind != look.kind]
        values, learned = look.values(SHIPPED), look.values(trained(others))
        interval = bootstrap(values)
        table.add_row(
            f"{look.task.name} ({len(values)})",
            f"{interval.mean:.3f}",
            f"{interval.low:.3f}–{interval.high:.3f}",
            f"{learned.mean():.3f}",
            *ahead(values, learned),
            f"{look.values(NONE).mean():.3f}",
        )
    show(table, markdown)
    names = [name for name in reranking.PARTS if name != "fused"]
    table = new_table("what a task loses without a feature", ("task", *names), left=1)
    for look in taken:
        whole = look.values(SHIPPED).mean()
        lost = [whole - look.values(SHIPPED * _all_but(name)).mean() for name in names]
        table.add_row(look.task.name, *(f"{value:+.3f}" for value in lost))
    show(table, markdown)
    weights = dict(zip(reranking.PARTS, trained(taken).round(3).tolist(), strict=True))
    print(f"trained on all kinds: {weights}")


def _all_but(name: str) -> np.ndarray:
    return np.array([float(part != name) for part in reranking.PARTS])


def looks(corpus: tasks.Corpus) -> list[Look]:
    """The hits of every task of a corpus and their features."""
    return [_look(corpus, task) for task in asked(corpus)]


def _look(corpus: tasks.Corpus, task: tasks.Task) -> Look:
    settings = corpus.index.settings.model_copy(update={"limit": tasks.DEPTH})
    items: list[list[str]] = [[] for _ in task.queries]
    parts = [np.empty((0, len(SHIPPED))) for _ in task.queries]
    features = reranking.features
    ones = dict.fromkeys(reranking.WEIGHTS, 1.0)
    for source, numbers in task.groups:
        for number in numbers:
            stages = {}
            captured: list[np.ndarray] = []

            def note(stage, hits, dropped, stages=stages) -> None:
                stages[stage] = hits

            def capture(candidates, queries, captured=captured) -> np.ndarray:
                captured.append(features(candidates, queries, ones))
                return features(candidates, queries)

            with patch.object(reranking, "features", capture):
                corpus.index.ranked(
                    [task.queries[number]], Filters(source=source), report=note, settings=settings
                )
            before = stages.get("lifted", stages.get("latest", stages["pool"]))
            chunks = before.get_column("chunk_no").to_list()
            items[number] = [corpus.items.get(chunk, "") for chunk in chunks]
            parts[number] = captured[0] if captured else parts[number]
    return Look(tasks.KINDS[corpus.name], task, items, parts)


def trained(taken: Sequence[Look]) -> np.ndarray:
    """The weights of PARTS, that of the fused score 1, of the pairwise logistic model with most
    likelihood.
    """
    kinds = {look.kind for look in taken}
    rows = [look.pairs() for look in taken]
    size = {
        kind: sum(w.sum() for look, (_, w) in zip(taken, rows, strict=True) if look.kind == kind)
        for kind in kinds
    }
    pairs = np.concatenate([x for x, _ in rows])
    share = np.concatenate(
        [w / size[look.kind] / len(kinds) for look, (_, w) in zip(taken, rows, strict=True)]
    )
    weights = NONE.copy()
    for _ in range(_STEPS):
        wrong = 1 / (1 + np.exp(pairs @ weights))
        slope = _PENALTY * weights - (pairs * (share * wrong)[:, None]).sum(axis=0)
        bend = (pairs * (share * wrong * (1 - wrong))[:, None]).T @ pairs
        weights = weights - np.linalg.solve(bend + _PENALTY * np.eye(len(weights)), slope)
    return weights / weights[0]


if __name__ == "__main__":
    main()
