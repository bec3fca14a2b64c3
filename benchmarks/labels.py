"""How often the label of a result is right, with thresholds that other collections choose.

    python benchmarks/labels.py [--corpus NAME ...] [--state FOLDER] [--markdown]

Asks each collection of benchmarks/retrieval.py a hundred questions with known answers (of
linux-erofs the subjects of commits), and the hundred off-topic and thirty nonsense queries of
label_queries.yaml. PASS is right if one of ten hits is an answer, NO_RESULTS if none is. Printed is
for each label how many queries have it and the share that is right, with Wilson's interval: as
shipped, and with the thresholds that the other collections choose: the least from which PASS is
right in PASS_RIGHT of the cases, and the greatest below which NO_RESULTS is in NOTHING_RIGHT.
"""

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tasks
import yaml
from printing import new_parser, new_table
from retrieval import show

from dagster_project.index.search.search_index import SearchIndex
from transforms.evaluation.quality import wilson
from transforms.retrieval.labels import LABELS, NOTHING

QUERIES = Path(__file__).with_name("label_queries.yaml")
COUNT, SEED = 100, 3
PASS_RIGHT, NOTHING_RIGHT = 0.92, 0.99
"""More than is promised, as another collection is unlike all of these."""
_STEPS = np.arange(0.3, 1.2, 0.05).round(2)


class Asked(NamedTuple):
    """A query: the evidence for its hits, and whether one is an answer."""

    evidence: list[float]
    is_right: bool


class Collection(NamedTuple):
    """An index with queries and what it says to them."""

    index: SearchIndex
    texts: list[str]
    queries: list[Asked]

    def cells(self, settings: tasks.SearchSettings) -> list[str]:
        """For each label how many queries have it, how many of them are right, and the interval of
        that.
        """
        thresholds = {name: getattr(settings, name) for name in ("label_pass", "label_weak")}
        changed = self.index.settings.model_copy(update=thresholds)
        labels = self.index.ranked(self.texts, settings=changed).labels
        cells = []
        for label in LABELS:
            given = zip(self.queries, labels, strict=True)
            own = [query for query, of_query in given if of_query == label]
            right = sum(query.is_right != (label == NOTHING) for query in own)
            interval = wilson(right, len(own))
            span = f"{interval.low:.2f}–{interval.high:.2f}"
            cells += [str(len(own)), f"{interval.mean:.2f}", span]
        return cells


def main() -> None:
    """Print one table."""
    parser = new_parser(__doc__)
    parser.add_argument("--corpus", action="append", choices=tasks.CORPORA, help="default: all")
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    parser.add_argument(
        "--markdown", action="store_true", help="print the table as docs/search.md has it"
    )
    arguments = parser.parse_args()
    others = [query for of in yaml.safe_load(QUERIES.read_text()).values() for query in of]
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        by_corpus = {
            name: asked(tasks.corpus(name, state), others)
            for name in arguments.corpus or tasks.CORPORA
        }
    columns = (
        "collection",
        "thresholds",
        *(c for label in LABELS for c in (label, "right", "95 %")),
    )
    table = new_table("labels, and how many of them are right", columns, left=2)
    shipped = tasks.SearchSettings()
    for name, collection in by_corpus.items():
        rest = [q for other, of in by_corpus.items() if other != name for q in of.queries]
        for title, settings in {
            "shipped": shipped,
            "held out": chosen(rest) if rest else shipped,
        }.items():
            thresholds = f"{title}: {settings.label_weak:.2f}, {settings.label_pass:.2f}"
            table.add_row(name, thresholds, *collection.cells(settings))
    show(table, arguments.markdown)


def asked(corpus: tasks.Corpus, others: Sequence[str]) -> Collection:
    """What the index says to COUNT questions that it answers, and to `others`."""
    first = corpus.tasks[:1] if corpus.name == "erofs" else corpus.tasks
    known = [pair for task in first for pair in zip(task.queries, task.relevant, strict=True)]
    known = random.Random(SEED).sample(known, min(COUNT, len(known)))
    # A commit's text is found by its words: its subject is what somebody would ask.
    queries = [(text.split("\n")[0], right) for text, right in known] + [
        (text, {}) for text in others
    ]
    texts = [text for text, _ in queries]
    hits = corpus.index.ranked(texts).hits
    found = []
    for number, (_, right) in enumerate(queries):
        own = hits.filter(query=number)
        is_right = any(corpus.items.get(chunk, "") in right for chunk in own["chunk_no"])
        found.append(Asked(own["evidence"].to_list(), is_right))
    return Collection(corpus.index, texts, found)


def chosen(queries: Sequence[Asked]) -> tasks.SearchSettings:
    """The thresholds that do what PASS_RIGHT and NOTHING_RIGHT ask on these queries."""
    best = np.array([max(query.evidence, default=0.0) for query in queries])
    right = np.array([query.is_right for query in queries])
    passing = [
        step for step in _STEPS if (best >= step).any() and right[best >= step].mean() >= PASS_RIGHT
    ]
    nothing = [
        step
        for step in _STEPS
        if (best < step).any() and right[best < step].mean() <= 1 - NOTHING_RIGHT
    ]
    return tasks.SearchSettings(
        label_pass=min(passing, default=_STEPS[-1]), label_weak=max(nothing)
    )


if __name__ == "__main__":
    main()
