"""Measures of the mail of each list, which follow what is published: they read the text of the whole lake."""

from collections.abc import Mapping

import ibis

from assets.protocols.lake import Footer, Lake
from assets.stages.declaration import Made, Stage
from transforms.mail.threads import corpus_measures as measures
from transforms.schemas.operations import CORPUS_MEASURES

_INPUTS = (
    *("messages", "memberships", "message_blocks", "message_chunks", "attachments", "thread_tree"),
    "chunk_context",
)
_ALWAYS = 5_000
"""Mails up to which they are made after each publish, in a second."""
_DRIFT = 0.05
"""Share of a list's mails, and of all chunks, that may come or go before they are made again."""


def measures_stage() -> Stage:
    """The stage of the measures of each list."""
    return Stage(
        "corpus_measures",
        {"corpus_measures": CORPUS_MEASURES},
        _corpus_measures,
        measures.VERSION,
        "Counts quotes, duplicates, parents, defects and kinds of discussion in each list. Of more than "
        f"{_ALWAYS:,} mails it counts again when {_DRIFT:.0%} of a list's mails came or went, or the code changed.",
        inputs=_INPUTS,
        deps=("slow_chunks", "search_index"),
        resources=("lake",),
        code=measures.measures_of_lake,
    )


def _corpus_measures(*tables: ibis.Table, lake: Lake) -> Made:
    """The measures, which Dagster draws over time: the stored ones while they are near enough."""
    read = measures.LakeTables(*tables)
    inputs = _inputs(read, lake)
    before = lake.footer("corpus_measures")
    if before and before.code_version == measures.VERSION and _are_near(before.inputs, inputs):
        stored = lake.stored("corpus_measures", CORPUS_MEASURES.names)
        if stored is not None:
            return Made([stored], measures.as_metadata(stored), before.inputs)
    measured = measures.measures_of_lake(read)
    return Made([measured], measures.as_metadata(measured), inputs)


def _inputs(tables: measures.LakeTables, lake: Lake) -> dict[str, str]:
    """How many mails each list and how many chunks the lake has, and the versions of the code that made them."""
    mails = tables.memberships.filter(tables.memberships.is_canonical)
    counts = mails.group_by("list_id").agg(mails=mails.count()).to_pyarrow().to_pylist()
    footers = {table: lake.footer(table) for table in _INPUTS}
    return {
        **{f"mails of {row['list_id'] or ''}": str(row["mails"]) for row in counts},
        "chunks": str(tables.chunks.count().to_pyarrow().as_py()),
        **{f"code of {table}": _code(footer, lake, table) for table, footer in footers.items()},
    }


def _code(footer: Footer | None, lake: Lake, table: str) -> str:
    return footer.code_version if footer else " ".join(lake.code_versions(table))


def _are_near(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """True if measures of `before` say what those of `now` would, but for a little."""
    counts = {
        name: (int(before.get(name, 0)), int(now[name])) for name in now if not name.startswith("code ")
    }
    return (
        before.keys() == now.keys()
        and all(before[name] == now[name] for name in now.keys() - counts.keys())
        and sum(new for name, (_, new) in counts.items() if name != "chunks") > _ALWAYS
        and all(abs(new - old) <= _DRIFT * old for old, new in counts.values())
    )
