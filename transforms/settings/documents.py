"""Settings of what documents become: headings, chunks, the document graph."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from transforms.settings.base import StageSettings, without_credentials

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
    origins: tuple[str, ...] = Field(
        (),
        exclude=True,  # No table or file depends on it, so it is no part of the digest.
        description="origins whose pages may read from `weft serve-graph`, as `https://notes.example.org`; `*`: every "
        "page that a browser of this machine shows",
    )

    _checked_address = field_validator("base_url")(without_credentials)

    @field_validator("origins")
    @classmethod
    def _plain_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != "*" and not re.fullmatch(r"https?://[^/\s*@]+", origin):
                raise ValueError(
                    "this is no origin: write scheme, host and port, as https://notes.example.org"
                )
        return origins
