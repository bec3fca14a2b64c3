"""Workbooks of Excel and LibreOffice to Markdown: each sheet a heading and a table."""

from __future__ import annotations

import io

import python_calamine

from transforms.formats.converted import Converted, FormatError, heading, table
from transforms.formats.zipped import Zipped

_OLD = b"\xd0\xcf\x11\xe0"
"""How workbooks from before 2007 begin, which are no zip files."""


def sheets_markdown(data: bytes) -> Converted:
    """A workbook (xlsx, xlsm, xlsb, xls, ods) as Markdown: values as they are stored, formulas as their last result.

    FormatError if it is none. Rows and columns without a value are left out.
    """
    zipped = None if data.startswith(_OLD) else Zipped(data)
    try:
        with python_calamine.load_workbook(io.BytesIO(data)) as workbook:
            sheets = [(name, workbook.get_sheet_by_name(name).to_python()) for name in workbook.sheet_names]
    except python_calamine.PasswordError as error:
        raise FormatError("encrypted: it opens with a password only") from error
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise FormatError(f"unreadable: it is no workbook ({error})") from error
    parts: list[str] = []
    for name, rows in sheets:
        texts = [[_shown(value) for value in row] for row in rows]
        texts = [row for row in texts if any(row)]
        columns = [
            n for n in range(max(map(len, texts), default=0)) if any(n < len(r) and r[n] for r in texts)
        ]
        if columns:
            parts += [
                heading(2, name),
                table([row[n] if n < len(row) else "" for n in columns] for row in texts),
            ]
    converted = Converted("\n\n".join(parts) + "\n", [])
    return zipped.with_core_properties(converted) if zipped else converted


def _shown(value: object) -> str:
    """The text of a cell: whole numbers without a fraction, times as ISO 8601."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
