"""A published version narrowed to what a lens shows: a file of its own, so that nothing else can be found, counted or named.

Whatever reads it, a ranking, a suggestion, an id or SQL, reads the mails, documents and windows of the lens alone, and the
dictionary, the frequencies and the threads that these make. A table that is not named here has no rows.
"""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.config.settings import Settings
from dagster_project.extras.registry import published_tables
from dagster_project.index.files.arrays import damage_of_arrays, folder_of
from dagster_project.index.files.posting_arrays import VECTORS_IN
from dagster_project.index.publish import macro_sql, table_sql
from dagster_project.index.publish.lake_views import quoted
from dagster_project.index.publish.lens.copies import OTHER, judge, relate
from dagster_project.index.publish.lens.words import Embed, count_words, embed_others, insert_vectors
from dagster_project.index.publish.versions import LENSES, damage_of
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.lake_texts import texts_of
from dagster_project.lake.text_references import PLACE, TEXTS
from dagster_project.system.durable import put
from transforms.embedding.sign_codes import CodedVectors
from transforms.hashing import text_hash
from transforms.schemas.registry import lake_tables
from transforms.text.terms import word_forms

VERSION = "3"
_BATCH = 5_000
_VERSION_LETTERS = 16
_RELATED = {
    "links": "from_id, byte_start",
    "inferred_quotes": "message_id, byte_start",
    "chunk_context": "chunk_id",
}
"""Tables with rows that a lens takes out again, and their order: rows that are taken out of a file stay in its bytes."""
_DATED = {"readiness", "manifest"}
"""Tables that say when something was made."""


class Lens(NamedTuple):
    """Who may see what: a name, and the conditions of the query language that a mail, document or window meets."""

    name: str
    where: str


def lens_file(root: Path, published: Path, lens: Lens) -> Path:
    """Where the version that is published in a file stands under a lens."""
    digest = text_hash(f"{VERSION}\x00{lens.where}")[:12]
    return root / LENSES / text_hash(lens.name)[:12] / f"{published.stem}-{digest}.duckdb"


def damaged_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file of a lens of which a byte, or one of the arrays beside it, is not what was written, with the fault.

    All are read. OSError if the system refuses to give one.
    """
    for file in sorted((root / LENSES).glob("*/weft-*.duckdb")):
        if (damage := damage_of(file)) is None and folder_of(file).exists():
            with duckdb.connect(str(file), read_only=True) as connection:
                facts = dict(connection.execute("FROM manifest").fetchall())
            damage = damage_of_arrays(file, facts, reads_all=True)
        if damage:
            yield file, damage


class LensBuild:
    """Narrows the version in `published` to what a lens shows of it; `copies` of mails that it lacks are in the lake."""

    def __init__(
        self,
        published: Path,
        chunks: np.ndarray,
        copies: pl.DataFrame,
        settings: Settings,
        vectors: CodedVectors,
    ):
        self.published, self.chunks, self.copies, self.vectors = published, chunks, copies, vectors
        self.search, self.terms, self.threads = settings.search, settings.terms, settings.threads
        self.lake = ParquetLake(
            settings.lake_uri, lake_tables(settings.embedding.dimensions), settings.root / "cache" / "lake"
        )

    def write(self, file: Path, embed: Embed | None) -> None:
        """Write `file`, unless it is there; those of older versions go.

        A text that the published version does not embed, as that of a short reply to a mail that the lens hides, is
        embedded by `embed`; without it, the text is found by its words.
        """
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (file.parent / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if file.exists():
                return
            aside = file.with_name(f".{file.stem}-{os.getpid()}-{secrets.token_hex(4)}.duckdb")
            try:
                with duckdb.connect(str(aside)) as connection:
                    self._fill(connection, embed)
                put(aside, file)
            finally:
                aside.unlink(missing_ok=True)
            _remove_others(file)

    def _fill(self, connection: duckdb.DuckDBPyConnection, embed: Embed | None) -> None:
        run = connection.execute
        for statement in (
            "enable_progress_bar = false",
            "TimeZone = 'UTC'",
            "disabled_compression_methods = 'alp,alprd'",
        ):
            run(f"SET {statement}")
        run(f"ATTACH '{quoted(str(self.published))}' AS src (READ_ONLY)")
        facts = dict(connection.execute("FROM src.manifest").fetchall())
        texts = texts_of(self.published, facts)
        if texts:
            texts.add_function(connection)
        connection.register("shown_chunks", pa.table({"chunk_no": self.chunks.astype(np.int32)}))
        judge(connection, self.copies, self.lake)
        for statement in _SHOWN:
            run(statement)
        self._create_tables(connection, facts, has_references=texts is not None)
        words = relate(connection, self.threads, self.terms)
        (database,) = run("SELECT current_database()").fetchone() or ("",)
        for table, key in _RELATED.items():
            run(f'CREATE TABLE "{database}".main.{table} AS FROM temp.main.{table} ORDER BY {key}')
            run(f"DROP TABLE temp.main.{table}")
        folder = folder_of(self.published)
        count_words(connection, words, folder if VECTORS_IN in facts else None)
        insert_vectors(connection, int(facts["dimensions"]), self.vectors if VECTORS_IN in facts else None)
        embed_others(connection, embed)
        connection.register("forms", self._forms(connection))
        run(
            "INSERT INTO term_forms SELECT form, any_value(term), sum(texts) FROM forms GROUP BY form ORDER BY form"
        )
        for name in (PLACE, VECTORS_IN):
            facts.pop(name, None)
        self._manifest(connection, facts)
        macro_sql.create(connection, self.search, self.terms)
        run("DETACH src")

    def _create_tables(
        self, connection: duckdb.DuckDBPyConnection, facts: dict[str, str], *, has_references: bool
    ) -> None:
        """Create the tables of the version; those of relations, words and vectors are filled later."""
        run = connection.execute
        names = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'src'"
        tables = [name for (name,) in run(names).fetchall()]
        for table in (*tables, *(table_sql.RANKING_TABLES if VECTORS_IN in facts else ())):
            rows = _ROWS.get(table, f"SELECT * FROM src.{table} WHERE false")
            # A reference would name a partition, which a lens may not show.
            shown = [f"lake_text({name}) AS {name}" for name in TEXTS[table][1]] if table in TEXTS else []
            rows = (
                f"SELECT * REPLACE ({', '.join(shown)}) FROM ({rows})" if shown and has_references else rows
            )
            run(f'CREATE {"TEMP TABLE" if table in _RELATED else "TABLE"} "{table}" AS {rows}')
        for table in (*OTHER, "readiness"):
            run(f"INSERT INTO {table} BY NAME {_OTHER_ROWS.get(table, f'FROM other_{table}')}")

    def _forms(self, connection: duckdb.DuckDBPyConnection) -> pa.Table:
        forms = [word_forms(pl.Series("text", [], dtype=pl.String), self.terms)]
        reader = connection.execute(f"{table_sql.TEXT_SQL} chunks").to_arrow_reader(_BATCH)
        forms += [word_forms(pl.Series("text", batch.column("text")), self.terms) for batch in reader]
        return pl.concat(forms).to_arrow()

    @staticmethod
    def _manifest(connection: duckdb.DuckDBPyConnection, facts: dict[str, str]) -> None:
        """Facts and counts; the version is a hash of what is shown, whatever else the published one holds."""
        names = [name for (name,) in connection.execute(_TABLES).fetchall()]
        counted = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM \"{name}\"" for name in names)
        counts = dict(connection.execute(counted).fetchall())
        hashed = [f"SELECT '{n}', bit_xor(hash(t)) FROM \"{n}\" t" for n in names if n not in _DATED]
        rows = sorted(connection.execute(" UNION ALL ".join(hashed)).fetchall())
        facts |= {
            "version": text_hash(json.dumps(rows))[:_VERSION_LETTERS],
            "vector_search": "exact",
            "postings_since_rebuild": "0",
            "rows": json.dumps(counts, sort_keys=True),
        }
        facts.pop("vector_index_seconds", None)
        connection.executemany("INSERT INTO manifest VALUES (?, ?)", sorted(facts.items()))


def _remove_others(file: Path) -> None:
    """Remove the files of older versions under the lens, and their arrays; who has them open reads on."""
    for other in file.parent.glob("weft-*.duckdb"):
        if other != file:
            other.unlink(missing_ok=True)
            shutil.rmtree(folder_of(other), ignore_errors=True)


_TABLES = """
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary ORDER BY table_name
"""
# A mail or document is shown as a whole if its own text is, an attachment if it is shown itself.
_SHOWN = (
    """CREATE TEMP TABLE shown_docs AS SELECT DISTINCT doc_id FROM src.chunks SEMI JOIN shown_chunks USING (chunk_no)
WHERE attachment_id IS NULL AND doc_id NOT IN (SELECT message_id FROM unshown)""",
    """CREATE TEMP TABLE shown_attachments AS SELECT DISTINCT attachment_id
FROM src.chunks SEMI JOIN shown_chunks USING (chunk_no) SEMI JOIN shown_docs USING (doc_id)
WHERE attachment_id IS NOT NULL""",
    """CREATE TEMP TABLE shown AS
SELECT *, (row_number() OVER (ORDER BY chunk_key, chunk_id) - 1)::INTEGER AS chunk_no FROM (
  SELECT chunk_key, chunk_id, doc_id, false AS is_other FROM src.chunks SEMI JOIN shown_docs USING (doc_id)
  WHERE attachment_id IS NULL OR attachment_id IN (SELECT attachment_id FROM shown_attachments)
  UNION ALL SELECT """
    + table_sql.BUILD("chunk_key")
    + """, chunk_id, doc_id, true FROM other_chunks)""",
    """CREATE TEMP TABLE shown_ids AS SELECT doc_id AS id FROM shown_docs
UNION ALL SELECT message_id FROM others UNION ALL SELECT node_id FROM src.nodes SEMI JOIN shown_docs USING (doc_id)""",
)

_OF_MESSAGE = "SELECT * FROM src.{} WHERE message_id IN (SELECT doc_id FROM shown_docs)"
_OF_DOC = "SELECT * FROM src.{} SEMI JOIN shown_docs USING (doc_id)"
_OF_CHUNK = "SELECT * FROM src.{} SEMI JOIN (FROM shown WHERE NOT is_other) USING (chunk_id)"
_IS_SHOWN = "CASE WHEN {0} IN (SELECT id FROM shown_ids) THEN {0} END AS {0}"
_ROWS = {
    **{name: _OF_MESSAGE.format(name) for name in ("messages", "blocks", "trailers")},
    **{
        name: _OF_DOC.format(name)
        for name in ("documents", "nodes", "conversations", "conversation_windows", "readiness")
    },
    **{name: f"SELECT * FROM src.{name} WHERE {rows}" for name, rows in published_tables().items()},
    "memberships": """
SELECT * FROM lens_memberships WHERE message_id IN (SELECT id FROM shown_ids)
ORDER BY message_id, source, partition, list_id""",
    "chunks": """
SELECT s.chunk_no, c.* EXCLUDE (chunk_no) FROM src.chunks c JOIN (FROM shown WHERE NOT is_other) s USING (chunk_id)
ORDER BY s.chunk_no""",
    "chunk_context": f"SELECT * REPLACE ('' AS bucket) FROM ({_OF_CHUNK.format('chunk_context')})",
    "attachments": "SELECT * FROM src.attachments SEMI JOIN shown_attachments USING (attachment_id)",
    "exclusions": """
SELECT * FROM src.exclusions SEMI JOIN shown_docs USING (doc_id)
WHERE attachment_id IS NULL OR attachment_id IN (SELECT attachment_id FROM shown_attachments)""",
    "inferred_quotes": f"""
SELECT * REPLACE ('' AS bucket) FROM ({_OF_MESSAGE.format("inferred_quotes")})
WHERE parent_id IN (SELECT id FROM shown_ids)""",
    "links": f"""
SELECT * REPLACE ({_IS_SHOWN.format("to_id")}) FROM src.links WHERE from_id IN (SELECT id FROM shown_ids)""",
    # What joins addresses may stand in mails that are not shown: here each is a person.
    "people": """
SELECT p.* REPLACE (
  p.addr AS person_id, u.name AS name, u.names AS names, 'address' AS evidence, NULL::VARCHAR AS evidence_addr,
  false AS is_shared, u.mail_count AS mail_count, u.mention_count AS mention_count, u.first_at AS first_at,
  u.last_at AS last_at)
FROM src.people p JOIN (
  SELECT addr, min(name) AS name, coalesce(list(DISTINCT name ORDER BY name) FILTER (name IS NOT NULL), []) AS names,
    count(*) FILTER (is_author) AS mail_count, count(*) FILTER (NOT is_author) AS mention_count,
    min(sent_at) FILTER (is_author) AS first_at, max(sent_at) FILTER (is_author) AS last_at
  FROM (
    SELECT message_id, from_addr AS addr, from_name AS name, true AS is_author, effective_at AS sent_at FROM of_lens
    UNION ALL SELECT message_id, unnest(list_concat(to_addrs, cc_addrs)), NULL, false, NULL FROM of_lens
    UNION ALL SELECT message_id, addr, name, false, NULL FROM (
      SELECT message_id, addr, name FROM src.trailers WHERE message_id IN (SELECT doc_id FROM shown_docs)
      UNION ALL SELECT message_id, addr, name FROM other_trailers)
  ) WHERE addr IS NOT NULL GROUP BY addr
) u USING (addr) ORDER BY p.addr""".replace(
        "of_lens",
        "(SELECT message_id, from_addr, from_name, to_addrs, cc_addrs, effective_at FROM src.messages "
        "WHERE message_id IN (SELECT doc_id FROM shown_docs) UNION ALL "
        "SELECT message_id, from_addr, from_name, to_addrs, cc_addrs, effective_at FROM other_messages)",
    ),
}
_OTHER_ROWS = {
    "chunks": """
SELECT s.chunk_no, s.chunk_key, c.* FROM other_chunks c JOIN (FROM shown WHERE is_other) s USING (chunk_id)
ORDER BY s.chunk_no""",
    "readiness": """
SELECT m.message_id AS doc_id, 'message' AS kind, m.source, m.partition, m.subject AS title, m.effective_at,
  m.content_hash, n.chunk_count, n.chunk_count > 0 AS is_searchable, coalesce(e.excluded_for, []) AS excluded_for,
  t.* EXCLUDE (partition)
FROM other_messages m
LEFT JOIN (SELECT message_id, count(c.doc_id) AS chunk_count FROM others LEFT JOIN other_chunks c ON doc_id = message_id
  GROUP BY message_id) n USING (message_id)
LEFT JOIN (SELECT doc_id AS message_id, list(DISTINCT reason ORDER BY reason) AS excluded_for FROM other_exclusions
  GROUP BY doc_id) e USING (message_id)
LEFT JOIN (SELECT partition, max(seen_at) AS seen_at, max(parsed_at) AS parsed_at, max(chunked_at) AS chunked_at,
  max(embedded_at) AS embedded_at, max(published_at) AS published_at FROM src.readiness GROUP BY partition) t
  ON t.partition = m.partition""",
}
