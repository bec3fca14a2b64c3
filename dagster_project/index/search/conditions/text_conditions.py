"""Which chunks of a published index hold words and phrases: words by the postings, phrases in one
pass over the texts.

Text of a mail that is in no chunk (quotes that nothing answers, signatures, reply headers) is
beside its first chunk. A mail without a word of its author has a chunk without postings: its text
is read.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import polars as pl

from transforms.errors import QuerySyntaxError
from transforms.languages import OR
from transforms.retrieval.bm25 import FIELDS
from transforms.retrieval.postings import Postings
from transforms.retrieval.query_fields import expression, fuzzy, is_pattern, slips
from transforms.retrieval.query_language import Leaf, Query
from transforms.schemas.kinds import UNAUTHORED
from transforms.settings.search import TermSettings
from transforms.text import phrases, terms

_ROWS_AT_ONCE = 20_000
"""Chunks whose texts are in memory at once, some 60 MB."""
_READ_ALONE = 64
"""Chunks whose texts a statement reads in the time in which that of one is read by its row: it reads
those of all.
"""
_SHORTEST = 4
"""Characters of a word that may be mistyped."""
_MOST_FORMS = 2_000
"""Words of the index that one pattern may stand for."""
_RANKING_FORMS = 16
"""The most frequent of them, which rank."""
_WORDS = "(SELECT form AS word, chunk_count AS texts FROM term_forms UNION ALL SELECT term, df FROM terms)"
_WRITTEN = """(
SELECT form AS word, chunk_count AS texts FROM term_forms UNION ALL SELECT term, df
FROM terms LEFT JOIN (SELECT term, sum(chunk_count) AS changed FROM term_forms GROUP BY term) USING (term)
WHERE changed IS NULL OR df > changed)"""
"""Words as texts write them: a term that is in no more chunks than the words that become it is
perhaps a mere stem.
"""
_NEAREST = f"""
SELECT word FROM {_WRITTEN}
WHERE texts > 1 AND word[1] = $word[1] AND abs(length(word) - length($word)) <= $slips
  AND damerau_levenshtein(word, $word) <= $slips
ORDER BY damerau_levenshtein(word, $word), texts DESC, word LIMIT 1
"""
_LIKE = f"""
SELECT word FROM {_WORDS} WHERE {{}} GROUP BY word ORDER BY max(texts) DESC, word LIMIT {_MOST_FORMS + 1}
"""
_FITTING = "regexp_full_match(word, $word)"
_NEAR = "abs(length(word) - length($word)) <= $slips AND damerau_levenshtein(word, $word) <= $slips"
_ALL_TF = ("title", "text", "quote", "file", "function", "added", "removed", "rest")
_OWN = ("text", "added", "removed")
_UNAUTHORED = f"CASE chunk_kind WHEN '{UNAUTHORED}' THEN lake_text(text_display) END"
_SHOWN_TEXT, _REST = "lake_text(text_display)", "rest_lex"
# Which frequencies of the index say that a word may be there, and which columns show a phrase, those
# that are read fastest first.
_LOOKED_FOR_IN: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (_ALL_TF, ("title", _REST, _SHOWN_TEXT)),
    "s": (("title",), ("title",)),
    "title": (("title",), ("coalesce(heading_path[-1], title)",)),
    "b": (_ALL_TF[1:], (_REST, _SHOWN_TEXT)),
    "nq": (
        _OWN,
        (
            "CASE source_kind WHEN 'document' THEN text_display ELSE text_lex END",
            "added_lex",
            "removed_lex",
        ),
    ),
    "q": (("quote", "rest"), ("quote_lex", _REST, _UNAUTHORED)),
    "dfn": (("file",), ("array_to_string(diff_files, chr(10))",)),
    "dfhh": (("function",), ("array_to_string(diff_functions, chr(10))",)),
    "dfa": (("removed",), ("removed_lex",)),
    "dfb": (("added",), ("added_lex",)),
}

_COLUMNS = [*dict.fromkeys(chain.from_iterable(columns for _, columns in _LOOKED_FOR_IN.values()))]
# Texts of documents to look for words in, by field.
_OF_DOCUMENTS = {
    "": "concat_ws(chr(10), title, lake_text(text_display))",
    "b": "lake_text(text_display)",
    "nq": "lake_text(text_display)",
}
_NUMBERED = "chunk_no IN (SELECT unnest($numbers::JSON::INTEGER[]))"
_IN_DOCUMENTS = f"FROM stored_chunks WHERE source_kind = 'document' AND {_NUMBERED}"
_UNAUTHORED_TEXTS = "SELECT chunk_no, lake_text(text_display) AS text_display FROM stored_chunks WHERE chunk_kind = $kind"
_SHOWN = ("", "b", "q")
"""The fields that include the text that a mail without a word of its author shows."""
_FORMS_SHOWN = 200
"""Words that texts are looked through for at once: a pattern of more takes long to make."""


class TextConditions:
    """Looks for the texts that leaves of TEXT_FIELDS name.

    A word is looked up in the inverted index, so that it is found in other forms. A phrase, or a
    word with signs inside, is verified in the text of the chunks that have all its words.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        term_settings: TermSettings,
        postings: Postings,
        rows_of: Callable[[Iterable[int]], Mapping[int, Mapping[str, Any]]],
    ):
        """`rows_of` gives the rows of some chunks by number, with `text_display`."""
        self.connection, self.term_settings, self.postings = connection, term_settings, postings
        self._rows_of = rows_of

    def holding(self, leaves: Iterable[Leaf]) -> dict[Leaf, np.ndarray]:
        """The mask of the chunks that hold the text that each leaf names."""
        by_word: dict[Leaf, np.ndarray] = {}
        to_verify: list[Leaf] = []
        for leaf in leaves:
            fields, _ = _LOOKED_FOR_IN[leaf.field]
            if not leaf.exact and is_pattern(leaf.value):
                forms = self.forms(leaf)
                all_terms = [*forms, *terms.stems(forms, self.term_settings)]
                words = [expression(leaf.value) or "", *forms]
                by_word[leaf] = self._own(leaf, self._with_any(all_terms, fields), words)
            elif leaf.field == "title" or leaf.exact or re.fullmatch(r"\w+", leaf.value) is None:
                to_verify.append(leaf)
            else:
                (stems,) = terms.query_terms([leaf.value.lower()], self.term_settings)
                words = self._forms_of(leaf.value.lower())
                by_word[leaf] = self._own(leaf, self._with_terms(stems, fields), words)
            if leaf in by_word:
                by_word[leaf] |= self._unauthored(leaf, words)
        return by_word | self._verified(to_verify)

    def _unauthored(self, leaf: Leaf, words: Sequence[str]) -> np.ndarray:
        """The chunks without postings that show one of some words."""
        holds = np.zeros(self.postings.chunk_count, dtype=bool)
        if leaf.field in _SHOWN and not self.postings.ranked.all():
            texts = self.connection.execute(_UNAUTHORED_TEXTS, {"kind": UNAUTHORED}).pl()
            is_match = texts.get_column("text_display").str.contains(_any_word(words))
            holds[texts.filter(is_match).get_column("chunk_no").to_numpy()] = True
        return holds

    def _own(self, leaf: Leaf, chunks: np.ndarray, words: Sequence[str]) -> np.ndarray:
        """Those of some chunks that hold a word themselves: the index of documents has words of
        their neighbours, too.
        """
        if leaf.field not in _OF_DOCUMENTS or not chunks.any():
            return chunks
        texts = self.connection.execute(
            f"SELECT chunk_no, {_OF_DOCUMENTS[leaf.field]} AS text {_IN_DOCUMENTS}",
            {"numbers": json.dumps(np.flatnonzero(chunks).tolist())},
        ).pl()
        others = texts.filter(~pl.col("text").str.contains(_any_word(words)))
        chunks[others.get_column("chunk_no").to_numpy()] = False
        return chunks

    def _forms_of(self, word: str) -> list[str]:
        """The words of the index that have the stem of a word."""
        names = terms.stems([word], self.term_settings)[0].split(OR)
        rows = self.connection.execute(
            "SELECT form FROM term_forms WHERE term IN (SELECT unnest($names))", {"names": names}
        ).fetchall()
        return sorted({word, *names, *(form for (form,) in rows)})

    def meant(self, query: str) -> dict[str, str]:
        """By each word of a text that the index does not hold the most frequent one of the nearest
        that it does; none if one of these words is near to no other.

        Near are words with the same first letter that are one slip of the keyboard away, two for
        long ones.
        """
        nearest: dict[str, str] = {}
        for word in (
            word.lower() for word in terms.names_in([query])[0][0] if len(word) >= _SHORTEST
        ):
            if self.postings.df(terms.stems([word], self.term_settings)[0]):
                continue
            row = self.connection.execute(_NEAREST, {"word": word, "slips": slips(word)}).fetchone()
            if not row:
                return {}
            nearest[word] = row[0]
        return nearest

    def forms(self, leaf: Leaf) -> list[str]:
        """The words of the index that a pattern matches, most frequent first; QuerySyntaxError if
        they are too many.
        """
        fitting = expression(leaf.value)
        word, most = (fitting, 0) if fitting else fuzzy(leaf.value)
        values = {"word": word} if fitting else {"word": word, "slips": most}
        rows = self.connection.execute(
            _LIKE.format(_FITTING if fitting else _NEAR), values
        ).fetchall()
        if len(rows) > _MOST_FORMS:
            reason = f"{leaf.value} matches more than {_MOST_FORMS:,} words of the index: write more letters"
            raise QuerySyntaxError(leaf.query, leaf.position, reason)
        return [form for (form,) in rows]

    def ranking(self, query: Query) -> tuple[str, dict[str, float]]:
        """The text of a query with the most frequent words that its patterns match, and the weights
        of its words.
        """
        texts, factors = [query.text], dict(query.factors)
        for pattern, factor in query.patterns:
            forms = self.forms(Leaf("", pattern))[:_RANKING_FORMS]
            texts += forms
            factors |= dict.fromkeys(forms, factor) if factor != 1 else {}
        return " ".join(filter(None, texts)), factors

    def _with_any(self, terms_: Sequence[str], fields: Sequence[str]) -> np.ndarray:
        """The chunks that hold one of the terms in these fields."""
        columns = [FIELDS.index(field) for field in fields]
        has_field = np.asarray((self.postings.counts[:, columns] > 0).any(axis=1))
        holds = np.zeros(self.postings.slots.count, dtype=bool)
        for part in (part for term in set(terms_) for part in self.postings.parts(term)):
            holds[part.slots[has_field[part.codes]]] = True
        return holds[self.postings.slots.of(np.arange(self.postings.chunk_count))]

    def _with_terms(self, terms_: Sequence[str], fields: Sequence[str]) -> np.ndarray:
        """The chunks that hold all terms in these fields."""
        chunks = np.full(self.postings.chunk_count, bool(terms_))
        for term in terms_:
            chunks &= self._with_any([term], fields)
        return chunks

    def _verified(self, leaves: Sequence[Leaf]) -> dict[Leaf, np.ndarray]:
        """The chunks whose texts show each leaf; every text is read once for all leaves, and only
        where no other text of its chunk has shown it.
        """
        verified = {leaf: np.zeros(self.postings.chunk_count, dtype=bool) for leaf in leaves}
        columns = (column for leaf in leaves for column in _LOOKED_FOR_IN[leaf.field][1])
        parts = {leaf: terms.word_parts(leaf.value, self.term_settings) for leaf in leaves}
        for column in sorted({*columns}, key=_COLUMNS.index):
            near = {
                leaf: self._near(words, leaf.field, column) & ~verified[leaf]
                for leaf, words in parts.items()
                if column in _LOOKED_FOR_IN[leaf.field][1]
            }
            for chunks, texts in self._texts(column, np.logical_or.reduce([*near.values()])):
                for leaf, mask in near.items():
                    rows = np.flatnonzero(mask[chunks])
                    matches = phrases.holding(texts.gather(rows), leaf.value)
                    verified[leaf][chunks[rows[matches.to_numpy()]]] = True
        return verified

    def _near(self, words: Sequence[str], field: str, column: str) -> np.ndarray:
        """The chunks that have these terms where a column may show them; those without postings may
        show anything.
        """
        fields = ("rest",) if column == _REST else _LOOKED_FOR_IN[field][0]
        return self._with_terms(words, fields) | ~self.postings.ranked

    def _texts(self, column: str, near: np.ndarray) -> Iterator[tuple[np.ndarray, pl.Series]]:
        """The texts of a column of some chunks, with the numbers of these."""
        numbers = np.flatnonzero(near)
        if not len(numbers):
            return
        if column == _SHOWN_TEXT and len(numbers) * _READ_ALONE < self.postings.chunk_count:
            rows = self._rows_of(numbers.tolist())
            yield numbers, pl.Series([rows[n]["text_display"] for n in numbers.tolist()])
            return
        batches = self.connection.execute(
            f"SELECT chunk_no, {column} AS text FROM stored_chunks WHERE {_NUMBERED}",
            {"numbers": json.dumps(numbers.tolist())},
        ).to_arrow_reader(_ROWS_AT_ONCE)
        for batch in batches:
            texts = pl.DataFrame(batch)
            yield texts.get_column("chunk_no").to_numpy(), texts.get_column("text")


def _any_word(words: Sequence[str]) -> str:
    """The pattern of texts that hold one of some words; empty words are left out."""
    return phrases.words_pattern([word for word in words if word][:_FORMS_SHOWN])
