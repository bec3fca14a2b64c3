"""The exported graph on disk: folders compared, written aside and exchanged whole."""

import ctypes
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from dagster_project.extras.graph.transforms.hal_export import INDEX, Folder, file_table
from dagster_project.system.durable import put, remove, sync
from dagster_project.system.locks import alone

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class FileGraphExporter:
    """Keeps the files of a graph below a folder, and unfinished ones in a hidden folder beside it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.aside = folder.with_name(f".{folder.name}-under-way")

    def export(self, folders: Iterable[Folder]) -> tuple[pa.Table, Mapping[str, int]]:
        """Make the export consist of `folders`, documents first; returns the files and counts of
        changes.

        A document's folder is exchanged whole, so its index and chunks are always of one version;
        the indexes over it follow, and removed files are deleted last, when nothing leads to them.
        A folder that is right already is not touched. A crash leaves a readable export; the next
        one ends the work.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        done: Counter[str] = Counter(written=0, unchanged=0, deleted=0)
        names: set[str] = set()
        tables = []
        with alone(self.folder.with_name(f".{self.folder.name}.lock")):
            remove([self.aside])
            self.aside.mkdir()
            try:
                for folder in folders:
                    tables.append(file_table([folder]))
                    names.update(str(Path(folder.path, name)) for name in folder.files)
                    done["written" if self._write(folder) else "unchanged"] += 1
                done["deleted"] = self._delete_all_but(names)
            finally:
                remove([self.aside])
        return pa.concat_tables(tables).sort_by("path"), {
            f"folders_{k}": v for k, v in done.items()
        }

    def _write(self, folder: Folder) -> bool:
        """Bring one folder up to date; False if it was."""
        place = self.folder / folder.path
        if folder.doc_id is None:
            return (
                sum(self._write_file(place / name, data) for name, data in folder.files.items()) > 0
            )
        there = {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}
        if there == folder.files:
            return False
        new = self.aside / "new"
        for name, data in folder.files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self._put(new, place)
        return True

    def _write_file(self, place: Path, data: bytes) -> bool:
        if place.is_file() and place.read_bytes() == data:
            return False
        new = self.aside / "file"
        new.write_bytes(data)
        self._put(new, place)
        return True

    def _put(self, new: Path, place: Path) -> None:
        for above in place.relative_to(self.folder).parents:
            # A document may have become a folder, and the reverse.
            if (self.folder / above).is_file():
                (self.folder / above).unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        if new.is_file() and not place.is_dir():
            put(new, place)
            return
        if place.exists():
            _exchange(new, place, self.aside / "old")
            sync([place.parent])
            remove([new])
        else:
            put(new, place)

    def _delete_all_but(self, names: set[str]) -> int:
        """Delete the files that are not of the graph, and the folders that they leave empty."""
        deleted = 0
        for path, _, files in os.walk(self.folder, topdown=False):
            here = Path(path)
            removed = [
                name for name in files if str((here / name).relative_to(self.folder)) not in names
            ]
            for name in removed:
                (here / name).unlink()
            deleted += INDEX in removed
            if here != self.folder and not any(here.iterdir()):
                here.rmdir()
        return deleted


def _exchange(one: Path, other: Path, spare: Path) -> None:
    """Exchange two paths; at once where the system can (Linux), else by three renames."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = (os.fsencode(one), os.fsencode(other))
    if rename is None or rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        other.rename(spare)
        one.rename(other)
        spare.rename(one)
