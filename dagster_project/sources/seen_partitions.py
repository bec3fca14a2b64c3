"""Which partitions the lake has, and since when each has had files that are not in it yet."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from assets.partitions import SOURCE_TYPES
from assets.protocols.sources import SourcePartition
from dagster_project.lake.lake import ParquetLake
from dagster_project.ledger.ledger import Ledger, Row

_FIRST_TABLE = {source_type.name: source_type.tables[0] for source_type in SOURCE_TYPES}


class SeenPartitions:
    """By partition, the fingerprint that the lake held when a change was first found, and the time
    of that.

    While the lake holds that fingerprint the time stays, however often the files change again: it
    is that of the text that has waited longest. Without a record, texts that wait count as seen
    when they are parsed.
    """

    def __init__(self, ledger: Ledger):
        self.ledger = ledger

    def note(
        self,
        partitions: Iterable[SourcePartition],
        lake: ParquetLake,
        sources: Iterable[str] = (),
        broken: Collection[str] = (),
    ) -> None:
        """Record the time of now for every partition whose files changed since the lake's were
        made.

        Also, of each of the `sources` but those that are `broken`, that it was read now, and how
        many partitions wait.
        """
        waiting: Counter[str] = Counter()
        before, last = self.ledger.rows("changes"), self.ledger.rows("sources")
        now = datetime.now(UTC).isoformat()
        noted: dict[Row, Row] = {}
        for partition in partitions:
            key, checksum = (partition.key,), fingerprint_in_lake(partition, lake)
            previous = before.get(key)
            waiting[partition.source] += checksum != partition.fingerprint
            if checksum != partition.fingerprint and (previous is None or previous[0] != checksum):
                noted[key] = checksum, now
            elif previous:
                noted[key] = previous
        self.ledger.change("changes", before, noted)
        looks: dict[Row, Row] = {
            (s,): last.get((s,), (0, None)) if s in broken else (waiting[s], now) for s in sources
        }
        self.ledger.change("sources", last, looks)

    def times(self) -> dict[str, datetime]:
        """By partition, when its last change was found."""
        rows = self.ledger.rows("changes")
        return {str(p): datetime.fromisoformat(str(at)) for (p,), (_, at) in rows.items()}


def partitions_in_lake(lake: ParquetLake, source: str, source_type: str) -> list[SourcePartition]:
    """The partitions of a source that the lake has, with the fingerprints of the files that they
    were made from.
    """
    keys = (key.partition("/") for key in lake.partitions(_FIRST_TABLE[source_type]))
    own = (partition for name, _, partition in keys if name == source)
    partitions = (SourcePartition(source, partition, None, "", source_type) for partition in own)
    return [
        replace(partition, fingerprint=fingerprint_in_lake(partition, lake))
        for partition in partitions
    ]


def fingerprint_in_lake(partition: SourcePartition, lake: ParquetLake) -> str:
    """The fingerprint of the files that the lake's first table of a partition was made from; empty
    if there is none.
    """
    footer = lake.footer(_FIRST_TABLE[partition.source_type], partition.key)
    return footer.inputs.get("partition", "") if footer else ""
