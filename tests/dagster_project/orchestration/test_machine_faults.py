"""A machine that has no more files to open: nothing is taken for damaged, set aside or quarantined
because of it.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from urllib.parse import unquote

import pytest

from dagster_project.composition.objects import make_embedding_cache, make_sources
from dagster_project.index.publish import publisher
from dagster_project.lake.recorded_footers import recorded_footers
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.orchestration.plan import make_plan
from tests.archives import Workspace
from transforms.errors import WeftError


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """This process may open so many files more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, limits[1]))
        held = []
        while len(held) < 1000:
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for number, file in enumerate(held):
            os.close(file) if number < count else opened.callback(os.close, file)
        yield


@pytest.mark.parametrize("forgets", [False, True])
def test_a_plan_fails_where_files_cannot_be_opened(built: Workspace, forgets: bool):
    settings, lake, sources = built.settings, built.lake, make_sources(built.settings)
    assert make_plan(settings, sources, lake).is_empty
    outcomes = set()
    for count in range(6):
        publisher._read_once.cache_clear()
        if forgets:
            recorded_footers.cache_clear()
            built.lake.ledger.file.unlink(missing_ok=True)
        with files_left(count):
            try:
                outcomes.add(make_plan(settings, sources, lake).is_empty)
            except (WeftError, OSError) as fault:
                outcomes.add("Too many open files" in str(fault))
    assert outcomes == {True}


def test_no_vectors_are_set_aside_and_no_mail_is_quarantined(built: Workspace):
    cache, sources = make_embedding_cache(built.settings), make_sources(built.settings)
    mails, (place,) = sources.discover()[0], cache.root.glob("*/*/*")
    key = unquote(place.parts[-3]), int(place.parts[-2]), place.name
    known = SQLiteAnswerCache(place / "vectors.sqlite").all_keys()
    reads = (
        lambda: cache.vectors(key, known),
        lambda: [mail.fault for mail in sources.mails(mails)],
    )
    assert not any(reads[1]())
    for count, read in product(range(4), reads):
        with files_left(count), suppress(WeftError, OSError):
            assert not any(read()) if read is reads[1] else read()
    assert cache.missing(key, known) == set()
