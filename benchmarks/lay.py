"""Questions in lay words (lay_questions.yaml), whose answers are pages, by Weft and by bm25s over
whole pages.

    python benchmarks/lay.py [--state FOLDER]

Printed are nDCG@10, MRR@10 and Recall@10 of both, and how far the default is ahead of bm25s, with
95 % intervals.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import tasks
import yaml
from mail_collections import corpora_folder
from printing import new_parser

from transforms.evaluation.quality import bootstrap

QUESTIONS = Path(__file__).with_name("lay_questions.yaml")
CONFIG = '[storage]\nroot = "state"\n\n[[sources]]\nname = "peps"\nkind = "tree"\npath = "peps"\n'
MEASURES = ("nDCG@10", "MRR@10", "Recall@10")


def main() -> None:
    """Build, ask and print."""
    parser = new_parser(__doc__)
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        corpora = pages(arguments.state or Path(temporary))
        peers = [
            corpus.tasks[0].measured(tasks.baselines(corpus, corpus.tasks[0])["bm25s"])
            for corpus in corpora
        ]
        ours, theirs = joined([measured(corpus) for corpus in corpora]), joined(peers)
        for name in MEASURES:
            ahead = bootstrap(ours[name] - theirs[name])
            print(
                f"{name}: default {ours[name].mean():.3f}, bm25s {theirs[name].mean():.3f}, {ahead.mean:+.3f}",
                end=" ",
            )
            print(f"({ahead.low:+.3f} to {ahead.high:+.3f})")


def pages(state: Path) -> list[tasks.Corpus]:
    """Both collections with their questions."""
    asked = yaml.safe_load(QUESTIONS.read_text())
    if not (state / "lay").exists():
        shutil.copytree(corpora_folder() / "peps", state / "lay" / "peps")
        (state / "lay" / "weft.toml").write_text(CONFIG)
    sample = tasks.corpus("sample", state).index
    indexes = {"peps": tasks.built(state / "lay" / "weft.toml", {}), "sample": sample}
    found = []
    for name, index in indexes.items():
        texts = index.connection.execute(
            "SELECT doc_id, concat_ws(chr(10), title, text) FROM documents ORDER BY 1"
        ).fetchall()
        right = [
            next(doc for doc, _ in texts if page in doc.replace(":", "/")) for page in asked[name]
        ]
        items = dict(index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall())
        task = tasks.Task(name, list(asked[name].values()), [frozenset([doc]) for doc in right])
        peers = {"whole pages": [tasks.Text(doc, "", words) for doc, words in texts]}
        found.append(tasks.Corpus(name, index, [task], items, peers))
    return found


def measured(corpus: tasks.Corpus) -> dict[str, np.ndarray]:
    """MEASURES of each question."""
    values = corpus.tasks[0].measured(tasks.weft_ranking(corpus, corpus.tasks[0]).ranked)
    return {name: values[name] for name in MEASURES}


def joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The values of all collections behind each other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in MEASURES}


if __name__ == "__main__":
    main()
