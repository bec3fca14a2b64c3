"""A lake of any size, made of perturbed copies of a real one: what search and publishing are
measured on.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from assets.partitions import IN_PARTS, MAIL, WHOLE_PART
from assets.protocols.lake import Parts
from dagster_project.composition.objects import make_lake, make_publisher
from dagster_project.config.settings import Settings, load_settings
from dagster_project.lake.lake import ParquetLake, StagedFile
from transforms.embedding.vectors import matrix
from transforms.schemas.chunks import UNEMBEDDED

SOURCE = "replica"
DROPPED = 10
"""One term of a copied chunk in so many is left out, by hash."""
RARE = 3
"""Terms of up to so many chunks become words of each copy's own, so that the dictionary grows with
the index.
"""
NOISE = 0.5
"""Length of the random vector that is added to a copy's unit vector: copies of a text have a cosine
near .8.
"""

_NAMES = {
    "message_id",
    "header_message_id",
    "in_reply_to",
    "doc_id",
    "attachment_id",
    "parent_id",
    "thread_id",
    "root_id",
    "stored_message_id",
    "series_id",
    "posting_id",
    "patch_id",
    "previous_id",
    "from_id",
    "to_id",
}
_HASHES = {"chunk_id", "checksum", "text_hash"}
_EMPTY = ("quarantine",)
_KEY = {"message_chunks": "doc_id", "message_exclusions": "doc_id", "message_terms": "chunk_id"}
_WHOLE = (
    "threads",
    "thread_tree",
    "patch_series",
    "inferred_quotes",
    "message_links",
    "document_links",
    "chunk_context",
    "context_terms",
    "corpus_measures",
    "embedding_refusals",
    "people",
)


def replica_settings(state: Path, name: str) -> Settings:
    """The default settings with their storage in a folder of its own below `state`."""
    config = state / f"{name}.toml"
    source = '[[sources]]\nname = "replica"\nkind = "mbox"\npath = "none"\n'  # its partitions are written, not read
    config.write_text(f'[storage]\nroot = "{name}"\n{source}')
    return load_settings(config)


def published_replica(base: ParquetLake, state: Path, chunks: int) -> Path:
    """The published index of a replica of at least so many chunks, made if it is not there."""
    settings = replica_settings(state, f"replica_{chunks}")
    publisher = make_publisher(settings, make_lake(settings))
    if (current := publisher.current()) is None:
        replicas = Replicas(base, make_lake(settings))
        copies = replicas.copies(chunks)
        partitions = {replicas.write_unit(copy): MAIL.name for copy in range(copies)}
        replicas.write_whole(copies)
        current = publisher.publish(partitions).path
    return current


class Replicas:
    """Copies of the mail of the lake `base`, each a partition of the source SOURCE of the lake
    `made`.

    Texts are the same; copies have ids and hashes of their own, so that chunks are numbered, mails
    threaded and texts embedded as in a lake of that size; a tenth of their terms is gone, rare
    terms are renamed, vectors turned.
    """

    def __init__(self, base: ParquetLake, made: ParquetLake):
        self.base, self.made = base, made
        self.spill = tempfile.TemporaryDirectory()
        self.connection = duckdb.connect(config={"temp_directory": self.spill.name})
        run = self.connection.execute
        run("SET TimeZone = 'UTC'")
        run(
            "CREATE MACRO named(id, copy) AS CASE WHEN copy = 0 THEN id ELSE id || '.copy' || copy END"
        )
        run(
            f"CREATE MACRO hashed(id, copy) AS CASE WHEN copy = 0 OR id = '{UNEMBEDDED}' THEN id "
            "ELSE left(sha256(id || copy), len(id)) END"
        )
        for table in (*MAIL.tables, *_WHOLE, "memberships", "embeddings"):
            if table not in _EMPTY:
                run(f"CREATE VIEW {table} AS {self._stored(table)}")
        run(_MAILS)
        run(_COPIED)
        run(_COMMON_TERMS)
        (self.chunks,) = run("SELECT count(*) FROM ids WHERE name = 'chunk_id'").fetchone() or (0,)

    def copies(self, chunks: int) -> int:
        """How many copies have at least so many chunks."""
        return -(-chunks // self.chunks)

    def _stored(self, table: str) -> str:
        """A query of a table of the base; one that is stored by partition has a column that says
        which.
        """
        if table not in MAIL.tables:
            parts = self.base.partitions(table) if table in IN_PARTS else [None]
            return f"SELECT * FROM read_parquet({[str(self.base.path(table, part)) for part in parts]})"
        files = [str(self.base.path(table, partition)) for partition in self.base.partitions(table)]
        partition = r"regexp_extract(_file, '([^/]+/[^/]+)\.parquet$', 1) AS partition"
        columns = "COLUMNS(name -> name NOT IN ('_file', 'partition'))"
        return f"SELECT {columns}, {partition} FROM read_parquet({files}, filename = '_file')"

    def write_unit(self, copy: int, mails: int | None = None) -> str:
        """Write the tables of one copy, or of so many of its mails; returns its partition."""
        partition = f"{copy:04}"
        count = mails if mails is not None else 1 << 62
        for table in MAIL.tables:
            if table in _EMPTY:
                self._write(table, f"{SOURCE}/{partition}", self.made.tables[table].empty())
                continue
            key = _KEY.get(table, "message_id")
            columns = ", ".join(self._column(table, name) for name in self.made.tables[table].names)
            of_mails = (
                f"SEMI JOIN (FROM ids WHERE name = '{key}' AND place < $count) i ON i.id = t.{key} "
                "AND i.partition = t.partition"
            )
            if table == "address_uses":  # counts of a partition, which name no mail
                of_mails = "WHERE $count > 0"
            rows = self.connection.execute(
                f"SELECT {columns} FROM (SELECT t.*, $copy::INTEGER AS copy, $partition AS copied_unit FROM {table} t "
                f"{of_mails})" + (_DROPPED if table == "message_terms" else ""),
                {"copy": copy, "partition": f"{SOURCE}/{partition}", "count": count},
            ).to_arrow_table()
            self._write(table, f"{SOURCE}/{partition}", rows)
        return f"{SOURCE}/{partition}"

    def write_whole(self, copies: int, mails_of_last: int | None = None) -> None:
        """Write what crosses partitions, of so many copies, the last with that many mails alone."""
        last = mails_of_last if mails_of_last is not None else 1 << 62
        for table in _WHOLE:
            columns = ", ".join(self._column(table, name) for name in self.made.tables[table].names)
            rows = self.connection.execute(
                f"SELECT {columns} FROM {table}, (SELECT range::INTEGER AS copy FROM range($copies))",
                {"copies": 1 if table == "people" else copies},  # the same people write all copies
            ).to_arrow_table()
            self._write_parted(table, rows)
        rows = self.connection.execute(
            _MEMBERSHIPS, {"copies": copies, "last": last}
        ).to_arrow_table()
        self._write("memberships", None, rows)
        parts = Parts((), self._vectors(copies))
        self.made.stage_parts("embeddings", parts, code_version="replica").commit()

    def _write_parted(self, table: str, rows: pa.Table) -> None:
        """Write a table over the whole lake; one that is stored in parts in one part."""
        if table not in IN_PARTS:
            self._write(table, None, rows)
            return
        part = self.made.stage(table, WHOLE_PART, rows, code_version="replica", inputs={})
        self.made.stage_parts(
            table, Parts((), [(WHOLE_PART, part)]), code_version="replica"
        ).commit()

    def _vectors(self, copies: int) -> Iterator[tuple[str, StagedFile]]:
        """The parts of `embeddings`, one for each copy: the rows of the base, turned by another
        noise.
        """
        old = self.connection.execute("FROM embeddings ORDER BY text_hash").to_arrow_table()
        dimensions = old.column("dimensions")[0].as_py()
        vectors = matrix(old.column("vector"))
        for copy in range(copies):
            made = vectors
            if copy:
                noise = np.random.default_rng(copy).standard_normal(made.shape, dtype=np.float32)
                made = made + noise * np.float32(NOISE / np.sqrt(dimensions))
                made /= np.linalg.norm(made, axis=1, keepdims=True)
            names = self.connection.execute(
                "SELECT hashed(text_hash, $copy) AS text_hash FROM embeddings ORDER BY embeddings.text_hash",
                {"copy": copy},
            ).to_arrow_table()
            table = old.set_column(
                old.column_names.index("text_hash"), "text_hash", names.column(0)
            )
            flat = pa.FixedSizeListArray.from_arrays(made.ravel(), dimensions)
            place = table.column_names.index("vector")
            part = f"{SOURCE}/{copy:04}"
            rows = table.set_column(place, "vector", flat)
            yield part, self.made.stage("embeddings", part, rows, code_version="replica", inputs={})

    def _column(self, table: str, name: str) -> str:
        if name in _NAMES:
            return f"named({name}, copy) AS {name}"
        if name in _HASHES:
            return f"hashed({name}, copy) AS {name}"
        if name == "source" and table in MAIL.tables:
            return f"'{SOURCE}' AS source"
        if name == "partition":
            return "copied_unit AS partition"
        if name == "term":
            return "CASE WHEN copy > 0 AND term NOT IN (FROM common) THEN term || '.copy' || copy ELSE term END AS term"
        return name

    def _write(self, table: str, partition: str | None, rows: pa.Table) -> None:
        self.made.stage(table, partition, rows, code_version="replica", inputs={}).commit()


# A mail that was posted to several lists is copied once.
_MAILS = """
CREATE TABLE mails AS
SELECT row_number() OVER (ORDER BY m.effective_at DESC, m.message_id) - 1 AS place, m.message_id, m.partition
FROM messages m JOIN memberships s ON s.is_canonical AND s.stored_message_id = m.message_id
  AND s.message_id = m.message_id AND s.partition = m.partition
"""

_COPIED = """
CREATE TABLE ids AS
SELECT 'message_id' AS name, message_id AS id, partition, place FROM mails
UNION ALL SELECT 'doc_id', message_id, partition, place FROM mails
UNION ALL SELECT 'chunk_id', c.chunk_id, c.partition, m.place
  FROM message_chunks c JOIN mails m ON m.message_id = c.doc_id AND m.partition = c.partition
"""

_COMMON_TERMS = f"""
CREATE TABLE common AS
SELECT term FROM message_terms GROUP BY term HAVING count(DISTINCT chunk_id) > {RARE}
"""

_DROPPED = f" WHERE copy = 0 OR hash(term, chunk_id) % {DROPPED} > 0"

_MEMBERSHIPS = f"""
SELECT named(m.message_id, copy) AS message_id, s.list_id, '{SOURCE}' AS source, printf('{SOURCE}/%04d', copy) AS partition,
  named(m.message_id, copy) AS stored_message_id, true AS is_canonical
FROM mails m JOIN memberships s ON s.is_canonical AND s.message_id = m.message_id,
  (SELECT range::INTEGER AS copy FROM range($copies))
WHERE copy < $copies - 1 OR m.place < $last
"""
