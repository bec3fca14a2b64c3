"""Settings of embedding and language models, known facts of models by name, and the screen of texts
for them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from transforms.hashing import text_hash
from transforms.settings.base import Internal, StageSettings
from transforms.toml_file import toml_file

EMBEDDING_NAME = "gemini-embedding-2"
LANGUAGE_NAME = "gemini-3.5-flash-lite"
DIMENSIONS = (768, 1536, 3072)
"""Widths that Google recommends for its models."""
BATCH_SHARE = 0.5
"""Share of the list price that the Batch API costs."""

HELD_SHARE = 0.1
"""Share of the list price that tokens cost that the service holds."""


class GeminiEmbedding(NamedTuple):
    """Tokens of a text that a model reads, its price in US dollars per million, whether it knows
    task types and sees.
    """

    max_tokens: int
    price: float
    knows_tasks: bool
    sees: bool


GEMINI_EMBEDDINGS = {
    "gemini-embedding-2": GeminiEmbedding(8192, 0.20, knows_tasks=False, sees=True),
    "gemini-embedding-001": GeminiEmbedding(2048, 0.15, knows_tasks=True, sees=False),
}
"""The models that Google serves; a name that is not here is taken for one like the first."""

_LANGUAGE_PRICES = toml_file(__name__, "models.toml")["language_prices"]

_RETIRED = toml_file(__name__, "models.toml")["retired"]


class Prefixes(NamedTuple):
    """Texts that a model expects before a text to search in, and before one to search with."""

    document: str
    query: str


_PREFIXES = {
    name: Prefixes(*texts) for name, texts in toml_file(__name__, "models.toml")["prefixes"].items()
}


def prefixes_of(name: str) -> Prefixes:
    """The prefixes of a model by its name, empty where none are known.

    >>> prefixes_of("intfloat/multilingual-e5-base").document
    'passage: '
    """
    bare = name.lower()
    fits = (p for family, p in _PREFIXES.items() if family in bare and "instruct" not in bare)
    return next(fits, Prefixes("", ""))


def in_service(name: str) -> str:
    """The name of one of Google's models; ValueError with its successor for one that Google has
    retired.
    """
    bare = name.removeprefix("models/")
    successor = _RETIRED.get(bare) or _RETIRED.get(bare.removesuffix("-001").removesuffix("-002"))
    if successor and bare not in GEMINI_EMBEDDINGS:
        raise ValueError(f"Google retires {name!r}: write {successor!r}, which takes its place")
    return bare


def successor_of(name: str, served: Sequence[str], default: str) -> str:
    """The model to use if `name` is not `served`: its known successor, else one of a like name,
    else `default`.

    >>> successor_of("gemini-2.5-flash", ["gemini-3.5-flash-lite", "gemini-4-pro"], LANGUAGE_NAME)
    'gemini-3.5-flash-lite'
    """
    successor = _RETIRED.get(name, "")
    alike = get_close_matches(name, served, 1)
    return successor if successor in served else alike[0] if alike else default


def gemini_embedding(name: str | None) -> GeminiEmbedding:
    """The known facts about an embedding model of Google; those of the default model if its name is
    unknown.
    """
    return GEMINI_EMBEDDINGS.get(name or EMBEDDING_NAME, GEMINI_EMBEDDINGS[EMBEDDING_NAME])


def language_dollars(name: str, sent: int, output: int, cached: int = 0) -> float:
    """The list price of so many tokens sent, and thought and answered; of an unknown model that of
    LANGUAGE_NAME.

    The service holds `cached` of the tokens sent.
    """
    prompt, answer = _LANGUAGE_PRICES.get(name, _LANGUAGE_PRICES[LANGUAGE_NAME])
    return ((sent - cached + cached * HELD_SHARE) * prompt + output * answer) / 1e6


MULTILINGUAL = "weft-multilingual"
"""The table for texts in other languages than English."""
BUNDLED = {
    "static": "wordllama-l2-supercat",
    "weft": "weft-1",
    MULTILINGUAL: "weft-multilingual-1",
}
FOLDERS = ("/", ".", "~")  # how the name of a model begins if it is a folder
_TABLE_DIMENSIONS = 256
_TRANSFORMER = {
    "name": "sentence-transformers/all-MiniLM-L6-v2",
    "revision": "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    "dimensions": 384,
}
"""The transformer where none is named: under Apache-2.0, some 90 MB."""


class EmbeddingSettings(StageSettings):
    """Which model makes vectors."""

    model: Literal["static", "weft", "weft-multilingual", "transformer", "gemini", "openai"] = (
        Field(
            "weft",
            description="wordllama's table, Weft's, Weft's of 14 languages, a sentence-transformers model, "
            "Google's service, or OPENAI_BASE_URL",
        )
    )
    name: str | None = Field(
        None,
        description="transformer: folder, or name on the hub, as `name@commit`, none for all-MiniLM-L6-v2; openai: its name "
        "there; gemini: none for gemini-embedding-2",
    )
    revision: Internal[str | None] = None
    """Transformer: commit of the hub, behind the `@` of `name`; of a folder the hash of its files.
    """
    dimensions: int = Field(
        _TABLE_DIMENSIONS,
        gt=0,
        description="width of the vectors: a transformer's as its card says; gemini: 768, 1536 or 3072",
    )
    max_tokens: int | None = Field(
        None, gt=0, description="tokens of a text that are embedded; none: the model's limit"
    )
    document_prefix: str | None = Field(
        None,
        description="transformer, openai: put before texts; none: that of its files or its name",
    )
    query_prefix: str | None = Field(None, description="the same for queries")
    onnx_file: str | None = Field(
        None, description="transformer: file of the model that ONNX Runtime runs (extra `onnx`)"
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_model(cls, values: object) -> object:
        """The width and name that follow from `model`."""
        if not isinstance(values, dict):
            return values
        filled = dict(values)
        if values.get("model") == "gemini":
            filled.setdefault("dimensions", DIMENSIONS[0])
            filled["name"] = values.get("name") or EMBEDDING_NAME
        if values.get("model") == "transformer" and not values.get("name"):
            filled |= {key: value for key, value in _TRANSFORMER.items() if filled.get(key) is None}
        elif values.get("model") == "transformer" and not str(values["name"]).startswith(FOLDERS):
            name, _, commit = str(values["name"]).partition("@")
            filled |= {"name": name, "revision": values.get("revision") or commit or None}
        return filled

    @model_validator(mode="after")
    def _fits_the_model(self) -> EmbeddingSettings:
        allowed = {"transformer": 4, "openai": 2}.get(self.model, 0)
        for setting in ("document_prefix", "query_prefix", "revision", "onnx_file")[allowed:]:
            if getattr(self, setting) is not None:
                kinds = "transformer and openai" if "prefix" in setting else "transformer"
                raise ValueError(f"{setting} is for {kinds} only")
        if self.model in BUNDLED and (self.name, self.dimensions) != (None, _TABLE_DIMENSIONS):
            raise ValueError(f"{self.model} takes no name and has {_TABLE_DIMENSIONS} dimensions")
        if self.model in ("transformer", "openai") and (
            not self.name or "dimensions" not in self.model_fields_set
        ):
            raise ValueError(
                f"{self.model} needs a name (a folder, or as the hub or the service has it) and its dimensions"
            )
        if self.model == "gemini":
            if ":" in (self.name or ""):
                raise ValueError(
                    f"{self.name!r} is another library's spelling; write {EMBEDDING_NAME!r}"
                )
            in_service(self.name or "")
            if self.dimensions not in DIMENSIONS:
                raise ValueError(f"gemini has {', '.join(map(str, DIMENSIONS))} dimensions")
            if (self.max_tokens or 1) > gemini_embedding(self.name).max_tokens:
                most = gemini_embedding(self.name).max_tokens
                raise ValueError(f"{self.name} reads {most} tokens of a text at most")
        return self

    def digest(self) -> str:
        """Hash of the settings that decide the vectors; the number made at once does not."""
        return text_hash(f"{self.model_id}/{self.dimensions}")[:12]

    @property
    def token_limit(self) -> int | None:
        """Tokens of a text that are embedded; None for no limit, or the model's own."""
        return self.max_tokens or (
            gemini_embedding(self.name).max_tokens if self.model == "gemini" else None
        )

    @property
    def model_id(self) -> str:
        """Name of the weights and of how texts are handed to them; vectors, cache and manifest
        carry it.

        Two settings that could give a text different vectors never share it.
        """
        if self.model in BUNDLED:
            base = f"{BUNDLED[self.model]}-{self.dimensions}"
        else:
            base = (
                (self.name or "").rstrip("/").rsplit("/", 1)[-1]
                if self.names_folder
                else str(self.name)
            )
            base += f"@{self.revision}" if self.revision else ""
        # The prefix of a text of Google's models goes with their names.
        document_prefix = (
            self.document_prefix
            if self.model == "gemini"
            else self.prefixes.document or self.document_prefix
        )
        altered: tuple[object, ...] = (self.max_tokens, document_prefix)
        if self.onnx_file:
            altered += (self.onnx_file,)
        variant = text_hash(json.dumps(altered))[:8] if any(v is not None for v in altered) else ""
        return f"{base}+{variant}" if variant else base

    @property
    def prefixes(self) -> Prefixes:
        """The prefixes of texts: those of the settings, else those known by the model's name."""
        defaults = prefixes_of(self.name or "")
        own = self.document_prefix, self.query_prefix
        return Prefixes(*(k if g is None else g for g, k in zip(own, defaults, strict=True)))

    @property
    def sees(self) -> bool:
        """True if the model makes vectors of pictures."""
        return self.model == "gemini" and gemini_embedding(self.name).sees

    @property
    def is_remote(self) -> bool:
        """True if texts leave this machine for their vectors."""
        return self.model in ("gemini", "openai")

    @property
    def names_folder(self) -> bool:
        """True if `name` is a path, not a name on the hub."""
        return self.model == "transformer" and (self.name or "").startswith(FOLDERS)


class GeminiSettings(StageSettings):
    """Calls of Google's service: GEMINI_API_KEY or GOOGLE_API_KEY has its key,
    GOOGLE_GEMINI_BASE_URL another address.
    """

    base_url: Internal[str | None] = None
    """Another address than GOOGLE_GEMINI_BASE_URL, or Google's."""
    requests_per_minute: int = Field(
        3000, gt=0, description="quota; every text of a batch counts as one"
    )
    tokens_per_minute: int = Field(1_000_000, gt=0, description="quota")
    time_limit_seconds: Internal[float] = Field(7200, gt=0)
    """Time of all requests of a run; then it ends and keeps its results."""
    budget_tokens: int = Field(
        20_000_000, ge=0, description="tokens of a run; one that needs more ends before it asks"
    )
    batch_texts: int | None = Field(
        None,
        gt=0,
        description="missing texts, or prompts, from which the Batch API is asked: half the price, up to a day; none: never",
    )
    concurrency: Internal[int] = 8
    """Requests under way at once."""
    request_texts: Internal[int] = 100
    """Texts per request: the limit of the service."""
    request_tokens: Internal[int] = 20_000
    """Tokens per request, Google's limit elsewhere; one longer text goes alone."""
    timeout_seconds: Internal[float] = 60
    """For one request, from sending to the last byte."""
    attempts: Internal[int] = 8
    """For one request, before the run gives up."""
    backoff_seconds: Internal[float] = 1
    """Longest first pause after a fault; doubles each time, drawn at random."""
    poll_seconds: Internal[float] = 30
    """Between two looks at a job of the Batch API."""
    max_backoff_seconds: Internal[float] = 60
    """Longest pause that the service does not ask for."""


class SafetySettings(StageSettings):
    """The treatment of secrets and personal data in texts that are sent to a service.

    mask: sent with a mark in its place; hold: the text around it is not sent either; send: as it
    is.
    """

    secrets: Literal["mask", "hold", "send"] = Field(
        "mask",
        description="keys, tokens, passwords, numbers of cards and accounts: mask them, hold the text back, or send it",
    )
    emails: Literal["mask", "hold", "send"] = Field("mask", description="e-mail addresses")
    phones: Literal["mask", "hold", "send"] = Field("mask", description="telephone numbers")
    outputs: Literal["assistants", "mask", "hold", "send"] = Field(
        "assistants",
        exclude=True,  # no stage depends on it
        description="answers: masked for assistants alone, for people too, held back as a whole, or as they are",
    )


SentenceKind = Literal["off", "structural", "gemini", "document"]
WRITTEN_KINDS = ("gemini", "document")
"""Kinds of sentences that a language model writes."""


class SentenceSettings(StageSettings):
    """The sentence that is put before a chunk's text when it is embedded."""

    kind: SentenceKind = Field(
        "off",
        description="for sources without `sentence`: from what is known of a chunk, or by a language model; document: by "
        "one that reads all of a long document",
    )
    name: str = Field(LANGUAGE_NAME, description="gemini: the language model")
    _served = field_validator("name")(in_service)
