"""The published index as it is read: queries in, ranked and cited hits out."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.protocols import Embedder
from dagster_project.resources.duckdb_extensions import load_vss
from dagster_project.resources.filters import Conditions, Filters
from dagster_project.resources.publisher import CURRENT
from dagster_project.resources.rerankers import Reranker
from transforms import lexical, ranking, reranking, snippets, terms
from transforms.errors import IndexUnavailableError, ModelMismatchError, QueryError
from transforms.settings import SearchSettings, TermSettings
from transforms.standalone_queries import Standalone
from transforms.vectors import stacked

_CELLS_AT_ONCE = 1 << 25
_SAMPLE = 1000
_MANY_TERMS = 400


@dataclass(frozen=True)
class SearchResult:
    """Hits of a batch of queries (see `SearchIndex.search`), how vectors were searched, and the time."""

    hits: pa.Table
    vector_path: str
    seconds: float

    def as_json(self, queries: Sequence[Standalone], version: str) -> dict[str, Any]:
        """What `weft search --json` prints: one entry per query with its hits, and how it was understood."""
        rows = self.hits.to_pylist()
        for row in rows:
            row["effective_at"] = row["effective_at"] and row["effective_at"].isoformat()
        return {
            "outcome": "HITS" if rows else "NO_RESULTS",
            "version": version,
            "vector_path": self.vector_path,
            "seconds": round(self.seconds, 6),
            "queries": [
                {
                    "query": q.given,
                    "explain": {"given": q.given, "used": q.used, "rewritten_by": q.by},
                    "hits": [r for r in rows if r["query"] == i],
                }
                for i, q in enumerate(queries)
            ],
        }


class _Batch:
    """Some queries that are scored together; what several settings have in common is computed once."""

    def __init__(self, index: SearchIndex, queries: Sequence[str], first: int):
        self.index, self.queries, self.first = index, list(queries), first
        self._lexical: tuple[str, np.ndarray, np.ndarray] | None = None
        self.seconds = {"lexical": 0.0, "vector": 0.0}

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors of the queries."""
        return self.index.embedder.embed_queries([q if q.strip() else "?" for q in self.queries])

    @cached_property
    def products(self) -> np.ndarray:
        """Cosine of every query with every chunk."""
        start = time.perf_counter()
        made = self.vectors @ self.index.vectors.T
        self.seconds["vector"] = time.perf_counter() - start
        return np.asarray(made)

    def lexical(self, settings: SearchSettings) -> tuple[np.ndarray, np.ndarray]:
        """BM25 scores of all chunks, and which queries ask for any term; kept until other scores are asked for."""
        key = lexical.lexical_key(settings)
        if self._lexical is None or self._lexical[0] != key:
            start = time.perf_counter()
            asked = terms.query_terms(self.queries, self.index.term_settings, settings.stopwords)
            scores = lexical.bm25_scores(asked, len(self.queries), self.index.postings(asked), settings)
            answerable = np.zeros(len(self.queries), dtype=bool)
            answerable[np.unique(asked.column("query").to_numpy())] = True
            self._lexical = (key, scores, answerable)
            self.seconds["lexical"] = time.perf_counter() - start
        return self._lexical[1], self._lexical[2]


class SearchIndex:
    """One published version, opened read-only; what it is asked often for is kept in memory."""

    def __init__(
        self,
        path: Path,
        embedder: Embedder,
        term_settings: TermSettings,
        settings: SearchSettings,
        reranker: Reranker | None = None,
    ):
        self.path, self.embedder, self.reranker = path, embedder, reranker
        self.term_settings, self.settings = term_settings, settings
        try:
            self.connection = duckdb.connect(str(path), read_only=True)
            self.manifest = dict(self.connection.execute("SELECT key, value FROM manifest").fetchall())
        except duckdb.Error as error:
            raise IndexUnavailableError(
                f"{path} cannot be opened as a published index ({str(error).splitlines()[0]}); "
                "`weft build` publishes a new one"
            ) from error
        self.connection.execute("SET TimeZone = 'UTC'")
        held = (self.manifest["model"], int(self.manifest["dimensions"]))
        if held != (embedder.model, embedder.dimensions):
            raise ModelMismatchError(
                f"{path} holds vectors of {held[0]} with {held[1]} dimensions, the settings name {embedder.model} "
                f"with {embedder.dimensions}: run `weft build` with these settings, or search with the old ones"
            )
        if self.manifest["vector_search"] == "hnsw":
            load_vss(self.connection)
        self.vector_path = "exact"
        self._conditions = Conditions(self.connection)

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def search(
        self, queries: Sequence[str], filters: Filters = Filters(), limit: int | None = None
    ) -> SearchResult:
        """The best messages and documents for each query, best first.

        `hits` has the columns of `transforms.ranking.RANKED` and `transforms.reranking.RERANKED`,
        and of the chunk and its mail or document: chunk_id, doc_id, source_kind, chunk_kind,
        node_id, breadcrumb, attachment_id, filename, source, list_id, subject (title of a document),
        path, from_name, from_addr, effective_at, block_index, byte_start, byte_end, thread_id, thread_subject,
        thread_position, thread_size, snippet, highlights (half-open character ranges in it).
        """
        start = time.perf_counter()
        hits = self._described(self.rank(queries, filters, limit), queries)
        return SearchResult(hits, self.vector_path, time.perf_counter() - start)

    def rank(
        self,
        queries: Sequence[str],
        filters: Filters = Filters(),
        limit: int | None = None,
        per_document: int = 1,
        report: ranking.Report | None = None,
    ) -> pl.DataFrame:
        """What `search` ranks, undescribed: the columns of RANKED and RERANKED, by query and rank.

        Up to `per_document` chunks of each document are hits of their own. `report` is told the list
        that each stage makes.
        """
        limit = limit or self.settings.limit
        depth = limit if self.reranker is None else max(limit, self.reranker.settings.top)
        allowed = [self._conditions.mask(filters)] * len(queries)
        parts = [
            hits
            for batch in self._batches(queries)
            for hits in self._ranked(batch, allowed, depth, self.settings, per_document, report)
        ]
        ranked = pl.concat([pl.DataFrame(schema=ranking.RANKED), *parts])
        if self.reranker is None:
            return reranking.unranked(ranked)
        diagnostic = [ranking.is_diagnostic(q, self.settings) for q in queries]
        candidates = self._candidates(ranked, self.reranker.settings.top)
        again = self.reranker.reranked(ranked, candidates, queries, diagnostic, limit)
        if report is not None:
            for query, hits in again.group_by("query", maintain_order=True):
                chunks = hits.get_column("chunk_no").to_numpy()
                scores = hits.get_column("rerank_score").fill_null(np.nan).to_numpy()
                report(int(str(query[0])), ranking.RERANKED_STAGE, chunks, scores)
        return again

    def _candidates(self, ranked: pl.DataFrame, top: int) -> pl.DataFrame:
        """What reranking reads of the first `top` hits of each query: the columns CANDIDATES."""
        first = ranked.filter(pl.col("rank") <= top)
        chosen = first.get_column("chunk_no").unique()
        numbers = ", ".join(str(int(n)) for n in chosen) or "-1"
        chunks = self.frame(_PASSAGES.format(numbers=numbers)).with_columns(pl.col("chunk_no").cast(pl.Int64))
        threads = pl.Series(self.places.thread[first.get_column("chunk_no").to_numpy()])
        hits = first.with_columns(thread=threads).join(
            chunks, on="chunk_no", how="left", maintain_order="left"
        )
        return hits.select(pl.col(name).cast(kind) for name, kind in reranking.CANDIDATES.items())

    def rank_each(
        self,
        queries: Sequence[str],
        profiles: Mapping[str, SearchSettings],
        limit: int,
        report: Callable[[str, int, str, np.ndarray, np.ndarray], None],
        done: Callable[[str], None] = lambda profile: None,
    ) -> tuple[pl.DataFrame, dict[str, float]]:
        """Rank the queries with every profile, telling `report` the profile and what `ranking.Report` is told.

        What profiles have in common is computed once: profiles are taken in the order of what their
        lexical scores depend on. Returns the hits (`profile` and the columns of
        `transforms.ranking.RANKED`), and the seconds each profile would take alone; `done` is told
        of each profile that is through with a batch.
        """
        order = sorted(profiles, key=lambda name: (lexical.lexical_key(profiles[name]), name))
        seconds = dict.fromkeys(profiles, 0.0)
        # What is read once per process would be counted for the first profile.
        _ = self.lengths, self.places, self.embedder.embed_queries(["?"])
        if self.manifest["vector_search"] == "exact":
            _ = self.vectors
        parts = [pl.DataFrame(schema={"profile": pl.String, **ranking.RANKED})]
        for batch in self._batches(queries):
            for name in order:
                batch.lexical(profiles[name])
                before, start = batch.seconds["vector"], time.perf_counter()
                free: list[np.ndarray | None] = [None] * len(queries)
                for hits in self._ranked(batch, free, limit, profiles[name], report=partial(report, name)):
                    parts.append(hits.select(pl.lit(name).alias("profile"), pl.all()))
                own = time.perf_counter() - start - (batch.seconds["vector"] - before)
                seconds[name] += own + sum(batch.seconds.values())
                done(name)
        return pl.concat(parts), seconds

    def _batches(self, queries: Sequence[str]) -> Iterator[_Batch]:
        step = max(1, _CELLS_AT_ONCE // max(1, self.chunk_count))
        for first in range(0, len(queries), step):
            yield _Batch(self, queries[first : first + step], first)

    def message_ids(self, chunk_numbers: Sequence[int]) -> list[str]:
        """The Message-IDs of chunks."""
        table = self.connection.execute(
            "SELECT doc_id FROM chunks JOIN (SELECT unnest($n) AS chunk_no, generate_subscripts($n, 1) AS place) "
            "USING (chunk_no) ORDER BY place",
            {"n": [int(n) for n in chunk_numbers]},
        ).fetchall()
        return [row[0] for row in table]

    @property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        return len(self.lengths["title"])

    @cached_property
    def lengths(self) -> dict[str, np.ndarray]:
        """Terms of each chunk in each field, by chunk number."""
        rows = self.connection.execute("FROM chunk_lengths ORDER BY chunk_no").fetchnumpy()
        return {f: np.asarray(rows[f"{f}_length"], dtype=np.int32) for f in lexical.FIELDS}

    @cached_property
    def places(self) -> ranking.Places:
        """Document and thread of each chunk, by chunk number; what is no mail is a thread of its own."""
        rows = self.connection.execute(
            """
            SELECT dense_rank() OVER (ORDER BY c.doc_id) - 1 AS document,
              dense_rank() OVER (ORDER BY coalesce(t.thread_id, c.doc_id)) - 1 AS thread
            FROM chunks c LEFT JOIN thread_tree t ON t.message_id = c.doc_id ORDER BY c.chunk_no
            """
        ).fetchnumpy()
        return ranking.Places(*(np.asarray(rows[n], dtype=np.int32) for n in ("document", "thread")))

    @cached_property
    def logs(self) -> np.ndarray:
        """Which chunks are logs or build output, a mask by chunk number."""
        rows = self.connection.execute(
            "SELECT content_class = 'log' AS is_log FROM chunks ORDER BY chunk_no"
        ).fetchnumpy()
        return np.asarray(rows["is_log"], dtype=bool)

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors of all chunks by chunk number, float32 of shape (chunks, dimensions)."""
        table = self.connection.execute("SELECT vector FROM embeddings ORDER BY chunk_no").to_arrow_table()
        return stacked(table, int(self.manifest["dimensions"]))

    @cached_property
    def vector_sample(self) -> np.ndarray:
        """Vectors spread evenly over the index, to know how low scores go."""
        step = max(1, self.chunk_count // _SAMPLE)
        table = self.connection.execute(
            f"SELECT vector FROM embeddings WHERE chunk_no % {step} = 0 ORDER BY chunk_no"
        ).to_arrow_table()
        return stacked(table, int(self.manifest["dimensions"]))

    def _ranked(
        self,
        batch: _Batch,
        masks: Sequence[np.ndarray | None],
        limit: int,
        settings: SearchSettings,
        per_document: int = 1,
        report: ranking.Report | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Ranked hits of each query that asks for something; `masks` has the allowed chunks of every query."""
        scores, answerable = batch.lexical(settings)
        allowed = masks[batch.first : batch.first + len(batch.queries)]
        for number, vector in enumerate(self._vector_scores(batch, allowed, settings)):
            if not answerable[number]:
                continue  # nothing but signs and blanks is asked
            logs = None if ranking.is_diagnostic(batch.queries[number], settings) else self.logs
            yield ranking.ranked_hits(
                batch.first + number,
                scores[number],
                vector,
                allowed[number],
                self.places,
                limit,
                settings,
                logs,
                per_document,
                report,
            )

    def _vector_scores(
        self, batch: _Batch, allowed: Sequence[np.ndarray | None], settings: SearchSettings
    ) -> Iterator[ranking.VectorScores]:
        """Scores of each query: by the HNSW index where there is one and no query of the batch is filtered, else exact.

        A filter beside the index would lose hits in silence, and so does an index with many
        deleted rows: when it returns fewer chunks than it was asked for, the search is exact.
        """
        self.vector_path = "exact"
        if self.manifest["vector_search"] == "hnsw" and all(mask is None for mask in allowed):
            self.connection.execute(f"SET hnsw_ef_search = {int(settings.hnsw_ef_search)}")
            wanted = min(settings.candidates_vector, self.chunk_count)
            near = [HnswScores(self.connection, query, wanted, self.vector_sample) for query in batch.vectors]
            if all(len(scores.nearest) == wanted for scores in near):
                self.vector_path = "hnsw"
                yield from near
                return
        for row, mask in zip(batch.products, allowed, strict=True):
            yield ranking.ExactScores(row, mask)

    def _asked(self, queries: Sequence[str]) -> pa.Table:
        """The terms of the queries, by number of the query."""
        return terms.query_terms(queries, self.term_settings, self.settings.stopwords)

    def postings(self, asked: pa.Table) -> lexical.Postings:
        """The postings of the terms, each read as the one run of rows that it is in the sorted table.

        Of many terms, the table is read once instead.
        """
        wanted = sorted(set(asked.column("term").to_pylist()))
        known = self.connection.execute(
            "SELECT term_id, term, df FROM terms WHERE term IN (SELECT unnest(?::VARCHAR[])) ORDER BY term_id",
            [wanted],
        ).fetchall()
        columns = ", ".join(["term_id", "chunk_no", *(f"{f}_tf" for f in lexical.FIELDS)])
        runs = [f"SELECT {columns} FROM postings WHERE term_id = {int(i)}" for i, _, _ in known]
        empty = f"SELECT {columns} FROM postings LIMIT 0"
        if len(known) > _MANY_TERMS:
            wanted_ids = [i for i, _, _ in known]
            rows = self.connection.execute(
                f"SELECT {columns} FROM postings WHERE term_id IN (SELECT unnest(?::INTEGER[])) ORDER BY term_id, chunk_no",
                [wanted_ids],
            ).to_arrow_table()
        else:
            rows = self.connection.execute(" UNION ALL ".join(runs) or empty).to_arrow_table()
        return lexical.Postings(rows, {i: (term, df) for i, term, df in known}, self.lengths)

    def _described(self, ranked: pl.DataFrame, queries: Sequence[str]) -> pa.Table:
        """The ranked hits with what a reader wants to see of each."""
        numbers = ", ".join(str(int(n)) for n in ranked.get_column("chunk_no").unique()) or "-1"
        chunks = self.frame(_CHUNKS.format(numbers=numbers))
        documents = self.frame(_DOCUMENTS, chunks.get_column("doc_id").unique().to_list())
        hits = ranked.join(chunks, on="chunk_no", how="left", maintain_order="left").join(
            documents, on="doc_id", how="left", maintain_order="left"
        )
        places = hits.select("attachment_id", "block_ends", "byte_start").iter_rows()
        blocks = pl.Series([_block_index(*place) for place in places], dtype=pl.Int64)
        wanted: list[set[str]] = [set() for _ in queries]
        asked = self._asked(queries)
        for query, term in zip(
            asked.column("query").to_pylist(), asked.column("term").to_pylist(), strict=True
        ):
            wanted[query].add(term)
        made = [
            snippets.snippet(text, wanted[query], self.term_settings)
            for text, query in zip(hits.get_column("text_display"), hits.get_column("query"), strict=True)
        ]
        return (
            hits.drop("text_display", "block_ends")
            .with_columns(
                block_index=blocks,
                snippet=pl.Series([m.text for m in made], dtype=pl.String),
                highlights=pl.Series([m.highlights for m in made], dtype=pl.List(pl.List(pl.Int64))),
            )
            .to_arrow()
        )

    def frame(self, statement: str, ids: list[str] | None = None) -> pl.DataFrame:
        """The rows of a statement; `ids` is its parameter `$ids`."""
        parameters = {} if ids is None else {"ids": ids}
        table = self.connection.execute(statement, parameters).to_arrow_table()
        return pl.from_arrow(table)  # type: ignore[return-value]


class HnswScores:
    """The nearest chunks of one query by the HNSW index; the scores of others are read when asked for."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: np.ndarray, k: int, sample: np.ndarray):
        self.connection, self.query = connection, query
        rows = connection.execute(
            f"SELECT chunk_no FROM embeddings ORDER BY array_cosine_distance(vector, ?::FLOAT[{len(query)}]) "
            f"LIMIT {int(k)}",
            [query.tolist()],
        ).fetchnumpy()
        found = np.asarray(rows["chunk_no"], dtype=np.int64)
        scores = self.of(found)
        self.nearest = found[np.lexsort((found, -scores))]
        self.low = float((sample @ query).min())
        self.high = float(scores.max(initial=self.low))

    def best(self, k: int) -> np.ndarray:
        """The `k` nearest chunks, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64."""
        numbers = ", ".join(str(int(n)) for n in chunks) or "-1"
        table = self.connection.execute(
            f"SELECT chunk_no, vector FROM embeddings WHERE chunk_no IN ({numbers}) ORDER BY chunk_no"
        ).to_arrow_table()
        scores = (stacked(table, len(self.query)) @ self.query).astype(np.float64)
        return scores[np.searchsorted(table.column("chunk_no").to_numpy(), chunks)]


def _block_index(
    attachment_id: str | None, block_ends: list[int] | None, byte_start: int | None
) -> int | None:
    """Index of the block that the first byte of a hit is in; null for attachments."""
    if attachment_id is not None or block_ends is None or byte_start is None:
        return None
    return bisect.bisect_right(block_ends, byte_start)


_CHUNKS = """
SELECT c.chunk_no::BIGINT AS chunk_no, c.chunk_id, c.doc_id, c.source_kind, c.chunk_kind, n.node_id, n.breadcrumb,
  c.attachment_id, a.filename, c.text_display,
  list_min([s.byte_start FOR s IN c.spans IF s.role = 'own']) AS byte_start,
  list_max([s.byte_end FOR s IN c.spans IF s.role = 'own']) AS byte_end
FROM (FROM chunks WHERE chunk_no IN ({numbers})) c LEFT JOIN attachments a ON a.attachment_id = c.attachment_id
LEFT JOIN nodes n ON n.node_id = c.parent_id
"""

_PASSAGES = """
SELECT c.chunk_no, c.title, c.text_display AS text, c.chunk_kind, c.content_class,
  coalesce(m.effective_at, d.modified_at, d.created_at) AS effective_at
FROM (FROM chunks WHERE chunk_no IN ({numbers})) c LEFT JOIN messages m ON m.message_id = c.doc_id
LEFT JOIN documents d ON d.doc_id = c.doc_id
"""

_DOCUMENTS = """
WITH wanted AS (SELECT unnest($ids::VARCHAR[]) AS message_id),
mails AS (FROM messages WHERE message_id IN (FROM wanted)),
places AS (FROM thread_tree WHERE message_id IN (FROM wanted)),
ends AS (
  SELECT message_id, list(byte_end ORDER BY block_index) AS block_ends FROM blocks
  WHERE message_id IN (FROM wanted) GROUP BY message_id
)
SELECT m.message_id AS doc_id, m.source, m.list_id, m.subject, NULL AS path, m.from_name, m.from_addr, m.effective_at,
  t.thread_id, t.subject AS thread_subject, p.position AS thread_position, t.message_count AS thread_size,
  e.block_ends
FROM mails m JOIN places p USING (message_id) JOIN threads t USING (thread_id) LEFT JOIN ends e USING (message_id)
UNION ALL BY NAME
SELECT doc_id, source, title AS subject, path, coalesce(modified_at, created_at) AS effective_at
FROM documents WHERE doc_id IN (SELECT message_id FROM wanted)
UNION ALL BY NAME
SELECT doc_id, source, title AS subject, first_at AS effective_at
FROM conversation_windows WHERE doc_id IN (SELECT message_id FROM wanted)
"""


def open_current(
    folder: Path,
    embedder: Embedder,
    term_settings: TermSettings,
    settings: SearchSettings,
    reranker: Reranker | None = None,
) -> SearchIndex:
    """The current version below `folder`; IndexUnavailableError if nothing is published there."""
    link = folder / CURRENT
    if not link.exists():
        raise IndexUnavailableError(f"nothing is published in {folder}: run `weft build` first")
    return SearchIndex(link.resolve(), embedder, term_settings, settings, reranker)


def query_current(folder: Path, statement: str, values: Mapping[str, object] | None = None) -> pa.Table:
    """The rows of one SQL statement on the current version, opened read-only with no access beside it.

    `values` are those of the statement's named parameters.
    """
    link = folder / CURRENT
    if not link.exists():
        raise IndexUnavailableError(f"nothing is published in {folder}: run `weft build` first")
    if not statement.strip(" ;\n\t"):
        raise QueryError("the SQL statement is empty")
    try:
        with duckdb.connect(str(link.resolve()), read_only=True) as connection:
            for closing in (
                "TimeZone = 'UTC'",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                connection.execute(f"SET {closing}")
            return connection.execute(statement, dict(values or {})).to_arrow_table()
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
