"""The processes that read documents: what a hostile file can do, how long it can take, and that the
next is read.
"""

import io
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dagster_project.composition.objects import make_sources
from dagster_project.sources.asciidoc import NO_ASCIIDOCTOR
from dagster_project.sources.document_readers import DocumentReaders, refuse_missing_ocr
from tests import format_files as made
from tests.archives import Workspace
from tests.cases import some
from tests.format_files import Text, paragraph, pdf, picture
from tests.timing import HUNG
from transforms.errors import SourceError
from transforms.formats.converted import FormatError
from transforms.settings.documents import DocumentSettings

ADOC = (
    b"= The weir\nAnn Lee <ann@example.org>; Bob Roe\nv1.0, 2024-05-06\n:river: Isar\n\n== Gates\n\n"
    b"NOTE: Shutfootnote:[in spring].\n\n"
)
MANY_PAGES = pdf([[Text("Other")]] * 500)
Open = Callable[..., DocumentReaders]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Readers with some settings; all keep what they made in one folder."""
    all_opened: list[DocumentReaders] = []

    def open_readers(**settings: object) -> DocumentReaders:
        all_opened.append(
            DocumentReaders(DocumentSettings.model_validate(settings), tmp_path / "kept", HUNG)
        )
        return all_opened[-1]

    yield open_readers
    for readers in all_opened:
        readers.close()


@pytest.fixture
def readers(opened: Open) -> DocumentReaders:
    return opened(read_seconds=HUNG, ocr="eng")


def test_a_process_ends_by_the_processor_time_of_a_file_though_nobody_ends_it() -> None:
    file = made.docx(paragraph("x") * 100_000)
    limits = {"seconds": 1, "patience": HUNG}
    asked = {"kind": "docx", "bytes": len(file), "ocr": None, "seen_pixels": None}
    request = json.dumps({**asked, **limits})
    command = [sys.executable, "-m", "dagster_project.sources.reader_process", str(4 << 30)]
    done = subprocess.run(
        command, input=request.encode() + b"\n" + file, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGPROF


def shared_strings(length: int, cells: int) -> bytes:
    """A workbook of cells that all show one long text, which is stored once."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with zipfile.ZipFile(io.BytesIO(made.xlsx({"a": [["x"]]}))) as plain:
        members: dict[str, str | bytes] = {name: plain.read(name) for name in plain.namelist()}
    rows = "".join(
        f'<row r="{n}"><c r="A{n}" t="s"><v>0</v></c></row>' for n in range(1, cells + 1)
    )
    members["xl/worksheets/sheet1.xml"] = (
        f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
    )
    members["xl/sharedStrings.xml"] = f'<sst xmlns="{main}"><si><t>{"x " * length}</t></si></sst>'
    related = bytes(members["xl/_rels/workbook.xml.rels"]).decode()
    target = '<Relationship Id="rId9" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
    target += 'sharedStrings" Target="sharedStrings.xml"/></Relationships>'
    members["xl/_rels/workbook.xml.rels"] = related.replace("</Relationships>", target)
    return made.zipped(members)


def repeated_cells(count: int, times: int) -> bytes:
    """A sheet of LibreOffice with so many rows of cells, each of which stands for many."""
    one = f'<table:table-cell table:number-columns-repeated="{times}"><text:p>x</text:p></table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="{times}">{one * 3}</table:table-row>'
    body = f"<office:spreadsheet><table:table table:name='a'>{row * count}</table:table></office:spreadsheet>"
    with zipfile.ZipFile(io.BytesIO(made.opendocument(body))) as plain:
        members: dict[str, str | bytes] = {name: plain.read(name) for name in plain.namelist()}
    kind = {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "META-INF/manifest.xml": "<manifest/>",
    }
    return made.zipped(kind | members)


RUN = "<w:r><w:rPr><w:b/></w:rPr><w:t>x </w:t></w:r>"
SMALL: dict[str, tuple[str, Callable[[], bytes]]] = {
    "tables in tables": (
        "docx",
        lambda: made.docx(
            "<w:tbl><w:tr><w:tc>" * 2_000 + paragraph("x") + "</w:tc></w:tr></w:tbl>" * 2_000
        ),
    ),
    "runs of a paragraph": ("docx", lambda: made.docx(f"<w:p>{RUN * 300_000}</w:p>")),
    "styles": ("docx", lambda: made.docx("".join(paragraph("x", f"S{n}") for n in range(80_000)))),
    "cells of a row": ("docx", lambda: made.docx(made.word_table([["x"] * 60_000]))),
    "one text of many cells": ("sheet", lambda: shared_strings(50_000, 20_000)),
    "cells of a sheet": ("sheet", lambda: made.xlsx({"a": [["x", 1.5]] * 120_000})),
    "repeated cells": ("sheet", lambda: repeated_cells(3_000, 1_000_000)),
    "slides": ("pptx", lambda: made.pptx([("x", "y")] * 9_000)),
    "chapters": ("epub", lambda: made.epub({f"{n}.xhtml": "<p>x</p>" for n in range(15_000)})),
    "lists in lists": (
        "opendocument",
        lambda: made.opendocument(
            f"<office:text>{'<text:list><text:list-item>' * 3_000}<text:p>x</text:p>"
            f"{'</text:list-item></text:list>' * 3_000}</office:text>"
        ),
    ),
    "cells of a notebook": ("notebook", lambda: made.notebook(*[("markdown", "x")] * 60_000)),
}
"""Files of Office, books and notebooks that are small and say much: by name their kind, and what
makes them.
"""
OUTCOMES = (
    "too_slow: ",
    "too_large: ",
    "out_of_memory: ",
    "ended: ",
    "unreadable: its parts nest too deep",
)
CAP = 2
"""Seconds of the processor that a file may take."""


def used(opened: Open, data: bytes, kind: str) -> tuple[float, str]:
    """Seconds of the processor that a new process took for a file, its start included, and what
    became of the file.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    readers = opened(read_seconds=CAP)
    try:
        outcome = "read" if readers.read(data, kind).text else "empty"
    except FormatError as fault:
        outcome = str(fault)
    readers.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, outcome


@pytest.mark.parametrize("name", some(SMALL, each=8))
def test_a_small_file_takes_no_more_of_the_processor_than_it_may(opened: Open, name: str):
    kind, make = SMALL[name]
    data = make()
    assert len(data) < 4 << 20
    start, outcome = used(opened, made.docx(paragraph("x")), "docx")
    assert outcome == "read"
    taken, outcome = used(opened, data, kind)
    assert outcome == "read" or outcome.startswith(OUTCOMES)
    assert taken < start + 2 * CAP, (outcome, len(data))


def compressed_pdf(content: bytes) -> bytes:
    packed = zlib.compress(content, 9)
    plain = b"<<  /Length 0 >>\nstream\n\nendstream"
    stream = b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(packed), packed)
    return pdf([[]]).replace(plain, stream)


def bomb_png(side: int) -> bytes:
    """A black picture of that many pixels a side, a bit each."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = zlib.compress(bytes((side // 8 + 1) * side), 9)
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def reason(readers: DocumentReaders, data: bytes, kind: str) -> str:
    with pytest.raises(FormatError) as fault:
        readers.read(data, kind)
    return str(fault.value)


@pytest.mark.exhaustive
def test_bombs_end_with_a_reason_and_the_next_file_is_read(readers: DocumentReaders):
    bomb = made.zipped({"word/document.xml": bytes(257 << 20)})
    assert reason(readers, bomb, "docx").startswith("compression_bomb: ")
    assert reason(readers, bomb_png(20_000), "picture").startswith("compression_bomb: ")
    assert readers.read(pdf([[Text("Still here")]]), "pdf").text == "Still here\n\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("megabytes", "seconds"), [(300, HUNG), (2000, 1)], ids=["memory", "time"])
def test_a_page_of_millions_of_texts_ends_with_a_reason_and_the_next_file_is_read(
    opened: Open, megabytes: int, seconds: float
):
    endless = compressed_pdf(b"BT /F 9 Tf 1 1 Td (aaaaaaaa) Tj ET\n" * 1_000_000)
    tight = opened(read_seconds=seconds, read_memory_bytes=megabytes << 20)
    assert reason(tight, endless, "pdf").startswith(
        "too_slow: " if seconds == 1 else ("ended: ", "out_of_memory: ")
    )
    assert tight.read(pdf([[Text("Still here")]]), "pdf").text == "Still here\n\n"


def test_a_file_that_takes_too_long_is_ended_with_its_process(opened: Open):
    slow = opened(read_seconds=0.01)
    assert reason(slow, MANY_PAGES, "pdf") == (
        "too_slow: reading it takes more than 0.01 seconds of the processor"
    )
    assert slow._idle == []


def test_a_file_is_no_slower_where_the_machine_is_busy(opened: Open):
    """A reader that stands still for longer than its file may take of the processor reads it all the
    same; one that never goes on ends, which is the fault of no file and not remembered.
    """
    readers, page = opened(read_seconds=1), pdf([[Text("x")]])
    assert readers.read(page, "pdf").text == "x\n\n"
    (stopped,) = readers._idle
    os.kill(stopped._process.pid, signal.SIGSTOP)
    timer = threading.Timer(1.5, os.kill, (stopped._process.pid, signal.SIGCONT))
    timer.start()
    assert readers.read(pdf([[Text("y")]]), "pdf").text == "y\n\n"
    timer.join()
    readers._patience = stopped.patience = 0.1
    os.kill(stopped._process.pid, signal.SIGSTOP)
    other = pdf([[Text("z")]])
    assert reason(readers, other, "pdf").startswith("ended: reading it was waited for")
    assert opened(read_seconds=1).read(other, "pdf").text == "z\n\n"


def test_text_over_the_cap_is_not_taken(opened: Open):
    small = opened(max_document_bytes=1000)
    assert reason(small, made.docx(paragraph("abc " * 1000)), "docx").startswith(
        "too_large: its text"
    )
    assert reason(small, made.docx(paragraph("abc " * 100_000)), "docx").startswith(
        "too_large: its text"
    )
    assert small.read(made.docx(paragraph("abc")), "docx").text.strip() == "abc"


def test_one_process_reads_many_files(readers: DocumentReaders):
    texts = [readers.read(pdf([[Text(f"page {n}")]]), "pdf").text.strip() for n in range(50)]
    assert texts == [f"page {n}" for n in range(50)]
    assert len(readers._idle) == 1


@pytest.mark.skipif(not shutil.which("tesseract"), reason="needs the program tesseract")
def test_a_picture_and_a_scanned_page_are_read(readers: DocumentReaders):
    print_ = picture("The compactor keeps its pace", "by looking at the queue.", kind="JPEG")
    assert "keeps its pace\n\nby looking" in readers.read(print_, "picture").text
    scanned = readers.read(pdf([[Text("This page has a text layer.")], print_]), "pdf")
    assert scanned.page_starts == [0, 29] and "queue" in scanned.text[29:]


@pytest.mark.skipif(not shutil.which("asciidoctor"), reason="needs the program asciidoctor")
def test_asciidoctor_reads_a_document_and_no_other_file(readers: DocumentReaders, tmp_path: Path):
    (secret := tmp_path / "secret.adoc").write_text("A secret.")
    read = [readers.read(ADOC + f"include::{secret}[]\n{n}".encode(), "asciidoc") for n in range(3)]
    text = f"# The weir\n\n## Gates\n> **Note**\n>\n> Shut (in spring).\n\n[{secret}]({secret}) "
    assert [one.text.strip() for one in read] == [f"{text}{n}" for n in range(3)]
    assert (read[0].title, read[0].modified, read[0].defects) == ("The weir", "2024-05-06", [])
    assert {"author": "Ann Lee, Bob Roe", "river": "Isar"}.items() <= (read[0].fields or {}).items()


def test_asciidoc_without_its_program_is_text_until_it_is_there(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    read = opened().read(ADOC, "asciidoc")
    assert "= The weir" in read.text and read.defects == [NO_ASCIIDOCTOR]
    assert not list((tmp_path / "kept").glob("*/*"))
    work = Workspace(tmp_path / "work").configure({"name": "docs", "kind": "tree", "path": "docs"})
    work.put("docs/a.adoc", ADOC.decode())
    (before,) = make_sources(work.settings).discover()
    work.put("../asciidoctor", "#!/bin/sh\n").chmod(0o755)
    (after,) = make_sources(work.settings).discover()
    assert before.fingerprint != after.fingerprint


def test_languages_that_tesseract_has_not_stop_the_build():
    with pytest.raises(
        SourceError, match=r"'xyz', and Tesseract has no xyz here; install it .* tesseract-ocr-xyz"
    ):
        refuse_missing_ocr(DocumentSettings(ocr="xyz"))


def test_a_calendar_that_was_too_slow_is_not_read_again_and_no_text_of_one_is_kept(
    opened: Open, tmp_path: Path
):
    event = b"BEGIN:VEVENT\nSUMMARY:Lunch\nEND:VEVENT\n"
    lunch = b"BEGIN:VCALENDAR\n%sEND:VCALENDAR\n" % (event * 1000)
    assert opened().read(lunch, "calendar").text.startswith("## Lunch\n")
    assert not list((tmp_path / "kept").glob("*/*"))
    assert reason(opened(read_seconds=0.01), lunch, "calendar").startswith("too_slow: ")
    assert reason(opened(read_seconds=0.005), lunch, "calendar").endswith(
        "0.01 seconds of the processor"
    )


def test_what_became_of_a_file_is_kept_and_a_fault_of_the_day_is_not(opened: Open, tmp_path: Path):
    paper, broken = pdf([[Text("Primes are rare.")]]), b"%PDF-1.4 "
    first = opened()
    made = first.read(paper, "pdf")
    assert reason(first, broken, "pdf").startswith("unreadable: ")
    again = opened(read_seconds=0.01)
    assert again.read(paper, "pdf") == made
    assert reason(again, broken, "pdf").startswith("unreadable: ")
    assert reason(again, MANY_PAGES, "pdf").startswith("too_slow: ")
    smaller = opened(read_seconds=0.005)
    assert reason(smaller, MANY_PAGES, "pdf") == reason(again, MANY_PAGES, "pdf"), "kept"
    assert opened().read(MANY_PAGES, "pdf").text.startswith("Other\n\n"), "it has more time now"
    assert len([*(tmp_path / "kept").glob("*/*")]) == 3 and first.converted.sweep() == 0
    for file in (tmp_path / "kept").glob("*/*"):
        file.write_bytes(b"damaged")
        os.utime(file, (0, 0))
    assert opened().read(paper, "pdf") == made
    assert first.converted.sweep() == 2


@pytest.mark.exhaustive
def test_a_file_after_one_that_ends_the_process_is_read(opened: Open):
    huge = made.zipped({"content.xml": b"<a>" + b"<b/>" * 3_000_000 + b"</a>"})
    for number in range(6):  # the last bytes that are free are not the same each time
        readers = opened(read_memory_bytes=(150 + 3 * number) << 20)
        assert reason(readers, huge + bytes(number), "opendocument").startswith("out_of_memory: ")
        assert readers.read(pdf([[Text(f"Page {number}")]]), "pdf").text == f"Page {number}\n\n"


def test_a_process_that_somebody_killed_costs_no_file(readers: DocumentReaders):
    readers.read(pdf([[Text("One")]]), "pdf")
    (idle,) = readers._idle
    os.kill(idle._process.pid, signal.SIGKILL)
    assert readers.read(pdf([[Text("Two")]]), "pdf").text == "Two\n\n"
