"""Memberships and threads, which need the messages of all partitions."""

from collections import Counter
from datetime import timedelta
from typing import NamedTuple

import ibis
import polars as pl
import pyarrow as pa

from transforms.hashing import text_hash
from transforms.mail.headers import patch_subjects
from transforms.mail.rows import SYNTHETIC_DOMAIN
from transforms.schemas.relations import MEMBERSHIPS, THREAD_TREE, THREADS
from transforms.settings.mail import ThreadSettings

_NEVER = 2**63 - 1
"""The time, in microseconds, of a mail without one: after all others."""
_ASIDE = r"\s*\((?:was\b.*|fwd\))\s*$"
"""Additions to a subject that are not part of it: `(was: the old one)`, `(fwd)`."""


class ThreadTables(NamedTuple):
    """The tables `threads` and `thread_tree`."""

    threads: pa.Table
    tree: pa.Table


def memberships(messages: ibis.Table) -> ibis.Table:
    """The `memberships` table of the stored `messages` of all partitions.

    Copies of one mail (equal Message-ID and text) are one mail with several memberships. The
    fullest is canonical: the first by source and partition that has all parts which a copy has. Two
    copies that each have a part that the other lacks are different mails, and a copy with parts
    that several of them have belongs to the fullest. Another content under a Message-ID that is
    taken gets the id with its content hash behind it, the earliest content keeping the plain id. A
    mail with labels is in the lists `source/label`, too; in place of the file that it is in, if
    that is a folder `source/file`.
    """
    synthetic = messages.text_hash + f"@{SYNTHETIC_DOMAIN}"
    plain = messages.mutate(plain_id=ibis.coalesce(messages.header_message_id, synthetic))
    fullest = _fullest(plain)
    joined = plain.left_join(fullest, ["plain_id", "content_hash"]).mutate(
        full_hash=ibis.coalesce(fullest.full_hash, plain.content_hash)
    )
    of_id = ibis.window(
        group_by="plain_id", order_by=[joined.effective_at.asc(nulls_first=False), joined.full_hash]
    )
    rows = joined.select(
        "source",
        "partition",
        "list_id",
        "labels",
        stored_message_id=joined.message_id,
        is_lesser=joined.content_hash != joined.full_hash,
        message_id=ibis.ifelse(
            joined.full_hash == joined.full_hash.first().over(of_id),
            joined.plain_id,
            joined.plain_id + "+" + joined.full_hash.left(8),
        ),
    )
    best_first = ["is_lesser", "source", "partition", "stored_message_id"]
    labels = rows.labels.map(lambda label: rows.source + "/" + label)
    is_file = rows.list_id.startswith(rows.source + "/") & (labels.length() > 0)
    own = ibis.array([rows.list_id])
    listed = rows.mutate(
        archive=rows.list_id, list_id=ibis.ifelse(is_file, labels, own.concat(labels)).unnest()
    )
    of_mail = ibis.window(
        group_by="message_id", order_by=[*best_first, listed.list_id != listed.archive, "list_id"]
    )
    of_list = ibis.window(
        group_by=["message_id", "source", "partition", "list_id"], order_by=best_first
    )
    return (
        listed.mutate(
            is_canonical=ibis.row_number().over(of_mail) == 0,
            rank_in_list=ibis.row_number().over(of_list),
        )
        # Two stored mails may be lesser copies of one mail elsewhere; one membership is enough.
        .filter(lambda t: t.rank_in_list == 0)
        .select(MEMBERSHIPS.names)
        .order_by("message_id", "source", "partition", "list_id")
    )


def _fullest(mails: ibis.Table) -> ibis.Table:
    """The hash of the fullest copy of each mail that comes with different parts (plain_id,
    content_hash).
    """
    key = ["plain_id", "text_hash"]
    contents = mails.select(*key, "content_hash", "part_hashes").distinct(
        on=["plain_id", "content_hash"], keep="first"
    )
    several = (
        contents.group_by(key).aggregate(copies=contents.count()).filter(lambda t: t.copies > 1)
    )
    copies = contents.semi_join(several, key)
    others = copies.select(
        *key,
        full_hash=copies.content_hash,
        full_parts=copies.part_hashes,
        part_count=copies.part_hashes.length(),
    )
    pairs = copies.inner_join(others, key).filter(
        lambda t: t.part_hashes.intersect(t.full_parts).length() == t.part_hashes.length()
    )
    best = ibis.window(
        group_by=["plain_id", "content_hash"], order_by=[ibis.desc("part_count"), "full_hash"]
    )
    return (
        pairs.mutate(rank=ibis.row_number().over(best))
        .filter(lambda t: t.rank == 0)
        .select("plain_id", "content_hash", "full_hash")
    )


def canonical(
    stored: ibis.Table, memberships: ibis.Table, id_column: str = "message_id"
) -> ibis.Table:
    """The rows of a stored table (with `source`, `partition` and an id) that are published, ids
    final.
    """
    published = memberships.filter(memberships.is_canonical).select(
        "stored_message_id",
        published_id="message_id",
        canonical_source="source",
        canonical_partition="partition",
    )
    # A view, since Ibis takes a join of a join for one chain, which knows no computed columns.
    joined = stored.view().join(
        published,
        [
            ("source", "canonical_source"),
            ("partition", "canonical_partition"),
            (id_column, "stored_message_id"),
        ],
    )
    return joined.mutate(**{id_column: lambda t: t.published_id}).select(stored.columns)


_OF_MAIL = ["message_id", "in_reply_to", "refs", "subject", "effective_at"]


def build_threads(messages: pa.Table, lists: pa.Table, settings: ThreadSettings) -> ThreadTables:
    """The tables `threads` and `thread_tree` of mails that are each present once.

    `messages` needs the columns message_id, in_reply_to, refs, subject, effective_at;
    `lists` has a row (message_id, list_id) for each list a mail was found in. A mail answers the id
    in its In-Reply-To, else the last of its References that is known, else the last one (after RFC
    5322 3.6.4 and Zawinski's threading algorithm). A reply that names no mail answers the latest
    earlier one of its list with its subject, if that is at most `subject_days` old. Ids that no
    archive holds are ghosts, placed by the References of the mails that name them. The result does
    not depend on the order of the rows, and has no loops.
    """
    ordered = messages.select(_OF_MAIL).sort_by([("message_id", "ascending")])
    ids = ordered.column("message_id").to_pylist()
    at = ordered.column("effective_at").cast(pa.int64()).fill_null(_NEVER).to_pylist()
    times = dict(zip(ids, at, strict=True))
    references = ordered.column("refs").to_pylist()
    parents, methods = _parents(ids, ordered.column("in_reply_to").to_pylist(), references, times)
    has_no_parent = pl.Series([methods[i] == "root" for i in ids], dtype=pl.Boolean)
    for reply, answered in answered_by_subject(ordered, lists, has_no_parent, settings).items():
        parents[reply], methods[reply] = answered, "subject"
    _break_loops(parents, methods, times)
    tree = _tree(_above_mails(parents, times), methods, times)
    thread_ids = _named_threads(tree, dict(zip(ids, references, strict=True)), times)
    return ThreadTables(_threads(thread_ids, ordered), thread_ids)


def answered_by_subject(
    mails: pa.Table, lists: pa.Table, has_no_parent: pl.Series, settings: ThreadSettings
) -> dict[str, str]:
    """For each reply whose headers name no mail, the mail of its subject that it most likely
    answers.

    `mails` needs message_id, subject and effective_at; `has_no_parent` says of each whether its
    headers name none. The version and the part of a patch mail must agree too, if any earlier mail
    has them.
    """
    if not settings.subject_days:
        return {}
    frame = pl.DataFrame(mails.select(["message_id", "subject", "effective_at"]))
    list_ids = pl.DataFrame(lists.select(["message_id", "list_id"])).unique().drop_nulls()
    subject_columns = patch_subjects(frame["subject"])
    frame = frame.with_columns(
        subject_columns.select("is_reply", pl.col("version", "part").fill_null(-1)),
        key=subject_columns["title"].str.replace(_ASIDE, "").str.replace_all(r"\s+", ""),
        has_no_parent=has_no_parent,
    )
    titled = frame.filter(pl.col("key").str.contains(r"[\p{L}\p{N}]")).drop_nulls("effective_at")
    keys = titled.filter(pl.col("is_reply") & pl.col("has_no_parent")).select("key")
    titled = titled.join(keys, on="key", how="semi")
    earlier = titled.join(list_ids, on="message_id").sort("effective_at", "message_id")
    orphans = earlier.filter(pl.col("is_reply") & pl.col("has_no_parent"))
    matches = [
        orphans.join_asof(
            earlier.select("effective_at", *by, answered="message_id", answered_at="effective_at"),
            on="effective_at",
            by=by,
            allow_exact_matches=False,
            tolerance=timedelta(days=settings.subject_days),
            check_sortedness=False,
        ).select("message_id", "answered", "answered_at", precision=pl.lit(len(by)))
        for by in (["list_id", "key", "version", "part"], ["list_id", "key"])
    ]
    best = (
        pl.concat(matches)
        .drop_nulls("answered")
        .sort(
            "message_id",
            "precision",
            "answered_at",
            "answered",
            descending=[False, True, True, False],
        )
        .unique("message_id", keep="first", maintain_order=True)
    )
    return dict(zip(best["message_id"].to_list(), best["answered"].to_list(), strict=True))


def _parents(
    ids: list[str], replies: list[str | None], references: list[list[str]], times: dict[str, int]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Parent of every mail and ghost, and the method that determined it."""
    parents: dict[str, str | None] = {}
    methods: dict[str, str] = {}
    votes: dict[str, Counter[str]] = {}
    for message_id, reply, refs in zip(ids, replies, references, strict=True):
        chain = [r for r in refs if r not in (message_id, reply)]
        if reply and reply != message_id:
            parent, method = reply, "in_reply_to"
            chain.append(reply)
        elif chain:
            parent = next((r for r in reversed(chain) if r in times), chain[-1])
            method = "references"
            chain = chain[: chain.index(parent) + 1]
        else:
            parents[message_id], methods[message_id] = None, "root"
            continue
        parents[message_id], methods[message_id] = parent, method
        for above, below in zip([None, *chain], chain, strict=False):
            if below not in times:
                if above is not None:
                    votes.setdefault(below, Counter())[above] += 1
                parents.setdefault(below, None)
                methods[below] = "inferred"
    for ghost, counts in votes.items():
        parents[ghost] = min(counts, key=lambda above: (-counts[above], above))
    return parents, methods


def _break_loops(
    parents: dict[str, str | None], methods: dict[str, str], times: dict[str, int]
) -> None:
    """Cut every loop at a link by subject, else at its earliest mail, which becomes a root."""
    done: set[str] = set()
    for start in parents:
        path: list[str] = []
        on_path: dict[str, int] = {}
        node: str | None = start
        while node is not None and node not in done:
            if node in on_path:
                loop = path[on_path[node] :]
                parents[
                    min(loop, key=lambda n: (methods[n] != "subject", times.get(n, _NEVER), n))
                ] = None
                break
            on_path[node] = len(path)
            path.append(node)
            node = parents[node]
        done.update(path)


def _above_mails(parents: dict[str, str | None], times: dict[str, int]) -> dict[str, str | None]:
    """`parents` without the ghosts that have no mail below them."""
    retained: dict[str, str | None] = {}
    for node in parents:
        above: str | None = node if node in times else None
        while above is not None and above not in retained:
            retained[above] = parents[above]
            above = parents[above]
    return retained


def _tree(
    parents: dict[str, str | None], methods: dict[str, str], times: dict[str, int]
) -> pa.Table:
    """The `thread_tree` table with roots for thread ids: threads read depth first, siblings by
    time, then id.
    """
    children: dict[str, list[str]] = {}
    for node, parent in parents.items():
        if parent is not None:
            children.setdefault(parent, []).append(node)

    rows: list[tuple[str, str, str | None, int, int, str, bool]] = []
    for root in (n for n, parent in parents.items() if parent is None):
        position = 0
        stack = [(root, 0)]
        while stack:
            node, depth = stack.pop()
            method = "root" if depth == 0 and node in times else methods[node]
            rows.append((node, root, parents[node], depth, position, method, node not in times))
            position += 1
            below = sorted(
                children.get(node, ()), key=lambda n: (times.get(n, _NEVER), n), reverse=True
            )
            stack.extend((child, depth + 1) for child in below)
    columns = list(zip(*rows, strict=True)) or [()] * len(THREAD_TREE.names)
    table = pa.table(dict(zip(THREAD_TREE.names, columns, strict=True)), schema=THREAD_TREE.arrow)
    return table.sort_by([("message_id", "ascending")])


def _named_threads(
    tree: pa.Table, references: dict[str, list[str]], times: dict[str, int]
) -> pa.Table:
    """`tree` with the final thread ids in place of the roots.

    A thread is named after the oldest mail that its earliest mail refers to and that is in the
    thread, else after that earliest mail. Mails that arrive later and are later do not change the
    earliest one, whatever they say of roots and parents; so a thread keeps its id while it grows,
    and of threads that merge the one with the earliest mail gives its id to all. Only a mail from
    before the earliest one can rename a thread, and does not if it is the one the name was taken
    from: the missing root that comes late.
    """
    nodes = tree.column("message_id").to_pylist()
    roots = tree.column("thread_id").to_pylist()
    root_of = dict(zip(nodes, roots, strict=True))
    earliest: dict[str, str] = {}
    for node, root in zip(nodes, roots, strict=True):
        if node in times:
            first = earliest.setdefault(root, node)
            if (times[node], node) < (times[first], first):
                earliest[root] = node
    above = dict(zip(nodes, tree.column("parent_id").to_pylist(), strict=True))
    ids = {}
    for root, first in earliest.items():
        chain = [*references[first], above[first], first]
        ids[root] = text_hash(next(m for m in chain if m is not None and root_of.get(m) == root))
    column = tree.column_names.index("thread_id")
    root_ids = pa.array([ids[root] for root in roots], pa.string())
    return tree.set_column(column, tree.schema.field("thread_id"), root_ids)


def _threads(tree: pa.Table, messages: pa.Table) -> pa.Table:
    """The `threads` table: one row per thread with its counts and times."""
    nodes = pl.DataFrame(tree)
    mails = pl.DataFrame(messages.select(["message_id", "subject", "effective_at"]))
    roots = nodes.filter(pl.col("depth") == 0).select("thread_id", root_id="message_id")
    counts = (
        nodes.join(mails, on="message_id", how="left")
        .sort("effective_at", "message_id", nulls_last=True)
        .group_by("thread_id")
        .agg(
            subject=pl.col("subject").drop_nulls().first().fill_null(""),
            message_count=(~pl.col("is_ghost")).sum().cast(pl.Int64),
            ghost_count=pl.col("is_ghost").sum().cast(pl.Int64),
            first_at=pl.col("effective_at").min(),
            last_at=pl.col("effective_at").max(),
        )
    )
    table = counts.join(roots, on="thread_id").select(THREADS.names).sort("thread_id")
    return THREADS.conform(table.to_arrow())
