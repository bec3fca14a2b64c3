"""`weft eval run`, `init` and `compare`: measuring the published index by queries with known
answers.
"""

import json
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, QUERY_FILES, explained
from dagster_project.cli.render.evaluation import print_designs, print_report, print_runs
from dagster_project.cli.render.tables import print_records
from dagster_project.cli.terminal.lazy_group import OTHERS, LazyGroup
from dagster_project.config.settings import load_settings
from dagster_project.context.block_quality import measured_blocks
from dagster_project.evaluation.evaluate import (
    converted,
    drafted,
    make_evaluator,
    report_of,
    runs_report,
)
from dagster_project.evaluation.evaluator import html_page, read_report
from dagster_project.extensions import Command
from transforms.errors import SettingsError
from transforms.evaluation.report import before_and_after

SWEEP = Command(
    "dagster_project.cli.sweeps:sweep",
    OTHERS,
    "Try every combination of settings; print their quality and cost, mark the best, and write all as JSON.",
)
"""A sweep builds; the other commands need not load its modules."""


@click.group(name="eval", cls=LazyGroup, own={"sweep": SWEEP}, offers="evaluations")
def evaluate() -> None:
    """Measure how well the published index answers queries whose answers are known."""


@evaluate.command()
@CONFIG
@JSON
@QUERY_FILES
@click.option(
    "--profile", "profiles", multiple=True, help="Profile to measure; the first is the baseline."
)
@click.option("--tag", help="Only queries with this tag.")
@click.option(
    "--designs",
    is_flag=True,
    help="Measure the five designs beside the default, each by an index below eval/designs/.",
)
@click.option("--page/--no-page", default=True, help="Write the HTML page beside the JSON.")
@explained
def run(
    config: Path | None,
    as_json: bool,
    files: tuple[Path, ...],
    profiles: tuple[str, ...],
    tag: str | None,
    designs: bool,
    page: bool,
) -> None:
    """Run every query under every profile; print the scores and write them as JSON and as a page."""

    if designs:
        _run_designs(config, as_json, files, profiles, tag)
        return
    settings = load_settings(config)
    evaluator = make_evaluator(settings, files, profiles)
    report = report_of(settings, evaluator, tag)
    paths = evaluator.save(report, page)
    if as_json:
        click.echo(Path(paths["json"]).read_text(encoding="utf-8"))
    else:
        print_report(report, paths)


def _run_designs(
    config: Path | None,
    as_json: bool,
    files: tuple[Path, ...],
    profiles: tuple[str, ...],
    tag: str | None,
) -> None:
    if profiles:
        raise click.UsageError("--designs measures each design by its own search, not by a profile")
    from dagster_project.cli.designs import measured_designs

    rows = measured_designs(config, files, tag, show=not as_json)
    if as_json:
        click.echo(json.dumps(rows))
    else:
        print_designs(rows)


@evaluate.command()
@CONFIG
@JSON
@QUERY_FILES
@click.option("--tag", help="Only queries with this tag.")
@explained
def context(config: Path | None, as_json: bool, files: tuple[Path, ...], tag: str | None) -> None:
    """Measure the blocks of `weft context`: parts of a question covered, tokens of right passages,
    budget used.

    A `query` of the file may be the id of a window of a chat, or the path of a file beside the
    settings.
    """
    report = measured_blocks(load_settings(config), files, tag)
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
        return
    print_records(report["conversations"], "nothing was measured")
    for row in report["means"]:
        ends = "" if row["low"] is None else f"  [{row['low']:.3f}, {row['high']:.3f}]"
        click.echo(f"{row['measure']:<10} {row['mean']:.3f}{ends}")


@evaluate.command()
@JSON
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "--page", "place", type=click.Path(path_type=Path), help="Write an HTML page to this file."
)
@explained
def compare(as_json: bool, before: Path, after: Path, place: Path | None) -> None:
    """Compare two reports of `weft eval run` query by query: BEFORE and AFTER are their JSON files."""

    joined = before_and_after(read_report(before), read_report(after))
    files: dict[str, str] = {}
    if place:
        place.write_text(html_page(joined), encoding="utf-8")
        files = {"page": str(place)}
    if as_json:
        click.echo(json.dumps(joined, ensure_ascii=False, sort_keys=True))
    else:
        print_report(joined, files)


@evaluate.command()
@JSON
@click.argument("qrels", type=click.Path(path_type=Path))
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@explained
def trec(as_json: bool, qrels: Path, runs: tuple[Path, ...]) -> None:
    """Measure RUNS of any search engine by the judgements in QRELS: files in the forms of TREC.

    A line of a run is `query Q0 item rank score name`, one of the judgements `query 0 item grade`.
    The first run is the baseline of the others.
    """
    report = runs_report(qrels, runs)
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False, sort_keys=True))
    else:
        print_runs(report)


@evaluate.command()
@CONFIG
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Queries of each kind.",
)
@click.option(
    "--from-queries",
    type=click.Path(path_type=Path, exists=True),
    help="Convert: queries of BEIR (JSON lines) or TREC.",
)
@click.option(
    "--from-qrels", type=click.Path(path_type=Path, exists=True), help="Convert: their judgements."
)
@click.option(
    "--form",
    type=click.Choice(["message", "thread", "node", "document", "chunk"]),
    default="document",
    help="Convert: the kind of ids of the judgements.",
)
@click.option("--prefix", default="", help="Convert: prefix of each id, such as `docs:`.")
@explained
def init(
    config: Path | None,
    target: Path,
    count: int,
    from_queries: Path | None,
    from_qrels: Path | None,
    form: str,
    prefix: str,
) -> None:
    """Write ground truth to TARGET: drafted from the published index, or converted from BEIR or
    TREC files.
    """

    if target.exists():
        raise SettingsError(f"{target} is there already; name a new file")
    if bool(from_queries) != bool(from_qrels):
        raise SettingsError("--from-queries and --from-qrels go together")
    if from_queries and from_qrels:
        text, count_of_queries = converted(from_queries, from_qrels, form, prefix)
    else:
        text, count_of_queries = drafted(load_settings(config), count)
    target.write_text(text, encoding="utf-8")
    click.echo(
        f"{target}: {count_of_queries} queries; `weft eval run --queries {target}` measures with them"
    )
