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
from collections.abc import Iterator, Mapping
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
MOST_BYTES = 16 << 20
"""Bytes of a question; the text of a longer one is read faster where it is."""
_ABOVE = (f"/run/user/{os.getuid()}", "/tmp")
"""The folders that may have one for sockets; that of the session goes first."""
_HOUSE = Path(__file__).parents[2]
_ROOMS = ("transforms", "assets", "dagster_project")
_VARIABLES = (("WEFT_",), ("_API_KEY", "_BASE_URL"))
"""Begins and ends of the names of variables on which answers depend."""
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
    states = [_state(Path(place)) for place in sys.path if place.endswith("site-packages")]
    states += [state for room in _ROOMS for state in _states(_HOUSE / room)]
    states += [_state(config.with_name(name)) for name in (SYNONYMS, LABEL_FILE)]
    begins, ends = _VARIABLES
    variables = [
        f"{name}={value}"
        for name, value in os.environ.items()
        if name not in _OF_SERVERS and (name.startswith(begins) or name.endswith(ends))
    ]
    facts = [sys.version, str(config), *sorted(states), *sorted(variables)]
    text = "\0".join(facts).encode(errors="surrogateescape")
    return sha256(text + config.read_bytes()).hexdigest().encode() + b"\n"


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
    return sha256(str(config).encode(errors="surrogateescape")).hexdigest()[:16]


def is_own(peer: socket.socket) -> bool:
    """True if the process at the other end is of this user, or if the system cannot tell: then the
    folder alone keeps others out.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = struct.Struct("3i")
    facts = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return bool(credentials.unpack(facts)[1] == os.getuid())


def _answer_of_server(config: Path, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer of the first server that has one; None without such a server."""
    with suppress(OSError):
        config = config.resolve(strict=True)
        if not (places := sockets(config)):
            return None
        own, body = stamp(config), json.dumps(question, default=str).encode() + b"\n"
        for place in places if len(body) <= MOST_BYTES else ():
            with suppress(OSError, ValueError):
                if line := _line_of(place, own, body):
                    return dict(json.loads(line))
    return None


def _line_of(place: Path, own: bytes, body: bytes) -> bytes | None:
    """The line with which a server answers; None if it has another stamp or ends before."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE)
        peer.connect(str(place))
        with peer.makefile("rb") as lines:
            if not is_own(peer) or lines.readline() != own:
                return None
            peer.sendall(body)
            peer.settimeout(ANSWER_SECONDS + PATIENCE)
            line = lines.readline()
            return line if line.endswith(b"\n") else None


def _states(folder: Path | str) -> Iterator[str]:
    """The state of each file below a folder of code."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                yield _state(entry)
            elif entry.name != "__pycache__":
                yield from _states(entry.path)


def _state(file: Path | os.DirEntry[str]) -> str:
    try:
        info = file.stat()
    except FileNotFoundError:
        return ""
    kind = stat.S_IFMT(info.st_mode)
    return f"{os.fspath(file)} {kind} {info.st_size} {info.st_mtime_ns}"
