"""Texts to terms: one tokenizer for what is indexed and for what is asked."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import Stemmer

from transforms import schemas
from transforms.settings import TermSettings

VERSION = "1"
FIELDS = {"title": "title", "text": "text_lex", "quote": "quote_lex"}

# A word is a run of letters, marks, digits and underscores with a letter or digit in it.
_WORD = r"[\p{L}\p{M}\p{N}_]*[\p{L}\p{N}][\p{L}\p{M}\p{N}_]*"


@functools.cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


def stems(words: list[str], settings: TermSettings) -> list[str]:
    """The terms that lower-case words become."""
    cut = [w[: settings.max_term_chars] for w in words]
    return cut if settings.stemmer is None else list(_stemmer(settings.stemmer).stemWords(cut))


def tokens(texts: pl.DataFrame, text: str, settings: TermSettings) -> pl.DataFrame:
    """One row per token of the column `text`: the other columns of `texts`, and `term`.

    Words are runs of letters, digits and underscores in lower case; an identifier with
    underscores counts whole and in its parts. Terms are stemmed by Snowball where they are
    plain words, and cut at `max_term_chars`.
    """
    words = (
        texts.with_columns(pl.col(text).str.to_lowercase().str.extract_all(_WORD).alias("term"))
        .drop(text)
        .explode("term")
        .drop_nulls("term")
    )
    compound = words.filter(pl.col("term").str.contains("_", literal=True))
    parts = (
        compound.with_columns(pl.col("term").str.split("_"))
        .explode("term")
        .filter(pl.col("term").str.len_bytes() > 0)
    )
    return _stemmed(pl.concat([words, parts]), settings)


def _stemmed(words: pl.DataFrame, settings: TermSettings) -> pl.DataFrame:
    distinct = words.get_column("term").unique(maintain_order=True)
    stemmed = pl.Series("stem", stems(distinct.to_list(), settings), dtype=pl.String)
    return (
        words.join(pl.DataFrame({"term": distinct, "stem": stemmed}), on="term", how="left")
        .drop("term")
        .rename({"stem": "term"})
    )


def chunk_terms(chunks: pa.Table, settings: TermSettings) -> pa.Table:
    """The `terms` table of `chunks`: how often each term stands in each field of each chunk."""
    frame = pl.from_arrow(chunks.select(["chunk_id", *FIELDS.values()]))
    assert isinstance(frame, pl.DataFrame)
    return field_terms({name: frame.select("chunk_id", column) for name, column in FIELDS.items()}, settings)


def context_terms(context: pa.Table, settings: TermSettings) -> pa.Table:
    """The `terms` table of the column `context` of `chunk_context`, all in the field `context`."""
    frame = pl.from_arrow(context.select(["chunk_id", "context"]))
    assert isinstance(frame, pl.DataFrame)
    return field_terms({"context": frame}, settings)


def field_terms(fields: dict[str, pl.DataFrame], settings: TermSettings) -> pa.Table:
    """The `terms` table of frames with `chunk_id` and one text column, by field name."""
    counted = [
        tokens(frame, frame.columns[1], settings)
        .group_by("chunk_id", "term")
        .agg(pl.len().cast(pl.Int32).alias("tf"))
        .with_columns(pl.lit(name).alias("field"))
        for name, frame in fields.items()
    ]
    table = pl.concat(counted).sort("chunk_id", "field", "term").select(schemas.TERMS.names)
    return schemas.TERMS.conform(table.to_arrow())


def query_terms(queries: Sequence[str], settings: TermSettings, stopwords: Sequence[str] = ()) -> pa.Table:
    """Columns `query` (position in the list) and `term`, one row per distinct term of each query.

    Terms of `stopwords` are left out of queries that have others.
    """
    schema = {"query": pl.Int32, "text": pl.String}
    frame = pl.DataFrame({"query": range(len(queries)), "text": list(queries)}, schema=schema)
    stop = pl.col("term").is_in(stems(list(stopwords), settings))
    asked = tokens(frame, "text", settings).unique()
    return asked.filter(~stop | stop.all().over("query")).sort("query", "term").to_arrow()
