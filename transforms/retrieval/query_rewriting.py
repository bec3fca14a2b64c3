"""A query of a conversation, made independent of it by words from the turns before."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints

from transforms.languages import word_weights
from transforms.toml_file import toml_file

_TURNS = 4
"""Turns before a query that are looked at."""
_TURN_CHARS = 1000
"""Characters of each that a language model reads."""
_ENTITIES = 5
"""Names that are added at most."""
_WORDS = 12
"""Words of the last turns that are added at most (`benchmarks/follow_ups.py`)."""
_WORD_TURNS = 2
"""Turns whose words are added: people set the scene in one and go on in the next."""
_SHORT_WORDS = 3
"""A query of so many content words or fewer leans on the turns."""
_LEANING = (
    r"(?i)\b(?:it|its|they|them|their|theirs|this|that|these|those|there|he|she|him|her|his|hers|one|ones|same|former|"
    r"latter|above|else|instead|other|"
    r"es|er|sie|ihn|ihm|ihnen|deren|dessen|dies|diese[rsnm]?|jene[rsnm]?|derselben?|dasselbe|dort|da(?:mit|von|für|rin|rauf|"
    r"zu|bei|gegen|nach|durch|rüber|runter|ran|raus|s)|stattdessen|sonst)\b|"
    r"^\W*(?:and|but|or|so|then|what about|how about|why|also|und|aber|oder|dann|warum|wieso|weshalb|auch|was ist mit)\b"
)
"""A query that this finds something in leans on the turns."""
REWRITING = (
    "You rewrite the last question of a conversation so that it can be searched for without the conversation. `turns` "
    "are the turns before it, oldest first, `query` is the question. Answer with `query`, the question with pronouns "
    "and omissions replaced by what they stand for and without filler, in its language, and `entities`, the names of "
    "things from the turns that it is about and does not name, if any."
)
_NAMES = re.compile(
    r"“[^”\n]{2,60}”|\"[^\"\n]{2,60}\"|`[^`\n]{2,60}`|"  # quoted
    r"(?<![\w.-])[\w.-]++(?<=\w)/[\w./-]*\w|"  # paths
    r"\b\w+(?:_\w+)+|"  # identifiers with underscores
    r"\b[A-Za-z]+-?v?\d[\w.-]*\w|\bv?\d+(?:\.\d+)+\b|"  # versions and numbered names
    r"\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w*|\b[A-Z]{2,}\w*|"  # camel case and capitals
    r"(?<=[^.!?:\s] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*"  # names inside a sentence
)
_WORD = re.compile(r"\d+|[^\W\d_]{2,}")


@cache
def _fillers() -> frozenset[str]:
    """Words that name nothing, in the languages of the tables."""
    fillers = (table["words"] for table in toml_file(__name__, "fillers.toml").values())
    return frozenset(word_weights()).union(*map(str.split, fillers))


def _content(text: str) -> list[str]:
    """The words and numbers of a text that name something."""
    return [word for word in _WORD.findall(text) if word.lower() not in _fillers()]


@dataclass(frozen=True)
class Standalone:
    """A query as it came and as it is used, and who made the one of the other; None if they are the
    same.
    """

    original: str
    used: str
    by: str | None = None


class Rewritten(BaseModel):
    """The answer of a language model."""

    query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
    entities: list[Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)]]


def by_rules(query: str, turns: Sequence[str]) -> Standalone:
    """The query with the subjects of the turns: names and content words, those of the last turn
    first.

    Names are quoted texts, identifiers, paths, versions, and capitalised words inside of a
    sentence; content words are words and numbers but for function words and the usual words of
    conversations. A query leans on the turns if it says so, or has few content words. Pronouns
    stay: they cost a search nothing.
    """
    leans = re.search(_LEANING, query) or len(_content(query)) <= _SHORT_WORDS
    if not turns or not leans:
        return Standalone(query, query)
    recent = list(reversed(turns[-_TURNS:]))
    names = [name.strip('“”"`') for turn in recent for name in _NAMES.findall(turn)]
    entities = _new(names, query)[:_ENTITIES]
    without_addresses = (
        " ".join(w for w in turn.split() if "@" not in w) for turn in recent[:_WORD_TURNS]
    )
    words = [word for turn in without_addresses for word in _content(_NAMES.sub(" ", turn))]
    return _with(
        query, query, [*entities, *_new(words, " ".join([query, *entities]))[:_WORDS]], "rules"
    )


def by_model(query: str, answer: Rewritten, label: str) -> Standalone:
    """The query as a language model rewrote it, on one line, with the entities that it left out."""
    rewritten = " ".join(answer.query.split())
    entities = [" ".join(e.split()) for e in answer.entities]
    return _with(query, rewritten, _new(entities, rewritten)[:_ENTITIES], label)


def rewriting_prompt(query: str, turns: Sequence[str]) -> dict[str, Any]:
    """The data of a prompt: the last turns, each cut, and the query."""
    return {"turns": [t[:_TURN_CHARS] for t in turns[-_TURNS:]], "query": query}


def _new(names: Sequence[str], query: str) -> list[str]:
    """Distinct names that the query does not hold, in their order."""
    lowered = query.lower()
    return list({n.lower(): n for n in reversed(names) if n and n.lower() not in lowered}.values())[
        ::-1
    ]


def _with(original: str, query: str, words: Sequence[str], by: str) -> Standalone:
    used = " ".join([query, *words])
    return Standalone(original, used, by if used != original else None)
