"""How fast files of each format are read, in pages, files and characters per second of processor.

    python benchmarks/documents.py FOLDER...

Reads every file below the folders in this process: the start of a reading process, .5 s, is left out. Debian's packages
`r-doc-pdf`, `octave-doc`, `debian-policy` and `debmake-doc` have PDFs and books.
"""

from __future__ import annotations

import time
from collections import Counter
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
    files, pages, chars, refused = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    seconds = dict.fromkeys(CONVERTED_FORMATS, 0.0)
    for path in (path for folder in parser.parse_args().folders for path in sorted(folder.rglob("*"))):
        kind = document_format(path.name)
        if kind not in CONVERTED_FORMATS or kind == "picture" or not path.is_file():
            continue
        data, start = path.read_bytes(), time.process_time()
        try:
            converted = read_format(data, kind)
        except FormatError:
            refused[kind] += 1
            continue
        seconds[kind] += time.process_time() - start
        files[kind] += 1
        pages[kind] += len(converted.page_starts or ())
        chars[kind] += len(converted.text)
    table = new_table(
        "Documents", ("format", "files", "refused", "files/s", "pages/s", "million characters/s")
    )
    for kind, count in files.items():
        rates = (count / seconds[kind], pages[kind] / seconds[kind], chars[kind] / seconds[kind] / 1e6)
        table.add_row(kind, str(count), str(refused[kind]), *(f"{rate:,.1f}" for rate in rates))
    Console().print(table)


if __name__ == "__main__":
    main()
