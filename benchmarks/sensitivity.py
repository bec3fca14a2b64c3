"""Ranking and leaking together: what a search loses, and what still slips through, if sensitive
mails are left out.

    python benchmarks/sensitivity.py [--collection FOLDER] [--state FOLDER]

Without a folder the collection is sensitivity_mails.yaml, 150 mails that were written for this
benchmark before any result was seen, by the authors of the rules. A folder has `docs.jsonl`
(`doc_id`, `text`, `sensitivity` 0 or 1), `queries.tsv` (id, tab, text) and `qrels` (TREC: query,
iteration, document, relevance), as `ir_datasets export sara` writes those of SARA, the Enron mails
with judgements of relevance and sensitivity (McKechnie and McDonald, SIGIR 2024).

Each query is searched as shipped under conditions: none, `-sensitivity:secret` and
`sensitivity:public` (rules), and `-sensitivity:labelled` (all labels).

Printed are, with 95 % intervals by the bootstrap over queries: nDCG@10 of the relevant mails that
are not sensitive, the share of queries with a sensitive mail among the first ten, such mails a
query, nDCG@10 if a query that shows one counts 0, and, of all mails, the share of the sensitive
ones that is left out and that of the others.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from email import message_from_string
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tasks
import yaml
from mail_collections import measured
from printing import new_parser, new_table
from retrieval import show

from dagster_project.index.search.filters import where_conditions
from transforms.evaluation.quality import bootstrap
from transforms.retrieval.search_filters import Filters

MAILS = Path(__file__).with_name("sensitivity_mails.yaml")
CONFIG = """[storage]
root = "state"

[[sources]]
name = "office"
kind = "mbox"
path = "office.mbox"
list_id = "office"
"""
SHOWN, DEPTH = 10, 200
NONE = "no protection"
PROTECTIONS = {
    NONE: "",
    "rules: no secrets": "-sensitivity:secret",
    "rules: no personal data": "sensitivity:public",
    "labels": "-sensitivity:labelled",
}
"""The condition of each."""


class Collection(NamedTuple):
    """Texts by id, whether each is sensitive; queries, and the relevant ids of each."""

    texts: Mapping[str, str]
    is_sensitive: Mapping[str, bool]
    queries: Sequence[str]
    relevant: Sequence[frozenset[str]]


def main() -> None:
    """Build, search and print one table."""
    parser = new_parser(__doc__)
    parser.add_argument("--collection", type=Path, help="a folder of the form of SARA")
    parser.add_argument("--state", type=Path, help="where the index is kept between runs")
    arguments = parser.parse_args()
    collection = of_folder(arguments.collection) if arguments.collection else of_project()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.state or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write(collection, folder)
        index = tasks.built(folder / "weft.toml", {})
        sensitive = sum(collection.is_sensitive.values())
        count = f"{len(collection.texts):,} mails, {sensitive:,} sensitive, {len(collection.queries)} queries"
        heads = (
            "nDCG@10",
            "95 %",
            "queries that leak",
            "95 %",
            "leaks a query",
            "nDCG@10 without leaks",
            "95 %",
            "sensitive left out",
            "others left out",
        )
        table = new_table(count, ("protection", *heads), left=1)
        for name, condition in PROTECTIONS.items():
            table.add_row(name, *figures(collection, index, condition, folder))
        show(table, as_markdown=True)


def of_project() -> Collection:
    """The collection that was written here."""
    texts, sensitive, queries, relevant = {}, {}, [], []
    for number, topic in enumerate(yaml.safe_load(MAILS.read_text(encoding="utf-8"))):
        right = set()
        for place, (mark, kind, subject, text) in enumerate(topic["mails"]):
            key = f"m{number:02}{place}"
            texts[key] = f"Subject: {subject}\n\n{text}\n"
            sensitive[key] = kind != "public"
            if mark == "+":
                right.add(key)
        queries.append(topic["query"])
        relevant.append(frozenset(right))
    return Collection(texts, sensitive, queries, relevant)


def of_folder(folder: Path) -> Collection:
    """A collection of the form of SARA."""
    docs = [
        json.loads(line)
        for line in (folder / "docs.jsonl").read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    texts = {str(doc["doc_id"]): str(doc["text"]) for doc in docs}
    sensitive = {str(doc["doc_id"]): int(doc["sensitivity"]) > 0 for doc in docs}
    rows = [
        line.split("\t", 1)
        for line in (folder / "queries.tsv").read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    judged: dict[str, set[str]] = {key: set() for key, _ in rows}
    for line in (folder / "qrels").read_text(encoding="utf-8").splitlines():
        query, _, doc, relevance = line.split()
        if int(relevance) > 0 and query in judged and doc in texts:
            judged[query].add(doc)
    asked = [(text, frozenset(judged[key])) for key, text in rows if judged[key]]
    return Collection(texts, sensitive, [q for q, _ in asked], [right for _, right in asked])


def write(collection: Collection, folder: Path) -> None:
    """The mails as an mbox, and the settings."""
    parts = []
    for number, (key, text) in enumerate(collection.texts.items()):
        mail = message_from_string(text)
        if not mail.keys():
            mail = EmailMessage()
            mail.set_content(text)
        for name, value in (
            ("Message-ID", f"<{key}@collection>"),
            ("From", f"Writer {number % 9} <w{number % 9}@collection.example>"),
        ):
            del mail[name]
            mail[name] = value
        if "Date" not in mail:
            mail["Date"] = f"Mon, {1 + number % 28} Mar 2021 10:{number % 60:02}:00 +0000"
        lines = mail.as_string().splitlines()
        parts += [
            "From writer@collection.example Mon Mar  1 10:00:00 2021",
            *(f">{line}" if line.startswith("From ") else line for line in lines),
            "",
        ]
    (folder / "office.mbox").write_text("\n".join(parts), encoding="utf-8", errors="replace")
    (folder / "weft.toml").write_text(CONFIG)


def figures(collection: Collection, index: Any, condition: str, folder: Path) -> list[str]:
    """The cells of a row."""
    shown = shown_texts(collection, index, condition, folder)
    ranked = [
        [hit for hit in search(index, query) if hit[0] in shown] for query in collection.queries
    ]
    sensitive = collection.is_sensitive
    leaks = np.array(
        [sum(sensitive[key] for key, _ in hits[:SHOWN]) for hits in ranked], dtype=float
    )
    public = [
        frozenset(key for key in right if not sensitive[key]) for right in collection.relevant
    ]
    can_be_found = np.array([bool(right) for right in public])
    gain = np.where(
        can_be_found, measured([hits[:SHOWN] for hits in ranked], public)["nDCG@10"], 0.0
    )[can_be_found]
    cells = []
    for values in (gain, leaks > 0):
        mean = bootstrap(np.asarray(values, dtype=float))
        cells += [f"{mean.mean:.3f}", f"{mean.low:.3f}–{mean.high:.3f}"]
    clean = bootstrap(np.where(leaks[can_be_found] > 0, 0.0, gain))
    shares = [
        np.mean([key not in shown for key in collection.texts if sensitive[key] == is_so])
        for is_so in (True, False)
    ]
    return [
        *cells,
        f"{leaks.mean():.2f}",
        f"{clean.mean:.3f}",
        f"{clean.low:.3f}–{clean.high:.3f}",
        *(f"{share:.3f}" for share in shares),
    ]


def shown_texts(collection: Collection, index: Any, condition: str, folder: Path) -> set[str]:
    """The ids that the condition shows."""
    lines = [
        f"{key}@collection\t{'sensitive' if is_sensitive else 'public'}"
        for key, is_sensitive in collection.is_sensitive.items()
    ]
    index.labels = folder / "labels.tsv"
    index.labels.write_text("\n".join(lines) + "\n", encoding="utf-8")
    index.__dict__.pop("conditions", None)
    mask = index.conditions.mask(Filters(), where_conditions(condition)) if condition else None
    rows = index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall()
    return {doc.partition("@")[0] for number, doc in rows if mask is None or mask[number]}


def search(index: Any, query: str) -> list[tuple[str, float]]:
    """The ids of the hits of a query, best first."""
    hits = index.ranked(index.resolved([words(query)]), limit=DEPTH).hits.sort("rank")
    docs = dict(index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall())
    found = dict.fromkeys(docs[number].partition("@")[0] for number in hits["chunk_no"].to_list())
    return [(key, float(-place)) for place, key in enumerate(found)]


def words(query: str) -> str:
    """A query without marks that its language reads."""
    return " ".join("".join(c if c.isalnum() else " " for c in query).lower().split())


if __name__ == "__main__":
    main()
