"""The published index as it is searched: queries in, ranked and cited hits out."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.protocols.models import Embedder
from dagster_project.index.files.arrays import SearchArrays
from dagster_project.index.search.conditions.copies import at_named_places
from dagster_project.index.search.filters import Resolved
from dagster_project.index.search.hit_table import (
    RankedHits,
    SearchResult,
    continued,
    described,
    without_hits,
)
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.opened_version import OpenedVersion
from dagster_project.index.search.query_batch import QueryBatch
from dagster_project.index.search.ranking import BY_FILE, Ranking, row_batches
from dagster_project.index.search.repeats import Asks, enough, said_once
from dagster_project.index.search.second_look import SecondLook
from dagster_project.models.language_models import Reranker
from transforms.errors import QueryError
from transforms.retrieval import bm25, collapse, cutoffs, labels, pipeline
from transforms.retrieval.counts import Count
from transforms.retrieval.cutoffs import near_or_first
from transforms.retrieval.hits import FACTS, REVISION, Report, nothing_dropped, places
from transforms.retrieval.query_language import Query, parsed_query, plain_query
from transforms.retrieval.search_filters import Filters
from transforms.retrieval.small_tables import arrow_series, rows_at, with_values
from transforms.schemas.search import SEARCH_HITS
from transforms.settings.search import SearchSettings, TermSettings
from transforms.text import synonyms

_GROUPED = 10
"""Documents that are looked at for each thread or document that is shown once."""
Method = TypeVar("Method", bound=Callable[..., Any])


def _translating_faults(method: Method) -> Method:
    """The method of a SearchIndex, with the faults of its database as those of Weft."""

    @wraps(method)
    def run(self: SearchIndex, *args: Any, **kwargs: Any) -> Any:
        with faults_translated(self.path):
            return method(self, *args, **kwargs)

    return cast(Method, run)


class SearchIndex(OpenedVersion):
    """One published version that is searched with some settings."""

    def __init__(
        self,
        path: Path,
        embedder: Embedder,
        term_settings: TermSettings,
        settings: SearchSettings,
        reranker: Reranker | None = None,
    ):
        super().__init__(path, embedder, term_settings)
        self.settings, self.reranker = settings, reranker
        self.ranking: Ranking = BY_FILE

    def ranked_by(self, ranking: Ranking) -> None:
        """Let a ranking score the chunks of this version from now on."""
        self.ranking, self.vectors_elsewhere = ranking, ranking.vectors

    @_translating_faults
    def search(
        self,
        queries: Sequence[str],
        filters: Filters = Filters(),
        limit: int | None = None,
        plain: bool = False,
        settings: SearchSettings | None = None,
    ) -> SearchResult:
        """The best messages and documents for each query, best first, described:
        `schemas.SEARCH_HITS`.

        Queries are read by `transforms.retrieval.query_language`; if `plain`, nothing in them is
        syntax. One that is the id of a mail, document or chunk finds that alone; one with
        conditions and no text finds the texts that meet them, the newest first; these hits have no
        scores. A query without conditions that is labelled NO_RESULTS has no hits, unless `weak` is
        set. QueryError if one is empty and there are no filters. `settings` replace those of the
        index.
        """
        start, settings = time.perf_counter(), settings or self.settings
        resolved = self.resolved(queries, filters, plain)
        limit = limit or settings.limit
        ranked = self.ranked(resolved, filters, limit, settings=settings, folds=True)
        return self.shown(resolved, ranked, limit, settings, start)

    @_translating_faults
    def shown(
        self,
        resolved: Sequence[Resolved],
        ranked: RankedHits,
        limit: int,
        settings: SearchSettings,
        start: float,
    ) -> SearchResult:
        """The result of `search` from queries and their `ranked` hits: the first `limit` hits of
        each, described, those that say the same as another one folded into it.

        With `settings.weak` also the hits of a query without a near one; `start` is when the search
        began.
        """
        asks = _asks(resolved, settings)
        understood = {number: query.understood for number, query in enumerate(resolved)}
        hidden = {
            n
            for n, label in enumerate(ranked.labels)
            if label == labels.NOTHING and not settings.weak
        }
        if far := {n: understood[n] for n in hidden - asks.complete}:
            ranked, notes = without_hits(
                self,
                ranked,
                far,
                lambda text: labels.NOTHING not in self.ranked([text], settings=settings).labels,
            )
            understood |= notes
        rows, folded_in = self._once(resolved, ranked, limit, settings, asks)
        at_named_places(self.connection, rows, [query.places for query in resolved])
        for number, query in enumerate(resolved):
            shown = [row for row in rows if row["query"] == number]
            if unmet := query.preferences.unmet(shown):
                understood[number] = understood[number]._replace(note=unmet)
        hits = SEARCH_HITS.from_rows(rows)
        seconds = time.perf_counter() - start
        stated = self.completeness.lacking(map(self.screen.text, ranked.missing))
        all_counts = self._counts(resolved, ranked.hits, settings.label_weak, limit)
        counts = (count.without(folded_in[number]) for number, count in enumerate(all_counts))
        return SearchResult(
            hits=hits,
            labels=ranked.labels,
            understood=(*understood.values(),),
            counts=tuple(counts),
            vector_path=ranked.vector_path,
            seconds=seconds,
            completeness=stated,
        )

    def _once(
        self,
        resolved: Sequence[Resolved],
        ranked: RankedHits,
        limit: int,
        settings: SearchSettings,
        asks: Asks,
    ) -> tuple[list[dict[str, Any]], Mapping[int, int]]:
        """The first `limit` hits of each query, described, those that say the same as another one
        folded into it, and how many hits of each query were folded.
        """
        terms = self.query_terms([query.text for query in resolved], settings.stopwords)
        masks = [query.mask for query in resolved]
        folded_in: dict[int, int] = defaultdict(int)

        def select(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            described_rows = {(row["query"], row["chunk_id"]) for row in rows}
            once = said_once(rows, limit, asks)
            folded = Counter({row["query"]: 0 for row in rows})
            for row in once:
                ids = {(row["query"], part["chunk_id"]) for part in row["folded"]}
                folded[row["query"]] += len(ids & described_rows)
            # Hits that are described again, with more behind them, are counted again.
            folded_in.update(folded)
            return once

        queries, rank = (ranked.hits.get_column(name).to_numpy() for name in ("query", "rank"))

        def rows_of(is_near: np.ndarray) -> list[dict[str, Any]]:
            hits = rows_at(ranked.hits, np.flatnonzero(is_near))
            near = replace(ranked, hits=hits, dropped=pipeline.into_hits(ranked.dropped, hits))
            return described(self, near, terms, settings, masks, select)

        return enough(rows_of, queries, rank, limit), folded_in

    def _versions_once(self, ranked: RankedHits, asks: Asks) -> RankedHits:
        """The hits with one version of each patch, but for queries that list what they find."""
        listing, others = ranked.hits.clear(), ranked.hits
        if asks.listing:
            is_listing = np.isin(others.get_column("query").to_numpy(), list(asks.listing))
            listing = rows_at(others, np.flatnonzero(is_listing))
            others = rows_at(others, np.flatnonzero(~is_listing))
        hits, dropped = collapse.versions_once(others, self.arrays.patches, asks.as_ranked)
        if dropped.is_empty():
            return ranked
        hits = with_values(hits, rank=places(hits))
        hits = pl.concat([hits, listing]).sort("query", "rank") if len(listing) else hits
        return replace(ranked, hits=hits, dropped=pipeline.merged(hits, [ranked.dropped, dropped]))

    def _counts(
        self, resolved: Sequence[Resolved], hits: pl.DataFrame, least: float, first: int
    ) -> list[Count]:
        """How many hits each query has: all of a list, else those that are near (`near_or_first`)."""
        near = near_or_first(hits, least, first)
        queries, chunks = (hits.get_column(n).to_numpy()[near] for n in ("query", "chunk_no"))
        places, counts = self.arrays.places, []
        for number, query in enumerate(resolved):
            own = chunks[queries == number]
            if is_listing := query.listed is not None and not query.text:
                documents = places.document[query.listed]
                stays = collapse.stays(None, documents, places.is_mail[query.listed])
                own = query.listed[stays]
            counts.append(Count(len(own), len(np.unique(places.thread[own])), is_listing))
        return counts

    @_translating_faults
    def resolved(
        self, queries: Sequence[str], filters: Filters = Filters(), plain: bool = False
    ) -> list[Resolved]:
        """The queries as `search` reads them, with the chunks that they and the filters allow."""
        if any(not query.strip() for query in queries) and filters == Filters():
            raise QueryError(
                "the query is empty: name words to look for, or a field such as from:ann"
            )
        read = [
            replace(plain_query(query), asks=False) if plain else parsed_query(query)
            for query in queries
        ]
        return [self.conditions.resolved(self._with_synonyms(query), filters) for query in read]

    def _with_synonyms(self, query: Query) -> Query:
        """The query with synonyms of its words, which count half."""
        words = synonyms.added(query.text, self.settings.synonyms)
        factors = (*query.factors, *((word, synonyms.FACTOR) for word in words))
        return (
            replace(query, text=" ".join([query.text, *words]), factors=factors) if words else query
        )

    @_translating_faults
    def ranked(
        self,
        queries: Sequence[str | Resolved],
        filters: Filters = Filters(),
        limit: int | None = None,
        report: Report | None = None,
        settings: SearchSettings | None = None,
        folds: bool = False,
    ) -> RankedHits:
        """The hits of `search`, not described; plain text is under these filters, resolved queries
        have theirs.

        `report` gets the list of each stage. `settings` replace those of the index. With `folds` each
        patch is there in one version, and all hits come that the stages look at; labels keep to the
        limit.
        """
        settings = settings or self.settings
        if limit:
            settings = settings.model_copy(update={"limit": limit})
        resolved = [
            self.conditions.resolved(plain_query(query), filters)
            if isinstance(query, str)
            else query
            for query in queries
        ]
        parts = []
        for batch in row_batches(
            self.ranking,
            self,
            [q.text for q in resolved],
            [q.mask for q in resolved],
            [q.factors for q in resolved],
            [q.fields for q in resolved],
        ):
            batch.preferences = [resolved[number].preferences for number in batch.numbers]
            batch.demanding = {n for n in batch.numbers if resolved[n].demands_text}
            parts.append(self._to_limit(batch, settings, report, folds))
        ranked = self._with_listed(_joined(parts), resolved, settings, folds)
        return self._versions_once(ranked, _asks(resolved, settings)) if folds else ranked

    def _with_listed(
        self,
        ranked: RankedHits,
        resolved: Sequence[Resolved],
        settings: SearchSettings,
        folds: bool,
    ) -> RankedHits:
        """The hits with those of queries that have conditions and no text.

        A text that meets a condition was asked for: the label is PASS.
        """
        counts = Counter(ranked.hits.get_column("query").to_list())
        passing = {number for number in counts if resolved[number].demands_text}
        hits = ranked.hits
        if any(query.listed is not None for query in resolved):
            most = max(settings.limit, settings.pool) if folds else settings.limit
            listed = self.conditions.listed(resolved, most, settings.per_document, counts)
            passing |= {*listed.get_column("query").to_list()} - {*counts}
            hits = pl.concat([hits, listed], how="diagonal").sort("query", "rank")
        by_query = (
            "PASS" if number in passing else label for number, label in enumerate(ranked.labels)
        )
        return replace(ranked, hits=hits, labels=tuple(by_query))

    @_translating_faults
    def rank_each(
        self,
        queries: Sequence[str],
        profiles: Mapping[str, SearchSettings],
        limit: int,
        report: Callable[[str, str, pl.DataFrame, pl.DataFrame], None],
        done: Callable[[str], None] = lambda profile: None,
    ) -> tuple[pl.DataFrame, dict[str, float]]:
        """Rank the queries with every profile; `report` gets the profile and the arguments of a
        `hits.Report`.

        The common work of profiles is done once: it takes profiles in the order of the settings
        that their lexical scores depend on, those that need a model last.

        Returns the hits (`profile`, `label` and the columns of `pipeline.RANKED`), and the seconds
        each profile would take alone; `done` gets each profile that is through with a batch.
        """
        has_model = self.reranker is not None and self.reranker.scorer is not None
        costs = {n: has_model and settings.rerank == "as_set" for n, settings in profiles.items()}
        order = sorted(profiles, key=lambda n: (costs[n], bm25.lexical_key(profiles[n]), n))
        seconds = dict.fromkeys(profiles, 0.0)
        # Else the first profile would count the reads that a process does once.
        _ = self.arrays, self.embedder.embed_queries(["?"])
        columns = {"profile": pl.String, "label": pl.String, **pipeline.RANKED}
        parts = [pl.DataFrame(schema=columns)]
        preferences = [self.conditions.preferences(plain_query(query)) for query in queries]
        texts = [of_query.wishes.rest for of_query in preferences]
        for batch in row_batches(self.ranking, self, texts, [None] * len(texts)):
            batch.preferences = [preferences[number] for number in batch.numbers]
            for name in order:
                batch.lexical(profiles[name])
                before, start = batch.seconds["vector"], time.perf_counter()
                settings = profiles[name].model_copy(update={"limit": limit})
                ranked = self._to_limit(batch, settings, partial(report, name))
                by_query = pl.Series(ranked.labels, dtype=pl.String)
                label = by_query.gather(ranked.hits["query"] - batch.first)
                parts.append(
                    ranked.hits.with_columns(profile=pl.lit(name), label=label).select(*columns)
                )
                own = time.perf_counter() - start - (batch.seconds["vector"] - before)
                seconds[name] += own + sum(batch.seconds.values())
                done(name)
        return pl.concat(parts), seconds

    def _to_limit(
        self,
        batch: QueryBatch,
        settings: SearchSettings,
        report: Report | None,
        is_whole: bool = False,
    ) -> RankedHits:
        """The hits of a batch, as many as the limit or, if `is_whole`, as the stages look at; a longer
        list begins with the hits of a shorter one, so that neither the first hits nor the label
        depend on how many are shown.

        A limit above `labels.JUDGED` looks deeper if the depth of that one gives too few: all up to
        the pool look equally deep, so that they continue with the same hits.
        """
        count = max(settings.limit, settings.pool) if is_whole else settings.limit
        depth = settings.model_copy(update={"limit": labels.JUDGED})
        is_deep = settings.limit > labels.JUDGED and self.chunk_count > depth.candidates_vector
        pool = max(settings.pool, labels.JUDGED)
        near = self.of_batch(batch, depth, None if is_deep else report, min(count, pool))
        counts = Counter(near.hits.get_column("query").to_list())
        is_short = any(counts[number] < min(count, 2 * settings.limit) for number in batch.numbers)
        if not is_deep or (report is None and not is_short):
            return near
        deepest = settings.model_copy(update={"limit": max(settings.limit, pool)})
        deep = self.of_batch(batch, deepest, report, count)
        return continued(near, deep, count, self.arrays.places)

    def of_batch(
        self,
        batch: QueryBatch,
        settings: SearchSettings,
        report: Report | None = None,
        count: int | None = None,
    ) -> RankedHits:
        """The hits of the queries of a batch, as `ranked` has them, with the depth of the limit;
        `count` of each, that many by default.
        """
        count = count or settings.limit
        depths = _depths(settings)
        settings = settings.model_copy(update={"limit": count, **depths})
        look = SecondLook(self.reranker, batch, settings)
        progress = pipeline.started(batch.candidates(settings), report)
        pooling = pipeline.pooling(settings)
        if settings.is_strict:
            bearing = lambda hits: with_values(hits, **batch.evidence(hits, settings))  # noqa: E731
            gate = partial(cutoffs.near_enough, column="evidence", least=settings.least_evidence)
            pooling.insert(0, pipeline.SearchStage("gated", lambda hits, _: gate(bearing(hits))))
        if look.lifts:
            pooling[-1] = pipeline.SearchStage("pool", look.pooled)
        progress = pipeline.through(progress, pooling, settings, report)
        facts = pipeline.facts(settings)
        progress = progress._replace(
            hits=with_facts(self.connection, self.arrays, progress.hits, facts)
        )
        stages = pipeline.scaling(settings)
        if look.lifts:
            stages.append(pipeline.SearchStage("lifted", lambda hits, _: look.lifted(hits)))
        if look.reranker is not None:
            stages.append(pipeline.SearchStage("reranked", lambda hits, _: look.step(hits)))
            if look.lifts:
                stages.append(pipeline.SearchStage("preferred", lambda hits, _: look.lifted(hits)))
        if settings.per_document is None and settings.aggregation == "off":
            stages.append(pipeline.SearchStage("units", lambda hits, _: look.once(hits)))
        stages += pipeline.finishing(settings)
        progress = pipeline.through(progress, stages[:-1], settings, report)
        _, dropped = pipeline.through(progress, stages[-1:], settings, report)
        most = places(progress.hits) <= max(count, labels.JUDGED)
        judged = rows_at(progress.hits, np.flatnonzero(most))
        rank = places(judged)
        judged = with_values(judged, rank=rank, **look.evidence(judged))
        first = rows_at(judged, np.flatnonzero(rank <= labels.JUDGED))
        by_query = self._labels(batch, first, settings)
        hits = rows_at(judged, np.flatnonzero(rank <= count))
        ranked = hits[:, [*pipeline.RANKED]]
        missing = (*batch.missing, *look.missing)
        merged, history = pipeline.merged(hits, dropped), frozenset(batch.history)
        return RankedHits(ranked, merged, by_query, batch.vector_path, missing, history)

    def _labels(
        self, batch: QueryBatch, hits: pl.DataFrame, settings: SearchSettings
    ) -> tuple[str, ...]:
        """The label of each query of a batch by its first hits."""
        chunk, is_mail, rank, query = (
            hits.get_column(name).to_numpy() for name in ("chunk_no", "is_mail", "rank", "query")
        )
        judged = with_values(hits, is_turn=~is_mail & ~self.arrays.places.is_page[chunk])
        of_first = dict(zip(query[rank == 1].tolist(), chunk[rank == 1].tolist(), strict=True))
        unmet = {
            number
            for number, preferences in zip(batch.numbers, batch.preferences, strict=False)
            if number in of_first and not preferences.are_met(of_first[number], self.arrays.rows)
        }
        return labels.runtime_labels(judged, batch.numbers, settings, unmet)


def _joined(parts: Sequence[RankedHits]) -> RankedHits:
    """The hits of all batches as those of one."""
    return RankedHits(
        hits=pl.concat([p.hits for p in parts] or [pl.DataFrame(schema=pipeline.RANKED)]),
        dropped=pl.concat([p.dropped for p in parts] or [nothing_dropped()]),
        labels=tuple(label for p in parts for label in p.labels),
        vector_path=parts[-1].vector_path if parts else "exact",
        missing=tuple(leg for p in parts for leg in p.missing),
        history=frozenset(number for p in parts for number in p.history),
    )


def _asks(resolved: Sequence[Resolved], settings: SearchSettings) -> Asks:
    """The queries that fold less than others."""
    return Asks(
        listing=frozenset(
            n for n, query in enumerate(resolved) if not query.text and query.listed is not None
        ),
        complete=frozenset(
            n for n, query in enumerate(resolved) if query.understood.conditions or not query.text
        ),
        as_ranked=frozenset(
            n
            for n, query in enumerate(resolved)
            if query.preferences.wishes.names_a_time or not settings.latest_first
        ),
    )


def _depths(settings: SearchSettings) -> dict[str, int]:
    """The settings that say how deep a search looks: deep enough for its limit, and for one that is
    off not at all.
    """
    limit = settings.limit * (_GROUPED if settings.collapse_threads or settings.per_document else 1)
    pool = limit * (_GROUPED if settings.collapse_threads else 1)
    depths = {"candidates_lexical": 5 * limit, "candidates_vector": 3 * limit, "pool": pool}
    return {
        n: max(getattr(settings, n), most) for n, most in depths.items() if getattr(settings, n) > 1
    }


def with_facts(
    connection: duckdb.DuckDBPyConnection,
    arrays: SearchArrays,
    hits: pl.DataFrame,
    names: Sequence[str],
) -> pl.DataFrame:
    """Hits with the named columns of FACTS: those that each search needs from `arrays`, the others
    in one statement.
    """
    chunks = hits.get_column("chunk_no").to_numpy()
    if {*names} & {*REVISION}:
        patches = arrays.patches
        number = patches.number[chunks]
        is_none = number < 0
        own = (number, patches.version[chunks], patches.is_latest[chunks])
        columns = (pa.array(values, mask=is_none) for values in own)
        hits = hits.hstack(
            [
                arrow_series(n, values).cast(FACTS[n])
                for n, values in zip(REVISION, columns, strict=True)
            ]
        )
    if "vector" in names:
        hits = hits.hstack([pl.Series("vector", list(arrays.vectors.of(chunks)), FACTS["vector"])])
    if stored := [name for name in names if name not in hits.columns]:
        rows = connection.execute(_statement(stored), {"chunks": np.unique(chunks).tolist()})
        facts = pl.DataFrame(rows.to_arrow_table()).select(
            "chunk_no", *(pl.col(name).cast(FACTS[name]) for name in stored)
        )
        hits = hits.join(facts, on="chunk_no", how="left", maintain_order="left")
    return hits


class _Group(NamedTuple):
    """Facts that are read together: their names, their columns and tables, and the SQL before the
    statement.
    """

    names: tuple[str, ...]
    columns: str
    tables: str = ""
    queries: str = ""


def _statement(names: Sequence[str]) -> str:
    """The statement that reads the named facts of `$chunks`."""
    groups = [group for group in _GROUPS if set(names) & set(group.names)]
    queries = "".join(f",\n{group.queries}" for group in groups if group.queries)
    columns = ", ".join(group.columns for group in groups)
    tables = "\n".join(group.tables for group in groups)
    return (
        "WITH RECURSIVE pool AS (\n"
        "  SELECT chunk_no, source, doc_id, parent_id FROM chunks\n"
        f"  WHERE chunk_no IN (SELECT unnest($chunks::INTEGER[]))\n){queries}\n"
        f"SELECT c.chunk_no::BIGINT AS chunk_no, {columns} FROM pool c\n{tables}"
    )


_GROUPS = (
    _Group(("source",), "c.source"),
    _Group(
        ("path",),
        "p.path",
        "LEFT JOIN paths p USING (chunk_no)",
        """tree AS MATERIALIZED (
  SELECT node_id, parent_id, struct_pack(node_id, parent_id, depth, sibling_count) AS node
  FROM nodes WHERE doc_id IN (SELECT doc_id FROM pool)
), above AS (
  SELECT c.chunk_no, t.parent_id, t.node FROM pool c JOIN tree t ON t.node_id = c.parent_id
  UNION ALL SELECT a.chunk_no, t.parent_id, t.node FROM above a JOIN tree t ON t.node_id = a.parent_id
), paths AS (
  SELECT chunk_no, list(node ORDER BY node.depth DESC) AS path FROM above GROUP BY chunk_no
)""",
    ),
)
