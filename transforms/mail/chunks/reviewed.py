"""What a review is about: the file and the hunk of the quoted patch that a comment stands in."""

from __future__ import annotations

import re
from bisect import bisect_left

_HEADER = re.compile(
    r"^(?:[ \t]?>[ \t]?)?(?:\+\+\+ (?:b/)?(?P<file>[^\t\n]+)|(?P<hunk>@@ -\d[^\n]*))", re.MULTILINE
)
_CHANGE = re.compile(r"^(?:[ \t]?>[ \t]?)?(?:[+-]|@@ -\d)", re.MULTILINE)


class ReviewedPlaces:
    """The headers of the patches in a body, quoted once or not at all."""

    def __init__(self, body: str) -> None:
        self.body = body
        headers = list(_HEADER.finditer(body)) if "@@ -" in body else []
        self._starts = [header.start() for header in headers]
        self._places: list[tuple[str, str]] = []
        file = ""
        for header in headers:
            file = (header["file"] or file).rstrip()
            self._places.append((file, header["hunk"] or ""))

    def of(self, start: int, end: int) -> tuple[str, str]:
        """The file and the header of the hunk at the end of a quote; empty without a changed line or a known file.

        >>> body = "> +++ b/a.c\\n> @@ -1 +1 @@ int f(void)\\n> +x\\n\\nWhy?\\n\\n> +y\\n\\nWhy?\\n"
        >>> ReviewedPlaces(body).of(body.index("> +y"), body.index("> +y") + 5)
        ('a.c', '@@ -1 +1 @@ int f(void)')
        """
        last = bisect_left(self._starts, end) - 1
        if last < 0 or not _CHANGE.search(self.body, start, end):
            return "", ""
        file, hunk = self._places[last]
        return (file, hunk) if file not in ("", "/dev/null") else ("", "")
