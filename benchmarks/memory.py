"""What a block of context holds of the evidence of questions about long conversations, without a judge.

    python benchmarks/memory.py [locomo] [qmsum] [--budgets 1000 4000 8000] [--every 1] [--set NAME=VALUE] [--state FOLDER]

locomo: questions about four long chats with the turns that answer. qmsum: questions about meetings with the spans of turns
that answer. Prints for each budget of tokens the share of the evidence (in characters) that is in the block, with a 95 %
interval over the questions, beside BM25 over turns that fills the same budget by the same token counter with the best
turns; the share of a block's characters of turns that is evidence; tokens used, milliseconds, and blocks without hits.
Every question is about its own conversation, for both. No model is called.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bm25s
import mail_collections
import numpy as np
import Stemmer
from conversations import _locomo_turns, built
from printing import new_parser, new_table
from rich.console import Console

from dagster_project.config.settings import Settings
from dagster_project.context.conversation_context import ConversationText, context_of
from dagster_project.context.published_versions import open_versions
from dagster_project.models.static import PackagedTokenCounter

_COUNT = PackagedTokenCounter().counts
_SPACES = re.compile(r"[\s>]+")


@dataclass(frozen=True)
class Conversation:
    """A conversation: its name, its turns (time, speaker, text), and questions with the numbers of the turns that answer."""

    name: str
    turns: Sequence[tuple[str, str, str]]
    questions: Sequence[tuple[str, frozenset[int]]]


def main() -> None:
    """Run the named collections, both by default."""
    parser = new_parser(__doc__)
    parser.add_argument("collections", nargs="*", help="locomo, qmsum")
    parser.add_argument("--budgets", type=int, nargs="*", default=[1_000, 4_000, 8_000])
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [context]"
    )
    parser.add_argument("--state", type=Path, help="where indexes are stored; default: a temporary folder")
    arguments = parser.parse_args()
    changed = {name: json.loads(value) for name, value in (s.split("=", 1) for s in arguments.set)}
    corpora = mail_collections.corpora_folder()
    read = {"locomo": _locomo, "qmsum": _qmsum}
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.collections or read:
            said = read[name](corpora)
            settings = built(_settings_file((arguments.state or Path(temporary)) / f"memory-{name}", said))
            _table(name, settings, said, arguments.budgets, arguments.every, changed)


def _locomo(corpora: Path) -> list[Conversation]:
    found = []
    for line in (corpora / "conversations" / "locomo.jsonl").read_text().splitlines():
        sample = json.loads(line)
        turns = _locomo_turns(sample["conversation"])
        number = {turn[0]: n for n, turn in enumerate(turns)}
        questions = [
            (q["question"], frozenset(number[e] for e in q["evidence"] if e in number)) for q in sample["qa"]
        ]
        found.append(
            Conversation(sample["sample_id"], [turn[1:] for turn in turns], [q for q in questions if q[1]])
        )
    return found


def _qmsum(corpora: Path) -> list[Conversation]:
    found = []
    start = datetime(2004, 1, 5, 10, tzinfo=UTC)
    for line in (corpora / "meetings" / "qmsum_train.jsonl").read_text().splitlines():
        meeting = json.loads(line)
        turns = [
            ((start + timedelta(seconds=5 * n)).isoformat(), speaker, text)
            for n, (speaker, text) in enumerate(meeting["turns"])
        ]
        questions = [
            (q["query"], frozenset(n for first, last in q["spans"] for n in range(first, last + 1)))
            for q in meeting["questions"]
        ]
        found.append(Conversation(meeting["meeting"], turns, [q for q in questions if q[1]]))
    return found


def _settings_file(folder: Path, said: Sequence[Conversation]) -> Path:
    (folder / "chats").mkdir(parents=True, exist_ok=True)
    config = ['[storage]\nroot = "state"\n']
    for conversation in said:
        rows = (
            json.dumps({"timestamp": at, "author": speaker, "message": text})
            for at, speaker, text in conversation.turns
        )
        (folder / "chats" / f"{conversation.name}.jsonl").write_text("\n".join(rows) + "\n")
        config.append(
            f'[[sources]]\nname = "{conversation.name}"\nkind = "conversation"\n'
            f'path = "chats/{conversation.name}.jsonl"\npseudonyms = false\n'
        )
    (folder / "weft.toml").write_text("\n".join(config))
    return folder / "weft.toml"


def _table(
    name: str,
    settings: Settings,
    said: Sequence[Conversation],
    budgets: Sequence[int],
    every: int,
    changed: dict,
) -> None:
    columns = ("budget", "system", "evidence held", "of the block", "tokens", "ms", "no hits")
    count = sum(len(c.questions[::every]) for c in said)
    table = new_table(f"{name}: {len(said)} conversations, {count} questions", columns)
    for budget in budgets:
        rows: dict[str, list[tuple[float, float, int, float, bool]]] = {}
        for conversation in said:
            for system, blocks in (
                ("weft context", _weft(settings, conversation, budget, every, changed)),
                ("bm25s over turns", _bm25(conversation, budget, every)),
            ):
                for (_, gold), (block, seconds) in zip(conversation.questions[::every], blocks, strict=True):
                    held, share = _held(block, conversation, gold)
                    rows.setdefault(system, []).append((held, share, _COUNT([block])[0], seconds, not block))
        for system, results in rows.items():
            held, share, tokens, seconds, none = (
                np.array(c, dtype=float) for c in zip(*results, strict=True)
            )
            table.add_row(
                f"{budget:,}", system, _interval(held), f"{share[none == 0].mean():.3f}", f"{tokens.mean():,.0f}",
                f"{1000 * seconds.mean():.0f}", f"{none.mean():.2f}",
            )  # fmt: skip
    Console(width=120).print(table)


def _interval(values: np.ndarray) -> str:
    chooser = np.random.default_rng(1)
    means = chooser.choice(values, (2_000, len(values))).mean(axis=1)
    return f"{values.mean():.3f} ({np.quantile(means, 0.025):.3f}-{np.quantile(means, 0.975):.3f})"


def _weft(
    settings: Settings, conversation: Conversation, budget: int, every: int, changed: dict
) -> list[tuple[str, float]]:
    chosen = settings.context.model_copy(
        update={"budget_tokens": budget, "where": f"source:{conversation.name}", **changed}
    )
    own = settings.model_copy(update={"context": chosen})
    found = []
    with open_versions(settings).open() as index:
        for question, _ in conversation.questions[::every]:
            begun = time.perf_counter()
            result = context_of(own, ConversationText(question), index.index)
            found.append((result.block, time.perf_counter() - begun))
    return found


def _bm25(conversation: Conversation, budget: int, every: int) -> list[tuple[str, float]]:
    stemmer = Stemmer.Stemmer("english")
    texts = [text for _, _, text in conversation.turns]
    model = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    model.index(
        bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False
    )
    shown = [f"{speaker} ({at[:16]}): {text}\n" for at, speaker, text in conversation.turns]
    costs = _COUNT(shown)
    found = []
    for question, _ in conversation.questions[::every]:
        begun = time.perf_counter()
        (words,) = bm25s.tokenize(
            [question], stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False
        )
        scores = model.get_scores(words)
        used, block = 0, []
        for number in np.argsort(-scores, kind="stable"):
            if scores[number] <= 0 or used + costs[number] > budget:
                break
            used += costs[number]
            block.append(shown[number])
        found.append(("".join(block), time.perf_counter() - begun))
    return found


def _held(block: str, conversation: Conversation, gold: frozenset[int]) -> tuple[float, float]:
    """The share of the characters of the evidence that a block holds, and the evidence's share of all turns it holds."""
    text = _SPACES.sub(" ", block)
    right = every = held = 0
    for number, (_, _, said) in enumerate(conversation.turns):
        words = _SPACES.sub(" ", said).strip()
        size = len(words)
        is_there = size > 0 and words in text
        right += size * (number in gold)
        held += size * (is_there and number in gold)
        every += size * is_there
    return held / max(1, right), held / max(1, every)


if __name__ == "__main__":
    main()
