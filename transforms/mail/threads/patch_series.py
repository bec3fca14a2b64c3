"""Patch mails to patch series: the postings of a series, its revisions, and the discussion below
them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.hashing import text_hash
from transforms.mail.headers import patch_subjects
from transforms.mail.threads.buckets import components
from transforms.schemas.relations import PATCH_SERIES

_REVISION_DAYS = 365
"""Days between two postings of one title beyond which they are not revisions: a title comes back
after years.
"""
_POSTING_MINUTES = 60
"""Minutes within which the parts of a series that are not threaded are sent."""
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
_TIME = pl.Datetime("us", "UTC")
_SENDERS = ("from_addr", "from_name")


def patch_series(messages: pa.Table, tree: pa.Table, links: pa.Table) -> pa.Table:
    """The `patch_series` table of mails that are each present once.

    `messages` needs message_id, subject, from_addr, from_name and effective_at; `tree` is
    `thread_tree`, `links` the links between mails. A posting has the mails of one sender to one
    thread with one version and number of parts. Two postings of one sender (by address or by name)
    for one branch are revisions of each other if the title of the cover letter or of a lone patch
    is equal (of two senders: if the version is the next one, too), if at least half of the parts of
    the smaller one have equal titles, if they have equal titles and follow each other in version or
    share a thread, if the higher version is in the thread of the lower, or if a link of the later
    one says so (`v1: https://…`). A mail that is not a patch belongs to the nearest patch above it
    in its thread; a reply without one to the last patch of its subject. Deterministic, whatever the
    order of the rows.
    """
    mails = _mails(messages, tree)
    patches = _postings(mails.filter(pl.col("is_patch") & ~pl.col("is_reply")))
    edges = [*_by_title(patches), *_by_thread(patches), *_by_link(patches, links)]
    patches = patches.with_columns(series=_united(patches["posting"], edges))
    named_patches = _patch_rows(patches)
    answered = _discussed(mails, patches, tree)
    rows = pl.concat([named_patches, _replies(answered, named_patches)]).sort("message_id")
    return PATCH_SERIES.conform(rows.select(PATCH_SERIES.names).to_arrow())


def _mails(messages: pa.Table, tree: pa.Table) -> pl.DataFrame:
    """The mails with thread and the columns of `patch_subjects`, by time, then id."""
    columns = ["message_id", "subject", "from_addr", "from_name", "effective_at"]
    frame = pl.DataFrame(messages.select(columns))
    subject_columns = patch_subjects(frame["subject"])
    threads = pl.DataFrame(tree.select(["message_id", "thread_id"]))
    return (
        frame.with_columns(
            subject_columns,
            at=pl.col("effective_at").cast(_TIME).fill_null(pl.lit(_NEVER).cast(_TIME)),
            from_name=pl.col("from_name").str.to_lowercase().str.replace(r" via .*$", ""),
        )
        .with_columns(is_patch=pl.col("is_patch") & (pl.col("title") != ""))
        .join(threads, on="message_id")
        .drop("effective_at", "subject")
        .sort("at", "message_id")
    )


def _postings(patches: pl.DataFrame) -> pl.DataFrame:
    """`patches` with the number of their posting in `posting`.

    If a posting was sent twice to one thread, the second copy of a part begins the second posting.
    Parts that were sent without threading are brought together by sender, version, count and time.
    """
    kind = ["from_addr", "version", "parts", "branch"]
    alone = pl.col("parts").is_null()
    lone_id = pl.when(alone).then(pl.col("message_id"))
    numbered = patches.with_columns(
        copy=pl.int_range(pl.len()).over(["thread_id", *kind, "part"]), lone=lone_id
    ).with_columns(
        posting=pl.struct("thread_id", *kind, "copy", "lone").rank("dense").cast(pl.Int64)
    )
    series = (
        numbered.filter(~alone)
        .group_by("posting", maintain_order=True)
        .agg(
            pl.col(kind).first(),
            first=pl.col("at").min(),
            last=pl.col("at").max(),
            part_numbers=pl.col("part"),
        )
        .sort(*kind, "first", "posting")
    )
    same_kind = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift()) for c in kind)
    near = (pl.col("first") - pl.col("last").shift()) <= pl.duration(minutes=_POSTING_MINUTES)
    apart = (
        pl.col("part_numbers").list.set_intersection(pl.col("part_numbers").shift()).list.len() == 0
    )
    joined = series.with_columns(other=pl.col("posting").shift()).filter(
        (same_kind & near & apart).fill_null(False)
    )
    pairs = joined.select("posting", "other").iter_rows()
    return numbered.with_columns(posting=_united(numbered["posting"], pairs))


def _by_title(patches: pl.DataFrame) -> Iterable[tuple[int, int]]:
    """Postings whose titles make them revisions of each other."""
    is_part = pl.col("part").fill_null(1) > 0
    sizes = patches.group_by("posting").agg(
        sizes=is_part.sum(),
        version=pl.col("version").first(),
        thread_id=pl.col("thread_id").first(),
    )
    for sender in (*_SENDERS, "anybody"):
        same = [sender, "branch", "title", is_part]
        previous = (
            pl.col("posting", "at")
            .shift()
            .over(same, order_by=["at", "message_id"])
            .name.prefix("other_")
        )
        pairs = (
            patches.with_columns(anybody=pl.lit(""))
            .drop_nulls(sender)
            .with_columns(is_part.alias("is_part"), previous)
            .filter(pl.col("other_posting") != pl.col("posting"))
            .filter(pl.col("at") - pl.col("other_at") <= pl.duration(days=_REVISION_DAYS))
            .group_by("posting", "other_posting")
            .agg(shared=pl.len(), head=(pl.col("parts").is_null() | ~pl.col("is_part")).any())
            .join(sizes, on="posting")
            .join(sizes, left_on="other_posting", right_on="posting", suffix="_other")
        )
        half = 2 * pl.col("shared") >= pl.min_horizontal("sizes", "sizes_other")
        following = (pl.col("version") - pl.col("version_other")) == 1
        together = pl.col("thread_id") == pl.col("thread_id_other")
        alike = pl.col("head") | half | following | together
        revisions = pairs.filter(pl.col("head") & following if sender == "anybody" else alike)
        yield from revisions.select("posting", "other_posting").iter_rows()


def _by_thread(patches: pl.DataFrame) -> Iterable[tuple[int, int]]:
    """Postings of one sender in one thread, the later one of a higher version."""
    postings = patches.group_by("posting").agg(
        pl.col("thread_id", "from_addr", "branch", "version", "at").first()
    )
    same = ["thread_id", "from_addr", "branch"]
    previous = (
        pl.col("posting", "version")
        .shift()
        .over(same, order_by=["at", "posting"])
        .name.prefix("other_")
    )
    later = postings.drop_nulls("from_addr").with_columns(previous)
    revisions = later.filter(pl.col("version") > pl.col("other_version"))
    yield from revisions.select("posting", "other_posting").iter_rows()


def _by_link(patches: pl.DataFrame, links: pa.Table) -> Iterable[tuple[int, int]]:
    """Postings that name an earlier one of their sender as a version of theirs."""
    linked = pl.DataFrame(links.select(["from_id", "to_id", "kind"])).filter(
        pl.col("kind").str.contains(r"^v\d+$")
    )
    ends = patches.select("message_id", "posting", *_SENDERS)
    pairs = linked.join(ends, left_on="from_id", right_on="message_id").join(
        ends, left_on="to_id", right_on="message_id", suffix="_other"
    )
    same = pl.any_horizontal(pl.col(s) == pl.col(f"{s}_other") for s in _SENDERS)
    yield from pairs.filter(same).select("posting", "posting_other").iter_rows()


def _united(postings: pl.Series, edges: Iterable[tuple[int, int]]) -> pl.Series:
    """For each of these postings the smallest of its connected component."""
    one, other = np.array(list(edges), dtype=np.int64).reshape(-1, 2).T
    nodes = postings.to_numpy()
    return pl.Series(components(int(nodes.max(initial=-1)) + 1, one, other)[nodes])


def _patch_rows(patches: pl.DataFrame) -> pl.DataFrame:
    """The rows of the patch mails: ids after the earliest mail, the previous revision, and which is
    latest.
    """
    by_time = ["at", "message_id"]
    latest = pl.col("posting").sort_by("version", "started", "posting").last().over("series")
    is_cover = pl.col("part").fill_null(1) == 0
    head = is_cover | pl.col("parts").is_null()
    revision_of_title = (
        pl.col("message_id", "posting")
        .shift()
        .over(["series", "title", is_cover], order_by=by_time)
    )
    frame = patches.with_columns(
        revision_of_title.name.prefix("titled_"),
        is_cover=is_cover,
        head=head,
        started=pl.col("at").min().over("posting"),
        first=pl.col("message_id").sort_by(by_time).first().over("posting"),
        eldest=pl.col("message_id").sort_by(by_time).first().over("series"),
    ).with_columns(
        pl.col("message_id", "posting")
        .shift()
        .over(["series", "head"], order_by=by_time)
        .name.prefix("headed_"),
        is_latest=pl.col("posting") == latest,
    )
    titled = pl.when(pl.col("titled_posting") != pl.col("posting")).then(
        pl.col("titled_message_id")
    )
    headed = pl.when(pl.col("head") & (pl.col("headed_posting") != pl.col("posting"))).then(
        pl.col("headed_message_id")
    )
    hashed = pl.col("eldest", "first").map_elements(text_hash, return_dtype=pl.String)
    return frame.select(
        *("message_id", "version", "part", "parts", "title", "is_cover", "is_latest"),
        hashed.name.map({"eldest": "series_id", "first": "posting_id"}.__getitem__),
        patch_id="message_id",
        is_reply=pl.lit(False),
        previous_id=pl.coalesce(titled, headed),
    )


def _discussed(mails: pl.DataFrame, patches: pl.DataFrame, tree: pa.Table) -> pl.DataFrame:
    """Columns message_id and patch_id: the patch that each other mail discusses."""
    nearest = {i: i for i in patches["message_id"].to_list()}
    by_depth = pl.DataFrame(tree.select(["message_id", "parent_id", "depth"])).sort("depth")
    for message_id, parent_id, _ in by_depth.iter_rows():
        if message_id not in nearest and parent_id in nearest:
            nearest[message_id] = nearest[parent_id]
    others = mails.join(patches, on="message_id", how="anti")
    below = others.with_columns(
        patch_id=pl.Series(
            [nearest.get(i) for i in others["message_id"].to_list()], dtype=pl.String
        )
    )
    unplaced = below.filter(pl.col("patch_id").is_null() & pl.col("is_patch")).drop("patch_id")
    key = ["title", "version", "part"]
    patch_keys = patches.select("at", *key, patch_id="message_id").with_columns(
        pl.col("part").fill_null(-1)
    )
    matches = unplaced.with_columns(pl.col("part").fill_null(-1)).join_asof(
        patch_keys.sort("at", "patch_id"),
        on="at",
        by=key,
        tolerance=f"{_REVISION_DAYS}d",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    frames = [frame.select("message_id", "patch_id").drop_nulls() for frame in (below, matches)]
    return pl.concat(frames)


def _replies(discussed: pl.DataFrame, patches: pl.DataFrame) -> pl.DataFrame:
    """The rows of the mails that discuss patches."""
    about = patches.drop("message_id")
    return (
        discussed.join(about, on="patch_id")
        .with_columns(is_reply=pl.lit(True), previous_id=pl.lit(None, dtype=pl.String))
        .select(patches.columns)
    )
