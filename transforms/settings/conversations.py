"""Settings of conversations, their windows and the context retrieved for them."""

from typing import Literal

from pydantic import Field

from transforms.hashing import text_hash
from transforms.settings.base import Internal, StageSettings


class WindowSettings(StageSettings):
    """How a conversation is cut into windows."""

    by: Literal["count", "gap", "day"] = Field(
        "count", description="so many entries, up to a long silence, or a day"
    )
    messages: int = Field(500, gt=0, description="entries of a window; with gap the most")
    gap_hours: Internal[float] = Field(8.0, gt=0)
    """By gap: hours of silence that end a window."""


_READING = {"max_chat_bytes"}


class ConversationSettings(StageSettings):
    """How conversations are read, searched with and indexed."""

    max_chat_bytes: Internal[int] = Field(
        256 << 20, gt=0, description="bytes of an export; a larger one is set aside"
    )
    query_tokens: int = Field(
        1800, ge=16, description="tokens of a query and of a stored part of a window (egregora)"
    )
    query_overlap_tokens: int = Field(
        150, ge=0, description="tokens of whole paragraphs that a part repeats (egregora)"
    )
    index: Literal["both", "turns", "windows", "none"] = Field(
        "both", description="the parts of conversations that can be found"
    )

    def reading_digest(self) -> str:
        """Hash of the settings that decide how chats are read."""
        return text_hash(self.model_dump_json(include=_READING))[:12]

    def cutting_digest(self) -> str:
        """Hash of the settings that decide how windows are cut and indexed."""
        return text_hash(self.model_dump_json(exclude=_READING))[:12]


class ContextRule(StageSettings):
    """Passages to show beside files of one kind, as ra has it."""

    match: tuple[str, ...] = Field(
        min_length=1, description="patterns as in a .gitignore of files that `weft context` gets"
    )
    sources: tuple[str, ...] = Field((), description="where passages come from; none: all sources")
    terms: tuple[str, ...] = Field((), description="words that are asked for beside the file's")
    include: tuple[str, ...] = Field(
        (), description="documents, sections, mails or chunks that stand first, by id or path"
    )


class ContextSettings(StageSettings):
    """How a conversation's context is found and put together: what covered most topics in
    `benchmarks/conversations.py`.
    """

    strategy: Literal["window", "chunks", "hybrid", "adaptive", "adaptive_tokens", "off"] = Field(
        "chunks",
        description="queries: one for each part of a window, for the window, both, or by its messages or tokens; off: none",
    )
    min_similarity: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="least cosine of a candidate; unset: 0, or as `calibrated` says",
    )
    calibrated: bool = Field(
        False,
        description="unset least cosine: 0.7 of the design's model, that of others measured (egregora)",
    )
    where: str = Field(
        "",
        description="conditions of the query language on passages, as `source:notes OR kind:message`",
    )
    include: Internal[Literal["earlier", "later"]] = "earlier"
    """Texts not later than the conversation and not of it; later (egregora): all but the
    conversation itself.
    """
    rules: tuple[ContextRule, ...] = Field(
        (), description="passages to show beside some files, as [[context.rules]]", exclude=True
    )
    top_k: int = Field(5, gt=0, description="passages of the block of related posts")
    budget_tokens: int = Field(2000, ge=64, description="tokens of the compiled block")
    candidates: int | None = Field(
        None,
        gt=0,
        description="chunks of each query (egregora, chunks_per_query: 5); unset: enough to fill the budget",
    )
    pick: Literal["score", "coverage"] = Field(
        "coverage", description="the best (egregora), or the passages that cover most queries"
    )
    dedup_max_per_doc: int | None = Field(
        None,
        gt=0,
        description="chunks of one document (egregora: 1); unset: as many as the budget holds",
    )
    dedup_strategy: Literal["document", "semantic", "none"] = Field(
        "document",
        description="no more of a document, no near-equal texts, or every chunk (egregora)",
    )
    expand: Internal[bool] = True
    """Show section or mail around a passage where the budget allows."""
    ask_with: Internal[Literal["said", "markdown"]] = "said"
    """The words of the turns, without headings; or the query chunk as it is (egregora)."""
    mode: Literal["exact", "ann"] = Field(
        "exact",
        description="by every vector, or by the HNSW index that index.ann_max_vectors allows (egregora)",
    )
    nprobe: int = Field(256, gt=0, description="vectors that `ann` keeps in view (egregora)")
    overfetch: int = Field(4, gt=0, description="times `candidates` that `ann` asks for (egregora)")
    lexical_weight: Internal[float | None] = Field(None, ge=0, le=1)
    """Weight of the lexical score of a candidate; unset: that of a search. Egregora gives it no
    weight.
    """

    by_parts: Internal[bool] = True
    """Ask the parts of a short text, too, and show only passages that bear out a part (egregora
    does neither).
    """

    @property
    def fills_budget(self) -> bool:
        """True if further chunks of the documents fill the rest of the budget behind the best of
        each.
        """
        return self.dedup_strategy == "document" and self.dedup_max_per_doc is None
