"""The chat programs whose exports are files that a look tells apart: how an export is recognised,
and read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from transforms.conversations import discord
from transforms.conversations.exports import Chat


class Program(NamedTuple):
    """A program whose export is one file; `looks_like` is asked of the first bytes of a file with
    one of the suffixes.

    `read` gives the chats of its bytes, whose names are or begin with the name given; times that
    name no zone are in the zone given. It raises ChatFormatError if the file is another one. Beside
    a file of the name `mark` the files and folders `beside` are not chats.
    """

    suffixes: tuple[str, ...]
    looks_like: Callable[[bytes], bool]
    read: Callable[[bytes, str, str], Iterator[Chat]]
    has_zone: bool = True
    mark: str = ""
    beside: tuple[str, ...] = ()


class ProgramOfFolders(NamedTuple):
    """A program whose export is a folder with the file `mark` and those whose whole names match the
    expression `others`.

    `read` gives the chats of the bytes of `mark`, the names and bytes of the others, and a name as
    for `Program`.
    """

    mark: str
    others: str
    read: Callable[[bytes, Sequence[tuple[str, bytes]], str], Iterator[Chat]]


PROGRAMS = {
    "telegram": Program(
        (".json",),
        discord.looks_like_telegram,
        discord.read_telegram,
        True,
        "result.json",
        ("files",),
    ),
    "discord": Program((".json",), discord.looks_like_discord, discord.read_discord),
}
"""Those of the core, by the name of the format in the settings."""


def program_of(programs: Mapping[str, Program], head: bytes, suffix: str) -> str | None:
    """The name of the first program that recognises a file which begins like this; None if none
    does.
    """
    return next(
        (name for name, p in programs.items() if suffix in p.suffixes and p.looks_like(head)), None
    )
