"""The common parts of commands: options, and the messages and exit codes of faults."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import reduce, wraps
from pathlib import Path
from typing import Any, get_args

import click

from dagster_project.cli.terminal.completion import complete_list, complete_source
from dagster_project.config.places import DEFAULT_CONFIG, chosen_config
from transforms.errors import DiskFullError, QueryError, QuerySyntaxError, WeftError
from transforms.retrieval.query_dates import bound
from transforms.retrieval.search_filters import SEARCH_FILTERS, SearchFilter
from transforms.settings.expansions import Expansion
from transforms.text.storable import storable


class _Text(click.ParamType):
    """A text, without characters that tables and UTF-8 cannot hold."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as `storable`."""
        return storable(value)


def as_typed(command: str, config: Path | None) -> str:
    """A command of this program as a user types it here: `weft`, or the path of this one where that
    is not found, and the settings file unless it is the one of this folder.
    """
    file = chosen_config(config)
    is_on_path = Path(sys.argv[0]).name != "weft" or shutil.which("weft")
    weft = "weft" if is_on_path else shlex.quote(sys.argv[0])
    named = "" if file == Path(DEFAULT_CONFIG) else f" --config {shlex.quote(str(file))}"
    return f"{weft} {command}{named}"


class QueryCommand(click.Command):
    """A command whose first argument is a query, which may begin with a sign that options begin
    with.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; of an option that there is not, say how it is asked for as a
        query.
        """
        unread = next(
            (arg for arg in args if arg.startswith("-") and not arg.startswith("--")), None
        )
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as fault:
            if fault.possibilities and unread is None:
                raise
            raise click.UsageError(
                f"{fault.format_message()} A query that begins with - goes behind --, after all options: "
                f"{ctx.command_path} -- {shlex.quote(unread or fault.option_name)}",
                ctx,
            ) from None


class SearchCommand(QueryCommand):
    """A command of many options, whose help shows those that one needs first, and by `--help-all`
    the others, too.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        show = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=self._show_all,
            help="Show this page with all options.",
        )
        self.params.append(show)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first options, or all if the context asks for these."""
        shows_all = ctx.meta.get(_SHOWS_ALL, False)
        options = [p for p in self.get_params(ctx) if shows_all or p.is_eager or p.name in _FIRST]
        with formatter.section("Options" if shows_all else "Options to begin with"):
            formatter.write_dl([r for p in options if (r := p.get_help_record(ctx))])

    @staticmethod
    def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[_SHOWS_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()


_SHOWS_ALL = f"{__name__}.shows_all"
_FIRST = {
    *("limit", "list", "author", "source", "kind", "since", "until", "ident", "as_json", "config"),
}
"""The parameters that somebody needs who searches for the first time."""
TEXT_TYPE = _Text()
CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Settings file; default: $WEFT_CONFIG, else ./weft.toml.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
LENS = click.option("--lens", metavar="NAME", help="Show only texts under this lens of [lenses].")
QUIET = click.option("--quiet", is_flag=True, help="Print errors only.")
QUERY_FILES = click.option(
    "--queries",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="YAML file of queries and right answers; default: evaluation.queries of the settings.",
)
NO_RESULTS = 3
"""Exit code of a search that worked and found nothing."""


def explained(command: Callable[..., None], outcome: str = "ERROR") -> Callable[..., None]:
    """Turn faults that Weft knows into a message on stderr and their exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            try:
                command(*args, **kwargs)
            except OSError as error:
                raise _of_disk(error) from error
        except WeftError as fault:
            if kwargs.get("as_json"):
                place = {"position": fault.position} if isinstance(fault, QuerySyntaxError) else {}
                kind = type(fault).__name__
                click.echo(
                    json.dumps({"outcome": outcome, "error": str(fault), "kind": kind, **place})
                )
            click.echo(f"error: {fault}", err=True)
            sys.exit(fault.exit_code)

    return run


def _of_disk(error: OSError) -> Exception:
    """The refusal of the system as a fault that Weft knows, if it is one."""
    # It loads NumPy, which takes longer than a command beside a server.
    from dagster_project.system.disk_space import (
        IN_THE_WAY,
        is_of_full_disk,
        is_of_no_writing,
        unwritable,
    )

    place = Path(error.filename or ".")
    if is_of_full_disk(error):
        return DiskFullError(
            f"no room is left on the disk of {place} ({error.strerror}): make room"
        )
    if isinstance(error, IN_THE_WAY):
        return WeftError(
            f"{error.filename2 or place}: {error.strerror}: move that away, and begin again"
        )
    return unwritable(error, place.parent) if is_of_no_writing(error) else error


class DateType(click.ParamType):
    """The begin of a date in UTC, or the end with `is_end`: of `2024`, `2024-05`, `2024-05-17`,
    `yesterday` or the like.
    """

    name = "date"

    def __init__(self, *, is_end: bool = False):
        self.is_end = is_end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The time that a word of the command line means."""
        if value in (days := ("yesterday", "today", "tomorrow")):
            value = str(datetime.now(UTC).date() + timedelta(days=days.index(value) - 1))
        try:
            return bound("it", value, is_end=self.is_end)
        except QueryError as fault:
            self.fail(f"{fault}; or yesterday, today, tomorrow", param, ctx)


def _filter_option(filter_: SearchFilter) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option of a condition of a search."""
    kind = click.Choice(filter_.values) if filter_.values else TEXT_TYPE
    return click.option(
        f"--{filter_.option}",
        filter_.name,
        type=DateType(is_end=filter_.is_end) if filter_.is_day else kind,
        shell_complete=_COMPLETED.get(filter_.name),
        help=f"Only {filter_.words}.",
    )


_COMPLETED = {"list": complete_list, "source": complete_source}
_SEARCH_OPTIONS = (
    click.option(
        "--profile", type=TEXT_TYPE, help="Search by this profile, of the settings or built in."
    ),
    click.option(
        "--expand",
        type=click.Choice(get_args(Expansion)),
        multiple=True,
        help="Also show texts around a hit; give it several times for more.",
    ),
    click.option(
        "--diversity",
        type=click.FloatRange(0, 1),
        help="0: by score alone; 1: as unlike as can be.",
    ),
    click.option(
        "--rerank",
        type=click.Choice(["as_set", "features", "off"]),
        help="Rerank as [rerank] says, by features, or not at all.",
    ),
    click.option(
        "--per-document",
        type=click.IntRange(1),
        help="At most this many hits of a mail or document.",
    ),
    click.option("--threads", is_flag=True, help="Show a thread once, by its best mail."),
    click.option("--weak", is_flag=True, help="Show the nearest hits even if none is near."),
    click.option("--strict", is_flag=True, help="Only near hits, before the scores fall steeply."),
)


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that filter hits, named as the fields of `Filters`."""
    options = map(_filter_option, reversed(SEARCH_FILTERS))
    return reduce(lambda run, option: option(run), options, command)


def searched(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that change a search, as `SearchOptions` names them."""
    return reduce(lambda run, option: option(run), reversed(_SEARCH_OPTIONS), command)
