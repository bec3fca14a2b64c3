"""`weft follow`: the process that stays and builds what comes."""

import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.config.settings import config_path, load_settings
from dagster_project.orchestration.instance import open_instance
from dagster_project.orchestration.triggers.following import Follower
from dagster_project.orchestration.triggers.watching import watched_places
from dagster_project.system import unasked_pandas
from dagster_project.system.processes import end_with_parent

_AGAIN_SECONDS = 30.0
_LOOK_SECONDS = 0.5
"""Seconds between two looks whether the process beside a server is still there."""


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
def follower_beside(config: Path | None, again_seconds: float = _AGAIN_SECONDS) -> Iterator[None]:
    """While it lasts, another process follows; it ends with this one, however that ends. If it ends
    by itself, a new one begins after `again_seconds`.
    """
    over = Event()
    arguments = [over, config_path(config).resolve(), again_seconds]
    thread = Thread(target=_follow_until, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow_until(over: Event, config: Path, again_seconds: float) -> None:
    context = multiprocessing.get_context("spawn")
    while not over.is_set():
        process = context.Process(target=_beside, args=[config], daemon=True)
        process.start()
        while process.is_alive() and not over.wait(_LOOK_SECONDS):
            pass
        process.kill()  # Dagster takes SIGTERM for the fault of a step, and the next batch begins
        process.join()
        if not over.is_set():
            click.echo(
                f"error: the process that follows ended with code {process.exitcode}; a new one begins in "
                f"{again_seconds:g} s",
                err=True,
            )
            over.wait(again_seconds)


def _beside(config: Path) -> None:
    Thread(target=end_with_parent, daemon=True).start()
    unasked_pandas.keep_out()
    follow.main(["--config", str(config)])
