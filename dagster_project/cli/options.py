"""The common parts of commands: options, and the messages and exit codes of faults."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, get_args

import click

from dagster_project.cli.terminal.completion import complete_list, complete_source
from dagster_project.index.search.filters import Filters
from dagster_project.system.disk_space import (
    IN_THE_WAY,
    is_of_full_disk,
    is_of_no_writing,
    unwritable,
)
from transforms.errors import DiskFullError, QueryError, QuerySyntaxError, WeftError
from transforms.retrieval.query_fields import HAS, KINDS, bound
from transforms.retrieval.query_language import storable
from transforms.settings.search import Expansion, SearchOptions


class _Text(click.ParamType):
    """A text, without characters that tables and UTF-8 cannot hold."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as `storable`."""
        return storable(value)


class QueryCommand(click.Command):
    """A command whose first argument is a query, which may begin with a sign that options begin with."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; of an option that there is not, say how it is asked for as a query."""
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
    """The begin of a date in UTC, or the end with `is_end`: of `2024`, `2024-05`, `2024-05-17`, `yesterday` or the like."""

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


_FILTERS = (
    click.option(
        "--list",
        "list_id",
        type=TEXT_TYPE,
        shell_complete=complete_list,
        help="Only mail of this mailing list; * matches any characters.",
    ),
    click.option(
        "--from",
        "author",
        type=TEXT_TYPE,
        help="Only mail of this author: words of a name, or an address.",
    ),
    click.option(
        "--path",
        type=TEXT_TYPE,
        help="Only documents and changes of files at this path; * matches any characters.",
    ),
    click.option("--tag", type=TEXT_TYPE, help="Only documents with this tag, or one below it."),
    click.option("--has", type=click.Choice(HAS), help="Only mail that has one."),
    click.option(
        "--source",
        type=TEXT_TYPE,
        shell_complete=complete_source,
        help="Only texts from this source.",
    ),
    click.option("--kind", type=click.Choice(KINDS), help="Only hits of this kind."),
    click.option("--since", type=DateType(), help="Only texts from this day, month or year on."),
    click.option(
        "--until",
        type=DateType(is_end=True),
        help="Only texts up to the end of this day, month or year.",
    ),
)
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


def _with(
    options: Sequence[Callable[..., Any]],
    names: Iterable[str],
    parameter: str,
    record: Callable[..., Any],
) -> Callable[..., Any]:
    """Gives a command some options, whose values it gets as one record."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*args: Any, **kwargs: Any) -> None:
            values = {name: kwargs.pop(name) for name in names}
            command(*args, **kwargs, **{parameter: record(**values)})

        for option in reversed(options):
            run = option(run)
        return run

    return decorate


_FILTERED_BY = ("list_id", "author", "path", "tag", "has", "source", "kind", "since", "until")
filtered = _with(_FILTERS, _FILTERED_BY, "filters", Filters)
"""Gives a command the options that filter hits."""
searched = _with(_SEARCH_OPTIONS, SearchOptions.model_fields, "options", SearchOptions)
"""Gives a command the options that change a search."""
