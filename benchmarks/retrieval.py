"""Search quality on every corpus, beside bm25s on the same texts in the same run.

    python benchmarks/retrieval.py [--corpus NAME ...] [--state FOLDER] [--markdown] [--set NAME=VALUE ...]

Prints nDCG@10, MRR@10, Recall@10 and Recall@100 per task: of the default search and of the list
after each of its stages, of its two halves alone (vectors alone are plain vector search), of rank
fusion, and of bm25s over whole texts and over the same chunks. Beside nDCG@10 stand its 95 %
interval, how far the default is ahead query by query, and the p-value of that. The last table has
one line per task: the default beside its peers.

Mails count as items for mail; chunks for documents, right where they hold most of a passage that
answers; turns for chats, right where they hold the evidence.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import mail_collections as collections
import numpy as np
import tasks
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table

from transforms.evaluation.quality import bootstrap, paired_difference
from transforms.settings.search import BUILT_IN_PROFILES, SearchSettings

Measured = dict[str, tuple[dict[str, np.ndarray], float]]
"""By system the measures of every query, and the seconds of all."""

HEAD = collections.MEASURES[0]
DEFAULT = "Weft, default"
CHANGES: dict[str, dict] = {
    DEFAULT: {},
    "Weft, default without threads": {"thread_weight": 0.0},
    "Weft, default without whole mails": {"mail_weight": 0.0},
    "Weft, default not reranked": {"rerank": "off"},
    "Weft, BM25 alone": BUILT_IN_PROFILES["lexical"],
    "vectors": BUILT_IN_PROFILES["vector"],
    "rank fusion": BUILT_IN_PROFILES["rrf"],
    "Weft, sections": BUILT_IN_PROFILES["sections"],
    "Weft, sections, later order": BUILT_IN_PROFILES["sections_later"],
}


def main() -> None:
    """Build what is missing, search, print one table per task and one of all."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--corpus",
        action="append",
        choices=tasks.CORPORA,
        help="one corpus only; several times for several",
    )
    parser.add_argument(
        "--state",
        type=Path,
        help="where indexes are kept between runs; default: a temporary folder",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [search]"
    )
    parser.add_argument(
        "--chunks", action="append", default=[], metavar="NAME=VALUE", help="a setting of [chunks]"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print tables as docs/evaluation.md has them"
    )
    arguments = parser.parse_args()
    changed, chunks = (
        dict(s.split("=", 1) for s in given) for given in (arguments.set, arguments.chunks)
    )
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        found: dict[str, Measured] = {}
        for name in arguments.corpus or tasks.CORPORA:
            corpus = tasks.corpus(name, state, changed, chunks)
            for task in corpus.tasks:
                title = f"{task.name} ({len(task.queries):,} queries, {corpus.index.chunk_count:,} chunks)"
                found[title] = measured(corpus, task)
                show(system_table(title, found[title]), arguments.markdown)
            corpus.index.close()
        show(overview(found), arguments.markdown)


def measured(corpus: tasks.Corpus, task: tasks.Task) -> Measured:
    """Every system on one task."""
    whole = corpus.index.settings.model_dump()
    rankings = {}
    for name, changes in CHANGES.items():
        settings = SearchSettings.model_validate({**whole, **changes})
        rankings[name] = tasks.weft_ranking(corpus, task, settings)
    stages = tasks.weft_rankings(corpus, task)
    of_stages = {f"  after {stage}": timed for stage, timed in stages.items() if stage != "final"}
    rankings |= {
        f"bm25s, {name}": timed for name, timed in tasks.peer_rankings(corpus, task).items()
    }
    return {
        name: (task.measured(timed.ranked), timed.seconds)
        for name, timed in (rankings | of_stages).items()
    }


def system_table(title: str, found: Measured) -> Table:
    """One row per system, the best of each column marked."""
    columns = (
        "system",
        HEAD,
        "95 %",
        *collections.MEASURES[1:],
        "default ahead by",
        "p",
        "ms/query",
    )
    table = new_table(title, columns)
    means = {
        name: {n: float(v.mean()) for n, v in values.items()} for name, (values, _) in found.items()
    }
    # Stages are no systems: their lists are longer or in another order than anybody sees.
    best = {
        n: max(m[n] for name, m in means.items() if name[0] != " ") for n in collections.MEASURES
    }
    default = found[DEFAULT][0][HEAD]
    for name, (values, seconds) in found.items():
        cells = {n: f"{m:.3f}" if m < best[n] else f"**{m:.3f}**" for n, m in means[name].items()}
        interval = bootstrap(values[HEAD])
        table.add_row(
            name,
            cells[HEAD],
            f"{interval.low:.3f}–{interval.high:.3f}",
            *(cells[n] for n in collections.MEASURES[1:]),
            *(("", "") if name == DEFAULT else ahead(default, values[HEAD])),
            f"{1000 * seconds / len(default):.1f}",
        )
    return table


def overview(found: Mapping[str, Measured]) -> Table:
    """One row per task: HEAD of the default with its interval, and of its peers with how far it is
    ahead.
    """
    columns = ("task", "default", "95 %", "bm25s, the best", "vectors", "rank fusion")
    table = new_table(f"{HEAD} of the default beside its peers", columns)
    for title, systems in found.items():
        default = systems[DEFAULT][0][HEAD]
        interval = bootstrap(default)
        peers = [values[HEAD] for name, (values, _) in systems.items() if name.startswith("bm25s")]
        beside = [
            max(peers, key=lambda values: float(values.mean())),
            *(systems[name][0][HEAD] for name in ("vectors", "rank fusion")),
        ]
        table.add_row(
            title.split(" (")[0],
            f"{default.mean():.3f}",
            f"{interval.low:.3f}–{interval.high:.3f}",
            *(f"{v.mean():.3f} ({' p '.join(ahead(default, v))})" for v in beside),
        )
    return table


def ahead(default: np.ndarray, values: np.ndarray) -> tuple[str, str]:
    """How far the default is ahead, with its interval, and the p-value."""
    ahead, p = paired_difference(values, default)
    return f"{ahead.mean:+.3f} [{ahead.low:+.3f}, {ahead.high:+.3f}]", p_value(p)


def p_value(value: float) -> str:
    """A p-value in three digits."""
    return f"{value:.3f}" if value >= 0.0005 else "<.001"


def show(table: Table, as_markdown: bool = False) -> None:
    """Print a table for people, or as Markdown."""
    if not as_markdown:
        Console(width=180).print(table)
        return
    heads = [str(column.header) for column in table.columns]
    print(f"\n{table.title}\n")
    print("| " + " | ".join(heads) + " |")
    print("|" + "|".join("---" if c.justify == "left" else "---:" for c in table.columns) + "|")
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        print("| " + " | ".join(str(cell) for cell in cells) + " |")


if __name__ == "__main__":
    main()
