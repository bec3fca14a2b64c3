"""Tables of values between separators (CSV, RFC 4180, and TSV) to Markdown."""

import csv
import io
from typing import Literal

from transforms.formats.converted import Converted, FormatError, as_table
from transforms.text.charsets import decode_text

_SEPARATORS = "\t;,|"
"""The one that the first line has most of divides the values; of equals the first."""


def delimited_markdown(data: bytes) -> Converted:
    """A file of rows as one Markdown table, whose head is the first row; empty rows are left out.

    If its quotes do not close, or text follows them (`5" pipe`), they are signs as others are.
    FormatError if a value is longer than the reader allows.
    """
    text = decode_text(data, "utf-8").text.removeprefix("\ufeff")
    first = text.lstrip("\r\n").partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    try:
        rows = _rows(text, separator, csv.QUOTE_MINIMAL)
    except csv.Error:
        try:
            rows = _rows(text, separator, csv.QUOTE_NONE)
        except csv.Error as error:
            raise FormatError(f"unreadable: {error}") from error
    return Converted(as_table(rows) + "\n", [])


def _rows(text: str, separator: str, quoting: Literal[0, 3]) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, quoting=quoting, strict=True
    )
    return [row for row in reader if any(value.strip() for value in row)]
