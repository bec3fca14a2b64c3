"""Settings of terms, candidates, fusion, reranking and the answers of a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import Stemmer
from pydantic import Field, field_validator, model_validator

from transforms.languages import function_words, languages_of
from transforms.settings.base import Internal, StageSettings
from transforms.settings.expansions import Expansion
from transforms.settings.models import LANGUAGE_NAME, in_service


class TermSettings(StageSettings):
    """How text becomes terms."""

    stemmer: str = Field(
        "english",
        description="Snowball algorithm, or none to leave words as they are; `english+german`: each text by its language, "
        "one in neither by the first, and a query by all",
    )

    @field_validator("stemmer")
    @classmethod
    def _known_stemmer(cls, names: str) -> str:
        if unknown := {*names.split("+")} - {"none", *Stemmer.algorithms()}:
            known = ", ".join(Stemmer.algorithms())
            raise ValueError(f"{min(unknown)!r} is no Snowball algorithm; known are none, {known}")
        return names

    @property
    def languages(self) -> list[str]:
        """The stemmers, the first for texts in the language of none."""
        return [*dict.fromkeys(self.stemmer.split("+"))]

    def of(self, language: str | None) -> TermSettings:
        """These with one stemmer: that of a language, or the first."""
        names = self.languages
        return self.model_copy(update={"stemmer": language if language in names else names[0]})

    def of_most(self, texts: Iterable[str]) -> TermSettings:
        """These with the stemmer of most of some texts, for tables that compare the words of these
        with each other.
        """
        return self.of(next(iter(languages_of(texts)), (None,))[0]) if "+" in self.stemmer else self


_CUTOFF = 0.5
"""Share of the score of the hit above, below which ra ends a list."""


class SearchSettings(StageSettings):
    """How queries become ranked hits, in the order of these settings."""

    candidates_lexical: int = Field(
        50, gt=0, description="chunks of the lexical search (SecondBrain: K_lex)"
    )
    candidates_vector: int = Field(
        30, gt=0, description="chunks of the vector search (SecondBrain: K_vec)"
    )
    vector_search: Internal[Literal["auto", "exact", "ann"]] = "auto"
    """By size; every vector; or by the HNSW index where there is one and no filter."""
    fusion: Literal["blend", "rrf"] = Field(
        "blend", description="min-max blend or reciprocal rank fusion"
    )
    rrf_k: int = Field(60, gt=0, description="rrf: number that is added to each rank")
    lexical_weight: float = Field(
        0.7, ge=0, le=1, description="weight of the lexical score in a blend"
    )
    lexical_weight_symbols: float | None = Field(
        None,
        ge=0,
        le=1,
        description="the same for a query with a symbol, identifier, path or quoted string (pginbox)",
    )
    lexical_weight_questions: float | None = Field(
        None, ge=0, le=1, description="the same for a question without one (pginbox)"
    )
    mail_weight: Internal[float] = Field(0.7, ge=0, le=1)
    """Share of the whole mail where no chunk says it."""
    page_weight: Internal[float] = Field(0.5, ge=0, le=1)
    """The same of the whole page, for its sections."""
    thread_weight: Internal[float] = Field(1.0, ge=0)
    """Share of its thread's best score that a mail gets."""
    stopwords: tuple[str, ...] = Field(
        function_words("english"),
        description="words a query leaves out unless it has no others; default: those of the language of terms.stemmer",
    )
    limit: int = Field(10, gt=0, description="hits returned for a query")
    similarity_threshold: float | None = Field(
        None, ge=-1, le=1, description="least cosine of a hit that no word found (SecondBrain)"
    )
    latest_first: Internal[bool] = Field(
        True, description="of the postings of one patch later ones stand above earlier ones"
    )
    per_document: Internal[int | None] = Field(None, gt=0)
    """Hits of one mail, page or chat; None: one of a mail and any number of others."""
    rerank: Internal[Literal["as_set", "features", "off"]] = "as_set"
    """As [rerank] says, by features, or not."""
    length_counts: Internal[bool] = True
    """The own words of a turn or section count for its length; a context counts that in tokens."""
    cutoff_ratio: float | None = Field(
        None,
        ge=0,
        le=1,
        description="a list ends before a score below this share of the one above (ra: 0.5)",
    )
    max_results: int = Field(20, gt=0, description="hits at most of a list that ends so (ra)")
    aggregation: Literal["off", "after_elbow", "before_elbow"] = Field(
        "off", description="show a section for its parts, as ra does or as its later version does"
    )
    aggregation_threshold: float = Field(
        0.5, ge=0, le=1, description="share of its parts that are hits (ra)"
    )
    diversity: Internal[float] = Field(0.0, ge=0, le=1)
    """0: by score alone; 1: as unlike as can be (MMR)."""
    collapse_threads: Internal[bool] = False
    """Show a thread once, by its best mail."""
    expand: tuple[Expansion, ...] = Field(
        (),
        description="texts to show besides each hit: parent, neighbours, section, links (pginbox)",
    )
    weak: Internal[bool] = False
    """Show the hits of a query labelled NO_RESULTS too."""
    label_pass: Internal[float] = Field(0.65, ge=0, le=2)
    """Share of words plus cosine above the usual from which a hit answers."""
    label_weak: Internal[float] = Field(0.45, ge=0, le=2)
    """Least of WEAK; a query with less has no result."""
    title_weight: Internal[float] = Field(4.0, ge=0)
    """Weight of terms of the subject or heading."""
    quote_weight: Internal[float] = Field(0.3, ge=0)
    """Weight of quoted terms, and of those of the answered mail."""
    synonyms: Internal[str] = ""
    """The text of the file `synonyms.txt` beside the settings file (`transforms.text.synonyms`)."""
    expand_chars: Internal[int] = Field(1000, gt=0)
    """Characters of each text shown with a hit."""
    is_strict: Internal[bool] = False
    """Return a hit that no word found only if its evidence reaches `least_evidence`."""
    pool: Internal[int] = Field(100, gt=0)
    """Hits of a query that the steps behind fusion look at, or `limit` if that is more (ra)."""
    exact_max_chunks: Internal[int] = Field(20_000, ge=0)
    """Chunks up to which `vector_search = "auto"` compares every vector in full, where that is as
    fast as by signs.
    """

    @property
    def least_evidence(self) -> float:
        """The least evidence of hits of a context or strict search (any two tasks of
        `benchmarks/memory.py` choose it).
        """
        return self.label_weak / 2

    def vector_path(
        self, chunk_count: int, *, has_index: bool
    ) -> Literal["hnsw", "exact", "codes"]:
        """How vectors of so many chunks are searched: by an HNSW index if there is one, all of
        them, or by signs first.
        """
        if self.vector_search == "ann" and has_index:
            return "hnsw"
        return (
            "exact"
            if self.vector_search == "exact" or chunk_count <= self.exact_max_chunks
            else "codes"
        )


_ALONE = {
    "fusion": "blend",
    "lexical_weight_symbols": None,
    "lexical_weight_questions": None,
    "thread_weight": 0.0,
    "mail_weight": 0.0,
    "page_weight": 0.0,
    "rerank": "off",
}
_NODES: dict[str, Any] = {
    **_ALONE,
    "lexical_weight": 1.0,
    "candidates_lexical": 100,
    "candidates_vector": 1,
    "latest_first": False,
    "diversity": 0.0,
    "collapse_threads": False,
    "similarity_threshold": None,
    "limit": 20,
    "cutoff_ratio": _CUTOFF,
}
"""The ranking of ra: the BM25 score of a node and nothing else, a hundred candidates, twenty
results.
"""
BUILT_IN_PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "lexical": {**_ALONE, "lexical_weight": 1.0, "candidates_lexical": 300, "candidates_vector": 1},
    "vector": {**_ALONE, "lexical_weight": 0.0, "candidates_lexical": 1, "candidates_vector": 300},
    "rrf": {
        "fusion": "rrf",
        "thread_weight": 0.0,
        "candidates_lexical": 100,
        "candidates_vector": 100,
        "rerank": "off",
    },
    "sections": {**_NODES, "aggregation": "after_elbow"},
    "sections_later": {**_NODES, "aggregation": "before_elbow"},
}
"""The changes in [search] of the profiles that every evaluation knows: nothing, BM25 alone, vectors
alone, rank fusion with equal weights, and both orders in which ra gathers parts to sections.
"""


class RankingOptions(StageSettings):
    """Options of programs: the changes that one search may make to the ranking in [search]."""

    profile: str | None = Field(None, description="name of a profile, under the other options")
    diversity: float | None = Field(
        None, ge=0, le=1, description="0: by score; 1: as unlike as can be"
    )
    rerank: Literal["as_set", "features", "off"] | None = Field(
        None, description="as_set: as [rerank] says"
    )
    per_document: int | None = Field(None, gt=0, description="hits of one mail, page or chat")
    threads: bool = Field(False, description="show a thread once, by its best mail")
    weak: bool = Field(
        False, description="show the hits of a query that is labelled NO_RESULTS too"
    )
    strict: bool = Field(
        False,
        description="only near hits, before scores fall steeply: for a program that takes every hit for an answer",
    )

    def changes(self) -> dict[str, Any]:
        """The changes that the options other than the profile make in [search]."""
        options = {name: getattr(self, name) for name in ("diversity", "rerank", "per_document")}
        changes = {name: value for name, value in options.items() if value is not None}
        if self.threads:
            changes["collapse_threads"] = True
        if self.weak:
            changes["weak"] = True
        if self.strict:
            changes |= {"cutoff_ratio": _CUTOFF, "similarity_threshold": None, "is_strict": True}
        return changes


class SearchOptions(RankingOptions):
    """Options of `weft search` and of scheduled searches: the changes that one search may make in
    [search].
    """

    expand: tuple[Expansion, ...] = Field((), description="texts to show besides a hit")

    def changes(self) -> dict[str, Any]:
        """The changes that the options other than the profile make in [search]."""
        return super().changes() | ({"expand": self.expand} if self.expand else {})


class McpSettings(StageSettings):
    """Limits of one call of a tool of `weft mcp`."""

    max_results: Internal[int] = Field(50, gt=0, description="hits of a search")
    max_characters: Internal[int] = Field(
        100_000, gt=0, description="characters of a text; four are a token"
    )
    max_seconds: float = Field(30.0, gt=0, description="seconds until a call is given up")
    origins: tuple[str, ...] = Field(
        (),
        description="origins whose pages may ask over HTTP with the token, as `https://notes.example.org`",
    )
    receipts: bool = Field(True, description="note disclosures, see `weft mcp receipts`")


class LensSettings(StageSettings):
    """A view of the index: the texts that it shows, and how much of them in one session; a string
    is its conditions.
    """

    where: str = Field(description="conditions of the query language that all that is shown meets")
    passages: int | None = Field(None, gt=0, description="different passages of a session")
    tokens: int | None = Field(None, gt=0, description="tokens of these passages")
    share: float | None = Field(
        None,
        gt=0,
        le=1,
        description="share of one mail, document or window, if it has more than 4,000 bytes",
    )
    emails: tuple[str, ...] = Field(
        (),
        description="addresses that are shown in clear, as `*@kernel.org`: those that are public anyway",
    )
    names: bool = Field(False, description='show the names in chats whose `pseudonyms` is "others"')

    @model_validator(mode="before")
    @classmethod
    def _conditions_alone(cls, value: Any) -> Any:
        return {"where": value} if isinstance(value, str) else value

    @property
    def is_limited(self) -> bool:
        """True if it bounds the texts that one session is shown."""
        return not self.passages is self.tokens is self.share is None


class RerankSettings(StageSettings):
    """How the best hits of a search get a second look."""

    method: Literal["features", "off", "gemini", "cross_encoder"] = Field(
        "features",
        description="without a model, not at all, by Google's language model, or by a model run here",
    )
    top: int = Field(
        20, gt=0, le=100, description="hits scored again (SecondBrain: rerank_top_k = 10)"
    )
    name: str | None = Field(
        None,
        description=f"gemini: none for {LANGUAGE_NAME}; cross_encoder: folder or `name@commit` on the hub",
    )
    seconds: Internal[float] = Field(5, gt=0)
    """Time of a model for a search; then the rest stays as it is."""

    @model_validator(mode="after")
    def _names_a_model(self) -> RerankSettings:
        if self.method == "cross_encoder" and not self.name:
            raise ValueError("cross_encoder needs a name (a folder or a model of the hub)")
        if self.method == "gemini":
            in_service(self.language_model)
        return self

    @property
    def language_model(self) -> str:
        """Name of the language model."""
        return self.name or LANGUAGE_NAME


class QuerySettings(StageSettings):
    """How a query of a conversation is made to stand by itself (`weft search --turn`)."""

    rewrite: Literal["off", "rules", "gemini"] = Field(
        "rules",
        description="names are added from the turns before; or not; or a language model rewrites",
    )
