"""Fifty files that no reader expects, made of one that it reads: damaged, of another form, too deep,
under odd names, or none at all.
"""

import bz2
import gzip
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from dagster_project.system.globs import valid_text
from tests.archives import Workspace
from tests.broken_files import UNREADABLE, a_folder, mutated
from tests.format_files import zipped

COUNT = 50
"""Nasty files beside the good ones."""
LONG = 100_000
"""Signs that repeat where something is too long or too deep."""
WORDS = ("bittern", "cormorant", "quetzal")
"""A word of each good file; the last is in that of which the nasty ones are made."""


class Kind(NamedTuple):
    """A kind of source with files of one ending; `good` makes one that says a word of `WORDS`.

    The files are in the folder `below` of the source, which `path` leads to. A file that has
    another name once it is read is accounted for if `alone`, of its name and bytes, gives
    something.
    """

    source: str
    ending: str
    good: Callable[[str], bytes]
    path: str = "src"
    below: str = "."
    alone: Callable[[str, bytes], object] = lambda name, data: False


DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "nul": lambda data: bytes(1000),
    "nul-within": lambda data: data[:40] + bytes(3) + data[40:],
    "one-byte": lambda data: b"\xff",
    "blanks": lambda data: b" \r\n\t" * 100,
    "mark": lambda data: b"\xef\xbb\xbf",
    "mark-before": lambda data: b"\xef\xbb\xbf" + data,
    "utf-16": lambda data: data.decode("latin-1").encode("utf-16"),
    "utf-16-unmarked": lambda data: data.decode("latin-1").encode("utf-16-le"),
    "utf-32": lambda data: data.decode("latin-1").encode("utf-32"),
    "no-utf-8": lambda data: data.replace(b"e", b"\xe9\xff"),
    "cut-early": lambda data: data[: len(data) // 4],
    "cut-late": lambda data: data[:-2],
    "without-head": lambda data: data[len(data) // 3 :],
    "twice": lambda data: data + data,
    "backwards": lambda data: b"".join(reversed(data.splitlines(keepends=True))),
    "carriage-returns": lambda data: data.replace(b"\n", b"\r"),
    "one-line": lambda data: data.replace(b"\n", b" "),
    "packed": lambda data: gzip.compress(data, mtime=0),
    "packed-and-cut": lambda data: bz2.compress(data)[:-9],
    "zipped": lambda data: zipped({"../../etc/passwd": data, "a" * 300: data}),
    "long-word": lambda data: data + b"x" * LONG,
    "long-line": lambda data: data + b"\n" + b"reed-" * (LONG // 5),
    "signs": lambda data: data + b"\n# " + b"?" * LONG,
    "open-lists": lambda data: b"[" * LONG,
    "open-objects": lambda data: b'{"a":' * (LONG // 5),
    "open-elements": lambda data: b"<a>" * (LONG // 3),
    "entities": lambda data: b'<!DOCTYPE a [<!ENTITY b "' + b"&b;" * 99 + b'">]><a>&b;</a>',
    "page-of-a-fault": lambda data: b"<!DOCTYPE html><title>502</title><h1>Bad gateway</h1>",
    "null": lambda data: b"null",
    "numbers": lambda data: json.dumps([10**400, -1, 1e308, [], {}, None, True]).encode(),
    "surrogates": lambda data: b'{"messages": [{"text": "\\ud800", "date": "\\udfff"}]}',
    "years": lambda data: data.replace(b"20", b"99").replace(b"1", b"9"),
    "no-digits": lambda data: bytes(byte for byte in data if not 48 <= byte <= 57),
    "turned": lambda data: data.replace(b" ", "\u202e \u2066".encode()),
    "escapes": lambda data: data.replace(b" ", b"\x1b[31m\x07 "),
    "keys": lambda data: b"---\n" + b"".join(b"k%d: 1\n" % n for n in range(9_000)) + b"---\n",
    "anchors": lambda data: b"---\na: &a [*a, *a]\n---\n" + data,
}
"""What becomes of a good file, by a name that says how."""
ODD_NAMES = (
    b"new\nline",
    b"'quote'",
    b'"double"',
    b" a  b ",
    b"-rf",
    b"na\xefve",
    b"%2e%2e%2f",
    b"back\\slash",
    b"*?[a]{b}",
    "\U0001f9ab".encode(),
    "\u202egnp".encode(),
    b"semi;colon$(id)`id`",
    b"x" * 200,
)
"""Names that are no UTF-8, or mean something to a shell, a pattern or a terminal."""


def with_nasty_files(work: Workspace, kind: Kind, seed: int = 1) -> Workspace:
    """A workspace with a source of two good files and fifty nasty ones."""
    folder = work.folder / "src" / kind.below
    folder.mkdir(parents=True)
    for number, word in enumerate(WORDS[:2]):
        (folder / f"good{number}{kind.ending}").write_bytes(kind.good(word))
    chance = random.Random(seed)
    makers = _makers(kind.good(WORDS[2]), chance)
    for number, (name, make) in zip(range(COUNT), makers, strict=False):
        odd = ODD_NAMES[number % len(ODD_NAMES)] if name == "mutated" else name.encode()
        make(folder / os.fsdecode(b"%s.%02d%s" % (odd, number, kind.ending.encode())))
    return work.configure({"name": "nasty", "kind": kind.source, "path": kind.path})


def _makers(good: bytes, chance: random.Random) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Names and makers of nasty files without end: what is no file, all `DAMAGES`, then random ones."""

    def written(data: bytes) -> Callable[[Path], object]:
        return lambda path: path.write_bytes(data)

    yield from ((make.__name__, make) for make in UNREADABLE if make is not a_folder)
    yield from ((name, written(damage(good))) for name, damage in DAMAGES.items())
    while True:
        yield "mutated", written(mutated(good, chance))


def assert_accounted_for(work: Workspace, kind: Kind) -> None:
    """The good files are found by their words; each nasty one is read, or in quarantine with a reason."""
    for word in WORDS[:2]:
        assert work.sql(f"SELECT doc_id FROM search_text('{word}')"), word
    rows = work.sql("SELECT place, reason FROM quarantine")
    assert all(reason.partition(": ")[2] for _, reason in rows)
    places = {place for place, _ in rows}
    places |= set(work.column("SELECT path FROM documents"))
    places |= set(work.column("SELECT doc_id FROM chunks"))
    for file in Path(str(work.lake.base)).glob("messages/*/*.parquet"):
        places |= set(pl.read_parquet(file)["place"])
    known = "\n".join(places)
    for path in (work.folder / "src" / kind.below).glob("[!.]*"):
        stem = valid_text(path.name).removesuffix(kind.ending)
        assert stem in known or kind.alone(path.name, path.read_bytes()), path.name
