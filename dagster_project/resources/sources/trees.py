"""Vaults and documentation trees: which files below a folder are read, and why others are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wcmatch import glob

from dagster_project.config.settings import DocumentSourceSettings
from transforms.errors import SourceError
from transforms.settings.documents import DOCUMENT_FORMATS

_PATH_BYTES = 1024
_GLOB = glob.GLOBSTAR | glob.DOTGLOB | glob.MATCHBASE | glob.IGNORECASE


@dataclass(frozen=True)
class TreeFile:
    """A file below a tree's root: its path there, and the reason why it is not read, if there is one."""

    path: Path
    name: str
    fault: str | None = None


def tree_files(source: DocumentSourceSettings, root: Path, generated: Path) -> list[TreeFile]:
    """The files below `root` in order of name, each to be read or with its reason; nothing below `generated`.

    Folders that are hidden, excluded or links out of the root are one entry and are not entered.
    SourceError if the root is no folder or holds no file to read: a disk that is not mounted must
    not empty the index.
    """
    if not root.is_dir():
        raise SourceError(
            f"source {source.name}: {root} is no folder; mend `path` in the settings, or remove the source "
            "from them to remove its documents from the index"
        )
    found = sorted(_Walk(source, root.resolve(), generated).files(), key=lambda file: file.name)
    if all(file.fault for file in found):
        raise SourceError(
            f"source {source.name}: no file of {root} matches `include` ({', '.join(source.include)}); mend "
            "`path` or `include`, or remove the source from the settings to remove its documents from the index"
        )
    return found


class _Walk:
    """One walk over a tree; a folder is entered once, so that links cannot lead in circles."""

    def __init__(self, source: DocumentSourceSettings, root: Path, generated: Path):
        self.root, self.generated = root, generated
        self.included = _matcher(source.include)
        self.excluded = _matcher([p for p in source.exclude if not p.endswith("/")])
        self.excluded_folders = _matcher([p.removesuffix("/**").rstrip("/") for p in source.exclude])
        self.entered: set[Path] = set()

    def files(self) -> Iterator[TreeFile]:
        """Every entry that is not a folder to be entered."""
        folders = [self.root]
        while folders:
            folder = folders.pop()
            resolved = folder.resolve()
            if resolved in self.entered:
                continue
            self.entered.add(resolved)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                yield TreeFile(folder, self._name(folder), f"unreadable: {error.strerror}")
                continue
            for entry in entries:
                path = Path(entry.path)
                if path.resolve() == self.generated:
                    continue
                fault = self._fault(entry, path)
                if fault is None and entry.is_dir():
                    folders.append(path)
                else:
                    yield TreeFile(path, self._name(path), fault)

    def _fault(self, entry: os.DirEntry[str], path: Path) -> str | None:
        """Why an entry is not read or entered; None if it is."""
        name = self._name(path)
        is_folder = entry.is_dir()
        if entry.name.startswith("."):
            return f"hidden: the {'folder' if is_folder else 'file'}'s name begins with a dot"
        if (self.excluded_folders if is_folder else self.excluded)(name):
            return "excluded: a pattern of `exclude` matches"
        if len(os.fsencode(name)) > _PATH_BYTES:
            return f"path_too_long: more than {_PATH_BYTES} bytes"
        if entry.is_symlink():
            target = path.resolve()
            if not target.exists():
                return "broken_link: the symbolic link leads nowhere"
            if not target.is_relative_to(self.root):
                return "outside_root: the symbolic link leads out of the source's folder"
        if is_folder:
            return None
        if not entry.is_file():
            return "not_a_file: neither a file nor a folder"
        if not self.included(name):
            return "not_included: no pattern of `include` matches"
        if path.suffix.lower().removeprefix(".") not in DOCUMENT_FORMATS:
            return f"no_format: files ending in {path.suffix or 'nothing'} are not read"
        return None

    def _name(self, path: Path) -> str:
        """The path below the root as valid text: bytes that are no UTF-8 are written as escapes."""
        relative = path.relative_to(self.root).as_posix()
        return os.fsencode(relative).decode(errors="backslashreplace")


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path below the root matches one of the patterns; one without a slash counts at any depth."""
    if not patterns:
        return lambda name: False
    compiled = glob.compile(list(patterns), flags=_GLOB)
    return lambda name: bool(compiled.match(name))
