"""Queries and relevant mails over the mail corpora, and the measures they are judged by."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from transforms.evaluation import metrics

Grades = frozenset[str] | Mapping[str, int]
"""Items that are right for a query, with their grades if these differ."""
MEASURES = ("nDCG@10", "MRR@10", "Recall@10", "Recall@100")
_TRAILER = re.compile(
    r"^(?:[A-Z][A-Za-z]*(?:-[A-Za-z]+)+|Link|Fixes|Cc|Closes|Message-ID): .*$", re.M
)


@dataclass(frozen=True)
class Collection:
    """A corpus, the settings of its source, and one or more tasks: query texts with relevant
    Message-IDs.
    """

    name: str
    source: str
    tasks: Mapping[str, tuple[Sequence[str], Sequence[frozenset[str]]]]


def corpora_folder() -> Path:
    """`WEFT_CORPORA`, else the corpora beside the project; SystemExit where there are none."""
    folder = Path(
        os.environ.get("WEFT_CORPORA") or Path(__file__).parents[2] / "shared" / "corpora"
    )
    if not folder.is_dir():
        raise SystemExit(f"no corpora at {folder}: set WEFT_CORPORA to the folder that holds them")
    return folder


def settings_file(
    folder: Path, name: str, source: str, chunks: Mapping[str, str] | None = None
) -> Path:
    """A settings file for one source with its storage below `folder`; `chunks` are settings of
    [chunks].

    One that says the same stays as it is: a build that finds it as it was looks at little.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "weft.toml"
    lines = [f"{n} = {v if v.isdecimal() else json.dumps(v)}\n" for n, v in (chunks or {}).items()]
    text = (
        f'[storage]\nroot = "state"\n\n[chunks]\n{"".join(lines)}\n'
        f'[[sources]]\nname = "{name}"\nkind = "mbox"\n{source}\n'
    )
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def pgsql(corpora: Path) -> Collection:
    """The PostgreSQL lists: lines of the TODO list find the mails filed under them."""
    queries, relevant = [], []
    for topic in json.loads((corpora / "pgsql" / "qrels.json").read_text()):
        for query in topic["queries"]:
            queries.append(query)
            relevant.append(frozenset(topic["message_ids"]))
    source = f'path = "{corpora}/pgsql/pgsql-*"\ngrain = "year"'
    return Collection("pgsql", source, {"topics": (queries, relevant)})


def copied_pgsql(corpora: Path, folder: Path, months: str = "*") -> None:
    """Copy the archives of the PostgreSQL lists, or those of the months that a pattern names, into
    a new folder.
    """
    folder.mkdir(parents=True)
    for file in (corpora / "pgsql").glob(f"pgsql-*.{months}"):
        shutil.copy(file, folder)


def erofs_source(corpora: Path, months: str = "*") -> str:
    """Settings of the linux-erofs source, of all months or those that a pattern names."""
    return f'list_id = "linux-erofs"\npath = "{corpora}/linux-erofs/linux-erofs.{months}.gz"\ngrain = "year"'


def erofs(corpora: Path, index: Path) -> Collection:
    """linux-erofs: a commit's text finds the mail it came from, and the other mails of that thread."""
    with duckdb.connect(str(index), read_only=True) as connection:
        threads = dict(
            connection.execute("SELECT message_id, thread_id FROM thread_tree").fetchall()
        )
        members: dict[str, set[str]] = {}
        for message, thread in connection.execute(
            "SELECT message_id, thread_id FROM thread_tree WHERE NOT is_ghost"
        ).fetchall():
            members.setdefault(thread, set()).add(message)
    mail: tuple[list[str], list[frozenset[str]]] = ([], [])
    others: tuple[list[str], list[frozenset[str]]] = ([], [])
    for line in (corpora / "linux-erofs" / "erofs_commits.jsonl").read_text().splitlines():
        commit = json.loads(line)
        own = {i for i in commit["message_ids"] if i in threads and i in members[threads[i]]}
        if not own:
            continue
        text = f"{commit['subject']}\n\n{_TRAILER.sub('', commit['body'])}".strip()
        mail[0].append(text)
        mail[1].append(frozenset(own))
        rest = set().union(*(members[threads[i]] for i in own)) - own
        if rest:
            others[0].append(text)
            others[1].append(frozenset(rest))
    return Collection(
        "linux-erofs",
        erofs_source(corpora),
        {"commit to its mail": mail, "commit to the rest of its thread": others},
    )


def measured(
    ranked: Sequence[Sequence[tuple[str, float]]],
    relevant: Sequence[Grades],
    without: Sequence[frozenset[str]] | None = None,
) -> dict[str, np.ndarray]:
    """MEASURES of each query, of ranked (id, score) lists; `without` are ids left out of a list.

    Items that come again count at their first place.
    """
    left_out = without or [frozenset()] * len(ranked)
    runs = {
        str(number): list(dict.fromkeys(doc for doc, _ in hits if doc not in out))
        for number, (hits, out) in enumerate(zip(ranked, left_out, strict=True))
    }
    judged = {
        str(number): dict(right) if isinstance(right, Mapping) else dict.fromkeys(sorted(right), 1)
        for number, right in enumerate(relevant)
    }
    values = metrics.query_measures(runs, judged)
    return {name: values.filter(measure=name)["value"].to_numpy() for name in MEASURES}
