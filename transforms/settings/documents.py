"""Settings of documents: headings and chunks."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from transforms.settings.base import Internal, StageSettings
from transforms.toml_file import toml_file

DOCUMENT_FORMATS: dict[str, str] = toml_file(__name__, "formats.toml")
"""The format of a document by the extension of its file name; a source looks for these."""
WAYS_OUT: dict[str, str] = toml_file(__name__, "ways_out.toml")
"""How a file that is not read becomes one that is, by the ending of its name."""
CODE_FORMATS: dict[str, str] = dict.fromkeys(toml_file(__name__, "code.toml")["endings"], "code")
"""As DOCUMENT_FORMATS, of files of code, which a source reads if its `include` names them."""
PLAIN_FORMATS = frozenset({"text", "code"})
"""Formats whose text is not Markdown."""
PICTURE_FORMATS = dict.fromkeys(
    ("png", "jpg", "jpeg", "tif", "tiff", "webp", "bmp", "gif"), "picture"
)
"""As DOCUMENT_FORMATS, of files that are read by OCR alone."""
ISSUE_FORMATS = ("json", "jsonl", "ndjson")
"""Endings of exports of issues, beside Markdown."""
WIKI_FORMATS = ("xml", "xml.bz2", "xml.gz", "xml.xz")
"""Endings of exports of MediaWiki."""
READ_ENDINGS = (*DOCUMENT_FORMATS, *PICTURE_FORMATS, *ISSUE_FORMATS, *WIKI_FORMATS)
ISSUE_NEEDS = {
    "steps": r"(?i)\bsteps\b|\breproduc|\bhow to (?:repeat|trigger)|"
    r"(?m:^[ \t]*1[.)] [^\n]+\n(?:[^\n]+\n){0,20}?[ \t]*2[.)] )",
    "version": r"(?i)\bv?\d+\.\d+(?:\.\d+|[-.]?rc\d+)?\b|\bversions?\W{1,3}\w*\d|\b[0-9a-f]{7,40}\b",
    "log": r"(?m)^ {0,3}(?:```|~~~)|(?i:traceback|stack ?trace|\berror:|\bpanic(?:ked)?\b)|^(?: {4}|\t)\S|`[^`\n]{20,}`",
}
"""The facts that somebody who looks into an issue asks for first, and patterns that find them."""


def _patterns(needs: dict[str, str]) -> dict[str, str]:
    """`needs`; ValueError naming the first that is not a regular expression."""
    for name, pattern in needs.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{name}: {pattern!r} is not a regular expression: {error}") from error
    return needs


Patterns = Annotated[dict[str, str], AfterValidator(_patterns)]
"""Regular expressions by the name of the fact that they find."""
_TEXTS = frozenset({"markdown", "rst", "html", "canvas"} | PLAIN_FORMATS)
CONVERTED_FORMATS = (
    *dict.fromkeys(f for f in DOCUMENT_FORMATS.values() if f not in _TEXTS),
    "picture",
)
"""Formats that are read in a process of their own, in the order of their names in the
documentation.
"""


class DocumentSettings(StageSettings):
    """How files become documents."""

    max_document_bytes: Internal[int] = Field(16 << 20, gt=0)
    """Bytes of text; a file with more, or that becomes more, is set aside."""
    max_file_bytes: Internal[int] = Field(256 << 20, gt=0)
    """Bytes of a PDF, office file, book, notebook or picture; a larger one is set aside."""
    ocr: str | None = Field(
        None,
        pattern=r"^[A-Za-z][A-Za-z_/]*(\+[A-Za-z][A-Za-z_/]*)*$",
        description="languages of Tesseract, as `eng` or `deu+eng`, by which pictures and scanned pages are read; none: "
        "they are not",
    )
    pictures: bool = Field(
        False,
        description="with gemini-embedding-2: a vector of each picture of notes, mails and chats",
    )
    read_seconds: Internal[float] = Field(120, gt=0)
    """Seconds of the processor that such a file, or one scanned page of it, may take."""
    read_memory_bytes: Internal[int] = Field(1 << 30, gt=0)
    """Bytes of memory for reading it."""

    @property
    def reads_pictures(self) -> bool:
        """True if pictures become documents: by the text in them, or by the vector of the picture."""
        return self.pictures or self.ocr is not None

    @property
    def picture_reading(self) -> str:
        """How attached pictures are read, for the version of what is made of them; empty if they
        are not.
        """
        return ".".join(filter(None, (self.ocr, "seen" * self.pictures)))


class DocumentChunkSettings(StageSettings):
    """How documents become chunks: by default as found most in `benchmarks/passages.py`."""

    chunker: Literal["tree", "sections", "semantic"] = Field(
        "sections",
        description="about one size (SecondBrain), one per heading (ra), gathered by tokens (Information Graph)",
    )
    target_chars: int = Field(700, gt=0, description="sections: longer text is split (SecondBrain)")
    strict: Internal[bool] = False
    """With the chunker `semantic`: with the faults of the original, lost tails included."""
    overlap_chars: int = Field(
        0, ge=0, description="characters that a section repeats (SecondBrain: 100)"
    )
    min_chars: int = Field(
        100, ge=0, description="a shorter section joins a neighbour (SecondBrain)"
    )
    context_chars: Internal[int] = Field(400, ge=0)
    """Around a chunk, searched with it (SecondBrain: 0)."""
    semantic_min_tokens: Internal[int] = Field(250, gt=0)
    """Tokens from which an equal or higher heading begins a chunk (Information Graph)."""
    semantic_deep_tokens: Internal[int] = Field(500, gt=0)
    """Tokens from which a deeper heading begins a chunk (Information Graph)."""
    semantic_max_tokens: Internal[int] = Field(750, gt=0)
    """Tokens that no further line may pass (Information Graph)."""
