"""Settings of terms, candidates, fusion, reranking and the answers of a search."""

from __future__ import annotations

from typing import Any, Literal

import Stemmer
from pydantic import Field, field_validator, model_validator

from transforms.settings.base import StageSettings


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


_RECENCY = (
    r"(?i)\b(?:latest|newest|most recent|recent(?:ly)?|lately|current(?:ly)?|nowadays|today|up[- ]to[- ]date|"
    r"this (?:week|month|year)|last (?:few )?(?:days?|weeks?|months?|year))\b"
)
GEMINI_LANGUAGE_NAME = "gemini-2.5-flash"


class RerankSettings(StageSettings):
    """How the best hits of a search get a second look."""

    method: Literal["off", "features", "gemini", "cross_encoder"] = Field(
        "off",
        description="features: no model; gemini: a language model of Google's service gives scores (extra `gemini`); "
        "cross_encoder: a model run here (extra `transformer`)",
    )
    top: int = Field(10, gt=0, le=100, description="hits that are looked at again (seed 001)")
    name: str | None = Field(
        None, description=f"gemini: default {GEMINI_LANGUAGE_NAME}; cross_encoder: folder or name on the hub"
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
        return self.name or GEMINI_LANGUAGE_NAME


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
    name: str = Field(GEMINI_LANGUAGE_NAME, description="gemini: the language model")
    seconds: float = Field(5, gt=0, description="gemini: what it may take; then the rules decide")
    turns: int = Field(4, gt=0, description="turns before a query that are looked at")
    turn_chars: int = Field(1000, gt=0, description="characters of each that gemini reads")
    entities: int = Field(5, gt=0, description="names that are added at most")
    short_words: int = Field(1, ge=0, description="a query of so many words or fewer leans on the turns")
    leaning_pattern: str = Field(
        _LEANING, description="regular expression; a query that it finds something in leans on the turns"
    )
    filler: tuple[str, ...] = Field(_FILLER, description="words of a turn that are never added")
