"""Tables of values between separators (CSV, RFC 4180, and TSV) to Markdown."""

import csv
import io

from transforms.formats.converted import Converted, FormatError, as_table
from transforms.text.charsets import decode_text

_SEPARATORS = "\t;,|"
"""The one that the first line has most of divides the values; of equals the first."""


def delimited_markdown(data: bytes) -> Converted:
    """A file of rows as one Markdown table, whose head is the first row; empty rows are left out.

    FormatError if a quoted value has no end.
    """
    text = decode_text(data, "utf-8").text.removeprefix("\ufeff")
    first = text.lstrip("\r\n").partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        rows = [row for row in reader if any(value.strip() for value in row)]
    except csv.Error as error:
        raise FormatError(f"unreadable: line {reader.line_num}: {error}") from error
    return Converted(as_table(rows) + "\n", [])
