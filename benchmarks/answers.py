"""Answers without a judge: the gold words in them, whether each sentence is what it cites, and their time.

    python benchmarks/answers.py [gold] [cited] [faults] [nothing] [speed] [decisions] [--state FOLDER]

gold: LoCoMo, recall and token F1 of the gold answer in the answer of `weft ask`, beside the passage of the first hit
of the same search and bm25s' first three turns; the conversations whose number is odd are the tuned half. cited: the
share of shown sentences that are the bytes that they cite, over LoCoMo, the sample and the PEPs. faults: the planted
sentences of the tests by colour. nothing: questions that no text answers. speed: `weft ask` beside the search of ten
hits, described, in pairs. decisions: `weft ask --decisions` with the title of each commit of linux-erofs (2023 is the tuned
half, 2024 the other), beside the mail that the commit names; and the decisions on the topics of the PostgreSQL lists.
"""

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import bm25s
import mail_collections as collections
import numpy as np
import Stemmer
import yaml
from conversations import built, locomo
from printing import new_parser, new_table
from rich.console import Console

from dagster_project.config.settings import Settings, load_settings
from dagster_project.extras.answers.asking import answer_to
from dagster_project.extras.answers.decisions import stated_in_mails
from dagster_project.extras.answers.sources import sources_of
from dagster_project.extras.answers.transforms.check import Evidence, verdict
from dagster_project.extras.answers.transforms.decisions import (
    ACCEPTED,
    APPROVED,
    POSTED,
    REJECTED,
    REPLACED,
)
from dagster_project.index.search.lookup import reading
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.servers.answers import Decision, QuestionAnswer
from dagster_project.servers.requests import AskRequest
from transforms.retrieval.search_filters import Filters

ROOT = Path(__file__).parents[1]
SENTENCES = ROOT / "dagster_project/extras/answers/tests/sentences.yaml"
_LITTLE = frozenset(["a", "an", "the", "and", "or", "of", "to", "in", "on", "at", "is", "was"])
_PAIRS = 40
_OFF_TOPIC = (
    "what is the price of gold in Tokyo today",
    "which enzyme unwinds the double helix",
    "how long do I boil an ostrich egg",
    "who painted the ceiling of the Sistine Chapel",
    "symptoms of altitude sickness in llamas",
    "best opening against the Sicilian defence",
    "tax treaty between Peru and Iceland",
    "boiling point of xenon hexafluoride",
    "what does the word defenestration mean",
    "how do glaciers carve fjords",
)


def main() -> None:
    """Run the named parts, all by default."""
    parser = new_parser(__doc__)
    parser.add_argument("parts", nargs="*", help="gold, cited, faults, nothing, speed, decisions")
    parser.add_argument(
        "--state", type=Path, help="where indexes are kept; default: a temporary folder"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        for name in arguments.parts or _PARTS:
            _PARTS[name](state)


def words(text: str) -> list[str]:
    """The words that count: in lower case, without articles and signs."""
    return [w for w in re.findall(r"\w+", text.lower()) if w not in _LITTLE]


def recall_and_f1(text: str, gold: str) -> tuple[float, float]:
    """The share of the gold words in a text, and the token F1 of both."""
    said, right = Counter(words(text)), Counter(words(gold))
    common = sum((said & right).values())
    if not common:
        return 0.0, 0.0
    recall, precision = common / right.total(), common / said.total()
    return recall, 2 * recall * precision / (recall + precision)


def gold(state: Path) -> None:
    """Print recall and F1 of the gold answers, tuned half and the other."""
    config, samples, told = locomo(collections.corpora_folder(), state / "locomo")
    settings = built(config)
    results: dict[tuple[str, bool], list[tuple[float, float, int]]] = {}
    with closing(open_index(settings)) as index:
        for number, sample in enumerate(samples):
            turns = [f"{speaker}: {text}" for _, _, speaker, text in told[sample["sample_id"]]]
            asked = [q for q in sample["qa"] if q["evidence"] and "answer" in q]
            three = _bm25(turns, [q["question"] for q in asked])
            for question, plain in zip(asked, three, strict=True):
                filters = Filters(source=sample["sample_id"])
                texts = {"weft ask": _answer(settings, index, question["question"], filters)}
                texts["first hit of search"] = _first(index, question["question"], filters)
                texts["bm25s, three turns"] = plain
                for name, text in texts.items():
                    pair = recall_and_f1(text, str(question["answer"]))
                    half = results.setdefault((name, number % 2 == 0), [])
                    half.append((*pair, len(text.split())))
    table = new_table("LoCoMo: gold words", ["", "questions", "recall", "F1", "words", "half"])
    for (name, is_tuned), rows in sorted(
        results.items(), key=lambda item: (not item[0][1], item[0][0])
    ):
        recall, f1, length = np.mean(rows, axis=0)
        cells = (f"{len(rows)}", f"{recall:.3f}", f"{f1:.3f}", f"{length:.0f}")
        table.add_row(name, *cells, "tuned" if is_tuned else "aside")
    Console(width=120).print(table)


def _answer(settings: Settings, index: SearchIndex, question: str, filters: Filters) -> str:
    return " ".join(f"{s.text}" for s in _asked(settings, index, question, filters).sentences)


def _asked(
    settings: Settings, index: SearchIndex, question: str, filters: Filters = Filters()
) -> QuestionAnswer:
    return answer_to(settings, index, AskRequest(q=_unquoted(question)), filters).answer


def _unquoted(question: str) -> str:
    """A question without quotes: LoCoMo has some that are not closed."""
    return question.replace('"', " ")


def _first(index: SearchIndex, question: str, filters: Filters) -> str:
    rows = index.search([_unquoted(question)], filters, 10).hits.to_pylist()[:1]
    return " ".join(source.evidence.text for source in sources_of(index, rows))


def _bm25(turns: Sequence[str], questions: Sequence[str]) -> list[str]:
    stemmer = Stemmer.Stemmer("english")
    model = bm25s.BM25()
    model.index(bm25s.tokenize(turns, stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(list(questions), stemmer=stemmer, show_progress=False)
    found, _ = model.retrieve(tokens, k=3, show_progress=False)
    return [" ".join(turns[n].partition(": ")[2] for n in row) for row in found]


def cited(state: Path) -> None:
    """Print the share of sentences that are the bytes that they cite."""
    table = new_table("Sentences that are what they cite", ["", "questions", "sentences", "share"])
    for name, (settings, questions) in _collections(state).items():
        right = shown = 0
        with closing(open_index(settings)) as index:
            for question in questions:
                for said in _asked(settings, index, question).sentences:
                    shown += 1
                    right += reading(index.ask, said.citation).text == said.text
        table.add_row(name, f"{len(questions)}", f"{shown}", f"{right / max(1, shown):.3f}")
    Console(width=100).print(table)


def _collections(state: Path) -> dict[str, tuple[Settings, list[str]]]:
    corpora = collections.corpora_folder()
    config, samples, _ = locomo(corpora, state / "locomo")
    of_chats = [q["question"] for sample in samples for q in sample["qa"]][::10]
    sample = _workspace(
        state / "sample",
        (ROOT / "data" / "sample" / "weft.toml").read_text(),
        ROOT / "data" / "sample",
    )
    queries = yaml.safe_load((ROOT / "data" / "sample" / "queries.yaml").read_text())
    of_sample = [query["query"] for query in queries["queries"]]
    peps = (
        '[storage]\nroot = "state"\n[[sources]]\nname = "peps"\nkind = "tree"\n'
        f'path = "{corpora / "peps"}"\n'
    )
    of_peps = [f"why {title}" for title in _titles(corpora / "peps")]
    return {
        "LoCoMo": (built(config), of_chats),
        "sample": (built(sample), of_sample),
        "PEPs": (built(_workspace(state / "peps", peps)), of_peps),
    }


def _titles(folder: Path) -> list[str]:
    heads = (file.read_text(errors="replace")[:2_000] for file in sorted(folder.glob("*.rst"))[::5])
    return [m[1].strip() for head in heads if (m := re.search(r"^Title: (.+)$", head, re.M))]


def _workspace(folder: Path, text: str, beside: Path | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for path in beside.iterdir() if beside else ():
        if path.name not in ("weft.toml", "state") and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    (folder / "weft.toml").write_text(text)
    return folder / "weft.toml"


def faults(_: Path) -> None:
    """Print the planted sentences by colour, tuned half and the other."""
    content: dict[Any, Any] = yaml.safe_load(SENTENCES.read_text())
    table = new_table("Planted sentences", ["", "green", "yellow", "red"])
    terms = load_settings(ROOT / "data" / "sample" / "weft.toml").terms
    for is_true in (False, True):
        for aside in (False, True):
            colours = Counter[str]()
            for row in content[is_true]:
                if row.get("aside", False) == aside:
                    sources = [_evidence(content["passages"][name]) for name in row["of"]]
                    colours[verdict(row["says"], sources, terms).colour] += 1
            name = f"{'true' if is_true else 'false'}, {'aside' if aside else 'tuned'}"
            table.add_row(name, *(str(colours[colour]) for colour in ("green", "yellow", "red")))
    Console(width=100).print(table)


def _evidence(row: dict[str, Any]) -> Evidence:
    at = datetime(row["at"].year, row["at"].month, row["at"].day)
    return Evidence(row["text"], row["speaker"], at, row["title"])


def nothing(state: Path) -> None:
    """Print how many questions that no text answers have no answer."""
    for name, (settings, _) in _collections(state).items():
        with closing(open_index(settings)) as index:
            empty = sum(_asked(settings, index, q).outcome == "NO_RESULTS" for q in _OFF_TOPIC)
        print(f"{name}: NO_RESULTS for {empty} of {len(_OFF_TOPIC)} questions off topic")


def speed(state: Path) -> None:
    """Print processor time of an answer beside that of a search of ten hits, in pairs."""
    for name, (settings, questions) in _collections(state).items():
        with closing(open_index(settings)) as index:
            for question in questions[:5]:
                _asked(settings, index, question)
            pairs = []
            for question in questions[:_PAIRS]:
                start = time.process_time()
                index.search([_unquoted(question)], Filters(), 10)
                middle = time.process_time()
                _asked(settings, index, question)
                pairs.append((middle - start, time.process_time() - middle))
        search, ask = np.median(pairs, axis=0) * 1000
        ratio = np.median([b / a for a, b in pairs])
        print(f"{name}: search {search:.1f} ms, ask {ask:.1f} ms of processor, ratio {ratio:.2f}")


def decisions(state: Path) -> None:
    """Print how many commits the decisions name the right revision of, and how many decisions are on merged patches."""
    corpora = collections.corpora_folder()
    source = collections.erofs_source(corpora, "202[34]*")
    settings = built(collections.settings_file(state / "erofs", "linux-erofs", source))
    lines = (corpora / "linux-erofs" / "erofs_commits.jsonl").read_text().splitlines()
    with closing(open_index(settings)) as index:
        revisions = _revisions(index)
        table = new_table(
            "Commits of linux-erofs, by the title of the commit",
            ["", "commits", "its revision, stands", "another stands", "its thread", "bytes"],
        )
        for year, half in ((2023, "tuned"), (2024, "aside")):
            rows = [
                _of_commit(settings, index, commit, revisions)
                for commit in map(json.loads, lines)
                if any(name in revisions for name in commit["message_ids"])
                and datetime.fromtimestamp(commit["ts"]).year == year
            ]
            right, other, near, cited = (sum(values) for values in zip(*rows, strict=True))
            shares = (f"{n / len(rows):.3f}" for n in (right, other, near, cited))
            table.add_row(f"{year}, {half}", f"{len(rows)}", *shares)
        Console(width=120).print(table)
        merged = {
            revisions[n] for c in map(json.loads, lines) for n in c["message_ids"] if n in revisions
        }
        _print_merged(index, merged)
    settings = built(
        collections.settings_file(state / "pgsql", "pgsql", collections.pgsql(corpora).source)
    )
    topics, _ = collections.pgsql(corpora).tasks["topics"]
    with closing(open_index(settings)) as index:
        listed = {d.citation: d for topic in topics for d in _decided(settings, index, topic)}
        right = sum(reading(index.ask, d.citation).text == d.text for d in listed.values())
    print(
        f"pgsql: {len(listed)} decisions on {len(topics)} topics, {right} are the bytes that they cite"
    )
    for one in listed.values():
        print(f"  {one.kind}: {' '.join(one.text.split())} ({one.title})")


def _revisions(index: SearchIndex) -> dict[str, tuple[str, int]]:
    rows = index.ask("SELECT message_id, series_id, version FROM patch_series", {}).to_pylist()
    return {row["message_id"]: (row["series_id"], row["version"]) for row in rows}


def _decided(settings: Settings, index: SearchIndex, topic: str) -> list[Decision]:
    request = AskRequest(q="".join(s if s.isalnum() else " " for s in topic), decisions=True)
    return answer_to(settings, index, request, Filters()).answer.decisions


def _of_commit(
    settings: Settings,
    index: SearchIndex,
    commit: dict[str, Any],
    revisions: dict[str, tuple[str, int]],
) -> tuple[bool, bool, bool, bool]:
    """Whether a decision stands on the merged revision, on another of its series, or is on the series at all, and
    whether all are the bytes that they cite.
    """
    listed = _decided(settings, index, commit["subject"])
    right = {revisions[name] for name in commit["message_ids"] if name in revisions}
    stand = {revisions.get(d.doc_id) for d in listed if d.kind in _STANDS and not d.replaced_by}
    series = {name for name, _ in right}
    others = {pair for pair in stand if pair and pair[0] in series} - right
    near = any(revisions.get(d.doc_id, ("",))[0] in series for d in listed)
    cited = all(d.kind == POSTED or reading(index.ask, d.citation).text == d.text for d in listed)
    return bool(stand & right), bool(others and not stand & right), near, cited


def _print_merged(index: SearchIndex, merged: set[tuple[str, int]]) -> None:
    """Print for each kind of decision the share of revisions of erofs-utils, whose commits are known, that were merged."""
    rows = index.ask("SELECT message_id FROM messages ORDER BY message_id", {})
    stated = stated_in_mails(index, rows.column("message_id").to_pylist(), len(rows))
    table = new_table("Revisions of patches of erofs-utils", ["", "revisions", "merged"])
    for kind in (ACCEPTED, APPROVED, REJECTED, REPLACED, POSTED):
        of_kind = {
            (one.row["series_id"], one.row["version"])
            for one in stated
            if one.kind == kind and (one.row["title"] or "").startswith("erofs-utils")
        }
        share = len(of_kind & merged) / max(1, len(of_kind))
        table.add_row(kind, f"{len(of_kind)}", f"{share:.3f}")
    Console(width=100).print(table)


_STANDS = (ACCEPTED, APPROVED, POSTED)
_PARTS = {
    "gold": gold,
    "cited": cited,
    "faults": faults,
    "nothing": nothing,
    "speed": speed,
    "decisions": decisions,
}

if __name__ == "__main__":
    main()
