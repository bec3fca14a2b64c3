"""Windows of a thread for reranking alone, an open question of the pginbox design.

    python benchmarks/thread_windows.py [--corpus NAME ...] [--state FOLDER]

A window is a mail with those before and after it in its thread, read depth first, without quotes.
The first hits of the default search get the BM25 score of their window among the windows of all
mails, scaled by minimum and maximum, times a weight, added to their own score. Prints nDCG@10,
MRR@10 and Recall@10 by width and weight; 0 is the default.
"""

import re
import tempfile
from pathlib import Path

import mail_collections as collections
import numpy as np
import tasks
from printing import new_parser, new_table
from retrieval import HEAD, ahead, show

_QUOTED = re.compile(r"^\s*>.*\n?", re.M)
_MAILS = """
SELECT m.message_id, coalesce(t.thread_id, m.message_id), m.subject, m.body
FROM messages m LEFT JOIN thread_tree t USING (message_id) ORDER BY 2, t.position, 1
"""
FIRST, WIDTHS, WEIGHTS = 30, (1, 2), (0.0, 0.1, 0.2, 0.4)
"""Hits that are looked at again; mails on either side of a window; weights of its score."""


def main() -> None:
    """Build what is missing, rerank, print one table per task."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--corpus",
        action="append",
        choices=("pgsql", tasks.MONTHS, "erofs"),
        help="one corpus only",
    )
    parser.add_argument(
        "--state", type=Path, help="where indexes are kept; default: a temporary folder"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.corpus or ("pgsql", tasks.MONTHS):
            corpus = tasks.corpus(name, arguments.state or Path(temporary))
            for task in corpus.tasks:
                measure(corpus, task)
            corpus.index.close()


def measure(corpus: tasks.Corpus, task: tasks.Task) -> None:
    """Print one task: every width and weight beside the default."""
    ranked = tasks.weft_ranking(corpus, task).ranked
    columns = ("mails on either side", "weight", *collections.MEASURES[:3], "default ahead by", "p")
    shown = new_table(f"{task.name} ({len(task.queries):,} queries)", columns)
    default = task.measured(ranked)[HEAD]
    for width in WIDTHS:
        items, texts = windows(corpus, width)
        place = {item: number for number, item in enumerate(items)}
        score = tasks.word_scores(texts)
        scores = [score(query) for query in task.queries]
        for weight in WEIGHTS:
            again = [
                reranked(hits, weight, place, found)
                for hits, found in zip(ranked, scores, strict=True)
            ]
            values = task.measured(again)
            means = [f"{values[name].mean():.3f}" for name in collections.MEASURES[:3]]
            shown.add_row(str(width), f"{weight:g}", *means, *ahead(default, values[HEAD]))
    show(shown)


def windows(corpus: tasks.Corpus, width: int) -> tuple[list[str], list[str]]:
    """The mails, and the text of each with `width` mails before and after it in its thread."""
    rows = corpus.index.connection.execute(_MAILS).fetchall()
    own = [f"{subject}\n{_QUOTED.sub('', body)}" for _, _, subject, body in rows]
    texts = [
        "\n".join(
            own[near]
            for near in range(max(0, n - width), min(len(rows), n + width + 1))
            if rows[near][1] == rows[n][1]
        )
        for n in range(len(rows))
    ]
    return [row[0] for row in rows], texts


def reranked(
    hits: list[tuple[str, float]], weight: float, place: dict[str, int], scores: np.ndarray
) -> list[tuple[str, float]]:
    """The hits with the scores of the windows of the first `FIRST`; the others stay behind them."""
    first = hits[:FIRST]
    if not first or not weight:
        return hits
    own = _unit(np.array([score for _, score in first]))
    window = _unit(np.array([scores[place[item]] if item in place else 0.0 for item, _ in first]))
    both = own + weight * window
    order = np.argsort(-both, kind="stable")
    least = min((score for _, score in hits), default=0.0)
    return [(first[n][0], float(both[n]) + 10) for n in order] + [
        (item, score - least) for item, score in hits[FIRST:]
    ]


def _unit(scores: np.ndarray) -> np.ndarray:
    return (scores - scores.min()) / (np.ptp(scores) or 1.0)


if __name__ == "__main__":
    main()
