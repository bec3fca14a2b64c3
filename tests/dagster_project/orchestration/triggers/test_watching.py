"""`weft build --watch` builds after edits of documents: once for many, and never for what no source
reads.
"""

from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from watchfiles import Change

from dagster_project.orchestration.instance import open_instance
from dagster_project.orchestration.triggers.watching import (
    builds_after_edits,
    coalesced_edits,
    watched_folders,
)
from tests.archives import Workspace
from tests.timing import until
from transforms.errors import SettingsError


@pytest.fixture
def vault(tmp_path: Path) -> Workspace:
    folder = tmp_path / "work" / "notes"
    folder.mkdir(parents=True)
    (folder / "first.md").write_text("# Heron\n\nOne heron a week.\n")
    return Workspace(tmp_path / "work").configure(
        {"name": "notes", "kind": "vault", "path": "notes"}
    )


def test_folders_of_documents_are_watched_and_of_mail_are_not(vault: Workspace, tmp_path: Path):
    assert watched_folders(vault.settings) == [vault.folder / "notes"]
    with pytest.raises(SettingsError, match="needs a vault or document tree"):
        watched_folders(Workspace(tmp_path / "mail").configure().settings)


def watches() -> int:
    """How many folders this process has the system watch."""
    count = 0
    for entry in Path("/proc/self/fdinfo").iterdir():
        with suppress(FileNotFoundError):
            count += entry.read_text().count("inotify wd:")
    return count


@pytest.mark.exhaustive
@pytest.mark.skipif(
    not Path("/proc/self/fdinfo").exists(), reason="no /proc that says what is watched"
)
def test_edits_are_built_once_and_named(vault: Workspace):
    notes = vault.folder / "notes"

    def edit() -> None:
        until(lambda: watches() > before, "a watch of the folder")
        for name in ("second", "third"):
            (notes / f"{name}.md").write_text(f"# {name}\n\nA kingfisher.\n")

    with open_instance(vault.settings) as instance:
        before = watches()
        lines = builds_after_edits(
            vault.settings, instance, coalesced_edits(watched_folders(vault.settings))
        )
        assert "the sources as they are: searchable after" in next(lines)
        Thread(target=edit).start()
        assert " second.md, third.md: searchable after " in next(lines)
    assert vault.column("SELECT count(*) FROM documents") == [3]


@pytest.mark.exhaustive
def test_what_no_source_reads_builds_nothing_and_a_fault_is_tried_again(vault: Workspace):
    note = vault.folder / "notes" / "first.md"
    aside = vault.folder / "aside.md"

    def edits():
        yield {(Change.added, str(vault.settings.root / "lake"))}
        note.rename(aside)
        yield {(Change.deleted, str(note))}
        aside.rename(note)
        yield {(Change.added, str(note))}

    with open_instance(vault.settings) as instance:
        lines = list(builds_after_edits(vault.settings, instance, edits()))
    assert [line.split(" ", 1)[1].partition(": ")[0] for line in lines][:2] == [
        "the sources as they are",
        "first.md",
    ]
    assert ": error: " in lines[1] and "notes" in lines[1]
    assert len(lines) == 2, "the folder is again what was built"
