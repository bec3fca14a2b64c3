"""Queries with known answers over an index of each corpus, and the rankings of Weft and of bm25s
for them.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
import mail_collections as collections
import memory
import numpy as np
import polars as pl
import Stemmer
from conversations import locomo, turn_ids

from dagster_project.config.settings import load_settings
from dagster_project.evaluation.evaluator import contents, read_ground_truth
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedders import make_embedder
from dagster_project.models.language_models import Reranker
from transforms.evaluation.judgements import judgements
from transforms.evaluation.quality import grades_of
from transforms.evaluation.report import KEPT
from transforms.retrieval import pipeline, units
from transforms.retrieval.hits import place
from transforms.retrieval.search_filters import Filters
from transforms.settings.search import SearchSettings

DEPTH = 100
SAMPLE = Path(__file__).parents[1] / "data" / "sample"
CORPORA = (
    "pgsql",
    "erofs",
    "linux-raid",
    "documents",
    "pages",
    "peps",
    "code",
    "conversations",
    "beam",
    "meetings",
    "sample",
)
KINDS = {
    "pgsql": "patch lists",
    "erofs": "patch lists",
    "linux-raid": "help lists",
    "documents": "articles",
    "pages": "pages",
    "peps": "pages",
    "code": "code",
    "conversations": "chats of people",
    "beam": "chats with assistants",
    "meetings": "meetings",
    "sample": "a person's lake",
}
"""The kind of text of each of CORPORA."""
MONTHS = "erofs months"
"""Four months of linux-erofs, for what is too slow for all of it."""
_QUOTED = re.compile(r"^\s*>.*\n?", re.M)

Build = Callable[[Path], SearchIndex]
"""Makes the index of a settings file."""

Ranking = Sequence[Sequence[tuple[str, float]]]
"""For each query ranked (item, score) pairs; an item may come again."""


class Text(NamedTuple):
    """What a peer ranks: the item it belongs to, the source that holds it, its words, and of a mail
    the subject among them, and its sender.
    """

    item: str
    source: str
    words: str
    subject: str = ""
    sender: str = ""


@dataclass(frozen=True)
class Task:
    """Queries and the items that are right for each.

    `without` are items left out of the list of a query; `sources` name the one source that each is
    asked of.
    """

    name: str
    queries: Sequence[str]
    relevant: Sequence[collections.Grades]
    without: Sequence[frozenset[str]] | None = None
    sources: Sequence[str] | None = None

    def measured(self, ranked: Ranking) -> dict[str, np.ndarray]:
        """`collections.MEASURES` of each query."""
        return collections.measured(ranked, self.relevant, self.without)

    def every(self, step: int) -> Task:
        """Every `step`th query."""
        kept = slice(None, None, step)
        return Task(
            self.name,
            self.queries[kept],
            self.relevant[kept],
            self.without and self.without[kept],
            self.sources and self.sources[kept],
        )

    @property
    def groups(self) -> list[tuple[str | None, list[int]]]:
        """The numbers of the queries of each source, or of all where none is named."""
        if self.sources is None:
            return [(None, list(range(len(self.queries))))]
        names = sorted(set(self.sources))
        return [(name, [n for n, s in enumerate(self.sources) if s == name]) for name in names]


@dataclass(frozen=True)
class Corpus:
    """An index with its tasks.

    `items` names the item of each chunk number; `peers` has the texts that bm25s ranks, by name.
    """

    name: str
    index: SearchIndex
    tasks: Sequence[Task]
    items: Mapping[int, str]
    peers: Mapping[str, Sequence[Text]] = field(repr=False)


def corpus(
    name: str,
    state: Path,
    changed: Mapping[str, str] | None = None,
    chunks: Mapping[str, str] | None = None,
    build: Build | None = None,
) -> Corpus:
    """One of CORPORA or MONTHS, its index built below `state` or brought up to date.

    `changed` are settings of [search], `chunks` of [chunks]; `build` takes the place of `built`.
    """
    folder, wanted = collections.corpora_folder(), chunks or {}
    build = build or (lambda config: built(config, changed or {}))
    months = "20250[3-6]" if name == MONTHS else "*"
    makers: dict[str, Callable[[], Corpus]] = {
        "documents": lambda: documents(folder, build(passages_settings(folder, state / name))),
        "pages": lambda: _pages(folder, state / name, build),
        "peps": lambda: _peps(folder, state / name, build),
        "code": lambda: _code(folder, state / name, build),
        "sample": lambda: _sample(state / name, build),
        "conversations": lambda: _conversations(folder, state, build),
        "beam": lambda: _chats(name, memory.beam(folder), state / name, build),
        "meetings": lambda: _chats(name, memory.meetings(folder), state / name, build),
        "pgsql": lambda: _pgsql(folder, state, wanted, build),
        "linux-raid": lambda: _raid(folder, state / name, wanted, build),
    }
    return makers.get(name, lambda: _erofs(folder, state, wanted, build, months))()


def passages_settings(corpora: Path, folder: Path) -> Path:
    """A settings file of the documents with marked passages, as files of a tree."""
    (folder / "tree").mkdir(parents=True, exist_ok=True)
    for file in sorted((corpora / "passages").glob("*.md")):
        shutil.copy(file, folder / "tree" / file.name)
    config = folder / "weft.toml"
    config.write_text(
        '[storage]\nroot = "state"\n\n[[sources]]\nname = "passages"\nkind = "tree"\npath = "tree"\n'
    )
    return config


def built(config: Path, changed: Mapping[str, str]) -> SearchIndex:
    """The index of a settings file, brought up to date."""
    command = [
        sys.executable,
        "-m",
        "dagster_project.cli",
        "build",
        "--quiet",
        "--config",
        str(config),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    settings = load_settings(config)
    search = SearchSettings.model_validate({**settings.search.model_dump(), **changed})
    embedder, reranker = make_embedder(settings.embedding), Reranker(settings.rerank)
    return SearchIndex(
        current_version(settings.root / "index"), embedder, settings.terms, search, reranker
    )


def _pgsql(folder: Path, state: Path, chunks: Mapping[str, str], build: Build) -> Corpus:
    found = collections.pgsql(folder)
    index = build(collections.settings_file(state / "pgsql", "pgsql", found.source, chunks))
    tasks = [
        Task(f"PostgreSQL's lists, {name}", *queries_and_answers)
        for name, queries_and_answers in found.tasks.items()
    ]
    return _mail("pgsql", index, tasks)


def _erofs(
    folder: Path, state: Path, chunks: Mapping[str, str], build: Build, months: str
) -> Corpus:
    source = collections.erofs_source(folder, months)
    index = build(collections.settings_file(state / "erofs", "erofs", source, chunks))
    found = collections.erofs(folder, index.path)
    (mail, own), (rest, others) = found.tasks.items()
    of_mail = dict(zip(*own, strict=True))
    return _mail(
        "erofs",
        index,
        [
            Task(f"linux-erofs, {mail}", *own),
            Task(f"linux-erofs, {rest}", *others, without=[of_mail[q] for q in others[0]]),
            Task(
                "linux-erofs, subject of a commit to its mail",
                [q.split("\n")[0] for q in own[0]],
                own[1],
            ),
        ],
    )


def _mail(name: str, index: SearchIndex, tasks: Sequence[Task]) -> Corpus:
    mails = index.connection.execute(
        "SELECT message_id, subject, body, concat_ws(' ', from_name, from_addr) FROM messages "
        "ORDER BY message_id"
    ).fetchall()
    return Corpus(
        name,
        index,
        tasks,
        dict(index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall()),
        {
            "whole mails": [Text(m, "", f"{s}\n{b}", s or "", who) for m, s, b, who in mails],
            "mails without quotes": [
                Text(m, "", f"{s}\n{_QUOTED.sub('', b)}") for m, s, b, _ in mails
            ],
            "Weft's chunks": _chunk_texts(index, "doc_id"),
        },
    )


def documents(folder: Path, index: SearchIndex) -> Corpus:
    """A speech and encyclopaedia articles; right are the chunks that hold most of a passage."""
    spans = index.connection.execute(
        "SELECT chunk_id, doc_id, list_min([s.byte_start FOR s IN spans]), "
        "list_max([s.byte_end FOR s IN spans]) FROM chunks ORDER BY chunk_id"
    ).fetchall()
    asked = [
        json.loads(x) for x in (folder / "passages" / "questions.jsonl").read_text().splitlines()
    ]
    tasks = []
    for name in sorted({question["corpus"] for question in asked}):
        text = (folder / "passages" / f"{name}.md").read_bytes().decode()
        own = [
            (chunk, start, end) for chunk, doc, start, end in spans if doc == f"passages:{name}.md"
        ]
        questions = [q for q in asked if q["corpus"] == name]
        right = [_holding(byte_ranges(text, q["references"]), own) for q in questions]
        title = {"state_of_the_union": "a speech", "wikitexts": "encyclopaedia articles"}[name]
        tasks.append(Task(f"{title}, questions", [q["question"] for q in questions], right))
    return Corpus(
        "documents",
        index,
        tasks,
        _chunk_ids(index),
        {"the same chunks": _chunk_texts(index, "chunk_id")},
    )


def byte_ranges(text: str, references: Sequence[Mapping[str, int]]) -> list[tuple[int, int]]:
    """The bytes that the characters of references stand at."""
    return [
        (len(text[: r["start_index"]].encode()), len(text[: r["end_index"]].encode()))
        for r in references
    ]


def _holding(
    passages: Sequence[tuple[int, int]], chunks: Sequence[tuple[str, int, int]]
) -> frozenset[str]:
    """The chunks that hold at least half of a passage, or more of it than all others."""
    found = set()
    for begin, end in passages:
        shared = {chunk: min(end, e) - max(begin, b) for chunk, b, e in chunks}
        best = max(shared.values())
        found |= {c for c, n in shared.items() if n == best or n >= (end - begin) / 2}
    return frozenset(found)


def _conversations(folder: Path, state: Path, build: Build) -> Corpus:
    """Long chats; right are the turns that hold the evidence."""
    config, samples, told = locomo(folder, state / "locomo")
    index = build(config)
    items: dict[int, str] = {}
    texts: dict[str, list[Text]] = {"turns": [], "date, speaker and turn": []}
    queries, relevant, sources = [], [], []
    for sample in samples:
        name = sample["sample_id"]
        items |= {
            chunk: f"{name} {turn}" for chunk, turn in turn_ids(index, name, told[name]).items()
        }
        for turn, at, author, text in told[name]:
            texts["turns"].append(Text(f"{name} {turn}", name, text))
            texts["date, speaker and turn"].append(
                Text(
                    f"{name} {turn}", name, f"{datetime.fromisoformat(at):%d %B %Y} {author} {text}"
                )
            )
        for question in sample["qa"]:
            if question["evidence"]:
                queries.append(question["question"])
                relevant.append(frozenset(f"{name} {turn}" for turn in question["evidence"]))
                sources.append(name)
    texts["Weft's chunks"] = [
        Text(items.get(chunk, ""), source, words)
        for chunk, source, words in index.connection.execute(
            "SELECT chunk_no, source, text_lex FROM chunks WHERE chunk_kind = 'turn' ORDER BY chunk_no"
        ).fetchall()
    ]
    task = Task("long chats, questions", queries, relevant, sources=sources)
    return Corpus("conversations", index, [task], items, texts)


def _chats(name: str, said: Sequence[memory.Conversation], state: Path, build: Build) -> Corpus:
    """Chats whose questions name the turns that answer."""
    index = build(memory.settings_file(state, said))
    items: dict[int, str] = {}
    texts = []
    for one in said:
        turns = [(str(n), *turn) for n, turn in enumerate(one.turns)]
        items |= {
            chunk: f"{one.name} {turn}" for chunk, turn in turn_ids(index, one.name, turns).items()
        }
        texts += [Text(f"{one.name} {n}", one.name, f"{who} {text}") for n, _, who, text in turns]
    asked = [
        (text, frozenset(f"{c.name} {n}" for n in right), c.name)
        for c in said
        for text, right in c.questions
    ]
    queries, relevant, sources = zip(*asked, strict=True)
    task = Task(f"{name}, questions", queries, relevant, sources=sources)
    return Corpus(name, index, [task], items, {"speaker and turn": texts})


def _tree(state: Path, files: Mapping[str, str], include: str = "") -> Path:
    """A settings file of a tree of files, which has these texts by name."""
    for name, text in files.items():
        place = state / "tree" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_text() != text:
            place.write_text(text)
    config = state / "weft.toml"
    config.write_text(
        '[storage]\nroot = "state"\n\n[[sources]]\nname = "tree"\nkind = "tree"\npath = "tree"\n'
        + include
    )
    return config


def _items_by_bytes(
    index: SearchIndex, units: Mapping[str, Sequence[tuple[str, int, int]]]
) -> dict[int, str]:
    """By chunk the unit of its document that it shares most bytes with; a chunk of a heading alone
    has none.
    """
    rows = index.connection.execute(
        "SELECT chunk_no, doc_id, list_min([s.byte_start FOR s IN spans]), "
        "list_max([s.byte_end FOR s IN spans]) FROM chunks WHERE len(spans) > 0"
    ).fetchall()
    items = {}
    for chunk, doc, start, end in rows:
        own = units[doc.partition(":")[2]]
        shared = {name: min(end, high) - max(start, low) for name, low, high in own}
        items[chunk] = max(shared, key=lambda name: shared[name])
    return items


def cookbook_pages(folder: Path) -> tuple[dict[str, str], dict[str, list[tuple[str, int, int]]]]:
    """By file the pages of documentation as Markdown, and their sections (link, first and last
    byte).
    """
    with gzip.open(folder / "cookbook" / "anthropic_docs.json.gz", "rt") as file:
        rows = json.load(file)
    files: dict[str, str] = {}
    sections: dict[str, list[tuple[str, int, int]]] = {}
    for row in rows:
        name = row["chunk_link"].partition("#")[0].partition("/en/")[2] + ".md"
        body = row["text"].removeprefix(row["chunk_heading"]).strip()
        before = files.get(name, "")
        files[name] = f"{before}## {row['chunk_heading']}\n\n{body}\n\n"
        span = (len(before.encode()), len(files[name].encode()))
        sections.setdefault(name, []).append((row["chunk_link"], *span))
    return files, sections


def _pages(folder: Path, state: Path, build: Build) -> Corpus:
    """Pages of documentation; right are the sections that answer."""
    files, sections = cookbook_pages(folder)
    index = build(_tree(state, files))
    asked = json.loads((folder / "cookbook" / "docs_questions.json").read_text())
    task = Task(
        "documentation, questions",
        [question["question"] for question in asked],
        [frozenset(question["correct_chunks"]) for question in asked],
    )
    texts = [
        Text(link, "", files[name].encode()[low:high].decode())
        for name, own in sections.items()
        for link, low, high in own
    ]
    items = _items_by_bytes(index, sections)
    return Corpus("pages", index, [task], items, {"sections": texts})


def _code(folder: Path, state: Path, build: Build) -> Corpus:
    """Files of code; right are the parts that answer, and the measure is Recall@10 (pass@10)."""
    with gzip.open(folder / "cookbook" / "codebase_chunks.json.gz", "rt") as file:
        rows = json.load(file)
    asked = [
        json.loads(line)
        for line in (folder / "cookbook" / "code_questions.jsonl").read_text().splitlines()
    ]
    paths = {
        document["uuid"]: document["meta"]["relative_path"].strip("/")
        for question in asked
        for document in question["golden_documents"]
    }
    files: dict[str, str] = {}
    parts: dict[str, list[tuple[str, int, int]]] = {}
    texts = []
    for row in rows:
        uuid, at = row["original_uuid"], 0
        name = f"{row['doc_id']}/{paths.get(uuid, 'file.txt')}"
        files[name] = row["content"]
        for part in row["chunks"]:
            item, words = f"{uuid} {part['original_index']}", part["content"]
            at = max(at, row["content"].find(words.strip(), at))
            start = len(row["content"][:at].encode())
            parts.setdefault(name, []).append((item, start, start + len(words.encode())))
            texts.append(Text(item, "", words))
    index = build(_tree(state, files, 'include = ["*"]\n'))
    right = [frozenset(f"{uuid} {n}" for uuid, n in q["golden_chunk_uuids"]) for q in asked]
    task = Task("code, questions", [question["query"] for question in asked], right)
    return Corpus("code", index, [task], _items_by_bytes(index, parts), {"parts": texts})


_PEP_FIELD = re.compile(r"^(PEP|Title):[ \t]*(.+(?:\n[ \t]+.+)*)", re.M)
_PEP_REFERENCE = re.compile(r":pep:`[^`<]*<?(\d+)>?`|\bPEP[- ](\d+)\b")


def _peps(folder: Path, state: Path, build: Build) -> Corpus:
    """Python's enhancement proposals; right for a title are the proposals that name its number."""
    files = {file.name: file.read_text() for file in sorted((folder / "peps").glob("*.rst"))}
    heads = {name: text.partition("\n\n")[0] for name, text in files.items()}
    fields = {name: dict(_PEP_FIELD.findall(head)) for name, head in heads.items()}
    titles = {int(of["PEP"]): " ".join(of["Title"].split()) for of in fields.values()}
    naming: dict[int, set[str]] = {number: set() for number in titles}
    for name, text in files.items():
        for number in {int(a or b) for a, b in _PEP_REFERENCE.findall(text)}:
            if number in naming and number != int(fields[name]["PEP"]):
                naming[number].add(name)
    asked = [number for number in sorted(naming) if naming[number]]
    own = {int(of["PEP"]): frozenset([name]) for name, of in fields.items()}
    tasks = [
        Task(
            "proposals, title to those that name it",
            [titles[number] for number in asked],
            [frozenset(naming[number]) for number in asked],
            without=[own[number] for number in asked],
        )
    ]
    index = build(_tree(state, files))
    items = {
        chunk: doc.partition(":")[2]
        for chunk, doc in index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall()
    }
    return Corpus(
        "peps", index, tasks, items, {"pages": [Text(n, "", t) for n, t in files.items()]}
    )


def _raid(folder: Path, state: Path, chunks: Mapping[str, str], build: Build) -> Corpus:
    """Questions of a list; right are the replies that the asker thanked for, or all by others."""
    source = f'list_id = "linux-raid"\npath = "{folder}/linux-raid/linux-raid.202[01]*.gz"\ngrain = "year"'
    index = build(collections.settings_file(state, "linux-raid", source, chunks))
    there = {
        mail for (mail,) in index.connection.execute("SELECT message_id FROM messages").fetchall()
    }
    rows = map(json.loads, (folder / "linux-raid" / "questions.jsonl").read_text().splitlines())
    asked = [row for row in rows if row["asked_in"] in there]
    found = []
    for key, title in (("right", "replies thanked for"), ("replies", "replies of others")):
        own = [(r["query"], there.intersection(r[key]), frozenset([r["asked_in"]])) for r in asked]
        queries, relevant, without = zip(
            *((q, frozenset(a), w) for q, a, w in own if a), strict=True
        )
        found.append(Task(f"linux-raid, {title}", queries, relevant, without=without))
    return _mail("linux-raid", index, found)


def _sample(folder: Path, build: Build) -> Corpus:
    """The shipped sample; right are mails, pages and chats with the grades of its queries."""
    if not folder.exists():
        shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("state"))
    index = build(folder / "weft.toml")
    truth = read_ground_truth([folder / "queries.yaml"])
    relevance, asked = pl.DataFrame(truth.relevance), pl.DataFrame(truth.queries)
    grades = grades_of(judgements(relevance, contents(index, relevance)), "document")
    right = [grades[query] for query in asked["query_id"]]
    texts = index.connection.execute(
        "SELECT message_id, concat_ws(chr(10), subject, body) FROM messages UNION ALL SELECT doc_id, text FROM documents "
        "UNION ALL SELECT doc_id, markdown FROM conversation_windows ORDER BY 1"
    ).fetchall()
    return Corpus(
        "sample",
        index,
        [Task("the sample", asked["query"].to_list(), right)],
        dict(index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall()),
        {"whole texts": [Text(item, "", words) for item, words in texts]},
    )


def _chunk_ids(index: SearchIndex) -> dict[int, str]:
    return dict(index.connection.execute("SELECT chunk_no, chunk_id FROM chunks").fetchall())


def _chunk_texts(index: SearchIndex, item: str) -> list[Text]:
    rows = index.connection.execute(
        f"SELECT {item}, concat_ws('\n', title, text_lex, added_lex, removed_lex, quote_lex) FROM chunks "
        "ORDER BY chunk_id"
    ).fetchall()
    return [Text(item, "", words) for item, words in rows]


class Timed(NamedTuple):
    """A ranking and the seconds it took."""

    ranked: Ranking
    seconds: float


def weft_ranking(corpus: Corpus, task: Task, settings: SearchSettings | None = None) -> Timed:
    """What Weft returns under some settings, those of the index if none are given."""
    return weft_rankings(corpus, task, settings, ("final",))["final"]


def weft_rankings(
    corpus: Corpus,
    task: Task,
    settings: SearchSettings | None = None,
    stages: Collection[str] = pipeline.STAGES,
) -> dict[str, Timed]:
    """The list after each stage, its first KEPT chunks; the seconds are those until it is made.

    A hit of a chat is followed by the turns that it shows in place of hits of their own.
    """
    settings = (settings or corpus.index.settings).model_copy(update={"limit": DEPTH})
    found: dict[str, list[list[tuple[str, float]]]] = {}
    seconds: dict[str, float] = {}
    for source, numbers in task.groups:
        start = time.perf_counter()
        told: dict[str, list[pl.DataFrame]] = {}
        shown: dict[tuple[int, int], list[int]] = {}
        spent: dict[str, float] = {}

        def note(
            stage: str,
            hits: pl.DataFrame,
            dropped: pl.DataFrame,
            told=told,
            shown=shown,
            spent=spent,
            start=start,
        ) -> None:
            spent[stage] = time.perf_counter() - start
            if stage == "units":
                of_hits = dropped.filter(pl.col("reason") == units.STRETCH)
                for query, chunk, hit in of_hits.select("query", "chunk_no", "into").iter_rows():
                    shown.setdefault((query, hit), []).append(chunk)
            if stage in stages:
                first = hits.filter(place() <= KEPT)
                told.setdefault(stage, []).append(first.select("query", "chunk_no", "score"))

        queries = [task.queries[n] for n in numbers]
        corpus.index.ranked(queries, Filters(source=source), report=note, settings=settings)
        for stage, parts in told.items():
            lists = found.setdefault(stage, [[] for _ in task.queries])
            for query, chunk, score in pl.concat(parts).iter_rows():
                for part in (chunk, *shown.get((query, chunk), ())):
                    lists[numbers[query]].append((corpus.items.get(part, ""), score))
            seconds[stage] = seconds.get(stage, 0.0) + spent[stage]
    return {stage: Timed(lists, seconds[stage]) for stage, lists in found.items()}


def peer_rankings(corpus: Corpus, task: Task) -> dict[str, Timed]:
    """What bm25s makes of each of the corpus's texts."""
    made = {}
    for name, texts in corpus.peers.items():
        ranked: list[Sequence[tuple[str, float]]] = [[] for _ in task.queries]
        seconds = 0.0
        for source, numbers in task.groups:
            rank = ranker([(t.item, t.words) for t in texts if source in (None, t.source)])
            start = time.perf_counter()
            for number, hits in zip(numbers, rank([task.queries[n] for n in numbers]), strict=True):
                ranked[number] = hits
            seconds += time.perf_counter() - start
        made[name] = Timed(ranked, seconds)
    return made


def baselines(corpus: Corpus, task: Task) -> dict[str, Ranking]:
    """What anybody would build of the first texts of `peers`: bm25s, with .6 of the best score of
    the thread added to each mail, and a blend with the vectors of the same texts, both scaled by
    minimum and maximum, words weighing .6; and the `formulas` of two programs.
    """
    texts = next(iter(corpus.peers.values()))
    embedder, threads = (
        corpus.index.embedder,
        dict(corpus.index.connection.execute(_THREADS).fetchall()),
    )
    found: dict[str, list] = {name: [[]] * len(task.queries) for name in BASELINES}
    for source, numbers in task.groups:
        own = [t for t in texts if source in (None, t.source)]
        _, thread = np.unique([threads.get(t.item, t.item) for t in own], return_inverse=True)
        queries = [task.queries[n] for n in numbers]
        cosines = (
            embedder.embed_queries(queries) @ embedder.embed_documents([t.words for t in own]).T
        )
        words, programs = word_scores([t.words for t in own]), formulas(own)
        for number, query, cosine in zip(numbers, queries, cosines, strict=True):
            score, best = words(query), np.zeros(len(own))
            np.maximum.at(best, thread, score)
            blend = 0.6 * _unit(score) + 0.4 * _unit(cosine)
            scores = (score, score + 0.6 * best[thread], blend, *programs(query, cosine))
            for name, values in zip(found, scores, strict=True):
                order = np.argsort(-values, kind="stable")[:DEPTH]
                found[name][number] = [(own[n].item, float(values[n])) for n in order]
    return found


BASELINES = ("bm25s", "with its thread", "blend", "msgvault's formula", "qmd's formula")
_THREADS = "SELECT message_id, thread_id FROM thread_tree"
_FUSED = 60
"""Added to ranks in the rank fusion of both programs."""
_FIRST, _NEXT = 0.05, 0.02
"""What qmd adds to a text that is first in a list, and to one that is second or third."""


def formulas(texts: Sequence[Text]) -> Callable[[str, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """A function from a query and the cosines of all texts to their scores by the formulas of
    msgvault and of qmd.

    Both fuse the ranks of BM25 in SQLite's FTS5 (any word of the query) with those of vectors.
    msgvault weighs subject, sender and body 10, 4 and 1, and doubles texts whose subject has a
    word; qmd weighs all alike, and adds something to the first three of either list.
    """
    table = sqlite3.connect(":memory:")
    table.execute(
        "CREATE VIRTUAL TABLE texts USING fts5(subject, sender, body, tokenize = 'porter unicode61')"
    )
    table.executemany(
        "INSERT INTO texts(rowid, subject, sender, body) VALUES (?, ?, ?, ?)",
        [(n, t.subject, t.sender, t.words) for n, t in enumerate(texts)],
    )

    def by_words(query: str, condition: str, weights: str) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        rows = table.execute(
            f"SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts, {weights}) LIMIT {DEPTH}",
            [f"{condition} : ({words})"],
        )
        return [number for (number,) in rows] if words else []

    def scores(query: str, cosines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        near = np.argsort(-cosines, kind="stable")[:DEPTH].tolist()
        fields = by_words(query, "{subject sender body}", "10, 4, 1")
        mail, plain = np.zeros(len(texts)), np.zeros(len(texts))
        for values, listed in ((mail, fields), (plain, by_words(query, "body", "1, 1, 1"))):
            for one in (listed, near):
                values[one] += 1 / (_FUSED + 1 + np.arange(len(one)))
                if values is plain:
                    plain[one[:1]] += _FIRST
                    plain[one[1:3]] += _NEXT
        mail[by_words(query, "subject", "1, 1, 1")] *= 2
        return mail, plain

    return scores


def _unit(scores: np.ndarray) -> np.ndarray:
    return (scores - scores.min()) / (np.ptp(scores) or 1.0)


def ranker(
    texts: Sequence[tuple[str, str]],
) -> Callable[[Sequence[str]], list[list[tuple[str, float]]]]:
    """A function from queries to ranked (item, score) lists by bm25s (Lucene's BM25, stemmed)."""
    score = word_scores([t for _, t in texts])

    def rank(queries: Sequence[str]) -> list[list[tuple[str, float]]]:
        result = []
        for scores in map(score, queries):
            best: dict[str, float] = {}
            for position in np.argsort(-scores, kind="stable")[: 10 * DEPTH]:
                if scores[position] > 0:
                    best.setdefault(texts[position][0], float(scores[position]))
            result.append(list(best.items())[:DEPTH])
        return result

    return rank


def word_scores(texts: Sequence[str]) -> Callable[[str], np.ndarray]:
    """A function from a query to the scores of all texts by bm25s (Lucene's BM25, stemmed)."""
    stemmer = Stemmer.Stemmer("english")

    def tokens(of: list[str], **options: bool) -> Any:
        return bm25s.tokenize(of, stopwords="en", stemmer=stemmer, show_progress=False, **options)

    model = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    model.index(tokens(list(texts)), show_progress=False)

    def scores(query: str) -> np.ndarray:
        (asked,) = tokens([query], return_ids=False)
        return model.get_scores(asked) if asked else np.zeros(len(texts), dtype=np.float32)

    return scores
