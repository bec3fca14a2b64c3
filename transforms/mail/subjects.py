"""Subjects taken apart: reply marks, tags, and what a patch tag says of version and part."""

from __future__ import annotations

import polars as pl

_REPLY = r"(?:re|aw|antw|antwort|sv|vs|rif|ris|res|odp|ynt|ang|ref|回复|答复|回覆)"
_FORWARD = r"(?:fwd?|fw|wg|tr|rv|vl|vb|enc|pd|转发)"
_COUNT = r"\s*(?:\[\d+\]|\(\d+\)|\^\d+)?\s*[:：]"
_TAG = r"(?:\[[^\[\]]*\]|\(subset\)|subject:)"
# What stands before the title: tags, marks of replies and of forwarded mail, in any order.
_HEAD = rf"(?i)^(?:\s*(?:(?:{_REPLY}|{_FORWARD}){_COUNT}|{_TAG}))*\s*"
_REPLY_MARK = rf"(?i)^(?:\s*(?:{_FORWARD}{_COUNT}|{_TAG}))*\s*{_REPLY}{_COUNT}"
_PATCH_TAG = r"(?i)\[(?:[^\[\]]*(?:\bpatch|\brfc(?:\b|v\d))[^\[\]]*|\s*(?:v\d+\s+)?\d+\s*/\s*\d+\s*)\]"
_VERSION = r"(?i)(?:\b|patch|rfc)v[\s.]?(\d{1,3})(?:\.\d+)?\b"
_PART = r"\b(\d{1,4})\s*/\s*(\d{1,4})\b"
_TITLE_VERSION = r"(?i)(?:\s*\(|\s*\[|\s*,)\s*v(\d{1,3})\s*[)\]]?\s*$"
_BRANCH = r"(?i)(?:^|[\s\[,])(\d+\.\d+(?:\.\d+|\.y)?(?:-\d+\.\d+)?)\b"
_MAX_CHARS = 1000


def is_reply(subject: pl.Expr) -> pl.Expr:
    """True if a subject begins with `Re:` or its like in another language, tags aside."""
    return subject.str.contains(_REPLY_MARK)


def patch_subjects(subjects: pl.Series) -> pl.DataFrame:
    """What each subject says, one row per subject.

    Columns: is_reply; is_patch (a tag such as `[PATCH v3 2/7]`, `[RFC v2]` or `[3/5]` stands before
    the title); version (1 where none is named), part and parts (null if none is named), branch
    (the release a backport is for, null for others), title (lower case, without tags, marks and
    version, blanks collapsed; empty if there is nothing else).
    """
    subject = subjects.fill_null("").str.slice(0, _MAX_CHARS).alias("subject")
    head = pl.col("subject").str.extract(f"({_HEAD})", 1).fill_null("")
    rest = pl.col("subject").str.replace(_HEAD, "")
    tagged = (
        # A thread has few: each is looked at once.
        pl.DataFrame({"subject": subject.unique()})
        .with_columns(head=head, rest=rest)
        .with_columns(tag=pl.col("head").str.extract(f"({_PATCH_TAG})", 1))
    )
    is_patch = pl.col("tag").is_not_null()
    tail = pl.when(is_patch).then(pl.col("rest").str.extract(_TITLE_VERSION, 1))
    title = pl.when(is_patch).then(pl.col("rest").str.replace(_TITLE_VERSION, "")).otherwise(pl.col("rest"))
    version = pl.coalesce(pl.col("head").str.extract(_VERSION, 1), tail).cast(pl.Int64)
    without_version = pl.col("tag").str.replace_all(r"(?i)v[\s.]?\d+(?:\.\d+)?", "")
    said = tagged.select(
        "subject",
        is_reply=is_reply(pl.col("subject")),
        is_patch=is_patch,
        version=pl.when(is_patch).then(version.fill_null(1)),
        part=pl.when(is_patch).then(pl.col("head").str.extract(_PART, 1).cast(pl.Int64)),
        parts=pl.when(is_patch).then(pl.col("head").str.extract(_PART, 2).cast(pl.Int64)),
        branch=without_version.str.extract(_BRANCH, 1),
        title=title.str.replace_all(r"\s+", " ").str.strip_chars().str.to_lowercase(),
    )
    rows = pl.DataFrame({"subject": subject}).join(said, on="subject", how="left", maintain_order="left")
    return rows.drop("subject")
