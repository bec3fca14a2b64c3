"""Ground truth: graded right answers, read from YAML, BEIR or TREC files, written, or drafted from
an index.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import yaml

from transforms.errors import GroundTruthError
from transforms.evaluation.trec import parse_grades
from transforms.hashing import text_hash
from transforms.schemas.operations import EVALUATION_QUERIES, EVALUATION_RELEVANCE
from transforms.schemas.table import rows_of
from transforms.signs import sign_pattern

FORMS = ("message", "thread", "node", "document", "chunk", "passage", "chat")
"""Things that an entry may name: see `docs/evaluation.md`."""

_QUERY_KEYS = {"id", "query", "tags", "relevant", "drafted"}
_ENTRY_KEYS = {"grade", "topic"}
_ID = re.compile(r"\S{1,200}")


class GroundTruth(NamedTuple):
    """Queries (`schemas.EVALUATION_QUERIES`) and their right answers
    (`schemas.EVALUATION_RELEVANCE`).
    """

    queries: pa.Table
    relevance: pa.Table


def parse_ground_truth(text: str, file: str) -> GroundTruth:
    """The queries of a YAML file; `file` is its name in faults.

    Raises GroundTruthError with the file, the query, the wrong entry and its fault.
    """
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise GroundTruthError(
            f"{file}{line}: no valid YAML: {getattr(error, 'problem', error)}"
        ) from error
    _require(
        isinstance(document, dict) and isinstance(document.get("queries"), list),
        file,
        "has no list `queries`",
    )
    _require_known(document, {"queries"}, file)
    queries, relevance = [], []
    for number, item in enumerate(document["queries"], 1):
        query, entries = _query(item, file, number)
        queries.append(query)
        relevance += entries
    return join_files([_tables(queries, relevance)])


def join_files(parts: Sequence[GroundTruth]) -> GroundTruth:
    """The queries of several files; GroundTruthError if two queries have one id."""
    queries = pa.concat_tables([EVALUATION_QUERIES.empty(), *(p.queries for p in parts)])
    relevance = pa.concat_tables([EVALUATION_RELEVANCE.empty(), *(p.relevance for p in parts)])
    files: dict[str, str] = {}
    for query_id, file in rows_of(queries, "query_id", "file"):
        if query_id in files:
            raise GroundTruthError(
                f"query {query_id!r} is in {files[query_id]} and again in {file}"
            )
        files[query_id] = file
    return GroundTruth(queries, relevance)


def from_retrieval_files(
    queries: str, qrels: str, form: str, file: str, prefix: str = ""
) -> GroundTruth:
    """Ground truth from the files of BEIR or TREC.

    `queries` is JSON lines with `_id` and `text` (BEIR), or lines of id, tab and text; `qrels` is
    read by `trec.parse_grades`. Every item becomes an entry of one form, `prefix` before its id.
    Queries without an item of a grade above 0 are left out. Raises GroundTruthError naming the line.
    """
    texts = _query_texts(queries, file)
    grades = parse_grades(qrels, file)
    for query_id in grades.keys() - texts.keys():
        raise GroundTruthError(f"{file} qrels: query {query_id!r} is not among the queries")
    query_rows, relevance = [], []
    for query_id, text in texts.items():
        right = {item: grade for item, grade in grades.get(query_id, {}).items() if grade > 0}
        if not right:
            continue
        query_rows.append(query_row(query_id, text, [], file, False))
        relevance += [
            relevance_row(query_id, position, form, prefix + item, grade)
            for position, (item, grade) in enumerate(right.items())
        ]
    return _tables(query_rows, relevance)


def as_yaml(truth: GroundTruth, note: str = "") -> str:
    """The YAML that `parse_ground_truth` reads, `note` as a comment on top."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for row in truth.relevance.to_pylist():
        entry = {row["form"]: row["text"] if row["form"] in ("passage", "chat") else row["target"]}
        if row["form"] == "passage":
            entry["document"] = row["target"]
        entry |= {"grade": row["grade"]} | ({"topic": row["topic"]} if row["topic"] else {})
        entries.setdefault(row["query_id"], []).append(entry)
    queries = [
        {
            "id": row["query_id"],
            "query": row["query"],
            "tags": row["tags"],
            **({"drafted": True} if row["is_draft"] else {}),
            "relevant": entries.get(row["query_id"], []),
        }
        for row in truth.queries.to_pylist()
    ]
    head = "".join(f"# {line}\n" for line in note.splitlines())
    return head + yaml.safe_dump(
        {"queries": queries}, sort_keys=False, allow_unicode=True, width=110
    )


def _query(item: Any, file: str, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    place = f"{file}: query {number}"
    _require(isinstance(item, dict), place, "is not a mapping with `id`, `query` and `relevant`")
    query_id = str(item.get("id", ""))
    _require(bool(_ID.fullmatch(query_id)), place, "has no `id` (up to 200 characters, no blanks)")
    place = f"{file}: query {query_id}"
    _require_known(item, _QUERY_KEYS, place)
    text = item.get("query")
    _require(isinstance(text, str) and bool(text.strip()), place, "has no text in `query`")
    tags = item.get("tags", [])
    _require(
        isinstance(tags, list) and all(isinstance(t, str) for t in tags),
        place,
        "`tags` are not a list",
    )
    entries = item.get("relevant")
    _require(
        isinstance(entries, list) and bool(entries),
        place,
        "has no list of right answers in `relevant`",
    )
    rows = [
        _entry(entry, query_id, at, f"{place}, entry {at + 1}") for at, entry in enumerate(entries)
    ]
    _require(any(row["grade"] for row in rows), place, "has no entry with a grade above 0")
    firsts: dict[tuple[Any, ...], int] = {}
    for at, row in enumerate(rows):
        key = (row["form"], row["target"], row["text"])
        _require(
            key not in firsts,
            f"{place}, entry {at + 1}",
            f"is entry {firsts.get(key, 0) + 1} again",
        )
        firsts[key] = at
    return query_row(query_id, text, tags, file, bool(item.get("drafted", False))), rows


def _entry(entry: Any, query_id: str, at: int, place: str) -> dict[str, Any]:
    _require(isinstance(entry, dict), place, f"is not a mapping with one of {', '.join(FORMS)}")
    form = "passage" if "passage" in entry else next((f for f in FORMS if f in entry), None)
    if form is None:
        raise GroundTruthError(f"{place}: names none of {', '.join(FORMS)}")
    _require_known(
        entry, {form, *_ENTRY_KEYS} | ({"document"} if form == "passage" else set()), place
    )
    text = entry[form]
    _require(isinstance(text, str) and bool(text.strip()), place, f"`{form}` is not a text")
    grade = entry.get("grade", 1)
    _require(
        type(grade) is int and 0 <= grade <= 10, place, "`grade` is not a whole number from 0 to 10"
    )
    topic = entry.get("topic")
    _require(topic is None or isinstance(topic, str), place, "`topic` is not a text")
    target: str | None = None if form == "chat" else text.strip()
    if form == "passage":
        target = entry.get("document")
        _require(
            isinstance(target, str) and bool(target), place, "names no `document` of the passage"
        )
    elif form in ("message", "thread"):
        target = text.strip().removeprefix("<").removesuffix(">")
    _require(
        form != "node" or "#" in text,
        place,
        "`node` has no `#` and slug; `document` names a whole file",
    )
    words = text if form in ("chat", "passage") else None
    return relevance_row(query_id, at, form, target, grade) | {"text": words, "topic": topic}


def _query_texts(text: str, file: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{file} queries line {number}"
        if line.lstrip().startswith("{"):
            try:
                row = json.loads(line)
                query_id, query_text = str(row["_id"]), str(row["text"])
            except (ValueError, KeyError) as error:
                raise GroundTruthError(f"{place}: no JSON with `_id` and `text`") from error
        else:
            query_id, _, query_text = line.partition("\t")
        _require(bool(query_id.strip() and query_text.strip()), place, "no id, tab and text")
        texts[query_id.strip()] = query_text.strip()
    return texts


def _require(condition: bool, place: str, fault: str) -> None:
    if not condition:
        raise GroundTruthError(f"{place}: {fault}")


def _require_known(row: Mapping[Any, Any], known: set[str], place: str) -> None:
    if odd := sorted(map(str, row.keys() - known)):
        raise GroundTruthError(
            f"{place}: unknown key {odd[0]!r}; known are {', '.join(sorted(known))}"
        )


def query_row(
    query_id: str, text: str, tags: Sequence[str], file: str, is_draft: bool
) -> dict[str, Any]:
    """A row of `schemas.EVALUATION_QUERIES`."""
    return {
        "query_id": query_id,
        "query": text,
        "tags": list(tags),
        "file": file,
        "is_draft": is_draft,
    }


def relevance_row(
    query_id: str, entry: int, form: str, target: str | None, grade: int
) -> dict[str, Any]:
    """A row of `schemas.EVALUATION_RELEVANCE` without text and topic."""
    return {
        "query_id": query_id,
        "entry": entry,
        "form": form,
        "target": target,
        "text": None,
        "grade": grade,
        "topic": None,
    }


def _tables(queries: list[dict[str, Any]], relevance: list[dict[str, Any]]) -> GroundTruth:
    return GroundTruth(
        EVALUATION_QUERIES.from_rows(queries), EVALUATION_RELEVANCE.from_rows(relevance)
    )


NOTE = """Drafted by `weft eval init`: nobody has looked at these queries and answers yet.
Known items are easy, because the query is the title; answers that nobody linked are missing.
Take out what is wrong, add what is missing, word queries as you would ask them, and remove `drafted: true`."""

_MARKS = re.compile(r"^\s*(?:(?:re|aw|fwd?|wg)\s*(?:\[\d+\])?\s*:|\[[^\]]{1,40}\])\s*", re.I)
_QUESTION = re.compile(r"[^.!?\n>][^.!?>]{24,300}\?")
_THANKS = f"(?i){sign_pattern(('thanks',))}"
_NOT_TRAILERS = ("quoted", "mention", "url", "image", "embed")
_TITLE_CHARS, _TITLE_WORDS = 12, 3


def draft_queries(
    mails: pl.DataFrame, nodes: pl.DataFrame, links: pl.DataFrame, count: int, file: str
) -> GroundTruth:
    """Up to `count` queries of each kind, the same for the same index.

    `mails` has message_id, thread_id, parent_id, subject, from_addr, text (the author's own) and
    effective_at; `nodes` has node_id, title and depth; `links` has from_id, to_id, kind, text and
    from_subject. Kinds, as tags: `subject` (the subject of a thread finds it), `heading` (a
    heading finds its section), `link` (the subject of a mail finds the mail that its trailer
    names, the text of a link the place it leads to) and `answered` (a question finds the reply
    that its author thanked for).
    """
    headings = nodes.filter(pl.col("depth") > 0).select("title", "node_id", pl.lit("node")).rows()
    roots = mails.sort("effective_at", "message_id").unique(
        "thread_id", keep="first", maintain_order=True
    )
    subjects = roots.select(pl.col("subject").fill_null(""), "message_id").rows()
    threads = [(plain_subject(subject), mail, "thread") for subject, mail in subjects]
    kinds = {
        "subject": _unique(threads),
        "heading": _unique(headings),
        "link": _links(links),
        "answered": _answered(mails),
    }
    queries, relevance = [], []
    for kind, candidates in kinds.items():
        sample = sorted(candidates, key=lambda row: text_hash(row[1] + row[0]))[:count]
        for query, target, form in sample:
            query_id = f"{kind}-{text_hash(target + query)[:8]}"
            queries.append(query_row(query_id, query, [kind], file, is_draft=True))
            relevance.append(relevance_row(query_id, 0, form, target, grade=1))
    return _tables(queries, relevance)


def plain_subject(subject: str) -> str:
    """A subject without `Re:` and tags in brackets.

    >>> plain_subject("Re: [PATCH v2] AW: fix the lock")
    'fix the lock'
    """
    previous = None
    while previous != subject:
        previous, subject = subject, _MARKS.sub("", subject)
    return subject.strip()


def _links(links: pl.DataFrame) -> list[tuple[str, str, str]]:
    resolved = links.filter(pl.col("to_id").is_not_null() & ~pl.col("kind").is_in(_NOT_TRAILERS))
    rows = []
    for to_id, text, subject in resolved.select("to_id", "text", "from_subject").rows():
        query = plain_subject(subject) if subject else text.replace("#", " ").strip()
        form = "message" if subject else "node" if "#" in to_id else "document"
        if _says_enough(query):
            rows.append((query, to_id, form))
    return sorted(set(rows))


def _answered(mails: pl.DataFrame) -> list[tuple[str, str, str]]:
    """Question, reply by another, and thanks by the author of the question in answer to the reply."""
    answers = mails.select(answer_id="message_id", question_id="parent_id", answerer="from_addr")
    thanks = mails.filter(pl.col("text").str.slice(0, 400).str.contains(_THANKS))
    exchanges = (
        mails.filter(pl.col("text").str.contains("?", literal=True))
        .join(answers, left_on="message_id", right_on="question_id")
        .filter(pl.col("answerer") != pl.col("from_addr"))
        .join(thanks.select(answer_id="parent_id", thanker="from_addr"), on="answer_id")
        .filter(pl.col("thanker") == pl.col("from_addr"))
        .sort("message_id", "answer_id")
    )
    rows = []
    for text, answer in exchanges.select("text", "answer_id").rows():
        match = _QUESTION.search(text)
        if match and _says_enough(query := " ".join(match[0].split())):
            rows.append((query, answer, "message"))
    return sorted(set(rows))


def _unique(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Titles that say enough and that no other item has."""
    counts = Counter(title.casefold() for title, _, _ in rows)
    return [row for row in rows if counts[row[0].casefold()] == 1 and _says_enough(row[0])]


def _says_enough(text: str) -> bool:
    return len(text) >= _TITLE_CHARS and len(text.split()) >= _TITLE_WORDS
