"""The queries of the mail corpora as ground truth for `weft eval`.

    python benchmarks/corpus_queries.py pgsql FILE.yaml
    python benchmarks/corpus_queries.py erofs FILE.yaml --index INDEX.duckdb

The second needs an index of linux-erofs, which knows the threads of the mails that commits came
from; its queries have the tags `mail` (the mail a commit came from) and `thread` (the others of its
thread).
"""

from pathlib import Path

import mail_collections as collections
from printing import new_parser

from transforms.evaluation.ground_truth import GroundTruth, as_yaml
from transforms.schemas.operations import EVALUATION_QUERIES, EVALUATION_RELEVANCE


def main() -> None:
    """Write the file."""
    parser = new_parser(__doc__)
    parser.add_argument("collection", choices=["pgsql", "erofs"])
    parser.add_argument("target", type=Path)
    parser.add_argument("--index", type=Path, help="published index of linux-erofs")
    arguments = parser.parse_args()
    corpora = collections.corpora_folder()
    if arguments.collection == "pgsql":
        collection = collections.pgsql(corpora)
    elif arguments.index:
        collection = collections.erofs(corpora, arguments.index)
    else:
        parser.error("erofs needs --index")
    arguments.target.write_text(as_yaml(ground_truth(collection)), encoding="utf-8")


def ground_truth(collection: collections.Collection) -> GroundTruth:
    """The queries of all tasks of a collection, the last word of a task as tag."""
    queries, relevance = [], []
    for task, (texts, answers) in collection.tasks.items():
        tag = task.split()[-1]
        for number, (text, right) in enumerate(zip(texts, answers, strict=True), 1):
            query_id = f"{tag}-{number:04}"
            queries.append(
                {"query_id": query_id, "query": text, "tags": [tag], "file": "", "is_draft": False}
            )
            relevance += [
                {
                    "query_id": query_id,
                    "entry": entry,
                    "form": "message",
                    "target": message,
                    "text": None,
                    "grade": 1,
                    "topic": None,
                }
                for entry, message in enumerate(sorted(right))
            ]
    return GroundTruth(
        EVALUATION_QUERIES.from_rows(queries), EVALUATION_RELEVANCE.from_rows(relevance)
    )


if __name__ == "__main__":
    main()
