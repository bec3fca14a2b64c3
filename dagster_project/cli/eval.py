"""The commands `weft eval run`, `init`, `compare` and `sweep`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from transforms.errors import SettingsError

FILES = click.option(
    "--queries",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="YAML file of queries and right answers; default: evaluation.queries of the settings.",
)
MEASURE = click.option(
    "--measure", default="nDCG@10", show_default=True, help="What profiles are ordered by."
)


@click.group(name="eval")
def evaluate() -> None:
    """Measure how well the published index answers queries whose answers are known."""


@evaluate.command()
@CONFIG
@JSON
@FILES
@click.option("--profile", "profiles", multiple=True, help="Profile to measure; the first is the baseline.")
@click.option("--tag", help="Only queries with this tag.")
@click.option("--page/--no-page", default=True, help="Write the HTML page beside the JSON.")
@explained
def run(
    config: Path | None,
    as_json: bool,
    files: tuple[Path, ...],
    profiles: tuple[str, ...],
    tag: str | None,
    page: bool,
) -> None:
    """Ask every query under every profile; print the scores and keep them as JSON and as a page."""
    from dagster_project.cli.render_eval import print_report
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.evaluation.evaluate import evaluated, make_evaluator

    settings = load_settings(config)
    evaluator = make_evaluator(settings, files, profiles)
    report = evaluated(settings, evaluator, tag)
    written = evaluator.save(report, page)
    if as_json:
        click.echo(Path(written["json"]).read_text(encoding="utf-8"))
    else:
        print_report(report, written)


@evaluate.command()
@JSON
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--page", "place", type=click.Path(path_type=Path), help="Write an HTML page to this file.")
@explained
def compare(as_json: bool, before: Path, after: Path, place: Path | None) -> None:
    """Compare two reports of `weft eval run` query by query: BEFORE and AFTER are their JSON files."""
    from dagster_project.cli.render_eval import print_report
    from dagster_project.resources.evaluation.evaluator import read_report
    from dagster_project.resources.evaluation.page import page
    from transforms.evaluation.report import before_and_after

    joined = before_and_after(read_report(before), read_report(after))
    written = {}
    if place:
        place.write_text(page(joined), encoding="utf-8")
        written = {"page": str(place)}
    if as_json:
        click.echo(json.dumps(joined, ensure_ascii=False, sort_keys=True))
    else:
        print_report(joined, written)


@evaluate.command()
@CONFIG
@JSON
@FILES
@MEASURE
@click.option(
    "--set",
    "axes",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="A setting of [search] and the values to try; several make a grid.",
)
@click.option(
    "--build",
    "builds",
    multiple=True,
    metavar="SECTION.NAME=VALUE,...",
    help="A setting of another section; an index is built for each value, and kept below eval/builds/.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@explained
def sweep(
    config: Path | None,
    as_json: bool,
    files: tuple[Path, ...],
    measure: str,
    axes: tuple[str, ...],
    builds: tuple[str, ...],
    quiet: bool,
) -> None:
    """Try every combination of settings; print quality against cost, the frontier marked, and keep it as JSON."""
    from dagster_project.cli import sweeps
    from dagster_project.cli.render_eval import counted_progress, print_sweep
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.evaluation.evaluate import make_evaluator
    from transforms.evaluation.metrics import MEASURES

    if measure not in MEASURES:
        raise SettingsError(f"--measure {measure}: known are {', '.join(MEASURES)}")
    if not axes and not builds:
        raise SettingsError("there is nothing to sweep over: give --set or --build")
    settings = load_settings(config)
    profiles = sweeps.grid(settings.search, _axes(axes))
    variants = sweeps.built_grid(settings, _axes(builds))
    found = []
    with counted_progress(len(profiles) * len(variants), show=not quiet and not as_json) as done:
        for variant, changed in sweeps.built(variants, settings):
            evaluator = make_evaluator(changed, files)
            for row in sweeps.measured(evaluator, profiles, measure, done):
                parts = [variant, row["profile"] if axes or not variant else ""]
                found.append({**row, "profile": " ".join(filter(None, parts))})
            evaluator.index.close()
    rows = sweeps.with_frontier(found)
    place = sweeps.saved(rows, measure, settings)
    if as_json:
        click.echo(json.dumps(rows))
    else:
        print_sweep(rows, measure)
        click.echo(f"json: {place}")


@evaluate.command()
@CONFIG
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--count", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Queries of each kind."
)
@click.option(
    "--from-queries",
    type=click.Path(path_type=Path, exists=True),
    help="Convert: queries of BEIR (JSON lines) or TREC.",
)
@click.option("--from-qrels", type=click.Path(path_type=Path, exists=True), help="Convert: their judgements.")
@click.option(
    "--form",
    type=click.Choice(["message", "thread", "node", "document", "chunk"]),
    default="document",
    help="Convert: what the ids of the judgements name.",
)
@click.option("--prefix", default="", help="Convert: what stands before each id, such as `docs:`.")
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
    """Write ground truth to TARGET: drafted from the published index, or converted from BEIR or TREC files."""
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.evaluation.evaluate import converted, drafted

    if target.exists():
        raise SettingsError(f"{target} is there already; name a new file")
    if bool(from_queries) != bool(from_qrels):
        raise SettingsError("--from-queries and --from-qrels go together")
    if from_queries and from_qrels:
        text, made = converted(from_queries, from_qrels, form, prefix)
    else:
        text, made = drafted(load_settings(config), count)
    target.write_text(text, encoding="utf-8")
    click.echo(f"{target}: {made} queries; `weft eval run --queries {target}` measures with them")


def _axes(given: tuple[str, ...]) -> dict[str, list[str]]:
    axes: dict[str, list[str]] = {}
    for pair in given:
        name, sign, values = pair.partition("=")
        if not sign or not values or name in axes:
            raise SettingsError(f"--set {pair}: write NAME=VALUE,VALUE, each name once")
        axes[name] = values.split(",")
    return axes
