"""The process beside a server that stays loaded, and does commands that only read in a fraction of their start.

`weft serve` and `weft mcp --http` start it; it ends with them. It does one command at a time.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dagster_project.cli.command import main, unexpected
from dagster_project.cli.standby import BEGUN, PATIENCE, config_file, socket_file, sockets
from dagster_project.system import unasked_pandas

_COMMAND = (sys.executable, "-P", "-m", "dagster_project.cli.standby_process")


@contextlib.contextmanager
def standing_by(config: Path | None) -> Iterator[None]:
    """While this lasts, a process waits for commands of the settings file."""
    command = [*_COMMAND, str(config or config_file(()))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        assert process.stdin
        process.stdin.close()  # it ends with this one, however that ends
        process.wait()


def _stand_by(config: Path) -> None:
    threading.Thread(target=_end_with_parent, args=(os.dup(0),), daemon=True).start()
    sockets().mkdir(mode=0o700, exist_ok=True)
    own = socket_file(config)
    with socket.socket(socket.AF_UNIX) as listener:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(own))
            return  # another one waits
        own.unlink(missing_ok=True)
        _warm(config)
        listener.bind(str(own))
        listener.listen()
        stamps = _stamps()
        while True:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError, ValueError):
                if stamps.items() - _stamps().items():
                    break  # the code is another by now
                _answer(client)
            stamps = _stamps() | stamps
    os.execv(sys.executable, [*_COMMAND, str(config)])


def _end_with_parent(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os._exit(0)


def _stamps() -> dict[str, int]:
    """When the modules of Weft that are loaded were last written, 0 for one that is gone."""
    rooms = ("assets", "dagster_project", "transforms")
    files = [
        Path(m.__file__)
        for n, m in list(sys.modules.items())
        if n.partition(".")[0] in rooms and m.__file__
    ]
    return {str(file): file.stat().st_mtime_ns if file.exists() else 0 for file in files}


def _warm(config: Path) -> None:
    """Load the modules and files of a search, by one that nobody sees."""
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
    client.settimeout(PATIENCE)
    size, streams, _, _ = socket.recv_fds(client, 4, 3)
    try:
        body = b""
        while part := client.recv(int.from_bytes(size, "big") - len(body)):
            body += part
        request = json.loads(body)
        client.sendall(BEGUN)
        code = _done(request, streams)
        client.sendall(bytes([code & 255]))
    finally:
        for stream in streams:
            os.close(stream)


def _done(request: dict[str, Any], streams: Sequence[int]) -> int:
    """The exit code of a command that was done with the environment, folder and streams of whoever gave it."""
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
        except BaseException as fault:  # noqa: BLE001 - as Python does with exceptions that leave a program
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
    # Where no such socket can be made, commands are done where they are given.
    with contextlib.suppress(OSError):
        _stand_by(Path(sys.argv[1]))
