"""Groups of commands: they load the module of a command when it is called, and make visible
whatever it writes.
"""

import codecs
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TextIO

import click

from dagster_project.commands import Command, load
from dagster_project.system.loading import loading
from transforms.errors import SettingsError
from transforms.text.visible import visible

OTHERS = "Commands"
"""The heading of commands that are not declared."""


class SafeStream:
    """A text stream on another one, which is `beneath`; it is not a terminal, since colours would
    be escaped, too.

    Text is made visible here, not in commands, so that no command, no message of a library, no log
    line and no traceback can forget it. Pipes and files get the same text: somebody prints them
    later.
    """

    def __init__(self, beneath: TextIO):
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write `text` with its steering signs shown."""
        self.beneath.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of `lines`."""
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        """False: nobody may send escape sequences here."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def beneath(stream: TextIO) -> TextIO:
    """The stream for a writer that makes its own text safe and sends sequences of its own."""
    return stream.beneath if isinstance(stream, SafeStream) else stream


def _safe(stream: TextIO) -> Any:
    if isinstance(stream, SafeStream):
        return stream
    # Click leaves a stream that says ASCII for one of its own, behind our back.
    if codecs.lookup(stream.encoding or "ascii").name == "ascii" and hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8")
    return SafeStream(stream)


def loaded(command: Command) -> click.Command:
    """The command that a declaration names; UsageError if a package that it needs is not installed."""
    if command.where.partition(":")[0] in sys.modules:
        return load(command.where)
    try:
        with loading():
            return load(command.where)
    except SettingsError as fault:
        raise click.UsageError(str(fault)) from fault


class LazyGroup(click.Group):
    """A group that loads the commands of a table when they are called; its process writes to safe
    streams.
    """

    def __init__(self, *args: Any, own: Mapping[str, Command], offers: str = "", **extra: Any):
        """`own` are commands by their names, each listed under its heading; those that extras offer
        under the name `offers` stand behind them, and are looked for when no own command has a name.
        """
        super().__init__(*args, **extra)
        self.own, self.offers = own, offers

    @cached_property
    def lazy(self) -> Mapping[str, Command]:
        """All commands by their names; UsageError if an extra does not load."""
        from dagster_project.extensions import offered

        try:
            return {**self.own, **(offered(self.offers) if self.offers else {})}
        except SettingsError as fault:
            raise click.UsageError(str(fault)) from fault

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        sys.stdout, sys.stderr = _safe(sys.stdout), _safe(sys.stderr)
        return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded; None if there is none, UsageError if another command
        replaced it.
        """
        if cmd_name in self.own:
            return loaded(self.own[cmd_name])
        former = {old: new for lazy in self.lazy.values() for old, new in lazy.former.items()}
        if cmd_name in former and not ctx.resilient_parsing:
            ctx.fail(f"`weft {cmd_name}` is `weft {former[cmd_name]}` now.")
        if cmd_name in self.lazy:
            return loaded(self.lazy[cmd_name])
        command = super().get_command(ctx, cmd_name)
        if not command and (near := get_close_matches(cmd_name, self.list_commands(ctx), 1)):
            ctx.fail(f"no command is called {cmd_name!r}; is it `{ctx.command_path} {near[0]}`?")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands under their headings, each with the first sentence of its
        help.
        """
        helps = {name: command.get_short_help_str(1000) for name, command in self.commands.items()}
        helps |= {name: lazy.help for name, lazy in self.lazy.items()}
        width = max(map(len, helps))
        headings: dict[str, list[str]] = {}
        for name in (*sorted(self.commands), *self.lazy):
            headings.setdefault(
                self.lazy[name].section if name in self.lazy else OTHERS, []
            ).append(name)
        for heading, names in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), helps[name]) for name in names])
