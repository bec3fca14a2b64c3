"""Texts to terms: one tokenizer for the index and for queries."""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import Stemmer

from transforms.languages import OR, UNSPACED, language_of
from transforms.schemas.chunks import TERMS
from transforms.settings.search import TermSettings

MAX_TERM_CHARS = 64
"""Characters; longer tokens are cut."""
_CODED = {"code": pl.Int64, "term": pl.String}
_TEXT_AT_ONCE = 1 << 23
"""Bytes of text whose words are counted at once; they take some twenty times as much memory."""
_HALF = np.uint64(32)
"""Bits of a number that a term has of a pair of text and term."""
COLUMN_OF = {
    "title": "title",
    "text": "text_lex",
    "quote": "quote_lex",
    "file": "diff_files",
    "function": "diff_functions",
    "added": "added_lex",
    "removed": "removed_lex",
    "rest": "rest_lex",
}
"""Field of the index by the column of `chunks` that fills it; names in a list stand on lines of
their own.
"""
TERM_COLUMNS = ("chunk_id", "doc_id", *COLUMN_OF.values())
"""The columns of chunks that terms are counted of, with the document, which tells the language of a
short chunk.
"""

WORD = r"[\p{L}\p{M}\p{N}_]*[\p{L}\p{N}][\p{L}\p{M}\p{N}_]*"
"""A word is a run of letters, marks, digits and underscores with a letter or digit in it."""

COMPOUND = (
    r"(?i)[\p{L}]{1,3}(?:\+\+|#)|cve-\d{4}-\d+|v?\d+(?:\.\d+)+|"
    r"[\p{L}\p{N}_][\p{L}\p{N}_.+-]*(?:/[\p{L}\p{N}_.+-]+)*/[\p{L}\p{N}_+-]+(?:\.[\p{L}\p{N}_+-]+)+"
)
"""Names that only signs tell apart stay whole beside their words: C++, C#, CVE-2024-0001, v16.2,
fs/erofs/zdata.c.
"""

HUMPS = (r"([\p{Lu}\p{N}]+)([\p{Lu}][\p{Ll}])", r"([\p{Ll}])([\p{Lu}])")
"""Where the parts of camelCase meet, one pattern after the other: HTTP|Server, read|Block. RE2 and
Polars know both.
"""

PART_CHARS = 2
"""A word with a part shorter than this between humps is not cut there: iPhone, IPv6, and most of
base64.
"""

HOST = r"^[^/]*\.[^/]*/"
"""A compound that begins like this is the address of a host, which its words find."""

DIFF_PREFIX = r"^[ab]/"
"""The prefix that a diff writes before the path of a file."""

_UNSPACED_RUN = re.compile(f"([{UNSPACED}]+)")

_ASCII = (
    (r"\p{Lu}", "A-Z"),
    (r"\p{Ll}", "a-z"),
    (r"\p{L}", "A-Za-z"),
    (r"\p{N}", "0-9"),
    (r"\p{M}", ""),
)
"""Classes of characters, which are in brackets, and their members in ASCII."""


def _in_ascii(pattern: str) -> re.Pattern[str]:
    """A pattern for texts of ASCII: for a few short texts Polars spends more time compiling it than
    matching.
    """
    for name, members in _ASCII:
        pattern = pattern.replace(name, members)
    return re.compile(pattern, re.ASCII)


_ASCII_NAMES = (_in_ascii(WORD), _in_ascii(COMPOUND))
_ASCII_HUMPS = tuple(map(_in_ascii, HUMPS))
_ASCII_SIGNS = {n: " " for n in range(128) if not re.match(r"\w", chr(n))}
_LONG = 200
_LONG_RUN = re.compile(rf"\S{{{_LONG}}}")
"""So many characters without a blank are left to Polars, whose patterns take time in proportion to
a text: Python's start again at each character of a run.
"""


@functools.cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    """A stemmer that remembers no words: they come distinct, and its keeping of them took longer
    than stemming.
    """
    return Stemmer.Stemmer(language, 0)


def stems(words: list[str], settings: TermSettings) -> list[str]:
    """The terms that lower-case words become; where several stemmers differ, their terms in order
    with OR between them.
    """
    cut = [w[:MAX_TERM_CHARS] for w in words]
    names = settings.languages
    first, *others = [cut if name == "none" else _stemmer(name).stemWords(cut) for name in names]
    return (
        [OR.join(sorted({*terms})) for terms in zip(first, *others, strict=True)]
        if others
        else list(first)
    )


class _Occurrences(NamedTuple):
    """Occurrences of words: the text each is in, its place in `distinct`, and the distinct words."""

    rows: np.ndarray
    codes: np.ndarray
    distinct: pl.Series


class _Tally(NamedTuple):
    """Occurrences counted: texts, places in the sorted `terms`, and counts, in order of text and
    term.
    """

    rows: np.ndarray
    ranks: np.ndarray
    tf: np.ndarray
    terms: pl.Series


def counted_terms(texts: pl.Series, settings: TermSettings) -> pl.DataFrame:
    """Columns `row` (position in `texts`), `term` and `tf`, in order of row and term.

    Words are runs of letters, digits and underscores in lower case; an identifier with underscores
    or in camelCase counts whole and in its parts. Each character of Chinese and Japanese counts,
    and each pair of neighbours (as in Lucene's CJKBigramFilter), and a word of other letters beside
    them by itself. Versions, CVE numbers, paths of files, C++ and C# count whole beside their
    words. Terms are cut at MAX_TERM_CHARS; words are stemmed by Snowball. A distinct word becomes
    terms once; occurrences are counted as numbers.
    """
    words, compounds = _occurrences(texts, WORD), _occurrences(texts, COMPOUND)
    word_terms = _with_parts(words)
    stemmed = stems(word_terms.get_column("term").to_list(), settings)
    of_words = word_terms.with_columns(pl.Series("term", stemmed, dtype=pl.String))
    tally = _tally([(words, of_words), (compounds, _compound_terms_of(compounds, settings))])
    return pl.DataFrame(
        {"row": tally.rows, "term": tally.terms.gather(tally.ranks), "tf": tally.tf}
    )


def word_forms(texts: pl.Series, settings: TermSettings) -> pl.DataFrame:
    """Columns `form`, `term` and `texts`: the words that stemming changes, and how many texts hold
    each.

    With these rows a word becomes its terms without a stemmer; each term has a row. Every other
    word is its own term.
    """
    words = _occurrences(texts, WORD)
    forms = _with_parts(words).with_columns(pl.col("term").str.slice(0, MAX_TERM_CHARS))
    distinct = forms.get_column("term").unique().sort()
    changed = (
        distinct.to_frame("form")
        .with_columns(pl.Series("term", stems(distinct.to_list(), settings), dtype=pl.String))
        .filter(pl.col("form") != pl.col("term"))
    )
    # Most words do not change: a third of the occurrences remain to be sorted.
    changed_forms = forms.join(
        changed, left_on="term", right_on="form", how="semi", maintain_order="left"
    )
    tally = _tally([(words, changed_forms)])
    text_counts = np.bincount(tally.ranks, minlength=len(tally.terms))
    counted = pl.DataFrame(changed).with_columns(texts=pl.Series(text_counts, dtype=pl.Int64))
    return counted.with_columns(pl.col("term").str.split(OR)).explode("term")


def _occurrences(texts: pl.Series, pattern: str) -> _Occurrences:
    lists = texts.str.extract_all(pattern)
    rows = np.arange(len(lists), dtype=np.uint64).repeat(lists.list.len().fill_null(0).to_numpy())
    encoded = lists.explode().drop_nulls().cast(pl.String).to_arrow().dictionary_encode()
    distinct = pl.Series("term", encoded.dictionary, dtype=pl.String)
    return _Occurrences(rows, encoded.indices.to_numpy().astype(np.int64), distinct)


def _with_parts(words: _Occurrences) -> pl.DataFrame:
    """Columns `code` and `term`: the distinct words in lower case, and the parts of those that are
    identifiers.

    A word with UNSPACED characters becomes its `_pieces`.
    """
    every = pl.DataFrame(
        {"code": np.arange(len(words.distinct)), "term": words.distinct}, schema_overrides=_CODED
    )
    word = every.get_column("term")
    near = (word.str.len_bytes() != word.str.len_chars()).arg_true()
    if unspaced := near.filter(word.gather(near).str.contains(f"[{UNSPACED}]")).to_list():
        pieces = [
            (code, piece)
            for code, text in zip(unspaced, word.gather(unspaced), strict=True)
            for piece in _pieces(text, every=True)
        ]
        others = every.filter(~pl.col("code").is_in(unspaced))
        every = pl.concat([others, pl.DataFrame(pieces, _CODED, orient="row")])
    parts = (
        every.filter(pl.col("term").str.contains("|".join(("_", *HUMPS))))
        .with_columns(part=_parts(pl.col("term")))
        .explode("part")
        .filter((pl.col("part") != "") & (pl.col("part") != pl.col("term")))
        .select("code", term="part")
    )
    return pl.concat([every, parts]).with_columns(pl.col("term").str.to_lowercase())


def _parts(word: pl.Expr) -> pl.Expr:
    """Lists of the parts of words, cut at underscores and, unless they would be too short, at
    humps; some are empty.
    """
    marked = word
    for hump in HUMPS:
        marked = marked.str.replace_all(hump, "${1}_${2}")
    at_humps = marked.str.split("_")
    shortest = at_humps.list.eval(
        pl.element().filter(pl.element() != "").str.len_chars()
    ).list.min()
    return pl.when(shortest >= PART_CHARS).then(at_humps).otherwise(word.str.split("_"))


def _compound_terms_of(compounds: _Occurrences, settings: TermSettings) -> pl.DataFrame:
    """Columns `code` and `term`: the distinct compounds as terms, without addresses of hosts."""
    return (
        pl.DataFrame(
            {"code": np.arange(len(compounds.distinct)), "term": compounds.distinct},
            schema_overrides=_CODED,
        )
        .with_columns(pl.col("term").str.to_lowercase())
        .filter(~pl.col("term").str.contains(HOST))
        .with_columns(pl.col("term").str.replace(DIFF_PREFIX, "").str.slice(0, MAX_TERM_CHARS))
    )


def _tally(sources: Sequence[tuple[_Occurrences, pl.DataFrame]]) -> _Tally:
    """Occurrences of the terms (`code`, `term`) that the distinct words stand for, counted by text."""
    before = np.cumsum([0, *(len(words.distinct) for words, _ in sources)])
    coded_terms = pl.concat(
        [
            of.with_columns(pl.col("code") + int(n))
            for (_, of), n in zip(sources, before, strict=False)
        ]
    )
    terms = coded_terms.select(pl.col("term").unique().sort())
    ranked = coded_terms.join(terms.with_row_index("rank"), on="term").sort("code")
    of_code, rank = ranked.get_column("code").to_numpy(), ranked.get_column("rank").to_numpy()
    codes = np.concatenate(
        [words.codes + n for (words, _), n in zip(sources, before, strict=False)]
    )
    edges = np.searchsorted(of_code, np.arange(before[-1] + 1))
    begin, count = edges[codes], np.diff(edges)[codes]
    indexes = np.arange(count.sum()) + np.repeat(begin - (np.cumsum(count) - count), count)
    rows = np.concatenate([words.rows for words, _ in sources]).repeat(count)
    keys, tf = np.unique(rows << _HALF | rank[indexes], return_counts=True)
    ranks = (keys & ((np.uint64(1) << _HALF) - np.uint64(1))).astype(np.uint32)
    return _Tally(
        (keys >> _HALF).astype(np.uint32), ranks, tf.astype(np.int32), terms.get_column("term")
    )


def _pieces(word: str, *, every: bool = False) -> list[str]:
    """The terms of a word: itself, or if it has UNSPACED characters pairs of them, and its other
    words.

    A character alone is one piece; if `every`, each is, as it is in the index.

    >>> _pieces("SQL\u7528\u8a9e\u96c6"), _pieces("\u732b"), _pieces("\u8a9e\u96c6", every=True)
    (['SQL', '\u7528\u8a9e', '\u8a9e\u96c6'], ['\u732b'], ['\u8a9e\u96c6', '\u8a9e', '\u96c6'])
    """
    pieces: list[str] = []
    for number, run in enumerate(_UNSPACED_RUN.split(word)):
        if number % 2 == 0:
            pieces += [run] if run.strip("_") else []
            continue
        pieces += map("".join, itertools.pairwise(run))
        pieces += run if every or len(run) == 1 else ""
    return pieces


def _in_pieces(words: Iterable[str]) -> list[str]:
    return [piece for word in words for piece in ([word] if word.isascii() else _pieces(word))]


_HUMP = re.compile(r"[^\W\d_]\d*[A-Z]")


def word_parts(text: str, settings: TermSettings) -> list[str]:
    """The terms of the words of one text, each once, in order; those with underscores in their
    parts alone.

    Every text that holds these words in any case has these terms, which is not so of the parts of
    camelCase, nor of a part with humps of a word with underscores: `log_errReturn` is known by log,
    err and return.
    """
    words = (
        pl.Series([text], dtype=pl.String).str.extract_all(WORD).explode().drop_nulls().to_list()
    )
    words = _in_pieces(words)
    cut = [
        part for word in words for part in word.split("_") if part == word or not _HUMP.search(part)
    ]
    return sorted(set(stems([part.lower() for part in cut or words if part], settings)))


def chunk_terms(chunks: pa.Table, settings: TermSettings) -> pa.Table:
    """The `terms` table of `chunks`, which needs CHUNK_COLUMNS: how often each term is in each
    field of each chunk.
    """
    frame = pl.DataFrame(chunks.select(list(TERM_COLUMNS)))
    lists = [name for name, type_ in frame.schema.items() if isinstance(type_, pl.List)]
    frame = frame.with_columns(pl.col(lists).list.join("\n"))
    fields = {name: frame.select("chunk_id", column) for name, column in COLUMN_OF.items()}
    filled = {n: f.filter(pl.col(COLUMN_OF[n]).str.len_bytes() > 0) for n, f in fields.items()}
    return field_terms(filled, settings, frame.select("chunk_id", "doc_id"))


def context_terms(context: pa.Table, restated: pa.Table, settings: TermSettings) -> pa.Table:
    """The `terms` table of the context that a join over the lake adds to chunks.

    The column `context` of `chunk_context` is the field `context`; `text_lex` and `quote_lex` of
    `restated` are the fields `text` and `quote`, in place of the chunk's own text there.
    """
    own = pl.DataFrame(restated.select(["chunk_id", "text_lex", "quote_lex"]))
    fields = {
        "context": pl.DataFrame(context.select(["chunk_id", "context"])),
        "text": own.select("chunk_id", "text_lex"),
        "quote": own.select("chunk_id", "quote_lex"),
    }
    return field_terms(fields, settings)


def field_terms(
    fields: dict[str, pl.DataFrame], settings: TermSettings, documents: pl.DataFrame | None = None
) -> pa.Table:
    """The `terms` table of frames with `chunk_id` and one text column, by field name; `documents`
    has doc_ids.
    """
    parts = [
        frame.select(chunk_id="chunk_id", field=pl.lit(name), text=frame.columns[1])
        for name, frame in fields.items()
    ]
    texts = pl.concat(parts)
    by_language = (
        _by_language(texts, documents, settings) if len(settings.languages) > 1 else [texts]
    )
    tables = []
    for part, name in zip(by_language, settings.languages, strict=True):
        ends = (
            part.get_column("text").str.len_bytes().fill_null(0).cast(pl.Int64).cum_sum().to_numpy()
        )
        edges = [0, *(np.flatnonzero(np.diff(ends // _TEXT_AT_ONCE)) + 1).tolist(), len(part)]
        for few in (part[a:b] for a, b in itertools.pairwise(edges)):
            counts = counted_terms(few.get_column("text"), settings.of(name))
            of = [
                few.get_column(key).gather(counts.get_column("row"))
                for key in ("chunk_id", "field")
            ]
            tables.append(TERMS.conform(counts.with_columns(of).select(TERMS.names).to_arrow()))
    return pa.concat_tables(tables)


def _by_language(
    texts: pl.DataFrame, documents: pl.DataFrame | None, settings: TermSettings
) -> list[pl.DataFrame]:
    """The rows of `texts` for each stemmer: that of the text's language, else of its document's,
    else the first.
    """
    language = pl.col("text").map_elements(language_of, pl.String)
    language = pl.when(language.is_in(settings.languages)).then(language)
    texts = texts.with_columns(language=language)
    chunks = (
        texts.select("chunk_id", doc_id="chunk_id").unique() if documents is None else documents
    )
    own = texts.filter(pl.col("field") != "quote").join(
        chunks, on="chunk_id", maintain_order="left"
    )
    of_documents = (
        own.group_by("doc_id").agg(pl.col("text").str.join("\n")).select("doc_id", of_all=language)
    )
    of_chunks = chunks.join(of_documents, on="doc_id")
    chosen = pl.coalesce("language", "of_all", pl.lit(settings.languages[0]))
    rows = texts.join(of_chunks, on="chunk_id", how="left", maintain_order="left").with_columns(
        chosen
    )
    return [
        rows.filter(language=name).drop("language", "of_all", "doc_id")
        for name in settings.languages
    ]


def query_terms(
    queries: Sequence[str],
    settings: TermSettings,
    stopwords: Sequence[str] = (),
    df: Callable[[str], int] = lambda term: 0,
) -> list[list[str]]:
    """The distinct terms of each query, in order.

    A query that has other terms loses those of `stopwords`, but for words in capitals among others
    in small letters. The terms equal those of `counted_terms`, which is faster for many texts; but
    an identifier that a chunk contains (`df` of its term is not 0) has no parts here.
    """
    stop = set(stems(list(stopwords), settings))
    by_query: list[list[str]] = []
    for plain, compounds in zip(*names_in(queries), strict=True):
        words = _in_pieces(plain)
        term_of = dict(zip(words, stems([word.lower() for word in words], settings), strict=True))
        cut = [parts for word, parts in identifier_parts(words).items() if not df(term_of[word])]
        parts = stems([part for parts in cut for part in parts], settings)
        distinct = {*term_of.values(), *parts, *_compound_terms(compounds, settings)}
        is_mixed = any(word.islower() for word in words)
        in_capitals = {
            term_of[word] for word in words if is_mixed and len(word) > 1 and word.isupper()
        }
        by_query.append(sorted(distinct - (stop - in_capitals) or distinct))
    return by_query


def word_runs(text: str) -> list[str]:
    """The runs of letters, digits and underscores of a text; those of ASCII in less than half of a
    pattern's time.
    """
    return text.translate(_ASCII_SIGNS).split() if text.isascii() else re.findall(r"\w+", text)


def names_in(texts: Sequence[str]) -> tuple[list[list[str]], list[list[str]]]:
    """The matches of WORD and those of COMPOUND in each of a few texts."""
    simple = {n for n, text in enumerate(texts) if text.isascii() and not _LONG_RUN.search(text)}
    words, compounds = (
        [pattern.findall(text) if row in simple else [] for row, text in enumerate(texts)]
        for pattern in _ASCII_NAMES
    )
    if others := [row for row, text in enumerate(texts) if row not in simple]:
        column = pl.Series([texts[row] for row in others], dtype=pl.String)
        for lists, pattern in ((words, WORD), (compounds, COMPOUND)):
            for row, names in zip(others, column.str.extract_all(pattern).to_list(), strict=True):
                lists[row] = names
    return words, compounds


def identifier_parts(words: Iterable[str]) -> dict[str, list[str]]:
    """The parts, in lower case, of those words that are identifiers."""
    cut = [word for word in words if "_" in word or any(map(str.isupper, word[1:]))]
    lists = {word: _ascii_parts(word) for word in cut if word.isascii() and len(word) < _LONG}
    if others := [word for word in cut if word not in lists]:
        part_lists = (
            pl.Series("word", others)
            .to_frame()
            .select(_parts(pl.col("word")))
            .to_series()
            .to_list()
        )
        lists |= zip(others, part_lists, strict=True)
    return {word: [part.lower() for part in lists[word] if part] for word in cut}


def _ascii_parts(word: str) -> list[str]:
    """The result of `_parts` for a word of ASCII."""
    marked = word
    for hump in _ASCII_HUMPS:
        marked = hump.sub(r"\1_\2", marked)
    at_humps = marked.split("_")
    shortest = min((len(part) for part in at_humps if part), default=0)
    return at_humps if shortest >= PART_CHARS else word.split("_")


def _compound_terms(compounds: Sequence[str], settings: TermSettings) -> list[str]:
    """Compounds as terms, without addresses of hosts."""
    # The meaning of HOST; as a pattern, Python would search for the slash again after each dot.
    split = [(name, name.partition("/")) for name in (compound.lower() for compound in compounds)]
    names = [
        re.sub(DIFF_PREFIX, "", name)
        for name, (host, slash, _) in split
        if not slash or "." not in host
    ]
    return [name[:MAX_TERM_CHARS] for name in names]
