"""Issues as triage reads them: their texts screened, the gaps of each, and the sentences that say
most of it.

Here documents of issue sources become one row an issue; `duplicates` has the repeats, `..assets`
the summaries of a language model.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from transforms.documents.issues import COMMENT
from transforms.settings.models import SafetySettings
from transforms.settings.search import TermSettings
from transforms.text.finds import FIND_KINDS
from transforms.text.redaction import masked_in_place
from transforms.text.segments import PARAGRAPH, SENTENCE
from transforms.text.terms import counted_terms

DOCUMENT_COLUMNS = (
    "doc_id",
    "source",
    "path",
    "title",
    "doc_type",
    "tags",
    "frontmatter",
    "created_at",
    "text",
    "body_start",
)
"""The columns of documents that are read."""
SUMMARY_CHARS = 300
"""Characters of a summary, as of a sentence that a language model writes."""
PIECE_CHARS = 400
"""Characters at which a sentence, or text without sentences, is cut."""
SCREEN = SafetySettings(secrets="mask", emails="mask", phones="mask")
"""Whatever may be sent elsewhere, triage masks its texts."""
_WISHES = {
    "enhancement",
    "feature",
    "feature request",
    "question",
    "documentation",
    "docs",
    "discussion",
    "proposal",
}
"""Labels of issues that do not report a fault, and need nothing."""
EMPTY_VALUES = {"", "_no response_", "n/a", "none", "-", "…", "..."}
"""Texts below a heading that was not filled in."""
_READ_CHARS = 100_000
"""Characters of an issue in which its needs are looked for."""
_TITLE = re.compile(r"\A\s*# [^\n]*\n")
_SECTION = re.compile(r"^#{1,6} [^\n]*(?:\n|\Z)", re.M)
_HINT = re.compile(r"<!--.*?-->", re.S)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s)>]+", re.I)
FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget)\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules)\b|^\s*system\s*:|"
    r"\byou are now\b|\b(?:answer|reply|respond)\s+only\s+with\b|</?(?:system|issue|prompt|instructions?)>",
    re.I | re.M,
)
"""Words that address a program that reads, and nobody else."""
_UNSAFE = re.compile(rf"{_ORDER.pattern}|\[(?:{'|'.join(FIND_KINDS)})\]", re.I | re.M)
_MARKUP = re.compile(r"^(?:[\s>#*+-]|\d+[.)] )+|\*\*|__", re.M)
_LIST = re.compile(r"\n(?=[ \t]*(?:[-*+]|\d{1,3}[.)]) )")
_LIST_NUMBER = re.compile(r"(?:\A|\n)[ \t]*\d{1,3}\.\Z")
_ROOM = re.compile(r"\]\*+")
"""A mark of the screen with the filler for the bytes that it masks."""
_WORDS = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]++\W++){2}[^\W\d_]")
_SHORT = 4
"""Words that are added to those of a sentence: of one or two words it says little, however rare
they are.
"""


def issue_items(documents: pa.Table) -> pl.DataFrame:
    """The issues among documents in the order in which they came, pull requests left out.

    Columns doc_id, source, number, title, state, url, tags and created_at; `text` by the author of
    the issue, and `thread`, that with all comments, both masked byte for byte; `start`, the byte of
    the document at which both begin; `found`, how many finds of each kind there are, `instruction`
    for text that addresses a program that reads.
    """
    rows = [
        row
        for row in documents.select(list(DOCUMENT_COLUMNS)).to_pylist()
        if row["doc_type"] in (None, "issue")
    ]
    bodies = [_body(row["text"], row["body_start"]) for row in rows]
    screened = zip(_screened(bodies), _screened([row["title"] for row in rows]), strict=True)
    items = []
    for row, body, ((thread, finds), (title, of_title)) in zip(rows, bodies, screened, strict=True):
        counts = finds + of_title
        counts["instruction"] = len(_ORDER.findall(f"{title}\n{thread}"))
        facts = json.loads(row["frontmatter"] or "{}")
        items.append(
            {name: row[name] for name in ("doc_id", "source", "tags", "created_at")}
            | {name: str(facts.get(name) or "") for name in ("state", "url")}
            | {
                "number": _number(facts.get("number"), row["path"]),
                "title": title,
                "text": COMMENT.split(thread, maxsplit=1)[0],
                "thread": thread,
                "start": len(row["text"].encode()) - len(body.encode()),
                "found": [
                    {"kind": kind, "count": count} for kind, count in sorted((+counts).items())
                ],
            }
        )
    return pl.DataFrame(items, schema=_ITEMS).sort(
        "created_at", "source", "number", "doc_id", nulls_last=True
    )


def _body(text: str, body_start: int) -> str:
    """The text behind the frontmatter and the title of a document."""
    body = text.encode()[body_start:].decode(errors="replace")
    title = _TITLE.match(body)
    return body[title.end() :] if title else body


def _screened(texts: list[str]) -> list[tuple[str, Counter[str]]]:
    """Each text masked, with its finds by kind; few have any."""
    return list(zip(*masked_in_place(texts, SCREEN), strict=True))


_ITEMS: dict[str, Any] = {
    "doc_id": pl.String,
    "source": pl.String,
    "number": pl.Int64,
    "title": pl.String,
    "state": pl.String,
    "url": pl.String,
    "tags": pl.List(pl.String),
    "created_at": pl.Datetime("us", "UTC"),
    "text": pl.String,
    "thread": pl.String,
    "start": pl.Int64,
    "found": pl.List(pl.Struct({"kind": pl.String, "count": pl.Int64})),
}


def _number(value: object, path: str) -> int | None:
    """The number of an issue: of its frontmatter, else the last one of its path."""
    numbers = [str(value)] if str(value).isdigit() else re.findall(r"\d+", path)
    return int(numbers[-1]) if numbers and len(numbers[-1]) < 19 else None


def missing(items: pl.DataFrame, needs: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """For each issue the names in `needs` that neither its text nor a comment has.

    `needs` are regular expressions by source and name. Text below an empty heading, and hints of
    templates, do not count; an issue that is a wish or a question by its labels needs nothing.
    """
    patterns = {source: {n: re.compile(p) for n, p in own.items()} for source, own in needs.items()}
    lacks = []
    for source, tags, thread in items.select("source", "tags", "thread").iter_rows():
        text = "\n".join(_filled(_without_hints(thread[:_READ_CHARS])))
        is_wish = any(tag.lower() in _WISHES for tag in tags or ())
        lacks.append(
            []
            if is_wish
            else [n for n, p in patterns.get(source, {}).items() if not p.search(text)]
        )
    return lacks


def _without_hints(text: str) -> str:
    """A text without the comments of HTML that end: nobody looks for the end of one behind the last."""
    end = text.rfind("-->") + len("-->")
    return text if end < len("-->") else _HINT.sub("", text[:end]) + text[end:]


def _filled(text: str) -> list[str]:
    starts = [0, *(match.start() for match in _SECTION.finditer(text)), len(text)]
    sections = [text[a:b] for a, b in zip(starts, starts[1:], strict=False)]
    return [s for s in sections if _SECTION.sub("", s).strip().lower() not in EMPTY_VALUES]


def weights(texts: pl.Series, settings: TermSettings) -> pl.DataFrame:
    """Columns row, term, weight and idf: TF-IDF of texts, the weights of a text of unit length."""
    counted = counted_terms(texts, settings)
    share = pl.len().over("term") / (len(texts) + 1)
    weighed = counted.with_columns(idf=-share.log()).with_columns(
        weight=(1 + pl.col("tf").log()) * pl.col("idf")
    )
    length = (pl.col("weight") ** 2).sum().over("row").sqrt()
    return weighed.select("row", "term", (pl.col("weight") / length).fill_nan(0.0), "idf")


def pieces(texts: pl.Series) -> pl.DataFrame:
    """Columns row, piece, start (in UTF-8 bytes): the sentences of texts, and lines where sentences
    are missing.
    """
    rows: list[tuple[int, str, int]] = []
    for row, text in enumerate(texts):
        at, byte = 0, 0
        ends = {
            m.end()
            for p in (PARAGRAPH, _LIST, SENTENCE)
            for m in p.finditer(text)
            if not _in_list(text, m)
        }
        for end in sorted({*ends, len(text)}):
            for start in range(at, end, PIECE_CHARS):
                piece = text[start : min(end, start + PIECE_CHARS)]
                if piece.strip():
                    lead = piece[: len(piece) - len(piece.lstrip())]
                    rows.append((row, piece.strip(), byte + len(lead.encode())))
                byte += len(piece.encode())
            at = end
    return pl.DataFrame(
        rows, schema={"row": pl.Int64, "piece": pl.String, "start": pl.Int64}, orient="row"
    )


def _in_list(text: str, boundary: re.Match[str]) -> bool:
    """True for a false end of a sentence behind the number of a list."""
    return bool(_LIST_NUMBER.search(text, max(0, boundary.start() - 8), boundary.start()))


def summaries(items: pl.DataFrame, weighed: pl.DataFrame, settings: TermSettings) -> list[str]:
    """The one or two sentences of each issue with most of its `weights`, in their order, without
    addresses.

    It leaves out sentences that address a program or were masked, code and logs; an issue without a
    sentence has its title.
    """
    prose = pl.Series(
        [FENCED.sub("\n\n", _without_hints(text)) for text in items["text"]], dtype=pl.String
    )
    cut = pieces(prose)
    plain = [_MARKUP.sub("", piece) for piece in cut["piece"]]
    rows = cut.with_columns(piece=pl.Series(plain, dtype=pl.String)).filter(
        pl.Series(
            [bool(_WORDS.search(piece)) and not _UNSAFE.search(piece) for piece in plain],
            dtype=pl.Boolean,
        )
    )
    rows = rows.with_row_index("n").with_columns(pl.col("row").cast(pl.UInt32))
    counted = counted_terms(rows["piece"], settings).rename({"row": "n"})
    scores = (
        counted.join(rows.select("n", "row"), on="n")
        .join(weighed, on=["row", "term"])
        .group_by("row", "n")
        .agg(score=pl.col("weight").sum() / (pl.len() + _SHORT).sqrt())
        .sort("row", "score", "n", descending=[False, True, False])
        .group_by("row", maintain_order=True)
        .agg(pl.col("n").head(2))
    )
    texts = {
        row: [rows["piece"][n] for n in (numbers[0], *sorted(numbers))]
        for row, numbers in scores.iter_rows()
    }
    ranked = (texts.get(row, [title]) for row, title in enumerate(items["title"]))
    return [shown(best, " ".join(both)) for best, *both in ranked]


def shown(best: str, both: str = "") -> str:
    """`both` sentences on one line without addresses, or only the `best` if they do not fit, cut if
    that is too long.
    """
    line, longer = (
        " ".join(_ADDRESS.sub("[link]", _ROOM.sub("]", text)).split()) for text in (best, both)
    )
    line = longer if 0 < len(longer) <= SUMMARY_CHARS else line
    return line if len(line) <= SUMMARY_CHARS else f"{line[: SUMMARY_CHARS - 1]}…"
