"""What hits must satisfy, as a mask on the chunks of a published index that is applied before candidates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl

from dagster_project.resources.arrays.arrays import id_hash
from transforms.errors import QueryError, QuerySyntaxError
from transforms.retrieval.query_language import (
    TEXT_FIELDS,
    Both,
    Condition,
    Either,
    Leaf,
    Negation,
    Query,
    storable,
    time_span,
)
from transforms.settings.search import TermSettings
from transforms.text import terms


@dataclass(frozen=True)
class Filters:
    """What hits must satisfy, beside the conditions of their query; all that are given hold.

    `kind` is `message`, `attachment`, `document` or `conversation`, `has` is `patch` or `attachment`.
    The time of a document is the one its frontmatter gives; one without is in no span of time.
    `list_id`, `source`, `author`, `path`, `tag` and `family` are understood as the query language
    understands l:, source:, f:, path:, tag: and family:.
    """

    list_id: str | None = None
    source: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    author: str | None = None
    path: str | None = None
    tag: str | None = None
    has: str | None = None
    family: str | None = None

    @property
    def conditions(self) -> list[Leaf]:
        """The filters as conditions of the query language; those on time are not among them."""
        named = {
            "l": self.list_id,
            "source": self.source,
            "kind": self.kind,
            "f": self.author,
            "path": self.path,
            "tag": self.tag,
            "has": self.has,
            "family": self.family,
        }
        return [Leaf(name, storable(value)) for name, value in named.items() if value is not None]


class Understood(NamedTuple):
    """How a query was understood: what ranks, and each condition with the chunks that meet it alone.

    `order` is score, newest (nothing ranks) or id (the query is one); `note` says what was tried in vain.
    """

    text: str
    conditions: list[dict[str, Any]]
    order: str
    note: str | None


class Resolved(NamedTuple):
    """A query on one index: the text that ranks, the chunks that are allowed, how it was understood.

    Without a text the hits are the chunks of `listed`: none if that is null.
    """

    text: str
    mask: np.ndarray | None
    understood: Understood
    listed: np.ndarray | None = None


_ALL_TF = ("title", "text", "quote", "file", "function", "added", "removed")
_OWN = ("text", "added", "removed")
# Which frequencies of the index say that a word may be there, and which columns show a phrase.
_LOOKED_FOR_IN: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (_ALL_TF, ("title", "text_display")),
    "s": (("title",), ("title",)),
    "b": (_ALL_TF[1:], ("text_display",)),
    "nq": (_OWN, ("text_lex", "added_lex", "removed_lex")),
    "q": (("quote",), ("quote_lex",)),
    "dfn": (("file",), ("array_to_string(diff_files, chr(10))",)),
    "dfhh": (("function",), ("array_to_string(diff_functions, chr(10))",)),
    "dfa": (("removed",), ("removed_lex",)),
    "dfb": (("added",), ("added_lex",)),
}

DATED = """
SELECT message_id AS doc_id, effective_at AS dated_at FROM messages
UNION ALL SELECT doc_id, coalesce(modified_at, created_at) FROM documents
UNION ALL SELECT doc_id, first_at FROM conversation_windows
"""
"""The time of every mail, document and window."""

# A path is looked for as whole components, the last with or without its ending, anywhere in the path; * stands for
# any characters.
_AT_PATH = " OR ".join(
    f"path GLOB {before} || $path || {after}" for before in ("''", "'*/'") for after in ("''", "'/*'", "'.*'")
)

# Statements that give the numbers of the chunks of documents whose field has the value.
_CHUNKS_OF = "SELECT chunk_no FROM chunks WHERE doc_id IN ({})"
_STATEMENTS = {
    "m": "SELECT chunk_no FROM chunks WHERE doc_id = $value",
    "l": _CHUNKS_OF.format("SELECT message_id FROM memberships WHERE list_id IN (SELECT unnest($names))"),
    "source": "SELECT chunk_no FROM chunks WHERE source IN (SELECT unnest($names))",
    "tag": _CHUNKS_OF.format(
        "SELECT doc_id FROM (SELECT doc_id, unnest(tags) AS tag FROM documents) WHERE tag IN (SELECT unnest($names))"
    ),
    "kind": "SELECT chunk_no FROM chunks WHERE source_kind = $value",
    "f": _CHUNKS_OF.format(
        "SELECT message_id FROM messages "
        "WHERE regexp_matches(from_name, $pattern) OR regexp_matches(from_addr, $pattern)"
    ),
    "path": f"""
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT doc_id FROM documents WHERE {_AT_PATH})
UNION SELECT chunk_no FROM (SELECT chunk_no, unnest(diff_files) AS path FROM chunks) WHERE {_AT_PATH}
""",
    "thread": _CHUNKS_OF.format(
        "SELECT message_id FROM thread_tree WHERE thread_id = $value OR thread_id IN "
        "(SELECT thread_id FROM thread_tree WHERE message_id = $value)"
    ),
    "family": _CHUNKS_OF.format(
        "SELECT message_id FROM families WHERE family_id = $value OR family_id IN "
        "(SELECT family_id FROM families WHERE message_id = $value)"
    ),
}
_HAS = {
    "patch": _CHUNKS_OF.format("SELECT doc_id FROM chunks WHERE has_patch_markers"),
    "attachment": _CHUNKS_OF.format("SELECT message_id FROM attachments"),
}
_NAMES = {
    "l": ("mailing list", "SELECT DISTINCT list_id FROM memberships WHERE list_id IS NOT NULL ORDER BY ALL"),
    "source": ("source", "SELECT DISTINCT source FROM chunks ORDER BY ALL"),
    "tag": ("tag", "SELECT DISTINCT unnest(tags) FROM documents ORDER BY ALL"),
}
_BREAK = r"[^\p{L}\p{M}\p{N}]"


class Conditions:
    """Conditions evaluated on the tables of one published index.

    A condition holds for a mail, document or window as a whole: a phrase may stand in any of its
    chunks, and `-word` leaves out all chunks of a mail that holds the word in one.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, term_settings: TermSettings, ids: np.ndarray):
        """`ids` are those of `SearchArrays`."""
        self.connection, self.term_settings, self.ids = connection, term_settings, ids

    @cached_property
    def document(self) -> np.ndarray:
        """Number of the document of each chunk."""
        rows = self.connection.execute(
            "SELECT dense_rank() OVER (ORDER BY doc_id) - 1 AS document FROM chunks ORDER BY chunk_no"
        ).fetchnumpy()
        return np.asarray(rows["document"], dtype=np.int64)

    def mask(self, filters: Filters, conditions: Sequence[Condition] = ()) -> np.ndarray | None:
        """Which chunks meet all filters and conditions, by chunk number; None if there are none.

        Of a document that meets them, the chunks that hold what is looked for in text are allowed;
        all of them if nothing is, or if none of them does.
        """
        wanted = [*filters.conditions, *conditions]
        if not wanted and filters.since is None and filters.until is None:
            return None
        met = self._dated(filters.since, filters.until)
        holding = self._nothing
        for condition in wanted:
            met &= self._met(condition, holding)
        shown = holding & met
        with_shown = np.zeros(int(self.document.max(initial=-1)) + 1, dtype=bool)
        with_shown[self.document[shown]] = True
        return np.asarray(met & (shown | ~with_shown[self.document]))

    def resolved(self, query: Query, filters: Filters) -> Resolved:
        """What a query asks of this index, beside the filters."""
        mask = self.mask(filters, query.conditions)
        named = self._identified(query.identifier, mask)
        told = [
            {"condition": str(condition), "chunks": int(self._met(condition, self._nothing).sum())}
            for condition in query.conditions
        ]
        if len(named):
            return Resolved("", mask, Understood("", told, "id", None), named)
        note = None
        if re.fullmatch(r"<[^\s<>]+@[^\s<>]+>", query.given.strip()):
            note = (
                f"no mail of the index has the Message-ID {query.given.strip()}; it was searched for as text"
            )
        if mask is not None and not any(map(str.isalnum, query.text)):
            return Resolved("", mask, Understood("", told, "newest", note), self._newest(mask))
        return Resolved(query.text, mask, Understood(query.text, told, "score", note))

    def listed(self, queries: Sequence[Resolved], limit: int, per_document: int) -> pl.DataFrame:
        """The hits of queries that list chunks, up to `per_document` of a document: scores are 0.

        Columns are query, rank, chunk_no and the scores of `pipeline.RANKED` that no hit goes without.
        """
        columns = {"query": pl.Int32, "rank": pl.Int32, "chunk_no": pl.Int64}
        scores = ("score", "fused_score", "thread_score", "lexical_score", "vector_score", "support")
        parts = [pl.DataFrame(schema=columns)]
        for number, query in enumerate(queries):
            if query.listed is None:
                continue
            chunks = query.listed
            documents = pl.Series(self.document[chunks])
            first = pl.DataFrame({"chunk_no": chunks, "document": documents}).filter(
                pl.int_range(pl.len()).over("document") < per_document
            )
            placed = first.head(limit).with_columns(query=number, rank=pl.int_range(1, pl.len() + 1))
            parts.append(placed.select(pl.col(name).cast(kind) for name, kind in columns.items()))
        return pl.concat(parts).with_columns(pl.lit(0.0).alias(name) for name in scores)

    def _identified(self, identifier: str | None, mask: np.ndarray | None) -> np.ndarray:
        """The allowed chunks of what has this id, in the order of the document; none if nothing has."""
        if identifier is None:
            return np.empty(0, dtype=np.int64)
        # Most queries are no id, which their hashes tell without a scan.
        hashed = np.uint64(id_hash(identifier))
        if np.searchsorted(self.ids, hashed) == np.searchsorted(self.ids, hashed, side="right"):
            return np.empty(0, dtype=np.int64)
        rows = self.connection.execute(
            "SELECT chunk_no FROM chunks WHERE doc_id = $id OR chunk_id = $id OR parent_id = $id "
            "AND source_kind = 'document' ORDER BY attachment_id IS NOT NULL, attachment_id, chunk_index, chunk_no",
            {"id": identifier},
        ).fetchall()
        found = np.array([number for (number,) in rows], dtype=np.int64)
        return found if mask is None else found[mask[found]]

    def _newest(self, mask: np.ndarray) -> np.ndarray:
        """The allowed chunks, those of the newest document first; what has no time is last."""
        return self._by_time[mask[self._by_time]]

    @cached_property
    def _by_time(self) -> np.ndarray:
        """All chunks, those of the newest document first."""
        rows = self.connection.execute(
            f"SELECT chunk_no FROM chunks LEFT JOIN ({DATED}) USING (doc_id) ORDER BY dated_at DESC NULLS LAST, doc_id, "
            "attachment_id IS NOT NULL, attachment_id, chunk_index, chunk_no"
        ).fetchnumpy()
        return np.asarray(rows["chunk_no"], dtype=np.int64)

    @property
    def _nothing(self) -> np.ndarray:
        """No chunk."""
        return np.zeros(len(self.document), dtype=bool)

    def _met(self, condition: Condition, holding: np.ndarray) -> np.ndarray:
        """Which chunks meet a condition; those that hold a text it looks for are added to `holding`."""
        if isinstance(condition, Negation):
            return ~self._met(condition.part, self._nothing)
        if isinstance(condition, Both):
            return np.logical_and.reduce([self._met(part, holding) for part in condition.parts])
        if isinstance(condition, Either):
            return np.logical_or.reduce([self._met(part, holding) for part in condition.parts])
        if condition.field == "d":
            return self._dated(*(time_span(condition.value) or (None, None)))
        if condition.field not in TEXT_FIELDS:
            return self._with_value(condition)
        found = self._holding(condition)
        holding |= found
        documents = np.zeros(int(self.document.max(initial=-1)) + 1, dtype=bool)
        documents[self.document[found]] = True
        return documents[self.document]

    def _with_value(self, leaf: Leaf) -> np.ndarray:
        """The chunks whose mail, document or own row has the value of a leaf."""
        if leaf.field in _NAMES:
            return self._numbered(_STATEMENTS[leaf.field], names=self._names(leaf))
        if leaf.field == "has":
            return self._numbered(_HAS[leaf.value])
        if leaf.field == "f":
            return self._numbered(_STATEMENTS["f"], pattern=_phrase_pattern(leaf.value))
        if leaf.field == "path":
            return self._numbered(_STATEMENTS["path"], path=leaf.value.strip("/"))
        bare = leaf.value if leaf.field == "kind" else leaf.value.removeprefix("<").removesuffix(">")
        return self._numbered(_STATEMENTS[leaf.field], value=bare)

    def _names(self, leaf: Leaf) -> list[str]:
        """The known lists, sources or tags that a value names; a fault names the known ones if it names none.

        Case is ignored, * and ? are wildcards, a tag names those below it, too.
        """
        what, statement = _NAMES[leaf.field]
        known = [str(row[0]) for row in self.connection.execute(statement).fetchall()]
        pattern = re.escape(leaf.value.removeprefix("#")).replace(r"\*", ".*").replace(r"\?", ".")
        below = "(?:/.*)?" if leaf.field == "tag" else ""
        named = [name for name in known if re.fullmatch(pattern + below, name, re.I | re.S)]
        if not named:
            reason = f"no {what} is called {leaf.value!r}; the index holds {', '.join(known[:20]) or 'none'}"
            raise QuerySyntaxError(leaf.query, leaf.position, reason) if leaf.query else QueryError(reason)
        return named

    def _dated(self, since: datetime | None, until: datetime | None) -> np.ndarray:
        """The chunks of what is from between two times; of everything if neither is given."""
        if since is None and until is None:
            return np.ones(len(self.document), dtype=bool)
        return self._numbered(
            f"SELECT chunk_no FROM chunks JOIN ({DATED}) USING (doc_id) "
            "WHERE ($since IS NULL OR dated_at >= $since) AND ($until IS NULL OR dated_at < $until)",
            since=since,
            until=until,
        )

    def _holding(self, leaf: Leaf) -> np.ndarray:
        """The chunks that hold a word or phrase.

        A word is looked up in the inverted index, so that it is found in other forms. A phrase, or
        a word with signs inside, is verified in the text of the chunks that have all its words.
        """
        fields, columns = _LOOKED_FOR_IN[leaf.field]
        counted = terms.counted_terms(pl.Series([leaf.value.lower()], dtype=pl.String), self.term_settings)
        wanted = set(counted.get_column("term").to_list())
        verify = leaf.exact or re.fullmatch(r"\w+", leaf.value) is None
        if verify:
            wanted = set(terms.parts(leaf.value, self.term_settings))
        found = self._with_terms(wanted, fields)
        if not verify:
            return found
        shown = " OR ".join(f"regexp_matches({column}, $pattern)" for column in columns)
        return self._numbered(
            f"SELECT chunk_no FROM chunks WHERE chunk_no IN (SELECT unnest($found::INTEGER[])) AND ({shown})",
            found=np.flatnonzero(found).tolist(),
            pattern=_phrase_pattern(leaf.value),
        )

    def _with_terms(self, wanted: set[str], fields: Sequence[str]) -> np.ndarray:
        """The chunks that hold all terms in these fields."""
        there = " OR ".join(f"{field}_tf > 0" for field in fields)
        found = np.full(len(self.document), bool(wanted))
        for term in sorted(wanted):
            found &= self._numbered(
                "SELECT chunk_no FROM terms JOIN postings USING (term_id) JOIN chunks USING (chunk_key) "
                f"WHERE term = $term AND ({there})",
                term=term,
            )
        return found

    def _numbered(self, statement: str, **values: Any) -> np.ndarray:
        """The mask of the chunks whose numbers a statement gives."""
        numbers = self.connection.execute(statement, values).fetchnumpy()["chunk_no"]
        mask = self._nothing
        mask[np.asarray(numbers, dtype=np.int64)] = True
        return mask


def _phrase_pattern(phrase: str) -> str:
    """RE2 pattern that finds a phrase as whole words, in any case; a blank stands for whatever is no letter or digit."""
    words = f"{_BREAK}+".join(re.escape(word) for word in phrase.split())
    before = rf"(?:^|{_BREAK})" if phrase.strip()[:1].isalnum() else ""
    behind = rf"(?:{_BREAK}|$)" if phrase.strip()[-1:].isalnum() else ""
    return f"(?is){before}{words}{behind}"
