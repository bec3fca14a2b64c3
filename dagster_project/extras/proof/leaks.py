"""`weft eval lens`, and the guard of publishes: whether texts outside of a lens change an answer under it."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from os.path import commonprefix
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from dagster_project.cli.options import CONFIG, JSON, QUERY_FILES, explained
from dagster_project.config.settings import Settings, load_settings
from dagster_project.evaluation.evaluate import drafted, make_evaluator
from dagster_project.index.search.filters import Filters
from dagster_project.index.search.opened_index import open_index
from dagster_project.servers import answers
from transforms.errors import (
    CheckFailedError,
    GroundTruthError,
    IndexUnavailableError,
    LensError,
    ModelMismatchError,
    QueryError,
)
from transforms.evaluation.ground_truth import parse_ground_truth

_HITS, _BESIDE, _DRAFTED = 10, 60, 20
_SHOWN = ("messages", "attachments", "documents", "conversation_windows", "memberships")
_SHOWN_ROWS = " UNION ALL ".join(
    f"SELECT count(*), sum(hash(*COLUMNS(lambda name: name <> 'person_id'))) FROM {table}" for table in _SHOWN
)
"""Hashes of the rows that say nothing of others; the person of a mail follows from all mails."""


@click.command()
@click.argument("name")
@click.argument("other", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@CONFIG
@JSON
@QUERY_FILES
@click.option("--count", type=click.IntRange(1, 10_000), default=20, help="Without files: queries a kind.")
@explained
def lens(
    name: str, other: Path, config: Path | None, as_json: bool, files: tuple[Path, ...], count: int
) -> None:
    """Ask this workspace and that of the settings file OTHER the same queries under the lens NAME.

    It compares byte for byte what an assistant gets: sources, hits, documents, threads and a block of context.
    Without files, it draws queries from both indexes, also from hidden texts. Exit code 7 if an answer differs."""
    here = load_settings(config)
    shared = {part: getattr(here, part) for part in ("lenses", "search", "context", "safety", "mcp")}
    pair = here, load_settings(other).model_copy(update=shared)
    queries = _queries(pair, files, count)
    of_both = (_answers(settings, name, queries) for settings in pair)
    _, *answered = zip(["rows", "list_sources", *queries], *of_both, strict=True)
    differing = [(q, len(commonprefix(texts)), texts) for q, *texts in answered if texts[0] != texts[1]]
    count_of_all = len(queries) + 1
    equal = count_of_all - len(differing)
    if as_json:
        outcome = "DIFFERS" if differing else "EQUAL"
        names = [query for query, *_ in differing]
        answer = {"outcome": outcome, "lens": name, "asked": count_of_all, "equal": equal, "differing": names}
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        click.echo(f"lens {name}: {equal:,} of {count_of_all:,} answers are equal")
        for query, at, texts in differing[:10]:
            parts = (text[max(0, at - _BESIDE) : at + _BESIDE] for text in texts)
            click.echo("\n  ".join((f"differs: {query}", *parts)))
    if differing:
        sys.exit(CheckFailedError.exit_code)


def leak_guard(settings: Settings) -> Callable[[Path, Path | None], None] | None:
    """A guard that refuses to publish a file if hidden texts change an answer under a lens; None unless it is switched on.

    Raises CheckFailedError with the number of such answers. A lens is judged if it shows the same texts in the new file and
    in the current one, and can be applied to both: then all answers are to be equal byte for byte."""
    if not settings.evaluation.publish_check or not settings.lenses:
        return None

    def guard(new: Path, current: Path | None) -> None:
        if current is None:
            return
        queries = list[str]()
        with suppress(GroundTruthError, IndexUnavailableError, ModelMismatchError):
            queries = _queries([settings], (), _DRAFTED)
        with TemporaryDirectory(prefix=f"{new.stem}-", dir=new.parent) as aside:
            for lens in settings.lenses:
                of_both = (
                    _answers(_rooted(settings, Path(aside, file.stem)), lens, queries, file)
                    for file in (current, new)
                )
                _require_equal(lens, ["list_sources", *queries], *of_both)

    return guard


def _rooted(settings: Settings, root: Path) -> Settings:
    """The settings with another folder for all that is generated but the lake."""
    storage = settings.storage.model_copy(update={"root": str(root), "lake": settings.lake_uri})
    return settings.model_copy(update={"storage": storage})


def _require_equal(lens: str, names: Sequence[str], before: Iterator[str], after: Iterator[str]) -> None:
    """Refuse answers behind an equal first text that differ; a lens that one file does not know has none."""
    try:
        if next(before) != next(after):
            return
    except (LensError, IndexUnavailableError, ModelMismatchError):
        return
    differing = [name for name, *texts in zip(names, before, after, strict=True) if texts[0] != texts[1]]
    if differing:
        raise CheckFailedError(
            f"nothing was published: {len(differing)} of {len(names)} answers under the lens {lens} change with texts that "
            f"it hides, as {', '.join(differing[:5])}; report it, and set evaluation.publish_check = false to publish"
        )


def _queries(settings: Sequence[Settings], files: Sequence[Path], count: int) -> list[str]:
    """The queries of files or of the first settings, else `count` of a kind drafted from each index; sorted."""
    truths = [make_evaluator(settings[0], files).ground_truth()]
    if not truths[0].queries.num_rows:
        truths = [parse_ground_truth(drafted(one, count)[0], "draft") for one in settings]
    return sorted({query for truth in truths for query in truth.queries["query"].to_pylist()})


def _answers(
    settings: Settings, lens: str, queries: Sequence[str], place: Path | None = None
) -> Iterator[str]:
    """A hash of the shown rows, the list of sources, and the answer to each query or the fault that it meets.

    Without the time of the publish, and of the version, which is a hash of all that is shown, in the list alone."""
    limits, left_out = settings.mcp, {"index_version": True, "completeness": {"published_at"}}
    with closing(open_index(settings, True, lens, place)) as index:
        yield str(index.connection.execute(_SHOWN_ROWS).fetchall()) + index.manifest["settings"]
        text = cache(lambda id: answers.text(index, id, 0, limits.max_characters).answer.model_dump_json())
        yield answers.sources(index).answer.model_dump_json()
        for query in queries:
            try:
                hits = answers.hits(index, query, Filters(), _HITS, plain=False).answer
                block = answers.block(settings, index, query, settings.context.budget_tokens, "").answer
            except QueryError as fault:
                yield str(fault)
                continue
            names = dict.fromkeys(n for hit in hits.hits for n in (hit.doc_id, hit.thread_id) if n)
            both = (a.model_dump_json(exclude=left_out) for a in (hits, block))
            yield "\n".join((*both, *map(text, names)))
