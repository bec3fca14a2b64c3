"""The reasons why a search returns its hits, and not others."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from dagster_project.index.search.filters import Understood
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.search_index import SearchIndex
from transforms.errors import QueryError, UnknownIdError, shortened
from transforms.retrieval.explanation import INDEPENDENT, Moment, StageTable, fate, stage_steps
from transforms.retrieval.search_filters import Filters
from transforms.signs import sign_languages
from transforms.text.storable import storable


@dataclass(frozen=True)
class Fate:
    """The fate of one id: a sentence that answers, and the stages on the way."""

    id: str
    answer: str
    moments: tuple[Moment, ...]


@dataclass(frozen=True)
class Explanation:
    """Every stage of the search for one query, with names of its chunks: chunk_id, mail or node,
    title, by number.
    """

    query: str
    label: str
    understood: Understood
    version: str
    vector_path: str
    seconds: float
    stages: tuple[StageTable, ...]
    names: dict[int, tuple[str, str, str]]
    fate: Fate | None

    def as_json(self, rows: int) -> dict[str, Any]:
        """The output of `weft search --stages --json`: for each stage the first `rows` that stay
        and that go.
        """
        return {
            "query": self.query,
            "label": self.label,
            "signs": list(sign_languages(self.query)),
            "lifts": list(self.understood.lifts),
            "version": self.version,
            "vector_path": self.vector_path,
            "seconds": round(self.seconds, 6),
            "stages": [
                {
                    "stage": table.stage,
                    "seconds": round(table.seconds, 6),
                    "hits": table.steps["rank"].count(),
                    "dropped": table.steps["reason"].count(),
                    "rows": [
                        self._row(row) for row in _first(table.steps, rows).iter_rows(named=True)
                    ],
                }
                for table in self.stages
            ],
            **({} if self.fate is None else {"id": self._fate(self.fate)}),
        }

    def name(self, chunk: int | None) -> tuple[str, str, str]:
        """chunk_id, mail or node, and title of a chunk; empty for none."""
        return self.names.get(chunk, ("", "", "")) if chunk is not None else ("", "", "")

    def ways(self, rows: int) -> list[tuple[tuple[str, str, str], list[int | None]]]:
        """The names of the first hits, and the place of each in the list of every stage."""
        ranks = [dict(table.steps.select("chunk_no", "rank").iter_rows()) for table in self.stages]
        hits = (
            self.stages[-1].steps.drop_nulls("rank").head(rows)["chunk_no"] if self.stages else []
        )
        return [(self.name(chunk), [of_stage.get(chunk) for of_stage in ranks]) for chunk in hits]

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        chunk_id, place, title = self.name(row.pop("chunk_no"))
        into = self.name(row.pop("into"))[0] or None
        return {"chunk_id": chunk_id, "id": place, "title": title, **row, "into": into}

    def _fate(self, fate: Fate) -> dict[str, Any]:
        moments = []
        for stage, chunk, rank, score, reason, into in fate.moments:
            place = {"stage": stage, "chunk_id": self.name(chunk)[0], "rank": rank, "score": score}
            moments.append(place | {"reason": reason, "into": self.name(into)[0] or None})
        return {"id": fate.id, "answer": fate.answer, "stages": moments}


@dataclass
class _Watch:
    tables: list[StageTable] = field(default_factory=list)
    before: pl.DataFrame | None = None
    last: float = field(default_factory=time.perf_counter)

    def __call__(self, stage: str, hits: pl.DataFrame, dropped: pl.DataFrame) -> None:
        seconds = time.perf_counter() - self.last
        before = None if stage in INDEPENDENT else self.before
        self.tables.append(StageTable(stage, seconds, stage_steps(before, hits, dropped)))
        self.before, self.last = hits, time.perf_counter()


def explanation(
    index: SearchIndex,
    query: str,
    ident: str | None = None,
    filters: Filters = Filters(),
    limit: int | None = None,
    plain: bool = False,
) -> Explanation:
    """Every stage of the search for `query`; with `ident` also the fate of that chunk, mail,
    document or node.

    If `plain`, nothing in the query is syntax.

    The time of the first stage is that of finding and fusing all candidates. UnknownIdError if
    nothing has that id, QueryError if the thing with that id has no text.
    """
    with faults_translated(index.path):
        chunks = _chunks_of(index, storable(ident)) if ident is not None else []
        watch, start = _Watch(), time.perf_counter()
        resolved = index.resolved([query], filters, plain)
        ranked = index.ranked(resolved, filters, limit, watch)
        seconds = time.perf_counter() - start
        fate_of_id = None
        if ident is not None:
            moments = tuple(fate(watch.tables, chunks))
            if resolved[0].listed is not None:
                # Nothing ranks these hits: those that the query names, or the newest that meet its
                # conditions.
                places = ranked.hits.filter(pl.col("chunk_no").is_in(chunks))["rank"].to_list()
                answer = (
                    f"hit {min(places)}"
                    if places
                    else "not among what the query lists, or behind its end"
                )
            elif moments:
                answer = _answer(index, moments[-1], watch.tables)
            else:
                answer = _no_candidate(index, query, filters, chunks, plain)
            fate_of_id = Fate(ident, answer, moments)
        numbers = {
            n for t in watch.tables for n in (*t.steps["chunk_no"], *t.steps["into"].drop_nulls())
        }
        tables, names, version = (
            tuple(watch.tables),
            _names(index, numbers),
            index.manifest["version"],
        )
        label, understood, path = ranked.labels[0], resolved[0].understood, ranked.vector_path
        return Explanation(
            query, label, understood, version, path, seconds, tables, names, fate_of_id
        )


def _first(steps: pl.DataFrame, rows: int) -> pl.DataFrame:
    """The first `rows` that stay and the first `rows` that go."""
    stays = pl.col("rank").is_not_null()
    return pl.concat([steps.filter(stays).head(rows), steps.filter(~stays).head(rows)])


def _answer(index: SearchIndex, last: Moment, tables: Sequence[StageTable]) -> str:
    """Where a candidate is among the hits, or why it is not, by the last stage that had it."""
    if last.rank is not None and last.stage == "final":
        return f"hit {last.rank}"
    if last.rank is not None:
        return f"lost between {last.stage} and the next stage"
    answer = f"dropped by the stage {last.stage}: {last.reason}"
    if last.into is None:
        return answer
    further = fate(tables, [last.into])[-1]
    ends = (
        f"hit {further.rank}" if further.rank is not None else f"itself dropped: {further.reason}"
    )
    return f"{answer}, {_names(index, {last.into})[last.into][1]} ({ends})"


def _no_candidate(
    index: SearchIndex, query: str, filters: Filters, chunks: Sequence[int], plain: bool
) -> str:
    """Why none of these chunks is a candidate: the filters, or its places in the lists of all
    chunks.
    """
    count = max(1, index.chunk_count)
    wide = index.settings.model_copy(
        update={"candidates_lexical": count, "candidates_vector": count, "thread_weight": 0.0}
    )
    for applied in (filters, Filters()):
        watch = _Watch()
        index.ranked(index.resolved([query], applied, plain), applied, report=watch, settings=wide)
        places = [m for m in fate(watch.tables, chunks) if m.stage in ("lexical", "vector")]
        if not places:
            continue
        if applied != filters:
            return "no candidate: the filters leave it out"
        bounds = {
            "lexical": index.settings.candidates_lexical,
            "vector": index.settings.candidates_vector,
        }
        reasons = [
            f"{m.stage} place {m.rank:,}, and only the first {bounds[m.stage]} are taken"
            for m in places
        ]
        if all(m.stage != "lexical" for m in places):
            reasons.insert(0, "it holds none of the words of the query")
        return f"no candidate: {'; '.join(reasons)}"
    return "no candidate: what the query demands beside its words leaves it out"


def _chunks_of(index: SearchIndex, ident: str) -> list[int]:
    """The numbers of the chunks of a chunk, mail, document, window or node; UnknownIdError if there
    is none.
    """
    rows = index.connection.execute(
        "SELECT chunk_no FROM chunks WHERE $id IN (chunk_id, doc_id, attachment_id) "
        "OR (parent_id = $id AND source_kind = 'document') ORDER BY chunk_no",
        {"id": ident},
    ).fetchall()
    if rows:
        return [int(row[0]) for row in rows]
    reasons = index.connection.execute(
        "SELECT DISTINCT reason FROM exclusions WHERE doc_id = $id ORDER BY reason", {"id": ident}
    ).fetchall()
    if reasons:
        listed = ", ".join(row[0] for row in reasons)
        raise QueryError(
            f"{ident} is in the index and has no text that can be found: {listed} (table exclusions)"
        )
    ghost = index.connection.execute(
        "SELECT 1 FROM thread_tree WHERE message_id = $id", {"id": ident}
    ).fetchone()
    if ghost:
        raise UnknownIdError(
            f"{ident} is a mail that others refer to and no source holds (a ghost in thread_tree)"
        )
    raise UnknownIdError(
        f"nothing in the index has the id {shortened(ident)!r}; ids are Message-IDs without brackets, documents "
        "as source:path, nodes as source:path#slug, and chunk_id"
    )


def _names(index: SearchIndex, numbers: set[int]) -> dict[int, tuple[str, str, str]]:
    rows = index.connection.execute(
        "SELECT chunk_no, chunk_id, CASE WHEN source_kind = 'document' THEN parent_id ELSE doc_id END, title FROM chunks "
        "WHERE chunk_no IN (SELECT unnest($numbers::INTEGER[]))",
        {"numbers": [int(n) for n in numbers]},
    ).fetchall()
    return {
        int(number): (chunk, doc, index.screen.text(title)) for number, chunk, doc, title in rows
    }
