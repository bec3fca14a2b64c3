"""The numbers of chunks in the inverted index."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_project.composition.objects import make_publisher
from tests.archives import Workspace
from transforms.errors import CheckFailedError


def renamed(table: pa.Table, old: str, new: str) -> pa.Table:
    """`table` with another id for one chunk."""
    ids = table.column("chunk_id")
    place = table.column_names.index("chunk_id")
    field = table.schema.field("chunk_id")
    return table.set_column(place, field, pc.if_else(pc.equal(ids, old), new, ids).cast(field.type))


def test_two_chunks_with_one_number_stop_the_publish_and_are_named(built: Workspace):
    partition, first, second = built.sql(
        "SELECT partition, min(chunk_id), max(chunk_id) FROM chunks WHERE source_kind = 'message' "
        "GROUP BY partition HAVING count(*) > 1 ORDER BY partition LIMIT 1"
    )[0]
    twin = first[:16] + second[16:]
    before = built.index.resolve()
    lake = built.lake
    for name in ("message_chunks", "message_terms"):
        table = lake.read(name, partition).table
        lake.stage(name, partition, renamed(table, second, twin), code_version="x", inputs={}).commit()
    partitions = dict.fromkeys(lake.partitions("messages"), "mail")
    with pytest.raises(
        CheckFailedError, match=f"chunks ({first} and {twin}|{twin} and {first}) have the same number"
    ):
        make_publisher(built.settings, lake).publish(partitions)
    assert built.index.resolve() == before
