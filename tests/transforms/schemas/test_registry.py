"""The registry of the lake's tables."""

from dagster_project.index.publish.table_sql import ADDED, PARTITIONED, WHOLE_SQL
from tests.transforms.schemas.test_table import DECLARED
from transforms.schemas.registry import (
    REGISTRY,
    lake_names,
    lake_registry,
    lake_wide_inputs,
    tables_of,
)

NOT_IN_THE_LAKE = {"search_hits"}


def test_every_declared_table_has_an_entry():
    known = {table.schema.name for table in REGISTRY.values()}
    assert set(DECLARED) - known == NOT_IN_THE_LAKE


def test_what_is_published_is_a_table_of_the_published_file():
    published = {table.published for table in REGISTRY.values() if table.published}
    assert published - {"readiness"} == {*PARTITIONED, *WHOLE_SQL} - ADDED.keys()
    assert lake_names("chunks") == ("message_chunks", "document_chunks", "conversation_chunks")


def test_the_tables_of_partitions_and_those_over_the_whole_lake_are_all_that_a_publish_reads():
    groups = ("mail", "documents", "conversations")
    inputs = {name for name, table in REGISTRY.items() if table.is_input}
    assert {*(t for g in groups for t in tables_of(g)), *lake_wide_inputs()} == inputs
    assert tables_of("mail")[0] == "messages"


def test_vectors_have_the_dimensions_that_are_asked_for():
    assert lake_registry(256)["embeddings"].schema.arrow.field("vector").type.list_size == 256
