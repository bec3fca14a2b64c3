"""`weft build` and `plan`: the commands that build the index or estimate that."""

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click
from upath import UPath

from assets.context import SentenceEstimate
from assets.embedding import Estimate
from dagster_project.cli.options import CONFIG, JSON, QUIET, as_typed, explained
from dagster_project.cli.render.builds import BuildView, print_fetched, print_outlook
from dagster_project.cli.render.tables import print_facts
from dagster_project.cli.terminal.completion import complete_source
from dagster_project.composition.objects import make_ledger
from dagster_project.config import allowed_commands
from dagster_project.config.places import overriding
from dagster_project.config.settings import Settings, config_path, load_settings
from dagster_project.extensions import enabled, ranking_at
from dagster_project.index.publish.versions import CURRENT
from dagster_project.index.search.first_questions import first_questions
from dagster_project.index.search.opened_index import open_index
from dagster_project.lake.parquet_files import is_local
from dagster_project.ledger.last_look import record, states
from dagster_project.ledger.ledger import Row
from dagster_project.orchestration.build import build as run_build
from dagster_project.orchestration.build import fetch_only, make_texts
from dagster_project.orchestration.dry_run import outlook
from dagster_project.orchestration.instance import instance_place, open_history, open_instance
from dagster_project.orchestration.outcomes import BuildResult, fetch_faults
from dagster_project.orchestration.partitions import backfill as run_backfill
from dagster_project.orchestration.upkeep.caches import run_estimate
from dagster_project.remotes.source_remotes import SourceRemotes
from dagster_project.system.disk_space import may_be_written
from dagster_project.system.globs import fixed_folder, is_there
from dagster_project.system.locks import RUNS
from transforms.errors import FetchError, SourceError, WeftError
from transforms.settings.models import BATCH_SHARE

_PACKAGES, _ROOMS = Path(__file__).parents[2], ("transforms", "assets", "dagster_project")
_Looks = tuple[dict[Row, Row], dict[Row, Row]]
_TEXTS = re.compile(r"""["']([^"'\n]+)["']""")


@click.command()
@click.argument("sources", nargs=-1, shell_complete=complete_source)
@CONFIG
@JSON
@QUIET
@click.option("--fetch/--no-fetch", default=True, help="Fetch remotes before building.")
@click.option(
    "--fetch-only",
    "only",
    is_flag=True,
    help="Fetch the remotes of SOURCES, or all, and build nothing.",
)
@click.option(
    "--backfill",
    "behind",
    is_flag=True,
    help="Let Dagster's daemon build SOURCES, or all, beside its hourly runs.",
)
@click.option(
    "--sign-in", "mailbox", metavar="SOURCE", help="Sign in to the mailbox of SOURCE by OAuth."
)
@click.option(
    "--verify", is_flag=True, help="Read all of lake and index first, and rebuild damaged files."
)
@click.option(
    "--watch",
    "watches",
    is_flag=True,
    hidden=True,
)
@click.option(
    "--allow-command",
    "allows",
    is_flag=True,
    help="Allow the command of [alerts] to run, from now on.",
)
@explained
def build(
    sources: tuple[str, ...],
    config: Path | None,
    as_json: bool,
    quiet: bool,
    fetch: bool,
    only: bool,
    behind: bool,
    verify: bool,
    watches: bool,
    mailbox: str | None,
    allows: bool,
) -> None:
    """Fetch the sources, read what changed in them, and publish the index.

    With --backfill, one publish follows at the end. It needs a daemon, as `weft ui` starts one.

    If a remote fails, the build uses files fetched earlier and ends with exit code 10. If a source
    cannot be read, the index keeps its texts of that source and the build ends with exit code 4.
    """
    if watches:
        raise click.UsageError("`weft build --watch` is `weft follow` now.")
    alone = only or behind
    if (sources and not alone) or (alone and (only is behind or verify or not fetch)):
        raise click.UsageError(
            "SOURCES go with --fetch-only or --backfill, these with --config, --json, --quiet alone"
        )
    settings = load_settings(config)
    _allow_command(settings, allows)
    if mailbox is not None:
        SourceRemotes(settings).log_in(mailbox, lambda line: click.echo(line, err=True))
    elif behind:
        _backfill(settings, sources, as_json)
    elif only:
        _fetch(settings, sources, as_json, quiet)
    else:
        view = BuildView(show=not quiet and not as_json)
        is_first = not os.path.lexists(settings.root / "index" / CURRENT)
        result = _build(settings, config_path(config), view, fetch=fetch, verify=verify)
        _print_result(result, view, as_json, quiet)
        if view.show and is_first and result.published:
            _print_questions(settings, config)
        _exit_with_faults(
            result.faults(), SourceError if result.plan.broken or result.unread else FetchError
        )


def _allow_command(settings: Settings, allows: bool) -> None:
    """Allow the command of alerts if the user says so; else say that it is not, if it is not."""
    command = settings.alerts.command
    if allows:
        if not command:
            raise click.UsageError("--allow-command: the settings have no alerts.command")
        allowed_commands.allow(command, settings.root)
    elif command and not allowed_commands.is_allowed(command, settings.root):
        click.echo(
            f"note: alerts.command {command[0]} does not run, as somebody else may have written these settings; "
            "`weft build --allow-command` allows it",
            err=True,
        )


def _build(
    settings: Settings, config: Path, view: BuildView, *, fetch: bool, verify: bool
) -> BuildResult:
    """Build everything once, and record what was looked at, so that the next build can end early."""
    before = None if verify else _looked_at(settings, config)
    with open_instance(settings) as instance, view:
        result = run_build(
            settings, instance, fetch=fetch, verify=verify, tell=view.step, on_plan=view.plan
        )
    if before:
        _record(settings, config, before, result)
    return result


def _print_result(result: BuildResult, view: BuildView, as_json: bool, quiet: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_json()))
    elif not quiet:
        view.summary(result)


def _print_questions(settings: Settings, config: Path | None) -> None:
    """Print commands with questions that the first version of an index answers well; the build is
    done, so that a fault of the search is a note.
    """
    try:
        with closing(open_index(settings)) as index:
            questions = first_questions(index)
    except WeftError as fault:
        click.echo(f"note: no questions to begin with: {fault}", err=True)
        return
    command = as_typed("search", config)
    for number, question in enumerate(questions):
        click.echo(f"{'     ' if number else 'Ask: '}{command} {shlex.quote(question)}")


def _record(settings: Settings, config: Path, before: _Looks, result: BuildResult) -> None:
    """Record the states after a build that has nothing left to do, unless its inputs changed
    meanwhile.
    """
    again = result.again()
    now = before if result.is_as_before or not again else _looked_at(settings, config)
    if again and now and now[0] == before[0]:
        has_remotes = any(source.remote for source in settings.sources)
        record(make_ledger(settings), now[0] | now[1], again.as_json(), has_remotes=has_remotes)


def _looked_at(settings: Settings, config: Path) -> _Looks | None:
    """The states of all that a build reads, and of what builds make; None if it is too much, not on
    this machine, or a variable sets a key.
    """
    is_elsewhere = not is_local(UPath(settings.lake_uri)) or ranking_at(settings.index.target)
    if is_elsewhere or overriding(os.environ):
        return None
    sources = [settings.place(source) for source in settings.sources]
    named = [settings.base / Path(text).expanduser() for text in _TEXTS.findall(config.read_text())]
    inputs = [
        *(place if is_there(place) else fixed_folder(place) for place in sources),
        *(config, settings.pseudonym_key_file, *filter(is_there, named)),
        *(
            f
            for room in _ROOMS
            for f in (_PACKAGES / room).rglob("*")
            if f.suffix in (".py", ".sql", ".toml", ".lark", ".json", ".safetensors")
        ),
    ]
    outputs = [
        *(
            settings.root / name
            for name in ("index", RUNS, *(extra.folder for extra in enabled(settings)))
        ),
        *(Path(settings.lake_uri), instance_place(settings) / "history" / "runs.db"),
    ]
    both = states(inputs, but=settings.root), states(outputs, but=settings.root)
    return None if both[0] is None or both[1] is None else (both[0], both[1])


def _backfill(settings: Settings, sources: Sequence[str], as_json: bool) -> None:
    """Ask Dagster's daemon to build the archives of sources, or of all sources, while the hourly
    runs go on.
    """
    with open_instance(settings) as instance:
        request = run_backfill(settings, instance, sources)
    if as_json:
        click.echo(json.dumps(request.as_json()))
    elif request.backfill:
        count = len(request.partitions)
        click.echo(
            f"Backfill {request.backfill} of {count} partitions: see Runs > Backfills in Dagster's UI"
        )
    else:
        click.echo("Nothing is stale.")
    _exit_with_faults("\n".join(request.broken.values()), SourceError)


def _fetch(settings: Settings, sources: Sequence[str], as_json: bool, quiet: bool) -> None:
    """Fetch new mails and files from the remotes of sources, or of all, and build nothing."""
    with open_instance(settings) as instance:
        outcomes = fetch_only(settings, instance, sources)
    if as_json:
        click.echo(json.dumps({name: outcome.as_json() for name, outcome in outcomes.items()}))
    elif not quiet:
        print_fetched(outcomes)
    _exit_with_faults(fetch_faults(outcomes), FetchError)


def _exit_with_faults(faults: str, kind: type[WeftError]) -> None:
    if faults:
        click.echo(f"error: {faults}", err=True)
        sys.exit(kind.exit_code)


@click.command()
@CONFIG
@JSON
@click.option(
    "--cost",
    "prices",
    is_flag=True,
    help="Make the chunks, and print the exact cost of vectors and sentences for them.",
)
@explained
def plan(config: Path | None, as_json: bool, prices: bool) -> None:
    """List the rebuilds of a build with reasons, and their cost and time; build nothing and call no
    model.

    The figures are estimates from earlier runs; those of --cost are exact. If a source cannot be
    read, it plans the others and ends with exit code 4.
    """
    settings = load_settings(config)
    if prices:
        _price(settings, as_json)
        return
    with open_history(settings) as instance:
        result = outlook(settings, instance)
    if as_json:
        click.echo(json.dumps(result.as_json(), ensure_ascii=False))
    else:
        print_outlook(result)
    _exit_with_faults("\n".join(result.broken.values()), SourceError)


def _price(settings: Settings, as_json: bool) -> None:
    """Make the chunks and print the cost of vectors and sentences for them; call no model."""
    open_ = open_instance if may_be_written(settings.root) else open_history
    with open_(settings) as instance, BuildView(show=not as_json) as view:
        make_texts(settings, instance, tell=view.step, on_plan=view.plan)
        embedding, sentences = run_estimate(settings)
    facts = _cost_facts(settings, embedding, sentences)
    if as_json:
        click.echo(json.dumps(facts))
    else:
        print_facts(facts)


def _cost_facts(
    settings: Settings, embedding: Estimate, sentences: SentenceEstimate
) -> dict[str, object]:
    """The cost of embedding and sentences, by the names that `weft plan --cost --json` prints."""
    facts: dict[str, object] = {
        "model": settings.embedding.model_id,
        "dimensions": settings.embedding.dimensions,
        "texts": embedding.texts,
        "texts_to_embed": embedding.missing,
        "calls": embedding.calls,
        "tokens": embedding.tokens,
        "texts_to_cut": embedding.truncated,
        "price_usd": round(embedding.dollars, 4),
    }
    if settings.embedding.model == "gemini":
        facts["batch_price_usd"] = round(embedding.dollars * BATCH_SHARE, 4)
    if embedding.unfinished:
        facts["texts_perhaps_paid"] = embedding.unfinished
    if sentences.chunks:
        facts |= {
            "sentences": sentences.chunks,
            "sentences_to_write": sentences.missing,
            "sentence_calls": sentences.calls,
            "sentence_tokens": sentences.tokens,
            "sentence_price_usd": round(sentences.dollars, 4),
            "sentence_batch_price_usd": round(sentences.dollars * BATCH_SHARE, 4),
        }
    return facts
