"""People: the addresses that evidence in mails says are one person."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from transforms.mail.address_uses import is_full_name, name_key
from transforms.schemas.relations import PEOPLE
from transforms.toml_file import patterns

_MOST_NAMES = 5
"""Names without a word in common under which one person writes; behind an address with more are
several people.
"""
_FEWEST_SIGNED = 3
"""Mails that end with a name which the address does not contain, from which it is the author's."""
_NOBODY, _LIST, _LIST_NAME = (
    patterns(__name__, "patterns.toml")[key] for key in ("nobody", "list", "list_name")
)
_VIA = r"(?i)\s(?:via|über|por|par)\s"
"""A list that writes in an author's name puts its own address: `Ann Lee via Gauges
<gauges@example.org>`.
"""


class Join(NamedTuple):
    """Two addresses of one person, and the evidence."""

    first: str
    second: str
    evidence: str


def people(uses: pa.Table, aliases: Mapping[str, Sequence[str]]) -> pa.Table:
    """The `people` table of the `address_uses` of all partitions and of aliases (addresses by a
    person's name).

    Two addresses are one person if a mail from one names the other beside the author's own full
    name, in a trailer or in the From line of a patch; if the same full name ends mails from both
    with the same signature, which nobody of another name has; or if an alias says so. An equal name
    alone proves nothing, nor does anything that a shared address shows: of a list, of a program, or
    with names of many people.
    """
    frame = pl.DataFrame(uses.select([*uses.schema.names]))
    owner = {addr.lower(): name for name, addrs in aliases.items() for addr in addrs}
    shared = set(_shared(frame)) - owner.keys()
    names = _with_written_names(_names(frame), frame, shared)
    parents: dict[str, str] = {}
    evidence: dict[str, tuple[str, str]] = {}
    by_alias = (
        Join(addrs[0].lower(), a.lower(), "alias") for addrs in aliases.values() for a in addrs[1:]
    )
    for join in (*by_alias, *_named(frame, shared), *_signatures(frame, shared)):
        if _joined(parents, join.first, join.second):
            evidence.setdefault(join.second, (join.evidence, join.first))
            evidence.setdefault(join.first, (join.evidence, join.second))
    addresses = names.join(
        pl.DataFrame({"addr": list(owner)}, schema={"addr": pl.String}),
        on="addr",
        how="full",
        coalesce=True,
    )
    reasons = [evidence.get(addr, ("address", None)) for addr in addresses["addr"]]
    rows = addresses.with_columns(
        group=pl.Series([_root(parents, a) for a in addresses["addr"]], dtype=pl.String),
        evidence=pl.Series([kind for kind, _ in reasons], dtype=pl.String),
        evidence_addr=pl.Series([other for _, other in reasons], dtype=pl.String),
        is_shared=pl.Series([a in shared for a in addresses["addr"]], dtype=pl.Boolean),
        alias=pl.Series([owner.get(a) for a in addresses["addr"]], dtype=pl.String),
        mail_count=pl.col("mail_count").fill_null(0),
        mention_count=pl.col("mention_count").fill_null(0),
    )
    return PEOPLE.conform(
        _identified(rows).select(PEOPLE.names).sort("person_id", "addr").to_arrow()
    )


def _root(parents: dict[str, str], member: str) -> str:
    """The first member of a set; those on the way to it are brought nearer (R. E. Tarjan and J. van
    Leeuwen, 1984).
    """
    while parent := parents.get(member):
        parents[member] = parents.get(parent, parent)
        member = parent
    return member


def _joined(parents: dict[str, str], first: str, second: str) -> bool:
    """Join the sets of two members; False if they are one set already."""
    first, second = _root(parents, first), _root(parents, second)
    if first != second:
        parents[second] = first
    return first != second


def _names(frame: pl.DataFrame) -> pl.DataFrame:
    """Each address with its names, the most used first, and how often and when it wrote or was
    named.
    """
    is_author = pl.col("role") == "from"
    plain = frame.filter(pl.col("role").is_in(["from", "to", "cc", "trailer"]))
    names = (
        plain.filter(pl.col("name") != "")
        .group_by("addr", "name")
        .agg(written=pl.col("mail_count").filter(is_author).sum(), all=pl.col("mail_count").sum())
        .sort("addr", "written", "all", "name", descending=[False, True, True, False])
        .group_by("addr", maintain_order=True)
        .agg(names=pl.col("name"), name=pl.col("name").first())
    )
    counts = plain.group_by("addr").agg(
        mail_count=pl.col("mail_count").filter(is_author).sum(),
        mention_count=pl.col("mail_count").filter(~is_author).sum(),
        first_at=pl.col("first_at").filter(is_author).min(),
        last_at=pl.col("last_at").filter(is_author).max(),
    )
    return counts.join(names, on="addr", how="left").sort("addr")


def _with_written_names(names: pl.DataFrame, frame: pl.DataFrame, shared: set[str]) -> pl.DataFrame:
    """With a name for the addresses without one, from signatures and salutations.

    Texts name other people, too: a name counts if the address contains it ("Kay" for
    kay.mann@example.org, which is "Kay Mann"), or if most of an author's signed mails, at least
    three, end with it.
    """
    nameless = names.filter(pl.col("name").is_null() & ~pl.col("addr").is_in(shared))["addr"]
    written = frame.filter(
        pl.col("role").is_in(["signed", "greeted"]) & pl.col("addr").is_in(nameless.implode())
    )
    counts = written.group_by("addr", "role", "name").agg(pl.col("mail_count").sum())
    share = pl.col("mail_count") * 2 > pl.col("mail_count").sum().over("addr", "role")
    is_own = (pl.col("role") == "signed") & (pl.col("mail_count") >= _FEWEST_SIGNED) & share
    chosen: dict[str, str] = {}
    for addr, name, proven in (
        counts.sort("mail_count", "addr", "role", "name", descending=[True, False, True, False])
        .select("addr", "name", is_own)
        .rows()
    ):
        if (full := _name_in_address(name, addr)) or proven:
            chosen.setdefault(addr, full or name)
    rows = pl.DataFrame(
        {"addr": list(chosen), "written": list(chosen.values())},
        schema={"addr": pl.String, "written": pl.String},
    )
    return (
        names.join(rows, on="addr", how="left", maintain_order="left")
        .with_columns(
            name=pl.coalesce("name", "written"),
            names=pl.when(pl.col("written").is_null())
            .then("names")
            .otherwise(pl.concat_list("written")),
        )
        .drop("written")
    )


def _name_in_address(name: str, addr: str) -> str | None:
    """The name in an address that a text writes in part or whole; None if the address has another.

    >>> _name_in_address("Kay", "kay.mann@example.org")
    'Kay Mann'
    >>> _name_in_address("Kay Mann", "kmann@example.org")
    'Kay Mann'
    """
    parts = [part for part in re.split(r"[^a-z]+", addr.partition("@")[0]) if part]
    words = [word for word in name.lower().split() if len(word) > 2]
    if len(words) == 1 and words[0] in parts and all(len(part) > 1 for part in parts):
        return " ".join(part.capitalize() for part in parts)
    fits = any(part.startswith(word) or part.endswith(word) for part in parts for word in words)
    return name if fits else None


def _shared(frame: pl.DataFrame) -> Iterator[str]:
    """Addresses behind which no single person is."""
    yield from frame.filter(pl.col("addr").str.contains(_NOBODY))["addr"].unique()
    is_list = pl.col("addr").str.contains(_LIST) | pl.col("name").str.contains(_LIST_NAME)
    writers = frame.filter(pl.col("role") == "from").select("addr")
    # The owner of `ann.mbox` has the name of a list, too, and anybody can name a person in a
    # List-Id; but people write.
    lists = frame.filter(is_list | (pl.col("role") == "list")).join(writers, on="addr", how="anti")
    yield from lists["addr"].unique()
    authors = frame.filter((pl.col("role") == "from") & (pl.col("name") != ""))
    yield from authors.filter(pl.col("name").str.contains(_VIA))["addr"].unique()
    many = authors.select("addr", key=name_key(pl.col("name"))).unique().sort("addr", "key")
    for addr, keys in (
        many.group_by("addr", maintain_order=True)
        .agg("key")
        .filter(pl.col("key").list.len() > _MOST_NAMES)
        .rows()
    ):
        parents: dict[str, str] = {}
        words = [key.split() or [""] for key in keys]
        for first, *others in words:
            for other in others:
                _joined(parents, first, other)
        if len({_root(parents, first) for first, *_ in words}) > _MOST_NAMES:
            yield addr


def _named(frame: pl.DataFrame, shared: set[str]) -> Iterator[Join]:
    pairs = (
        frame.filter(pl.col("role") == "named").select("addr", "also").unique().sort("addr", "also")
    )
    for addr, also in pairs.rows():
        if addr not in shared and also not in shared:
            yield Join(addr, also, "named")


def _signatures(frame: pl.DataFrame, shared: set[str]) -> Iterator[Join]:
    """Addresses under which one full name, and no other, writes a signature."""
    rows = frame.filter((pl.col("role") == "signature") & is_full_name(pl.col("name")))
    rows = rows.with_columns(key=name_key(pl.col("name"))).filter(~pl.col("addr").is_in(shared))
    of_one = rows.filter(pl.col("key").n_unique().over("also") == 1)
    for addrs in of_one.group_by("also").agg(pl.col("addr").unique().sort()).sort("also")["addr"]:
        for addr in addrs[1:]:
            yield Join(addrs[0], addr, "signature")


def _identified(rows: pl.DataFrame) -> pl.DataFrame:
    """With the id of each person, their address that wrote first, and the name that their mails use
    most.
    """
    never = pl.lit(2**62)
    ordered = rows.with_columns(begun=pl.col("first_at").cast(pl.Int64).fill_null(never)).sort(
        "begun", "addr"
    )
    best = rows.filter(pl.col("name").is_not_null()).sort(
        "mail_count", "mention_count", "addr", descending=[True, True, False]
    )
    ids = ordered.group_by("group").agg(
        person_id=pl.col("addr").first(), alias=pl.col("alias").drop_nulls().first()
    )
    names = best.group_by("group").agg(usual=pl.col("name").first())
    joined = rows.drop("alias", "name").join(ids, on="group").join(names, on="group", how="left")
    is_first = pl.col("addr") == pl.col("person_id")
    return joined.with_columns(
        name=pl.coalesce("alias", "usual", "person_id"),
        names=pl.col("names").fill_null([]),
        evidence=pl.when(is_first).then(pl.lit("address")).otherwise("evidence"),
        evidence_addr=pl.when(~is_first).then("evidence_addr"),
    )
