"""A published version narrowed to what a lens shows: a file of its own, so that nothing else can be found, counted or named.

Whatever reads it, a ranking, a suggestion, an id or SQL, reads the mails, documents and windows of the lens alone, and the
dictionary, the frequencies and the threads that these make. A table that is not named here has no rows.
"""

from __future__ import annotations

import fcntl
import json
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.config.settings import Settings
from dagster_project.resources.arrays.arrays import folder_of
from dagster_project.resources.arrays.segments import postings_of
from dagster_project.resources.arrays.vector_arrays import POINTS
from dagster_project.resources.lake.lake_texts import PLACE, TEXTS, texts_of
from dagster_project.resources.publish import macro_sql, points_sql, table_sql
from dagster_project.resources.publish.lake_views import quoted
from dagster_project.resources.system.durable import put
from transforms.embedding.sign_codes import CodedVectors
from transforms.hashing import text_hash
from transforms.mail.threads.patch_series import patch_series
from transforms.mail.threads.references import message_links, message_references
from transforms.mail.threads.threads import build_threads
from transforms.text.terms import word_forms

FOLDER = "lenses"
VERSION = "2"
_BATCH = 5_000
_VERSION_LETTERS = 16
_DATED = {"readiness", "manifest"}
"""Tables that say when something was made."""
Embed = Callable[[Sequence[str]], np.ndarray]
"""Gives the vectors of texts as they are stored."""


class Lens(NamedTuple):
    """Who may see what: a name, and the conditions of the query language that a mail, document or window meets."""

    name: str
    where: str


def lens_file(root: Path, published: Path, lens: Lens) -> Path:
    """Where the version that is published in a file stands under a lens."""
    digest = text_hash(f"{VERSION}\x00{lens.where}")[:12]
    return root / FOLDER / text_hash(lens.name)[:12] / f"{published.stem}-{digest}.duckdb"


class LensBuild:
    """Narrows the version in `published`, in which `chunks` are the numbers of what the lens shows."""

    def __init__(
        self,
        published: Path,
        chunks: np.ndarray,
        settings: Settings,
        vectors: CodedVectors,
    ):
        self.published, self.chunks, self.vectors = published, chunks, vectors
        self.search, self.terms, self.threads = settings.search, settings.terms, settings.threads

    def write(self, file: Path, embed: Embed | None) -> None:
        """Write `file`, unless it is there; those of older versions go.

        A short reply was embedded with what it answers: where that is not of the lens, `embed` embeds the reply alone;
        without it, the reply is found by its words.
        """
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (file.parent / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if file.exists():
                return
            aside = file.with_name(f".{secrets.token_hex(4)}.duckdb")
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
        if texts := texts_of(self.published, facts):
            texts.add_function(connection)
        connection.register("shown_chunks", pa.table({"chunk_no": self.chunks.astype(np.int32)}))
        for statement in _SHOWN:
            run(statement)
        self._see_postings_and_vectors(connection, facts)
        for statement in _SHOWN_TERMS:
            run(statement)
        tables = [
            n for (n,) in run("SELECT table_name FROM duckdb_tables() WHERE database_name = 'src'").fetchall()
        ]
        for table in (*tables, *(points_sql.VIEWS if POINTS in facts else ())):
            rows = _ROWS.get(table, f"SELECT * FROM src.{table} WHERE false")
            # A reference would name a partition, which a lens may not show.
            shown = (
                [f"lake_text({name}) AS {name}" for name in TEXTS[table][1]]
                if texts and table in TEXTS
                else []
            )
            rows = f"SELECT * REPLACE ({', '.join(shown)}) FROM ({rows})" if shown else rows
            run(f'CREATE TABLE "{table}" AS {rows}')
        for statement in _RENAMED:
            run(statement)
        self._relate(connection)
        self._embed_alone(connection, embed)
        connection.register("forms", self._forms(connection))
        run(
            "INSERT INTO term_forms SELECT form, any_value(term), sum(texts) FROM forms GROUP BY form ORDER BY form"
        )
        for name in (PLACE, POINTS):
            facts.pop(name, None)
        self._manifest(connection, facts)
        macro_sql.create(connection, self.search, self.terms)
        run("DETACH src")

    def _see_postings_and_vectors(self, connection: duckdb.DuckDBPyConnection, facts: dict[str, str]) -> None:
        """Make `src_postings` and `src_embeddings`, of what is shown at least."""
        run = connection.execute
        if POINTS not in facts:
            for name in points_sql.VIEWS:
                run(f"CREATE TEMP VIEW src_{name} AS FROM src.{name}")
            return
        shown = run(
            "SELECT chunk_no FROM src.chunks SEMI JOIN shown USING (chunk_key) ORDER BY 1"
        ).fetchnumpy()
        chunks = shown["chunk_no"]
        connection.register("found", postings_of(folder_of(self.published), chunks).to_arrow())
        run(_FOUND_POSTINGS)
        connection.unregister("found")
        run(f"CREATE TEMP TABLE found_vectors (chunk_no INTEGER, vector FLOAT[{int(facts['dimensions'])}])")
        for start in range(0, len(chunks), _BATCH):
            some = chunks[start : start + _BATCH]
            found = pa.table({"chunk_no": some, "vector": list(self.vectors.of(some))})
            connection.register("found", found)
            run("INSERT INTO found_vectors FROM found")
            connection.unregister("found")
        run(_FOUND_VECTORS)

    def _relate(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Links, threads and patch series of the mails that are shown, as an index of them alone has them."""
        run = connection.execute
        mails = run(_MAILS).to_arrow_table()
        links = message_links(message_references(run(_LINKED).to_arrow_table()), mails)
        run(_UNLINKED)
        lists = run("SELECT DISTINCT message_id, list_id FROM memberships").to_arrow_table()
        threads, tree = build_threads(mails, lists, self.threads)
        own = pa.concat_tables([links, run("SELECT * FROM links WHERE source_kind = 'message'").to_arrow_table().select(
            links.column_names).cast(links.schema)])  # fmt: skip
        rows = {
            "links": links,
            "threads": threads,
            "thread_tree": tree,
            "patch_series": patch_series(mails, tree, own),
        }
        for name, table in rows.items():
            columns = [c[0] for c in run(f"DESCRIBE {name}").fetchall()]
            # The bucket of a mail depends on all that it hangs together with, shown or not.
            shown = ", ".join("'' AS bucket" if c not in table.column_names else c for c in columns)
            connection.register("related", table)
            run(f"INSERT INTO {name} SELECT {shown} FROM related ORDER BY ALL")
            connection.unregister("related")

    def _embed_alone(self, connection: duckdb.DuckDBPyConnection, embed: Embed | None) -> None:
        """Vectors of the replies whose context is not of the lens, or the reason why they have none."""
        replies = connection.execute(_ALONE).fetchall()
        if not replies:
            return
        if embed is None:
            for statement in _REFUSED:
                connection.execute(statement, {"numbers": [number for number, _, _ in replies]})
        else:
            vectors = embed([text for _, _, text in replies])
            columns = {"chunk_no": [n for n, _, _ in replies], "vector": list(vectors)}
            connection.register("alone", pa.table({n: pa.array(c) for n, c in columns.items()}))
            connection.execute(_EMBEDDED)
        connection.execute("CREATE TABLE in_order AS FROM embeddings ORDER BY chunk_no")
        connection.execute("DROP TABLE embeddings")
        connection.execute("ALTER TABLE in_order RENAME TO embeddings")

    def _forms(self, connection: duckdb.DuckDBPyConnection) -> pa.Table:
        forms = [word_forms(pl.Series("text", [], dtype=pl.String), self.terms)]
        reader = connection.execute(f"{table_sql.TEXTS} chunks").to_arrow_reader(_BATCH)
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
_TF = table_sql.TFS.split(", ")
_OWN_CONTEXT = "CASE WHEN a.chunk_key IS NULL THEN context_tf ELSE 0 END AS context_tf"
_FREQUENCIES = ", ".join(_OWN_CONTEXT if tf == "context_tf" else tf for tf in _TF)

# A mail or document is shown as a whole if its own text is, an attachment if it is shown itself.
_SHOWN = (
    """CREATE TEMP TABLE shown_docs AS SELECT DISTINCT doc_id FROM src.chunks SEMI JOIN shown_chunks USING (chunk_no)
WHERE attachment_id IS NULL""",
    """CREATE TEMP TABLE shown_attachments AS SELECT DISTINCT attachment_id
FROM src.chunks SEMI JOIN shown_chunks USING (chunk_no) SEMI JOIN shown_docs USING (doc_id)
WHERE attachment_id IS NOT NULL""",
    """CREATE TEMP TABLE shown AS
SELECT chunk_key, chunk_id, doc_id, (row_number() OVER (ORDER BY chunk_key, chunk_id) - 1)::INTEGER AS chunk_no
FROM src.chunks SEMI JOIN shown_docs USING (doc_id)
WHERE attachment_id IS NULL OR attachment_id IN (SELECT attachment_id FROM shown_attachments)""",
    """CREATE TEMP TABLE shown_ids AS SELECT doc_id AS id FROM shown_docs
UNION ALL SELECT node_id FROM src.nodes SEMI JOIN shown_docs USING (doc_id)""",
    # Replies that were embedded and are found with words of what they answer, which is not shown.
    """CREATE TEMP TABLE alone_chunks AS SELECT s.chunk_key, s.chunk_no, s.chunk_id FROM shown s
JOIN src.chunk_context x USING (chunk_id) LEFT JOIN src.thread_tree t ON t.message_id = s.doc_id
WHERE x.context_kind LIKE 'parent%' AND t.parent_id IS DISTINCT FROM NULL
  AND t.parent_id NOT IN (SELECT doc_id FROM shown_docs)""",
)
_FOUND_POSTINGS = f"""
CREATE TEMP TABLE src_postings AS SELECT term_id, chunk_key, {table_sql.TFS}
FROM found JOIN src.terms USING (term) JOIN src.chunks USING (chunk_no)
"""
_FOUND_VECTORS = """
CREATE TEMP VIEW src_embeddings AS
SELECT chunk_no, chunk_id, model, v.vector FROM src.embeddings JOIN found_vectors v USING (chunk_no)
"""
_SHOWN_TERMS = (
    f"""CREATE TEMP TABLE shown_postings AS SELECT p.term_id AS old_id, p.chunk_key, {_FREQUENCIES}
FROM src_postings p SEMI JOIN shown USING (chunk_key) LEFT JOIN alone_chunks a USING (chunk_key)""",
    f"DELETE FROM shown_postings WHERE {' + '.join(_TF)} = 0",
    """CREATE TEMP TABLE shown_terms AS
SELECT (row_number() OVER (ORDER BY term) - 1)::INTEGER AS term_id, term, f.df, old_id
FROM (SELECT old_id, count(*)::INTEGER AS df FROM shown_postings GROUP BY old_id) f
JOIN src.terms o ON o.term_id = f.old_id""",
)

# A mail of the lens may also have been sent to lists, or stored in sources, that the lens shows nothing else of.
_KNOWN = """
CREATE TEMP TABLE known_{name}s AS SELECT DISTINCT home FROM (
  SELECT message_id, min({name}) AS home FROM src.memberships WHERE message_id IN (SELECT doc_id FROM shown_docs)
  GROUP BY message_id HAVING count(DISTINCT {name}) = 1)
"""
_HOMES = """
CREATE TEMP TABLE homes AS SELECT m.message_id, arg_min(s.source, s.partition) AS source, min(s.partition) AS partition
FROM memberships s JOIN messages m USING (message_id)
WHERE m.source NOT IN (SELECT home FROM known_sources) GROUP BY m.message_id
"""
_MOVED = "UPDATE {table} SET source = h.source, partition = h.partition FROM homes h WHERE {table}.{id} = h.message_id"
_RENAMED = (
    _KNOWN.format(name="source"),
    _KNOWN.format(name="list_id"),
    """DELETE FROM memberships WHERE source NOT IN (SELECT home FROM known_sources)
OR list_id IS NOT NULL AND list_id NOT IN (SELECT home FROM known_list_ids WHERE home IS NOT NULL)""",
    _HOMES,
    """UPDATE messages SET list_id = (SELECT min(list_id) FROM memberships s WHERE s.message_id = messages.message_id)
WHERE list_id NOT IN (SELECT home FROM known_list_ids WHERE home IS NOT NULL)""",
    "UPDATE messages SET place = '' WHERE message_id IN (SELECT message_id FROM homes)",
    "UPDATE blocks SET partition = h.partition FROM homes h WHERE blocks.message_id = h.message_id",
    *(
        _MOVED.format(table=table, id=id_)
        for table, id_ in {
            "messages": "message_id", "attachments": "message_id", "chunks": "doc_id", "readiness": "doc_id",
            "exclusions": "doc_id",
        }.items()
    ),
)  # fmt: skip

_MAILS = """
SELECT message_id, in_reply_to, refs, subject, from_addr, from_name, effective_at FROM messages ORDER BY message_id
"""
# A reference that led to what is not shown may lead elsewhere, or be none that is recorded where nothing is.
_UNLED = """
SELECT from_id FROM src.links WHERE source_kind = 'message' AND to_id NOT IN (SELECT id FROM shown_ids)
"""
_LINKED = f"SELECT message_id, source, partition, body FROM messages WHERE message_id IN ({_UNLED}) ORDER BY message_id"
_UNLINKED = f"DELETE FROM links WHERE source_kind = 'message' AND from_id IN ({_UNLED})"

_OF_MESSAGE = "SELECT * FROM src.{} WHERE message_id IN (SELECT doc_id FROM shown_docs)"
_OF_DOC = "SELECT * FROM src.{} SEMI JOIN shown_docs USING (doc_id)"
_OF_CHUNK = "SELECT * FROM src.{} SEMI JOIN shown USING (chunk_id)"
_IS_SHOWN = "CASE WHEN {0} IN (SELECT id FROM shown_ids) THEN {0} END AS {0}"
_ROWS = {
    **{name: _OF_MESSAGE.format(name) for name in ("messages", "blocks", "memberships", "trailers")},
    **{
        name: _OF_DOC.format(name)
        for name in (
            "documents",
            "nodes",
            "conversations",
            "conversation_windows",
            "readiness",
            "stripe_orders",
        )
    },
    **{name: _OF_CHUNK.format(name) for name in ("chunk_classes", "chunk_keywords", "chunk_similarities")},
    "chunks": """
SELECT s.chunk_no, c.* EXCLUDE (chunk_no) REPLACE (
  CASE WHEN a.chunk_id IS NULL THEN c.anchor_source ELSE 'none' END AS anchor_source)
FROM src.chunks c JOIN shown s USING (chunk_id) LEFT JOIN alone_chunks a USING (chunk_id) ORDER BY s.chunk_no""",
    **{
        name: f"SELECT s.chunk_no, e.* EXCLUDE (chunk_no) FROM {rows} e JOIN shown s USING (chunk_id) ORDER BY 1"
        for name, rows in {
            "embeddings": "src_embeddings",
            "embedding_refusals": "src.embedding_refusals",
        }.items()
    },
    "chunk_context": (
        f"SELECT * REPLACE ('' AS bucket) FROM ({_OF_CHUNK.format('chunk_context')}) ANTI JOIN alone_chunks USING (chunk_id)"
    ),
    "chunk_lengths": """
SELECT l.* REPLACE (CASE WHEN a.chunk_key IS NULL THEN context_length ELSE 0 END AS context_length)
FROM src.chunk_lengths l SEMI JOIN shown USING (chunk_key) LEFT JOIN alone_chunks a USING (chunk_key)
ORDER BY l.chunk_key""",
    "attachments": "SELECT * FROM src.attachments SEMI JOIN shown_attachments USING (attachment_id)",
    "exclusions": """
SELECT * FROM src.exclusions SEMI JOIN shown_docs USING (doc_id)
WHERE attachment_id IS NULL OR attachment_id IN (SELECT attachment_id FROM shown_attachments)""",
    "inferred_quotes": f"""
SELECT * REPLACE ('' AS bucket) FROM ({_OF_MESSAGE.format("inferred_quotes")})
WHERE parent_id IN (SELECT doc_id FROM shown_docs)""",
    "links": f"""
SELECT * REPLACE ({_IS_SHOWN.format("to_id")}) FROM src.links WHERE from_id IN (SELECT id FROM shown_ids)""",
    "prompt_hashes": f"{_OF_DOC.format('prompt_hashes')} WHERE asked_in IN (SELECT doc_id FROM shown_docs)",
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
    SELECT message_id, from_addr AS addr, from_name AS name, true AS is_author, effective_at AS sent_at FROM src.messages
    UNION ALL SELECT message_id, unnest(list_concat(to_addrs, cc_addrs)), NULL, false, NULL FROM src.messages
    UNION ALL SELECT message_id, addr, name, false, NULL FROM src.trailers
  ) WHERE message_id IN (SELECT doc_id FROM shown_docs) AND addr IS NOT NULL GROUP BY addr
) u USING (addr) ORDER BY p.addr""",
    "postings": f"""
SELECT t.term_id, p.chunk_key, {table_sql.TFS} FROM shown_postings p JOIN shown_terms t USING (old_id)
ORDER BY t.term_id, p.chunk_key""",
    "terms": "SELECT term_id, term, df FROM shown_terms ORDER BY term_id",
}
_ALONE = """
SELECT c.chunk_no, c.chunk_id, c.text_embed FROM chunks c SEMI JOIN alone_chunks USING (chunk_id)
SEMI JOIN embeddings USING (chunk_id) ORDER BY c.chunk_no
"""
_REFUSED = (
    """INSERT INTO embedding_refusals
SELECT e.chunk_no, e.chunk_id, c.doc_id, e.model, 'it was embedded with a text that is not shown'
FROM embeddings e JOIN chunks c USING (chunk_no) WHERE e.chunk_no IN (SELECT unnest($numbers::INTEGER[]))""",
    "DELETE FROM embeddings WHERE chunk_no IN (SELECT unnest($numbers::INTEGER[]))",
)
_EMBEDDED = "UPDATE embeddings SET vector = a.vector FROM alone a WHERE embeddings.chunk_no = a.chunk_no"
