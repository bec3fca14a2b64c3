"""`weft eval lens`, and the guard of publishes: whether texts outside of a lens change an answer
under it.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from os.path import commonprefix
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from dagster_project.cli.options import CONFIG, JSON, QUERY_FILES, explained
from dagster_project.config.settings import Settings, load_settings
from dagster_project.evaluation.evaluate import drafted, make_evaluator
from dagster_project.index.search.opened_index import open_index
from dagster_project.servers import answers
from transforms.errors import CheckFailedError, QueryError, WeftError
from transforms.evaluation.ground_truth import parse_ground_truth

_HITS, _BESIDE, _DRAFTED = 10, 60, 20
_SHOWN = ("messages", "attachments", "documents", "conversation_windows", "memberships")
_ROWS = "SELECT count(*), sum(hash(*COLUMNS(lambda name: name <> 'person_id'))) FROM "
"""A hash of the rows of a table, without the person of a mail, who follows from all mails."""


@click.command()
@click.argument("name")
@click.argument("other", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@CONFIG
@JSON
@QUERY_FILES
@click.option(
    "--count", type=click.IntRange(1, 10_000), default=20, help="Without files: queries a kind."
)
@explained
def lens(
    name: str, other: Path, config: Path | None, as_json: bool, files: tuple[Path, ...], count: int
) -> None:
    """Ask this workspace and that of the settings file OTHER the same queries under the lens NAME.

    It compares byte for byte what an assistant gets: sources, hits, documents, threads and a block
    of context. Without files, it draws queries from both indexes, also from hidden texts. Exit code
    7 if an answer differs.
    """
    here = load_settings(config)
    shared = {
        part: getattr(here, part) for part in ("lenses", "search", "context", "safety", "mcp")
    }
    pair = here, load_settings(other).model_copy(update=shared)
    queries = _queries(pair, files, count)
    of_both = (_answers(settings, name, queries) for settings in pair)
    _, *answered = zip(["rows", "list_sources", *queries], *of_both, strict=True)
    differing = [
        (q, len(commonprefix(texts)), texts) for q, *texts in answered if texts[0] != texts[1]
    ]
    count_of_all = len(queries) + 1
    equal = count_of_all - len(differing)
    if as_json:
        outcome = "DIFFERS" if differing else "EQUAL"
        names = [query for query, *_ in differing]
        answer = {
            "outcome": outcome,
            "lens": name,
            "asked": count_of_all,
            "equal": equal,
            "differing": names,
        }
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        click.echo(f"lens {name}: {equal:,} of {count_of_all:,} answers are equal")
        for query, at, texts in differing[:10]:
            parts = (text[max(0, at - _BESIDE) : at + _BESIDE] for text in texts)
            click.echo("\n  ".join((f"differs: {query}", *parts)))
    if differing:
        sys.exit(CheckFailedError.exit_code)


def require_no_leak(settings: Settings, new: Path, current: Path | None) -> None:
    """Refuse to publish a file if hidden texts change answers under a lens: CheckFailedError with
    their number.

    A lens is judged if it can be applied to the new file and to the current one, and shows the same
    rows of both: then all answers are to be equal byte for byte. The files of lenses for that are
    beside the new file until then.
    """
    if current is None or not settings.lenses:
        return
    queries = list[str]()
    with suppress(WeftError):
        queries = _queries([settings], (), _DRAFTED)
    with TemporaryDirectory(prefix=f"{new.stem}-", dir=new.parent) as aside:
        roots = [
            {"root": f"{aside}/{file.stem}", "lake": settings.lake_uri} for file in (current, new)
        ]
        storages = [{"storage": settings.storage.model_copy(update=root)} for root in roots]
        before, after = (settings.model_copy(update=storage) for storage in storages)
        for lens in settings.lenses:
            of_both = _answers(before, lens, queries, current), _answers(after, lens, queries, new)
            compared = zip(["rows", "list_sources", *queries], *of_both, strict=True)
            try:
                _, *rows = next(compared)
            except WeftError:
                continue
            differing = [
                name for name, *texts in compared if rows[0] == rows[1] and texts[0] != texts[1]
            ]
            if differing:
                raise CheckFailedError(
                    f"nothing was published: {len(differing)} of {len(queries) + 1} answers under the lens {lens} change "
                    f"with texts that it hides, as {', '.join(differing[:5])}; report it, and publish with "
                    "evaluation.publish_check = false"
                )


def _queries(settings: Sequence[Settings], files: Sequence[Path], count: int) -> list[str]:
    """The queries of files or of the first settings, else `count` of a kind drafted from each
    index; sorted.
    """
    truths = [make_evaluator(settings[0], files).ground_truth()]
    if not truths[0].queries.num_rows:
        truths = [parse_ground_truth(drafted(one, count)[0], "draft") for one in settings]
    return sorted({query for truth in truths for query in truth.queries["query"].to_pylist()})


def _answers(
    settings: Settings, lens: str, queries: Sequence[str], place: Path | None = None
) -> Iterator[str]:
    """A hash of the shown rows, the list of sources, and the answer to each query or the fault that
    it meets.

    Without the time of the publish, and of the version, which is a hash of all that is shown, in
    the list alone.
    """
    limits, left_out = settings.mcp, {"index_version": True, "completeness": {"published_at"}}
    with closing(open_index(settings, True, lens, place)) as index:
        rows = [index.connection.execute(_ROWS + table).fetchall() for table in _SHOWN]
        yield f"{rows} {index.manifest['settings']}"
        text = cache(
            lambda id: answers.text(index, id, 0, limits.max_characters).answer.model_dump_json()
        )
        yield answers.sources(index).answer.model_dump_json()
        for query in queries:
            try:
                hits = answers.hits(index, index.search([query], limit=_HITS)).answer
                block = answers.block(
                    settings, index, query, settings.context.budget_tokens, ""
                ).answer
            except QueryError as fault:
                yield str(fault)
                continue
            names = dict.fromkeys(n for hit in hits.hits for n in (hit.doc_id, hit.thread_id) if n)
            both = (a.model_dump_json(exclude=left_out) for a in (hits, block))
            yield "\n".join((*both, *map(text, names)))
