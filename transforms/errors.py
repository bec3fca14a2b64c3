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


def unread_because(fault: BaseException) -> str:
    """The reason of a row of `quarantine` for a file that its reader fails on with a fault of its
    own.
    """
    return f"unreadable: {type(fault).__name__}: {shortened(' '.join(str(fault).split()))}"


class WeftError(Exception):
    """Base of every fault that Weft explains to its user."""

    exit_code = 1
    remedy = "report it, with the message"
    """The remedy for faults of this kind; the message has the one of the case."""
    step: str | None = None
    """The failed step, if a run failed."""
    run_id: str | None = None
    """The failed Dagster run, if one failed."""

    def __init_subclass__(cls, exit_code: int | None = None, remedy: str = "") -> None:
        cls.exit_code = exit_code or cls.exit_code
        cls.remedy = remedy or cls.remedy


class SettingsError(
    WeftError, exit_code=2, remedy="correct the settings file; `weft doctor` checks it"
):
    """The settings file is missing or says something Weft does not understand."""


class LensError(SettingsError, remedy="correct the conditions of the lens in [lenses]"):
    """A lens cannot be applied to a version; the message names only things that the lens itself
    names.
    """


class SchemaError(WeftError, remedy="build again with the version of Weft that is installed"):
    """A table does not have the columns its declaration gives it."""


class LakeDamageError(WeftError, remedy="build with `--verify`, which rebuilds damaged files"):
    """A file of the lake holds other bytes than were written into it."""


class SetAsideError(WeftError, remedy="build again: all others are made"):
    """A stage over the whole lake failed on mails or documents, which are in quarantine from now on."""


class SourceError(
    WeftError, exit_code=4, remedy="repair the source or its entry in [[sources]], and build again"
):
    """A configured source cannot be read at all."""


class ReceiptError(
    WeftError,
    exit_code=5,
    remedy="see `weft mcp receipts`; move the receipts away to begin new ones",
):
    """The receipts of disclosures cannot be continued, or are not as they were written."""


class DisclosureLimitError(WeftError, exit_code=3, remedy="ask for less, or begin another session"):
    """An answer would show more than the lens shows in one session; nothing of it was shown."""


class FetchError(
    WeftError,
    exit_code=10,
    remedy="repair the remote or its entry in [sources.fetch], and build again",
):
    """A remote cannot be fetched, and will not be until something is repaired; earlier results are
    kept.
    """


class LoginRefusedError(FetchError, remedy="check the login of the remote"):
    """A remote takes no login as this one; `reason` is the fault without the `remedy` behind it."""

    def __init__(self, reason: str, remedy: str = ""):
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason


class FetchInterruptedError(FetchError, remedy="fetch again later"):
    """A fetch that may succeed if repeated; `pause` is the wait that the remote asks for, in
    seconds.
    """

    def __init__(self, reason: str, pause: float | None = None):
        super().__init__(reason)
        self.pause = pause


class ChatFormatError(
    WeftError, exit_code=4, remedy="export the chat again in one of the formats of docs/sources.md"
):
    """A chat has no format that Weft reads, or in two at once; begins with a short code."""


class IndexUnavailableError(WeftError, exit_code=5, remedy="build the index: `weft build`"):
    """No index is published, or it cannot be opened."""


class ModelMismatchError(
    WeftError, exit_code=6, remedy="build with the model that the settings name"
):
    """A vector or an index belongs to another embedding model than the settings name."""


class EmbeddingError(WeftError, remedy="try again; choose another model if it stays"):
    """An embedder returned an unusable vector."""


class RefusedTextError(
    WeftError, exit_code=9, remedy="leave the texts out, or choose another model"
):
    """A model will not embed some of the texts it got; `reasons` says why, by their place.

    `vectors` has a row for every text; those of the others are paid for and good.
    """

    def __init__(self, message: str, reasons: Mapping[int, str], vectors: np.ndarray):
        super().__init__(message)
        self.reasons, self.vectors = reasons, vectors


class AnswerCacheError(WeftError, remedy="`weft cache verify` says what is damaged"):
    """The file in which answers of services are kept is corrupt or locked."""


class ServiceError(
    WeftError, exit_code=9, remedy="try again later; see the entry of the service in the settings"
):
    """A service on the network refused, failed or did not answer in time; earlier results are kept."""


class UnansweredError(ServiceError):
    """Requests went out without a usable answer: the service may charge for them."""


class BudgetError(WeftError, exit_code=9, remedy="raise the budget, or build fewer texts"):
    """A run would need more tokens of a service than its budget; nothing was requested."""


class CheckFailedError(
    WeftError, exit_code=7, remedy="look at the rows that the message names, then build again"
):
    """A table that would be published breaks a rule; nothing was published."""


class BusyError(WeftError, exit_code=8, remedy="wait until the other build has ended"):
    """Another build of the same storage is running."""


class EngineError(WeftError, remedy="see that the engine runs, and that its machines see the lake"):
    """The engine that makes partitions cannot be reached, gave up, or its machines do not see the
    lake.
    """


class DiskFullError(WeftError, exit_code=11, remedy="make room on the disk, then do it again"):
    """The disk has no room to write; the previous content stays."""


class UnwritableError(
    WeftError, exit_code=12, remedy="give the user of this process the right to write there"
):
    """A folder or file that has to be written cannot be; the published version can be read all the
    same.
    """


class HistoryError(
    WeftError, remedy="move the file of Dagster's history away: a build begins a new one"
):
    """Dagster's history of runs is corrupt, locked or of another version."""


class QueryError(
    WeftError,
    exit_code=2,
    remedy="change the question; docs/search.md describes the query language",
):
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


class QueryInterruptedError(WeftError, remedy="ask for less, or give it more time"):
    """A query was ended from outside before it had an answer."""


class MemoryLimitError(WeftError, remedy="ask for less at once"):
    """A query needs more memory than there is; the index is not corrupt."""


class UnknownIdError(
    WeftError, exit_code=3, remedy="search for it by words; ids are those of hits"
):
    """The published index holds nothing of that id; the message names the nearest."""


class ContextError(WeftError, remedy="make the block again from its text"):
    """A block of context cannot be reproduced from its manifest."""


class GroundTruthError(
    WeftError, exit_code=2, remedy="correct the file of queries; docs/evaluation.md describes it"
):
    """A file of queries and right answers for an evaluation is wrong."""


def not_installed(error: ImportError, extra: str) -> SettingsError:
    """The fault for a package that the extra named like the model would have brought."""
    return SettingsError(
        f"{error.name} is not installed: `pip install 'weft[{extra}]'` brings what {extra} needs"
    )
