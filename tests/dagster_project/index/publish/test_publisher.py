"""Which version is current after a publish, and what stops one."""

import os
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_project.composition.objects import make_publisher
from dagster_project.lake.forgotten import Forgotten
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
        lake.stage(
            name, partition, renamed(table, second, twin), code_version="x", inputs={}
        ).commit()
    partitions = dict.fromkeys(lake.partitions("messages"), "mail")
    with pytest.raises(
        CheckFailedError,
        match=f"chunks ({first} and {twin}|{twin} and {first}) have the same number",
    ):
        make_publisher(built.settings, lake).publish(partitions)
    assert built.index.resolve() == before


def test_the_last_version_is_current_and_stays_until_what_is_to_be_forgotten_ends_all(
    built: Workspace,
):
    """Whatever the clock says: the two before have later times."""
    partitions = [*dict.fromkeys(built.lake.partitions("messages"), "mail").items()]
    publisher, made = make_publisher(built.settings, built.lake), [built.index.resolve()]
    later = time.time() + 999
    assert not publisher.publish(dict(partitions)).is_new
    for part in (dict(partitions[:-1]), dict(partitions[1:])):
        os.utime(made[-1], (later, later))
        made.append(publisher.publish(part).path)
        assert publisher.current() == made[-1] and publisher.is_current(part)
        assert not publisher.is_current(dict(partitions))
    assert set(publisher.folder.glob("weft-*.duckdb")) == set(made[1:])
    Forgotten(built.lake.base).begin([])
    assert not publisher.is_current(part)
    done = publisher.publish(part)
    assert done.is_new and not done.reused
    assert [*publisher.folder.glob("weft-*.duckdb")] == [publisher.current()] == made[2:]
