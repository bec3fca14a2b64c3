"""What is known of models by their names: Google's limits, prices and successors, and the prefixes of local models.

Google's figures are those of its pages on models, prices and deprecations of November 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

EMBEDDING_NAME = "gemini-embedding-2"
LANGUAGE_NAME = "gemini-3.5-flash-lite"
DIMENSIONS = (768, 1536, 3072)
"""Widths that Google recommends for its models."""
BATCH_SHARE = 0.5
"""What the Batch API costs of the list price."""

HELD_SHARE = 0.1
"""What tokens that the service holds cost of the list price."""


class GeminiEmbedding(NamedTuple):
    """Tokens of a text that a model reads, its price in US dollars per million, whether it knows task types and sees."""

    max_tokens: int
    price: float
    knows_tasks: bool
    sees: bool


GEMINI_EMBEDDINGS = {
    "gemini-embedding-2": GeminiEmbedding(8192, 0.20, knows_tasks=False, sees=True),
    "gemini-embedding-001": GeminiEmbedding(2048, 0.15, knows_tasks=True, sees=False),
}
"""The models that Google serves; a name that is not here is taken for one like the first."""

_LANGUAGE_PRICES = {
    "gemini-3.5-flash-lite": (0.30, 2.50),
    "gemini-3.1-flash-lite": (0.25, 1.50),
    "gemini-3.5-flash": (1.50, 9.00),
    "gemini-3.8-flash": (0.75, 3.75),
}

_RETIRED = {
    "embedding-001": EMBEDDING_NAME,
    "text-embedding-004": EMBEDDING_NAME,
    "gemini-embedding-exp-03-07": EMBEDDING_NAME,
    "gemini-embedding-2-preview": EMBEDDING_NAME,
    "gemini-1.5-flash": LANGUAGE_NAME,
    "gemini-1.5-pro": "gemini-3.8-flash",
    "gemini-2.0-flash": LANGUAGE_NAME,
    "gemini-2.0-flash-lite": LANGUAGE_NAME,
    "gemini-2.5-flash": LANGUAGE_NAME,
    "gemini-2.5-flash-lite": LANGUAGE_NAME,
    "gemini-2.5-pro": "gemini-3.8-flash",
    "gemini-3-pro-preview": "gemini-3.8-flash",
}


class Prefixes(NamedTuple):
    """What a model wants before a text that is searched, and before one that is searched with."""

    document: str
    query: str


# The models' own cards. A name fits if it holds the key; the first that fits counts.
_PREFIXES = {
    "gemini-embedding-001": Prefixes("", ""),
    "gemini-embedding": Prefixes("title: none | text: ", "task: search result | query: "),
    "embeddinggemma": Prefixes("title: none | text: ", "task: search result | query: "),
    "nomic-embed-text": Prefixes("search_document: ", "search_query: "),
    "bge-small-en": Prefixes("", "Represent this sentence for searching relevant passages: "),
    "bge-base-en": Prefixes("", "Represent this sentence for searching relevant passages: "),
    "bge-large-en": Prefixes("", "Represent this sentence for searching relevant passages: "),
    "mxbai-embed-large": Prefixes("", "Represent this sentence for searching relevant passages: "),
    "snowflake-arctic-embed": Prefixes("", "Represent this sentence for searching relevant passages: "),
    "e5-small": Prefixes("passage: ", "query: "),
    "e5-base": Prefixes("passage: ", "query: "),
    "e5-large": Prefixes("passage: ", "query: "),
}


def prefixes_of(name: str) -> Prefixes:
    """The prefixes of a model by its name, empty where none are known.

    >>> prefixes_of("intfloat/multilingual-e5-base").document
    'passage: '
    """
    bare = name.lower()
    fits = (p for known, p in _PREFIXES.items() if known in bare and "instruct" not in bare)
    return next(fits, Prefixes("", ""))


def in_service(name: str) -> str:
    """The name of one of Google's models; ValueError with its successor for one that Google has retired."""
    bare = name.removeprefix("models/")
    successor = _RETIRED.get(bare) or _RETIRED.get(bare.removesuffix("-001").removesuffix("-002"))
    if successor and bare not in GEMINI_EMBEDDINGS:
        raise ValueError(f"Google retires {name!r}: write {successor!r}, which takes its place")
    return bare


def successor_of(name: str, served: Sequence[str], default: str) -> str:
    """What takes the place of a model that is not `served`: its known successor, else one of a like name, else `default`.

    >>> successor_of("gemini-2.5-flash", ["gemini-3.5-flash-lite", "gemini-4-pro"], LANGUAGE_NAME)
    'gemini-3.5-flash-lite'
    """
    known = _RETIRED.get(name, "")
    alike = get_close_matches(name, served, 1)
    return known if known in served else alike[0] if alike else default


def gemini_embedding(name: str | None) -> GeminiEmbedding:
    """What is known of an embedding model of Google."""
    return GEMINI_EMBEDDINGS.get(name or EMBEDDING_NAME, GEMINI_EMBEDDINGS[EMBEDDING_NAME])


def language_dollars(name: str, sent: int, said: int, held: int = 0) -> float:
    """The list price of so many tokens sent, and thought and answered; of an unknown model that of LANGUAGE_NAME.

    `held` of the tokens sent were read of what the service holds.
    """
    prompt, answer = _LANGUAGE_PRICES.get(name, _LANGUAGE_PRICES[LANGUAGE_NAME])
    return ((sent - held + held * HELD_SHARE) * prompt + said * answer) / 1e6
