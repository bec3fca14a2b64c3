"""Builds after edits of vaults and document trees, for `weft build --watch`, which needs no daemon
of Dagster.
"""

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import dagster as dg
from watchfiles import Change, watch

from dagster_project.config.settings import DocumentSourceSettings, Settings
from dagster_project.orchestration.build import build
from dagster_project.orchestration.triggers.schedules import documents_fingerprint
from dagster_project.system.globs import is_folder
from transforms.errors import SettingsError, WeftError

Changes = Iterable[tuple[Change, str]]
"""Changes and their paths, as watchfiles reports them."""

_QUIET_MILLISECONDS = 1_000
"""Time without another edit after which a build begins."""
_LONGEST_WAIT_MILLISECONDS = 20_000
"""Time after the first edit at which a build begins though edits continue."""
_NAMED = 3


def watched_folders(settings: Settings) -> list[Path]:
    """The folders of the document sources, of a pattern the one above it; SettingsError without
    such a source.
    """
    folders = []
    for source in settings.sources:
        if isinstance(source, DocumentSourceSettings):
            folder = settings.place(source)
            while not folder.is_dir():
                folder = folder.parent
            folders.append(folder)
    if not folders:
        raise SettingsError(
            "weft build --watch needs a vault or document tree, and the settings have none"
        )
    return folders


def coalesced_edits(folders: Iterable[Path]) -> Iterator[Changes]:
    """Edits below some folders, those that follow each other closely at once; never ends."""
    return watch(
        *folders,
        watch_filter=None,
        step=_QUIET_MILLISECONDS,
        debounce=_LONGEST_WAIT_MILLISECONDS,
        raise_interrupt=False,
    )


def builds_after_edits(
    settings: Settings, instance: dg.DagsterInstance, edits: Iterable[Changes]
) -> Iterator[str]:
    """Build at first and after each of `edits` that changes a document; yields a line for each
    build.

    A build that fails is a line, too; its edits are built with the next.
    """
    before = documents_fingerprint(settings)
    yield _built(settings, instance, "the sources as they are")
    for changes in edits:
        now = documents_fingerprint(settings)
        if now == before:
            continue
        line = _built(settings, instance, _names(settings, changes))
        if ": error: " not in line:
            before = now
        yield line


def _built(settings: Settings, instance: dg.DagsterInstance, what: str) -> str:
    start = time.monotonic()
    try:
        result = build(settings, instance, fetch=False)
    except WeftError as fault:
        return f"{datetime.now():%H:%M:%S} {what}: error: {' '.join(str(fault).split())}"
    if faults := result.faults():
        return f"{datetime.now():%H:%M:%S} {what}: error: {' '.join(faults.split())}"
    outcome = "searchable" if result.published else "nothing changed"
    return f"{datetime.now():%H:%M:%S} {what}: {outcome} after {time.monotonic() - start:.1f} s"


def _names(settings: Settings, changes: Changes) -> str:
    paths = {Path(path) for _, path in changes}
    names = sorted(
        {p.name for p in paths if not p.is_relative_to(settings.root) and not is_folder(p)}
    )
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}" if names else "the folders"
