"""Settings of the stages: frozen models with the unit and the origin of each default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import Stemmer
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from transforms.hashing import text_hash


class StageSettings(BaseModel):
    """Base of all stage settings: immutable, and an unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def digest(self) -> str:
        """Hash of all values; what a stage's code version is derived from."""
        return text_hash(json.dumps(self.model_dump(mode="json"), sort_keys=True))[:12]


class MailSettings(StageSettings):
    """How raw mail becomes messages and attachments."""

    max_message_bytes: int = Field(64 << 20, gt=0, description="bytes; a larger mail is set aside")
    max_mime_depth: int = Field(32, gt=0, description="nesting of MIME parts; deeper parts get no text")
    max_mime_parts: int = Field(1000, gt=0, description="parts of one mail that are looked at")
    max_archive_bytes: int = Field(4 << 30, gt=0, description="bytes of one archive file after decompression")
    max_compression_ratio: int = Field(
        250, gt=0, description="decompressed : stored above which an archive over 16 MiB is refused"
    )
    max_attachment_bytes: int = Field(
        64 << 20, gt=0, description="bytes of a compressed attachment after decompression; more is refused"
    )
    max_attachment_chars: int = Field(
        2_000_000,
        gt=0,
        description="characters; a longer attachment goes to the slow lane (of 78,842 on PostgreSQL's lists 99 % have "
        "fewer than 318,562, the longest 33,385,745)",
    )
    max_log_chars: int = Field(
        500_000,
        gt=0,
        description="characters; a longer log or build output goes to the slow lane: many chunks that "
        "few look for",
    )


class BlockSettings(StageSettings):
    """How a body becomes blocks."""

    min_code_lines: int = Field(2, gt=0, description="lines that look like code before a run counts as code")
    max_signature_lines: int = Field(
        12, gt=0, description="lines behind a signature mark; a longer tail is not a signature"
    )
    unmarked_history: bool = Field(
        False,
        description="text below an Outlook header counts as a quote though no line is marked "
        "(people who labelled list mails more often called it the sender's text)",
    )


DOCUMENT_FORMATS = {
    "md": "markdown", "markdown": "markdown", "mdown": "markdown", "mkd": "markdown", "mdx": "markdown",
    "qmd": "markdown", "txt": "text", "text": "text", "rst": "rst", "html": "html", "htm": "html",
    "xhtml": "html",
}  # fmt: skip
"""The format of a document by the extension of its file name; a source looks for these."""


class DocumentSettings(StageSettings):
    """How files become documents."""

    max_document_bytes: int = Field(16 << 20, gt=0, description="bytes; a larger file is set aside")
    max_rst_bytes: int = Field(
        1 << 20, gt=0, description="bytes; a larger reStructuredText file is set aside (docutils is slow)"
    )


class ChunkSettings(StageSettings):
    """How blocks become chunks (defaults: the pginbox design, seed 000)."""

    policy: Literal["pairs", "message"] = Field(
        "pairs",
        description="pairs: a reply with the quote it answers is a chunk; message: a mail without its quotes "
        "is one chunk up to recursive_chars, and the pairs are chunks besides",
    )
    message_chars: int = Field(2000, gt=0, description="characters; longer authored text is split")
    recursive_chars: int = Field(
        8000, gt=0, description="characters; longer text is split by sentences and lines too"
    )
    overlap_chars: int = Field(300, ge=0, description="characters repeated between neighbours (200 to 400)")
    anchor_chars: int = Field(800, ge=0, description="characters of a quote anchor")
    anchor_chars_short: int = Field(
        1500, ge=0, description="characters of a quote anchor under a very short reply"
    )
    short_reply_chars: int = Field(200, ge=0, description="authored characters below which a reply is short")
    min_authored_chars: int = Field(
        1, ge=0, description="authored letters or digits below which a mail makes no chunk"
    )
    attachment_chars: int = Field(8000, gt=0, description="characters; a longer attachment is split")
    patch_chars: int = Field(
        12_000, gt=0, description="characters; the longer diff of one file is split by hunks"
    )
    patch_hunks: int = Field(10, gt=0, description="hunks; the diff of one file with more is split by hunks")
    patch_files: int = Field(
        100,
        gt=0,
        description="files; a patch of more gets a chunk that names them all",
    )
    slow_patch_files: int = Field(
        100, gt=0, description="files; the parts of a patch of more go to the slow lane"
    )
    parent_chars: int = Field(
        800, ge=0, description="characters of the answered mail given to a short reply without anchor"
    )
    slow_body_chars: int = Field(
        200_000,
        gt=0,
        description="characters; a longer body goes to the slow lane (of 250,771 on PostgreSQL's lists 99 % have fewer than "
        "25,862, the longest 2,123,695)",
    )
    embed_subject: bool = Field(True, description="put the subject before the text that is embedded")


_DOCUMENT_PROFILES: dict[str, dict[str, Any]] = {
    "recommended": {},
    "seed": {"target_chars": 700, "overlap_chars": 100, "min_chars": 100, "context_chars": 0},
}


class DocumentChunkSettings(StageSettings):
    """How documents become chunks.

    The profile `seed` has the sizes of the SecondBrain design (seed 001); `recommended` those that
    found most in `benchmarks/passages.py`. A size that is given holds in both.
    """

    profile: Literal["recommended", "seed"] = Field("recommended", description="which sizes are the default")
    chunker: Literal["tree", "sections", "semantic"] = Field(
        "sections",
        description="tree: one chunk per heading (seed 002); sections: pieces of about one size that keep to "
        "headings, lists and code (seed 001); semantic: sections gathered by tokens (seed 004)",
    )
    target_chars: int = Field(700, gt=0, description="sections: characters; longer text is split (seed 700)")
    overlap_chars: int = Field(
        0, ge=0, description="sections: characters a chunk repeats of the one before (seed 100)"
    )
    min_chars: int = Field(
        100, ge=0, description="sections: characters; what is shorter joins a neighbour (seed 100)"
    )
    context_chars: int = Field(
        400, ge=0, description="characters around a chunk that the lexical index reads with it (seed 0)"
    )
    embed_headings: bool = Field(True, description="put title and headings before the text that is embedded")
    code_share: float = Field(
        0.5, gt=0, le=1, description="lines of code : lines with text from which a chunk is code (seed 004)"
    )
    semantic_min_tokens: int = Field(
        250, gt=0, description="semantic: tokens from which an equal or higher heading begins a chunk"
    )
    semantic_deep_tokens: int = Field(
        500, gt=0, description="semantic: tokens from which a deeper heading begins a chunk"
    )
    semantic_max_tokens: int = Field(750, gt=0, description="semantic: tokens that no further line may pass")
    strict: bool = Field(
        False, description="semantic: repeat the faults of the original, lost tails included"
    )

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {**_DOCUMENT_PROFILES.get(given.get("profile", "recommended"), {}), **given}


class WindowSettings(StageSettings):
    """How a conversation is cut into windows."""

    by: Literal["count", "gap", "day"] = Field(
        "count", description="count: so many entries; gap: at long silences; day: one per day"
    )
    messages: int = Field(500, gt=0, description="entries of a window; with gap the most (seed 003)")
    gap_hours: float = Field(8.0, gt=0, description="gap: hours of silence that end a window")


class ConversationSettings(StageSettings):
    """How conversations are read, asked with and indexed."""

    max_chat_bytes: int = Field(256 << 20, gt=0, description="bytes of an export; a larger one is set aside")
    max_compression_ratio: int = Field(
        250, gt=0, description="decompressed : stored above which an archive over 16 MiB is refused"
    )
    query_tokens: int = Field(
        1800, ge=16, description="tokens of a query chunk, and of a chunk of a whole window (seed 003)"
    )
    overlap_tokens: int = Field(
        150, ge=0, description="tokens repeated between them, in whole paragraphs (seed 003)"
    )
    index: Literal["both", "turns", "windows", "none"] = Field(
        "both", description="what of conversations can itself be found: single turns, pieces of windows"
    )
    neighbour_turns: int = Field(
        2, ge=0, description="turns before and behind a turn that the lexical index reads with it"
    )

    def parts(self) -> tuple[str, str]:
        """Two hashes: of what decides how chats are read, and of the rest."""
        reading = {"max_chat_bytes", "max_compression_ratio"}
        read, rest = self.model_dump_json(include=reading), self.model_dump_json(exclude=reading)
        return text_hash(read)[:12], text_hash(rest)[:12]


_CONTEXT_PROFILES: dict[str, dict[str, Any]] = {
    "recommended": {},
    "seed": {
        "strategy": "chunks", "ask_with": "markdown", "candidates": 5, "min_similarity": 0.7, "mode": "ann",
        "lexical_weight": 0.0, "pick": "score",
    },
}  # fmt: skip


class ContextSettings(StageSettings):
    """How a conversation's context is found and put together.

    The profile `seed` does what seed 003 describes; `recommended` is what covered most topics in
    `benchmarks/conversations.py`. A value that is given holds in both.
    """

    profile: Literal["recommended", "seed"] = Field("recommended", description="which values are the default")
    strategy: Literal["window", "chunks", "hybrid", "adaptive"] = Field(
        "chunks",
        description="window: one query; chunks: one per query chunk; hybrid: both; adaptive: by the window's size",
    )
    adaptive_messages: int = Field(
        100, gt=0, description="adaptive: messages up to which a window is one query (seed 003)"
    )
    ask_with: Literal["said", "markdown"] = Field(
        "said", description="said: what was said, without headings; markdown: the query chunk as it is (seed)"
    )
    candidates: int = Field(20, gt=0, description="chunks taken for each query chunk (seed: 5)")
    min_similarity: float = Field(
        0.0, ge=-1, le=1, description="cosine below which a candidate is left out (seed: 0.7)"
    )
    mode: Literal["auto", "ann", "exact"] = Field(
        "auto", description="ann: by the HNSW index where there is one; exact: every vector; auto: the faster"
    )
    overfetch: int = Field(4, gt=0, description="ann: times `candidates` that are asked of the index")
    lexical_weight: float = Field(
        0.5, ge=0, le=1, description="weight of the lexical score of a candidate; 0 leaves it out (seed)"
    )
    lexical_terms: int = Field(25, gt=0, description="terms of a query chunk that are asked lexically")
    dedup_strategy: Literal["document", "semantic", "none"] = Field(
        "document", description="document: at most dedup_max_per_doc of one; semantic: no near-equal texts"
    )
    dedup_max_per_doc: int = Field(1, gt=0, description="chunks of one document (seed 003)")
    dedup_similarity: float = Field(
        0.95, gt=0, le=1, description="semantic: cosine from which texts are equal"
    )
    pick: Literal["score", "rounds", "mmr", "coverage"] = Field(
        "mmr",
        description="score: the best of all (seed); rounds: the best of each query chunk in turn; mmr: unlike what "
        "is chosen; coverage: what adds most to the best match of every query chunk",
    )
    mmr_lambda: float = Field(
        0.6, ge=0, le=1, description="mmr: weight of relevance against likeness (seed 003)"
    )
    top_k: int = Field(5, gt=0, description="passages of the block of related posts (seed 003)")
    passage_chars: int = Field(400, gt=0, description="characters of a passage in that block (seed 003)")
    budget_tokens: int = Field(2000, ge=64, description="tokens of the compiled block")
    expand: bool = Field(True, description="show section or mail around a passage where the budget allows")

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {**_CONTEXT_PROFILES.get(given.get("profile", "recommended"), {}), **given}


def digest_of(settings: Mapping[str, StageSettings]) -> str:
    """Hash of several settings by name; what the code version of a stage that takes them all is derived from."""
    return text_hash(json.dumps({name: s.digest() for name, s in settings.items()}, sort_keys=True))[:12]


class MeasureSettings(StageSettings):
    """What the measures of a mail collection count (defaults: seed 000)."""

    line_chars: int = Field(20, gt=0, description="characters; shorter lines are never compared")
    duplicate_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="characters of a chunk on lines of other mails from which it is a duplicate",
    )
    mostly_quoted_share: float = Field(
        0.8, gt=0, le=1, description="characters of a chunk in its anchor from which it is mostly quoted"
    )
    short_reply_chars: int = Field(200, gt=0, description="authored characters below which a reply is short")
    long_thread_messages: int = Field(20, gt=0, description="messages from which a thread is a long debate")
    many_attachments: int = Field(3, gt=0, description="attachments from which a thread is heavy with them")
    sampled: int = Field(
        5_000, gt=0, description="mails with quotes whose text is compared with the mail they answer"
    )


class GraphSettings(StageSettings):
    """How documents become a graph of files that is read without a server (defaults: seed 004)."""

    enabled: bool = Field(False, description="make the stripes and export the graph of all documents")
    similarity: Literal["cosine", "mixed"] = Field(
        "cosine",
        description="how chunks are compared: by vectors, or with the Jaccard similarity of words too",
    )
    cosine_weight: float = Field(0.7, ge=0, le=1, description="mixed: weight of the vectors")
    code_rule: Literal["text", "lines"] = Field(
        "text",
        description="what a chunk of code is: text, by `document_chunks.code_share` of the lines with text (as the "
        "design's published data); lines, more than half of all lines (as its text says)",
    )
    baseline: Literal["class", "title"] = Field(
        "class",
        description="what chunks are compared with: class, the first of text and the first of code (as the design's "
        "published data); title, the first, and the second if its heading is one of `technical_titles`",
    )
    technical_titles: tuple[str, ...] = Field(
        ("quick reference", "api reference", "command reference", "cheat sheet", "cheatsheet"),
        description="title: words in the heading of a technical baseline",
    )
    max_keywords: int = Field(
        50, ge=0, description="keywords that are computed for a source without `_keywords/words.md`"
    )
    prompts: Literal["off", "top", "threshold"] = Field(
        "off",
        description="which chunks keep the hashes of questions from `qa-pairs.md`: top, those nearest to each question; "
        "threshold, all near enough (experimental; docs/graph.md says why it is off)",
    )
    prompt_top: int = Field(1, gt=0, description="top: chunks that keep a question")
    prompt_similarity: float = Field(
        0.5, ge=-1, le=1, description="threshold: cosine from which a chunk keeps a question"
    )
    prompt_distance: int = Field(
        12,
        ge=0,
        le=64,
        description="bits by which a query and a stored question may differ and count as the same",
    )
    similar_percentile: float = Field(
        90.0, ge=0, le=100, description="percentile of all pairs above which documents are similar"
    )
    similar_documents: int = Field(5, ge=0, description="similar documents that a document names")
    base_url: str | None = Field(
        None, description="where the graph will be served, for absolute addresses; default: relative ones"
    )


class TermSettings(StageSettings):
    """How text becomes terms."""

    stemmer: str = Field("english", description="Snowball algorithm, or none to leave words as they are")
    max_term_chars: int = Field(64, gt=0, description="characters; longer tokens are cut")

    @field_validator("stemmer")
    @classmethod
    def _known_stemmer(cls, name: str) -> str:
        if name != "none" and name not in Stemmer.algorithms():
            raise ValueError(f"no Snowball algorithm; known are none, {', '.join(Stemmer.algorithms())}")
        return name


class ThreadSettings(StageSettings):
    """How mails become threads."""

    subject_days: int = Field(
        30,
        ge=0,
        description="days that a reply whose headers name no mail may be younger than the mail of its "
        "subject that it is taken to answer; 0 never links by subject",
    )


class FamilySettings(StageSettings):
    """How patch series become families of revisions."""

    revision_days: int = Field(
        365, gt=0, description="days between two postings of one title beyond which they are not revisions"
    )
    posting_minutes: int = Field(
        60, gt=0, description="minutes within which the parts of a series that are not threaded are sent"
    )


class InferredQuoteSettings(StageSettings):
    """How quotes without a mark are told from the author's own lines."""

    line_chars: int = Field(
        20, gt=0, description="characters below which a line of the answered mail may be there by chance"
    )
    min_lines: int = Field(
        2, gt=0, description="longer lines that a run of the answered mail's lines must have"
    )
    min_chars: int = Field(80, gt=0, description="characters that these lines must have together")


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


class SafetySettings(StageSettings):
    """What is done with secrets and personal data in texts that are sent to a service; no other text is scanned.

    mask: sent with a mark in its place; hold: the text around it is not sent either; send: as it is.
    """

    secrets: Literal["mask", "hold", "send"] = Field(
        "mask", description="keys, tokens, passwords, private keys: mask them, hold the text back, or send it"
    )
    emails: Literal["mask", "hold", "send"] = Field("mask", description="e-mail addresses, the same")
    phones: Literal["mask", "hold", "send"] = Field("mask", description="telephone numbers, the same")


class OperationsSettings(StageSettings):
    """What a running system has to keep to, and how long its history is kept."""

    max_lag_minutes: float = Field(
        120,
        gt=0,
        description="minutes from the build that first sees a file to the version that holds its text; 95 of 100 new "
        "texts of a source have to keep it. The default is two hourly runs",
    )
    max_slow_lag_minutes: float = Field(
        1440,
        gt=0,
        description="minutes that a text may wait for the slow lane before the check of it warns; the default is a day",
    )
    slow_at_once_bytes: int = Field(
        4 << 20,
        ge=0,
        description="bytes of text up to which what waits for the slow lane is made before a build publishes: that takes "
        "less time than a second publish",
    )
    slow_at_once_share: float = Field(
        0.02,
        ge=0,
        description="the same up to this share of the bytes of the published file, if that is more: the larger it is, the "
        "longer takes a second publish",
    )
    slow_at_first_share: float = Field(
        0.5,
        ge=0,
        description="where all is published from nothing, what waits is made before that up to this share of the bytes of "
        "all source files, too",
    )
    batch_bytes: int = Field(
        64 << 20,
        gt=0,
        description="bytes of source files that a backfill makes at once; a build that comes meanwhile waits for one "
        "batch, here some ten seconds",
    )
    batch_partitions: int = Field(32, gt=0, description="partitions that a backfill makes at once, at most")
    processes: int = Field(
        4,
        gt=0,
        description="processes that make partitions side by side, at most, and no more than there are processors; each "
        "takes some 400 MB and what its partition takes",
    )
    side_by_side_bytes: int = Field(
        64 << 20,
        ge=0,
        description="bytes of source files from which partitions are made side by side; a process takes some three "
        "seconds to start",
    )
    fresh_hours: float = Field(
        6,
        gt=0,
        description="hours within which the index must have been made, or found to show what the sources hold; the "
        "default is twice what the hourly run may take",
    )
    owners: tuple[str, ...] = Field(
        ("team:weft",),
        description="who answers for the assets, shown in Dagster: e-mail addresses or `team:name`",
    )
    keep_runs_days: int = Field(
        30,
        ge=0,
        description="days for which the hourly run keeps Dagster's finished runs; 0 keeps them for ever",
    )


class AlertSettings(StageSettings):
    """Who hears of a failed build, of a check that did not pass, and of texts that came late."""

    command: tuple[str, ...] = Field(
        (), description="program and arguments that are given the alert as JSON on standard input; no shell"
    )
    url: str | None = Field(None, description="http or https address that the alert is posted to as JSON")
    url_env: str | None = Field(
        None, description="environment variable that holds the address, where it is a secret"
    )
    timeout_seconds: float = Field(30, gt=0, description="what the command, or the post, may take")

    @property
    def is_set(self) -> bool:
        """True if somebody hears of anything."""
        return bool(self.command or self.url or self.url_env)


class IndexSettings(StageSettings):
    """How the published file is made and kept."""

    ann_min_vectors: int | None = Field(
        None,
        gt=0,
        description="vectors from which an HNSW index is built, for search.vector_search ann; none by default",
    )
    keep_versions: int = Field(2, gt=0, description="published versions that stay on disk")
    spare_min_bytes: int = Field(
        1 << 30,
        ge=0,
        description="size of the published file from which one version more stays on disk, hidden: the next publish changes "
        "it instead of copying the current one",
    )
    rebuild_share: float = Field(
        0.25,
        ge=0,
        description="share of the postings; when more than it came or went since all tables were made from nothing, "
        "the next publish makes them so again, which puts the inverted index in order and frees what is unused",
    )


# fmt: off
_STOPWORDS = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
)
# fmt: on


_DIAGNOSTIC = (
    r"\b(?:ERROR|FATAL|PANIC|WARNING|NOTICE|BUG|KASAN|SIG[A-Z]{3,5}|[A-Za-z]+(?:Error|Exception))\b|0x[0-9a-f]+|"
    r"(?i:\b(?:logs?|dmesg|segfault|segmentation fault|core dump(?:ed)?|stack ?trace|back ?trace|traceback|call trace|"
    r"oops|panic|crash(?:es|ed)?|assertion|undefined reference|exit code|build fail(?:s|ed|ure)?)\b)"
)


class CandidateSettings(StageSettings):
    """How queries become candidates with one score each."""

    candidates_lexical: int = Field(50, gt=0, description="chunks taken from the lexical search (seed 000)")
    candidates_vector: int = Field(30, gt=0, description="chunks taken from the vector search (seed 000)")
    vector_search: Literal["auto", "exact", "ann"] = Field(
        "auto",
        description="exact: every vector is compared; ann: by the HNSW index where there is one and no filter; "
        "auto: exact up to `exact_max_chunks`, above by the signs of all vectors and the cosines of the nearest",
    )
    exact_max_chunks: int = Field(
        100_000, ge=0, description="chunks up to which `auto` compares every vector in full"
    )
    code_candidates: int = Field(
        15_000,
        gt=0,
        description="vectors with the most signs in common with the query that `auto` looks at twice; of a million they "
        "hold .983 of the ten nearest, 10,000 .980",
    )
    code_rescored: int = Field(2_000, gt=0, description="the best of these, whose cosines are computed")
    hnsw_ef_search: int = Field(256, gt=0, description="candidates HNSW keeps while it searches")
    fusion: Literal["blend", "rrf"] = Field("blend", description="min-max blend or reciprocal rank fusion")
    lexical_weight: float = Field(0.7, ge=0, le=1, description="weight of the lexical score in a blend")
    rrf_k: int = Field(60, gt=0, description="rank constant of reciprocal rank fusion")
    thread_weight: float = Field(
        0.6, ge=0, description="share of its thread's best score that a mail receives; 0 leaves threads out"
    )
    bm25_k1: float = Field(1.5, ge=0, description="BM25 term saturation")
    bm25_b: float = Field(0.75, ge=0, le=1, description="BM25 length normalisation")
    title_weight: float = Field(4.0, ge=0, description="weight of terms of the subject or heading")
    text_weight: float = Field(1.0, ge=0, description="weight of authored terms")
    quote_weight: float = Field(0.3, ge=0, description="weight of quoted terms")
    file_weight: float = Field(0.3, ge=0, description="weight of the names of files that a diff changes")
    function_weight: float = Field(0.3, ge=0, description="weight of the functions that hunk headers name")
    added_weight: float = Field(1.0, ge=0, description="weight of terms in lines that a diff adds")
    removed_weight: float = Field(0.5, ge=0, description="weight of terms in lines that a diff removes")
    log_weight: float = Field(
        0.7,
        ge=0,
        le=1,
        description="factor on the score of logs and build output, unless the query is diagnostic",
    )
    diagnostic_pattern: str = Field(
        _DIAGNOSTIC, description="regular expression; a query that it finds something in is diagnostic"
    )
    feedback_weight: float = Field(
        0.3,
        ge=0,
        le=1,
        description="share of the lexical score of a blend that the commonest terms of the first candidates have, for "
        "queries whose words no chunk holds; 0: never",
    )
    feedback_support: float = Field(
        0.35,
        ge=0,
        le=1,
        description="lexical score : the most a chunk could get, from which the best chunk holds the words of a query",
    )
    feedback_chunks: int = Field(5, gt=0, description="candidates whose terms are added to such a query")
    feedback_kinds: tuple[str, ...] = Field(
        ("message", "attachment"),
        description="kinds of source that all of these must be of; neither chat nor a mixture, where it hurt",
    )
    feedback_terms: int = Field(20, gt=0, description="terms that are added")
    stopwords: tuple[str, ...] = Field(
        _STOPWORDS, description="words a query leaves out unless it has no others (Lucene's English list)"
    )


class SearchSettings(CandidateSettings):
    """How queries become ranked hits: candidates, and the steps that follow in the order of these settings."""

    limit: int = Field(10, gt=0, description="hits returned for a query")
    similarity_threshold: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="cosine below which what the vector search found is no hit; none by default (seed 001)",
    )
    gate_lexical: bool = Field(
        False,
        description="hold what the lexical search found to similarity_threshold too; the design lets it pass (seed 001)",
    )
    weak_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the best score of a query below which a hit is dropped; 0: none",
    )
    per_document: int = Field(1, gt=0, description="hits of one mail or document (seed 003)")
    pool: int = Field(
        100,
        gt=0,
        description="hits of a query that the steps below look at, or `limit` if that is more (seed 002)",
    )
    normalise_sources: bool = Field(
        False, description="divide scores by the best one of their source, so that no source rules the list"
    )
    rerank: Literal["as_set", "features", "off"] = Field(
        "as_set", description="as_set: as [rerank] says; features and off overrule it, for profiles"
    )
    elbow: bool = Field(
        False,
        description="end the list where scores fall steeply (seed 002); off, because it costs recall",
    )
    elbow_cutoff: float = Field(
        0.5, gt=0, le=1, description="score : score of the hit above, below which the list ends (seed 002)"
    )
    elbow_maximum: int = Field(20, gt=0, description="hits where no elbow is found (seed 002)")
    aggregation: Literal["off", "after_elbow", "before_elbow"] = Field(
        "off",
        description="show the section or document in place of its parts if enough of them are hits (the "
        "design: after_elbow)",
    )
    aggregation_threshold: float = Field(
        0.5, gt=0, le=1, description="share of the children of a heading that must be hits (seed 002)"
    )
    aggregation_siblings: int = Field(
        1, gt=0, description="children that must be hits at least (the design: 1, later 2)"
    )
    aggregation_score: Literal["max", "root_sum_squares"] = Field(
        "max", description="score of a heading from those of its parts (its later version: root_sum_squares)"
    )
    collapse_duplicates: bool = Field(
        False,
        description="show once what is the same: equal texts, quoted history beside its origin, revisions of a patch",
    )
    diversity: float = Field(
        0.0, ge=0, le=1, description="0: by score alone; 1: as unlike each other as can be (MMR, 1 - lambda)"
    )
    collapse_threads: bool = Field(False, description="show a thread once, by its best mail")
    expand: tuple[Literal["parent", "neighbours", "section", "links"], ...] = Field(
        (),
        description="what is shown with each hit: the answered mail, the chunks before and behind, the section or mail "
        "around it, what it links to",
    )
    expand_chars: int = Field(1000, gt=0, description="characters of each text shown with a hit")
    expand_links: int = Field(3, gt=0, description="links of a hit that are followed, one step")
    label_similarity: float = Field(
        0.25,
        ge=-1,
        le=1,
        description="cosine from which a hit counts as similar, for the label of a result (static model)",
    )
    label_high_similarity: float = Field(
        0.45,
        ge=-1,
        le=1,
        description="cosine from which a hit that is not borne out is a risk (static model)",
    )
    label_words: float = Field(
        0.85,
        ge=0,
        le=1,
        description="share of the query's words, rare ones weighing more, from which a hit needs no cosine",
    )
    label_support: float = Field(
        0.3,
        ge=0,
        le=1,
        description="share of the query's words, rare ones weighing more, from which a hit is borne out by words",
    )
    label_rerank: float = Field(
        5.0,
        description="score of a model from which a hit is relevant (5 of gemini's 10; a cross-encoder gives 0 to 1)",
    )


BUILT_IN_PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "lexical": {
        "fusion": "blend", "lexical_weight": 1.0, "thread_weight": 0.0, "feedback_weight": 0.0,
        "candidates_lexical": 300, "candidates_vector": 1,
    },
    "vector": {
        "fusion": "blend", "lexical_weight": 0.0, "thread_weight": 0.0, "feedback_weight": 0.0,
        "candidates_lexical": 1, "candidates_vector": 300,
    },
    "rrf": {"fusion": "rrf", "thread_weight": 0.0, "candidates_lexical": 100, "candidates_vector": 100},
    "sections": {"elbow": True, "aggregation": "after_elbow"},
    "sections_later": {
        "normalise_sources": True, "elbow": True, "aggregation": "before_elbow",
        "aggregation_score": "root_sum_squares", "aggregation_siblings": 2,
    },
}  # fmt: skip
"""What the profiles that every evaluation knows change in [search]: nothing, BM25 alone, vectors alone,
rank fusion with equal weights, and both orders in which seed 002 gathers parts to sections."""


class McpSettings(StageSettings):
    """What one call of a tool of `weft mcp` may ask for."""

    max_results: int = Field(50, gt=0, description="hits of a search")
    max_characters: int = Field(100_000, gt=0, description="characters of a text; four are taken for a token")
    max_query_characters: int = Field(20_000, gt=0, description="characters of what is asked with")
    max_seconds: float = Field(30, gt=0, description="seconds until a call is given up")


class WatchSettings(StageSettings):
    """When edits of vaults and document trees lead to a run of the sensor `vault_edits`."""

    interval_seconds: int = Field(
        10, gt=0, description="seconds between two looks; a look reads names, sizes and times"
    )
    quiet_seconds: float = Field(
        10, ge=0, description="seconds without another edit before a run is asked for"
    )
    longest_wait_seconds: float = Field(
        40, gt=0, description="seconds after the first edit at which a run is asked for though edits go on"
    )


class EvaluationSettings(StageSettings):
    """How quality is measured."""

    queries: tuple[str, ...] = Field(
        (), description="YAML files of queries and right answers; relative to the settings file"
    )
    profiles: tuple[str, ...] = Field(
        ("default", "lexical", "vector", "rrf"),
        description="profiles that are measured; the first is the one that others are compared with",
    )
    passage_bytes: int = Field(
        5000, gt=0, description="bytes of retrieved text that passages are looked for in"
    )
    publish_check: bool = Field(
        False,
        description="refuse to publish when nDCG@10 of the first profile drops beyond its 95 % interval "
        "against the published version",
    )


_RECENCY = (
    r"(?i)\b(?:latest|newest|most recent|recent(?:ly)?|lately|current(?:ly)?|nowadays|today|up[- ]to[- ]date|"
    r"this (?:week|month|year)|last (?:few )?(?:days?|weeks?|months?|year))\b"
)
_GEMINI_LANGUAGE_NAME = "gemini-2.5-flash"


class RerankSettings(StageSettings):
    """How the best hits of a search get a second look."""

    method: Literal["off", "features", "gemini", "cross_encoder"] = Field(
        "off",
        description="features: no model; gemini: a language model of Google's service gives scores (extra `gemini`); "
        "cross_encoder: a model run here (extra `transformer`)",
    )
    top: int = Field(10, gt=0, le=100, description="hits that are looked at again (seed 001)")
    name: str | None = Field(
        None, description=f"gemini: default {_GEMINI_LANGUAGE_NAME}; cross_encoder: folder or name on the hub"
    )
    revision: str | None = Field(None, description="cross_encoder: commit of the hub")
    offline: bool = Field(False, description="cross_encoder: never look on the hub")
    seconds: float = Field(
        5,
        gt=0,
        description="what a model may take for a search, its loading not counted; then the rest stays as it is",
    )
    passage_chars: int = Field(500, gt=0, description="characters of each hit that gemini reads (seed 001)")
    exact_weight: float = Field(
        0.0,
        ge=0,
        description="share of the query's words as typed in title or text (0: it hurt where it was measured)",
    )
    title_weight: float = Field(0.1, ge=0, description="share of the query's words as typed in the title")
    phrase_weight: float = Field(
        0.05, ge=0, description="share of the query's neighbouring words as neighbours"
    )
    thread_weight: float = Field(
        0.02, ge=0, description="other hits of the same thread among those looked at"
    )
    recency_weight: float = Field(0.2, ge=0, description="age, where the query asks for what is new")
    half_life_days: float = Field(180, gt=0, description="days after which recency counts half")
    recency_pattern: str = Field(
        _RECENCY, description="regular expression; a query that it finds something in asks for what is new"
    )
    kinds: dict[str, float] = Field(
        {"attachment_segment": -0.1}, description="what is added for a kind of chunk (`chunk_kind`)"
    )
    log_weight: float = Field(
        0.05, ge=0, description="taken from logs, unless the query is diagnostic; beside search.log_weight"
    )

    @model_validator(mode="after")
    def _names_a_model(self) -> RerankSettings:
        if self.method == "cross_encoder" and not self.name:
            raise ValueError("cross_encoder needs a name (a folder or a model of the hub)")
        return self

    @property
    def language_model(self) -> str:
        """Name of the language model."""
        return self.name or _GEMINI_LANGUAGE_NAME


SentenceKind = Literal["off", "structural", "gemini"]


class SentenceSettings(StageSettings):
    """The sentence that is put before a chunk's text when it is embedded."""

    kind: SentenceKind = Field(
        "off",
        description="for sources that say no `sentence` themselves. structural: from author, date, thread, headings; "
        "gemini: written by a language model of Google's service (extra `gemini`)",
    )
    name: str = Field(_GEMINI_LANGUAGE_NAME, description="gemini: the language model")
    lexical: bool = Field(False, description="index the terms of a sentence, too, in the field `context`")
    batch_chunks: int = Field(10, gt=0, description="chunks per request (seed 001)")
    lookback: int = Field(
        2, ge=0, le=3, description="chunks before a chunk that are shown with it (seed 001)"
    )
    before_chars: int = Field(300, gt=0, description="characters of each of them")
    text_chars: int = Field(2000, gt=0, description="characters of the chunk that are shown")
    sentence_chars: int = Field(300, gt=0, description="a longer sentence is not taken")


_LEANING = (
    r"(?i)\b(?:it|its|they|them|their|theirs|this|that|these|those|there|he|she|him|her|his|hers|one|ones|same|former|"
    r"latter|above|else|instead|other)\b|^\W*(?:and|but|or|so|then|what about|how about|why|also)\b"
)
# fmt: off
_FILLER = (
    "about", "after", "again", "also", "because", "been", "before", "could", "does", "doing", "from", "have", "having",
    "here", "into", "just", "know", "like", "maybe", "more", "much", "need", "only", "please", "really", "should", "some",
    "something", "tell", "than", "thank", "thanks", "that", "their", "them", "then", "there", "these", "they", "thing",
    "this", "those", "very", "want", "well", "were", "what", "when", "where", "which", "while", "will", "with", "would",
    "under", "your",
)
# fmt: on


class QuerySettings(StageSettings):
    """How a query of a conversation is made to stand by itself (`weft search --turn`)."""

    rewrite: Literal["off", "rules", "gemini"] = Field(
        "rules", description="rules: names are added from the turns before; gemini: a language model rewrites"
    )
    name: str = Field(_GEMINI_LANGUAGE_NAME, description="gemini: the language model")
    seconds: float = Field(5, gt=0, description="gemini: what it may take; then the rules decide")
    turns: int = Field(4, gt=0, description="turns before a query that are looked at")
    turn_chars: int = Field(1000, gt=0, description="characters of each that gemini reads")
    entities: int = Field(5, gt=0, description="names that are added at most")
    short_words: int = Field(1, ge=0, description="a query of so many words or fewer leans on the turns")
    leaning_pattern: str = Field(
        _LEANING, description="regular expression; a query that it finds something in leans on the turns"
    )
    filler: tuple[str, ...] = Field(_FILLER, description="words of a turn that are never added")
