"""The table of triage: its schema, and issues as `items` reads them, with their gaps and likely
repeats.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.extras.triage.transforms import duplicates, form_fields, items
from transforms.hashing import parts_hash
from transforms.schemas.table import SOURCE, TIME, Column, Table, required
from transforms.settings.models import SafetySettings
from transforms.settings.search import TermSettings
from transforms.text.redaction import screened

_FIND = pa.struct([("kind", pa.string()), ("count", pa.int64())])
_TEXT, _BYTE, _SHARE = pa.string(), pa.int64(), pa.float64()
_REPEAT = pa.struct(
    {
        "doc_id": _TEXT,
        "number": pa.int64(),
        "title": _TEXT,
        "score": _SHARE,
        "confidence": _SHARE,
        "evidence": _SHARE,
        "same": pa.list_(_TEXT),
        "different": pa.list_(_TEXT),
        "passage": _TEXT,
        "byte_start": _BYTE,
        "byte_end": _BYTE,
        "earlier_passage": _TEXT,
        "earlier_start": _BYTE,
        "earlier_end": _BYTE,
    }
)

ISSUE_TRIAGE = Table(
    "issue_triage",
    "One issue: its summary, its secrets and personal data, its gaps, and earlier ones that it may repeat.",
    ("doc_id",),
    (
        required("doc_id", pa.string(), "the document"),
        SOURCE,
        Column("number", pa.int64(), "number in its tracker"),
        required("title", pa.string(), "its title, masked"),
        required("state", pa.string(), "open or closed; empty if the export does not say"),
        required("url", pa.string(), "its address; empty if the export lacks it"),
        Column("created_at", TIME, "when it was written"),
        required("summary", pa.string(), "summary, masked, on one line without addresses"),
        required(
            "summary_kind", pa.string(), "extractive: its own sentences; gemini: a language model's"
        ),
        required(
            "found",
            pa.list_(_FIND),
            "secrets and personal data in it and its comments by kind, and `instruction` for text that addresses a program",
        ),
        required(
            "missing",
            pa.list_(pa.string()),
            "names in `needs` of its source that nothing in it has",
        ),
        required(
            "duplicates",
            pa.list_(_REPEAT),
            "the likeliest earlier issues, best first, with score (how alike they are), confidence (0 to 1: how likely one "
            "repeats the other), and of both the passages that agree most, masked, with their UTF-8 bytes in the documents; "
            "null where no word agrees. `evidence` is the part of the rare words of both passages that they share (0 to 1); "
            "`same` and `different` name the fields, as `version`, in which the two agree or contradict each other",
        ),
    ),
)

TABLES = (ISSUE_TRIAGE,)


@dataclass(frozen=True)
class TriageSettings:
    """Settings of triage: the needs of issues and whether a model sums them up, both by source;
    terms, and the screen.
    """

    needs: Mapping[str, Mapping[str, str]]
    kinds: Mapping[str, str]
    terms: TermSettings
    safety: SafetySettings

    def version(self) -> str:
        """A hash of all of it."""
        own = json.dumps({s: [self.needs[s], self.kinds.get(s)] for s in sorted(self.needs)})
        others = (self.terms.digest(), self.safety.digest(), str(duplicates.CALIBRATION))
        return parts_hash((own, *others))[:12]


def issue_triage(
    issues: pl.DataFrame, vectors: np.ndarray, settings: TriageSettings, by_model: Mapping[str, str]
) -> pa.Table:
    """The table `issue_triage` of `items.issue_items`; `by_model` are summaries of a language model
    by document.
    """
    term_settings = settings.terms.of_most(issues["text"])
    weighed = items.weights(issues["title"] + "\n" + issues["text"], term_settings)
    extracted = items.summaries(issues, weighed, term_settings)
    summaries = [
        (items.shown(screened([by_model[doc_id]], items.SCREEN).texts[0]), "gemini")
        if doc_id in by_model
        else (own, "extractive")
        for doc_id, own in zip(issues["doc_id"], extracted, strict=True)
    ]
    agreements = duplicates.Agreements(issues["text"], term_settings)
    repeats: list[list[dict[str, Any]]] = [[] for _ in range(len(issues))]
    forms = [form_fields.fields_of(text) for text in issues["text"]]
    for repeat in duplicates.repeats(issues["title"], issues["text"], vectors, term_settings):
        agreed = agreements.of(repeat.row, repeat.earlier)
        both = form_fields.compared_fields(forms[repeat.row], forms[repeat.earlier])
        repeats[repeat.row].append(_repeat(issues, repeat, agreed, both))
    columns = {
        "summary": [summary for summary, _ in summaries],
        "summary_kind": [kind for _, kind in summaries],
        "missing": items.missing(issues, settings.needs),
        "duplicates": repeats,
    }
    values: Mapping[str, Any] = {name: issues[name].to_list() for name in issues.columns} | columns
    return ISSUE_TRIAGE.from_columns({name: values[name] for name in ISSUE_TRIAGE.names})


def _repeat(
    issues: pl.DataFrame,
    repeat: duplicates.Repeat,
    agreed: duplicates.Agreement | None,
    both: form_fields.Compared,
) -> dict[str, Any]:
    """An entry of `duplicates`; the bytes of its passages are those of the documents."""
    own, earlier = issues["start"][repeat.row], issues["start"][repeat.earlier]
    entry = {name: issues[name][repeat.earlier] for name in ("doc_id", "number", "title")}
    confidence = duplicates.supported(repeat.confidence(), agreed, len(both.different))
    entry |= {
        "score": round(repeat.score, 4),
        "confidence": round(confidence, 3),
        "evidence": round(agreed.share, 3) if agreed else 0.0,
        **both._asdict(),
    }
    if agreed is None:
        return entry
    return entry | {
        "passage": agreed.passage,
        "byte_start": own + agreed.byte_start,
        "byte_end": own + agreed.byte_start + len(agreed.passage.encode()),
        "earlier_passage": agreed.earlier_passage,
        "earlier_start": earlier + agreed.earlier_start,
        "earlier_end": earlier + agreed.earlier_start + len(agreed.earlier_passage.encode()),
    }


def author_vectors(issues: pl.DataFrame, chunks: pl.DataFrame, vectors: np.ndarray) -> np.ndarray:
    """For each issue the mean of the vectors of its author's text, of unit length; zeros without
    one.

    `chunks` has doc_id and at, the byte of the document at which a chunk begins, a row for each of
    `vectors`.
    """
    ends = issues.select(
        "doc_id", end=pl.col("start") + pl.col("text").str.len_bytes(), row=pl.int_range(pl.len())
    )
    of = chunks.with_row_index("n").join(ends, on="doc_id").filter(pl.col("at") < pl.col("end"))
    means = np.zeros((len(issues), vectors.shape[1]), np.float32)
    np.add.at(means, of["row"].to_numpy(), vectors[of["n"].to_numpy()])
    return means / np.maximum(
        np.linalg.norm(means, axis=1, keepdims=True), np.finfo(np.float32).tiny
    )
