"""Groups of commands that load the module of a command when the command is called."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from dagster_project.cli.terminal.safe_streams import SafeGroup
from dagster_project.extras.registry import Command, load

OTHERS = "Commands"
"""The heading of commands that are not declared."""


def loaded(command: Command) -> click.Command:
    """The command that a declaration names."""
    module = command.where.partition(":")[0]
    if module not in sys.modules:
        _load(module)
    found: click.Command = load(command.where)
    return found


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

    def __init__(self, *args: Any, lazy: Mapping[str, Command], **extra: Any):
        """`lazy` are commands by their names, each listed under its heading."""
        super().__init__(*args, **extra)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded; None if there is none."""
        if cmd_name in self.lazy:
            return loaded(self.lazy[cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands under their headings, each with the first sentence of its help."""
        helps = {name: command.get_short_help_str(1000) for name, command in self.commands.items()}
        helps |= {name: lazy.help for name, lazy in self.lazy.items()}
        width = max(map(len, helps))
        headings: dict[str, list[str]] = {}
        for name in (*sorted(self.commands), *self.lazy):
            headings.setdefault(self.lazy[name].section if name in self.lazy else OTHERS, []).append(name)
        for heading, names in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), helps[name]) for name in names])
