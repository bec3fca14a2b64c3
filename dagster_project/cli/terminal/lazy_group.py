"""Groups of commands that load the module of a command when the command is called."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from dagster_project.cli.render.safe_streams import SafeGroup


class LazyCommand(NamedTuple):
    """Where a command is defined, and the first sentence of its help, so that a list of commands loads none."""

    module: str
    attribute: str
    help: str

    def load(self) -> click.Command:
        """The command itself."""
        if self.module not in sys.modules:
            _load(self.module)
        command: click.Command = getattr(sys.modules[self.module], self.attribute)
        return command


def _load(module: str) -> None:
    """Load a module without looking for garbage: among a quarter of a million objects that stay, that is a third of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        import_module(module)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


class LazyGroup(SafeGroup):
    """A group that knows some of its commands by a table, and loads them when they are called."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, LazyCommand],
        sections: Mapping[str, Sequence[str]] | None = None,
        **extra: Any,
    ):
        """`sections` are the headings of the list of commands, with the commands below each."""
        super().__init__(*args, **extra)
        self.lazy, self.sections = lazy, sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded; None if there is none."""
        if cmd_name in self.lazy:
            return self.lazy[cmd_name].load()
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands under their headings, each with the first sentence of its help."""
        helps = {name: command.get_short_help_str(1000) for name, command in self.commands.items()}
        helps |= {name: lazy.help for name, lazy in self.lazy.items()}
        width = max(map(len, helps))
        for heading, names in (self.sections or {"Commands": sorted(helps)}).items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), helps[name]) for name in names])
