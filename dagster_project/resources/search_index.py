"""The published index as it is read: queries in, ranked and cited hits out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.protocols import Embedder
from dagster_project.resources.described_hits import described
from dagster_project.resources.duckdb_extensions import load_vss
from dagster_project.resources.filters import Conditions, Filters, Resolved, Understood
from dagster_project.resources.hit_facts import HitFacts, Judging
from dagster_project.resources.published import LAYOUT
from dagster_project.resources.publisher import CURRENT
from dagster_project.resources.rerankers import Reranker
from transforms import labels, lexical, pipeline, ranking, terms
from transforms.errors import IndexUnavailableError, ModelMismatchError, QueryError
from transforms.hits import DROPPED, Report, place
from transforms.query_language import parsed_query, plain_query
from transforms.settings import SearchSettings, TermSettings
from transforms.standalone_queries import Standalone
from transforms.vectors import stacked

_CELLS_AT_ONCE = 1 << 25
_SAMPLE = 1000
_MANY_TERMS = 400


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Faults of the database while `path` is read, as IndexUnavailableError."""
    try:
        yield
    except duckdb.Error as error:
        raise IndexUnavailableError(
            f"{path} cannot be read as a published index ({str(error).splitlines()[0]}); delete it and run "
            "`weft build`, which publishes a new one"
        ) from error


@dataclass(frozen=True)
class SearchResult:
    """Hits of a batch of queries (`schemas.SEARCH_HITS`) and how vectors were searched, with the time in seconds.

    Each query has a label and what it was understood as.
    """

    hits: pa.Table
    labels: tuple[str, ...]
    understood: tuple[Understood, ...]
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
                    "label": label,
                    "explain": {"given": q.given, "used": q.used, "rewritten_by": q.by},
                    "understood": self.understood[i]._asdict(),
                    "hits": [r for r in rows if r["query"] == i],
                }
                for i, (q, label) in enumerate(zip(queries, self.labels, strict=True))
            ],
        }


@dataclass(frozen=True)
class Found:
    """What a batch found: hits (`pipeline.RANKED`), what they stand for (`pipeline.constituents`), labels."""

    hits: pl.DataFrame
    constituents: pl.DataFrame
    labels: tuple[str, ...]


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
        made = self.index.cosines(self.vectors)
        self.seconds["vector"] = time.perf_counter() - start
        return made

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
        with reading(path):
            self.connection = duckdb.connect(str(path), read_only=True)
            self.manifest = dict(self.connection.execute("SELECT key, value FROM manifest").fetchall())
            self.connection.execute("SET TimeZone = 'UTC'")
        if (layout := self.manifest.get("layout_version")) != LAYOUT:
            raise IndexUnavailableError(
                f"{path} has the layout {layout or 'of an older version'}, this version of Weft reads layout {LAYOUT}: "
                "run `weft build`, which publishes a new file"
            )
        held = (self.manifest["model"], int(self.manifest["dimensions"]))
        if held != (embedder.model, embedder.dimensions):
            raise ModelMismatchError(
                f"{path} holds vectors of {held[0]} with {held[1]} dimensions, the settings name {embedder.model} "
                f"with {embedder.dimensions}: run `weft build` with these settings, or search with the old ones"
            )
        if self.manifest["vector_search"] == "hnsw":
            load_vss(self.connection)
        self.vector_path = "exact"
        self._conditions = Conditions(self.connection, term_settings)

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def search(
        self,
        queries: Sequence[str],
        filters: Filters = Filters(),
        limit: int | None = None,
        plain: bool = False,
    ) -> SearchResult:
        """The best messages and documents for each query, best first, described: `schemas.SEARCH_HITS`.

        Queries are read by `transforms.query_language`; if `plain`, nothing in them is syntax. One that is
        the id of a mail, document or chunk finds that alone; one with conditions and no text finds what
        meets them, the newest first; these hits have no scores.
        """
        start = time.perf_counter()
        with reading(self.path):
            asked = self.resolved(queries, filters, plain)
            found = self.found(asked, filters, limit)
            hits = described(
                self.connection,
                found.hits,
                found.constituents,
                self._wanted([query.text for query in asked]),
                self.term_settings,
                self.settings,
            )
        understood = tuple(query.understood for query in asked)
        return SearchResult(hits, found.labels, understood, self.vector_path, time.perf_counter() - start)

    def resolved(
        self, queries: Sequence[str], filters: Filters = Filters(), plain: bool = False
    ) -> list[Resolved]:
        """The queries as `search` reads them, with what they and the filters allow."""
        read = plain_query if plain else parsed_query
        return [self._conditions.resolved(read(query), filters) for query in queries]

    def rank(
        self,
        queries: Sequence[str],
        filters: Filters = Filters(),
        limit: int | None = None,
        per_document: int | None = None,
        report: Report | None = None,
    ) -> pl.DataFrame:
        """What `search` ranks, undescribed: the columns of `pipeline.RANKED`, by query and rank.

        Up to `per_document` chunks of each document are hits of their own. `report` is told the list
        that each stage makes. Queries are plain text.
        """
        return self.found(queries, filters, limit, per_document, report).hits

    def found(
        self,
        queries: Sequence[str | Resolved],
        filters: Filters = Filters(),
        limit: int | None = None,
        per_document: int | None = None,
        report: Report | None = None,
        settings: SearchSettings | None = None,
    ) -> Found:
        """What the queries find under these filters; resolved ones have them applied already.

        `settings` are others than those of the index.
        """
        changed = {"limit": limit, "per_document": per_document}
        settings = (settings or self.settings).model_copy(update={k: v for k, v in changed.items() if v})
        asked = [
            self._conditions.resolved(plain_query(query), filters) if isinstance(query, str) else query
            for query in queries
        ]
        masks = [query.mask for query in asked]
        batches = self._batches([query.text for query in asked])
        parts = [self._hits(batch, masks, settings, report) for batch in batches]
        nothing = Found(pl.DataFrame(schema=pipeline.RANKED), pl.DataFrame(schema=DROPPED), ())
        listed = self._conditions.listed(asked, settings.limit, settings.per_document)
        labels_ = [label for p in parts for label in p.labels]
        for number in listed.get_column("query").unique():
            labels_[number] = "PASS"
        return Found(
            pl.concat([nothing.hits, *(p.hits for p in parts), listed], how="diagonal").sort("query", "rank"),
            pl.concat([nothing.constituents, *(p.constituents for p in parts)]),
            tuple(labels_),
        )

    def rank_each(
        self,
        queries: Sequence[str],
        profiles: Mapping[str, SearchSettings],
        limit: int,
        report: Callable[[str, str, pl.DataFrame, pl.DataFrame], None],
        done: Callable[[str], None] = lambda profile: None,
    ) -> tuple[pl.DataFrame, dict[str, float]]:
        """Rank the queries with every profile, telling `report` the profile and what `hits.Report` is told.

        What profiles have in common is computed once: profiles are taken in the order of what their
        lexical scores depend on. Returns the hits (`profile`, `label` and the columns of `pipeline.RANKED`),
        and the seconds each profile would take alone; `done` is told of each profile that is through
        with a batch.
        """
        order = sorted(profiles, key=lambda name: (lexical.lexical_key(profiles[name]), name))
        seconds = dict.fromkeys(profiles, 0.0)
        # What is read once per process would be counted for the first profile.
        _ = self.lengths, self.places, self.embedder.embed_queries(["?"])
        if self.manifest["vector_search"] == "exact":
            _ = self.vectors
        columns = {"profile": pl.String, "label": pl.String, **pipeline.RANKED}
        parts = [pl.DataFrame(schema=columns)]
        for batch in self._batches(queries):
            for name in order:
                batch.lexical(profiles[name])
                before, start = batch.seconds["vector"], time.perf_counter()
                settings = profiles[name].model_copy(update={"limit": limit})
                free: list[np.ndarray | None] = [None] * len(queries)
                found = self._hits(batch, free, settings, partial(report, name))
                told = pl.Series(found.labels, dtype=pl.String)
                parts.append(
                    found.hits.with_columns(
                        profile=pl.lit(name), label=told.gather(found.hits["query"] - batch.first)
                    ).select(*columns)
                )
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
        """The vectors of all chunks by chunk number, float32 of shape (chunks, dimensions); zeros for none."""
        table = self.connection.execute("SELECT vector FROM embeddings ORDER BY chunk_no").to_arrow_table()
        found = stacked(table, int(self.manifest["dimensions"]))
        if not len(self.unembedded):
            return found
        made = np.zeros((self.chunk_count, found.shape[1]), dtype=np.float32)
        made[np.setdiff1d(np.arange(self.chunk_count), self.unembedded)] = found
        return made

    @cached_property
    def unembedded(self) -> np.ndarray:
        """The numbers of the chunks without a vector, because the model refuses their text."""
        rows = self.connection.execute(
            "SELECT chunk_no FROM chunks ANTI JOIN embeddings USING (chunk_no) ORDER BY chunk_no"
        ).fetchnumpy()
        return np.asarray(rows["chunk_no"], dtype=np.int64)

    def cosines(self, queries: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Cosine of each query with each chunk, float32 of shape (queries, chunks); -inf without a vector.

        Written to `out` if it is given.
        """
        made = np.matmul(queries, self.vectors.T, out=out)
        made[:, self.unembedded] = -np.inf
        return made

    @cached_property
    def vector_sample(self) -> np.ndarray:
        """Vectors spread evenly over the index, to know how low scores go."""
        step = max(1, self.chunk_count // _SAMPLE)
        table = self.connection.execute(
            f"SELECT vector FROM embeddings WHERE chunk_no % {step} = 0 ORDER BY chunk_no"
        ).to_arrow_table()
        return stacked(table, int(self.manifest["dimensions"]))

    def _hits(
        self,
        batch: _Batch,
        masks: Sequence[np.ndarray | None],
        settings: SearchSettings,
        report: Report | None,
    ) -> Found:
        """What the queries of a batch find; `masks` has the allowed chunks of every query."""
        judging = Judging(self.reranker, batch.queries, batch.first, settings)
        settings = settings if judging.is_on else settings.model_copy(update={"rerank": "off"})
        facts = HitFacts(self.connection, int(self.manifest["dimensions"]), judging)
        made = pipeline.processed(self._candidates(batch, masks, settings), facts, settings, report)
        most = self._most_of(batch.queries, settings)[made.hits.get_column("query").to_numpy() - batch.first]
        support = pl.col("lexical_score") / pl.Series(most, dtype=pl.Float64)
        ranked = made.hits.with_columns(rank=place(), support=support).select(*pipeline.RANKED)
        told = labels.runtime_labels(ranked, range(batch.first, batch.first + len(batch.queries)), settings)
        return Found(ranked, made.constituents, told)

    def _candidates(
        self, batch: _Batch, masks: Sequence[np.ndarray | None], settings: SearchSettings
    ) -> pl.DataFrame:
        """The candidates of each query that asks for something, one query after the other."""
        scores, answerable = batch.lexical(settings)
        allowed = masks[batch.first : batch.first + len(batch.queries)]
        parts = [pl.DataFrame(schema=ranking.FUSED)]
        for number, vector in enumerate(self._vector_scores(batch, allowed, settings)):
            if not answerable[number]:
                continue  # nothing but signs and blanks is asked
            logs = None if ranking.is_diagnostic(batch.queries[number], settings) else self.logs
            parts.append(
                ranking.fused_candidates(
                    batch.first + number, scores[number], vector, allowed[number], self.places, settings, logs
                )
            )
        return pl.concat(parts)

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
            wanted = min(settings.candidates_vector, self.chunk_count - len(self.unembedded))
            near = [HnswScores(self.connection, query, wanted, self.vector_sample) for query in batch.vectors]
            if all(len(scores.nearest) == wanted for scores in near):
                self.vector_path = "hnsw"
                yield from near
                return
        for row, mask in zip(batch.products, allowed, strict=True):
            yield ranking.ExactScores(row, mask)

    def _most_of(self, queries: Sequence[str], settings: SearchSettings) -> np.ndarray:
        """The lexical score that no chunk can exceed, for each query; 1 where it asks for no term."""
        asked = terms.query_terms(queries, self.term_settings, settings.stopwords)
        known = dict(
            self.connection.execute(
                "SELECT term, df FROM terms WHERE term IN (SELECT unnest(?::VARCHAR[]))",
                [sorted(set(asked.column("term").to_pylist()))],
            ).fetchall()
        )
        most = np.zeros(len(queries))
        for query, term in zip(*(asked.column(c).to_pylist() for c in ("query", "term")), strict=True):
            most[query] += lexical.idf(known.get(term, 0), self.chunk_count)
        return np.where(most > 0, most, 1.0)

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

    def _wanted(self, queries: Sequence[str]) -> list[set[str]]:
        """The terms of each query."""
        wanted: list[set[str]] = [set() for _ in queries]
        asked = self._asked(queries)
        for query, term in zip(*(asked.column(c).to_pylist() for c in ("query", "term")), strict=True):
            wanted[query].add(term)
        return wanted

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
        self.low = float((sample @ query).min())
        scores = self.of(found)
        self.nearest = found[np.lexsort((found, -scores))]
        self.high = float(scores.max(initial=self.low))

    def best(self, k: int) -> np.ndarray:
        """The `k` nearest chunks, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64; the lowest for a chunk without a vector."""
        numbers = ", ".join(str(int(n)) for n in chunks) or "-1"
        table = self.connection.execute(
            f"SELECT chunk_no, vector FROM embeddings WHERE chunk_no IN ({numbers}) ORDER BY chunk_no"
        ).to_arrow_table()
        scores = (stacked(table, len(self.query)) @ self.query).astype(np.float64)
        found = np.full(len(chunks), self.low)
        _, asked, held = np.intersect1d(chunks, table.column("chunk_no").to_numpy(), return_indices=True)
        found[asked] = scores[held]
        return found


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
