"""The corpus as a whole, and a person as the mails show them."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from dagster_project.evaluation.evaluator import read_report
from dagster_project.extras.web.facets import MONTHS, Bar, histogram
from dagster_project.extras.web.question import Question
from dagster_project.extras.web.site import rows_about
from dagster_project.index.search.lookup import Ask
from dagster_project.system.sql_files import SqlFile
from transforms.errors import GroundTruthError
from transforms.evaluation.quality import MAIN
from transforms.toml_file import toml_file

_SQL = SqlFile(__file__, "corpus.sql")
_HELP = toml_file(__name__, "help.toml")
_FIRST_FIELDS = ("f: from:", "s: subject: hierarchy:", "tag: tags:", "d: date:", "type:")
"""The fields with an example on the start page."""
_MEASURES = ("MRR@10", "nDCG@10", "Recall@10")


def glance(ask: Ask) -> dict[str, Any]:
    """How much there is, the latest threads, documents and chats, and queries with values of the
    archive.
    """
    (counts,) = corpus_rows(ask, "counts")
    fields = {name: example for name, _, example in query_help(ask)["fields"]}
    examples = [example for name in _FIRST_FIELDS if (example := fields[name])]
    return {"counts": counts, "examples": examples} | {
        name: corpus_rows(ask, name) for name in ("recent", "documents", "chats")
    }


def query_help(ask: Ask | None) -> dict[str, list[tuple[str, str, str | None]]]:
    """The operators and the fields of a query: each with its meaning and an example with values of
    the index.

    An example is None where the index has no such value.
    """
    values = corpus_rows(ask, "examples")[0] if ask else {}
    return {
        "operators": [
            (_filled(name, values) or name, words, "") for name, words in _HELP["operators"].items()
        ],
        "fields": [
            (name, words, _filled(form, values)) for name, (words, form) in _HELP["fields"].items()
        ],
    }


def _filled(form: str, values: Mapping[str, str | None]) -> str | None:
    """An example with the values that it names; None if one is missing, or says something in the
    query language.
    """
    texts = {name: values.get(name) or "" for name in re.findall(r"{(\w+)}", form)}
    is_plain = all(re.fullmatch(r'[^"*?\s<>\\][^"*?<>\\\r\n]*', text) for text in texts.values())
    return form.format(**texts) if form and is_plain else None


def overview(ask: Ask) -> dict[str, Any]:
    """The data of the page of the corpus."""
    data: dict[str, Any] = {
        name: corpus_rows(ask, name) for name in ("people", "threads", "open", "sources")
    }
    (data["counts"],), data["months"] = (
        corpus_rows(ask, "counts"),
        _months(corpus_rows(ask, "months")),
    )
    return data


class Quality(NamedTuple):
    """The last evaluation: its time, version and number of queries, and the mean and interval of
    each measure.
    """

    made_at: datetime
    version: str
    queries: int
    measures: list[dict[str, Any]]


def last_quality(folder: Path) -> Quality | None:
    """The last report of `weft eval run` below `folder`; None if there is none of this version of
    Weft.
    """
    reports = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return _quality(reports[-1], reports[-1].stat().st_mtime_ns) if reports else None


@lru_cache(maxsize=1)
def _quality(path: Path, _changed: int) -> Quality | None:
    try:
        report = read_report(path)
    except GroundTruthError:
        return None
    main, names = (None, *MAIN, report["order"][0]), ("tag", "stage", "level", "profile")
    rows = {
        row["measure"]: row for row in report["summary"] if tuple(row[n] for n in names) == main
    }
    return Quality(
        datetime.fromisoformat(report["timing"]["made_at"]),
        report["index"]["version"],
        len(report["queries"]),
        [rows[name] for name in _MEASURES if name in rows],
    )


def _months(rows: Sequence[Mapping[str, Any]], **values: str) -> list[Bar]:
    """Mails by month, all or those with some filters; `rows` have the first day of each month and
    its count.
    """
    counts = {row["month"]: row["count"] for row in rows}
    return histogram(counts, Question("", {"kind": "message", **values}), MONTHS)


def corpus_rows(ask: Ask, name: str) -> list[dict[str, Any]]:
    """The rows of a statement of `corpus.sql`."""
    return ask(_SQL(name), {}).to_pylist()


class Person(NamedTuple):
    """A person: rows of `people`, mails by month, the latest threads, reviews and files, the most
    frequent partners.
    """

    name: str
    addresses: list[dict[str, Any]]
    months: list[Bar]
    lists: Mapping[str, list[dict[str, Any]]]


def person_page(ask: Ask, address: str) -> Person:
    """The person of an address; UnknownIdError if no mail names it."""
    rows = rows_about(ask, _SQL("addresses"), "person with the address", address)
    addrs = {"addrs": [row["addr"] for row in rows]}
    lists = {
        "threads": _SQL("person_threads"),
        "answers": _SQL("answers", mail="message_id", partner="parent_id", pairs="thread_tree"),
        "answered": _SQL("answers", mail="parent_id", partner="message_id", pairs="thread_tree"),
        "reviewed": _SQL("answers", mail="message_id", partner="parent_id", pairs=_SQL("reviews")),
        "reviewers": _SQL("answers", mail="parent_id", partner="message_id", pairs=_SQL("reviews")),
        "reviews": _SQL("reviewed"),
        "files": _SQL("files"),
    }
    months = _months(ask(_SQL("person_months"), addrs).to_pylist(), **{"from": rows[0]["addr"]})
    name = next((row["name"] for row in rows if row["name"]), rows[0]["addr"])
    return Person(
        name, rows, months, {n: ask(statement, addrs).to_pylist() for n, statement in lists.items()}
    )
