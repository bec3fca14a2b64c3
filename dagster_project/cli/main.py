"""The command `weft`: the table of its commands and what all of them share."""

from __future__ import annotations

import logging

import click

from dagster_project.cli.terminal.lazy_group import LazyCommand, LazyGroup
from dagster_project.extras.registry import extras

_ROOM = "dagster_project.cli"

# Loading Dagster takes longer than a search: a command loads its own module and no other.
COMMANDS = {
    "backfill": LazyCommand(
        f"{_ROOM}.build",
        "backfill",
        "Ask Dagster's daemon to build the archives of SOURCES, or of all sources, behind the runs of every hour.",
    ),
    "build": LazyCommand(
        f"{_ROOM}.build", "build", "Fetch, materialize what changed in the sources, and publish the index."
    ),
    "cache": LazyCommand(
        f"{_ROOM}.cache", "cache", "Inspect and clean the caches of vectors and of language models' answers."
    ),
    "context": LazyCommand(
        f"{_ROOM}.context",
        "context",
        "Print what the index knows about the conversation in FILE: a chat export, or any text.",
    ),
    "cost": LazyCommand(
        f"{_ROOM}.build",
        "cost",
        "Make the chunks and say what it would cost to embed them and to write sentences for them.",
    ),
    "doctor": LazyCommand(
        f"{_ROOM}.doctor",
        "doctor",
        "Check that everything is there and valid, and say what to do; exit code 7 if something is not.",
    ),
    "eval": LazyCommand(
        f"{_ROOM}.eval",
        "evaluate",
        "Measure how well the published index answers queries whose answers are known.",
    ),
    "explain": LazyCommand(
        f"{_ROOM}.explain",
        "explain",
        "Say what every stage of the search for QUERY did to every hit, and how long it took.",
    ),
    "fetch": LazyCommand(
        f"{_ROOM}.build",
        "fetch",
        "Fetch what is new in the remotes of SOURCES, or of all sources, and build nothing.",
    ),
    "forget": LazyCommand(
        f"{_ROOM}.forget",
        "forget",
        "Erase mails, an author's mails, documents, chats or sources from all that Weft keeps, and build without them.",
    ),
    "get": LazyCommand(
        f"{_ROOM}.search", "get", "Print the exact text of ID, and on standard error what it is."
    ),
    "help": LazyCommand(
        f"{_ROOM}.help",
        "help_",
        "Print a page of the documentation or a section of one; without TOPIC list them.",
    ),
    "init": LazyCommand(
        f"{_ROOM}.init",
        "init",
        "Write a settings file for the archive at PLACE, or add PLACE to the one that is there.",
    ),
    "mcp": LazyCommand(
        f"{_ROOM}.serving",
        "mcp",
        "Serve the published index to assistants by the Model Context Protocol, on standard input and output.",
    ),
    "plan": LazyCommand(
        f"{_ROOM}.build",
        "plan",
        "Say what a build would rebuild and why, and what that would take; build nothing and call no model.",
    ),
    "receipts": LazyCommand(
        f"{_ROOM}.receipts",
        "receipts",
        "List what assistants were shown, and verify that no receipt was changed, put in or taken out between others.",
    ),
    "search": LazyCommand(
        f"{_ROOM}.search",
        "search",
        "Search the published index; several QUERIES are answered in one pass.",
    ),
    "similar": LazyCommand(
        f"{_ROOM}.search",
        "similar_",
        "Find the nearest mails, documents and windows of conversations to ID, without ID's own.",
    ),
    "sql": LazyCommand(f"{_ROOM}.sql", "sql", "Run one SQL STATEMENT on the published index, read-only."),
    "ui": LazyCommand(
        f"{_ROOM}.ui",
        "ui",
        "Open Dagster's UI for these settings on 127.0.0.1, with the schedule's daemon.",
    ),
    "watch": LazyCommand(
        f"{_ROOM}.build",
        "watch_",
        "Build whenever notes or documents are edited, until interrupted; one line for each build.",
    ),
}


SECTIONS = {
    "Start": ("init", "build", "search", "help"),
    "Search and read": ("get", "similar", "context", "explain", "sql"),
    "Keep an index": ("plan", "cost", "fetch", "watch", "backfill", "ui", "cache", "forget", "doctor"),
    "Serve": ("mcp", "receipts"),
    "Measure": ("eval",),
}
"""The commands by what they are for, in the order in which somebody meets them."""

for _extra in extras():
    for _name, _command in _extra.commands.items():
        _module, _attribute = _command.where.split(":")
        COMMANDS[_name] = LazyCommand(_module, _attribute, _command.help)
        SECTIONS[_command.section] += (_name,)


# With `color`, Click does not cut sequences out of texts silently: the stream shows them.
@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)
@click.version_option(package_name="weft")
def main() -> None:
    """Search mail, notes, documentation and chats.

    `weft init PLACE` writes the settings for an archive, `weft build` reads it, `weft search "some words"` asks it.
    Commands take the settings of --config, else of $WEFT_CONFIG, else of ./weft.toml. `weft help` lists the pages of the
    documentation.

    \b
    Exit codes: 0 done; 2 wrong settings or usage; 3 nothing found; 4 a source cannot be read;
    5 no usable index; 6 index of another model; 7 a check failed, nothing was published;
    8 another build is running; 9 a service on the network failed, or would cost more than the budget;
    10 a remote could not be fetched, the rest was done; 11 the disk is full; 12 a folder cannot be written;
    130 interrupted by Ctrl-C; 143 ended by SIGTERM; 1 any other fault.
    """
    for name in ("dagster", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
