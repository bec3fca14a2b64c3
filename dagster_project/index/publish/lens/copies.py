"""The copies of mails under a lens, and relations of its mails and documents, as an index of them
alone has them.
"""

import duckdb
import polars as pl
import pyarrow as pa

from assets.partitions import IN_PARTS
from dagster_project.index.publish.lake_views import LakeViews
from dagster_project.index.publish.table_sql import BUILD
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.lake_backend import result_of
from dagster_project.system.sql_files import SqlFile
from transforms.documents.links import document_links, document_references
from transforms.embedding import embedded_text as embedded
from transforms.mail.address_uses import COLUMNS, address_uses
from transforms.mail.people import people
from transforms.mail.threads.inferred_quotes import inferred_quotes
from transforms.mail.threads.patch_series import patch_series
from transforms.mail.threads.references import message_links, message_references, titled_mails
from transforms.mail.threads.threads import build_threads, memberships
from transforms.schemas.mail import ADDRESS_USES
from transforms.settings.mail import ThreadSettings
from transforms.settings.search import TermSettings
from transforms.text.terms import chunk_terms, context_terms

_SQL = SqlFile(__file__, "copies.sql")
_MAILS_AT_ONCE = 5_000
OTHER = {
    "messages": ("messages", "message_id"),
    "blocks": ("message_blocks", "message_id"),
    "trailers": ("message_trailers", "message_id"),
    "attachments": ("attachments", "message_id"),
    "exclusions": ("message_exclusions", "doc_id"),
    "chunks": ("message_chunks", "doc_id"),
}
"""By published table the table of the lake, and its column with the id of a mail."""


def judge(connection: duckdb.DuckDBPyConnection, copies: pl.DataFrame, lake: ParquetLake) -> None:
    """Make `lens_memberships`; `others`, the copies whose rows are not those of `src`, and their
    rows, `other_<table>`; and `unshown`, the mails of `src` whose rows are not those of the lens.

    `copies` are those that the lens shows (`ShownCopies`). LakeDamageError if the lake lacks a
    copy.
    """
    run = connection.execute
    connection.register("shown_copies", copies.to_arrow())
    run(_SQL("copies"))
    views = LakeViews(lake)
    partitions = [
        name for (name,) in run("SELECT DISTINCT partition FROM stored ORDER BY ALL").fetchall()
    ]
    for name, (table, _) in OTHER.items():
        try:
            views.of_partitions(connection, f"lake_{name}", table, partitions)
        except FileNotFoundError as error:
            raise lake.unusable(table, None) from error
    rejoined = result_of(memberships, run(_SQL("stored_mails")).to_arrow_table())
    connection.register("rejoined", rejoined)
    run(_SQL("others"))
    for name, (_, id_) in OTHER.items():
        has_attachments = name in ("attachments", "exclusions", "chunks")
        parts = "o.is_whole OR t.attachment_id IS NULL" if has_attachments else "true"
        key = f", {BUILD('chunk_key')} AS chunk_key" if name == "chunks" else ""
        run(_SQL("rows_of_others", table=name, id=id_, key=key, parts=parts))
    connection.unregister("rejoined")


def relate(
    connection: duckdb.DuckDBPyConnection, settings: ThreadSettings, terms: TermSettings
) -> None:
    """Create the tables `lake_<table>` of the relations that the lens shows, from `messages` and
    the tables beside it; `counted`, the chunks whose words are not those of `src` then, and their
    terms.
    """
    run = connection.execute
    run(_SQL("unled"))
    mails = run(_SQL("mails")).to_arrow_table()
    lists = run("SELECT DISTINCT message_id, list_id FROM lake_memberships").to_arrow_table()
    threads, tree = build_threads(mails, lists, settings)
    _create(connection, "lake_threads", threads)
    _create(connection, "lake_thread_tree", tree)
    references = message_references(run(_SQL("naming_mails")).to_arrow_table())
    links = result_of(message_links, references, titled_mails(mails))
    _create(connection, "lake_message_links", links, _SQL("links", kind="message"))
    own = run("FROM lake_message_links").to_arrow_table()
    _create(connection, "lake_patch_series", patch_series(mails, tree, own))
    documents, nodes = (
        run(_SQL("naming_documents")).to_arrow_table(),
        run("FROM nodes").to_arrow_table(),
    )
    mail_ids = set(mails.column("message_id").to_pylist())
    links = document_links(document_references(documents), documents, nodes, mail_ids)
    _create(connection, "lake_document_links", links, _SQL("links", kind="document"))
    _create(connection, "lake_people", _people(connection))
    _quote(connection, terms)


def _people(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The table `people` by shown mails; an alias of the settings may name an address that none of
    them has.
    """
    trailers = connection.execute("SELECT message_id, name, addr FROM trailers").to_arrow_table()
    columns = f"{', '.join(COLUMNS)}, source, partition, body"
    mails = connection.execute(f"SELECT {columns} FROM messages").to_arrow_reader(_MAILS_AT_ONCE)
    uses = [address_uses(pa.Table.from_batches([batch]), trailers) for batch in mails]
    return people(pa.concat_tables([ADDRESS_USES.empty(), *uses]), {})


def _quote(connection: duckdb.DuckDBPyConnection, settings: TermSettings) -> None:
    """Rebuild quotes and context of mails whose parent under the lens is another mail or copy than
    in `src`.
    """
    run = connection.execute
    run(_SQL("answering"))
    tree = run("FROM answering ORDER BY message_id").to_arrow_table()
    mails = run(
        _SQL("compared", table="messages", id="message_id", order="message_id")
    ).to_arrow_table()
    chunks = run(_SQL("compared", table="chunks", id="doc_id", order="chunk_no")).to_arrow_table()
    quotes = inferred_quotes(
        mails, chunks.filter(pa.compute.is_null(chunks["attachment_id"])), tree
    )
    bodies = result_of(embedded.quoting_bodies, mails, quotes)
    restated = embedded.quotes_moved(result_of(embedded.chunks_with_quotes, chunks, quotes), bodies)
    context = embedded.chunk_context(result_of(embedded.parent_texts, chunks, tree), restated)
    _create(connection, "lake_inferred_quotes", quotes, _SQL("quotes"))
    _create(connection, "lake_chunk_context", context, _SQL("context"))
    run(_SQL("anchored"))
    own = run(_SQL("counted_chunks")).to_arrow_table()
    _create(connection, "new_message_terms", chunk_terms(own, settings), _SQL("own_terms"))
    _create(connection, "lake_context_terms", context_terms(context, restated, settings))
    run(_SQL("no_terms"))


def _create(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    new_rows: pa.Table,
    rows: str = "FROM new_rows",
) -> None:
    """Create a table of `rows`; the bucket of a mail, which depends on all that it hangs together
    with, is left empty.
    """
    part = ", '' AS part" if table.removeprefix("lake_") in IN_PARTS else ""
    connection.register("new_rows", new_rows)
    connection.execute(f"CREATE TEMP TABLE {table} AS SELECT *{part} FROM ({rows})")
    connection.unregister("new_rows")
