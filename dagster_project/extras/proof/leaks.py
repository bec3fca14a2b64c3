"""`weft eval lens`: whether two workspaces that differ only outside a lens give the same answers under it."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from os.path import commonprefix
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, QUERY_FILES, explained
from dagster_project.config.settings import Settings, load_settings
from dagster_project.evaluation.evaluate import drafted, make_evaluator
from dagster_project.index.search.filters import Filters
from dagster_project.index.search.opened_index import open_index
from dagster_project.servers import answers
from transforms.errors import CheckFailedError, QueryError
from transforms.evaluation.ground_truth import parse_ground_truth

_HITS, _BESIDE = 10, 60


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
    truths = [make_evaluator(here, files).ground_truth()]
    if not truths[0].queries.num_rows:
        truths = [parse_ground_truth(drafted(settings, count)[0], "draft") for settings in pair]
    queries = sorted({query for truth in truths for query in truth.queries["query"].to_pylist()})
    of_both = (_answers(settings, name, queries) for settings in pair)
    answered = zip(["list_sources", *queries], *of_both, strict=True)
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


def _answers(settings: Settings, lens: str, queries: Sequence[str]) -> Iterator[str]:
    """The list of sources, and the answer to each query or the fault that it meets.

    Without the time of the publish, and of the version, which is a hash of all that is shown, in the list alone."""
    limits, left_out = settings.mcp, {"index_version": True, "completeness": {"published_at"}}
    with closing(open_index(settings, True, lens)) as index:
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
