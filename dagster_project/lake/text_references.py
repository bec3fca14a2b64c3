"""References to texts that stay in the lake, which a published file has in their places."""

from collections.abc import Iterable, Mapping

TEXTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "messages": ("message_id", ("body",)),
    "attachments": ("attachment_id", ("text", "picture")),
    "documents": ("doc_id", ("text",)),
    "conversation_windows": ("doc_id", ("markdown",)),
    "chunks": ("chunk_id", ("text_display", "text_embed")),
}
"""The texts of the published tables: the column that names a row in the lake, and those that stay
there.
"""
PLACE = "texts_in"
"""The entry of the manifest with the place of the lake: a path from the folder of the file, or an
address.
"""
MARK = "\x1f"
"""Begins a reference, and divides its parts."""
DIGITS = 16


def referring(published: str, table: str, partition: str, columns: Iterable[str]) -> list[str]:
    """Columns of a file of the lake as they are selected for a published table: a reference in
    place of each text.
    """
    key, texts = TEXTS.get(published, ("", ()))
    return [
        f"CASE WHEN {name} IS NOT NULL THEN concat_ws(chr(31), '', '{table}', '{name}', "
        f"'{partition.replace(chr(39), chr(39) * 2)}', {key}, md5({name})[:{DIGITS}]) END AS {name}"
        if name in texts
        else f'"{name}"'
        for name in columns
    ]
