"""A flipped byte in any file that Weft wrote is named, or changes no answer; one build makes again what is damaged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from dagster_project.cli.doctor import examination
from dagster_project.cli.main import main
from dagster_project.orchestration.build import build
from dagster_project.resources.evaluation.evaluate import open_index
from dagster_project.resources.lake.kept_footers import local_footers
from tests.archives import Workspace, differences, lake_hashes
from tests.cases import some
from transforms.errors import WeftError

QUERIES = ["What does the compactor do?", "garbage collector load", "from:p1 shell"]
KINDS = {
    "facts of the arrays": "index/weft-*.arrays/facts.json",
    "rows of hits": "index/weft-*.arrays/hit_chunks*.arrow",
    "texts of hits": "index/weft-*.arrays/hit_texts*.arrow",
    "arrays of chunks": "index/weft-*.arrays/*.npy",
    "arrays of segments": "index/weft-*.arrays/segment-*/*.npy",
    "published file": "index/weft-*.duckdb",
    "lake": "lake/**/*.parquet",
    "cached vectors": "cache/**/*.parquet",
    "kept footers": "cache/**/footers.sqlite",
    "memories": "cache/*.json",
}
"""By kind, the pattern of its files below the storage root."""
FLIPS = 6
"""Bytes of each kind, one at a time."""


def answers(work: Workspace) -> object:
    """Hits of some queries with their texts, or the fault that is named."""
    try:
        with closing(open_index(work.settings)) as opened:
            return opened.search(QUERIES).hits.to_pylist()
    except WeftError as fault:
        assert str(work.settings.root) in str(fault) or "weft" in str(fault)
        return "named"


def flipped(work: Workspace, pattern: str, random_: random.Random) -> Iterator[Path]:
    """One file after the other with one byte that is another; it is as it was afterwards."""
    files = sorted(f for f in work.settings.root.glob(pattern) if f.stat().st_size)
    assert files, pattern
    for _ in range(FLIPS):
        file = random_.choice(files)
        written = file.read_bytes()
        place = random_.randrange(len(written))
        data = bytearray(written)
        data[place] ^= 1 << random_.randrange(8)
        file.write_bytes(data)
        local_footers.cache_clear()
        yield file
        file.write_bytes(written)


@pytest.mark.parametrize("kind", some(KINDS, each=3))
def test_a_flipped_byte_is_named_or_changes_nothing(built: Workspace, kind: str):
    expected = answers(built)
    assert expected != "named"
    for file in flipped(built, KINDS[kind], random.Random(kind)):
        if answers(built) not in ("named", expected):
            assert [f for f in examination(built.settings) if f.state != "ok"], file


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_one_build_makes_again_what_is_damaged(built: Workspace, built_once: Workspace, kind: str):
    files = flipped(built, KINDS[kind], random.Random(f"build {kind}"))
    next(files)
    if kind == "cached vectors":  # they may have been paid for, so a command of its own discards them
        CliRunner().invoke(main, ["cache", "verify", "--discard", "--config", str(built.config)])
    with built.instance() as instance:
        build(built.settings, instance, verify=True)
    assert differences(built.index, built_once.index) == {}
    assert lake_hashes(built) == lake_hashes(built_once)
    assert answers(built) == answers(built_once)
    assert [f for f in examination(built.settings) if f.state != "ok"] == []
