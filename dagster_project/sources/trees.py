"""Vaults and documentation trees: which files below a folder are read, and why others are not."""

import errno
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from dagster_project.config.settings import USUALLY_EXCLUDED, DocumentSourceSettings
from dagster_project.system.disk_space import raise_of_machine
from dagster_project.system.globs import is_file, is_folder, is_there, partition_name, valid_text
from transforms.documents.files import document_format
from transforms.errors import SourceError
from transforms.hashing import text_hash
from transforms.settings.documents import CONVERTED_FORMATS, ISSUE_FORMATS, WIKI_FORMATS

_PATH_BYTES = 1024
_TEXTS_OF_PART = 500
"""Notes that a partition holds at most, on average; half as many at least."""
_FILES_OF_PART = 40
"""As _TEXTS_OF_PART, of files that take a hundred times as long to read."""
_PARTS_OF_TEXTS = ("all", "part-{number:03}-of-{count}")
_PARTS_OF_FILES = ("files", "files-{number:03}-of-{count}")
"""Names of partitions: of the only one, and of one of several."""

_EXPORTS = {"issues": ISSUE_FORMATS, "wiki": WIKI_FORMATS}
CONFLUENCE_XML = "entities.xml"
NO_CONFLUENCE_XML = (
    "confluence_xml: the XML export of a Confluence space is not read; export the space as HTML (Space settings, "
    "Export space), and give the folder of that export"
)


@dataclass(frozen=True)
class TreeFile:
    """A file below a tree's root: its path there, and the reason why it is not read, if there is
    one.
    """

    path: Path
    name: str
    fault: str | None = None


def tree_files(
    source: DocumentSourceSettings, root: Path, generated: Path, *, reads_pictures: bool = False
) -> list[TreeFile]:
    """The files below `root` in order of name, each to be read or with its reason; nothing below
    `generated`.

    Pictures are read with OCR alone. Folders that are hidden, excluded or links out of the root are
    one entry and are not entered. SourceError if the root is not a folder or holds no file to read:
    a disk that is not mounted must not empty the index.
    """
    if source.kind in _EXPORTS and is_file(root):
        return [TreeFile(root, root.name)]
    if not is_folder(root):
        raise SourceError(
            f"source {source.name}: {root} is not a folder; mend `path` in the settings, or remove the source "
            "from them to remove its documents from the index"
        )
    walk = _Walk(source, os.path.realpath(root), os.path.realpath(generated), reads_pictures)
    files = sorted(walk.files(), key=lambda file: file.name)
    if all(file.fault for file in files):
        raise SourceError(
            f"source {source.name}: no file of {root} matches `include` ({', '.join(source.include)}); mend "
            "`path` or `include`, or remove the source from the settings to remove its documents from the index"
        )
    return files


def tree_parts(files: Sequence[TreeFile], grain: str) -> dict[str, list[TreeFile]]:
    """The files by the name of their partition.

    `whole`: all are one; `folder`: by their top-level folder, those beside them are `top`. `auto`:
    files that take long to read apart from the others, both dealt by a hash of the path into as
    many parts as hold at most some hundred, a power of two: an edit reads one part, and the parts
    do not depend on earlier files.
    """
    if grain == "whole":
        return {"all": list(files)}
    parts: dict[str, list[TreeFile]] = {}
    if grain == "folder":
        for file in files:
            folder, slash, _ = file.name.partition("/")
            parts.setdefault(partition_name(folder) if slash else "top", []).append(file)
        return parts
    slow = {
        file.name
        for file in files
        if not file.fault and document_format(file.name) in CONVERTED_FORMATS
    }
    for names, most, is_slow in (
        (_PARTS_OF_TEXTS, _TEXTS_OF_PART, False),
        (_PARTS_OF_FILES, _FILES_OF_PART, True),
    ):
        dealt = [file for file in files if (file.name in slow) == is_slow]
        count = 1 << max(math.ceil(len(dealt) / most) - 1, 0).bit_length()
        for file in dealt:
            number = int(text_hash(file.name)[:8], 16) % count
            parts.setdefault(names[count > 1].format(number=number, count=count), []).append(file)
    return parts


class _Walk:
    """One walk over a tree; a folder is entered once, so that links cannot lead in circles.

    Paths are strings, each made of that of its folder: `pathlib` takes them apart again at every
    entry.
    """

    def __init__(
        self, source: DocumentSourceSettings, root: str, generated: str, reads_pictures: bool
    ):
        self.root, self.generated, self.reads_pictures = root, generated, reads_pictures
        self.included = matcher(source.include)
        self.excluded = matcher((*USUALLY_EXCLUDED, *source.exclude))
        self.exports = tuple(f".{ending}" for ending in _EXPORTS.get(source.kind, ()))
        self.entered: set[str] = set()

    def files(self) -> Iterator[TreeFile]:
        """Every entry that is not a folder to be entered."""
        folders = [(Path(self.root), "", self.root)]
        while folders:
            folder, below, resolved = folders.pop()
            if resolved in self.entered:
                continue
            self.entered.add(resolved)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                yield TreeFile(folder, below or ".", _why(error))
                continue
            for entry in entries:
                name = f"{below}/{valid_text(entry.name)}" if below else valid_text(entry.name)
                try:
                    place = (
                        os.path.realpath(entry.path)
                        if entry.is_symlink()
                        else f"{resolved}/{entry.name}"
                    )
                    if place == self.generated:
                        continue
                    fault = self._fault(entry, name, place)
                    enters = fault is None and entry.is_dir()
                except OSError as error:
                    fault, enters = _why(error), False
                if enters:
                    folders.append((folder / entry.name, name, place))
                else:
                    yield TreeFile(folder / entry.name, name, fault)

    def _fault(self, entry: os.DirEntry[str], name: str, place: str) -> str | None:
        """Why an entry, which is at `place` behind links, is not read or entered; None if it is."""
        is_tree = entry.is_dir()
        if entry.name.startswith("."):
            return f"hidden: the {'folder' if is_tree else 'file'}'s name begins with a dot"
        if self.excluded(f"{name}/" if is_tree else name):
            return "excluded: a pattern of `exclude` matches"
        if len(os.fsencode(name)) > _PATH_BYTES:
            return f"path_too_long: more than {_PATH_BYTES} bytes"
        if entry.is_symlink():
            if not is_there(Path(place)):
                return "broken_link: the symbolic link leads nowhere"
            if not Path(place).is_relative_to(self.root):
                return "outside_root: the symbolic link leads out of the source's folder"
        return None if is_tree else self._fault_of_file(entry, name)

    def _fault_of_file(self, entry: os.DirEntry[str], name: str) -> str | None:
        """Why an entry that is not a folder is not read; None if it is."""
        if not entry.is_file():
            return "not_a_file: neither a file nor a folder"
        if entry.name == CONFLUENCE_XML:
            return NO_CONFLUENCE_XML
        if not self.included(name):
            return "not_included: no pattern of `include` matches"
        kind = document_format(valid_text(entry.name))
        if kind is None and not entry.name.lower().endswith(self.exports):
            ending = PurePosixPath(valid_text(entry.name)).suffix
            return f"no_format: files ending in {ending or 'nothing'} are not read"
        if kind == "picture" and not self.reads_pictures:
            return "needs_ocr: it is a picture; set documents.ocr or documents.pictures to read it"
        return None


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "broken_link: the symbolic link leads in a circle, or through too many; mend or remove it"
    raise_of_machine(error)
    return f"unreadable: {error.strerror}"


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path below the root, of a folder with a slash at its end, matches the patterns;
    case does not matter.

    A pattern without a slash is compared with the last part alone, unless one takes back matches of
    others: on a long path, patterns for any depth are slow.
    """
    lowered = [pattern.lower() for pattern in patterns]
    is_ordered = any(pattern.startswith("!") for pattern in lowered)
    of_parts, of_paths = (
        GitIgnoreSpec.from_lines(p for p in lowered if (is_ordered or "/" in p) == is_path)
        for is_path in (False, True)
    )

    def matches(name: str) -> bool:
        name = name.lower()
        part = name[name.rstrip("/").rfind("/") + 1 :]
        return bool(of_parts.match_file(part) or of_paths.match_file(name))

    return matches
