"""Relational transforms give one result, whatever their tables are and whichever engine runs them."""

import importlib
import inspect
import pkgutil
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, get_type_hints

import ibis
import polars as pl
import pyarrow as pa
import pytest
from ibis.backends import BaseBackend

import transforms
from assets.partitions import SOURCE_TYPES
from dagster_project.lake.io_manager import LakeIOManager
from tests.archives import Mail, Once, Workspace, two_lists
from transforms.embedding import context_sentences, embedded_text, sent_texts
from transforms.mail.threads import corpus_measures, references, threads
from transforms.operations import publish_checks
from transforms.settings.models import SafetySettings

QUOTED = """The planner looks at every index of a table before it takes the first one of them,
which costs a millisecond a table, and more where a table has many of them to look at,
so that a query over a hundred tables takes a tenth of a second before it has begun."""
TABLES = (
    "messages",
    "message_chunks",
    "documents",
    "document_chunks",
    "conversation_chunks",
    "memberships",
    "threads",
    "thread_tree",
    "inferred_quotes",
    "chunk_context",
    "embeddings",
    "embedding_refusals",
    "message_references",
    "measure_counts",
)


@pytest.fixture(scope="module")
def lake_tables(tmp_path_factory: pytest.TempPathFactory, once: Once) -> dict[str, ibis.Table]:
    """The tables of a built lake with mail and notes, opened as assets open them."""
    work = two_lists(tmp_path_factory.mktemp("relational") / "work")
    work.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
        {"name": "notes", "kind": "vault", "path": "notes"},
    )
    replies = [
        Mail(
            400,
            f"A question about it.\n\n{QUOTED}\n\nIs that so? Write to ann@example.org.",
            "Planner",
        ),
        Mail(
            401,
            f"{QUOTED}\n\nNo, it takes the first one that fits.",
            "Re: Planner",
            400,
            "bo@example.org",
        ),
        Mail(
            402,
            f"> {QUOTED}".replace("\n", "\n> ") + "\n\nIt was so in March.",
            "Re: Planner",
            400,
            "cy@example.org",
        ),
    ]
    fixes = [
        Mail(403, "Look at less.", "[PATCH] planner: look at less"),
        Mail(404, 'Fixes: 0123456789ab ("planner: look at less")', "[PATCH] planner: look at more"),
    ]
    work.write("dev/dev.2004-03.mbox", [*replies, *fixes])
    work.put(
        "notes/Compaction.md",
        "# Compaction\n\nRuns become one.\n\n## Pauses\n\nA pause is a fault.\n",
    )
    return opened(once(work))


def opened(work: Workspace) -> dict[str, ibis.Table]:
    """TABLES by name, over all partitions, and the mails with parsed titles."""
    manager = LakeIOManager(work.lake)
    parted = {table for source_type in SOURCE_TYPES for table in source_type.tables}
    tables = {
        t: manager.table(t, work.lake.partitions(t) if t in parted else [None]) for t in TABLES
    }
    titled = references.titled_mails(tables["messages"].to_pyarrow())
    return tables | {"titled_mails": ibis.memtable(titled)}


def as_a_join(table: ibis.Table) -> ibis.Table:
    """The table as a join with computed columns, such as `texts_to_embed` and other transforms
    return.
    """
    key = table.columns[0]
    other = table.select(other_key=key).distinct()
    joined = table.view().left_join(other, [(key, "other_key")])
    return joined.select(
        **{name: ibis.coalesce(joined[name], joined[name]) for name in table.columns}
    )


FORMS: Mapping[str, Callable[[ibis.Table], ibis.Table]] = {
    "of a lake": lambda table: table,
    "joined": as_a_join,
}


def _texts(t: SimpleNamespace) -> ibis.Table:
    return t.form(embedded_text.texts_to_embed(t.message_chunks, t.chunk_context))


def _requoted(t: SimpleNamespace) -> ibis.Table:
    return t.form(threads.canonical(t.message_chunks, t.memberships, "doc_id"))


CASES: Mapping[str, Callable[[SimpleNamespace], Any]] = {
    "operations.publish_checks.rule_violations": lambda t: publish_checks.rule_violations(
        t.message_chunks, t.chunk_context, t.embeddings, t.embedding_refusals, "another model", 256
    ),
    "embedding.embedded_text.parent_context": lambda t: embedded_text.parent_context(
        _requoted(t), t.messages, t.thread_tree, t.inferred_quotes
    ),
    "embedding.embedded_text.parent_texts": lambda t: embedded_text.parent_texts(
        t.message_chunks, t.thread_tree
    ),
    "embedding.embedded_text.published_chunks": lambda t: embedded_text.published_chunks(
        t.message_chunks, t.document_chunks, t.conversation_chunks, t.memberships
    ),
    "embedding.embedded_text.chunks_with_quotes": lambda t: embedded_text.chunks_with_quotes(
        _requoted(t), t.inferred_quotes
    ),
    "embedding.embedded_text.quoting_bodies": lambda t: embedded_text.quoting_bodies(
        t.messages, t.inferred_quotes
    ),
    "embedding.embedded_text.texts_by_partition": lambda t: embedded_text.texts_by_partition(
        _texts(t)
    ),
    "embedding.embedded_text.texts_to_embed": lambda t: embedded_text.texts_to_embed(
        t.message_chunks, t.chunk_context
    ),
    "embedding.sent_texts.texts_sent": lambda t: sent_texts.texts_sent(_texts(t), SafetySettings()),
    "embedding.context_sentences.chunk_facts": lambda t: context_sentences.chunk_facts(
        t.document_chunks.union(t.message_chunks),
        context_sentences.FactTables(t.messages, t.thread_tree, t.threads, t.documents),
    ),
    "embedding.embedded_text.embedded_chunks": lambda t: embedded_text.embedded_chunks(
        t.document_chunks, t.chunk_context, t.embeddings
    ),
    "embedding.embedded_text.batches": lambda t: embedded_text.batches(
        _texts(t), t.chunk_context.order_by("checksum").checksum.to_pyarrow().to_pylist(), 2
    ),
    "mail.threads.corpus_measures.corpus_measures": lambda t: corpus_measures.corpus_measures(
        t.measure_counts
    ),
    "mail.threads.references.message_links": lambda t: references.message_links(
        t.message_references, t.titled_mails
    ),
    "mail.threads.threads.canonical": lambda t: threads.canonical(t.messages, t.memberships),
    "mail.threads.threads.memberships": lambda t: threads.memberships(t.messages),
}


WINDOWED = {
    "embedding.embedded_text.parent_context",
    "embedding.embedded_text.parent_texts",
    "mail.threads.corpus_measures.corpus_measures",
    "mail.threads.threads.memberships",
}
"""Ibis translates no window to Polars."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_a_relational_transform_does_not_depend_on_what_its_tables_are(
    lake_tables: dict[str, ibis.Table], name: str
):
    def of(form: Callable[[ibis.Table], ibis.Table]) -> list[Any]:
        made = {table: form(stored) for table, stored in lake_tables.items()}
        return rows(CASES[name](SimpleNamespace(**made, form=form)))

    expected = of(lambda table: ibis.memtable(table.to_pyarrow()))
    assert expected, f"{name} returns no rows, so nothing is compared"
    for form in FORMS:
        assert of(FORMS[form]) == expected, form


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(set(CASES) - WINDOWED))
def test_a_relational_transform_runs_on_polars(lake_tables: dict[str, ibis.Table], name: str):
    assert of_case(name, copied(lake_tables, ibis.polars.connect())) == of_case(name, lake_tables)


@pytest.fixture(scope="module")
def on_spark(
    lake_tables: dict[str, ibis.Table], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ibis.Table]]:
    pyspark = pytest.importorskip("pyspark.sql", reason="the extra `spark` is not installed")
    if not shutil.which("java"):
        pytest.skip("Spark needs Java")
    builder = pyspark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = (
        builder.config("spark.sql.warehouse.dir", warehouse)
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield copied(lake_tables, ibis.pyspark.connect(session))
    session.stop()


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")  # PySpark calls what pandas 3 deprecates
@pytest.mark.parametrize("name", CASES)
def test_a_relational_transform_runs_on_spark(
    lake_tables: dict[str, ibis.Table], on_spark: dict[str, ibis.Table], name: str
):
    assert [in_utc(row) for row in of_case(name, on_spark)] == of_case(name, lake_tables)


def in_utc(row: Any) -> Any:
    """A row of Spark, which leaves out that its moments are in UTC."""
    if not isinstance(row, dict):
        return row
    return {k: v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for k, v in row.items()}


def copied(tables: dict[str, ibis.Table], engine: BaseBackend) -> dict[str, ibis.Table]:
    """Copies of the tables in an engine."""
    return {name: engine.create_table(name, stored.to_pyarrow()) for name, stored in tables.items()}


def of_case(name: str, tables: dict[str, ibis.Table]) -> list[Any]:
    """All that a transform returns over the tables."""
    return rows(CASES[name](SimpleNamespace(**tables, form=lambda table: table)))


def rows(result: Any) -> list[Any]:
    """All that a transform returns, in one order."""
    match result:
        case str():
            return [result]
        case ibis.Table():
            return rows(result.to_pyarrow())
        case pl.DataFrame():
            return rows(result.to_arrow())
        case pa.Table() | pa.RecordBatch():
            return sorted(result.to_pylist(), key=repr)
        case sent_texts.Sent():
            return [
                *rows(result.texts),
                sorted(result.renamed.items()),
                result.finds,
                result.withheld,
            ]
        case dict():
            return [(name, row) for name, part in sorted(result.items()) for row in rows(part)]
        case Iterator():
            return sorted((row for part in result for row in rows(part)), key=repr)
        case tuple():
            return [row for part in result for row in rows(part)]
    raise AssertionError(f"{type(result)} cannot be compared")


def test_every_relational_transform_is_among_these():
    assert set(relational()) == set(CASES)


def relational() -> Iterator[str]:
    """The public functions of transforms that take Ibis tables, alone or as fields of a record."""
    for module in pkgutil.walk_packages(transforms.__path__, "transforms."):
        loaded = importlib.import_module(module.name)
        for name, function in inspect.getmembers(loaded, inspect.isfunction):
            if function.__module__ == loaded.__name__ and not name.startswith("_"):
                hints = get_type_hints(function)
                if any(_has_tables(kind) for given, kind in hints.items() if given != "return"):
                    yield f"{module.name.removeprefix('transforms.')}.{name}"


def _has_tables(kind: Any) -> bool:
    fields = (
        get_type_hints(kind)
        if inspect.isclass(kind) and kind.__module__.startswith("transforms")
        else {}
    )
    return kind is ibis.Table or ibis.Table in fields.values()
