"""The slow part of a partition, or that the partition still waits for it."""

from collections.abc import Iterable, Mapping

from assets.partitions import SLOW, SLOW_PARTS
from dagster_project.lake.lake import ParquetLake

QUEUE = "slow_queue"
_MADE_FROM = {"slow_chunks": QUEUE, "slow_exclusions": QUEUE, "slow_terms": "slow_chunks"}


def slow_hashes(lake: ParquetLake, partition: str) -> dict[str, str]:
    """The content hash of each table of the slow part; each is "" while the partition waits, none if nothing is slow.

    It waits until the tables are made of the queue that is there now.
    """
    queue = lake.footer(QUEUE, partition)
    if queue is None or not queue.row_count:
        return {}
    hashes = {QUEUE: queue.content_hash}
    for table, of in _MADE_FROM.items():
        footer = lake.footer(table, partition)
        if footer is None or footer.inputs.get(of) != hashes[of]:
            return dict.fromkeys(SLOW.tables, "")
        hashes[table] = footer.content_hash
    return {table: hashes[table] for table in SLOW.tables}


def slow_partitions(lake: ParquetLake, partitions: Iterable[str]) -> list[str]:
    """Those of `partitions` whose slow part is up to date, sorted."""
    existing = set(lake.partitions(SLOW.tables[0]))
    return sorted(p for p in existing.intersection(partitions) if any(slow_hashes(lake, p).values()))


def waiting_bytes(lake: ParquetLake, partitions: Iterable[str]) -> int:
    """Bytes of text in the queues of some partitions."""
    queues = [lake.stored(QUEUE, ["byte_start", "byte_end"], partition) for partition in partitions]
    spans = [queue.columns for queue in queues if queue is not None]
    return sum(sum(ends.to_pylist()) - sum(starts.to_pylist()) for starts, ends in spans)


def files_of(table: str, hashes: Mapping[str, str]) -> list[str]:
    """The tables of the lake whose files hold `table` for a partition with these content hashes.

    While a partition waits, its queue stands for what became no chunk yet.
    """
    part = SLOW_PARTS.get(table)
    if part is None or part not in hashes:
        return [table]
    if hashes[part]:
        return [table, part]
    return [table, QUEUE] if table == "message_exclusions" else [table]
