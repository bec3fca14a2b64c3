"""Tables of token vectors beside today's static model and beside a teacher, on the collections of
benchmarks/retrieval.py.

    python benchmarks/table/judge.py [--table FOLDER ...] [--vectors FOLDER] [--corpus NAME ...] [--state FOLDER]

Every model ranks the same chunks of the same index: its vectors take the place of those of the
index. --table names a folder that train.py wrote, --vectors one with `<corpus>.npz` of a model that
does not run here (`passages` in the order of chunks, `queries`, and `texts`, the queries that they
are of). Printed are, for each task, nDCG@10 of the default search and of vectors alone, how far the
default is ahead of the static model's with its 95 % interval, and the means of all tasks. Of
linux-erofs every eighth commit is asked, of the chats every third question.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import mail_collections as collections
import tasks
from held_out import STEPS
from printing import new_parser, new_table
from retrieval import ahead, show

from transforms.embedding.sign_codes import CodedVectors, sign_codes
from transforms.embedding.vectors import fixed_point
from transforms.settings.search import BUILT_IN_PROFILES

HEAD = collections.MEASURES[0]
SEARCHES: dict[str, dict] = {"default": {}, "vectors": BUILT_IN_PROFILES["vector"]}
TEXTS = (
    "SELECT coalesce(x.text_embed, c.text_embed) FROM chunks c LEFT JOIN chunk_context x USING (chunk_id) "
    "ORDER BY chunk_no"
)
Embed = Callable[[Sequence[str]], np.ndarray]


class Model:
    """An embedder as an index needs it, made from a function."""

    is_paid = False

    def __init__(self, embed: Embed):
        self.embed_queries = self.embed_documents = embed


def of_table(folder: Path) -> Embed:
    """Unit vectors by a table that train.py wrote."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    held = load_file(folder / "table.safetensors")
    table = held["rows"].astype(np.float32) * held["scale"][:, None]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def embed(texts: Sequence[str]) -> np.ndarray:
        encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        sums = np.stack([table[e.ids or [0]].sum(0) for e in encoded])
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    return embed


def of_file(file: Path) -> tuple[np.ndarray, Embed]:
    """The vectors of the chunks, and those of the queries by their text."""
    with np.load(file) as held:
        passages = held["passages"].astype(np.float32)
        known = dict(zip(held["texts"].tolist(), held["queries"].astype(np.float32), strict=True))
    return passages, lambda texts: np.stack([known[text] for text in texts])


def swapped(corpus: tasks.Corpus, passages: np.ndarray, embed: Embed) -> None:
    """Let the index of a corpus rank by other vectors, which are given in the order of its chunks."""
    arrays = corpus.index.arrays
    slots = arrays.vectors.slots
    laid = np.zeros((slots.count, passages.shape[1]), dtype=np.float32)
    laid[slots.of(np.arange(len(passages)))] = passages
    vectors = CodedVectors([(fixed_point(laid), sign_codes(laid))], slots, arrays.vectors.absent)
    corpus.index.__dict__["arrays"] = replace(arrays, vectors=vectors)
    corpus.index.__dict__.pop("vector_sample", None)
    corpus.index.embedder = Model(embed)


def main() -> None:
    """Judge, and print one row per task."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--table", type=Path, action="append", default=[], help="several times for several"
    )
    parser.add_argument("--vectors", type=Path, help="vectors of a model that does not run here")
    parser.add_argument("--corpus", action="append", choices=tasks.CORPORA, help="default: all")
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    given = parser.parse_args()
    found: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in given.corpus or tasks.CORPORA:
            corpus = tasks.corpus(name, given.state or Path(temporary))
            asked = [task.every(STEPS.get(name, 1)) for task in corpus.tasks]
            texts = [text or "?" for (text,) in corpus.index.connection.execute(TEXTS).fetchall()]
            models: dict[str, tuple[np.ndarray, Embed] | None] = {"static": None}
            for folder in given.table:
                embed = of_table(folder)
                models[folder.name] = embed(texts), embed
            if given.vectors:
                models[given.vectors.name] = of_file(given.vectors / f"{name}.npz")
            for model, vectors in models.items():
                if vectors is not None:
                    swapped(corpus, *vectors)
                for task in asked:
                    found.setdefault(f"{task.name} ({len(task.queries)})", {})[model] = judged(
                        corpus, task
                    )
            corpus.index.close()
            show(report(found), given.markdown)


def judged(corpus: tasks.Corpus, task: tasks.Task) -> dict[str, np.ndarray]:
    """HEAD of every query by search."""
    values = {}
    for name, changed in SEARCHES.items():
        settings = corpus.index.settings.model_copy(update=changed)
        values[name] = task.measured(tasks.weft_ranking(corpus, task, settings).ranked)[HEAD]
    return values


def report(found: dict[str, dict[str, dict[str, np.ndarray]]]):
    """A row per task, and one of the means."""
    models = list(next(iter(found.values())))
    columns = [
        "task",
        *(f"{m}, {s}" for s in SEARCHES for m in models),
        *(f"{m} ahead by" for m in models[1:]),
    ]
    table = new_table(HEAD, columns)
    means = [[np.mean(of[m][s]) for s in SEARCHES for m in models] for of in found.values()]
    for (task, of), row in zip(found.items(), means, strict=True):
        gains = [" p ".join(ahead(of[m]["default"], of["static"]["default"])) for m in models[1:]]
        table.add_row(task, *(f"{v:.3f}" for v in row), *gains)
    table.add_row(
        "mean of the tasks",
        *(f"{v:.3f}" for v in np.mean(means, axis=0)),
        *("" for _ in models[1:]),
    )
    return table


if __name__ == "__main__":
    main()
