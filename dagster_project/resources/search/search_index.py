"""The published index as it is read: queries in, ranked and cited hits out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.protocols.models import Embedder
from dagster_project.resources.arrays.arrays import SearchArrays, open_arrays
from dagster_project.resources.models.rerankers import Reranker
from dagster_project.resources.publish.versions import CURRENT, LAYOUT, require_whole
from dagster_project.resources.search.filters import Conditions, Filters, Resolved, Understood
from dagster_project.resources.search.hit_facts import with_facts
from dagster_project.resources.search.hit_table import described
from dagster_project.resources.search.index_faults import faults_translated
from dagster_project.resources.search.lookup import storable_values
from dagster_project.resources.search.second_look import SecondLook
from dagster_project.resources.system.duckdb_extensions import load_vss
from transforms.embedding.sign_codes import CodedVectors, CodeScores
from transforms.errors import IndexUnavailableError, ModelMismatchError, QueryError
from transforms.retrieval import bm25, feedback, labels, pipeline
from transforms.retrieval import fusion as ranking
from transforms.retrieval.hits import DROPPED, Report, place
from transforms.retrieval.query_language import parsed_query, plain_query, storable
from transforms.retrieval.query_rewriting import Standalone
from transforms.settings.search import SearchSettings, TermSettings
from transforms.text import terms

CODE_CANDIDATES = 15_000
"""Vectors with the most signs in common with a query, which are looked at twice; of a million they hold .983 of the ten
nearest, 10,000 hold .980."""
CODE_RESCORED = 2_000
"""The best of these, whose cosines are computed."""
_HNSW_EF_SEARCH = 256
"""Candidates that HNSW keeps while it searches: recall@10 .86, .96, .99 and 1.0 at 32, 64, 128 and 256."""
_CELLS_AT_ONCE = 1 << 25
_SAMPLE = 1000
_SHOWN = {"title": "title", "text": "text_display"}
"""What a chunk shows of the fields that its terms are of."""

Mask = np.ndarray | None
Method = TypeVar("Method", bound=Callable[..., Any])


def _translating_faults(method: Method) -> Method:
    """The method of a SearchIndex, with the faults of its database as those of Weft."""

    @wraps(method)
    def run(self: SearchIndex, *args: Any, **kwargs: Any) -> Any:
        with faults_translated(self.path):
            return method(self, *args, **kwargs)

    return cast(Method, run)


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

    def __init__(self, index: SearchIndex, queries: Sequence[str], first: int, masks: Sequence[Mask]):
        self.index, self.queries, self.first, self.masks = index, list(queries), first, list(masks)
        self._lexical: tuple[str, list[bm25.TermScores]] | None = None
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

    @cached_property
    def asked(self) -> dict[tuple[str, ...], list[list[str]]]:
        """The terms of the queries, by the stopwords that are left out."""
        return {}

    def terms(self, settings: SearchSettings) -> list[list[str]]:
        """The terms of each query."""
        if settings.stopwords not in self.asked:
            table = self.index.query_terms(self.queries, settings.stopwords)
            self.asked[settings.stopwords] = bm25.terms_by_query(table, len(self.queries))
        return self.asked[settings.stopwords]

    def lexical(self, settings: SearchSettings) -> list[bm25.TermScores]:
        """BM25 scores of each query; kept until other scores are asked for."""
        key = bm25.lexical_key(settings)
        if self._lexical is None or self._lexical[0] != key:
            start = time.perf_counter()
            weights = self.index.weighed(settings)
            scores = [
                bm25.TermScores(words, self.index.postings, weights, mask)
                for words, mask in zip(self.terms(settings), self.masks, strict=True)
            ]
            run = map if len(scores) == 1 else self.index.threads.map
            for _ in run(lambda score: score.best(settings.candidates_lexical), scores):
                pass
            self._lexical = (key, scores)
            self.seconds["lexical"] = time.perf_counter() - start
        return self._lexical[1]


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
        with faults_translated(path):
            self.connection = duckdb.connect(str(path), read_only=True)
            try:
                require_whole(self.connection, path)
            except duckdb.Error:
                self.connection.close()
                raise
            self.manifest = dict(self.connection.execute("SELECT key, value FROM manifest").fetchall())
            self.connection.execute("SET TimeZone = 'UTC'")
            # Arrays beside a hollow file would hide what it lacks.
            self.connection.execute("FROM chunks LIMIT 0")
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
        self.threads = ThreadPoolExecutor(os.cpu_count())
        self._weighed: tuple[str, bm25.Weighed] | None = None
        self._asked: tuple[tuple[tuple[str, ...], tuple[str, ...]], pa.Table] | None = None

    def close(self) -> None:
        """Let go of the file."""
        self.threads.shutdown()
        self.connection.close()

    @_translating_faults
    def search(
        self,
        queries: Sequence[str],
        filters: Filters = Filters(),
        limit: int | None = None,
        plain: bool = False,
    ) -> SearchResult:
        """The best messages and documents for each query, best first, described: `schemas.SEARCH_HITS`.

        Queries are read by `transforms.retrieval.query_language`; if `plain`, nothing in them is syntax. One that is
        the id of a mail, document or chunk finds that alone; one with conditions and no text finds what
        meets them, the newest first; these hits have no scores.
        """
        start = time.perf_counter()
        asked = self.resolved(queries, filters, plain)
        found = self.found(asked, filters, limit)
        hits = described(
            self.connection,
            self.arrays.rows,
            found.hits,
            found.constituents,
            self._wanted([query.text for query in asked]),
            self.term_settings,
            self.settings,
        )
        understood = tuple(query.understood for query in asked)
        return SearchResult(hits, found.labels, understood, self.vector_path, time.perf_counter() - start)

    @_translating_faults
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

    @_translating_faults
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
        batches = self._batches([query.text for query in asked], [query.mask for query in asked])
        parts = [self._hits(batch, settings, report) for batch in batches]
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

    @_translating_faults
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
        lexical scores depend on, those that ask a model last.

        Returns the hits (`profile`, `label` and the columns of `pipeline.RANKED`), and the seconds each
        profile would take alone; `done` is told of each profile that is through with a batch.
        """
        asks = self.reranker is not None and self.reranker.scorer is not None
        costs = {n: asks and settings.rerank == "as_set" for n, settings in profiles.items()}
        order = sorted(profiles, key=lambda n: (costs[n], bm25.lexical_key(profiles[n]), n))
        seconds = dict.fromkeys(profiles, 0.0)
        # What is read once per process would be counted for the first profile.
        _ = self.arrays, self.embedder.embed_queries(["?"])
        columns = {"profile": pl.String, "label": pl.String, **pipeline.RANKED}
        parts = [pl.DataFrame(schema=columns)]
        texts = [plain_query(query).text for query in queries]
        for batch in self._batches(texts, [None] * len(texts)):
            for name in order:
                batch.lexical(profiles[name])
                before, start = batch.seconds["vector"], time.perf_counter()
                settings = profiles[name].model_copy(update={"limit": limit})
                found = self._hits(batch, settings, partial(report, name))
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

    def _batches(self, queries: Sequence[str], masks: Sequence[Mask]) -> Iterator[_Batch]:
        step = max(1, _CELLS_AT_ONCE // max(1, self.chunk_count))
        for first in range(0, len(queries), step):
            rows = slice(first, first + step)
            yield _Batch(self, queries[rows], first, masks[rows])

    @property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        return self.postings.chunk_count

    @cached_property
    def arrays(self) -> SearchArrays:
        """What is read most, mapped into memory."""
        return open_arrays(self.connection, self.path, self.manifest)

    @cached_property
    def _conditions(self) -> Conditions:
        """What filters and queries are evaluated by."""
        return Conditions(self.connection, self.term_settings, self.arrays)

    @property
    def postings(self) -> bm25.Postings:
        """The inverted index."""
        return self.arrays.postings

    @property
    def places(self) -> ranking.Places:
        """Document and thread of each chunk, by chunk number; what is no mail is a thread of its own."""
        return self.arrays.places

    @property
    def logs(self) -> np.ndarray:
        """Which chunks are logs or build output, a mask by chunk number."""
        return self.arrays.logs

    @property
    def vectors(self) -> np.ndarray:
        """The vectors of all chunks by chunk number, float32 of shape (chunks, dimensions); zeros for none."""
        return self.arrays.vectors.vectors

    @property
    def unembedded(self) -> np.ndarray:
        """The numbers of the chunks without a vector, because the model refuses their text."""
        return self.arrays.vectors.absent

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
        return self.vectors[np.setdiff1d(np.arange(0, self.chunk_count, step), self.unembedded)]

    def weighed(self, settings: SearchSettings) -> bm25.Weighed:
        """What the weights of these settings make of the inverted index; the last is kept."""
        key = bm25.lexical_key(settings)
        if self._weighed is None or self._weighed[0] != key:
            self._weighed = key, bm25.weighed(self.postings, settings)
        return self._weighed[1]

    def _hits(
        self,
        batch: _Batch,
        settings: SearchSettings,
        report: Report | None,
    ) -> Found:
        """What the queries of a batch find."""
        look = SecondLook(self.reranker, batch.queries, batch.first, settings)
        progress = pipeline.started(self._candidates(batch, settings), report)
        progress = pipeline.through(progress, pipeline.pooling(settings), settings, report)
        facts = pipeline.facts(settings)
        progress = progress._replace(hits=with_facts(self.connection, self.vectors, progress.hits, facts))
        behind = pipeline.scaling(settings)
        if look.reranker is not None:
            behind.append(pipeline.Stage("reranked", lambda hits, _: look.step(hits, self.arrays.rows)))
        behind += pipeline.finishing(settings)
        progress = pipeline.through(progress, behind, settings, report)
        support = pl.Series(self._supports(progress.hits, batch, settings), dtype=pl.Float64)
        ranked = progress.hits.with_columns(rank=place(), support=support).select(*pipeline.RANKED)
        told = labels.runtime_labels(ranked, range(batch.first, batch.first + len(batch.queries)), settings)
        return Found(ranked, pipeline.constituents(progress.hits, progress.dropped), told)

    def _supports(self, hits: pl.DataFrame, batch: _Batch, settings: SearchSettings) -> np.ndarray:
        """The share of the words of its query that stands in each hit; hits are in the order of their queries."""
        queries, chunks = (hits.get_column(name).to_numpy() for name in ("query", "chunk_no"))
        scores = batch.lexical(settings)
        edges = np.searchsorted(queries, np.arange(batch.first, batch.first + len(scores) + 1))
        parts = [
            score.support(chunks[a:b]) for score, a, b in zip(scores, edges[:-1], edges[1:], strict=True)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def _candidates(self, batch: _Batch, settings: SearchSettings) -> pl.DataFrame:
        """The candidates of each query that asks for something, one query after the other."""
        # Other threads look at the vectors meanwhile.
        vectors = self._vector_scores(batch, settings)
        scores, asked = batch.lexical(settings), batch.terms(settings)
        parts = [pl.DataFrame(schema=ranking.FUSED)]
        for number, vector in enumerate(vectors):
            if not asked[number]:
                continue  # nothing but signs and blanks is asked
            logs = None if ranking.is_diagnostic(batch.queries[number]) else self.logs
            mask = batch.masks[number]
            fusion = ranking.Fusion(scores[number], vector, settings, logs)
            if feedback.is_wanted(scores[number].high, scores[number].most, settings):
                first = ranking.first_candidates(feedback.CHUNKS, fusion, mask, self.places)
                wide = self._with_feedback(asked[number], first, mask, settings)
                if wide is not None:
                    fusion = ranking.Fusion(scores[number], vector, settings, logs, wide)
            parts.append(ranking.fused_candidates(batch.first + number, fusion, mask, self.places))
        return pl.concat(parts)

    def _with_feedback(
        self, asked: Sequence[str], chunks: np.ndarray, mask: Mask, settings: SearchSettings
    ) -> bm25.TermScores | None:
        """The lexical scores of a query with terms of some chunks; None if one is of a kind without any."""
        rows = self.arrays.rows.of(chunks.tolist())
        if any(row["source_kind"] not in feedback.KINDS for row in rows.values()):
            return None
        texts = [
            (chunk, field, row[column]) for chunk, row in rows.items() for field, column in _SHOWN.items()
        ]
        counted = terms.numbered_terms(texts, self.term_settings)
        weights = self.weighed(settings)
        expanded = feedback.expanded_terms(asked, counted, self.postings, weights, settings)
        return bm25.TermScores(expanded, self.postings, weights, mask)

    def _vector_scores(self, batch: _Batch, settings: SearchSettings) -> Iterator[ranking.Scores]:
        """Scores of each query, on the way that `vector_search` names.

        A filter beside the HNSW index would lose hits in silence, and so does an index with many
        deleted rows: when it returns fewer chunks than it was asked for, another way is taken.
        """
        near = self._by_hnsw(batch, settings) if settings.vector_search == "ann" else None
        if near is not None:
            self.vector_path = "hnsw"
            return iter(near)
        if settings.vector_search == "exact" or self.chunk_count <= settings.exact_max_chunks:
            self.vector_path = "exact"
            return map(ranking.ExactScores, batch.products, batch.masks)
        self.vector_path = "codes"
        rescored = max(CODE_RESCORED, settings.candidates_vector)
        looked_at = max(CODE_CANDIDATES, rescored)
        held = self.arrays.vectors
        return self.threads.map(
            lambda query, mask: CodeScores(query, held, mask, looked_at, rescored), batch.vectors, batch.masks
        )

    def _by_hnsw(self, batch: _Batch, settings: SearchSettings) -> list[HnswScores] | None:
        """Scores by the HNSW index; None where there is none, or if a query is filtered or finds too few."""
        if self.manifest["vector_search"] != "hnsw" or any(mask is not None for mask in batch.masks):
            return None
        self.connection.execute(f"SET hnsw_ef_search = {_HNSW_EF_SEARCH}")
        wanted = min(settings.candidates_vector, self.chunk_count - len(self.unembedded))
        near = [self.hnsw_scores(query, wanted) for query in batch.vectors]
        return near if all(len(scores.nearest) == wanted for scores in near) else None

    def hnsw_scores(self, query: np.ndarray, k: int) -> HnswScores:
        """The `k` nearest chunks of a query by the HNSW index, which the file must have."""
        return HnswScores(self.connection, query, k, self.arrays.vectors, self.vector_sample)

    def query_terms(self, queries: Sequence[str], stopwords: Sequence[str]) -> pa.Table:
        """The terms of the queries, by number of the query, as this index is asked for them; the last are kept."""
        key = (tuple(queries), tuple(stopwords))
        if self._asked is None or self._asked[0] != key:
            self._asked = key, terms.query_terms(queries, self.term_settings, stopwords, self.postings.df)
        return self._asked[1]

    def _wanted(self, queries: Sequence[str]) -> list[set[str]]:
        """The terms of each query."""
        asked = self.query_terms(queries, self.settings.stopwords)
        return [set(words) for words in bm25.terms_by_query(asked, len(queries))]

    def frame(self, statement: str, ids: list[str] | None = None) -> pl.DataFrame:
        """The rows of a statement; `ids` is its parameter `$ids`."""
        parameters = {} if ids is None else {"ids": ids}
        table = self.connection.execute(statement, parameters).to_arrow_table()
        return pl.from_arrow(table)  # type: ignore[return-value]


class HnswScores:
    """The nearest chunks of one query by the HNSW index; the scores of others are read when asked for."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        query: np.ndarray,
        k: int,
        held: CodedVectors,
        sample: np.ndarray,
    ):
        self.query, self.vectors, self.absent = query, held.vectors, held.absent
        self.low = float((sample @ query).min())
        rows = connection.execute(
            f"SELECT chunk_no FROM embeddings ORDER BY array_cosine_distance(vector, ?::FLOAT[{len(query)}]) "
            f"LIMIT {int(k)}",
            [query.tolist()],
        ).fetchnumpy()
        found = np.asarray(rows["chunk_no"], dtype=np.int64)
        scores = self.of(found)
        self.nearest = found[np.lexsort((found, -scores))]
        self.high = float(scores.max(initial=self.low))

    def best(self, k: int) -> np.ndarray:
        """The `k` nearest chunks, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64; the lowest for a chunk without a vector."""
        scores = (self.vectors[chunks] @ self.query).astype(np.float64)
        scores[np.isin(chunks, self.absent)] = self.low
        return scores


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
    file = link.resolve()
    # An instance of its own: connections to one file share theirs, and what is locked here would be for all.
    with duckdb.connect() as connection:
        with faults_translated(file):
            quoted = str(file).replace("'", "''")
            connection.execute(f"ATTACH '{quoted}' AS \"{file.stem}\" (READ_ONLY)")
            connection.execute(f'USE "{file.stem}"')
            require_whole(connection, file)
            for closing in (
                "TimeZone = 'UTC'",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                connection.execute(f"SET {closing}")
        with faults_translated(file, own=False):
            return connection.execute(storable(statement), storable_values(values or {})).to_arrow_table()
