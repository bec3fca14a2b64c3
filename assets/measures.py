"""Measures of the mail of each list: counts of each bucket of mails, and their sums over the whole lake."""

from collections.abc import Sequence

import ibis
import pyarrow as pa

from assets.stages.buckets import Reads
from assets.stages.declaration import Made, Stage
from transforms.mail.threads import corpus_measures as measures
from transforms.schemas.operations import CORPUS_MEASURES, MEASURE_COUNTS

_READS = {
    "messages": Reads(
        ("message_id", "list_id", "defects", "body"), ("message_id", "list_id", "content_hash", "raw_bytes")
    ),
    "message_blocks": Reads(measures.BLOCK_COLUMNS),
    "message_chunks": Reads(measures.CHUNK_COLUMNS, ("doc_id", "chunk_id")),
    "attachments": Reads(("message_id",)),
    "thread_tree": Reads(("message_id", "parent_id", "thread_id")),
}
"""What a bucket is measured by. The id of a chunk stands for its text."""


def measure_stages() -> Sequence[Stage]:
    """The stages of the measures of each list, which a publish shows."""
    return (
        Stage(
            "measure_counts",
            {"measure_counts": MEASURE_COUNTS},
            _counts,
            measures.VERSION,
            "Counts quotes, duplicates, parents, defects and kinds of discussion in each bucket of mails.",
            inputs=(*_READS, "memberships"),
            in_buckets=_READS,
            deps=("slow_chunks",),
            code=measures.counts_of_bucket,
        ),
        Stage(
            "corpus_measures",
            {"corpus_measures": CORPUS_MEASURES},
            _sums,
            measures.VERSION,
            "Adds up the measures of each list over all buckets, which Dagster draws over time.",
            inputs=("measure_counts",),
            code=measures.corpus_measures,
        ),
    )


def _counts(*tables: pa.Table) -> pa.Table:
    return measures.counts_of_bucket(measures.MailTables(*tables))


def _sums(counts: ibis.Table) -> Made:
    measured = measures.corpus_measures(counts.to_pyarrow())
    return Made([measured], measures.as_metadata(measured))
