"""Fingerprints of code: hashes of all definitions that a function uses, of the data files that they
read, and of the versions of the libraries that decide about its results.

A definition uses the names in it, in its module or in those that it imports, and the modules that it
names in a text, such as that of a process. Comments, docstrings, layout, the names of modules and
definitions that are not used change nothing.
"""

import hashlib
import importlib.util
import json
import os
import platform
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from dagster_project.system.code_trees import EFFECTS, Definition, ModuleCode, module_code
from dagster_project.system.globs import NO_WRITING, write_atomically

_DIGITS = 12
"""Hexadecimal digits of a fingerprint."""
ENGINES = frozenset(
    {
        *("dagster", "duckdb", "ibis", "numpy", "polars", "pyarrow", "pydantic", "sqlglot"),
        *("click", "httpx2", "rich", "starlette", "typing_extensions", "upath", "uvicorn"),
    }
)
"""Libraries that compute or transport and do not decide about content: another version of these makes
nothing stale.
"""
DISTRIBUTIONS = {
    "PIL": "pillow",
    "Stemmer": "PyStemmer",
    "cchardet": "faust-cchardet",
    "yaml": "PyYAML",
}
"""The names of distributions that are not those of their modules."""
_OF_PYTHON = frozenset({"email", "html", "unicodedata"})
"""Modules of Python that decide about content; their version is that of Python."""
_SUFFIXES = (".toml", ".sql", ".lark", ".json", ".rb", ".safetensors", ".html")
_ALL = "*"
_CHATS = "dagster_project.sources.chat_exports"
ELSEWHERE = frozenset(
    {
        ("dagster_project.config.settings", "Settings"),
        (_CHATS, "ExportReader"),
        (_CHATS, "FILE_PROGRAMS"),
    }
)
"""Code whose results stages are compared by, so that what uses it does not change with it: the
values of settings have digests, and windows of chats have a fingerprint of all that was read.
"""
_ROOT = Path(__file__).parents[2]
PACKAGES = {"transforms", "assets", "dagster_project"}
"""The packages whose code is read; another one counts as a library."""
_Place = tuple[str, str]


@dataclass(frozen=True)
class Use:
    """The use of a place: the hashes of its definition and of the names in it as `text`, their
    `places`, and the `files` that have it; for a place in a library the name of that.
    """

    text: str = ""
    places: Sequence[_Place] = ()
    files: Sequence[Path] = ()
    library: str = ""


class Code:
    """The code below the folders of packages; `read` gives the bytes of a file."""

    def __init__(self, read: Callable[[Path], bytes] = Path.read_bytes):
        self._read = read
        self._modules: dict[str, tuple[Path, ModuleCode] | None] = {}
        self._trees: dict[Path, str] = {}
        self._uses: dict[_Place, Use] = {}

    def uses(self, roots: Iterable[str]) -> dict[_Place, Use]:
        """All that the definitions at `roots` (`module:name`) use, by its place.

        LookupError for a root that is nowhere.
        """
        split = (root.partition(":") for root in roots)
        waiting = [(module, name.partition(".")[0]) for module, _, name in split]
        for place in waiting:
            if not self._definition(place):
                raise LookupError(f"there is no definition {':'.join(place)} in the code")
        result: dict[_Place, Use] = {}
        while waiting:
            place = waiting.pop()
            if place not in result:
                result[place] = self._use(place)
                waiting += set(result[place].places) - ELSEWHERE
        return result

    def _use(self, place: _Place) -> Use:
        """The use of one place."""
        if place not in self._uses:
            known = self._module(place[0])
            self._uses[place] = (
                self._use_of_module(place, *known)
                if known
                else Use(library=place[0].partition(".")[0])
            )
        return self._uses[place]

    def _use_of_module(self, place: _Place, path: Path, module: ModuleCode) -> Use:
        name, attribute = place
        following = [(name, EFFECTS)]
        if attribute == _ALL:
            following += [(name, own) for own in module.definitions]
        elif attribute in module.imports and attribute not in module.definitions:
            following.append(self._imported(*module.imports[attribute], []))
        if not (definition := module.definitions.get(attribute)):
            return Use("", following, [path])
        used = dict(self._used(name, module, definition))
        data = self._data(path, definition)
        lines = [
            definition.hash,
            *(f"{dotted} {self._hash(target)}" for dotted, target in sorted(used.items())),
            *(f"{file.name} {self._tree(file)}" for file in data),
        ]
        return Use("\n".join(lines), [*following, *used.values()], [path, *data])

    def digest(self, roots: Iterable[str]) -> tuple[str, set[Path], list[str]]:
        """The hash of all that the definitions at `roots` use, the files that have it, and the
        distributions of the libraries whose versions count.
        """
        uses = self.uses(roots).values()
        lines = sorted(use.text for use in uses if use.text)
        files = {file for use in uses for file in use.files}
        content = {use.library for use in uses} - ENGINES - (sys.stdlib_module_names - _OF_PYTHON)
        libraries = sorted(DISTRIBUTIONS.get(name, name) for name in content - {""})
        return hashlib.sha256("\n\n".join(lines).encode()).hexdigest(), files, libraries

    def _definition(self, place: _Place) -> Definition | None:
        known = self._module(place[0])
        return known[1].definitions.get(place[1]) if known else None

    def _hash(self, place: _Place) -> str:
        """The meaning of a name: the hash of its definition, or its place if it is not of this code
        or is compared `ELSEWHERE`.
        """
        definition = None if place in ELSEWHERE else self._definition(place)
        return definition.hash if definition else ".".join(place)

    def _used(
        self, name: str, module: ModuleCode, definition: Definition
    ) -> Iterator[tuple[str, _Place]]:
        """The names that a definition uses, each with its place."""
        for text in definition.texts:
            place, _, attribute = text.partition(":")
            if place.partition(".")[0] in PACKAGES and self._module(place):
                yield text, (place, attribute or _ALL)
        for dotted in definition.names:
            first, *rest = dotted.split(".")
            if first in module.definitions and first not in definition.imports:
                yield first, (name, first)
            if imported := definition.imports.get(first) or module.imports.get(first):
                yield dotted, self._imported(*imported, rest)

    def _imported(self, module: str, name: str, rest: Sequence[str]) -> _Place:
        """The place of a name of an imported module, or of an attribute of it."""
        parts = [*([name] if name else []), *rest]
        if not self._module(module):
            return module, parts[0] if parts else _ALL
        while parts and self._module(f"{module}.{parts[0]}"):
            module = f"{module}.{parts.pop(0)}"
        return module, parts[0] if parts else _ALL

    def _module(self, name: str) -> tuple[Path, ModuleCode] | None:
        """The file and the definitions of a module; None if it is not of these packages."""
        if name not in self._modules:
            path = _path_of(name)
            package = name if path and path.name == "__init__.py" else name.rpartition(".")[0]
            self._modules[name] = (path, module_code(self._read(path), package)) if path else None
        return self._modules[name]

    def _data(self, path: Path, definition: Definition) -> list[Path]:
        """The data files beside a module that a definition names, and those of folders that it names."""
        files = [path.parent / text for text in definition.texts & _beside(path.parent)]
        folders = [file for file in files if file.is_dir() and not (file / "__init__.py").exists()]
        inner = (file for folder in folders for file in folder.rglob("*"))
        return sorted(f for f in (*files, *inner) if f.suffix in _SUFFIXES and f.is_file())

    def _tree(self, file: Path) -> str:
        """The hash of a data file, of TOML without its comments and layout."""
        if file not in self._trees:
            data = self._read(file)
            if file.suffix == ".toml":
                data = json.dumps(tomllib.loads(data.decode()), default=str).encode()
            self._trees[file] = hashlib.sha256(data).hexdigest()
        return self._trees[file]


@cache
def _beside(folder: Path) -> frozenset[str]:
    return frozenset(place.name for place in folder.iterdir())


def _path_of(module: str) -> Path | None:
    first, *rest = module.split(".")
    if first not in PACKAGES:
        return None
    place = _ROOT.joinpath(first, *rest)
    both = place.with_name(f"{place.name}.py"), place / "__init__.py"
    return next((file for file in both if file.is_file()), None)


class Fingerprints:
    """Fingerprints of places in the code, remembered in `memory` for as long as no file of it changes.

    One belongs to a process: the code that it read is the code that the process imported.
    """

    def __init__(self, memory: Path, code: Code | None = None):
        self._memory, self._code, self._stored = memory, code or Code(), _recalled(memory)
        files = self._stored.get("files", {})
        if any(_state(file) != state for file, state in files.items()):
            self._stored = {}

    def of(self, requested: Sequence[tuple[str, ...]]) -> list[str]:
        """The fingerprint of each tuple of places (`module:name`), in hexadecimal digits.

        LookupError if a place is not in the code.
        """
        known = self._stored.setdefault("uses", {})
        names = [" ".join(sorted(places)) for places in requested]
        if missing := {
            name: places for name, places in zip(names, requested, strict=True) if name not in known
        }:
            files = self._stored.setdefault("files", {})
            for name, places in missing.items():
                digest, used, libraries = self._code.digest(places)
                known[name] = [digest, libraries]
                files |= {str(file): _state(str(file)) for file in used}
            self._remember()
        return [_with_versions(*known[name]) for name in names]

    def _remember(self) -> None:
        """Write the memory; nothing if its folder may not be written, as that of other users."""
        try:
            write_atomically(self._memory, json.dumps(self._stored))
        except OSError as error:
            if error.errno not in NO_WRITING:
                raise


def _recalled(memory: Path) -> dict[str, Any]:
    try:
        stored = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _state(file: str) -> list[int]:
    """Size and time of a file; empty if it is not there."""
    try:
        info = os.stat(file)  # noqa: PTH116 - a path object takes longer than the look
    except OSError:
        return []
    return [info.st_size, info.st_mtime_ns]


def _with_versions(digest: str, libraries: Sequence[str]) -> str:
    """A digest together with the versions of libraries that are installed now."""
    parts = [digest, *(f"{name} {_version(name)}" for name in libraries)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


@cache
def _version(library: str) -> str:
    if library in _OF_PYTHON:
        return ".".join(platform.python_version_tuple()[:2])
    try:
        metadata = distribution(library).read_text("METADATA") or ""
    except PackageNotFoundError:
        return "absent"
    # `importlib.metadata.version` takes 3 ms for each: it parses all of a file with the whole README.
    return next(line for line in metadata.splitlines() if line.startswith("Version:"))


@cache
def _fingerprints() -> Fingerprints:
    """Those of this process, remembered beside its compiled modules."""
    return Fingerprints(Path(importlib.util.cache_from_source(__file__)).with_suffix(".json"))


def code_hashes(requested: Sequence[tuple[str, ...]]) -> list[str]:
    """`Fingerprints.of` the code that is installed."""
    return _fingerprints().of(requested)
