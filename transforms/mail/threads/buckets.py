"""Buckets of mails that can belong together, so that each bucket can be related by itself."""

import bisect
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from transforms.mail.threads.threads import answered_by_subject
from transforms.schemas.relations import MAIL_BUCKETS
from transforms.settings.mail import ThreadSettings

_MOST = 2_000
"""Mails from which a bucket is split, as long as they began in different seconds."""
_LEVELS = 37
"""A bucket of level 37 spans 2^37 seconds, 4,355 years: the first two are all time before 1970 and
all time since.
"""
_NEVER = (1 << _LEVELS) - 1
"""The second in which a component begins that has no mail with a time."""
_Ints = npt.NDArray[np.int64]


def mail_buckets(mails: pa.Table, lists: pa.Table, settings: ThreadSettings) -> pa.Table:
    """The `mail_buckets` table of mails that are each present once.

    `mails` needs message_id, in_reply_to, refs, subject and effective_at, `lists` message_id and
    list_id. Mails that are joined by an id that one names of another, or that both name, or by
    their subject as `build_threads` takes it, are one component and come into one bucket: that of
    the second in which its earliest mail was sent. A bucket is an aligned span of 2^level seconds,
    halved while more than _MOST mails are in it. So late mail changes the buckets of its own
    threads, mostly the youngest, and no other.
    """
    frame = pl.DataFrame(
        mails.select(["message_id", "in_reply_to", "refs", "effective_at"])
    ).with_row_index("row")
    named_ids = (
        frame.select("row", "message_id", named=pl.concat_list("refs", "in_reply_to"))
        .explode("named")
        .filter(pl.col("named") != pl.col("message_id"))
    )
    has_no_parent = np.ones(len(frame), dtype=bool)
    has_no_parent[named_ids.filter(pl.col("named") != "").get_column("row").to_numpy()] = False
    named_ids = named_ids.drop("row")
    answered = answered_by_subject(mails, lists, pl.Series(has_no_parent), settings)
    pairs = pl.concat(
        [
            named_ids,
            pl.DataFrame(
                {"message_id": answered.keys(), "named": answered.values()}, named_ids.schema
            ),
        ]
    )
    # Equal hashes of different ids would only bring their components into one bucket.
    own = frame["message_id"].hash(seed=0).to_numpy()
    ends = [pairs[name].hash(seed=0).to_numpy() for name in ("message_id", "named")]
    nodes, places = np.unique(np.concatenate([own, *ends]), return_inverse=True)
    rows, above, below = np.split(places.astype(np.int64), [len(own), len(own) + len(ends[0])])
    component = components(len(nodes), above, below)[rows]
    seconds = frame["effective_at"].cast(pl.Int64) // 1_000_000
    begins = np.full(len(nodes), _NEVER, dtype=np.int64)
    np.minimum.at(begins, component, seconds.fill_null(_NEVER).to_numpy())
    table = pl.DataFrame(
        {"message_id": frame["message_id"], "bucket": bucket_names(begins[component])}
    )
    return MAIL_BUCKETS.conform(table.sort("bucket", "message_id").to_arrow())


def components(count: int, above: _Ints, below: _Ints) -> _Ints:
    """For each of `count` nodes the smallest of its connected component; `above` and `below` are
    the ends of the edges.

    Each round hangs the root of one end below that of the other and then lets every node point to
    its root, which leaves few rounds (after Shiloach and Vishkin, An O(log n) parallel connectivity
    algorithm, 1982).
    """
    root = np.arange(count)
    while len(above):
        one, other = root[above], root[below]
        apart = one != other
        above, below = above[apart], below[apart]
        np.minimum.at(root, np.maximum(one, other)[apart], np.minimum(one, other)[apart])
        while not np.array_equal(root, higher := root[root]):
            root = higher
    return root


def bucket_names(seconds: _Ints) -> pl.Series:
    """The bucket of each mail, of the second in which its component begins: `_<level>/<number>`.

    That bucket begins at the second number * 2^level of 1970 and ends 2^level seconds later.
    """
    ordered = np.sort(seconds)
    spans = list(_spans(ordered.tolist(), -(1 << _LEVELS), _LEVELS)) + list(
        _spans(ordered.tolist(), 0, _LEVELS)
    )
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    names = pl.Series([f"_{level}/{start >> level}" for start, level in spans], dtype=pl.String)
    return names.gather(np.searchsorted(starts, seconds, side="right") - 1)


def _spans(ordered: Sequence[int], start: int, level: int) -> Iterator[tuple[int, int]]:
    """Start and level of the buckets in a span that have mails, by time."""
    count = bisect.bisect_left(ordered, start + (1 << level)) - bisect.bisect_left(ordered, start)
    if count > _MOST and level:
        yield from _spans(ordered, start, level - 1)
        yield from _spans(ordered, start + (1 << level - 1), level - 1)
    elif count:
        yield start, level
