"""Stages in buckets: of each bucket of mails the rows that a stage reads, and a hash of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.compute as pc

from assets.protocols.lake import Lake

BUCKETS = "mail_buckets"
"""The table that says in which bucket a mail is; with `memberships`, every stage in buckets reads
it.
"""
_AT_ONCE = 20_000
"""Mails of the buckets whose rows are taken out of the lake together."""
_ID_COLUMNS = {"message_chunks": "doc_id"}


def id_column(table: str) -> str:
    """The column of a table in buckets that names the mail of a row."""
    return _ID_COLUMNS.get(table, "message_id")


PartsOf = Callable[[str, Sequence[str]], ibis.Table]
_STORED = ("messages", "message_chunks", "attachments")
"""Tables of partitions, which have the ids that mails have in their archives."""


Reads = Mapping[str, Sequence[str]]
"""The columns that a stage in buckets reads of its tables."""
_DECISIVE = {
    "messages": (
        *(
            "message_id",
            "source",
            "partition",
            "list_id",
            "in_reply_to",
            "refs",
            "subject",
            "effective_at",
        ),
        *("from_addr", "content_hash", "raw_bytes"),
    ),
    "message_chunks": (
        *(
            "doc_id",
            "chunk_id",
            "attachment_id",
            "needs_parent",
            "chunk_index",
            "title",
            "spans",
            "checksum",
        ),
    ),
}
"""The columns of a table whose changes make a bucket stale, by default those that a stage reads.

They are those of all stages, so that a run hashes a table once. The id of a chunk changes with its
text.
"""


@dataclass(frozen=True)
class OfBucket:
    """The lake as a stage sees it while it makes one bucket."""

    lake: Lake
    bucket: str

    def stored(self, table: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the stored part of the bucket; None if it is missing or damaged."""
        return self.lake.stored(table, columns, self.bucket)

    def evaluated(self, expression: Callable[..., ibis.Table], *tables: pa.Table) -> pa.Table:
        """The rows of an expression of the rows of the bucket."""
        return self.lake.evaluated(expression, *tables)


class Buckets:
    """The tables that a stage reads, by bucket: of mails and chunks those that are published, under
    their final ids.
    """

    def __init__(
        self, reads: Reads, tables: Mapping[str, ibis.Table], parts: PartsOf, shared: dict[Any, Any]
    ):
        """`shared` has the results that the stages of a run share; the new ones are added to it."""
        self.reads, self.tables, self.mails, self.parts = reads, tables, tables[BUCKETS], parts
        self.shared = shared
        if "published" not in shared:
            published = tables["memberships"].filter(tables["memberships"].is_canonical)
            joined = published.join(self.mails, "message_id")
            names = ("source", "partition", "stored_message_id", "bucket")
            shared["published"] = joined.select(*names, published_id=joined.message_id).cache()
        self.published: ibis.Table = shared["published"]
        self.mail_counts: dict[str, int] = {}

    def _dealt(self, name: str, table: ibis.Table) -> ibis.Table:
        """A table with the bucket of each row; rows of copies that are not published, and of
        ghosts, are in none.
        """
        key = id_column(name)
        names = dict.fromkeys((key, *self.reads[name], *_DECISIVE.get(name, ())))
        if name not in _STORED:
            return table.select(*names).view().join(self.mails, [(key, "message_id")])
        narrow = table.select(*(names | dict.fromkeys(("source", "partition")))).view()
        on = ["source", "partition", (key, "stored_message_id")]
        return narrow.join(self.published, on).mutate(**{key: lambda t: t.published_id})

    def fingerprints(self) -> dict[str, dict[str, str]]:
        """By bucket, for each table a hash of the decisive columns of its rows, whatever their
        order.
        """
        keys = {
            name: (self.tables[name].get_name(), *_DECISIVE.get(name, columns))
            for name, columns in self.reads.items()
        }
        rows = [self.mails.select("bucket", table=ibis.literal(""), row=ibis.literal(0, "int64"))]
        for name, (_, *columns) in keys.items():
            if keys[name] not in self.shared:
                table = self._dealt(name, self.tables[name])
                row = ibis.struct({column: table[column] for column in columns}).hash()
                rows.append(table.select("bucket", table=ibis.literal(name), row=row))
        for bucket, table, count, row_hash in fingerprints(ibis.union(*rows), ("bucket", "table")):
            if table:
                self.shared.setdefault(keys[table], {})[bucket] = row_hash
            else:
                self.mail_counts[bucket] = count
        hashes = {name: self.shared.get(key, {}) for name, key in keys.items()}
        return {
            bucket: {
                name: of_table[bucket] for name, of_table in hashes.items() if bucket in of_table
            }
            for bucket in self.mail_counts
        }

    def rows_of(self, buckets: Sequence[str]) -> Iterator[tuple[str, list[pa.Table]]]:
        """Each of `buckets` with the rows of its tables, in the order of `reads`; after
        `fingerprints`.
        """
        for batch in sized_groups(buckets, self.mail_counts, _AT_ONCE):
            there = (
                self.published.filter(self.published.bucket.isin(batch))
                .select("partition")
                .distinct()
            )
            partitions = sorted(there.to_pyarrow()["partition"].to_pylist())
            tables = [self._of(name, batch, partitions).to_pyarrow() for name in self.reads]
            for bucket in batch:
                rows = [
                    t.filter(pc.equal(t["bucket"], bucket)).drop_columns("bucket") for t in tables
                ]
                yield bucket, rows

    def _of(self, name: str, buckets: Sequence[str], partitions: Sequence[str]) -> ibis.Table:
        """The rows of some buckets, of the files of `partitions`: a filter over all opens each, and
        reads rows of many.
        """
        table = self._dealt(
            name, self.parts(name, partitions) if name in _STORED else self.tables[name]
        )
        return table.filter(table.bucket.isin(buckets)).select("bucket", *self.reads[name])


def sized_groups(names: Iterable[str], sizes: Mapping[str, int], most: int) -> list[list[str]]:
    """`names` in their order, in groups whose sizes add up to `most`; one that is larger is a group
    by itself.
    """
    result: list[list[str]] = []
    size = 0
    for name in names:
        if not result or size + sizes[name] > most:
            result.append([])
            size = 0
        result[-1].append(name)
        size += sizes[name]
    return result


def fingerprints(rows: ibis.Table, by: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """For each group of `rows`, which have the columns `by` and `row` (int64, the hash of a row):
    its values of `by`, the number of its rows, and a hash of them whatever their order, sorted.
    """
    # In halves, whose sums an integer holds.
    sums = rows.group_by(*by).agg(
        rows=rows.count(), high=(rows.row >> 32).sum(), low=(rows.row & 0xFFFFFFFF).sum()
    )
    for *names, count, high, low in zip(
        *sums.order_by(*by).to_pyarrow().to_pydict().values(), strict=True
    ):
        yield *names, count, f"{count}-{high}-{low}"
