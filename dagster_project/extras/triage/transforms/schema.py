"""The schema of `issue_triage`."""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.table import SOURCE, TIME, Column, Table, required

_FIND = pa.struct([("kind", pa.string()), ("count", pa.int64())])
_REPEAT = pa.struct(
    [
        ("doc_id", pa.string()),
        ("number", pa.int64()),
        ("title", pa.string()),
        ("score", pa.float64()),
        ("confidence", pa.float64()),
        ("passage", pa.string()),
        ("byte_start", pa.int64()),
        ("byte_end", pa.int64()),
        ("earlier_passage", pa.string()),
        ("earlier_start", pa.int64()),
        ("earlier_end", pa.int64()),
    ]
)

ISSUE_TRIAGE = Table(
    "issue_triage",
    "One issue: what it says, what it holds that should not go round, what it lacks, which earlier ones it may repeat.",
    ("doc_id",),
    (
        required("doc_id", pa.string(), "the document"),
        SOURCE,
        Column("number", pa.int64(), "number in its tracker"),
        required("title", pa.string(), "its title, masked"),
        required("state", pa.string(), "open or closed; empty if the export does not say"),
        required("url", pa.string(), "its address; empty if the export has none"),
        Column("created_at", TIME, "when it was written"),
        required("summary", pa.string(), "what it says, masked, on one line without addresses"),
        required("summary_kind", pa.string(), "extractive: its own sentences; gemini: a language model's"),
        required(
            "found",
            pa.list_(_FIND),
            "secrets and personal data in it and its comments by kind, and `instruction` for what speaks to a program",
        ),
        required("missing", pa.list_(pa.string()), "what `needs` of its source names and nothing in it has"),
        required(
            "duplicates",
            pa.list_(_REPEAT),
            "the likeliest earlier issues, best first, with score, confidence (0 to 1), and of both the passages that "
            "agree most, masked, with their UTF-8 bytes in the documents; null where no word agrees",
        ),
    ),
)

TABLES = (ISSUE_TRIAGE,)
