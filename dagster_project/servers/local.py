"""Questions of commands that read: to a server of this user on a Unix socket, else to this process.

The socket is in a folder that only the user may enter, and the server's first line says by which
code and settings it answers. This module loads only modules of Python, so that a command starts
fast; neither descriptors nor variables go through the socket.
"""

import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from dagster_project.config.places import LABEL_FILE, SYNONYMS, chosen_config
from dagster_project.system.loading import loading

ANSWER_SECONDS = 20.0
"""Seconds after which a server gives a question up; the command then answers it itself."""
PATIENCE = 2.0
"""Seconds within which the first line of a server is there, and the question of a command."""
_ABOVE = (f"/run/user/{os.getuid()}", "/tmp")
"""The folders that may have one for sockets; that of the session goes first."""
_HOUSE = Path(__file__).parents[2]
_ROOMS = ("transforms", "assets", "dagster_project")
_BEGIN, _ENDS = "WEFT_", ("_API_KEY", "_BASE_URL")
"""The begin and the ends of the names of variables on which answers depend."""
_OF_SERVERS = ("WEFT_CONFIG", "WEFT_SERVE_TOKEN")
"""Variables by which no answer differs."""


def answer(config: Path | None, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question under a settings file, as `readings.answer_here` gives it."""
    if (of_server := _answer_of_server(chosen_config(config), question)) is not None:
        return of_server
    with loading():
        from dagster_project.servers.readings import answer_here
    return answer_here(config, question)


def stamp(config: Path) -> bytes:
    """A line with the hash of all that an answer depends on beside the index: the code, the
    packages, the settings file with those beside it, and the variables.
    """
    files = [place for place in sys.path if place.endswith("site-packages")]
    files += [file for room in _ROOMS for file in _files(_HOUSE / room)]
    files += [str(config.with_name(name)) for name in (SYNONYMS, LABEL_FILE)]
    variables = [
        (name, value)
        for name, value in os.environ.items()
        if name not in _OF_SERVERS and (name.startswith(_BEGIN) or name.endswith(_ENDS))
    ]
    facts = (sys.version, config, config.read_bytes(), sorted(_states(files)), sorted(variables))
    return sha256(repr(facts).encode()).hexdigest().encode() + b"\n"


def folders() -> Iterator[Path]:
    """The folders of sockets, which only this user may enter; the first is that of a session, if
    there is one.
    """
    user = os.getuid()
    for above in _ABOVE:
        folder = Path(above, f"weft-{user}")
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            state = folder.lstat()
            if stat.S_ISDIR(state.st_mode) and state.st_uid == user and not state.st_mode & 0o77:
                yield folder


def sockets(config: Path) -> list[Path]:
    """The sockets of servers with this settings file; some may be of servers that ended."""
    return [place for folder in folders() for place in folder.glob(f"{socket_name(config)}-*")]


def socket_name(config: Path) -> str:
    """The begin of the names of sockets for a settings file."""
    return sha256(os.fsencode(config)).hexdigest()[:16]


def is_own(peer: socket.socket) -> bool:
    """True if the process at the other end is of this user, or if the system cannot tell: then the
    folder alone keeps others out.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    facts = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", facts)
    return bool(user == os.getuid())


def _answer_of_server(config: Path, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer of the first server that has this stamp and gives one; None without such a server."""
    config = config.resolve()
    places = sockets(config) if config.exists() else []
    own = stamp(config) if places else b""
    for place in places:
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(PATIENCE)
            _connect(peer, place)
            lines = peer.makefile("rb")
            if is_own(peer) and lines.readline() == own:
                peer.sendall(json.dumps(question, default=str).encode() + b"\n")
                peer.settimeout(ANSWER_SECONDS + PATIENCE)
                return dict(json.loads(lines.readline()))
    return None


def _connect(peer: socket.socket, place: Path) -> None:
    """Connect to the socket at a place; one of a server that was killed is removed."""
    try:
        peer.connect(str(place))
    except ConnectionRefusedError:
        place.unlink(missing_ok=True)
        raise


def _files(folder: str | Path) -> Iterator[str]:
    """The files below a folder of code."""
    for entry in os.scandir(folder):
        if not entry.is_dir():
            yield entry.path
        elif entry.name != "__pycache__":
            yield from _files(entry.path)


def _states(files: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """The name, size and time of each file that is there."""
    for file in files:
        with suppress(FileNotFoundError):
            state = os.stat(file)  # noqa: PTH116  # paths would take half as long again
            yield file, state.st_size, state.st_mtime_ns
