"""What conversations find: topics covered, turns recalled, and the time of a large window.

    python benchmarks/conversations.py [topics] [turns] [speed] [--state FOLDER]

topics: windows that concatenate discussions of 2, 3 and 5 PostgreSQL topics, asked of the index of
the other mails: the share of topics with a right mail in the context, and the recall of right
mails, by strategy, at equal context. turns: LoCoMo, recall of the turns that hold the evidence,
beside bm25s over turns in the same run. speed: a window of 5,000 messages against 100,000 chunks.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bm25s
import mail_collections as collections
import numpy as np
import polars as pl
import Stemmer
from printing import new_parser, new_table
from rich.console import Console

from assets.protocols.search import Asker
from dagster_project.config.settings import Settings, load_settings
from dagster_project.context.context_index import IndexForContext, PublishedVersions
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.language_models import Reranker
from dagster_project.models.static import PackagedTokenCounter
from transforms.context import block as context_block
from transforms.context import selection
from transforms.conversations import query_chunks
from transforms.conversations import windows as conversations
from transforms.retrieval.search_filters import Filters
from transforms.settings.conversations import ContextSettings, ConversationSettings
from transforms.settings.designs import DESIGNS
from transforms.settings.search import RerankSettings, SearchSettings

FILES, CHUNKS, MESSAGES = 200, 100_000, 5_000
SLOTS, BUDGET, WINDOWS, PER_TOPIC = 5, 2000, 24, 8
_QUOTED = re.compile(r"^\s*>.*\n?|^.*(?:wrote|writes):\s*$\n?", re.M)
STRATEGIES: dict[str, Mapping[str, Any]] = {
    "one query (vectors)": {"strategy": "window", "lexical_weight": 0.0, "pick": "score"},
    "one query (vectors and terms)": {"strategy": "window", "pick": "score"},
    "chunked, as the design": DESIGNS["egregora"]["context"],
    "chunked, said alone": {
        "strategy": "chunks",
        "lexical_weight": 0.0,
        "pick": "score",
        "candidates": 5,
    },
    "chunked, with terms": {"strategy": "chunks", "pick": "score"},
    "chunked, coverage": {"strategy": "chunks", "pick": "coverage"},
    "adaptive (100)": {"strategy": "adaptive"},
    "adaptive (tokens)": {"strategy": "adaptive_tokens"},
    "hybrid, score": {"strategy": "hybrid", "pick": "score"},
    "default": {},
    "default, without the floor": {"by_parts": False},
}


def main() -> None:
    """Run the named parts, all by default."""
    parser = new_parser(__doc__)
    parser.add_argument("parts", nargs="*", help="topics, turns, speed")
    parser.add_argument(
        "--state", type=Path, help="where indexes are kept; default: a temporary folder"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [context]"
    )
    arguments = parser.parse_args()
    parts = arguments.parts or ["topics", "turns", "speed"]
    corpora = collections.corpora_folder()
    changed = dict(s.split("=", 1) for s in arguments.set)
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        if "topics" in parts:
            topics(corpora, state, changed)
        if "turns" in parts:
            turns(corpora, state)
        if "speed" in parts:
            speed(state, corpora)


def built(config: Path) -> Settings:
    """The settings of a file, its index brought up to date."""
    subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", "build", "--quiet", "--config", str(config)],
        check=True,
    )
    return load_settings(config)


def topics(corpora: Path, state: Path, changed: dict[str, str]) -> None:
    """Print coverage by strategy for windows of 2, 3 and 5 topics."""
    source = collections.pgsql(corpora).source
    settings = built(collections.settings_file(state / "pgsql", "pgsql", source))
    with PublishedVersions(settings).open() as index:
        mails = {
            m: (s, t, b)
            for m, s, t, b in index.index.connection.execute(
                "SELECT message_id, subject, effective_at, body FROM messages"
            ).fetchall()
        }
        filed: dict[str, list[str]] = defaultdict(list)
        for topic in json.loads((corpora / "pgsql" / "qrels.json").read_text()):
            known = [
                m for m in topic["message_ids"] if m in mails and m not in filed[topic["topic"]]
            ]
            filed[topic["topic"]] += sorted(known, key=lambda m: (mails[m][1], m))
        usable = sorted(t for t, ids in filed.items() if len(ids) >= PER_TOPIC + 4)
        print(f"{len(mails)} mails, {len(usable)} topics with {PER_TOPIC + 4} mails and more")
        for count in (2, 3, 5):
            _topics_table(index, mails, filed, usable, count, changed)


def _topics_table(
    index: IndexForContext,
    mails: dict,
    filed: dict,
    usable: list[str],
    count: int,
    changed: dict[str, str],
) -> None:
    chooser = random.Random(count)
    windows = [chooser.sample(usable, count) for _ in range(WINDOWS)]
    table = new_table(
        f"{count} topics in a window, {WINDOWS} windows, {SLOTS} passages",
        (
            "strategy",
            "queries",
            "topics covered",
            f"right of {SLOTS}",
            "tokens of right mails",
            "recall",
            f"covered, {BUDGET} tokens",
            f"recall, {BUDGET} tokens",
            "ms/window",
        ),
    )
    first = None
    for name, values in STRATEGIES.items():
        chosen = ContextSettings.model_validate(
            {**values, **changed, "budget_tokens": BUDGET, "mode": "exact"}
        )
        rows = [_window_result(index, mails, filed, topics_, chosen) for topics_ in windows]
        covered, right, tokens, recall, wide, wide_recall, queries, seconds = (
            float(np.mean(c)) for c in zip(*rows, strict=True)
        )
        first = first or covered
        cells = (
            f"{queries:.1f}",
            f"{covered:.3f} ({covered / first:.2f}x)",
            f"{right:.2f}",
            f"{tokens:.3f}",
        )
        table.add_row(
            name,
            *cells,
            f"{recall:.3f}",
            f"{wide:.3f}",
            f"{wide_recall:.3f}",
            f"{1000 * seconds:.0f}",
        )
    table.caption = "recall: share of the right mails of all topics that is in the context"
    Console(width=150).print(table)


def _window_result(
    index: IndexForContext,
    mails: dict,
    filed: dict,
    chosen_topics: Sequence[str],
    settings: ContextSettings,
) -> tuple[float, ...]:
    """Topics covered, right passages, share of right tokens and recall of five passages.

    Then topics covered and recall in the budget, the number of queries, and the seconds.
    """
    said = [m for t in chosen_topics for m in filed[t][:PER_TOPIC]]
    used = frozenset(said)
    texts = [_QUOTED.sub("", mails[m][2]).strip() or mails[m][0] for m in said]
    made = conversations.consolidate(
        [f"author-{i % 4}" for i in range(len(said))], [mails[m][1] for m in said], texts
    )
    start = time.perf_counter()
    queries = _queries(made.markdown, len(said), settings)
    found = index.candidates(queries, settings, {"given": Asker(sorted(used))})
    documents = selection.window_documents(found, settings, index.chunk_vectors)
    passages = selection.scored_passages(documents, index.passages(documents["chunk_id"].to_list()))
    block = context_block.compile_block(
        passages, settings.budget_tokens, _COUNTER.counts, expand=settings.expand
    )
    seconds = time.perf_counter() - start
    right = {t: set(filed[t]) - used for t in chosen_topics}
    every = frozenset().union(*right.values())
    best = {p.doc_id for p in passages[:SLOTS]}
    wide = {p.doc_id for p in block.chosen}
    return (
        sum(bool(r & best) for r in right.values()) / len(right),
        len(every & best),
        _token_share(block, every),
        len(every & best) / len(every),
        sum(bool(r & wide) for r in right.values()) / len(right),
        len(every & wide) / len(every),
        len(queries),
        seconds,
    )


def _token_share(block: context_block.CompiledBlock, right: frozenset[str]) -> float:
    """The share of the tokens of a block's texts that are of right mails."""
    counts = _COUNTER.counts([passage.shown[0] for passage in block.chosen])
    of_right = [n for p, n in zip(block.chosen, counts, strict=True) if p.doc_id in right]
    return sum(of_right) / max(1, sum(counts))


_COUNTER = PackagedTokenCounter()


def _queries(markdown: str, messages: int, settings: ContextSettings) -> pl.DataFrame:
    row = {
        "doc_id": "given",
        "source": "",
        "partition": "",
        "markdown": markdown,
        "message_count": messages,
    }
    windows = pl.DataFrame([row])
    chunks = query_chunks.conversation_query_chunks(
        windows.to_arrow(), ConversationSettings(), _COUNTER.counts
    )
    return selection.window_queries(windows, pl.DataFrame(chunks), settings)


def turns(corpora: Path, state: Path) -> None:
    """Print the recall of evidence turns at 5 and 10 by category, beside bm25s."""
    config, samples, told = locomo(corpora, state / "locomo")
    settings = built(config)
    systems: dict[str, dict[str, dict[int, list[float]]]] = {}
    with PublishedVersions(settings).open() as index:
        for sample in samples:
            _locomo_sample(index.index, sample, told[sample["sample_id"]], systems)
    names = {
        "1": "multi-hop",
        "2": "temporal",
        "3": "open",
        "4": "single-hop",
        "5": "adversarial",
        "all": "all",
    }
    first = next(iter(systems.values()))
    columns = [f"{name} ({len(first[number][5])})" for number, name in names.items()]
    table = new_table("LoCoMo: recall of evidence turns at 5 / at 10", ["system", *columns])
    for system, results in systems.items():
        table.add_row(
            system,
            *(f"{np.mean(results[n][5]):.3f} / {np.mean(results[n][10]):.3f}" for n in names),
        )
    Console(width=140).print(table)


def locomo(
    corpora: Path, folder: Path
) -> tuple[Path, list[dict], dict[str, list[tuple[str, str, str, str]]]]:
    """A settings file of the conversations of LoCoMo, their questions, and their turns by name."""
    (folder / "chats").mkdir(parents=True, exist_ok=True)
    lines = (corpora / "conversations" / "locomo.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    config = ['[storage]\nroot = "state"\n\n[conversations]\nindex = "turns"\n']
    told = {}
    for sample in samples:
        name = sample["sample_id"]
        told[name] = _locomo_turns(sample["conversation"])
        rows = (
            json.dumps({"timestamp": t[1], "author": t[2], "message": t[3]}) for t in told[name]
        )
        (folder / "chats" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
        config.append(
            f'[[sources]]\nname = "{name}"\nkind = "conversation"\npath = "chats/{name}.jsonl"\npseudonyms = false\n'
        )
    (folder / "weft.toml").write_text("\n".join(config))
    return folder / "weft.toml", samples, told


def _locomo_turns(conversation: dict) -> list[tuple[str, str, str, str]]:
    """Turns as id, time, speaker and text, in order; each a second after the one before."""
    found = []
    for number in range(1, 100):
        if f"session_{number}" not in conversation:
            continue
        at = datetime.strptime(conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for turn in conversation[f"session_{number}"]:
            text = turn["text"] + (
                f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            )
            found.append((turn["dia_id"], at.isoformat(), turn["speaker"], text))
            at += timedelta(seconds=1)
    return found


def _locomo_sample(
    index: SearchIndex, sample: dict, told: list[tuple[str, str, str, str]], systems: dict
) -> None:
    asked = [q for q in sample["qa"] if q["evidence"]]
    questions = [q["question"] for q in asked]
    ids = turn_ids(index, sample["sample_id"], told)
    for name, values in LOCOMO.items():
        searching = SearchIndex(
            index.path,
            index.embedder,
            index.term_settings,
            SearchSettings.model_validate(
                {**index.settings.model_dump(), **values, "limit": 10, "per_document": 10}
            ),
            Reranker(RerankSettings()),
        )
        hits = searching.ranked(questions, Filters(source=sample["sample_id"])).hits
        ranked: list[list[str]] = [[] for _ in questions]
        for query, chunk in zip(hits["query"], hits["chunk_no"], strict=True):
            ranked[query].append(ids[chunk])
        _score(systems.setdefault(f"weft, {name}", {}), asked, ranked)
        searching.close()
    stemmer = Stemmer.Stemmer("english")
    for name, texts in {
        "turns": [t[3] for t in told],
        "date, speaker and turn": [
            f"{datetime.fromisoformat(t[1]):%d %B %Y} {t[2]} {t[3]}" for t in told
        ],
    }.items():
        model = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        model.index(
            bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False),
            show_progress=False,
        )
        tokens = bm25s.tokenize(
            questions, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False
        )
        ranked = [
            [told[n][0] for n in np.argsort(-model.get_scores(t), kind="stable")[:10]]
            for t in tokens
        ]
        _score(systems.setdefault(f"bm25s over {name}", {}), asked, ranked)


LOCOMO: dict[str, dict[str, Any]] = {
    "default": {"thread_weight": 0.0},
    "lexical weight .5": {"thread_weight": 0.0, "lexical_weight": 0.5},
    "lexical weight .8": {"thread_weight": 0.0, "lexical_weight": 0.8},
    "lexical alone": {
        "thread_weight": 0.0,
        "lexical_weight": 1.0,
        "candidates_vector": 1,
        "rerank": "off",
    },
    "vectors alone": {
        "thread_weight": 0.0,
        "lexical_weight": 0.0,
        "candidates_lexical": 1,
        "rerank": "off",
    },
}


def turn_ids(
    index: SearchIndex, source: str, told: list[tuple[str, str, str, str]]
) -> dict[int, str]:
    """The turn's id by chunk number."""
    by_text = {(t[1][:16].replace("T", " "), t[2], t[3].strip()): t[0] for t in told}
    rows = index.connection.execute(
        "SELECT chunk_no, text_display FROM chunks WHERE source = ? AND chunk_kind = 'turn'",
        [source],
    ).fetchall()
    found = {}
    for number, display in rows:
        head, text = display.split("\n", 1)
        author, when = head.rsplit(", ", 1)
        found[number] = by_text.get((when, author, text), "?")
    return found


def _score(
    results: dict[str, dict[int, list[float]]], asked: list[dict], ranked: list[list[str]]
) -> None:
    for question, hits in zip(asked, ranked, strict=True):
        right = set(question["evidence"])
        for depth in (5, 10):
            value = len(right & set(hits[:depth])) / len(right)
            for key in (str(question["category"]), "all"):
                results.setdefault(key, {5: [], 10: []})[depth].append(value)


def speed(state: Path, corpora: Path) -> None:
    """Print the time of a window of 5,000 messages, from text to context, against 100,000 chunks.

    The chunks are sections of shuffled lines of the PostgreSQL mails, as many as no corpus at hand
    has.
    """
    folder = state / "many"
    lines = _lines(corpora)
    chooser = random.Random(1)
    if not (folder / "tree").exists():
        for number in range(FILES):
            sections = (
                f"## Part {n}\n\n" + "\n".join(chooser.sample(lines, 8))
                for n in range(CHUNKS // FILES)
            )
            path = folder / "tree" / f"{number}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n\n".join(sections) + "\n")
    config = folder / "weft.toml"
    config.write_text(
        '[storage]\nroot = "state"\n\n[[sources]]\nname = "many"\nkind = "tree"\npath = "tree"\nchunker = "tree"\n'
    )
    settings = built(config)
    texts = [chooser.choice(lines) for _ in range(MESSAGES)]
    start_at = datetime(2025, 1, 1, tzinfo=UTC)
    times = [start_at + timedelta(minutes=n) for n in range(MESSAGES)]
    columns = ("step", "first, ms", "then, ms")
    table = new_table(f"A window of {MESSAGES:,} messages against {CHUNKS:,} chunks", columns)
    with PublishedVersions(settings).open() as index:
        runs = [_speed_run(index, texts, times) for _ in range(3)]
        for step in runs[0]:
            table.add_row(step, f"{runs[0][step]:.0f}", f"{min(r[step] for r in runs[1:]):.0f}")
        table.caption = (
            f"{index.index.chunk_count:,} chunks; first: with reading the vectors from disk"
        )
    Console(width=100).print(table)


def _speed_run(index: IndexForContext, texts: list[str], times: list[datetime]) -> dict[str, float]:
    """Milliseconds of each step."""
    marks = [time.perf_counter()]
    made = conversations.consolidate([f"author-{n % 7}" for n in range(len(texts))], times, texts)
    settings = ContextSettings()
    queries = _queries(made.markdown, len(texts), settings)
    marks.append(time.perf_counter())
    found = index.candidates(queries, settings)
    marks.append(time.perf_counter())
    documents = selection.window_documents(found, settings, index.chunk_vectors)
    passages = selection.scored_passages(documents, index.passages(documents["chunk_id"].to_list()))
    marks.append(time.perf_counter())
    context_block.compile_block(
        passages, settings.budget_tokens, _COUNTER.counts, expand=settings.expand
    )
    marks.append(time.perf_counter())
    names = (
        f"cutting {len(queries)} queries",
        "candidates: one pass over the index",
        "dedup, order, passages",
        "block",
    )
    spent = [1000 * (b - a) for a, b in zip(marks[:-1], marks[1:], strict=True)]
    return {**dict(zip(names, spent, strict=True)), "all": sum(spent)}


def _lines(corpora: Path) -> list[str]:
    found = []
    for path in sorted((corpora / "pgsql").glob("pgsql-*")):
        text = path.read_bytes().decode("latin-1")
        found += [
            line.strip()
            for line in text.split("\n")
            if 30 < len(line) < 90 and ": " not in line[:30]
        ]
    return sorted(set(found))


if __name__ == "__main__":
    main()
