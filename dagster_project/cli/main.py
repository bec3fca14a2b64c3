"""The command `weft`: the table of its commands and their common parts."""

import logging
from typing import Any

import click

from dagster_project.cli.terminal.lazy_group import LazyGroup
from dagster_project.commands import Command

_ROOM = "dagster_project.cli"

# Loading Dagster takes longer than a search: a command loads its own module and no other.
_OWN = {
    "init": Command(
        f"{_ROOM}.init:init",
        "Start",
        "Write a settings file for the archive at PLACE, or add PLACE to the one that is there.",
    ),
    "build": Command(
        f"{_ROOM}.build:build",
        "Start",
        "Fetch the sources, read what changed in them, and publish the index.",
        former={
            "fetch": "build --fetch-only",
            "backfill": "build --backfill",
        },
    ),
    "follow": Command(
        f"{_ROOM}.follow:follow",
        "Start",
        "Build everything, then stay and build what comes to the sources within a second, until interrupted.",
        former={"watch": "follow"},
    ),
    "search": Command(
        f"{_ROOM}.search:search",
        "Start",
        "Search the published index; several QUERIES are answered in one pass.",
        former={"explain": "search QUERY --stages"},
    ),
    "help": Command(
        f"{_ROOM}.help:help_",
        "Start",
        "Print a page of the documentation or a section of one; without TOPIC list them.",
    ),
    "get": Command(
        f"{_ROOM}.search:get",
        "Search and read",
        "Print the exact text of ID, and its kind on standard error.",
    ),
    "similar": Command(
        f"{_ROOM}.search:similar_",
        "Search and read",
        "Find the mails, documents and windows of conversations that are nearest to ID.",
    ),
    "context": Command(
        f"{_ROOM}.context:context",
        "Search and read",
        "Print context from the index for the conversation in FILE: a chat export, a mail, or any text.",
    ),
    "sql": Command(
        f"{_ROOM}.sql:sql",
        "Search and read",
        "Run one SQL STATEMENT on the published index, read-only.",
    ),
    "plan": Command(
        f"{_ROOM}.build:plan",
        "Keep an index",
        "List the rebuilds of a build with reasons, and their cost and time; build nothing and call no model.",
        former={"cost": "plan --cost"},
    ),
    "config": Command(
        f"{_ROOM}.settings:config_",
        "Keep an index",
        "Print the settings in force, each with where it comes from: a variable, the file, or a design.",
    ),
    "ui": Command(
        f"{_ROOM}.ui:ui",
        "Keep an index",
        "Open Dagster's UI for these settings on 127.0.0.1, with the schedule's daemon.",
    ),
    "cache": Command(
        f"{_ROOM}.cache:cache",
        "Keep an index",
        "Inspect and clean the caches of vectors and of language models' answers.",
    ),
    "forget": Command(
        f"{_ROOM}.forget:forget",
        "Keep an index",
        "Erase mails, an author's mails, documents, chats or sources from all that Weft keeps, and build without them.",
    ),
    "doctor": Command(
        f"{_ROOM}.doctor:doctor",
        "Keep an index",
        "Check that everything is there and valid, and say what to do; exit code 7 if something is not.",
    ),
    "mcp": Command(
        f"{_ROOM}.serving:mcp",
        "Serve",
        "Serve the published index to assistants by the Model Context Protocol, on standard input and output.",
        former={"receipts": "mcp receipts", "skill": "mcp skill"},
    ),
    "eval": Command(
        f"{_ROOM}.eval:evaluate",
        "Measure",
        "Measure how well the published index answers queries whose answers are known.",
    ),
}
"""By name, in the order in which somebody meets them."""

# With `color`, Click does not cut sequences out of texts silently: the stream shows them.
_OPTIONS = {"help_option_names": ["-h", "--help"], "color": True}
_EXIT_CODES = """\b
Exit codes: 0 done; 2 wrong settings or usage; 3 nothing found;
4 a source cannot be read; 5 no usable index; 6 index of another model;
7 a check failed, nothing was published; 8 another build is running;
9 a service on the network failed, or would cost more than the budget;
10 a remote could not be fetched, the rest was done; 11 the disk is full;
12 a folder cannot be written; 130 interrupted by Ctrl-C;
143 ended by SIGTERM; 1 any other fault."""


@click.group(
    cls=LazyGroup, own=_OWN, offers="commands", epilog=_EXIT_CODES, context_settings=_OPTIONS
)
@click.version_option(package_name="weft")
def main() -> None:
    """Search mail, notes, documentation and chats.

    `weft init PLACE` writes the settings for an archive, `weft build` reads it, `weft search "some
    words"` asks it. Commands take the settings of --config, else of $WEFT_CONFIG, else of
    ./weft.toml. `weft help` lists the pages of the documentation.
    """
    for name in ("dagster", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)


def __getattr__(name: str) -> Any:
    """`COMMANDS`, with those of extras, which a search does without."""
    if name == "COMMANDS":
        return main.lazy
    raise AttributeError(name)
