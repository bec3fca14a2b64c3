"""Which chunks of a published index hold words and phrases: words by the postings, phrases in one pass over the texts.

Text of a mail that is in no chunk (quotes that nothing answers, signatures, reply headers) stands beside its first chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import duckdb
import numpy as np
import polars as pl

from transforms.retrieval.bm25 import FIELDS
from transforms.retrieval.postings import Postings
from transforms.retrieval.query_language import Leaf
from transforms.settings.search import TermSettings
from transforms.text import phrases, terms

_ROWS_AT_ONCE = 20_000
"""Chunks whose texts are in memory at once, some 60 MB."""
_SHORTEST, _LONG = 4, 8
"""Characters of a word that may be mistyped, and from which it may be so in two places."""
_NEAREST = """
WITH words AS (SELECT form AS word, chunk_count AS texts FROM term_forms UNION ALL SELECT term, df FROM terms)
SELECT word FROM words
WHERE texts > 1 AND word[1] = $word[1] AND abs(length(word) - length($word)) <= $slips
  AND damerau_levenshtein(word, $word) <= $slips
ORDER BY damerau_levenshtein(word, $word), texts DESC, word LIMIT 1
"""
_ALL_TF = ("title", "text", "quote", "file", "function", "added", "removed", "rest")
_OWN = ("text", "added", "removed")
# Which frequencies of the index say that a word may be there, and which columns show a phrase.
_LOOKED_FOR_IN: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (_ALL_TF, ("title", "text_display", "rest_lex")),
    "s": (("title",), ("title",)),
    "b": (_ALL_TF[1:], ("text_display", "rest_lex")),
    "nq": (_OWN, ("text_lex", "added_lex", "removed_lex")),
    "q": (("quote", "rest"), ("quote_lex", "rest_lex")),
    "dfn": (("file",), ("array_to_string(diff_files, chr(10))",)),
    "dfhh": (("function",), ("array_to_string(diff_functions, chr(10))",)),
    "dfa": (("removed",), ("removed_lex",)),
    "dfb": (("added",), ("added_lex",)),
}


class TextConditions:
    """Looks for what leaves of TEXT_FIELDS name.

    A word is looked up in the inverted index, so that it is found in other forms. A phrase, or a word with signs
    inside, is verified in the text of the chunks that have all its words.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, term_settings: TermSettings, postings: Postings
    ):
        self.connection, self.term_settings, self.postings = connection, term_settings, postings

    def holding(self, leaves: Iterable[Leaf]) -> dict[Leaf, np.ndarray]:
        """The mask of the chunks that hold what each leaf names."""
        by_word: dict[Leaf, np.ndarray] = {}
        to_verify: dict[Leaf, np.ndarray] = {}
        for leaf in leaves:
            fields, _ = _LOOKED_FOR_IN[leaf.field]
            if leaf.exact or re.fullmatch(r"\w+", leaf.value) is None:
                to_verify[leaf] = self._with_terms(terms.parts(leaf.value, self.term_settings), fields)
            else:
                stems = terms.query_terms([leaf.value.lower()], self.term_settings)
                by_word[leaf] = self._with_terms(stems.column("term").to_pylist(), fields)
        return by_word | self._verified(to_verify)

    def meant(self, query: str) -> list[str]:
        """For each word of a text that the index does not hold the most frequent one of the nearest that it does, if any.

        Near are words with the same first letter that are one slip of the keyboard away, two for long ones.
        """
        found: list[str] = []
        for word in (word.lower() for word in terms.names_in([query])[0][0] if len(word) >= _SHORTEST):
            if self.postings.df(terms.stems([word], self.term_settings)[0]):
                continue
            slips = 1 if len(word) < _LONG else 2
            row = self.connection.execute(_NEAREST, {"word": word, "slips": slips}).fetchone()
            found += [row[0]] if row and row[0] not in found else []
        return found

    def _with_terms(self, terms_: Sequence[str], fields: Sequence[str]) -> np.ndarray:
        """The chunks that hold all terms in these fields."""
        postings = self.postings
        columns = [FIELDS.index(field) for field in fields]
        has_field = np.asarray((postings.counts[:, columns] > 0).any(axis=1))
        slots = postings.slots.of(np.arange(postings.chunk_count))
        chunks = np.full(postings.chunk_count, bool(terms_))
        for term in terms_:
            holds = np.zeros(postings.slots.count, dtype=bool)
            for part in postings.parts(term):
                holds[part.slots[has_field[part.codes]]] = True
            chunks &= holds[slots]
        return chunks

    def _verified(self, near: Mapping[Leaf, np.ndarray]) -> dict[Leaf, np.ndarray]:
        """Those of the chunks `near` each leaf whose texts show it; every text is read once for all leaves."""
        verified = {leaf: np.zeros_like(mask) for leaf, mask in near.items()}
        numbers = np.flatnonzero(
            np.logical_or.reduce([*near.values(), np.zeros(self.postings.chunk_count, bool)])
        )
        if not len(numbers):
            return verified
        columns = sorted({column for leaf in near for column in _LOOKED_FOR_IN[leaf.field][1]})
        listed = ", ".join(f'{column} AS "{column}"' for column in columns)
        batches = self.connection.execute(
            f"SELECT chunk_no, {listed} FROM chunks WHERE chunk_no IN (SELECT unnest($numbers::INTEGER[]))",
            {"numbers": numbers.tolist()},
        ).to_arrow_reader(_ROWS_AT_ONCE)
        for batch in batches:
            texts = pl.DataFrame(batch)
            chunks = texts.get_column("chunk_no").to_numpy()
            for leaf, mask in near.items():
                rows = np.flatnonzero(mask[chunks])
                for column in _LOOKED_FOR_IN[leaf.field][1]:
                    matches = phrases.holding(texts.get_column(column).gather(rows), leaf.value)
                    verified[leaf][chunks[rows[matches.to_numpy()]]] = True
        return verified
