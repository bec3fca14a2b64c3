"""The process that reads PDF, office, book, notebook, AsciiDoc, picture files: their content can
harm it and nothing else.

It gets files on its standard input, each after a line of JSON (`kind`, `bytes`, `ocr`,
`seen_pixels`, `seconds` of the processor, `patience` in seconds of the clock), and answers each with
lines of JSON: `{"page": n}` as often as a page is given to OCR, then the text with its facts
(`converted.Converted`), or `{"fault": reason}`, with `"ends"` if this process ends over it.
"""

import json
import math
import resource
import signal
import subprocess
import sys
from typing import Any

from dagster_project.sources.asciidoc import asciidoc_markdown
from transforms.formats.converted import FormatError
from transforms.formats.pdf import Ocr
from transforms.formats.read import read_format

_OPEN_FILES = 64


def _main() -> None:
    limits = {"AS": int(sys.argv[1]), "FSIZE": 0, "CORE": 0, "NOFILE": _OPEN_FILES}
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    try:
        while line := sys.stdin.buffer.readline():
            _answer(json.loads(line))
        return
    except MemoryError:
        fault = "out_of_memory: reading it takes more memory than a file may take"
    except BaseException as error:  # noqa: BLE001 - a panic of a library, too, is the fault of the file
        fault = f"unreadable: reading it fails ({type(error).__name__}: {str(error)[:200]})"
    _say(
        {"fault": fault, "ends": True}
    )  # below the clauses: they hold the frames, which hold all memory


def _answer(request: dict[str, Any]) -> None:
    """Read the file that follows its request, and answer."""
    data = sys.stdin.buffer.read(request["bytes"])
    kind, limits = request["kind"], (request["seconds"], request["patience"])
    _limit_time(*limits)
    try:
        if kind == "asciidoc":
            converted = asciidoc_markdown(data, request["seconds"])
        else:
            ocr = _ocr(request["ocr"], *limits)
            converted = read_format(data, kind, ocr, seen_pixels=request["seen_pixels"])
    except FormatError as fault:
        _say({"fault": str(fault)})
    else:
        _say(converted._asdict())


def _limit_time(seconds: float, patience: float) -> None:
    """End this process once it has used so much more of the processor, whatever the threads, and
    its children as well, these by whole seconds.

    A process that waits ends a little after `patience`, if nobody is there any more to end it.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.alarm(math.ceil(patience) + 10)


def _ocr(languages: str | None, seconds: float, patience: float) -> Ocr | None:
    """A function that gives a picture to Tesseract; None without languages."""
    if languages is None:
        return None

    def text(picture: bytes) -> str:
        _say({"page": True})
        _limit_time(seconds, patience)
        command = ["tesseract", "stdin", "stdout", "-l", languages, "--dpi", "300"]
        done = subprocess.run(
            command, input=picture, capture_output=True, timeout=patience, check=False
        )
        if done.returncode:
            complaint = [
                str(done.returncode),
                *done.stderr.decode(errors="replace").strip().splitlines(),
            ]
            raise FormatError(f"ocr_failed: tesseract says: {complaint[-1]}")
        return done.stdout.decode(errors="replace").replace("\f", "").strip()

    return text


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
