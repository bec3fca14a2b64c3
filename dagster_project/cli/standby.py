"""How `weft` begins: a command that only reads is handed to a process that waits for the same settings file, if one does.

It is handed over with its arguments, environment, folder and streams, so that both ways print the same. This module loads
only modules of Python.
"""

import hashlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

_READING = ("search", "similar", "get", "context")
PATIENCE = 2.0
"""Seconds for which a command waits until it is begun elsewhere."""
BEGUN = b"+"


def run() -> None:
    """The command `weft`."""
    code = _handed_over(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    if sys.argv[1:2] == ["build"]:
        from dagster_project.cli.unchanged import is_done

        if is_done(sys.argv[1:], config_file(sys.argv[1:])):
            return
    # To look for plugins, pydantic reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from dagster_project.cli.command import run_command as run_here

    run_here()


def _handed_over(arguments: Sequence[str]) -> int | None:
    """The exit code of a command that another process did; None if it is to be done here."""
    if not arguments or arguments[0] not in _READING or "_WEFT_COMPLETE" in os.environ:
        return None
    request = {
        "arguments": list(arguments),
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "encodings": [(s.encoding, s.errors) for s in (sys.stdin, sys.stdout, sys.stderr)],
    }
    body = json.dumps(request).encode()
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(PATIENCE)
            asking.connect(str(socket_file(config_file(arguments))))
            socket.send_fds(asking, [len(body).to_bytes(4, "big")], [0, 1, 2])
            asking.sendall(body)
            if asking.recv(1) != BEGUN:
                return None
            asking.settimeout(None)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            answer = asking.recv(1)
    except (
        OSError,
        AttributeError,
        ValueError,
    ):  # nobody listens, or the system has no such sockets
        return None
    if not answer:
        print("error: the process that answered has ended: ask again", file=sys.stderr)
    return answer[0] if answer else 1


def config_file(arguments: Sequence[str]) -> Path:
    """The settings file that a command names, as `config_path` finds it."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for option, following in pairwise([*options, ""]):
        name, mark, value = option.partition("=")
        if name == "--config":
            return Path(value if mark else following)
    return Path(os.environ.get("WEFT_CONFIG") or "weft.toml")


def sockets() -> Path:
    """The folder of sockets, which belongs to this user alone."""
    above = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    return Path(above) / f"weft-{os.getuid()}"


def socket_file(config: Path) -> Path:
    """The socket for a settings file and this installation; OSError if its folder is not there, or not this user's alone."""
    folder = sockets()
    stat = folder.lstat()
    if stat.st_uid != os.getuid() or stat.st_mode & 0o77:
        raise PermissionError(f"{folder} is open to others")
    names = f"{config.resolve()}\0{__file__}".encode(errors="surrogateescape")
    return folder / hashlib.sha256(names).hexdigest()[:24]
