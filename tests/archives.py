"""Small mail archives and the workspace in which tests build and search them."""

from __future__ import annotations

import atexit
import filecmp
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import dagster as dg
import duckdb
import numpy as np
import pyarrow.parquet as pq
from click.testing import CliRunner, Result

from dagster_project.cli.main import main
from dagster_project.composition.objects import make_lake, make_publisher, make_sources
from dagster_project.config.settings import Settings, load_settings
from dagster_project.index.files.arrays import SearchArrays, folder_of, open_arrays
from dagster_project.index.files.segments import read_terms, segments_of
from dagster_project.index.publish.version_inputs import Published
from dagster_project.lake.lake import ParquetLake
from dagster_project.orchestration.build import build
from dagster_project.orchestration.instance import instance_place, open_instance
from dagster_project.orchestration.outcomes import BuildResult
from dagster_project.orchestration.plan import Plan, make_plan
from dagster_project.orchestration.staleness import whole_tables
from dagster_project.system.dagster_internals import SqliteEventLogStorage

START = datetime(2004, 1, 5, 10, tzinfo=UTC)
PUBLISHED_ANEW = {
    "quarantine": ["first_seen"],
    "terms": ["term_id"],
    "readiness": [
        "seen_at",
        "parsed_at",
        "chunked_at",
        "embedded_at",
        "published_at",
        "lag_seconds",
    ],
}
"""Columns that say when and onto what a version was published, and so differ between two builds of
the same.
"""


@dataclass(frozen=True)
class Mail:
    """One mail; `number` makes its Message-ID and its time, unless they are given."""

    number: int
    body: str = "The quick brown fox jumps over the lazy dog."
    subject: str = "Foxes"
    reply_to: int | None = None
    sender: str = "ada@example.org"
    ident: str | None = None
    at: datetime | None = None
    headers: Sequence[str] = field(default=())

    @property
    def message_id(self) -> str:
        return self.ident or f"m{self.number}@example.org"

    def text(self) -> str:
        lines = [
            f"From: {self.sender}",
            f"Message-ID: <{self.message_id}>",
            f"Date: {format_datetime(self.at or START + timedelta(hours=self.number))}",
            f"Subject: {self.subject}",
        ]
        if self.reply_to is not None:
            lines.append(f"In-Reply-To: <m{self.reply_to}@example.org>")
        return "\n".join([*lines, *self.headers, "", self.body, ""])


def mbox(mails: Sequence[Mail]) -> bytes:
    return "".join(
        f"From ada@example.org Mon Jan  5 10:00:00 2004\n{m.text()}\n" for m in mails
    ).encode()


def discussion(first: int, count: int, topic: str) -> list[Mail]:
    """A thread of `count` mails with distinct texts; the second is too short to stand alone."""
    mails = [Mail(first, f"How does the {topic} behave when the load doubles?", topic)]
    for number in range(first + 1, first + count):
        body = (
            "Yes."
            if number == first + 1
            else f"The {topic} was measured in run {number}; it keeps its pace."
        )
        mails.append(
            Mail(number, body, f"Re: {topic}", reply_to=first, sender=f"p{number % 3}@example.org")
        )
    return mails


class Workspace:
    """A folder with a settings file, archives below mail/ and everything Weft makes below state/."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config = folder / "weft.toml"
        (folder / "mail").mkdir(parents=True, exist_ok=True)

    def write(self, name: str, mails: Sequence[Mail] | bytes) -> Path:
        path = self.folder / "mail" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(mails if isinstance(mails, bytes) else mbox(mails))
        return path

    def put(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure(self, *sources: Mapping[str, Any], **sections: Mapping[str, object]) -> Workspace:
        """Write the settings file; without sources there is one, `dev`, over mail/*.mbox.

        Small published files are changed in place, as large ones are by default. A section of an
        extra whose folder is not there is left out.
        """
        sections = {
            name: s
            for name, s in sections.items()
            if name != "graph" or name in Settings.model_fields
        }
        named = sources or ({"name": "dev", "kind": "mbox", "path": "mail/*"},)
        sections = {"storage": {"root": "state"}, **sections}
        lines = []
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items()), ""]
        for source in named:
            for title, values in (
                ("[[sources]]", source),
                ("[sources.fetch]", source.get("fetch", {})),
            ):
                plain = {k: v for k, v in values.items() if k != "fetch"}
                lines += (
                    [title, *(f"{k} = {json.dumps(v)}" for k, v in plain.items()), ""]
                    if plain
                    else []
                )
        self.config.write_text("\n".join(lines))
        return self

    def copied(self, folder: Path) -> Workspace:
        shutil.copytree(self.folder, folder, symlinks=True)
        return Workspace(folder)

    @property
    def digest(self) -> str:
        """Hash of all files below the folder, their paths included."""
        files = sorted(p for p in self.folder.rglob("*") if p.is_file())
        parts = [
            part
            for p in files
            for part in (str(p.relative_to(self.folder)).encode(), p.read_bytes())
        ]
        return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()

    @property
    def settings(self) -> Settings:
        return load_settings(self.config)

    @property
    def lake(self) -> ParquetLake:
        return make_lake(self.settings)

    def mails(self) -> list[bytes]:
        """The mails of all sources, in order of their files."""
        sources = make_sources(self.settings)
        return [mail.data for partition in sources.discover() for mail in sources.mails(partition)]

    def subjects(self) -> list[str]:
        return [mail.decode().partition("Subject: ")[2].partition("\n")[0] for mail in self.mails()]

    def files_with(self, word: str) -> list[str]:
        """The files of the current version that have the bytes of a word in lower case."""
        current = (self.index / "CURRENT").resolve()
        files = [current, *(path for path in folder_of(current).rglob("*") if path.is_file())]
        return [path.name for path in files if word.encode() in path.read_bytes().lower()]

    @property
    def index(self) -> Path:
        return self.settings.root / "index"

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        settings = self.settings
        home = instance_place(settings)
        if not home.exists() and (home.parent.is_dir() or not home.parent.exists()):
            shutil.copytree(_empty_history(), home)
        with open_instance(settings) as instance:
            yield instance

    def build(
        self, tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None
    ) -> BuildResult:
        """What `weft build` does, in this process."""
        with self.instance() as instance:
            return build(self.settings, instance, tell=tell)

    def publish(self, *without: str) -> Published:
        """Publish what the lake has of the sources, some partitions left out, without a run of
        Dagster.
        """
        partitions = {s.key: s.source_type for s in make_sources(self.settings).discover()}
        shown = {key: kind for key, kind in partitions.items() if key not in without}
        return make_publisher(self.settings, self.lake).publish(shown)

    def weft(self, *arguments: str, **more: Any) -> Result:
        """A run of the command line with the settings of the workspace, in this process."""
        return CliRunner().invoke(main, [*arguments, "--config", str(self.config)], **more)

    def plan(self) -> Plan:
        """What a build would do."""
        return make_plan(self.settings, make_sources(self.settings), self.lake)

    def due(self) -> dict[str, Any]:
        """What a build would do, with what the lake and the published version were made of; empty
        if nothing is due.
        """
        plan, lake, publisher = self.plan(), self.lake, make_publisher(self.settings, self.lake)
        made = {table: lake.footer(table) for table in whole_tables(self.settings, lake)}
        shown = {
            "shown": publisher.published_partitions(),
            "there": lake_hashes(self),
            "made": made,
        }
        return {} if plan.is_empty else {**vars(plan), "current": publisher.current(), **shown}

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str((self.index / "CURRENT").resolve()), read_only=True) as connection:
            return connection.execute(statement).fetchall()

    def column(self, statement: str) -> list[Any]:
        return [row[0] for row in self.sql(statement)]


Once = Callable[[Workspace], Workspace]
"""Gives a workspace built of the same files, as the fixture `once` does."""


@cache
def _empty_history() -> Path:
    """The home of an instance without runs, made once in a process, with the file of events of no
    run.
    """
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (
        open_instance(Workspace(folder).configure().settings) as instance,
        cast(SqliteEventLogStorage, instance.event_log_storage).run_connection(""),
    ):
        return folder / "state" / "dagster"


def flip(file: Path) -> None:
    """Flip one bit of a Parquet file in the middle of what lies before its footer."""
    written = bytearray(file.read_bytes())
    written[(len(written) - int.from_bytes(written[-8:-4], "little")) // 2] ^= 1
    file.write_bytes(written)


def embedded(result: BuildResult) -> int:
    """How many texts a build sent to the embedder."""
    return int(result.stages.get("embeddings", {}).get("rows", 0))


def differences(one: Path, other: Path) -> dict[str, int]:
    """Rows by table that two published folders do not share; empty when they show the same."""
    with duckdb.connect() as connection:
        for name, folder in (("one", one), ("other", other)):
            connection.execute(f"ATTACH '{(folder / 'CURRENT').resolve()}' AS {name} (READ_ONLY)")
        tables = "SELECT table_name FROM duckdb_tables() WHERE database_name = '{}'"
        keys = "SELECT table_name || constraint_text FROM duckdb_constraints() WHERE database_name = '{}'"
        names, others, declared, other_declared = (
            {row[0] for row in connection.execute(statement.format(name)).fetchall()}
            for statement in (tables, keys)
            for name in ("one", "other")
        )
        assert (names, declared) == (others, other_declared)
        found = {}
        for table in sorted(names):
            left_out = PUBLISHED_ANEW.get(table)
            columns = f"* EXCLUDE ({', '.join(left_out)})" if left_out else "*"
            where = (
                "WHERE key NOT IN ('published_at', 'postings_since_rebuild', 'vector_index_seconds')"
                if table == "manifest"
                else ""
            )
            # A term may have another number: new ones come behind those that are there.
            term = "JOIN {}.terms USING (term_id)" if table == "postings" else ""
            columns = "* EXCLUDE (term_id, df)" if term else columns
            a, b = (
                f"(SELECT {columns} FROM {n}.{table} {term.format(n)} {where})"
                for n in ("one", "other")
            )
            (count,) = connection.execute(
                f"SELECT count(*) FROM ((FROM {a} EXCEPT ALL FROM {b}) UNION ALL (FROM {b} EXCEPT ALL FROM {a}))"
            ).fetchone() or (0,)
            if count:
                found[table] = count
    whole = "manifest" in names
    return found | (
        _other_arrays((one / "CURRENT").resolve(), (other / "CURRENT").resolve()) if whole else {}
    )


def _other_arrays(one: Path, other: Path) -> dict[str, int]:
    """The arrays that are not the same in both versions, and how many chunks say something else of
    a hit.
    """
    told = sum(a != b for a, b in zip(_told_of_hits(one), _told_of_hits(other), strict=True))
    # Where rows of hits and chunks in segments stand depends on the order in which they came.
    by_history = ("hit_", "slots", "point_since")
    names = [p.name for p in folder_of(other).glob("*.npy") if not p.name.startswith(by_history)]
    assert names
    _, others, missing = filecmp.cmpfiles(folder_of(one), folder_of(other), names, shallow=False)
    a, b = (_in_segments(index) for index in (one, other))
    others += [
        name for name in a.keys() | b.keys() if not np.array_equal(a.get(name, []), b.get(name, []))
    ]
    return dict.fromkeys([*others, *missing], 1) | ({"hits": told} if told else {})


def _in_segments(index: Path) -> dict[str, np.ndarray]:
    """What the segments of a version hold by chunk number: lengths, the postings of each term, and
    vectors and codes.
    """
    arrays = _arrays(index)
    postings, vectors, every = arrays.postings, arrays.vectors, np.arange(len(arrays.logs))
    slots = postings.slots.of(every)
    lengths = np.concatenate([segment.lengths for segment in postings.segments], axis=1)[:, slots]
    found = {"lengths": lengths}
    if vectors.segments:
        found |= {"vectors": vectors.of(every), "vector_codes": vectors.codes_in(slots)}
    for term in {term for s in segments_of(folder_of(index)) for term in read_terms(s)}:
        parts = postings.parts(term)
        chunks = np.concatenate([postings.slots.chunks(part.slots) for part in parts])
        counts = np.concatenate([postings.counts[part.codes] for part in parts])
        there = np.flatnonzero(chunks >= 0)
        in_order = there[np.argsort(chunks[there])]
        assert postings.df(term) == len(in_order)
        if len(in_order):
            found[term] = np.column_stack([chunks[in_order], counts[in_order]])
    return found


def _arrays(index: Path) -> SearchArrays:
    with duckdb.connect(str(index), read_only=True) as connection:
        facts = dict(connection.execute("FROM manifest").fetchall())
        return open_arrays(connection, index, facts)


def _told_of_hits(index: Path) -> list[dict[str, Any]]:
    """What is told of each chunk of a version if it is a hit, with the text it stands in."""
    arrays = _arrays(index)
    told = arrays.rows.of(range(len(arrays.logs)))
    texts = arrays.rows.texts(row["text_key"] for row in told.values())
    return [{**told[n], "text_key": texts.get(told[n]["text_key"])} for n in sorted(told)]


def lake_hashes(work: Workspace) -> dict[str, str]:
    """Hash of the content of every file of the lake, by its path; those left out say when they were
    made.
    """
    root = Path(str(work.lake.base))
    return {
        str(file.relative_to(root)): pq.read_metadata(file).metadata[b"weft.content_hash"].decode()
        for file in sorted(root.rglob("*.parquet"))
        if file.stem not in PUBLISHED_ANEW
    }


def two_lists(folder: Path, **sections: Mapping[str, object]) -> Workspace:
    """A workspace with two lists in three partitions, short replies and a cross-posted thread."""
    made = Workspace(folder).configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
        **sections,
    )
    shared = discussion(300, 3, "garbage collector")
    made.write("dev/dev.2004-01.mbox", discussion(0, 6, "compactor"))
    made.write("dev/dev.2004-02.mbox", [*discussion(100, 6, "write-ahead log"), *shared])
    made.write("users/users.2004-01.mbox", [*discussion(200, 6, "shell"), *shared])
    return made


def rebuilt(original: Workspace, folder: Path) -> Workspace:
    """A workspace with the same sources and settings, built from nothing."""
    shutil.copytree(original.folder, folder, ignore=shutil.ignore_patterns("state"))
    made = Workspace(folder)
    made.build()
    return made
