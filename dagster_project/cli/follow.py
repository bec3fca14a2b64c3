"""`weft follow`: the process that stays and builds what comes."""

import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.config.settings import config_path, load_settings
from dagster_project.orchestration.instance import open_instance
from dagster_project.orchestration.triggers.following import Follower
from dagster_project.orchestration.triggers.watching import watched_places
from dagster_project.system import unasked_pandas
from dagster_project.system.processes import end_with_parent


@click.command()
@CONFIG
@JSON
@click.option("--fetch/--no-fetch", default=True, help="Fetch news from remotes, too.")
@explained
def follow(config: Path | None, as_json: bool, fetch: bool) -> None:
    """Build everything, then stay and build what comes to the sources within a second, until
    interrupted.

    Folders of mail, chats, notes and documents are watched. IMAP servers report new mail; other
    remotes are fetched every five minutes. A build that fails is reported and tried again. Prints a
    line for each batch; with --json the files, stages, seconds and version of it.
    """
    settings = load_settings(config)
    if not as_json:
        places = ", ".join(map(str, watched_places(settings))) or "remotes alone"
        click.echo(f"Follows {places} until Ctrl-C", err=True)
    with open_instance(settings) as instance:
        for batch in Follower(settings, instance, fetch=fetch).batches():
            click.echo(json.dumps(batch.as_json()) if as_json else str(batch))


@contextmanager
def follower_beside(config: Path | None) -> Iterator[None]:
    """While it lasts, another process follows; it ends with this one, however that ends."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_beside, args=[config_path(config).resolve()], daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _beside(config: Path) -> None:
    Thread(target=end_with_parent, daemon=True).start()
    unasked_pandas.keep_out()
    follow.main(["--config", str(config)])
