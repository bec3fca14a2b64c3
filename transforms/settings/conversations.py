"""Settings of conversations, their windows and the context retrieved for them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from transforms.hashing import text_hash
from transforms.settings.base import StageSettings


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
