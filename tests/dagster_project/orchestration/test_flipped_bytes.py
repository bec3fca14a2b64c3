"""A flipped byte in any file that Weft wrote is named, or changes no answer; one build makes again
what is damaged.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from upath import UPath

from dagster_project.cli.doctor import examination
from dagster_project.composition.objects import make_answer_cache
from dagster_project.evaluation.evaluate import open_index
from dagster_project.lake.forgotten import Forgotten, Kind
from dagster_project.lake.recorded_footers import recorded_footers
from dagster_project.orchestration.build import build
from dagster_project.outgoing.receipts import Receipts, Seen
from tests.archives import Workspace, differences, lake_hashes
from tests.cases import some
from transforms.errors import WeftError
from transforms.settings.search import LensSettings

QUERIES = ["What does the compactor do?", "garbage collector load", "from:p1 shell"]
KINDS = {
    "facts of the arrays": "index/weft-*.arrays/facts.json",
    "rows of hits": "index/weft-*.arrays/*hits.sqlite",
    "arrays of chunks": "index/weft-*.arrays/*.npy",
    "arrays of segments": "index/weft-*.arrays/segment-*/*.npy",
    "published file": "index/weft-*.duckdb",
    "lake": "lake/**/*.parquet",
    "cached vectors": "cache/**/vectors.sqlite",
    "ledger": "state.sqlite",
}
"""By kind, the pattern of its files below the storage root."""
FLIPS = 6
"""Bytes of each kind, one at a time."""
LENS = {"first": LensSettings(where="kind:message")}
STORED = {f"question {number}": f"answer {number}" for number in range(40)}


def answers(work: Workspace) -> object:
    """Hits of some queries with their texts, or the fault that is named."""
    try:
        with closing(open_index(work.settings)) as opened:
            return opened.search(QUERIES).hits.to_pylist()
    except WeftError as fault:
        assert str(work.settings.root) in str(fault) or "weft" in str(fault)
        return "named"


def under_a_lens(work: Workspace) -> object:
    with closing(
        open_index(work.settings.model_copy(update={"lenses": LENS}), lens="first")
    ) as opened:
        return opened.search(QUERIES).hits.to_pylist()


def cached_answers(work: Workspace) -> object:
    """The answers of a cache, in which those that are missing are stored once more."""
    cache = make_answer_cache(work.settings)
    known = cache.known(list(STORED))
    assert known.items() <= STORED.items()
    cache.store({key: answer for key, answer in STORED.items() if key not in known})
    return cache.known(list(STORED))


def disclosed(work: Workspace) -> object:
    receipts = Receipts(work.settings.root)
    if not receipts.path.exists():
        for number in range(9):
            receipts.add("search", str(number), Seen("1", None), [], Counter())
    return list(receipts.read())


def forgotten(work: Workspace) -> object:
    names: list[tuple[Kind, str]] = [
        ("mail", f"m{number}@example.org") for number in range(900, 909)
    ]
    stored = Forgotten(UPath(work.settings.lake_uri))
    if not stored.hashes:
        stored.begin(names)
        stored.finish()
    return [stored.has(*name) for name in names], stored.unfinished


def planned(work: Workspace) -> object:
    """What a build would make, and the runs before it, which decide nothing."""
    return str(work.plan())


OTHERS: dict[str, tuple[str, Callable[[Workspace], object]]] = {
    "files of lenses": ("lenses/*/weft-*.duckdb", under_a_lens),
    "arrays of lenses": ("lenses/*/weft-*.arrays/**/*.*", under_a_lens),
    "answers": ("cache/answers.sqlite", cached_answers),
    "receipts": ("receipts/*.jsonl", disclosed),
    "what was forgotten": ("lake/forgotten.json", forgotten),
    "history": ("dagster/**/*.db", planned),
}
"""By kind, the pattern of its files below the storage root, and what is asked of them, which makes
what is missing.
"""


@pytest.mark.parametrize("kind", some(reversed(OTHERS), each=4))
def test_a_flipped_byte_of_a_file_beside_the_index_is_named_or_changes_nothing(
    built: Workspace, kind: str
):
    pattern, ask = OTHERS[kind]
    expected = ask(built)
    for file in flipped(
        built, pattern, random.Random(kind), 3 if "lens" in kind or kind == "history" else 60
    ):
        if "lens" in kind:  # a search makes arrays again
            remedies = [f.remedy for f in examination(built.settings) if f.area == "lenses"]
            assert remedies or "arrays" not in kind
            assert all(
                remedy.startswith(f"delete {built.settings.root / 'lenses'}/")
                for remedy in remedies
            )
        try:
            is_equal = ask(built) == expected
        except WeftError:
            continue
        assert is_equal or [f for f in examination(built.settings) if f.state != "ok"], file


def flipped(
    work: Workspace, pattern: str, random_: random.Random, flips: int = FLIPS
) -> Iterator[Path]:
    """One file after the other with one byte that is another; it is as it was afterwards."""
    notes = {path: path.read_bytes() for path in work.settings.root.glob("*/**/facts.json")}
    files = sorted(f for f in work.settings.root.glob(pattern) if f.is_file() and f.stat().st_size)
    assert files, pattern
    for _ in range(flips):
        file = random_.choice(files)
        written = file.read_bytes()
        place = random_.randrange(len(written))
        data = bytearray(written)
        data[place] ^= 1 << random_.randrange(8)
        file.write_bytes(data)
        recorded_footers.cache_clear()
        yield file
        file.write_bytes(written)
        for path, facts in notes.items():  # whoever saw the damage took them away
            path.write_bytes(facts)


@pytest.mark.parametrize("kind", some(KINDS, each=3))
def test_a_flipped_byte_is_named_or_changes_nothing(built: Workspace, kind: str):
    expected = answers(built)
    assert expected != "named"
    for file in flipped(built, KINDS[kind], random.Random(kind)):
        if answers(built) not in ("named", expected):
            assert [f for f in examination(built.settings) if f.state != "ok"], file


LARGE = {"arrays of segments": 30, "rows of hits": 12}
"""Flips of the files of which a search reads some blocks; the others are read at each opening."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """An index of more than 40,000 chunks, each a section of a few words."""
    work = Workspace(tmp_path_factory.mktemp("large") / "work")
    random_ = random.Random("large")
    words = ["compactor", "garbage", "collector", "load", "shell", *map(str, range(3_000))]
    for number in range(100):
        sections = (" ".join(random_.choices(words, k=30)) for _ in range(420))
        text = "".join(f"## Part {n} of {number}\n\n{s}\n\n" for n, s in enumerate(sections))
        work.put(f"notes/{number}.md", f"# Note {number}\n\n{text}")
    work.configure({"name": "notes", "kind": "tree", "path": "notes"})
    work.build()
    with closing(open_index(work.settings)) as opened:
        assert opened.chunk_count > 40_000
    return work


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_byte_beside_a_large_index_is_named_or_changes_nothing(
    large: Workspace, kind: str
):
    expected = answers(large)
    assert expected != "named"
    for file in flipped(large, KINDS[kind], random.Random(kind), LARGE.get(kind, 3)):
        if answers(large) not in ("named", expected):
            assert [f for f in examination(large.settings) if f.state != "ok"], file


@pytest.mark.exhaustive
def test_one_build_makes_again_what_is_damaged(built: Workspace, built_once: Workspace):
    damages = [
        flipped(built, pattern, random.Random(f"build {kind}")) for kind, pattern in KINDS.items()
    ]
    assert len({next(files) for files in damages}) == len(KINDS)
    # Vectors may have been paid for, so a command of its own discards them.
    built.weft("cache", "verify", "--discard")
    with built.instance() as instance:
        build(built.settings, instance, verify=True)
    assert differences(built.index, built_once.index) == {}
    assert lake_hashes(built) == lake_hashes(built_once)
    assert answers(built) == answers(built_once)
    assert [f for f in examination(built.settings) if f.state != "ok"] == []
