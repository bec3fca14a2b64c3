"""How the command `weft` begins and ends: with one line and its exit code, whatever ends it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType

_OF_TERMINALS = (signal.SIGINT, signal.SIGHUP)
_ENDS = (*_OF_TERMINALS, signal.SIGTERM)


def run(arguments: list[str] | None = None) -> None:
    """Run the command of `sys.argv`, or of `arguments`, and end this process.

    It works in a thread of its own. Python runs what is to be done at a signal in the main thread, which thus is free to
    do it at once, and Dagster, which would take interrupts for failed steps, leaves them alone in other threads.
    """
    sys.excepthook = _unexpected
    # While a step runs, Dagster keeps in a file what is written to standard error.
    end = partial(_end, os.dup(sys.stderr.fileno()))
    for number in _ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    from concurrent.futures import ThreadPoolExecutor

    # Reading returns at any signal; waiting for a thread goes on after an interrupt, once Polars is there.
    news, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(_work, arguments)
        work.add_done_callback(lambda _: os.write(write, bytes(1)))
        while os.read(news, 1) != bytes(1):
            pass
        work.result()


def _work(arguments: list[str] | None) -> None:
    """The command; what it starts inherits that a terminal's signals do not reach it, and `_end` ends it.

    SIGTERM does: Dagster ends by it the processes that it starts.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
    from dagster_project.cli.main import main

    main(arguments, prog_name="weft")


def _end(place: int, number: int, _frame: FrameType | None) -> None:
    """Tell so at `place` and end at once, with all that was started: it costs no more than a kill, and builds go on."""
    from dagster_project.resources.system.processes import end_started

    end_started()
    shown = "\x1b[?25h\n" if os.isatty(place) else ""  # the cursor, which a progress line hides
    shown += f"interrupted ({signal.Signals(number).name}): what was made is kept, the same command goes on from there\n"
    with suppress(OSError):
        os.write(place, shown.encode())
    os._exit(128 + number)


def _unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell in one line of a fault that nobody explained, and keep where it came from in a file of this user's alone."""
    import tempfile
    import traceback

    told = traceback.format_exception(kind, error, trace)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="weft-fault-", suffix=".txt", delete=False) as kept:
            kept.writelines(told)
    except OSError:
        sys.stderr.writelines(told)
        return
    line = " ".join(str(error).split("\n", 1)[0].split())
    print(
        f"error: {kind.__name__}: {line} (unexpected; where it came from stands in {kept.name}): "
        "`weft doctor` says whether everything is there and whole",
        file=sys.stderr,
    )
