"""Keywords of a tree with their authority, and the chunks that hold them.

It reads `_keywords/words.md`, computes the keywords of a tree without this file, and finds them in
chunks (Information Graph). The terms of the search index are in `transforms.text.terms`.
"""

import re
from collections.abc import Iterator

import polars as pl
import pyarrow as pa

from dagster_project.extras.graph.transforms.prompt_hashes import is_question_list
from dagster_project.extras.graph.transforms.schema import CHUNK_KEYWORDS, KEYWORDS
from transforms.documents.files import WORD_LIST
from transforms.documents.markdown import outline
from transforms.schemas.table import rows_of
from transforms.settings.search import TermSettings
from transforms.text.terms import stems
from transforms.toml_file import toml_file

MAX_WORDS = 4
"""Words of the longest keyword that is searched for."""
MIN_COUNT = 3
"""Occurrences from which a term can become a keyword."""
BOUND_SHARE = 0.3
"""Share of a word's occurrences that stand beside the other from which two words are a compound."""
COMMON_SHARE = 0.6
"""Share of the pages from which a single word is not a keyword, in a tree of at least SOME_PAGES.
"""
SOME_PAGES = 5
_MAX_KEYWORDS = 50
"""Keywords that are computed for a source without `_keywords/words.md`."""
COMPOUND_FACTOR = 1.5
RARITY = ((0.1, 2.0), (0.25, 1.5))
"""Shares of the pages below which a term counts more."""
_CHUNKS_AT_ONCE = 1 << 13
HEADING_FACTORS = {1: 1.5, 2: 1.25}
DEEP_HEADING_FACTOR = 1.1

_TOKEN = r"[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}_]|['’-][\p{L}\p{N}])*"
_BREAK = r"[.,;:!?()\[\]{}|\"`*/\\<>=\r\n]|\s[–—-]\s"
_ADDRESS = r"\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|<[^<>\s]+[:@][^<>\s]+>|\b[a-z][a-z+.-]*:\S*[/@]\S+|\S+@\S+"
"""Addresses, in which no word counts."""
_ROW = re.compile(r"^\|(.+)\|[ \t]*$", re.MULTILINE)
_HEADING_LINE = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_FUNCTION_WORDS = frozenset(toml_file(__name__, "common_words.toml")["words"].split())


def keywords(
    documents: pa.Table, term_settings: TermSettings, most: int = _MAX_KEYWORDS
) -> pa.Table:
    """The keywords of all trees, as `schemas.KEYWORDS`, best first in each folder.

    A document at `_keywords/words.md` lists those of the folder it is in: rows of a table whose
    first column is the term and whose last is the score. For the other documents of a source the
    best `most` are computed as such lists say: count × heading × kind × rarity, over the pages of
    the source without code blocks and lists of keywords or questions. A heading counts for
    compounds only.
    """
    frame = pl.DataFrame(documents).sort("doc_id")
    lists = [list_folder(path) is not None or is_question_list(path) for path in frame["path"]]
    frame = frame.with_columns(is_list=pl.Series(lists, dtype=pl.Boolean))
    list_rows = [
        {
            "source": name,
            "folder": folder,
            "keyword": term,
            "score": score,
            "count": count,
            "origin": "list",
        }
        for name, path, text in frame.select("source", "path", "text").iter_rows()
        if (folder := list_folder(path)) is not None
        for term, count, score in _list_rows(text)
    ]
    covered = {(row["source"], row["folder"]) for row in list_rows}
    tables = [KEYWORDS.from_rows(list_rows)]
    for (source,), pages in frame.filter(~pl.col("is_list")).group_by(
        "source", maintain_order=True
    ):
        if (source, "") not in covered and most:
            tables.append(_compute(str(source), pages, most, term_settings))
    merged = pl.concat([pl.DataFrame(table) for table in tables]).unique(
        ["source", "folder", "keyword"], keep="first"
    )
    order = ["source", "folder", "score", "keyword"]
    return KEYWORDS.conform(merged.sort(order, descending=[False, False, True, False]).to_arrow())


def list_folder(path: str) -> str | None:
    """The folder that a document at this path lists the keywords of; None for every other document."""
    if path == WORD_LIST:
        return ""
    return path.removesuffix(f"/{WORD_LIST}") if path.endswith(f"/{WORD_LIST}") else None


def chunk_keywords(
    chunks: pa.Table, documents: pa.Table, words: pa.Table, term_settings: TermSettings
) -> pa.Table:
    """The keywords that stand in each chunk, as `schemas.CHUNK_KEYWORDS`, best first in each.

    A chunk has those of the nearest folder above its document that has any. Words are compared in
    lower case and stemmed, so a plural counts.
    """
    keyword_rows = pl.DataFrame(words)
    folders = _nearest_folders(documents, keyword_rows)
    texts = pl.DataFrame(chunks.select(["chunk_id", "doc_id", "text_display"])).join(
        folders, on="doc_id"
    )
    slices = []
    for (source,), of_source in texts.group_by("source", maintain_order=True):
        settings = term_settings.of_most(of_source["text_display"])
        own = keyword_rows.filter(source=source).with_row_index("row")
        words_of = _tokens(own["keyword"], settings).group_by("row", maintain_order=True)
        numbered = words_of.agg(gram=pl.col("stem").str.join(" ")).join(own, on="row").drop("row")
        slices += [
            _matches(part, numbered, settings) for part in of_source.iter_slices(_CHUNKS_AT_ONCE)
        ]
    matches = pl.concat([pl.DataFrame(CHUNK_KEYWORDS.empty()), *slices]).sort(
        "doc_id", "chunk_id", "score", "keyword", descending=[False, False, True, False]
    )
    return CHUNK_KEYWORDS.conform(matches.to_arrow())


def _matches(
    texts: pl.DataFrame, phrases: pl.DataFrame, term_settings: TermSettings
) -> pl.DataFrame:
    """The keywords in some chunks, in no order."""
    grams = _grams(_tokens(texts["text_display"], term_settings))
    chunk_rows = texts.select("chunk_id", "doc_id", "source", "folder").with_row_index("row")
    return (
        grams.join(phrases.select("gram").unique(), on="gram", how="semi")
        .unique()
        .join(chunk_rows, on="row")
        .join(phrases, on=["source", "folder", "gram"])
        .select(CHUNK_KEYWORDS.names)
        .unique()
    )


def _list_rows(text: str) -> Iterator[tuple[str, int | None, float]]:
    """Term, count and score of the rows of a list of keywords; rows without a number at the end are
    skipped.
    """
    for row in _ROW.finditer(text):
        cells = [cell.strip() for cell in row[1].replace("\\|", "\0").split("|")]
        try:
            score = float(cells[-1])
        except ValueError:
            continue
        if cells[0] and len(cells) > 1:
            count = next((int(cell) for cell in cells[1:-1] if cell.isdecimal()), None)
            yield cells[0].replace("\0", "|").strip("`* "), count, score


def _compute(source: str, pages: pl.DataFrame, limit: int, term_settings: TermSettings) -> pa.Table:
    """The best keywords of the pages of a source."""
    body = [_prose(text, start) for text, start in pages.select("text", "body_start").iter_rows()]
    texts = pl.Series(body, dtype=pl.String).str.replace_all(_ADDRESS, "]")
    term_settings = term_settings.of_most(texts)
    grams = _candidates(_tokens(texts, term_settings))
    counts = grams.group_by("gram").agg(
        pl.col("written").mode().sort().first(),
        count=pl.len().cast(pl.Int64),
        pages=pl.col("row").n_unique(),
        words=pl.col("words").first(),
    )
    compound = (pl.col("words") > 1) | pl.col("written").str.contains(r"[_-]")
    share = pl.col("pages") / len(pages)
    (few, rare), (some, uncommon) = RARITY
    rarity = pl.when(share < few).then(rare).when(share < some).then(uncommon).otherwise(1.0)
    is_common = (share >= COMMON_SHARE) & ~compound & (len(pages) >= SOME_PAGES)
    counts = counts.filter((pl.col("count") >= MIN_COUNT) & ~is_common)
    headed = _heading_factors(pages, term_settings)
    ranked = counts.join(headed, on="gram", how="left").with_columns(
        score=(
            pl.col("count")
            * pl.when(compound)
            .then(COMPOUND_FACTOR * pl.col("factor").fill_null(1.0))
            .otherwise(1.0)
            * rarity
        ).round(3)
    )
    best = ranked.sort(["score", "gram"], descending=[True, False]).head(limit)
    rows = best.select(
        source=pl.lit(source),
        folder=pl.lit(""),
        keyword="written",
        score="score",
        count="count",
        origin=pl.lit("computed"),
    )
    return KEYWORDS.conform(rows.to_arrow())


def _prose(text: str, body_start: int) -> str:
    """A text without frontmatter and code blocks, whose words say more of the language than of the
    tree.
    """
    data, at, texts = text.encode(), body_start, []
    for start, end, _ in outline(text, body_start).code:
        texts.append(data[at:start])
        at = end
    return b"\n".join([*texts, data[at:]]).decode()


def _candidates(tokens: pl.DataFrame) -> pl.DataFrame:
    """Words that may be keywords, and pairs of them that stand together often: row, gram, written,
    words.

    A word inside such a pair does not count for itself.
    """
    full = (
        ~pl.col("written")
        .str.to_lowercase()
        .str.replace_all("’", "'", literal=True)
        .is_in(list(_FUNCTION_WORDS))
        & (pl.col("written").str.len_chars() > 2)
        & pl.col("written").str.contains(r"\p{L}")
    )
    numbered = tokens.with_columns(full=full).with_row_index("place")
    together = pl.col("run") == pl.col("run").shift(-1)
    pairs = numbered.with_columns(
        next_stem=pl.col("stem").shift(-1),
        next_written=pl.col("written").shift(-1),
        paired=pl.col("full") & pl.col("full").shift(-1) & together,
    )
    words = numbered.filter("full")
    counts = words.group_by("stem").agg(total=pl.len())
    pairs = pairs.filter("paired")
    pair_counts = pairs.group_by("stem", "next_stem").agg(both=pl.len())
    bound = (
        pair_counts.join(counts, on="stem")
        .join(counts.rename({"stem": "next_stem", "total": "next_total"}), on="next_stem")
        .filter(
            (pl.col("both") >= MIN_COUNT)
            & (pl.col("both") >= BOUND_SHARE * pl.min_horizontal("total", "next_total"))
        )
    )
    compounds = pairs.join(bound, on=["stem", "next_stem"], how="semi")
    inside = pl.concat([compounds["place"], compounds["place"] + 1])
    words = words.filter(~pl.col("place").is_in(inside.implode()))
    return pl.concat(
        [
            words.select("row", gram="stem", written="written", words=pl.lit(1)),
            compounds.select(
                "row",
                gram=pl.col("stem") + " " + pl.col("next_stem"),
                written=pl.col("written") + " " + pl.col("next_written"),
                words=pl.lit(2),
            ),
        ]
    )


def _heading_factors(pages: pl.DataFrame, term_settings: TermSettings) -> pl.DataFrame:
    """Columns gram and factor: the highest heading that a word or pair of words is in."""
    titles = [(title, 1) for title in pages["title"]]
    titles += [(m[2], len(m[1])) for text in pages["text"] for m in _HEADING_LINE.finditer(text)]
    grams = _grams(_tokens(pl.Series([t for t, _ in titles], dtype=pl.String), term_settings))
    factors = pl.Series(
        [HEADING_FACTORS.get(level, DEEP_HEADING_FACTOR) for _, level in titles], dtype=pl.Float64
    )
    return (
        grams.with_columns(factor=factors.gather(grams["row"]))
        .group_by("gram")
        .agg(pl.col("factor").max())
    )


def _tokens(texts: pl.Series, term_settings: TermSettings) -> pl.DataFrame:
    """The words of each text in order: row, run (of words that nothing parts), written, stem."""
    runs = (
        pl.DataFrame({"row": pl.int_range(len(texts), dtype=pl.UInt32, eager=True), "text": texts})
        .with_columns(pl.col("text").str.replace_all(_BREAK, "\n").str.split("\n"))
        .explode("text")
        .with_row_index("run")
        .with_columns(written=pl.col("text").str.extract_all(_TOKEN))
        .explode("written")
        .drop_nulls("written")
        .select("row", "run", "written")
    )
    lower = runs["written"].str.to_lowercase().alias("lower")
    distinct = lower.unique().to_list()
    stemmed = pl.DataFrame(
        {"lower": distinct, "stem": stems(distinct, term_settings)},
        schema_overrides={"lower": pl.String, "stem": pl.String},
    )
    return (
        runs.with_columns(lower)
        .join(stemmed, on="lower", how="left", maintain_order="left")
        .drop("lower")
    )


def _grams(tokens: pl.DataFrame) -> pl.DataFrame:
    """Columns row and gram: every one to `MAX_WORDS` words that nothing parts, stemmed, joined by
    blanks.
    """
    frames = [tokens.select("row", gram="stem")]
    gram, together = pl.col("stem"), pl.lit(True)
    for length in range(1, MAX_WORDS):
        gram = gram + " " + pl.col("stem").shift(-length)
        together = together & (pl.col("run") == pl.col("run").shift(-length))
        frames.append(tokens.select("row", gram=gram, kept=together).filter("kept").drop("kept"))
    return pl.concat(frames)


def _nearest_folders(documents: pa.Table, words: pl.DataFrame) -> pl.DataFrame:
    """Columns doc_id, source and folder: the folder whose keywords hold for a document."""
    folders_with_keywords = set(words.select("source", "folder").unique().iter_rows())
    rows = []
    for doc_id, source, path in rows_of(documents, "doc_id", "source", "path"):
        folder = path.rpartition("/")[0]
        while folder and (source, folder) not in folders_with_keywords:
            folder = folder.rpartition("/")[0]
        rows.append((doc_id, source, folder))
    schema = {"doc_id": pl.String, "source": pl.String, "folder": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
