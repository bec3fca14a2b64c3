"""How the command `weft` begins and ends: with one line and its exit code, whatever ends it."""

import gc
import os
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType

from dagster_project.cli.main import main
from dagster_project.cli.terminal.streams import OutputError, drop_output, take_streams
from dagster_project.servers.local import folders
from dagster_project.system import unasked_pandas
from dagster_project.system.processes import end_started

_OF_TERMINALS = (signal.SIGINT, signal.SIGHUP)
_ENDS = (*_OF_TERMINALS, signal.SIGTERM)
_WORDS = 33_000
"""Words of the first frame of a command's thread: for so large a frame Python takes half a megabyte
for frames at once.

Otherwise it takes 16 KB at a time, and up to 3.12 returns each piece as soon as it is empty:
imports call so often over the end of a piece that a search asks the system for one 1,400 times.
"""
_OBJECTS = 50_000
"""New objects after which Python looks for cycles: by its default of 700 that is a tenth of a small
build.
"""
_FAULTS = 9
"""Tracebacks of earlier faults that stay."""


def run_command(arguments: list[str] | None = None) -> None:
    """Run the command of `sys.argv`, or of `arguments`, and end this process.

    The command runs in a thread of its own. Python handles signals in the main thread, which is
    thus free to handle them at once, and Dagster, which would take interrupts for failed steps,
    ignores them in other threads.
    """
    take_streams()
    sys.excepthook = unexpected
    gc.set_threshold(_OBJECTS)
    unasked_pandas.keep_out()
    end = partial(_end, sys.stderr.fileno())
    for number in _ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    # Reading returns at any signal; waiting for a thread continues after an interrupt, once Polars
    # is loaded.
    wakeups, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(_work, arguments)
        work.add_done_callback(lambda _: os.write(write, bytes(1)))
        while os.read(wakeups, 1) != bytes(1):
            pass
        work.result()


def _work(arguments: list[str] | None) -> None:
    """Run the command; the processes that it starts inherit the blocked signals of terminals, and
    `_end` ends them.

    SIGTERM is not blocked: Dagster ends its processes by it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
    try:
        try:
            main(arguments, prog_name="weft")
        finally:
            sys.stdout.flush()
    except (OutputError, BrokenPipeError) as fault:
        drop_output()
        if isinstance(fault, OutputError):
            print(f"error: {fault}", file=sys.stderr)
        sys.exit(getattr(fault, "exit_code", 1))


_work.__code__ = _work.__code__.replace(co_stacksize=_WORDS)


def _end(stderr: int, number: int, _frame: FrameType | None) -> None:
    """Say on `stderr` that the command was interrupted, and end this process and all that it
    started at once.

    That costs no more than a kill: the next build resumes.
    """
    end_started()
    message = "\x1b[?25h\n" if os.isatty(stderr) else ""  # the cursor, which a progress line hides
    message += f"interrupted ({signal.Signals(number).name}): what was made is kept, the same command goes on from there\n"
    with suppress(OSError):
        os.write(stderr, message.encode())
    os._exit(128 + number)


def unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a fault that nobody explained in one line, and write its traceback to a file that only
    this user can read; the last few of them stay.
    """
    lines = traceback.format_exception(kind, error, trace)
    folder = next(folders(), None)
    if folder is None:
        sys.stderr.writelines(lines)
        return
    for older in sorted(folder.glob("fault-*.txt"))[:-_FAULTS]:
        older.unlink(missing_ok=True)
    file = folder / f"fault-{time.time_ns()}.txt"
    try:
        file.touch(0o600)
        file.write_text("".join(lines))
    except OSError:
        sys.stderr.writelines(lines)
        return
    line = " ".join(str(error).split("\n", 1)[0].split())
    print(
        f"error: {kind.__name__}: {line} (unexpected; its traceback is in {file}): "
        "`weft doctor` says whether everything is there and whole",
        file=sys.stderr,
    )
