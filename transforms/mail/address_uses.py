"""The names that mails give somebody, and signs in them that two addresses are one person."""

from collections.abc import Iterator

import polars as pl
import pyarrow as pa

from transforms.hashing import text_hash
from transforms.schemas.mail import ADDRESS_USES
from transforms.signs import sign_pattern

_SIGNATURE = r"\n-- ?\n((?:[^\n]*\n?){1,12})\z"
_SIGNATURE_CHARS = 1200
"""Characters at the end of a body in which a signature is looked for."""
_FEWEST_LETTERS = 24
"""Letters of a signature without its author's name; one with fewer says no more than the name."""
_WRITTEN = r"(?s)\A(.*?)(?:\n[ \t]*>|\n-+ ?(?:Original|Forwarded)|\n[ \t]*From:|\n_{20}|\z)"
"""The text of a mail above the first quote or pasted mail."""
_WRITTEN_CHARS = 20_000
_NAME = r"\p{Lu}[\p{L}\p{M}'’-]+(?: \p{Lu}\.?)?(?: \p{Lu}[\p{L}\p{M}'’-]+){0,2}"
_SIGNED = rf"(?s)\A.*\n[^\n]{{2,40}}[,!][ \t]*\n\s*({_NAME})[ \t]*(?:\n|\z)"
"""The name in the line below one that closes a mail, by a comma ("Best regards,")."""
_LAST_LINE = rf"\n[ \t]*(?:[-~*]+[ \t]*)?({_NAME})[ \t]*,?\s*\z"
_GREETED = rf"\A\s*(?:(?i:{sign_pattern(('greeting',))})[ ,]+)?({_NAME})[ \t]*(?:[,!:-]+[ \t]*)?\n"
_FROM_LINE = r"\A\s*From:[ \t]*([^\n<]*)<([^<>\s]+@[^<>\s]+)>[ \t]*\n"
_KEY = ["addr", "name", "role", "also"]
COLUMNS = [
    "message_id",
    "from_addr",
    "from_name",
    "to_addrs",
    "to_names",
    "cc_addrs",
    "cc_names",
    "effective_at",
    "list_id",
    "header_list_id",
]
"""The columns of `messages` that are read, beside the body."""


def name_key(name: pl.Expr) -> pl.Expr:
    """A name as names are compared: lower case, its words without signs in alphabetical order."""
    words = (
        name.str.to_lowercase()
        .str.replace_all(r"\(.*?\)", " ")
        .str.extract_all(r"[\p{L}\p{M}\p{N}]+")
    )
    return words.list.sort().list.join(" ")


def address_uses(messages: pa.Table, trailers: pa.Table) -> pa.Table:
    """The `address_uses` table of a partition's `messages` and `message_trailers`.

    A mail shows that two addresses are one person's if it names both beside the same full name, in
    To, Cc, trailers or the From line with which a patch begins; the author's own counts beside
    trailers and From line alone, as everybody can send a mail in another's name. If it ends with a
    signature, it shows something of its author.
    """
    mails = pl.DataFrame(messages.select(COLUMNS)).rename({"effective_at": "at"})
    bodies = pl.DataFrame({"body": messages.column("body")})["body"]
    authors = mails.select(
        "message_id", "at", addr="from_addr", name=pl.col("from_name").fill_null("")
    )
    authors = authors.filter(pl.col("addr").str.contains("@", literal=True))
    in_trailers = pl.DataFrame(trailers.select(["message_id", "name", "addr"]))
    names = pl.concat(
        [in_trailers.filter(pl.col("addr").is_not_null()), _from_lines(mails, bodies)]
    )
    recipients = [_listed(mails, role) for role in ("to", "cc")]
    in_body = names.join(mails.select("message_id", "at"), on="message_id").select(
        "message_id",
        "at",
        "addr",
        pl.col("name").fill_null(""),
        role=pl.lit("trailer"),
        also=pl.lit(""),
    )
    others = pl.concat(
        frame.select("message_id", "at", "addr", "name") for frame in (*recipients, in_body)
    )
    mentions = [
        authors.with_columns(role=pl.lit("from"), also=pl.lit("")),
        *recipients,
        in_body,
        _named(authors, in_body),
        _named(others, others),
        _lists(mails, pl.concat(recipients)),
        _signatures(mails, bodies),
        *_written_names(mails, bodies, authors),
    ]
    uses = pl.concat(frame.select("message_id", "at", *_KEY) for frame in mentions)
    counted = uses.group_by(_KEY).agg(
        mail_count=pl.col("message_id").n_unique().cast(pl.Int64),
        first_at=pl.min("at"),
        last_at=pl.max("at"),
    )
    partition = {
        n: messages.column(n)[0].as_py() if len(messages) else "" for n in ("source", "partition")
    }
    rows = counted.sort(_KEY).with_columns(**{n: pl.lit(value) for n, value in partition.items()})
    return ADDRESS_USES.conform(rows.select(ADDRESS_USES.names).to_arrow())


def _listed(mails: pl.DataFrame, role: str) -> pl.DataFrame:
    columns = mails.select("message_id", "at", addr=f"{role}_addrs", name=f"{role}_names")
    rows = columns.filter(pl.col("addr").list.len() > 0).explode("addr", "name")
    return rows.with_columns(role=pl.lit(role), also=pl.lit(""))


def _lists(mails: pl.DataFrame, recipients: pl.DataFrame) -> pl.DataFrame:
    """The recipients that are the list: by the List-Id (RFC 2919), their address with a dot for the
    @, or by its name.
    """
    listed = recipients.join(
        mails.select("message_id", "list_id", "header_list_id"), on="message_id"
    )
    by_header = pl.col("addr").str.replace("@", ".", literal=True) == pl.col("header_list_id")
    by_name = pl.col("addr").str.extract("^([^@]+)@") == pl.col("list_id")
    return (
        listed.filter(by_header | by_name)
        .select(recipients.columns)
        .with_columns(role=pl.lit("list"))
    )


def _from_lines(mails: pl.DataFrame, bodies: pl.Series) -> pl.DataFrame:
    """Whom the From line names with which a patch begins that somebody else sends, or the author
    from elsewhere.
    """
    heads = bodies.str.slice(0, 300)
    groups = heads.str.extract_groups(_FROM_LINE).struct.unnest()
    rows = mails.select("message_id").with_columns(
        name=groups.to_series(0).str.strip_chars(' \t"'),
        addr=groups.to_series(1).str.to_lowercase(),
    )
    return rows.filter(pl.col("addr").is_not_null() & (pl.col("name") != ""))


def _named(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """The addresses of `first` that a mail names beside the same full name as an address of
    `second`.
    """
    of_first, of_second = (
        frame.filter(is_full_name(pl.col("name"))).with_columns(key=name_key(pl.col("name")))
        for frame in (first, second)
    )
    pairs = of_first.join(
        of_second.select("message_id", "key", also="addr"), on=["message_id", "key"]
    )
    return pairs.filter(pl.col("addr") != pl.col("also")).with_columns(role=pl.lit("named"))


def _signatures(mails: pl.DataFrame, bodies: pl.Series) -> pl.DataFrame:
    """A hash of the signature of each mail that has one which says something."""
    tails = bodies.str.tail(_SIGNATURE_CHARS)
    text = (
        tails.str.strip_chars_end()
        .str.extract(_SIGNATURE, 1)
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )
    rows = mails.select(
        "message_id", "at", addr="from_addr", name=pl.col("from_name").fill_null("")
    ).with_columns(text=text)
    letters = pl.col("text").str.count_matches(r"\p{L}") - pl.col("name").str.count_matches(
        r"\p{L}"
    )
    rows = rows.filter(
        (letters >= _FEWEST_LETTERS) & pl.col("addr").str.contains("@", literal=True)
    )
    texts = rows["text"].unique()
    hashes = texts.map_elements(text_hash, return_dtype=pl.String)
    also = pl.col("text").replace_strict(texts, hashes, return_dtype=pl.String)
    return rows.with_columns(role=pl.lit("signature"), also=also)


def _written_names(
    mails: pl.DataFrame, bodies: pl.Series, authors: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    """Names of addresses that have none beside them: of an author below the text, and of the only
    recipient in the salutation.
    """
    only = mails.filter(pl.col("to_addrs").list.len() == 1).select(
        "message_id",
        "at",
        addr=pl.col("to_addrs").list.first(),
        name=pl.col("to_names").list.first(),
    )
    without_name = {
        role: rows.filter(pl.col("name") == "").drop("name")
        for role, rows in (("signed", authors), ("greeted", only))
    }
    ids = pl.concat([rows["message_id"] for rows in without_name.values()]).unique()
    chosen = mails.select("message_id", body=bodies).filter(
        pl.col("message_id").is_in(ids.implode())
    )
    cut = chosen["body"].str.slice(0, _WRITTEN_CHARS).str.replace_all("\r", "")
    text = cut.str.extract(_WRITTEN, 1)
    below = text.str.strip_chars_end()
    texts = chosen.select("message_id").with_columns(
        signed=below.str.extract(_SIGNED, 1).fill_null(below.str.extract(_LAST_LINE, 1)),
        greeted=text.str.extract(_GREETED, 1),
    )
    for role, nameless in without_name.items():
        named = nameless.join(texts, on="message_id")
        rows = named.select("message_id", "at", "addr", name=role)
        yield rows.drop_nulls("name").with_columns(role=pl.lit(role), also=pl.lit(""))


def is_full_name(name: pl.Expr) -> pl.Expr:
    """True for a name of two words, or of two signs of a script without blanks between words."""
    return name.str.contains(
        r"\p{L}{2,}\S*\s+\S*\p{L}|\p{L}\S*\s+\S*\p{L}{2,}|[\p{Han}\p{Hangul}]{2,}"
    )
