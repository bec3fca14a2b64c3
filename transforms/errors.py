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
    True
    """
    return str(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class WeftError(Exception):
    """Base of every fault that Weft explains to its user."""

    exit_code = 1
    step: str | None = None
    """The failed step, if a run failed."""
    run_id: str | None = None
    """The failed Dagster run, if one failed."""

    def __init_subclass__(cls, exit_code: int | None = None) -> None:
        cls.exit_code = exit_code or cls.exit_code


class SettingsError(WeftError, exit_code=2):
    """The settings file is missing or says something Weft does not understand."""


class LensError(SettingsError):
    """A lens cannot be applied to a version; the message names only things that the lens itself names."""


class SchemaError(WeftError):
    """A table does not have the columns its declaration gives it."""


class LakeDamageError(WeftError):
    """A file of the lake holds other bytes than were written into it."""


class SourceError(WeftError, exit_code=4):
    """A configured source cannot be read at all."""


class ReceiptError(WeftError, exit_code=5):
    """The receipts of disclosures cannot be continued, or are not as they were written."""


class DisclosureLimitError(WeftError, exit_code=3):
    """An answer would show more than the lens shows in one session; nothing of it was shown."""


class FetchError(WeftError, exit_code=10):
    """A remote cannot be fetched, and will not be until something is repaired; earlier results are kept."""


class FetchInterruptedError(FetchError):
    """A fetch that may succeed if repeated; `pause` is the wait that the remote asks for, in seconds."""

    def __init__(self, reason: str, pause: float | None = None):
        super().__init__(reason)
        self.pause = pause


class ChatFormatError(WeftError, exit_code=4):
    """A chat has no format that Weft reads, or in two at once; begins with a short code."""


class IndexUnavailableError(WeftError, exit_code=5):
    """No index is published, or it cannot be opened."""


class ModelMismatchError(WeftError, exit_code=6):
    """A vector or an index belongs to another embedding model than the settings name."""


class EmbeddingError(WeftError):
    """An embedder returned an unusable vector."""


class RefusedTextError(WeftError, exit_code=9):
    """A model will not embed some of the texts it got; `reasons` says why, by their place.

    `vectors` has a row for every text; those of the others are paid for and good.
    """

    def __init__(self, message: str, reasons: Mapping[int, str], vectors: np.ndarray):
        super().__init__(message)
        self.reasons, self.vectors = reasons, vectors


class AnswerCacheError(WeftError):
    """The file in which answers of services are kept is corrupt or locked."""


class ServiceError(WeftError, exit_code=9):
    """A service on the network refused, failed or did not answer in time; earlier results are kept."""


class UnansweredError(ServiceError):
    """Requests went out without a usable answer: the service may charge for them."""


class BudgetError(WeftError, exit_code=9):
    """A run would need more tokens of a service than its budget; nothing was requested."""


class CheckFailedError(WeftError, exit_code=7):
    """A table that would be published breaks a rule; nothing was published."""


class BusyError(WeftError, exit_code=8):
    """Another build of the same storage is running."""


class EngineError(WeftError):
    """The engine that makes partitions cannot be reached, gave up, or its machines do not see the lake."""


class DiskFullError(WeftError, exit_code=11):
    """The disk has no room to write; the previous content stays."""


class UnwritableError(WeftError, exit_code=12):
    """A folder or file that has to be written cannot be; the published version can be read all the same."""


class HistoryError(WeftError):
    """Dagster's history of runs is corrupt, locked or of another version."""


class QueryError(WeftError, exit_code=2):
    """A query or statement cannot be understood."""


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


class UnknownIdError(WeftError, exit_code=3):
    """The published index holds nothing of that id; the message names the nearest."""


class ContextError(WeftError):
    """A block of context cannot be reproduced from its manifest."""


class GroundTruthError(WeftError, exit_code=2):
    """A file of queries and right answers for an evaluation is wrong."""


def not_installed(error: ImportError, extra: str) -> SettingsError:
    """The fault for a package that the extra named like the model would have brought."""
    return SettingsError(
        f"{error.name} is not installed: `pip install 'weft[{extra}]'` brings what {extra} needs"
    )
