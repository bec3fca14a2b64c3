"""Forgetting a mail, a person's mails, a document, a chat or a source: the work behind `weft
forget`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg
import polars as pl

from dagster_project.composition.objects import make_lake, make_sources
from dagster_project.config.settings import Settings
from dagster_project.lake.forgotten import Forgotten, Kind
from dagster_project.lake.lake import ParquetLake
from dagster_project.orchestration.build import Tell, build
from dagster_project.orchestration.outcomes import BuildResult
from dagster_project.system.locks import only_build
from transforms.errors import SourceError, UnknownIdError, shortened

PIECE_BYTES = 20
"""A line of a forgotten mail that is as long, with a mark of quotes before it in another mail, is
reported.
"""
_LINE_START = 40
"""Characters of a line that are compared: programs break their quotes."""
_MOST_LINES = 5_000
_MESSAGES = ("message_id", "header_message_id", "from_addr", "body")


@dataclass(frozen=True)
class Target:
    """The target of `weft forget`: names by kind, the rows of the lake that they name, their
    partitions, their lines.

    A person is named by all their addresses. `quoted_by` are the Message-IDs of mails of others
    that quote a line.
    """

    names: tuple[tuple[Kind, str], ...]
    mails: int = 0
    documents: int = 0
    windows: int = 0
    partitions: tuple[str, ...] = ()
    quoted_by: tuple[str, ...] = ()
    lines: frozenset[str] = field(default=frozenset(), repr=False)

    def as_json(self) -> dict[str, Any]:
        """Its part of the output of `weft forget --json`, without lines."""
        return {k: v for k, v in asdict(self).items() if k != "lines"}


def find(settings: Settings, names: Sequence[str]) -> Target:
    """The rows of the lake that the names mean: Message-IDs, addresses, documents, chats or their
    windows, sources.

    UnknownIdError for a name that means nothing; SourceError if a source that holds a part of it
    cannot be read: without it no build can make its partitions.
    """
    lake = make_lake(settings)
    targets = [_target(settings, lake, name) for name in names]
    partitions = {partition for target in targets for partition in target.partitions}
    sources = make_sources(settings)
    sources.discover()
    for source in sorted(
        {partition.partition("/")[0] for partition in partitions} & sources.broken.keys()
    ):
        raise SourceError(f"{sources.broken[source]}; nothing is forgotten before it can be read")
    kinds = tuple(dict.fromkeys(name for target in targets for name in target.names))
    lines = frozenset(line for target in targets for line in target.lines)
    return Target(
        kinds,
        mails=sum(target.mails for target in targets),
        documents=sum(target.documents for target in targets),
        windows=sum(target.windows for target in targets),
        partitions=tuple(sorted(partitions)),
        quoted_by=tuple(_quoting(lake, kinds, lines)),
        lines=lines,
    )


def forget(
    settings: Settings,
    instance: dg.DagsterInstance,
    target: Target,
    tell: Tell = lambda stage, partition, rows: None,
) -> BuildResult:
    """Note the target, and build without it; `erased` of the result counts erasures beside the
    rows.

    Whatever ends this before it is done, the next build or `forget` finishes it. Raises as `build`
    does.
    """
    with only_build(settings.root, settings.lake_uri):
        Forgotten(make_lake(settings).base).begin(target.names)
    return build(settings, instance, fetch=False, tell=tell)


def _partition_of_document(lake: ParquetLake, name: str) -> str | None:
    for partition in lake.partitions("documents"):
        rows = lake.intact("documents", ["doc_id"], partition)
        if rows and name in rows.column("doc_id").to_pylist():
            return partition
    return None


def _target(settings: Settings, lake: ParquetLake, name: str) -> Target:
    """The target that one name means; a source before a mail, a mail before a document, and an
    address last.
    """
    partitions = {
        p for table in ("messages", "documents", "conversations") for p in lake.partitions(table)
    }
    own = {p for p in partitions if p.partition("/")[0] == name}
    if own or name in {source.name for source in settings.sources}:
        return _of_source(lake, name, sorted(own))
    ident = name.strip("<>")
    if mails := _mails(lake, pl.any_horizontal(pl.col("message_id", "header_message_id") == ident)):
        return _of_mails(mails, [("mail", ident) for ident in _ids(mails)])
    if partition := _partition_of_document(lake, name):
        return Target((("document", name),), documents=1, partitions=(partition,))
    if windows := list(_windows(lake, name)):
        return Target(
            tuple(("partition", p) for p in windows), windows=len(windows), partitions=(*windows,)
        )
    addresses = _addresses(lake, name.lower())
    if mails := _mails(lake, pl.col("from_addr").is_in(addresses)):
        return _of_mails(mails, [("address", addr) for addr in addresses])
    raise UnknownIdError(
        f"the lake holds no mail, author, document, chat or source called {shortened(name)!r}. `weft forget` "
        "without a name erases texts that sources no longer hold from older versions, caches and history"
    )


def _ids(mails: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The ids of mails as their headers have them, or as the lake names those without."""
    rows = (row for own in mails.values() for row in own)
    return sorted({row["header_message_id"] or row["message_id"] for row in rows})


def _of_source(lake: ParquetLake, name: str, partitions: list[str]) -> Target:
    of_mail = [p for p in partitions if lake.is_stored("messages", p)]
    mails = _of_mails(_mails(lake, pl.lit(True), of_mail), [])
    documents = sum(footer.row_count for p in partitions if (footer := lake.footer("documents", p)))
    windows = len(set(partitions) & set(lake.partitions("conversations")))
    return Target(
        (("source", name),), mails.mails, documents, windows, (*partitions,), lines=mails.lines
    )


def _of_mails(mails: dict[str, list[dict[str, Any]]], names: list[tuple[Kind, str]]) -> Target:
    rows = [row for part in mails.values() for row in part]
    own = (
        line.strip()
        for row in rows
        for line in row["body"].splitlines()
        if not line.startswith(">")
    )
    lines = frozenset(line[:_LINE_START] for line in own if len(line.encode()) >= PIECE_BYTES)
    return Target(tuple(names), len(rows), partitions=tuple(sorted(mails)), lines=lines)


def _mails(
    lake: ParquetLake, condition: pl.Expr, partitions: Sequence[str] | None = None
) -> dict[str, list[dict[str, Any]]]:
    mails = {}
    for partition in lake.partitions("messages") if partitions is None else partitions:
        if (rows := lake.intact("messages", _MESSAGES, partition)) and (
            matches := pl.DataFrame(rows).filter(condition).to_dicts()
        ):
            mails[partition] = matches
    return mails


def _windows(lake: ParquetLake, name: str) -> Iterator[str]:
    for partition in lake.partitions("conversations"):
        rows = lake.intact("conversations", ["conversation_id", "doc_id"], partition)
        if rows and any(
            name in rows.column(column).unique().to_pylist() for column in rows.column_names
        ):
            yield partition


def _addresses(lake: ParquetLake, addr: str) -> list[str]:
    """All addresses of the person behind an address; of one that many people share, that alone."""
    people = lake.intact("people", ["person_id", "addr", "is_shared"])
    rows = people.to_pylist() if people else []
    person = next(
        (row["person_id"] for row in rows if row["addr"] == addr and not row["is_shared"]), None
    )
    return sorted(
        {addr} | {r["addr"] for r in rows if r["person_id"] == person and not r["is_shared"]}
    )


def _quoting(
    lake: ParquetLake, names: Sequence[tuple[Kind, str]], lines: frozenset[str]
) -> list[str]:
    """The Message-IDs of the mails that stay and quote one of the lines, sorted."""
    marked = [f">{blank}{line}" for line in sorted(lines)[:_MOST_LINES] for blank in ("", " ")]
    own = {kind: {name for k, name in names if k == kind} for kind in ("mail", "address", "source")}
    quoting: set[str] = set()
    for partition in lake.partitions("messages") if marked else ():
        if partition.partition("/")[0] in own["source"]:
            continue
        rows = lake.intact("messages", _MESSAGES, partition)
        if rows is None:
            continue
        quotes = pl.DataFrame(rows).filter(
            pl.col("body").str.contains_any(marked),
            ~pl.col("message_id").is_in(own["mail"]),
            ~pl.col("header_message_id").fill_null("").is_in(own["mail"]),
            ~pl.col("from_addr").fill_null("").is_in(own["address"]),
        )
        quoting |= set(quotes["message_id"])
    return sorted(quoting)
