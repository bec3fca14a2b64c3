"""Reading files of foreign formats in processes of their own, under limits of time, memory and
output.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dagster_project.sources.asciidoc import NO_ASCIIDOCTOR
from dagster_project.system.code import code_hashes
from transforms.documents.files import document_format
from transforms.errors import SourceError
from transforms.formats.converted import Converted, FormatError
from transforms.hashing import parts_hash
from transforms.settings.documents import DocumentSettings

_ROOT = Path(__file__).parents[2]
_FILES_OF_ONE = 500
"""Files after which a process is ended: the memory that its libraries lose stays small."""
_OF_THE_PROCESS = ("ended: ", "out_of_memory: ")
_WAITING = 10
"""Seconds that a reader is waited for, for each second of the processor that a file may take: a busy
machine gives it a part of one.
"""
_OCR_PAGES = 2000
"""Pages of a file that are given to OCR: a file cannot take longer than these times `read_seconds`.
"""
_LOGO_BYTES = 20_000
"""Bytes of an attached picture below which it is taken for a logo or a sign, where only its text
counts.
"""
_LOGO_PIXELS = 40_000
"""Pixels below which it is not found by what it shows: logos in mails of two lists have 22,500,
photographs 200,000.
"""
_BLOCK = 1 << 16
_JSON_RATIO = 6
"""Bytes of JSON : bytes of its text, at most: \\u0000 for each ASCII letter."""
_INHERITED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "TESSDATA_PREFIX",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
)


class DocumentReaders:
    """Processes that read files, started when they are needed and kept for the next file; may be
    used by several threads.
    """

    def __init__(self, settings: DocumentSettings, folder: Path, patience: float | None = None):
        """`folder` keeps the readings of files; a file is waited for `patience` seconds, or for some
        times as long as it may take of the processor.
        """
        self.settings = settings
        self._patience = patience or _WAITING * settings.read_seconds
        self.converted = ConvertedFiles(folder, settings.read_seconds)
        self._idle: list[_Reader] = []
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _end_all, self._idle)

    def read(
        self, data: bytes, kind: str, *, seen_pixels: int | None = None, keep: bool = True
    ) -> Converted:
        """A file of one of `CONVERTED_FORMATS` as Markdown; FormatError with the reason if it is
        not read.

        A picture of `seen_pixels` is kept with its text if `pictures` of the settings says so; one
        of fewer is not read then. Unless it is to `keep`, the text of a file is written nowhere;
        that of a calendar never is, as one of its events may be forgotten: only why it cannot be
        read.
        """
        seen_pixels = seen_pixels if kind == "picture" and self.settings.pictures else None
        if not keep:
            return self._read(data, kind, seen_pixels)
        name = kind if seen_pixels is None else f"{kind}, seen {seen_pixels}"
        place = self.converted.place(data, name, self.settings.ocr)
        if (result := self.converted.get(place)) is not None:
            return result
        try:
            converted = self._read(data, kind, seen_pixels)
        except FormatError as fault:
            self.converted.put(place, fault)
            raise
        if kind != "calendar":
            self.converted.put(place, converted)
        return converted

    def read_attached(self, data: bytes, kind: str, *, keep: bool = True) -> Converted:
        """As `read`, for a file attached to a mail or chat; FormatError for a picture that is taken
        for a logo, too.
        """
        is_logo = self.settings.ocr is None or len(data) < _LOGO_BYTES
        if kind == "picture" and is_logo and not self.settings.pictures:
            raise FormatError("binary: image")
        return self.read(data, kind, seen_pixels=_LOGO_PIXELS, keep=keep)

    def _read(
        self, data: bytes, kind: str, seen_pixels: int | None, deadline: float | None = None
    ) -> Converted:
        """A process's reading of a file; a new one tries again where an older one ends, as it may
        over files before.

        Both have until `deadline`, whatever they take of the processor.
        """
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        reader = reader or _Reader(self.settings, self._patience)
        deadline = deadline or time.monotonic() + self._patience
        try:
            converted = reader.read(data, kind, seen_pixels, deadline)
        except FormatError as fault:
            self._keep(reader)
            if reader.files > 1 and str(fault).startswith(_OF_THE_PROCESS):
                return self._read(data, kind, seen_pixels, deadline)
            raise
        except BaseException:  # an interruption, too, leaves no process behind
            reader.end()
            raise
        self._keep(reader)
        return converted

    def close(self) -> None:
        """End the processes; the next file starts new ones."""
        with self._lock:
            _end_all(self._idle)

    def _keep(self, reader: _Reader) -> None:
        if reader.files >= _FILES_OF_ONE or not reader.lives:
            reader.end()
            return
        with self._lock:
            self._idle.append(reader)


def refuse_missing_ocr(settings: DocumentSettings) -> None:
    """Raise SourceError if OCR is wanted and Tesseract or one of the languages is not there."""
    if settings.ocr is None:
        return
    program = shutil.which("tesseract")
    languages = settings.ocr.split("+")
    available: list[str] = []
    if program:
        listed = subprocess.run(
            [program, "--list-langs"], capture_output=True, text=True, check=False
        )
        available = listed.stdout.split()
    if missing := [language for language in languages if language not in available]:
        packages = " ".join(f"tesseract-ocr-{name.replace('_', '-').lower()}" for name in missing)
        raise SourceError(
            f"documents.ocr is {settings.ocr!r}, and Tesseract has no {' or '.join(missing)} here; install it (Debian: "
            f"apt install tesseract-ocr {packages}), or remove documents.ocr from the settings"
        )


def missing_program(names: Iterable[str]) -> str:
    """Why files of these names are read as plain text: one is AsciiDoc, and Asciidoctor is missing;
    else empty.
    """
    is_one = any(document_format(name) == "asciidoc" for name in names)
    return NO_ASCIIDOCTOR if is_one and not shutil.which("asciidoctor") else ""


class _Reader:
    """One process, which reads one file after the other."""

    def __init__(self, settings: DocumentSettings, patience: float):
        self.settings, self.patience = settings, patience
        self.files = 0
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "dagster_project.sources.reader_process",
                str(settings.read_memory_bytes),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **inherited,
                "PYTHONPATH": str(_ROOT),
                "LC_ALL": "C.UTF-8",
                "OMP_THREAD_LIMIT": "1",
            },
            start_new_session=True,
            bufsize=0,
        )

    @property
    def lives(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def read(self, data: bytes, kind: str, seen_pixels: int | None, deadline: float) -> Converted:
        """A file as Markdown; FormatError with the reason if it is not read by `deadline`; the
        process may be gone then.
        """
        self.files += 1
        settings = self.settings
        request = {
            "kind": kind,
            "bytes": len(data),
            "ocr": settings.ocr,
            "seen_pixels": seen_pixels,
            "seconds": settings.read_seconds,
            "patience": self.patience,
        }
        assert self._process.stdin
        # Beside: a process that reads nothing any more would hold up who writes to it.
        writer = threading.Thread(
            target=_write,
            args=(self._process.stdin.fileno(), json.dumps(request).encode() + b"\n" + data),
        )
        writer.start()
        try:
            answer = self._answer(deadline)
        except BaseException:  # the writer waits as long as the process lives
            self._kill()
            raise
        finally:
            writer.join()
        if "ends" in answer:
            self._kill()
        if "fault" in answer:
            raise FormatError(str(answer["fault"]).encode("utf-8", "replace").decode())
        return Converted(**answer)

    def _answer(self, deadline: float) -> dict[str, Any]:
        """The answer to a file; FormatError if there is none within the limits."""
        settings, received, pages = self.settings, bytearray(), 0
        too_much = (
            f"too_large: its text has more than {settings.max_document_bytes:,} bytes, the cap"
        )
        while True:
            received += self._block(deadline)
            while b"\n" in received[-_BLOCK:]:
                line, _, received = received.partition(b"\n")
                answer: dict[str, Any] = json.loads(line)
                if (
                    len(str(answer.get("text", "")).encode("utf-8", "replace"))
                    > settings.max_document_bytes
                ):
                    raise FormatError(too_much)
                if "page" not in answer:
                    return answer
                deadline, pages = time.monotonic() + self.patience, pages + 1
                if pages > _OCR_PAGES:
                    raise FormatError(f"too_large: more than {_OCR_PAGES} scanned pages")
            if len(received) > settings.max_document_bytes * _JSON_RATIO + _BLOCK:
                raise FormatError(too_much)

    def _block(self, deadline: float) -> bytes:
        """Some bytes of the process's answer; FormatError if there is nothing by the deadline, or
        if the process ended.
        """
        assert self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            has_answer = selector.select(max(deadline - time.monotonic(), 0))
        if has_answer and (block := os.read(self._process.stdout.fileno(), _BLOCK)):
            return block
        if not has_answer:
            raise FormatError(f"ended: reading it was waited for {self.patience:g} seconds")
        if (code := self._process.wait()) not in (-signal.SIGPROF, -signal.SIGXCPU):
            raise FormatError(f"ended: the process that reads it ended ({code})")
        raise FormatError(
            f"{_TOO_SLOW}: reading it takes more than {self.settings.read_seconds:g} seconds of the "
            "processor"
        )

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Kill the process and close the pipes to it."""
        self._kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it, unless nobody reads any more."""
    with contextlib.suppress(OSError):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _end_all(readers: list[_Reader]) -> None:
    while readers:
        readers.pop().end()


_KEPT_SECONDS = 30 * 24 * 3600
"""Seconds after which a reading that nobody asked for is deleted."""
_TOO_SLOW = "too_slow"
"""Code of the fault of a file that is not read again until it changes, or for a month."""
_FLEETING = ("out_of_memory", "ended", "needs_package", "needs_program")
"""Codes of faults and defects that another try may not have."""


_SLOW_READERS = {
    "pdf": "transforms.formats.pdf:pdf_markdown",
    "picture": "transforms.formats.pictures:picture_markdown",
}
"""Readers that OCR may hold up: a change of the others does not ask it again."""


class ConvertedFiles:
    """A folder with a file for each content, which may be deleted at any time."""

    def __init__(self, folder: Path, seconds: float):
        """A file that took longer than `seconds` is read again once it has more time."""
        self.folder, self.seconds = folder, seconds

    def place(self, data: bytes, kind: str, ocr: str | None) -> Path:
        """The place of the reading of a file: by content, kind, languages of OCR, and code of the
        reader.
        """
        reader = _SLOW_READERS.get(kind.partition(",")[0], "transforms.formats.read:read_format")
        name = parts_hash((data, kind, ocr or "", *code_hashes([(reader,)])))
        return self.folder / name[:2] / name

    def get(self, place: Path) -> Converted | None:
        """The stored reading at a place, None without one; FormatError if the file could not be
        read.
        """
        try:
            record = json.loads(zlib.decompress(place.read_bytes()))
        except (OSError, ValueError, zlib.error):
            return None
        if "seconds" in record:
            if record["seconds"] < self.seconds:
                return None
            raise FormatError(record["fault"])
        with contextlib.suppress(OSError):
            os.utime(place)
        if "fault" in record:
            raise FormatError(record["fault"])
        return Converted(**record)

    def put(self, place: Path, converted: Converted | FormatError) -> None:
        """Keep the reading of a file; a disk that is full, or may not be written, keeps nothing."""
        reasons = [str(converted)] if isinstance(converted, FormatError) else converted.defects
        if any(reason.partition(":")[0] in _FLEETING for reason in reasons):
            return
        if isinstance(converted, FormatError):
            record: dict[str, Any] = {"fault": str(converted)}
            record |= {"seconds": self.seconds} if str(converted).startswith(_TOO_SLOW) else {}
        else:
            record = converted._asdict()
        beside = place.with_name(f"{place.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(zlib.compress(json.dumps(record).encode(), 1))
            beside.replace(place)

    def sweep(self) -> int:
        """Delete readings that nobody asked for in a month; returns their number."""
        count = 0
        for file in self.folder.glob("*/*"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < time.time() - _KEPT_SECONDS:
                    file.unlink()
                    count += 1
        return count
