"""Settings of embedding and language models, and of what may be sent to them."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field, field_validator, model_validator

from transforms.hashing import text_hash
from transforms.settings.base import StageSettings, without_credentials
from transforms.settings.search import GEMINI_LANGUAGE_NAME

_STATIC_NAME = "wordllama-l2-supercat"
_STATIC_DIMENSIONS = 256
_GEMINI_NAME = "gemini-embedding-001"
_GEMINI_DIMENSIONS = (768, 1536, 3072)
_GEMINI_MAX_TOKENS = 2048


class EmbeddingSettings(StageSettings):
    """Which model makes vectors."""

    model: Literal["static", "transformer", "gemini"] = Field(
        "static",
        description="static: the model inside the wordllama package; transformer: a sentence-transformers model, "
        "run here (extra `transformer`); gemini: Google's service (extra `gemini`)",
    )
    name: str | None = Field(
        None,
        description=f"transformer: folder or name on the Hugging Face hub; gemini: default {_GEMINI_NAME}; "
        "static has one only",
    )
    revision: str | None = Field(
        None, description="transformer: commit of the hub; for a folder Weft takes the hash of its files"
    )
    dimensions: int = Field(
        _STATIC_DIMENSIONS,
        gt=0,
        description=f"width of the vectors: {_STATIC_DIMENSIONS} for static, what its card says for a transformer, "
        f"{', '.join(map(str, _GEMINI_DIMENSIONS))} for gemini (default {_GEMINI_DIMENSIONS[0]})",
    )
    max_tokens: int | None = Field(
        None,
        gt=0,
        description="tokens of a text that are embedded; default: all for static, the model's own limit for a "
        f"transformer, {_GEMINI_MAX_TOKENS} for gemini (the service's limit)",
    )
    document_prefix: str | None = Field(
        None, description="transformer: put before each text; default: what the model's files say"
    )
    query_prefix: str | None = Field(None, description="transformer: the same for queries")
    onnx_file: str | None = Field(
        None,
        description="transformer: file of the model's folder, such as onnx/model_quint8_avx2.onnx, that ONNX Runtime "
        "runs in place of PyTorch (extra `onnx`)",
    )
    offline: bool = Field(
        False, description="transformer: never look on the hub, use what was downloaded before"
    )
    batch_texts: int = Field(
        2048, gt=0, description="texts per batch of a model run here; each batch is stored when it is done"
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_model(cls, given: object) -> object:
        """The width and name that follow from `model`."""
        if not isinstance(given, dict):
            return given
        filled = dict(given)
        if given.get("model") == "gemini":
            filled.setdefault("dimensions", _GEMINI_DIMENSIONS[0])
            filled["name"] = given.get("name") or _GEMINI_NAME
        return filled

    @model_validator(mode="after")
    def _fits_the_model(self) -> EmbeddingSettings:
        only = "for transformer only" if self.model != "transformer" else ""
        for setting in ("revision", "document_prefix", "query_prefix", "onnx_file"):
            if only and getattr(self, setting) is not None:
                raise ValueError(f"{setting} is {only}")
        if self.model == "static" and (self.name, self.dimensions) != (None, _STATIC_DIMENSIONS):
            raise ValueError(f"static takes no name and has {_STATIC_DIMENSIONS} dimensions")
        if self.model == "transformer" and (not self.name or "dimensions" not in self.model_fields_set):
            raise ValueError("transformer needs a name (a folder or a model of the hub) and its dimensions")
        if self.model == "gemini":
            if ":" in (self.name or ""):
                raise ValueError(f"{self.name!r} is another library's spelling; write {_GEMINI_NAME!r}")
            if self.dimensions not in _GEMINI_DIMENSIONS:
                raise ValueError(f"gemini has {', '.join(map(str, _GEMINI_DIMENSIONS))} dimensions")
            if (self.max_tokens or 1) > _GEMINI_MAX_TOKENS:
                raise ValueError(f"gemini reads {_GEMINI_MAX_TOKENS} tokens of a text at most")
        return self

    def digest(self) -> str:
        """Hash of what decides the vectors; how many are made at once does not."""
        return text_hash(f"{self.model_id}/{self.dimensions}")[:12]

    @property
    def token_limit(self) -> int | None:
        """Tokens of a text that are embedded; None for no limit, or the model's own."""
        return self.max_tokens or (_GEMINI_MAX_TOKENS if self.model == "gemini" else None)

    @property
    def model_id(self) -> str:
        """Name of the weights and of how texts are handed to them; vectors, cache and manifest carry it.

        Two settings that could give a text different vectors never share it.
        """
        if self.model == "static":
            base = f"{_STATIC_NAME}-{self.dimensions}"
        else:
            base = (self.name or "").rstrip("/").rsplit("/", 1)[-1] if self.names_folder else str(self.name)
            base += f"@{self.revision}" if self.revision else ""
        altered: tuple[object, ...] = (self.max_tokens, self.document_prefix)
        if self.onnx_file:
            altered += (self.onnx_file,)
        variant = text_hash(json.dumps(altered))[:8] if any(v is not None for v in altered) else ""
        return f"{base}+{variant}" if variant else base

    @property
    def is_remote(self) -> bool:
        """True if texts leave this machine for their vectors."""
        return self.model == "gemini"

    @property
    def names_folder(self) -> bool:
        """True if `name` is a path and no name on the hub."""
        return self.model == "transformer" and (self.name or "").startswith(("/", ".", "~"))


class GeminiSettings(StageSettings):
    """How Google's service is called; the key is taken from GEMINI_API_KEY or GOOGLE_API_KEY alone."""

    base_url: str | None = Field(
        None, description="another address of the service; default: Google's, or GOOGLE_GEMINI_BASE_URL"
    )
    requests_per_minute: int = Field(
        3000, gt=0, description="quota; every text of a batch counts as one (3000: Google's first paid tier)"
    )
    tokens_per_minute: int = Field(1_000_000, gt=0, description="quota (1,000,000: Google's first paid tier)")
    concurrency: int = Field(8, gt=0, description="requests under way at once")
    request_texts: int = Field(100, gt=0, le=100, description="texts per request (the service takes 100)")
    request_tokens: int = Field(
        20_000, gt=0, description="tokens per request; one longer text goes alone (Google's limit elsewhere)"
    )
    timeout_seconds: float = Field(60, gt=0, description="for one request, from sending to the last byte")
    attempts: int = Field(8, gt=0, description="for one request, before the run gives up")
    backoff_seconds: float = Field(
        1, gt=0, description="longest first pause after a fault; doubles each time, drawn at random"
    )
    max_backoff_seconds: float = Field(
        60, gt=0, description="longest pause that the service does not ask for"
    )
    time_limit_seconds: float = Field(
        7200, gt=0, description="for all requests of a run; then it ends with what is stored"
    )
    budget_tokens: int = Field(
        20_000_000, ge=0, description="tokens a run may need; one that needs more ends before it asks for any"
    )
    price_per_million_tokens: float = Field(
        0.15, ge=0, description="US dollars, for estimates (0.15: Google's list price of 2025 and 2026)"
    )
    prompt_price_per_million: float = Field(
        0.30, ge=0, description="US dollars for tokens sent to a language model (Google's list price of 2025)"
    )
    answer_price_per_million: float = Field(
        2.50, ge=0, description="US dollars for tokens it thinks and answers (Google's list price of 2025)"
    )

    _checked_address = field_validator("base_url")(without_credentials)


class SafetySettings(StageSettings):
    """What is done with secrets and personal data in texts that are sent to a service; no other text is scanned.

    mask: sent with a mark in its place; hold: the text around it is not sent either; send: as it is.
    """

    secrets: Literal["mask", "hold", "send"] = Field(
        "mask", description="keys, tokens, passwords, private keys: mask them, hold the text back, or send it"
    )
    emails: Literal["mask", "hold", "send"] = Field("mask", description="e-mail addresses, the same")
    phones: Literal["mask", "hold", "send"] = Field("mask", description="telephone numbers, the same")


SentenceKind = Literal["off", "structural", "gemini"]


class SentenceSettings(StageSettings):
    """The sentence that is put before a chunk's text when it is embedded."""

    kind: SentenceKind = Field(
        "off",
        description="for sources that say no `sentence` themselves. structural: from author, date, thread, headings; "
        "gemini: written by a language model of Google's service (extra `gemini`)",
    )
    name: str = Field(GEMINI_LANGUAGE_NAME, description="gemini: the language model")
    lexical: bool = Field(False, description="index the terms of a sentence, too, in the field `context`")
    batch_chunks: int = Field(10, gt=0, description="chunks per request (seed 001)")
    lookback: int = Field(
        2, ge=0, le=3, description="chunks before a chunk that are shown with it (seed 001)"
    )
    before_chars: int = Field(300, gt=0, description="characters of each of them")
    text_chars: int = Field(2000, gt=0, description="characters of the chunk that are shown")
    sentence_chars: int = Field(300, gt=0, description="a longer sentence is not taken")
