"""Messages to memberships and threads: what only the whole lake can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import ibis
import polars as pl
import pyarrow as pa

from transforms import schemas
from transforms.hashing import text_hash

VERSION = "2"
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


class ThreadTables(NamedTuple):
    """The tables `threads` and `thread_tree`."""

    threads: pa.Table
    tree: pa.Table


def memberships(messages: ibis.Table) -> ibis.Table:
    """The `memberships` table of the stored `messages` of all partitions.

    Copies of one mail (equal Message-ID and content) are one mail with several memberships; the
    first by source and unit is canonical. Another content under a Message-ID that is taken gets
    the id with its content hash behind it, the earliest content keeping the plain id.
    """
    mark = "+" + messages.content_hash.left(8)
    told_apart = messages.message_id == messages.header_message_id + mark
    plain = messages.mutate(
        plain_id=ibis.ifelse(told_apart, messages.header_message_id, messages.message_id), marked=mark
    )
    of_id = ibis.window(
        group_by="plain_id", order_by=[plain.effective_at.asc(nulls_first=False), plain.content_hash]
    )
    named = plain.select(
        "source",
        "unit",
        "list_id",
        stored_message_id=plain.message_id,
        message_id=ibis.ifelse(
            plain.content_hash == plain.content_hash.first().over(of_id),
            plain.plain_id,
            plain.plain_id + plain.marked,
        ),
    )
    of_mail = ibis.window(group_by="message_id", order_by=["source", "unit", "stored_message_id"])
    return (
        named.mutate(is_canonical=ibis.row_number().over(of_mail) == 0)
        .select(schemas.MEMBERSHIPS.names)
        .order_by("message_id", "source", "unit")
    )


def canonical(stored: ibis.Table, memberships: ibis.Table, id_column: str = "message_id") -> ibis.Table:
    """The rows of a stored table (with `source`, `unit` and an id) that are published, ids final."""
    kept = memberships.filter(memberships.is_canonical).select(
        "stored_message_id", published_id="message_id", kept_source="source", kept_unit="unit"
    )
    joined = stored.join(
        kept,
        [
            stored.source == kept.kept_source,
            stored.unit == kept.kept_unit,
            stored[id_column] == kept.stored_message_id,
        ],
    )
    return joined.mutate(**{id_column: lambda t: t.published_id}).select(stored.columns)


def build_threads(messages: pa.Table) -> ThreadTables:
    """The tables `threads` and `thread_tree` of mails that are each present once.

    Needs the columns message_id, in_reply_to, refs, subject, from_addr, effective_at. A mail
    answers the id in its In-Reply-To, else the last of its References that is known, else the
    last one (after RFC 5322 3.6.4 and Zawinski's threading algorithm). Ids that no archive holds
    are ghosts, placed by the References of the mails that name them. The result does not depend
    on the order of the rows, and has no loops.
    """
    ordered = messages.sort_by([("message_id", "ascending")])
    ids = ordered.column("message_id").to_pylist()
    known = dict(
        zip(
            ids,
            (t or _NEVER for t in ordered.column("effective_at").to_pylist()),
            strict=True,
        )
    )
    parents, methods = _parents(
        ids, ordered.column("in_reply_to").to_pylist(), ordered.column("refs").to_pylist(), known
    )
    _break_loops(parents, known)
    tree = _tree(_above_mails(parents, known), methods, known)
    return ThreadTables(_threads(tree, ordered), tree)


def _parents(
    ids: list[str], replies: list[str | None], references: list[list[str]], known: dict[str, datetime]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Parent of every mail and ghost, and how it was found."""
    parents: dict[str, str | None] = {}
    methods: dict[str, str] = {}
    votes: dict[str, Counter[str]] = {}
    for message_id, reply, refs in zip(ids, replies, references, strict=True):
        chain = [r for r in refs if r not in (message_id, reply)]
        if reply and reply != message_id:
            parent, method = reply, "in_reply_to"
            chain.append(reply)
        elif chain:
            parent = next((r for r in reversed(chain) if r in known), chain[-1])
            method = "references"
            chain = chain[: chain.index(parent) + 1]
        else:
            parents[message_id], methods[message_id] = None, "root"
            continue
        parents[message_id], methods[message_id] = parent, method
        for above, below in zip([None, *chain], chain, strict=False):
            if below not in known:
                if above is not None:
                    votes.setdefault(below, Counter())[above] += 1
                parents.setdefault(below, None)
                methods[below] = "inferred"
    for ghost, counts in votes.items():
        parents[ghost] = min(counts, key=lambda above: (-counts[above], above))
    return parents, methods


def _break_loops(parents: dict[str, str | None], known: dict[str, datetime]) -> None:
    """Cut every loop at its earliest mail, which becomes a root."""
    done: set[str] = set()
    for start in sorted(parents):
        path: list[str] = []
        on_path: dict[str, int] = {}
        node: str | None = start
        while node is not None and node not in done:
            if node in on_path:
                loop = path[on_path[node] :]
                parents[min(loop, key=lambda n: (known.get(n, _NEVER), n))] = None
                break
            on_path[node] = len(path)
            path.append(node)
            node = parents[node]
        done.update(path)


def _above_mails(parents: dict[str, str | None], known: dict[str, datetime]) -> dict[str, str | None]:
    """`parents` without the ghosts that no mail stands below."""
    kept: dict[str, str | None] = {}
    for node in parents:
        above: str | None = node if node in known else None
        while above is not None and above not in kept:
            kept[above] = parents[above]
            above = parents[above]
    return kept


def _tree(parents: dict[str, str | None], methods: dict[str, str], known: dict[str, datetime]) -> pa.Table:
    """The `thread_tree` table: each thread read depth first, siblings by time, then id."""
    children: dict[str, list[str]] = {}
    for node, parent in parents.items():
        if parent is not None:
            children.setdefault(parent, []).append(node)

    def order(nodes: Iterable[str]) -> list[str]:
        return sorted(nodes, key=lambda n: (known.get(n, _NEVER), n), reverse=True)

    columns: dict[str, list[object]] = {name: [] for name in schemas.THREAD_TREE.names}
    for root in sorted(n for n, parent in parents.items() if parent is None):
        thread_id, position = text_hash(root), 0
        stack = [(root, 0)]
        while stack:
            node, depth = stack.pop()
            method = "root" if depth == 0 and node in known else methods[node]
            row = (node, thread_id, parents[node], depth, position, method, node not in known)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            position += 1
            stack.extend((child, depth + 1) for child in order(children.get(node, ())))
    table = pa.table(columns, schema=schemas.THREAD_TREE.arrow)
    return table.sort_by([("message_id", "ascending")])


def _threads(tree: pa.Table, messages: pa.Table) -> pa.Table:
    """The `threads` table: one row per thread with its counts and times."""
    nodes = pl.from_arrow(tree)
    mails = pl.from_arrow(messages.select(["message_id", "subject", "from_addr", "effective_at"]))
    assert isinstance(nodes, pl.DataFrame) and isinstance(mails, pl.DataFrame)
    roots = nodes.filter(pl.col("depth") == 0).select("thread_id", root_id="message_id")
    counted = (
        nodes.join(mails, on="message_id", how="left")
        .sort("effective_at", "message_id", nulls_last=True)
        .group_by("thread_id")
        .agg(
            subject=pl.col("subject").drop_nulls().first().fill_null(""),
            message_count=(~pl.col("is_ghost")).sum().cast(pl.Int64),
            ghost_count=pl.col("is_ghost").sum().cast(pl.Int64),
            participant_count=pl.col("from_addr").drop_nulls().n_unique().cast(pl.Int64),
            first_at=pl.col("effective_at").min(),
            last_at=pl.col("effective_at").max(),
        )
    )
    table = counted.join(roots, on="thread_id").select(schemas.THREADS.names).sort("thread_id")
    return schemas.THREADS.conform(table.to_arrow())
