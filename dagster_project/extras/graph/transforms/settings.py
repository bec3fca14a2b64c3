"""The section `[graph]`."""

import re
from typing import Literal

from pydantic import Field, field_validator

from transforms.settings.base import StageSettings, without_credentials


class GraphSettings(StageSettings):
    """How documents become a graph of files that is read without a server (Information Graph)."""

    enabled: bool = Field(
        False, description="make the stripes and export the graph of all documents"
    )
    similarity: Literal["cosine", "mixed"] = Field(
        "cosine", description="compare chunks by vectors, or by vectors and shared words"
    )
    profile: Literal["data", "text"] = Field(
        "data",
        description="rules of code and baselines as the design's published data, or its text, has them",
    )
    prompts: Literal["off", "top", "threshold"] = Field(
        "off",
        description="chunks that keep questions of `qa-pairs.md`: the nearest, or all near enough",
    )
    prompt_similarity: float = Field(
        0.5, ge=-1, le=1, description="threshold: least cosine of a question and a chunk"
    )
    base_url: str | None = Field(
        None, description="where the graph is served; none: relative addresses"
    )
    origins: tuple[str, ...] = Field(
        (),
        exclude=True,  # No table or file depends on it, so it is not part of the digest.
        description="origins whose pages may read from `weft graph serve`, as `https://notes.example.org`; `*`: every "
        "page that a browser of this machine shows",
    )

    _checked_address = field_validator("base_url")(without_credentials)

    @field_validator("origins")
    @classmethod
    def _plain_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != "*" and not re.fullmatch(r"https?://[^/\s*@]+", origin):
                raise ValueError(
                    "this is not an origin: write scheme, host and port, as https://notes.example.org"
                )
        return origins
