"""`weft cache`: the contents of the caches of vectors and answers, and cleaning them."""

import json
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.cli.render.tables import print_records
from dagster_project.composition.objects import make_answer_cache, make_embedding_cache
from dagster_project.config.settings import load_settings
from dagster_project.orchestration.upkeep import caches
from transforms.errors import CheckFailedError


@click.group()
def cache() -> None:
    """Inspect and clean the caches of vectors and of language models' answers."""


@cache.command()
@CONFIG
@JSON
@explained
def stats(config: Path | None, as_json: bool) -> None:
    """List the contents of the caches by model: vectors, refused texts and answers of language
    models.
    """
    rows = caches.holdings(load_settings(config))
    if as_json:
        click.echo(json.dumps(rows))
    else:
        print_records(rows, "The cache is empty.")


@cache.command()
@CONFIG
@JSON
@click.option(
    "--discard",
    is_flag=True,
    help="Delete what cannot be read of corrupt files; the next build asks for it again.",
)
@explained
def verify(config: Path | None, as_json: bool, discard: bool) -> None:
    """Read every vector and answer; exit code 7 if a file is corrupt and stays."""
    settings = load_settings(config)
    damages = [*make_embedding_cache(settings).verify(), *make_answer_cache(settings).verify()]
    rows = [{"file": str(d.path), "reason": d.reason} for d in damages]
    if as_json:
        click.echo(json.dumps(rows))
    else:
        print_records(rows, "All vectors and answers are as they were stored.")
    if discard:
        readable = sum(damage.discard() for damage in damages)
        click.echo(
            f"{readable:,} entries of {len(damages)} damaged files can be read and stay.", err=True
        )
    elif damages:
        raise CheckFailedError(
            f"{len(damages)} files of the cache are damaged: `weft cache verify --discard` keeps what can be "
            "read of them, and the next build asks for the rest again"
        )


@cache.command()
@CONFIG
@JSON
@click.option(
    "--other-models",
    is_flag=True,
    help="Also drop the vectors and answers of models that the settings do not name.",
)
@click.option(
    "--refused",
    is_flag=True,
    help="Forget refused texts instead; the next build asks for them again.",
)
@explained
def prune(config: Path | None, as_json: bool, other_models: bool, refused: bool) -> None:
    """Drop the vectors of texts, and answers about chunks, that are no longer in the lake."""
    dropped = caches.prune(load_settings(config), other_models, refused)
    facts = ", ".join(f"{count:,} {what}" for what, count in dropped.items())
    click.echo(json.dumps(dropped) if as_json else f"{facts} dropped.")


@cache.command("import")
@click.argument("index", type=click.Path(path_type=Path))
@CONFIG
@JSON
@explained
def import_(index: Path, config: Path | None, as_json: bool) -> None:
    """Take the vectors of a published INDEX (a weft-….duckdb file) into the cache."""
    model, count, new = caches.import_vectors(index, make_embedding_cache(load_settings(config)))
    facts = {"model": model, "vectors": count, "new": new}
    click.echo(
        json.dumps(facts) if as_json else f"{count:,} vectors of {model}, {new:,} of them new."
    )
