"""How many hits a query has, those that repeat another one not counted."""

from typing import NamedTuple


class Count(NamedTuple):
    """The hits of a query, and the threads that they are in, a text of no thread as one of its own.

    Not exact (`is_exact`) if words rank them: then those are counted that are shown or near enough to
    be labelled WEAK, of as many as a search looks at.
    """

    hits: int
    threads: int
    is_exact: bool

    def without(self, folded: int) -> "Count":
        """The count without so many hits that were folded."""
        hits = self.hits - folded
        return self._replace(hits=hits, threads=min(hits, self.threads))

    def line(self) -> str:
        """The count in words.

        >>> Count(40, 12, False).line(), Count(1, 1, True).line()
        ('about 40 in 12 threads', '1')
        """
        about = "" if self.is_exact else "about "
        threads = f" in {self.threads:,} thread{'s' * (self.threads != 1)}"
        return f"{about}{self.hits:,}{threads if self.threads < self.hits else ''}"
