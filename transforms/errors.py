"""The faults Weft reports: each names the thing, the place and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_SHOWN = 60
"""Characters of a query shown on either side of a fault."""
_ONE_LINE = dict.fromkeys([*range(32), 127, *range(0x80, 0xA0), 0x2028, 0x2029], " ")


def shortened(text: str) -> str:
    """The beginning of a text, at the length that a message shows.

    >>> shortened("a" * 99) == "a" * 60 + "…"
    True"""
    return str(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class WeftError(Exception):
    """Base of every fault that Weft explains to its user."""

    exit_code = 1
    step: str | None = None
    """The failed step, if a run failed."""
    run_id: str | None = None
    """The failed Dagster run, if one failed."""


class SettingsError(WeftError):
    """The settings file is missing or says something Weft does not understand."""

    exit_code = 2


class LensError(SettingsError):
    """A lens cannot be applied to a version; the message names only things that the lens itself names."""


class SchemaError(WeftError):
    """A table does not have the columns its declaration gives it."""


class LakeDamageError(WeftError):
    """A file of the lake holds other bytes than were written into it."""


class SourceError(WeftError):
    """A configured source cannot be read at all."""

    exit_code = 4


class ReceiptError(WeftError):
    """The receipts of disclosures cannot be continued, or are not as they were written."""

    exit_code = 5


class DisclosureLimitError(WeftError):
    """An answer would show more than the lens shows in one session; nothing of it was shown."""

    exit_code = 3


class FetchError(WeftError):
    """A remote cannot be fetched, and will not be until something is repaired; earlier results are kept."""

    exit_code = 10


class FetchInterruptedError(FetchError):
    """A fetch that may succeed if repeated; `pause` is the wait that the remote asks for, in seconds."""

    def __init__(self, reason: str, pause: float | None = None):
        super().__init__(reason)
        self.pause = pause


class ChatFormatError(WeftError):
    """A chat has no format that Weft reads, or in two at once; begins with a short code."""

    exit_code = 4


class IndexUnavailableError(WeftError):
    """No index is published, or it cannot be opened."""

    exit_code = 5


class ModelMismatchError(WeftError):
    """A vector or an index belongs to another embedding model than the settings name."""

    exit_code = 6


class EmbeddingError(WeftError):
    """An embedder returned an unusable vector."""


class RefusedTextError(WeftError):
    """A model will not embed some of the texts it got; `reasons` says why, by their place.

    `vectors` has a row for every text; those of the others are paid for and good."""

    exit_code = 9

    def __init__(self, message: str, reasons: Mapping[int, str], vectors: np.ndarray):
        super().__init__(message)
        self.reasons, self.vectors = reasons, vectors


class AnswerCacheError(WeftError):
    """The file in which answers of services are kept is corrupt or locked."""


class ServiceError(WeftError):
    """A service on the network refused, failed or did not answer in time; earlier results are kept."""

    exit_code = 9


class UnansweredError(ServiceError):
    """Requests went out without a usable answer: the service may charge for them."""


class BudgetError(WeftError):
    """A run would need more tokens of a service than its budget; nothing was requested."""

    exit_code = 9


class CheckFailedError(WeftError):
    """A table that would be published breaks a rule; nothing was published."""

    exit_code = 7


class BusyError(WeftError):
    """Another build of the same storage is running."""

    exit_code = 8


class EngineError(WeftError):
    """The engine that makes partitions cannot be reached, gave up, or its machines do not see the lake."""


class DiskFullError(WeftError):
    """The disk has no room to write; the previous content stays."""

    exit_code = 11


class UnwritableError(WeftError):
    """A folder or file that has to be written cannot be; the published version can be read all the same."""

    exit_code = 12


class HistoryError(WeftError):
    """Dagster's history of runs is corrupt, locked or of another version."""


class QueryError(WeftError):
    """A query or statement cannot be understood."""

    exit_code = 2


class QuerySyntaxError(QueryError):
    """A query holds syntax that cannot be understood; points at the character, counted from 0."""

    def __init__(self, query: str, position: int, reason: str):
        self.query, self.position = query, position
        start = max(0, position - _SHOWN)
        excerpt = query[start : position + _SHOWN].translate(_ONE_LINE)
        super().__init__(
            f"character {position + 1} of the query: {reason}, or have the query taken as plain text "
            f"(--plain)\n  {excerpt}\n  {' ' * (position - start)}^"
        )


class QueryInterruptedError(WeftError):
    """A query was ended from outside before it had an answer."""


class MemoryLimitError(WeftError):
    """A query needs more memory than there is; the index is not corrupt."""


class UnknownIdError(WeftError):
    """The published index holds nothing of that id; the message names the nearest."""

    exit_code = 3


class ContextError(WeftError):
    """A block of context cannot be reproduced from its manifest."""


class GroundTruthError(WeftError):
    """A file of queries and right answers for an evaluation is wrong."""

    exit_code = 2


def not_installed(error: ImportError, extra: str) -> SettingsError:
    """The fault for a package that the extra named like the model would have brought."""
    return SettingsError(
        f"{error.name} is not installed: `pip install 'weft[{extra}]'` brings what {extra} needs"
    )
