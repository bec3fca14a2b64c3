"""Stages in buckets: of each bucket of mails the rows that a stage reads, and a hash of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import ibis
import pyarrow as pa

from assets.protocols.lake import Lake

BUCKETS = "mail_buckets"
"""The table that says in which bucket a mail is; with `memberships`, every stage in buckets reads it."""
_AT_ONCE = 20_000
"""Mails of the buckets whose rows are taken out of the lake together."""
_ID_COLUMNS = {"message_chunks": "doc_id"}
_STORED = ("messages", "message_chunks")
"""Tables of partitions, which have the ids that mails have in their archives."""


@dataclass(frozen=True)
class Reads:
    """The columns that a stage in buckets reads of a table; a bucket is made again when `decisive` ones of its rows change.

    All that are read are decisive if none are named.
    """

    columns: Sequence[str]
    decisive: Sequence[str] = ()


@dataclass(frozen=True)
class OfBucket:
    """The lake as a stage sees it while it makes one bucket."""

    lake: Lake
    bucket: str

    def stored(self, table: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of what is stored of the bucket; None if nothing is, or it is damaged."""
        return self.lake.stored(table, columns, self.bucket)


class Buckets:
    """The tables that a stage reads, by bucket."""

    def __init__(self, reads: Mapping[str, Reads], tables: Mapping[str, ibis.Table]):
        self.reads = reads
        self.mails, memberships = tables[BUCKETS], tables["memberships"]
        canonical = memberships.filter(memberships.is_canonical)
        joined = canonical.join(self.mails, "message_id")
        self.stored = joined.select("source", "partition", "stored_message_id", "bucket").cache()
        self.dealt = {name: self._dealt(name, tables[name]) for name in reads}

    def _dealt(self, name: str, table: ibis.Table) -> ibis.Table:
        """A table with the bucket of each row; rows of copies that are not published, and of ghosts, are in none."""
        key = _ID_COLUMNS.get(name, "message_id")
        if name not in _STORED:
            return table.view().join(self.mails, [(key, "message_id")])
        on = ["source", "partition", (key, "stored_message_id")]
        return table.view().join(self.stored, on).drop("stored_message_id")

    def fingerprints(self) -> dict[str, dict[str, str]]:
        """By bucket, for each table a hash of the decisive columns of its rows, whatever their order."""
        found: dict[str, dict[str, str]] = {
            bucket: {} for bucket in self.mails.select("bucket").distinct().to_pyarrow()["bucket"].to_pylist()
        }
        for name, reads in self.reads.items():
            table = self.dealt[name]
            row = ibis.struct({column: table[column] for column in reads.decisive or reads.columns}).hash()
            rows = table.select("bucket", row=row)
            # In halves, whose sums an integer holds.
            sums = rows.group_by("bucket").agg(
                rows=rows.count(), high=(rows.row >> 32).sum(), low=(rows.row & 0xFFFFFFFF).sum()
            )
            for bucket, *numbers in zip(*sums.to_pyarrow().to_pydict().values(), strict=True):
                found[bucket][name] = "-".join(map(str, numbers))
        return found

    def rows_of(self, buckets: Sequence[str]) -> Iterator[tuple[str, list[ibis.Table]]]:
        """Each of `buckets` with the rows of its tables, in the order of `reads`."""
        counts = self.mails.group_by("bucket").agg(mails=lambda t: t.count()).to_pyarrow().to_pydict()
        mails = dict(zip(counts["bucket"], counts["mails"], strict=True))
        for batch in _batches(buckets, mails.__getitem__):
            cached = [self._of(name, batch).cache() for name in self.reads]
            for bucket in batch:
                yield bucket, [table.filter(table.bucket == bucket).drop("bucket") for table in cached]

    def _of(self, name: str, buckets: Sequence[str]) -> ibis.Table:
        """The rows of some buckets, read from the partitions alone that have their mails."""
        table = self.dealt[name]
        if name in _STORED:
            there = self.stored.filter(self.stored.bucket.isin(buckets)).select("partition").distinct()
            table = table.filter(table.partition.isin(there.to_pyarrow()["partition"].to_pylist()))
        return table.filter(table.bucket.isin(buckets)).select("bucket", *self.reads[name].columns)


def _batches(buckets: Sequence[str], mails: Callable[[str], int]) -> Iterator[list[str]]:
    """`buckets` in their order, _AT_ONCE mails at a time or one bucket."""
    batch: list[str] = []
    for bucket in buckets:
        if batch and sum(map(mails, batch)) + mails(bucket) > _AT_ONCE:
            yield batch
            batch = []
        batch.append(bucket)
    if batch:
        yield batch
