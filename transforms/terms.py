"""Texts to terms: one tokenizer for what is indexed and for what is asked."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import Stemmer

from transforms import schemas
from transforms.settings import TermSettings

VERSION = "3"
_STEM = {"term": pl.String, "stem": pl.String}
FIELDS = {
    "title": "title",
    "text": "text_lex",
    "quote": "quote_lex",
    "file": "diff_files",
    "function": "diff_functions",
    "added": "added_lex",
    "removed": "removed_lex",
}
"""Field of the index by the column of `chunks` that fills it; names in a list stand on lines of their own."""

WORD = r"[\p{L}\p{M}\p{N}_]*[\p{L}\p{N}][\p{L}\p{M}\p{N}_]*"
"""A word is a run of letters, marks, digits and underscores with a letter or digit in it."""

COMPOUND = (
    r"[\p{L}]{1,3}(?:\+\+|#)|cve-\d{4}-\d+|v?\d+(?:\.\d+)+|"
    r"[\p{L}\p{N}_][\p{L}\p{N}_.+-]*(?:/[\p{L}\p{N}_.+-]+)*/[\p{L}\p{N}_+-]+(?:\.[\p{L}\p{N}_+-]+)+"
)
"""Names that only signs tell apart stay whole beside their words: C++, C#, CVE-2024-0001, v16.2, fs/erofs/zdata.c."""

HOST = r"^[^/]*\.[^/]*/"
"""A compound that begins like this is the address of a host, which its words find."""

DIFF_PREFIX = r"^[ab]/"
"""What a diff writes before the path of a file."""


@functools.cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


def stems(words: list[str], settings: TermSettings) -> list[str]:
    """The terms that lower-case words become."""
    cut = [w[: settings.max_term_chars] for w in words]
    return cut if settings.stemmer == "none" else list(_stemmer(settings.stemmer).stemWords(cut))


def counted_terms(texts: pl.Series, settings: TermSettings) -> pl.DataFrame:
    """Columns `row` (position in `texts`), `term` and `tf`, in order of row and term.

    Words are runs of letters, digits and underscores in lower case; an identifier with
    underscores counts whole and in its parts. Versions, CVE numbers, paths of files, C++ and C#
    count whole beside their words. Terms are cut at `max_term_chars`; words are stemmed by
    Snowball. Equal words of a text are counted before they are stemmed, so that the work per
    token is one hash look-up.
    """
    lower = texts.str.to_lowercase()
    both = _words(lower)
    whole = (
        _counted(lower.str.extract_all(COMPOUND))
        .filter(~pl.col("term").str.contains(HOST))
        .with_columns(pl.col("term").str.replace(DIFF_PREFIX, "").str.slice(0, settings.max_term_chars))
    )
    distinct = both.get_column("term").unique()
    stemmed = pl.DataFrame(
        {"term": distinct, "stem": stems(distinct.to_list(), settings)}, schema_overrides=_STEM
    )
    terms = both.join(stemmed, on="term").select("row", pl.col("stem").alias("term"), "tf")
    return pl.concat([terms, whole]).group_by("row", "term").agg(pl.col("tf").sum()).sort("row", "term")


def word_forms(texts: pl.Series, settings: TermSettings) -> pl.DataFrame:
    """Columns `form`, `term` and `texts`: the words that stemming changes, and how many texts hold each.

    With these rows a word becomes its term without a stemmer; every other word is its own term.
    """
    words = _words(texts.str.to_lowercase()).with_columns(
        pl.col("term").str.slice(0, settings.max_term_chars)
    )
    held = words.unique(["row", "term"]).group_by("term").agg(texts=pl.len().cast(pl.Int64))
    found = held.select(pl.col("term").alias("form"), "texts")
    stemmed = pl.Series("term", stems(found.get_column("form").to_list(), settings), dtype=pl.String)
    return (
        found.with_columns(stemmed)
        .filter(pl.col("form") != pl.col("term"))
        .select("form", "term", "texts")
        .sort("form")
    )


def _words(lower: pl.Series) -> pl.DataFrame:
    """Columns `row`, `term` and `tf`: the words of texts in lower case, and the parts of identifiers."""
    words = _counted(lower.str.extract_all(WORD))
    parts = (
        words.filter(pl.col("term").str.contains("_", literal=True))
        .with_columns(pl.col("term").str.split("_"))
        .explode("term")
        .filter(pl.col("term").str.len_bytes() > 0)
    )
    return pl.concat([words, parts])


def _counted(found: pl.Series) -> pl.DataFrame:
    """Columns `row`, `term` and `tf` of a column of lists of words."""
    return (
        pl.DataFrame({"row": pl.int_range(len(found), dtype=pl.UInt32, eager=True), "term": found})
        .explode("term")
        .drop_nulls("term")
        .group_by("row", "term")
        .agg(tf=pl.len().cast(pl.Int32))
    )


def parts(text: str, settings: TermSettings) -> list[str]:
    """The terms of the words of one text, each once, in order; identifiers in their parts alone."""
    found = pl.Series([text], dtype=pl.String).str.to_lowercase().str.extract_all(WORD).explode()
    words = found.drop_nulls().str.split("_").explode()
    return sorted(set(stems([word for word in words.to_list() if word], settings)))


def chunk_terms(chunks: pa.Table, settings: TermSettings) -> pa.Table:
    """The `terms` table of `chunks`: how often each term stands in each field of each chunk."""
    frame = pl.from_arrow(chunks.select(["chunk_id", *FIELDS.values()]))
    assert isinstance(frame, pl.DataFrame)
    lists = [name for name, type_ in frame.schema.items() if isinstance(type_, pl.List)]
    frame = frame.with_columns(pl.col(lists).list.join("\n"))
    fields = {name: frame.select("chunk_id", column) for name, column in FIELDS.items()}
    filled = {n: f.filter(pl.col(FIELDS[n]).str.len_bytes() > 0) for n, f in fields.items()}
    return field_terms(filled, settings)


def context_terms(
    context: pa.Table, restated: pa.Table, settings: TermSettings, with_sentences: bool = False
) -> pa.Table:
    """The `terms` table of what a join over the lake adds to chunks.

    The column `context` of `chunk_context` (and with it `sentence`, if wanted) is the field `context`;
    `text_lex` and `quote_lex` of `restated` are the fields `text` and `quote`, in place of what the chunk itself has there.
    """
    own = pl.DataFrame(restated.select(["chunk_id", "text_lex", "quote_lex"]))
    added = ["sentence", "context"] if with_sentences else ["context"]
    texts = pl.DataFrame(context.select(["chunk_id", *added]))
    fields = {
        "context": texts.select("chunk_id", pl.concat_str(added, separator="\n")),
        "text": own.select("chunk_id", "text_lex"),
        "quote": own.select("chunk_id", "quote_lex"),
    }
    return field_terms(fields, settings)


def field_terms(fields: dict[str, pl.DataFrame], settings: TermSettings) -> pa.Table:
    """The `terms` table of frames with `chunk_id` and one text column, by field name."""
    counted = []
    for name, frame in fields.items():
        found = counted_terms(frame.to_series(1), settings)
        chunk_ids = frame.get_column("chunk_id").gather(found.get_column("row"))
        counted.append(found.with_columns(chunk_id=chunk_ids, field=pl.lit(name)))
    return schemas.TERMS.conform(pl.concat(counted).select(schemas.TERMS.names).to_arrow())


def query_terms(queries: Sequence[str], settings: TermSettings, stopwords: Sequence[str] = ()) -> pa.Table:
    """Columns `query` (position in the list) and `term`, one row per distinct term of each query.

    Terms of `stopwords` are left out of queries that have others.
    """
    asked = counted_terms(pl.Series(list(queries), dtype=pl.String), settings)
    stop = pl.col("term").is_in(stems(list(stopwords), settings))
    kept = asked.filter(~stop | stop.all().over("row"))
    return kept.select(pl.col("row").cast(pl.Int32).alias("query"), "term").to_arrow()
