"""A published version narrowed by a lens: a file of its own, so that nothing else can be found,
counted or named.

Whatever reads it, a ranking, a suggestion, an id or SQL, reads the mails, documents and windows of
the lens alone, and the dictionary, the frequencies and the threads that these make. A table that is
not named here has no rows.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.partitions import IN_PARTS
from dagster_project.config.settings import Settings
from dagster_project.extensions import published_tables
from dagster_project.index.files.arrays import damage_of_arrays, folder_of
from dagster_project.index.files.posting_arrays import VECTORS_IN
from dagster_project.index.publish import table_sql
from dagster_project.index.publish.full_build import IndexBuild
from dagster_project.index.publish.lens.copies import OTHER, judge, relate
from dagster_project.index.publish.lens.masked_chats import Masks, mask_chats, masks_of
from dagster_project.index.publish.lens.words import Embed, count_words, view_vectors
from dagster_project.index.publish.table_sql import BUILD
from dagster_project.index.publish.version_inputs import PublishSettings, VersionInputs
from dagster_project.index.publish.versions import LENSES, damage_of
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.lake_texts import texts_of
from dagster_project.lake.text_references import PLACE, TEXTS
from dagster_project.system.durable import put, remove
from dagster_project.system.locks import alone
from dagster_project.system.long_work import LoggedProgress, Phases
from dagster_project.system.sql_files import SqlFile, literal
from transforms.embedding.sign_codes import CodedVectors
from transforms.hashing import text_hash
from transforms.schemas.registry import lake_tables

_FORMAT = "4"
_VERSION_LETTERS = 16
_SQL = SqlFile(__file__, "lens_file.sql")
_SHOWN = {
    **dict.fromkeys(("messages", "blocks", "trailers"), "of_mail"),
    **dict.fromkeys(("documents", "nodes", "conversations", "conversation_windows"), "of_document"),
    **dict.fromkeys(("chunks", "exclusions"), "of_text"),
    "attachments": "of_attachment",
    "quarantine": "of_nothing",
}
"""By table the condition of the rows that are shown as they are published."""


class Lens(NamedTuple):
    """A view of the index: a name, and the conditions of the query language that a mail, document
    or window meets.

    `labels` is a hash of the file of labels that they ask, `masks` replace names in chats.
    """

    name: str
    where: str
    labels: str = ""
    masks: Masks | None = None


def lens_of(settings: Settings, name: str, labels: str) -> Lens:
    """The lens of a name in the settings."""
    return Lens(name, settings.lenses[name].where, labels, masks_of(settings, name))


def lens_file(root: Path, published: Path, lens: Lens) -> Path:
    """Where the version that is published in a file is under a lens."""
    parts = (lens.labels, lens.masks.digest if lens.masks else "")
    further = "".join(f"\0{part}" for part in parts if part)
    digest = text_hash(f"{_FORMAT}\0{lens.where}{further}")[:12]
    return root / LENSES / text_hash(lens.name)[:12] / f"{published.stem}-{digest}.duckdb"


def damaged_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file of a lens that differs in a byte, or in an array beside it, from what was written,
    with the fault.

    All are read. OSError if the system refuses to give one.
    """
    for file in sorted((root / LENSES).glob("*/weft-*.duckdb")):
        if (damage := damage_of(file)) is None and folder_of(file).exists():
            with duckdb.connect(str(file), read_only=True) as connection:
                facts = dict(connection.execute("FROM manifest").fetchall())
            damage = damage_of_arrays(file, facts, reads_all=True)
        if damage:
            yield file, damage


class Narrowing(NamedTuple):
    """The part of the version in `published` that a lens shows: numbers of chunks, copies of mails,
    and all `vectors`.
    """

    published: Path
    chunks: np.ndarray
    copies: pl.DataFrame
    vectors: CodedVectors


class LensBuild(IndexBuild):
    """Builds the file of a lens as a full rebuild does, from the part of a published version that
    the lens shows.

    From the lake itself it reads the copies of mails that the version lacks.
    """

    _threads = 0  # somebody waits for it
    _memory_limit = "3GB"

    def __init__(
        self,
        texts: Narrowing,
        settings: Settings,
        place: Path,
        embed: Embed | None,
        masks: Masks | None = None,
    ):
        """A text that the version does not embed, as a short reply to a hidden mail, is embedded by
        `embed`.

        Without it, the text is found by its words. `masks` replace names in chats.
        """
        self.masks, self.masked_tables = masks, tuple[str, ...]()
        self.shown, self.place, self.embed, self.threads = texts, place, embed, settings.threads
        with duckdb.connect(str(texts.published), read_only=True) as connection:
            self.before = dict(connection.execute("FROM manifest").fetchall())
        facts = {
            n: f
            for n, f in self.before.items()
            if n not in (PLACE, VECTORS_IN, "vector_index_seconds")
        }
        tables = lake_tables(settings.embedding.dimensions)
        lake = ParquetLake(settings.lake_uri, tables, settings.root / "cache" / "lake")
        of_version = PublishSettings(
            settings.index, settings.embedding, settings.terms, settings.search, {}
        )
        inputs = VersionInputs(lake, {}, {}, None, of_version, facts, Phases(LoggedProgress()))
        aside = f".{place.stem}-{os.getpid()}-{secrets.token_hex(4)}.duckdb"
        super().__init__(inputs, place.with_name(aside))
        self.now = datetime.fromisoformat(self.before["published_at"])

    def write(self) -> None:
        """Write the file to its place, unless it is there; those of older versions go."""
        with alone(self.place.parent / ".lock"):
            if self.place.exists():
                return
            try:
                self.run()
                remove([folder_of(self.place)])
                put(folder_of(self.file), folder_of(self.place))
                put(self.file, self.place)
            finally:
                remove([self.file, folder_of(self.file)])
            # Who has the files of an older version open reads on.
            remove(
                path
                for kind in ("weft", "contexts")
                for path in self.place.parent.glob(f"{kind}-*")
                if self.place.stem not in path.stem
            )

    def _view_lake(self) -> None:
        run = self.connection.execute
        run(f"ATTACH {literal(self.shown.published)} AS src (READ_ONLY)")
        if texts := texts_of(self.shown.published, self.before):
            texts.add_function(self.connection)
        shown_chunks = pa.table({"chunk_no": self.shown.chunks.astype(np.int32)})
        with self._registered("shown_chunks", shown_chunks):
            judge(self.connection, self.shown.copies, self.lake)
            run(_SQL("shown"))
        self.masked_tables = tuple(mask_chats(self.connection, self._published_rows, self.masks))
        for table, rows in (published_tables() | {"corpus_measures": "false"}).items():
            part = ", bucket AS part" if table in IN_PARTS else ""
            run(f"CREATE TEMP VIEW lake_{table} AS SELECT *{part} FROM src.{table} WHERE {rows}")

    def _fill(self) -> list[str]:
        run = self.connection.execute
        for table in ("partitions", "parts"):
            run(f"CREATE TABLE {table} AS FROM src.{table} WHERE false")
        for table in table_sql.PARTITIONED:
            self._create_from_lake(self.connection, table, self._rows(table))
        run(BUILD("numbers"))
        relate(self.connection, self.threads, self.settings.terms)
        self._create_whole()
        is_elsewhere = VECTORS_IN in self.before
        count_words(self.connection, folder_of(self.shown.published) if is_elsewhere else None)
        run(BUILD("embedded_texts", chunks="FROM chunks"))
        vectors = self.shown.vectors if is_elsewhere else None
        view_vectors(self.connection, self.settings.embedding, vectors, self.embed)
        self._create_vectors(self.connection)
        forms = self._forms_in(self.connection, f"{table_sql.TEXT_SQL} chunks")
        with self._registered("added_forms", forms):
            run(BUILD("term_forms"))
        self._readiness(())
        run("DETACH src")
        return []

    def _rows(self, table: str) -> str:
        """The rows of a table that the lens shows."""
        rows = self._published_rows(table)
        rows += f" UNION ALL BY NAME FROM other_{table}" if table in OTHER else ""
        masked = f" UNION ALL BY NAME FROM masked_{table}" if table in self.masked_tables else ""
        return rows + masked

    def _published_rows(self, table: str) -> str:
        """Those that it shows as they are published. A reference would name a partition, which a
        lens may not show.
        """
        own = f" EXCLUDE ({', '.join(names)})" if (names := table_sql.own_columns(table)) else ""
        texts = TEXTS[table][1] if table in TEXTS and PLACE in self.before else ()
        shown = ", ".join(f"lake_text({name}) AS {name}" for name in texts)
        return f"SELECT *{own}{f' REPLACE ({shown})' if shown else ''} FROM src.{table} WHERE {_SQL(_SHOWN[table])}"

    def _stored_readiness(self) -> None:
        self.connection.execute("CREATE TEMP VIEW lake_readiness AS FROM src.readiness")

    def _stage_times(self, changed: Sequence[str]) -> pa.Table:
        return self.connection.execute(_SQL("times")).to_arrow_table()

    def _index_vectors(self) -> dict[str, str]:
        return {"vector_search": "exact"}

    def _further_facts(self) -> dict[str, str]:
        """The version is a hash of the shown texts, whatever else the published one holds."""
        names = [name for (name,) in self.connection.execute(_SQL("undated_tables")).fetchall()]
        hashed = [f"SELECT '{n}', bit_xor(hash(t)) FROM \"{n}\" t" for n in names]
        rows = sorted(self.connection.execute(" UNION ALL ".join(hashed)).fetchall())
        return {"version": text_hash(json.dumps(rows))[:_VERSION_LETTERS]}
