"""A process that stays loaded beside a server, and does what `weft search` is asked in a fraction of its start.

`weft serve` and `weft mcp --http` start it. `weft` itself begins here: a command that only reads is handed over if a
process waits for the same settings file, and is done in this one if not, or if that is busy. It is handed over with its
arguments, environment, folder and streams, so that both ways print the same. This module loads nothing but Python's own.
"""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_READING = ("search", "similar", "get", "context")
_PATIENCE = 2.0
"""Seconds for which a command waits until it is begun elsewhere."""
_BEGUN = b"+"


def run() -> None:
    """The command `weft`."""
    code = _handed_over(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    from dagster_project.cli.command import run as run_here

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
            asking.settimeout(_PATIENCE)
            asking.connect(str(_place(_config_of(arguments))))
            socket.send_fds(asking, [len(body).to_bytes(4, "big")], [0, 1, 2])
            asking.sendall(body)
            if asking.recv(1) != _BEGUN:
                return None
            asking.settimeout(None)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            answer = asking.recv(1)
    except (OSError, AttributeError, ValueError):  # nobody listens, or the system has no such sockets
        return None
    if not answer:
        print("error: the process that answered has ended: ask again", file=sys.stderr)
    return answer[0] if answer else 1


def _config_of(arguments: Sequence[str]) -> Path:
    """The settings file that a command names, as `config_path` finds it."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for option, following in zip(options, [*options[1:], ""], strict=True):
        name, mark, value = option.partition("=")
        if name == "--config":
            return Path(value if mark else following)
    return Path(os.environ.get("WEFT_CONFIG") or "weft.toml")


def _folder() -> Path:
    """The folder of sockets, which belongs to this user alone."""
    return (
        Path(os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp") / f"weft-{os.getuid()}"
    )


def _place(config: Path) -> Path:
    """The socket for a settings file; OSError if its folder is not there, or not this user's alone."""
    folder = _folder()
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o77:
        raise PermissionError(f"{folder} is open to others")
    return folder / hashlib.sha256(os.fsencode(config.resolve())).hexdigest()[:24]


@contextlib.contextmanager
def standing_by(config: Path | None) -> Iterator[None]:
    """While this lasts, a process waits for commands of the settings file."""
    command = [sys.executable, "-P", "-m", __name__, str(config or _config_of(()))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        assert process.stdin
        process.stdin.close()  # it ends with this one, however that ends
        process.wait()


def _stand_by(config: Path) -> None:
    threading.Thread(target=_end_with_parent, args=(os.dup(0),), daemon=True).start()
    _folder().mkdir(mode=0o700, exist_ok=True)
    place = _place(config)
    with socket.socket(socket.AF_UNIX) as listener:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(place))
            return  # another one waits
        place.unlink(missing_ok=True)
        _warm(config)
        listener.bind(str(place))
        listener.listen()
        stamps = _stamps()
        while True:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError, ValueError):
                if any(_stamps().get(name, stamp) != stamp for name, stamp in stamps.items()):
                    break  # the code is another by now
                _answer(client)
            stamps = _stamps() | stamps
    os.execv(sys.executable, [sys.executable, "-P", "-m", __name__, str(config)])


def _end_with_parent(given: int) -> None:
    while os.read(given, 1):
        pass
    os._exit(0)


def _stamps() -> dict[str, int]:
    """When the modules of Weft that are loaded were last written, 0 for one that is gone."""
    rooms = ("assets", "dagster_project", "transforms")
    files = [
        Path(m.__file__) for n, m in list(sys.modules.items()) if n.partition(".")[0] in rooms and m.__file__
    ]
    return {str(file): file.stat().st_mtime_ns if file.exists() else 0 for file in files}


def _warm(config: Path) -> None:
    """Load what a search takes, by one that nobody sees."""
    from dagster_project.system import unasked_pandas

    unasked_pandas.keep_out()
    request = {
        "arguments": ["search", "--config", str(config), "warm"],
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "encodings": [("utf-8", "strict")] * 3,
    }
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        _done(request, [nothing.fileno()] * 3)


def _answer(client: socket.socket) -> None:
    client.settimeout(_PATIENCE)
    size, streams, _, _ = socket.recv_fds(client, 4, 3)
    try:
        body = b""
        while part := client.recv(int.from_bytes(size, "big") - len(body)):
            body += part
        request = json.loads(body)
        client.sendall(_BEGUN)
        code = _done(request, streams)
        client.sendall(bytes([code & 255]))
    finally:
        for stream in streams:
            os.close(stream)


def _done(request: dict[str, Any], streams: Sequence[int]) -> int:
    """The exit code of a command that was done with the environment, folder and streams of whoever gave it."""
    from dagster_project.cli.command import main, unexpected

    own, environment = [os.dup(number) for number in range(3)], dict(os.environ)
    try:
        _become(request["environment"], streams)
        os.chdir(request["folder"])
        names = zip(("stdin", "stdout", "stderr"), "rww", request["encodings"], strict=True)
        for number, (name, mode, (encoding, errors)) in enumerate(names):
            stream = open(number, mode, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
        try:
            main(request["arguments"], prog_name="weft")
        except SystemExit as end:
            return int(end.code or 0)
        except BaseException as fault:  # noqa: BLE001 - as Python does with what leaves a program
            unexpected(type(fault), fault, fault.__traceback__)
            return 1
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        return 0
    finally:
        _become(environment, own)
        for number in own:
            os.close(number)


def _become(environment: dict[str, str], streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


if __name__ == "__main__":
    with contextlib.suppress(
        OSError
    ):  # no such socket can be made here: commands are done where they are given
        _stand_by(Path(sys.argv[1]))
