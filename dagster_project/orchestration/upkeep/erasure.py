"""Erasure of forgotten texts: a build begins and finishes it, whichever process was asked to and
however often it is killed.

Text stays in files that nobody reads any more: free blocks of databases, earlier versions, caches,
previews of rows. So every file that may hold it is written again or deleted, whether or not it
does; nothing searches files for the text itself.
"""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
from sqlalchemy import Column, Connection, Table, or_, select, update

from dagster_project.composition.objects import (
    make_embedding_cache,
    make_lake,
    make_ledger,
    make_publisher,
    make_sources,
)
from dagster_project.config.settings import Settings
from dagster_project.evaluation.evaluator import html_page
from dagster_project.extensions import declared_tables, enabled, extras
from dagster_project.index.publish.versions import LENSES
from dagster_project.lake.forgotten import FORGOTTEN, Forgotten, partitions_with
from dagster_project.orchestration.asset_jobs import whole_assets
from dagster_project.orchestration.upkeep.caches import prune_answers, used_hashes
from dagster_project.system.dagster_internals import AssetKeyTable, SqlEventLogStorageTable
from dagster_project.system.durable import remove
from dagster_project.system.globs import write_atomically
from transforms.hashing import text_hash

_BUSY_SECONDS = 60.0
_INDEX = "index"
MADE_ON_REQUEST = (
    "search_results",
    "evaluation_queries",
    "evaluation_relevance",
    "evaluation_runs",
)
"""Tables that no build makes."""
_TEXTS = ("preview", "latest_context")
"""Metadata of materializations that show rows and blocks."""
_PARTITION = re.compile(r"[^\s\"'`|/\\]+/[^\s\"'`|/\\]+")
STAYS = "headers and quotes of others, ids in eval/, receipts and PostgreSQL's history, quarantine, settings with sources"
"""The places where names stay: others wrote them, a changed proof proves nothing, or a source still
holds the text.
"""


def begin(settings: Settings) -> None:
    """Take texts to forget out of fetched files: a fetch may bring them again, a build leaves them
    out then.
    """
    lake = make_lake(settings)
    forgotten = Forgotten(lake.base)
    if not forgotten.unfinished:
        return
    for source in settings.sources:
        if source.remote and forgotten.has("source", source.name):
            notes = settings.fetched / ".fetch"
            remove(
                (settings.fetched / source.name, notes / source.name, notes / f"{source.name}.json")
            )
    make_sources(settings).cut_fetched(set(partitions_with(lake, forgotten)))


def finish(settings: Settings, instance: dg.DagsterInstance) -> dict[str, int]:
    """After a publish: erase the remains of texts to forget; counts by kind, empty if nothing was
    to be erased.

    Nothing is finished while the lake still holds it, as it does where a source cannot be read.
    """
    lake = make_lake(settings)
    forgotten = Forgotten(lake.base)
    if not forgotten.unfinished or any(partitions_with(lake, forgotten)):
        return {}
    for table in (*MADE_ON_REQUEST, *(declared_tables().keys() - whole_assets(settings))):
        lake.discard(table)
    switched_off = [extra for extra in extras() if extra.folder and extra not in enabled(settings)]
    remove(settings.root / extra.folder for extra in switched_off)
    is_sqlite = instance.event_log_storage.is_run_sharded
    history = sorted(Path(instance.root_directory).rglob("*.db")) if is_sqlite else []
    counts = {
        "vectors": make_embedding_cache(settings).prune(used_hashes(settings)),
        "answers": prune_answers(settings),
        "previews": _erase_previews(instance),
        "names": sum(_erase_names(file, forgotten) for file in history),
        "reports": _erase_reports(settings.root / "eval"),
    }
    # The next build or search writes readings of documents, copies of remote files and narrowed
    # versions.
    rest = (
        "cache/documents",
        "cache/lake",
        "cache/backup",
        LENSES,
    )
    remove(settings.root / name for name in rest)
    make_ledger(settings).erase()
    for file in (
        make_ledger(settings).file,
        *(settings.root / "cache").rglob("*.sqlite"),
        *history,
    ):
        with closing(sqlite3.connect(file, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("VACUUM")  # free pages keep their text
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    forgotten.finish()
    return counts


def left_out(settings: Settings) -> dict[str, int]:
    """By source, how many mails and documents it still holds that were forgotten, as the published
    version says.
    """
    current = make_publisher(settings, make_lake(settings)).current()
    if current is None or not Forgotten(make_lake(settings).base).hashes:
        return {}
    with duckdb.connect(str(current), read_only=True) as connection:
        return dict(connection.execute(_LEFT_OUT, {"reason": FORGOTTEN}).fetchall())


_LEFT_OUT = """
SELECT source, count(*) FROM quarantine WHERE starts_with(reason, $reason || ':') GROUP BY source ORDER BY source
"""


def _erase_reports(folder: Path) -> int:
    """Take titles and words of hits out of the reports of evaluations and their pages; how many
    were changed.
    """
    count = 0
    for place in sorted(folder.glob("*.json")):
        report = json.loads(place.read_text(encoding="utf-8"))
        if not any((texts := report.get("texts") or {}).values()):
            continue
        report["texts"] = {kind: {} for kind in texts}
        write_atomically(place, json.dumps(report, ensure_ascii=False, indent=1, sort_keys=True))
        if (html := place.with_suffix(".html")).exists():
            write_atomically(html, html_page(report))
        count += 1
    return count


def _erase_previews(instance: dg.DagsterInstance) -> int:
    """Take rows and blocks out of all materializations that Dagster remembers; how many events were
    changed.
    """
    log = instance.event_log_storage
    with log.index_connection() as connection:  # type: ignore[attr-defined]
        count = _erase(connection, SqlEventLogStorageTable, SqlEventLogStorageTable.c.event)
        _erase(connection, AssetKeyTable, AssetKeyTable.c.last_materialization)
    runs = Path(instance.root_directory) / "history" / "runs"
    for file in sorted(runs.glob("*.db")) if log.is_run_sharded else ():
        if file.stem != _INDEX and not file.name.startswith("."):
            with log.run_connection(file.stem) as connection:  # type: ignore[attr-defined]
                _erase(connection, SqlEventLogStorageTable, SqlEventLogStorageTable.c.event)
    log.dispose()
    return count


def _erase_names(file: Path, forgotten: Forgotten) -> int:
    """Put hashes in the place of forgotten partitions' keys in a file of Dagster; how many values
    were changed.
    """

    def hashed(match: re.Match[str]) -> str:
        is_gone = forgotten.has("partition", match[0]) or forgotten.has(
            "source", match[0].partition("/")[0]
        )
        return f"forgotten/{text_hash(match[0])}" if is_gone else match[0]

    with closing(sqlite3.connect(file, timeout=_BUSY_SECONDS)) as connection, connection:
        connection.create_function(
            "named", 1, lambda v: _PARTITION.sub(hashed, v) if v is str(v) else v
        )
        statements = connection.execute(_RENAMING).fetchall()
        return sum(connection.execute(statement).rowcount for (statement,) in statements)


_RENAMING = """
SELECT printf('UPDATE "%w" SET "%w" = named("%w") WHERE "%w" <> named("%w")', t.name, c.name, c.name, c.name, c.name)
FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND (c.type = 'TEXT' OR c.type LIKE 'VARCHAR%')
"""


def _erase(connection: Connection, table: Table, column: Column[Any]) -> int:
    """Take the texts out of the events in a column; their number."""
    where = or_(*(column.contains(f'"label": "{name}"') for name in _TEXTS))
    rows = connection.execute(select(table.c.id, column).where(where)).fetchall()
    for ident, event in rows:
        changed = json.dumps(_without_texts(json.loads(event)))
        connection.execute(update(table).where(table.c.id == ident).values({column.name: changed}))
    return len(rows)


def _without_texts(value: Any) -> Any:
    """A serialized event without the entries of metadata that show texts."""
    if isinstance(value, dict):
        return {key: _without_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [
            _without_texts(v)
            for v in value
            if not (isinstance(v, dict) and v.get("label") in _TEXTS)
        ]
    return value
