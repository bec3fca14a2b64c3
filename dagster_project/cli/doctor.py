"""`weft doctor`: whether everything that a build and a search need is there, and whether all stored
files are valid.
"""

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import duckdb
from rich.text import Text

from dagster_project.cli.deployment import deployment
from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.composition import objects
from dagster_project.config.settings import Settings, load_settings
from dagster_project.extensions import offered
from dagster_project.index.files.arrays import damage_of_arrays, folder_of
from dagster_project.index.files.posting_arrays import VECTORS_IN
from dagster_project.index.publish.lens.lens_file import damaged_files
from dagster_project.index.publish.publisher import DuckDBPublisher
from dagster_project.index.publish.table_sql import RANKING_TABLES
from dagster_project.index.publish.vector_index import load_vss
from dagster_project.index.publish.versions import damage_of, first_line
from dagster_project.lake.forgotten import Forgotten
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import CORRUPT, is_local
from dagster_project.orchestration.build import unread_sources
from dagster_project.orchestration.instance import MOVE_AWAY, damages, instance_place, require_valid
from dagster_project.orchestration.outcomes import Finding, unread_faults
from dagster_project.sources.document_readers import missing_program
from dagster_project.sources.seen_partitions import fingerprint_in_lake
from dagster_project.system.locks import runs_of
from transforms.errors import CheckFailedError, HistoryError, WeftError
from transforms.schemas.chunks import UNEMBEDDED

_PACKAGES = ("dagster", "ibis-framework", "polars", "pyarrow", "sqlglot")
_PUBLISH_ROOM = 3
"""A publish needs the new version beside the old one, and DuckDB spills while it sorts."""
_LEAST_FREE_BYTES = 1 << 30
_CHANGED_IN_PLACE = (".db", ".sqlite", ".lock")
"""Endings of files that are written to; all others are made aside and renamed."""


@click.command()
@CONFIG
@JSON
@click.option(
    "--deployment",
    "is_deployment",
    is_flag=True,
    help="Check what several machines need: Dagster's database and launcher, the lake, secrets, the index.",
)
@explained
def doctor(config: Path | None, as_json: bool, is_deployment: bool) -> None:
    """Check that everything is there and valid, and say what to do; exit code 7 if something is
    not.
    """
    settings = load_settings(config)
    findings = list(deployment(settings) if is_deployment else examination(settings))
    if as_json:
        click.echo(json.dumps([asdict(f) for f in findings], ensure_ascii=False))
    else:
        console = terminal()
        styles = {"ok": "green", "warning": "yellow", "fault": "bold red"}
        for finding in findings:
            state = Text(f"{finding.state:<8}", style=styles[finding.state])
            console.print(state + Text(f"{finding.area:<12}{finding.found}"), soft_wrap=True)
            if finding.remedy:
                console.print(Text(f"{'':<20}→ {finding.remedy}", style="cyan"), soft_wrap=True)
    if faults := sorted({f.area for f in findings if f.state == "fault"}):
        raise CheckFailedError(f"not well: {', '.join(faults)}; each line above says what to do")


def examination(settings: Settings) -> Iterator[Finding]:
    """Every finding, in order; reads every byte of the lake and of the cache, changes nothing.

    Files that reading makes, such as copies of a remote lake, go to a temporary folder.
    """
    with TemporaryDirectory(prefix="weft-doctor-") as folder:
        aside = Path(folder)
        lake = objects.make_lake(settings, aside)
        sources = partial(_sources, lake=lake, aside=aside)
        looks: dict[str, Callable[[Settings], Iterator[Finding]]] = {
            "versions": _versions,
            "extensions": _extension,
            "permissions": _folders,
            "disk": _disk,
            "work": _work,
            "sources": sources,
            "lake": partial(_lake, lake=lake),
            "index": _index,
            "cache": _cache,
            "history": _history,
            "lenses": _lenses,
        }
        for area, look in looks.items():
            try:
                yield from look(settings)
            except OSError as error:
                what = f"{error.filename or settings.root} cannot be read: {error.strerror}"
                yield Finding(area, "fault", what, f"give user {os.getuid()} the right to read it")


def _versions(settings: Settings) -> Iterator[Finding]:
    yield Finding(
        "versions", "ok", f"Python {platform.python_version()}, DuckDB {duckdb.__version__}"
    )
    for requirement in metadata.requires("weft") or []:
        name, _, exact = requirement.partition("==")
        if exact and ";" not in requirement and metadata.version(name) != exact:
            yield Finding(
                "versions",
                "fault",
                f"{name} is {metadata.version(name)}, Weft needs {exact}",
                f"pip install '{requirement}'",
            )
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    yield Finding("versions", "ok", versions)
    yield Finding("model", "ok", f"vectors are of {settings.embedding.model_id}")
    chosen = {settings.embedding.model, settings.rerank.method, *settings.sentence_kinds().values()}
    for name, service in offered("models").items():
        if name in chosen and service.module and not _is_installed(service.module):
            fault = f"the settings choose models of {name}, and {service.module} is not installed"
            yield Finding("model", "fault", fault, f"pip install 'weft[{service.extra}]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _extension(settings: Settings) -> Iterator[Finding]:
    try:
        with duckdb.connect() as connection:
            load_vss(connection)
    except duckdb.Error as error:
        needed = (
            f"no index of up to {settings.index.ann_max_vectors:,} vectors can be made or searched"
        )
        yield Finding(
            "extensions",
            "fault",
            f"DuckDB cannot load vss ({first_line(error)}): {needed}",
            f"pip install --force-reinstall duckdb-extension-vss=={duckdb.__version__}",
        )
        return
    yield Finding("extensions", "ok", "DuckDB loads vss from its package")


def _folders(settings: Settings) -> Iterator[Finding]:
    yield Finding("settings", "ok", f"{len(settings.sources)} sources, storage at {settings.root}")
    home = instance_place(settings)
    remedy = (
        f"give user {os.getuid()} the right to write there, which every build needs and no search"
    )
    lake = [Path(settings.lake_uri)] if "://" not in settings.lake_uri else []
    folders = (settings.root, settings.root / "index", settings.root / "cache", home, *lake)
    for folder in dict.fromkeys(folders):
        there = next(p for p in (folder, *folder.parents) if p.exists())
        below = (p for p in folder.rglob("*") if p.is_dir() or p.suffix in _CHANGED_IN_PLACE)
        if not there.is_dir():
            yield Finding(
                "permissions", "fault", f"{there} is not a folder", "move it away, then weft build"
            )
        elif shut := [p for p in (there, *below) if not os.access(p, os.W_OK)]:
            yield Finding("permissions", "fault", f"{shut[0]} cannot be written", remedy)
        elif folder.exists():
            yield Finding("permissions", "ok", f"{folder} can be written")


def _disk(settings: Settings) -> Iterator[Finding]:
    there = next(p for p in (settings.root, *settings.root.parents) if p.exists())
    free = shutil.disk_usage(there).free
    current = _publisher(settings).current()
    needed = max(_LEAST_FREE_BYTES, _PUBLISH_ROOM * current.stat().st_size if current else 0)
    text = f"{_size(free)} free at {there}, a publish may need {_size(needed)}"
    remedy = "make room, or lower index.keep_versions and delete older versions in index/"
    yield Finding("disk", "warning", text, remedy) if free < needed else Finding("disk", "ok", text)


def _work(settings: Settings) -> Iterator[Finding]:
    for run_id, lives in runs_of(settings.root).items():
        if lives:
            yield Finding("work", "ok", f"run {run_id[:8]} is going on")
        else:
            yield Finding(
                "work", "warning", f"run {run_id[:8]} was ended before it was done", "weft build"
            )


def _sources(settings: Settings, *, lake: ParquetLake, aside: Path) -> Iterator[Finding]:
    if not settings.pseudonym_key_file.exists():  # to read chats would make one
        storage = settings.storage.model_copy(
            update={"pseudonym_key": str(aside / "pseudonym.key")}
        )
        settings = settings.model_copy(update={"storage": storage})
    sources = objects.make_sources(settings, aside)
    try:
        partitions = sources.discover()
    except WeftError as fault:
        yield Finding(
            "sources", "fault", str(fault), "mend what the message names; no build works before"
        )
        return
    for broken in sources.broken.values():
        yield Finding(
            "sources", "fault", broken, "mend what the message names; the index keeps its rows"
        )
    if missing := missing_program(
        file.name
        for p in partitions
        if p.source not in sources.broken
        for file in sources.stored_files(p)
    ):
        yield Finding("sources", "warning", *missing.split("; "))
    waiting = [u.key for u in partitions if fingerprint_in_lake(u, lake) != u.fingerprint]
    if waiting:
        names = ", ".join(waiting[:3])
        yield Finding(
            "sources",
            "warning",
            f"{len(waiting)} of {len(partitions)} partitions wait, such as {names}",
            "weft build",
        )
    else:
        yield Finding("sources", "ok", f"{len(partitions)} partitions, all in the lake")


def _lake(settings: Settings, *, lake: ParquetLake) -> Iterator[Finding]:
    places = lake.places()
    if unread := [str(lake.path(*place)) for place in places if lake.footer(*place) is None]:
        what = f"{len(unread)} of {len(places)} files are truncated or of another schema, such as {unread[0]}"
        yield Finding("lake", "fault", what, "weft build, which makes them again")
    if corrupt := [str(lake.path(*place)) for place in lake.corrupt_files()]:
        what = f"{len(corrupt)} of {len(places)} files are {CORRUPT}, such as {corrupt[0]}"
        yield Finding("lake", "fault", what, "weft build --verify, which makes them again")
    if Forgotten(lake.base).unfinished:
        yield Finding("lake", "warning", "texts to forget are not erased everywhere", "weft build")
    if not places:
        yield Finding("lake", "ok", "nothing is stored yet")
    elif not unread and not corrupt:
        place = "" if is_local(lake.base) else f" at {lake.base}"
        yield Finding(
            "lake",
            "ok",
            f"{len(places)} files{place}, with the columns of now and as they were written",
        )


def _index(settings: Settings) -> Iterator[Finding]:
    publisher = _publisher(settings)
    current = publisher.current()
    if current is None:
        yield Finding(
            "index", "warning", f"nothing is published in {publisher.folder}", "weft build"
        )
        return
    remedy = f"delete {current} and run `weft build`, which publishes a new one from the lake"
    try:
        with duckdb.connect(str(current), read_only=True) as connection:
            manifest = dict(connection.execute("SELECT key, value FROM manifest").fetchall())
            yield from _index_facts(connection, current, manifest, publisher.layout, remedy)
            yield from documents_without_headings(connection)
            yield from _without_vectors(connection)
            yield from _arrays(manifest, current)
        yield from _collection(settings, current)
        for fault, remedy in unread_faults(unread_sources(settings)):
            yield Finding("sources", "fault", fault, remedy)
    except ValueError as error:
        yield Finding(
            "index",
            "fault",
            f"the manifest of {current} cannot be read: {first_line(error)}",
            remedy,
        )
    except duckdb.Error as error:
        yield _unopened(current, error, remedy)


def _unopened(current: Path, error: duckdb.Error, advice: str) -> Finding:
    """A published file that cannot be opened; only one whose damage has been seen is to be deleted."""
    try:
        damage = damage_of(current)
    except OSError as refused:
        remedy = "look at its rights, at the disk and at other programs that open it: nothing says that it is damaged"
        return Finding("index", "fault", f"{current} cannot be read: {refused}", remedy)
    if damage is None:
        what = f"{current} could not be opened ({first_line(error)}), though all of it can be read"
        return Finding("index", "fault", what, "weft doctor again, with fewer programs beside it")
    return Finding("index", "fault", f"{current} cannot be read: {damage}", advice)


def _index_facts(
    connection: duckdb.DuckDBPyConnection,
    current: Path,
    manifest: dict[str, str],
    layout: str,
    remedy: str,
) -> Iterator[Finding]:
    """Layout and row counts of an opened index against its manifest; counting reads the tables."""
    if manifest.get("layout") != layout:
        text = f"{current.name} is of another layout, tokenizer or model than the settings"
        yield Finding("index", "warning", text, "weft build, which publishes one that fits")
    expected = {k: v for k, v in json.loads(manifest.get("rows", "{}")).items() if k != "manifest"}
    counts = {
        name: (connection.execute(f'SELECT count(*) FROM "{name}"').fetchone() or (0,))[0]
        for (name,) in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
        ).fetchall()
        if name in expected
    }
    if VECTORS_IN in manifest:
        expected = {name: count for name, count in expected.items() if name not in RANKING_TABLES}
    if wrong := sorted(name for name in expected if expected[name] != counts.get(name)):
        yield Finding(
            "index",
            "fault",
            f"{current} has other rows than its manifest says in {', '.join(wrong)}",
            remedy,
        )
    else:
        yield Finding(
            "index",
            "ok",
            f"{current.name}: {counts.get('chunks', 0):,} chunks, rows as its manifest says",
        )


def _arrays(manifest: dict[str, str], current: Path) -> Iterator[Finding]:
    """A fault if a byte of the arrays beside an opened index differs from what was written; reads
    all of them.
    """
    try:
        damage = damage_of_arrays(current, manifest, reads_all=True)
    except OSError as error:
        damage = f"{folder_of(current)} cannot be read ({error})"
    if damage:
        yield Finding("index", "fault", damage, "weft build --verify, which makes them again")


def _collection(settings: Settings, current: Path) -> Iterator[Finding]:
    """Whether the collection that ranks has all of the published file."""
    try:
        if (mirror := objects.make_mirror(settings)) is None:
            return
        state = mirror.state_of(current)
    except WeftError as fault:
        yield Finding("index", "fault", str(fault), "weft build, which sends the missing ones")
        return
    if state is None:
        text = f"nothing says where {current.name} is in the service of `index.target`"
        yield Finding("index", "warning", text, "weft build")
    else:
        yield Finding("index", "ok", state)


def documents_without_headings(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """A warning if documents without headings are cut by headings, which the chunker `semantic`
    does.
    """
    (count,) = connection.execute(
        "SELECT count(DISTINCT doc_id) FROM chunks WHERE chunk_kind = 'semantic_section' "
        "AND doc_id IN (SELECT doc_id FROM nodes GROUP BY doc_id HAVING count(*) = 1)"
    ).fetchone() or (0,)
    if count:
        text = f"{count:,} documents without headings are cut by `semantic`, which loses a fifth of their answers"
        yield Finding(
            "index", "warning", text, 'set `chunker = "sections"` for their source, and build'
        )


def _without_vectors(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """How many chunks of logs are found by their words alone, as `chunks.log_vector_chars` has it."""
    (count,) = connection.execute(
        "SELECT count(*) FROM chunks WHERE checksum = ? AND content_class = 'log'", [UNEMBEDDED]
    ).fetchone() or (0,)
    if count:
        text = f"{count:,} chunks of logs have no vector (chunks.log_vector_chars); their words find them"
        yield Finding("index", "ok", text)


def _cache(settings: Settings) -> Iterator[Finding]:
    cache = objects.make_embedding_cache(settings)
    if damages := [*cache.verify(), *objects.make_answer_cache(settings).verify()]:
        what = f"{len(damages)} files of vectors or answers are damaged, such as {damages[0].path}: {damages[0].reason}"
        yield Finding("cache", "fault", what, "weft cache verify --discard, then weft build")
    else:
        yield Finding(
            "cache",
            "ok",
            f"{sum(h.count for h in cache.stats()):,} vectors, all as they were stored",
        )


def _history(settings: Settings) -> Iterator[Finding]:
    home = instance_place(settings)
    try:
        require_valid(settings)
    except HistoryError as fault:
        yield Finding(
            "history", "fault", str(fault), "mend what the message names; no build works before"
        )
    for damage in damages(settings):
        yield Finding("history", "fault", damage, f"{home}: {MOVE_AWAY}")
    size = sum(p.stat().st_size for p in home.rglob("*") if p.is_file())
    yield Finding("history", "ok", f"Dagster's history takes {_size(size)} in {home}")


def _lenses(settings: Settings) -> Iterator[Finding]:
    for file, damage in damaged_files(settings.root):
        remedy = f"delete {file.parent}: the next question under its lens makes it again"
        yield Finding("lenses", "fault", f"{file} is not what was written: {damage}", remedy)


def _publisher(settings: Settings) -> DuckDBPublisher:
    return objects.make_publisher(settings, objects.make_lake(settings))


def _size(count: int) -> str:
    return f"{count / (1 << 30):,.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):,.1f} MiB"
