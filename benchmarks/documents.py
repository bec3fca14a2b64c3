"""How fast files of each format are read, in pages, files and characters per second of processor.

    python benchmarks/documents.py FOLDER... [--ocr eng]

Reads every file below the folders in this process: the start of a reading process, .5 s, is left
out. Debian's packages `r-doc-pdf`, `octave-doc`, `debian-policy` and `debmake-doc` have PDFs and
books. With `--ocr` pictures and scanned pages are read, too, in the languages named; the time of
Tesseract counts.
"""

import os
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path

from printing import new_parser, new_table
from rich.console import Console

from transforms.documents.files import document_format
from transforms.formats.converted import FormatError
from transforms.formats.read import read_format
from transforms.settings.documents import CONVERTED_FORMATS


def main() -> None:
    """Read all files and print a line per format."""
    parser = new_parser(__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--ocr", help="languages of Tesseract")
    arguments = parser.parse_args()
    ocr = None if arguments.ocr is None else partial(read_print, arguments.ocr)
    files, pages, chars, refused = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    seconds = dict.fromkeys(CONVERTED_FORMATS, 0.0)
    for path in (path for folder in arguments.folders for path in sorted(folder.rglob("*"))):
        kind = document_format(path.name)
        if kind not in CONVERTED_FORMATS or (kind == "picture" and not ocr) or not path.is_file():
            continue
        data, start = path.read_bytes(), sum(os.times()[:4])
        try:
            converted = read_format(data, kind, ocr)
        except FormatError:
            refused[kind] += 1
            continue
        seconds[kind] += sum(os.times()[:4]) - start
        files[kind] += 1
        pages[kind] += len(converted.page_starts or (0,))
        chars[kind] += len(converted.text)
    table = new_table(
        "Documents", ("format", "files", "refused", "files/s", "pages/s", "million characters/s")
    )
    for kind, count in sorted(files.items()):
        rates = (
            count / seconds[kind],
            pages[kind] / seconds[kind],
            chars[kind] / seconds[kind] / 1e6,
        )
        table.add_row(kind, str(count), str(refused[kind]), *(f"{rate:,.1f}" for rate in rates))
    Console().print(table)


def read_print(languages: str, picture: bytes) -> str:
    """The text that Tesseract sees in a picture."""
    command = ["tesseract", "stdin", "stdout", "-l", languages, "--dpi", "300"]
    return subprocess.run(command, input=picture, capture_output=True, check=True).stdout.decode()


if __name__ == "__main__":
    main()
