"""What the stages that are off by default do to documents: sections, collapse, diversity,
expansion.

    python benchmarks/document_options.py [--state FOLDER] [--budget BYTES] [--every NUMBER] [--markdown]

Questions with marked passages, asked of a speech and of encyclopaedia articles whose headings are
written as Markdown. Of each setting: how much of the passages the first 5,000 bytes hold that a
reader is shown (hits in their order, each followed by what expansion adds), with 95 % interval;
precision and IoU; how many hits that are; and nDCG@10, for which a section counts where the chunk
it is shown for holds most of a passage.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mail_collections as collections
import numpy as np
import tasks
from passages import with_markdown_headings
from printing import new_parser, new_table
from retrieval import ahead, show

from dagster_project.index.search.search_index import SearchIndex
from transforms.evaluation.metrics import DocumentSpan, PassageScore, passage_score
from transforms.evaluation.quality import bootstrap
from transforms.settings.search import BUILT_IN_PROFILES, SearchSettings

EACH = {"per_document": tasks.DEPTH}
"""Documents are long: every chunk of one may be a hit of its own."""

OPTIONS: dict[str, dict[str, Any]] = {
    "chunks as they are": {},
    "sections": {"aggregation": "after_elbow"},
    "sections, behind an elbow": BUILT_IN_PROFILES["sections"],
    "sections, later order": BUILT_IN_PROFILES["sections_later"],
    "elbow": {"cutoff_ratio": 0.5},
    "diversity 0.2": {"diversity": 0.2},
    "diversity 0.5": {"diversity": 0.5},
    "neighbours shown": {"expand": ("neighbours",)},
    "section shown": {"expand": ("section",)},
    "links shown": {"expand": ("links",)},
}


def main() -> None:
    """Build, ask, print a table per document."""
    parser = new_parser(__doc__)
    parser.add_argument("--state", type=Path, help="where the index is kept between runs")
    parser.add_argument(
        "--every", type=int, default=1, help="ask every so manieth question; default %(default)s"
    )
    parser.add_argument("--budget", type=int, default=5000, help="bytes; default %(default)s")
    parser.add_argument(
        "--markdown", action="store_true", help="print tables as docs/evaluation.md has them"
    )
    arguments = parser.parse_args()
    folder = collections.corpora_folder()
    lines = (folder / "passages" / "questions.jsonl").read_text().splitlines()
    with tempfile.TemporaryDirectory() as temporary:
        config = tasks.passages_settings(folder, (arguments.state or Path(temporary)) / "headed")
        for file in sorted((config.parent / "tree").glob("*.md")):
            file.write_text(with_markdown_headings(file.read_text()))
        corpus = tasks.documents(folder, tasks.built(config, {}))
        for task, name in zip(
            corpus.tasks, sorted(p.stem for p in config.parent.glob("tree/*.md")), strict=True
        ):
            text = (folder / "passages" / f"{name}.md").read_bytes().decode()
            asked = [q for q in map(json.loads, lines) if q["corpus"] == name][:: arguments.every]
            task = task.every(arguments.every)  # noqa: PLW2901
            passages = [
                [
                    DocumentSpan(f"passages:{name}.md", *r)
                    for r in tasks.byte_ranges(text, q["references"])
                ]
                for q in asked
            ]
            show(option_table(corpus, task, passages, arguments.budget), arguments.markdown)


def option_table(
    corpus: tasks.Corpus, task: tasks.Task, passages: Sequence[Sequence[DocumentSpan]], budget: int
) -> Any:
    """One row per option."""
    columns = (
        "option",
        "recall",
        "95 %",
        "chunks ahead by",
        "p",
        "precision",
        "IoU",
        "hits",
        "nDCG@10",
    )
    table = new_table(
        f"{task.name} ({len(task.queries)}): passages in the first {budget:,} bytes shown", columns
    )
    plain: np.ndarray | None = None
    for name, changes in OPTIONS.items():
        settings = SearchSettings.model_validate(
            {**corpus.index.settings.model_dump(), **EACH, **changes}
        )
        lists = shown(corpus.index, task.queries, settings)
        scores = [
            PassageScore(0, 0, 0) if not s else passage_score(p, s, budget)
            for p, s in zip(passages, lists, strict=True)
        ]
        recall, precision, iou = (np.array(column) for column in zip(*scores, strict=True))
        found = bootstrap(recall)
        ranked = task.measured(tasks.weft_ranking(corpus, task, settings).ranked)["nDCG@10"].mean()
        beside = ("", "") if plain is None else ahead(plain, recall)
        plain = recall if plain is None else plain
        hits = np.mean([held(spans, budget) for spans in lists])
        means = (f"{v:.3f}" for v in (precision.mean(), iou.mean()))
        interval = f"{found.low:.3f}–{found.high:.3f}"
        table.add_row(
            name, f"{found.mean:.3f}", interval, *beside, *means, f"{hits:.1f}", f"{ranked:.3f}"
        )
    return table


def shown(
    index: SearchIndex, queries: Sequence[str], settings: SearchSettings
) -> list[list[DocumentSpan]]:
    """The ranges of stored text that a reader is shown for each query, in their order."""
    searching = SearchIndex(index.path, index.embedder, index.term_settings, settings)
    lists: list[list[DocumentSpan]] = [[] for _ in queries]
    for hit in searching.search(queries, limit=tasks.DEPTH, plain=True).hits.to_pylist():
        for part in (hit, *hit["expansions"]):
            lists[hit["query"]].append(
                DocumentSpan(part["doc_id"], part["byte_start"], part["byte_end"])
            )
    searching.close()
    return lists


def held(spans: Sequence[DocumentSpan], budget: int) -> int:
    """How many of the ranges begin within the budget."""
    begins = np.cumsum([0, *(span.end - span.start for span in spans)])[: len(spans)]
    return int((begins < budget).sum())


if __name__ == "__main__":
    main()
