"""What a block of context holds of the evidence of questions about long conversations, without a
judge.

    python benchmarks/memory.py [beam] [locomo] [qmsum] [mail] [--budgets 1000 4000 8000] [--every 1] [--set NAME=VALUE]
        [--state FOLDER] [--json FILE]

beam: questions about ten long chats with an assistant with the turns that answer, also by their
kind. locomo: questions about four long chats of people with the turns that answer. qmsum: questions about meetings
with the spans of turns that answer. mail: questions about the threads of the PostgreSQL lists with
the mails that answer. Prints for each budget of tokens the share of the evidence that is in the
block, with a 95 % interval over the questions: of chats in characters of whole turns, of mail the
share of the right mails of which a passage is shown. Beside it stand the share in characters of
sentences, which counts a turn that is shown in part, the evidence's share of the block, tokens
used, milliseconds, blocks without hits, and calls of a model, which are none. Every question about
a chat is about its own conversation, for all systems.

Peers fill the same budget by the same token counter, best first, as long as one fits: BM25 (bm25s) over turns, over
turns with date, speaker and two turns on either side (wide), over windows of six turns, and wide
BM25 (.6) blended with the static vectors of turns. A turn of mail is a passage of up to 1,000
characters.
"""

import gzip
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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

from dagster_project.config.settings import EmbeddingSettings, Settings
from dagster_project.context.context_index import PublishedVersions
from dagster_project.context.conversation_context import ConversationText, context_of
from dagster_project.models.embedders import make_embedder
from dagster_project.models.static import PackagedTokenCounter
from transforms.context.passages import stretches

_COUNT = PackagedTokenCounter().counts
_SPACES = re.compile(r"[\s>]+")
_SENTENCES = re.compile(r"\n|(?<=[.!?])\s")
_LEAST_SENTENCE = 25
"""Characters of a sentence that is looked for by itself: shorter ones are said by several turns."""
_NEAR, _WINDOW, _WORDS, _PASSAGE = 2, 6, 0.6, 1_000
"""Turns on either side of a wide one; turns of a window; weight of words in the blend; characters
of a passage of mail.
"""
WEFT = "weft context"


@dataclass(frozen=True)
class Conversation:
    """A conversation: its name, its turns (time, speaker, text), and questions with the numbers of
    the turns that answer.

    `mails` are the Message-IDs of turns that are passages of mails, `kinds` those of the questions.
    """

    name: str
    turns: Sequence[tuple[str, str, str]]
    questions: Sequence[tuple[str, frozenset[int]]]
    mails: Sequence[str] = ()
    kinds: Sequence[str] = ()


@dataclass(frozen=True)
class Block:
    """A block, the seconds that it took, and the mails of which it shows a passage."""

    text: str
    seconds: float
    mails: frozenset[str] = frozenset()


def main() -> None:
    """Run the named collections, all by default."""
    parser = new_parser(__doc__)
    parser.add_argument("collections", nargs="*", help="beam, locomo, qmsum, mail")
    parser.add_argument("--budgets", type=int, nargs="*", default=[1_000, 4_000, 8_000])
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question about chats")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [context]"
    )
    parser.add_argument(
        "--state", type=Path, help="where indexes are stored; default: a temporary folder"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to a file")
    arguments = parser.parse_args()
    changed = {name: json.loads(value) for name, value in (s.split("=", 1) for s in arguments.set)}
    corpora, report = mail_collections.corpora_folder(), {}
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        for name in arguments.collections or ("beam", "locomo", "qmsum", "mail"):
            if name == "mail":
                source = mail_collections.pgsql(corpora).source
                settings = built(
                    mail_collections.settings_file(state / "memory-mail", "pgsql", source)
                )
                said = [_mail(corpora, settings)]
            else:
                said = {"beam": beam, "locomo": _locomo, "qmsum": meetings}[name](corpora)
                settings = built(settings_file(state / f"memory-{name}", said))
            every = 1 if name == "mail" else arguments.every
            report[name] = _measured(settings, said, arguments.budgets, every, changed)
            _print(name, report[name])
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"every": arguments.every, "collections": report}, indent=1) + "\n"
        )


def beam(corpora: Path) -> list[Conversation]:
    """The chats of BEAM; a turn without a day is of the day of the last one that has one."""
    found = []
    with gzip.open(corpora / "beam" / "chats.jsonl.gz", "rt") as lines:
        chats = [json.loads(line) for line in lines]
    for chat in chats:
        day, turns = datetime(2024, 1, 1, tzinfo=UTC), []
        for number, turn in enumerate(chat["turns"]):
            if turn["day"]:
                day = datetime.strptime(turn["day"], "%B-%d-%Y").replace(tzinfo=UTC)
            at = day + timedelta(hours=9, minutes=number)
            turns.append((at.isoformat(), turn["speaker"], turn["text"]))
        asked = [question for question in chat["questions"] if question["evidence"]]
        found.append(
            Conversation(
                name=chat["chat"],
                turns=turns,
                questions=[(q["question"], frozenset(q["evidence"])) for q in asked],
                kinds=[question["kind"] for question in asked],
            )
        )
    return found


def _locomo(corpora: Path) -> list[Conversation]:
    found = []
    for line in (corpora / "conversations" / "locomo.jsonl").read_text().splitlines():
        sample = json.loads(line)
        turns = _locomo_turns(sample["conversation"])
        number = {turn[0]: n for n, turn in enumerate(turns)}
        questions = [
            (q["question"], frozenset(number[e] for e in q["evidence"] if e in number))
            for q in sample["qa"]
        ]
        found.append(
            Conversation(
                sample["sample_id"], [turn[1:] for turn in turns], [q for q in questions if q[1]]
            )
        )
    return found


def meetings(corpora: Path) -> list[Conversation]:
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


def settings_file(folder: Path, said: Sequence[Conversation]) -> Path:
    (folder / "chats").mkdir(parents=True, exist_ok=True)
    config = ['[storage]\nroot = "state"\n\n[context]\nstrategy = "off"\n']
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


def _mail(corpora: Path, settings: Settings) -> Conversation:
    """The mails of the lists in the order of their threads, as passages; the questions are the
    topics filed by people.
    """
    with PublishedVersions(settings).open() as index:
        rows = index.index.connection.execute(
            "SELECT m.message_id, m.effective_at, m.from_name, m.subject, m.body FROM messages m "
            "JOIN thread_tree t USING (message_id) ORDER BY t.thread_id, t.position"
        ).fetchall()
    turns, mails = [], []
    for ident, at, author, subject, body in rows:
        for start in range(0, max(1, len(body or "")), _PASSAGE):
            turns.append(
                (
                    f"{at:%Y-%m-%d %H:%M}",
                    author or "",
                    f"{subject}\n{(body or '')[start : start + _PASSAGE]}",
                )
            )
            mails.append(ident)
    task = mail_collections.pgsql(corpora).tasks["topics"]
    questions = [
        (query, frozenset(n for n, mail in enumerate(mails) if mail in right))
        for query, right in zip(*task, strict=True)
    ]
    return Conversation("pgsql", turns, questions, mails)


def _measured(
    settings: Settings,
    said: Sequence[Conversation],
    budgets: Sequence[int],
    every: int,
    changed: dict,
) -> dict:
    """By budget and system the figures of all questions."""
    rows: dict[int, dict[str, list[tuple[float, ...]]]] = {budget: {} for budget in budgets}
    kinds = [kind for conversation in said for kind in conversation.kinds[::every]]
    for conversation in said:
        asked = conversation.questions[::every]
        peers = Peers(conversation)
        for budget in budgets:
            systems = {WEFT: _weft(settings, conversation, budget, every, changed)}
            systems |= {
                name: [fill(q, budget) for q, _ in asked] for name, fill in peers.systems().items()
            }
            for system, blocks in systems.items():
                for (_, gold), block in zip(asked, blocks, strict=True):
                    figures = (
                        *_held(block, conversation, gold),
                        _COUNT([block.text])[0],
                        block.seconds,
                        float(not block.text),
                    )
                    rows[budget].setdefault(system, []).append(figures)
    return {
        "questions": sum(len(c.questions[::every]) for c in said),
        "budgets": {
            b: {s: _figures(np.array(r)) for s, r in systems.items()} for b, systems in rows.items()
        },
        "kinds": {
            kind: {
                b: {s: _figures(_of_kind(r, kinds, kind)) for s, r in systems.items()}
                for b, systems in rows.items()
            }
            for kind in sorted(set(kinds))
        },
    }


def _of_kind(rows: Sequence[tuple[float, ...]], kinds: Sequence[str], kind: str) -> np.ndarray:
    return np.array([row for row, own in zip(rows, kinds, strict=True) if own == kind])


def _figures(rows: np.ndarray) -> dict[str, float]:
    held, parts, share, tokens, seconds, none = rows.T
    chooser = np.random.default_rng(1)
    means = chooser.choice(held, (2_000, len(held))).mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    values = {
        "held": held.mean(),
        "parts": parts.mean(),
        "of_block": share[none == 0].mean() if not none.all() else 0.0,
        "low": low,
        "high": high,
        "tokens": tokens.mean(),
        "ms": 1000 * seconds.mean(),
    }
    return {
        n: round(float(v), 3)
        for n, v in (values | {"no_hits": none.mean(), "model_calls": 0}).items()
    }


def _print(name: str, report: dict) -> None:
    columns = (
        "budget",
        "system",
        "evidence held",
        "sentences held",
        "of the block",
        "tokens",
        "ms",
        "no hits",
        "model calls",
    )
    table = new_table(f"{name}: {report['questions']} questions", columns)
    for budget, systems in report["budgets"].items():
        for system, f in systems.items():
            table.add_row(
                f"{budget:,}",
                system,
                f"{f['held']:.3f} ({f['low']:.3f}-{f['high']:.3f})",
                f"{f['parts']:.3f}",
                f"{f['of_block']:.3f}",
                f"{f['tokens']:,.0f}",
                f"{f['ms']:.0f}",
                f"{f['no_hits']:.2f}",
                f"{f['model_calls']:.0f}",
            )
    Console(width=120).print(table)
    if report["kinds"]:
        _print_kinds(name, report["kinds"])


def _print_kinds(name: str, kinds: dict) -> None:
    budgets = next(iter(kinds.values()))
    systems = [(budget, system) for budget, of in budgets.items() for system in of]
    heads = [f"{budget:,} {system}" for budget, system in systems]
    table = new_table(f"{name}: evidence held by kind of question", ("kind", *heads))
    for kind, of_budgets in kinds.items():
        cells = (of_budgets[budget][system] for budget, system in systems)
        table.add_row(kind, *(f"{f['held']:.3f} {f['parts']:.3f}" for f in cells))
    Console(width=180).print(table)


def _weft(
    settings: Settings, conversation: Conversation, budget: int, every: int, changed: dict
) -> list[Block]:
    chosen = settings.context.model_copy(
        update={
            "strategy": "chunks",
            "budget_tokens": budget,
            "where": f"source:{conversation.name}",
            **changed,
        }
    )
    own = settings.model_copy(update={"context": chosen})
    found = []
    with PublishedVersions(settings).open() as index:
        for question, _ in conversation.questions[::every]:
            begun = time.perf_counter()
            result = context_of(own, ConversationText(question), index.index)
            mails = frozenset(stretch[0].doc_id for stretch in stretches(result.passages))
            found.append(Block(result.block, time.perf_counter() - begun, mails))
    return found


class Peers:
    """What anybody would build over the turns of a conversation."""

    def __init__(self, conversation: Conversation):
        self.conversation, turns = conversation, conversation.turns
        self.shown = [f"{speaker} ({at[:16]}): {text}\n" for at, speaker, text in turns]
        self.costs = _COUNT(self.shown)
        self.stemmer = Stemmer.Stemmer("english")
        self.embedder = make_embedder(EmbeddingSettings())
        near = ["".join(self.shown[max(0, n - _NEAR) : n + _NEAR + 1]) for n in range(len(turns))]
        windows = ["".join(self.shown[n : n + _WINDOW]) for n in range(0, len(turns), _WINDOW)]
        self.models = [
            self._model(texts) for texts in ([text for _, _, text in turns], near, windows)
        ]
        self.vectors = self.embedder.embed_documents(
            [text if text.strip() else "?" for _, _, text in turns]
        )

    def systems(self) -> dict[str, Callable[[str, int], Block]]:
        """By name what fills a budget for a question."""
        turns, wide, windows = self.models
        return {
            "bm25s, turns": lambda q, budget: self._filled(lambda: self._scores(turns, q), budget),
            "bm25s, wide": lambda q, budget: self._filled(lambda: self._scores(wide, q), budget),
            "bm25s, windows": lambda q, budget: self._filled(
                lambda: self._scores(windows, q), budget, _WINDOW
            ),
            "wide and vectors": lambda q, budget: self._filled(lambda: self._blend(q), budget),
        }

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        return bm25s.tokenize(
            list(texts), stopwords="en", stemmer=self.stemmer, show_progress=False, return_ids=False
        )

    def _model(self, texts: Sequence[str]) -> bm25s.BM25:
        model = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        model.index(self._words(texts), show_progress=False)
        return model

    def _scores(self, model: bm25s.BM25, question: str) -> np.ndarray:
        return model.get_scores(self._words([question])[0])

    def _blend(self, question: str) -> np.ndarray:
        words, cosines = (
            self._scores(self.models[1], question),
            self.vectors @ self.embedder.embed_queries([question])[0],
        )
        scaled = [(s - s.min()) / (np.ptp(s) or 1.0) for s in (words, cosines)]
        return _WORDS * scaled[0] + (1 - _WORDS) * scaled[1]

    def _filled(self, scored: Callable[[], np.ndarray], budget: int, size: int = 1) -> Block:
        """The turns of the best units of `size` turns, as long as one fits."""
        begun = time.perf_counter()
        scores = scored()
        used, block, mails = 0, [], set()
        for turn in self._by_score(scores, size):
            if used + self.costs[turn] > budget:
                continue
            used += self.costs[turn]
            block.append(self.shown[turn])
            mails |= {self.conversation.mails[turn]} if self.conversation.mails else set()
        return Block("".join(block), time.perf_counter() - begun, frozenset(mails))

    def _by_score(self, scores: np.ndarray, size: int) -> Iterator[int]:
        for unit in np.argsort(-scores, kind="stable"):
            if scores[unit] <= 0:
                return
            yield from range(unit * size, min(len(self.shown), (unit + 1) * size))


def _held(
    block: Block, conversation: Conversation, gold: frozenset[int]
) -> tuple[float, float, float]:
    """The share of the evidence that a block holds, by whole turns and by sentences, and the
    evidence's share of the turns or mails that it shows.

    The unit is a character of a chat; a mail counts one if a passage of it is shown.
    """
    if conversation.mails:
        right = {conversation.mails[n] for n in gold}
        shown = len(right & block.mails)
        held = shown / max(1, len(right))
        return held, held, shown / max(1, len(block.mails))
    text = _SPACES.sub(" ", block.text)
    right_size = whole = parts = shown_size = 0
    for number, (_, _, said) in enumerate(conversation.turns):
        words = _SPACES.sub(" ", said).strip()
        is_whole = bool(words) and words in text
        of_turn = len(words) if is_whole else _sentences_in(said, text)
        shown_size += of_turn
        if number in gold:
            right_size += len(words)
            whole += len(words) * is_whole
            parts += of_turn
    right_size = max(1, right_size)
    return whole / right_size, parts / right_size, parts / max(1, shown_size)


def _sentences_in(said: str, text: str) -> int:
    """The characters of the longer sentences and lines of a turn that a text holds."""
    pieces = (_SPACES.sub(" ", piece).strip() for piece in _SENTENCES.split(said))
    return sum(len(piece) for piece in pieces if len(piece) >= _LEAST_SENTENCE and piece in text)


if __name__ == "__main__":
    main()
