"""The published index as evaluation sees it: things that entries name, lists of profiles, facts of
hits, and its page.
"""

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.index.search.search_index import SearchIndex
from dagster_project.system.globs import write_atomically
from dagster_project.system.sql_files import SqlFile
from transforms.errors import GroundTruthError
from transforms.evaluation.ground_truth import GroundTruth, join_files, parse_ground_truth
from transforms.evaluation.judgements import Contents
from transforms.evaluation.metrics import DEPTH
from transforms.evaluation.report import FORMAT, KEPT
from transforms.retrieval import pipeline
from transforms.retrieval.hits import place
from transforms.schemas.operations import EVALUATION_RUNS
from transforms.settings.search import SearchSettings

_SQL = SqlFile(__file__, "evaluator.sql")

_PLACE = "/*REPORT*/"


def html_page(report: Mapping[str, Any]) -> str:
    """The page of a report of `transforms.evaluation.report`, its data inside; it loads nothing
    from anywhere.
    """
    template = (
        resources.files("dagster_project")
        .joinpath("evaluation_page.html")
        .read_text(encoding="utf-8")
    )
    data = json.dumps(report, ensure_ascii=False, sort_keys=True)
    # Inside a script element only these could end it; both mean the same in JSON when escaped.
    for sign in "<", ">", "&", "\u2028", "\u2029":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    return template.replace(_PLACE, data)


_TIMED_QUERIES = 50
_SNIPPET_CHARS = 320


def read_ground_truth(files: Sequence[Path]) -> GroundTruth:
    """The queries of YAML files, named by their paths; GroundTruthError names the fault."""
    parts = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise GroundTruthError(
                f"{file} cannot be read as ground truth ({error}); mend evaluation.queries or --queries"
            ) from error
        parts.append(parse_ground_truth(text, file.name))
    return join_files(parts)


def contents(index: SearchIndex, relevance: pl.DataFrame) -> Contents:
    """The contents of the index that entries can name; texts only of documents that passages name."""
    doc_ids = relevance.filter(form="passage")["target"].unique().to_list()
    wants_turns = bool(relevance.filter(form="chat").height)
    return Contents(
        index.frame(_SQL("chunks")),
        index.frame(_SQL("documents")),
        index.frame("SELECT message_id, thread_id FROM thread_tree ORDER BY ALL"),
        index.frame(
            "SELECT node_id, doc_id, depth, heading_start, byte_end FROM nodes ORDER BY node_id"
        ),
        index.frame(
            "SELECT doc_id, text FROM documents WHERE doc_id IN (SELECT unnest($ids::JSON::VARCHAR[]))",
            doc_ids,
        ),
        index.frame(_SQL("turns") if wants_turns else f"{_SQL('turns')} LIMIT 0"),
    )


def run_profiles(
    index: SearchIndex,
    queries: pl.DataFrame,
    profiles: Mapping[str, SearchSettings],
    done: Callable[[str], None] = lambda profile: None,
    stages: Sequence[str] = pipeline.STAGES,
) -> tuple[pa.Table, dict[str, float]]:
    """The list of every stage of every query and profile (`schemas.EVALUATION_RUNS`), and seconds
    per profile.
    """
    parts: list[pl.DataFrame] = []
    latest: dict[str, pl.DataFrame] = {}

    def note(profile: str, stage: str, hits: pl.DataFrame, dropped: pl.DataFrame) -> None:
        if profile in latest:
            reasons = dropped.select("query", "chunk_no", "reason")
            parts.append(latest.pop(profile).join(reasons, on=["query", "chunk_no"], how="left"))
        if stage in stages:
            listed = hits.select(
                profile=pl.lit(profile),
                query="query",
                stage=pl.lit(stage),
                rank=place().cast(pl.Int64),
                chunk_no="chunk_no",
                score="score",
            )
            latest[profile] = listed.filter(pl.col("rank") <= KEPT)

    final, seconds = index.rank_each(queries["query"].to_list(), profiles, DEPTH, note, done)
    schema = {
        "profile": pl.String,
        "query": pl.Int32,
        "stage": pl.String,
        "rank": pl.Int64,
        "chunk_no": pl.Int64,
        "score": pl.Float64,
        "reason": pl.String,
    }
    listed = pl.concat([pl.DataFrame(schema=schema), *parts, *latest.values()], how="diagonal")
    cosines = final.select(
        "profile", "query", "chunk_no", "label", stage=pl.lit("final"), similarity="vector_score"
    )
    ids = pl.DataFrame(
        {"query_id": queries["query_id"], "query": np.arange(queries.height, dtype=np.int32)}
    )
    chunks = index.frame(_SQL("numbered"))
    runs = (
        listed.join(cosines, on=["profile", "query", "stage", "chunk_no"], how="left")
        .join(ids, on="query")
        .join(chunks, on="chunk_no")
        .sort("profile", "query", "stage", "rank")
        .select(EVALUATION_RUNS.names)
    )
    return EVALUATION_RUNS.conform(runs.to_arrow()), seconds


def latencies(
    index: SearchIndex, queries: Sequence[str], settings: SearchSettings
) -> dict[str, Any]:
    """Milliseconds of single searches with these settings: of how many, their median and the
    slowest of 20.
    """
    texts = list(queries[:_TIMED_QUERIES])
    index.search(
        texts[:1], settings=settings
    )  # the reads that a process does once are not part of a search
    milliseconds = []
    for query in texts:
        start = time.perf_counter()
        index.search([query], settings=settings)
        milliseconds.append(1000 * (time.perf_counter() - start))
    median, slow = np.quantile(milliseconds, [0.5, 0.95])
    return {
        "queries": len(texts),
        "p50_ms": round(float(median), 3),
        "p95_ms": round(float(slow), 3),
    }


def drafting_tables(index: SearchIndex) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Mails, nodes and links as `transforms.evaluation.ground_truth.drafted` takes them."""
    nodes = "SELECT node_id, title, depth FROM nodes ORDER BY node_id"
    return index.frame(_SQL("mails")), index.frame(nodes), index.frame(_SQL("linked"))


class IndexEvaluator:
    """Evaluates the published index of some settings; see `assets.protocols.search.Evaluator`."""

    def __init__(
        self,
        folder: Path,
        open_index: Callable[[], SearchIndex],
        files: Sequence[Path],
        profiles: Mapping[str, SearchSettings],
    ):
        self.folder, self._open, self.files, self.profiles = (
            folder,
            open_index,
            tuple(files),
            dict(profiles),
        )

    @cached_property
    def index(self) -> SearchIndex:
        """The index that is evaluated, opened on first use."""
        return self._open()

    def ground_truth(self) -> GroundTruth:
        """The configured queries and their right answers; none if no file is configured."""
        return read_ground_truth(self.files)

    def run(
        self, queries: pa.Table, done: Callable[[str], None] = lambda profile: None
    ) -> pa.Table:
        """Every list of every query and profile: `schemas.EVALUATION_RUNS`."""
        return run_profiles(self.index, pl.DataFrame(queries), self.profiles, done)[0]

    def contents(self, relevance: pa.Table) -> Contents:
        """The contents of the index that entries can name."""
        return contents(self.index, pl.DataFrame(relevance))

    def facts(self) -> pl.DataFrame:
        """The facts of each chunk."""
        return self.index.frame(_SQL("facts"))

    def save(self, report: Mapping[str, Any], page: bool = True) -> dict[str, str]:
        """Write a report as JSON, and as a page; returns the paths. All times are under `timing`."""
        queries = [q["query"] for q in report["queries"]]
        now, manifest = datetime.now(UTC), self.index.manifest
        latency = (
            {n: latencies(self.index, queries, s) for n, s in self.profiles.items()}
            if queries
            else {}
        )
        full = dict(report) | {
            "index": {
                "version": manifest["version"],
                "model": manifest["model"],
                "chunks": self.index.chunk_count,
            },
            "files": [file.name for file in self.files],
            "texts": self._texts(report),
            "timing": {"made_at": now.isoformat(timespec="seconds"), "latency": latency},
        }
        return write_report(full, self.folder, f"{manifest['model']}-{now:%Y%m%dT%H%M%SZ}", page)

    def _texts(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """The names of a report's documents (title, where it is from) and chunks (place, first
        words), by id.
        """
        results = [(q, r) for q in report["queries"] for r in q["results"].values()]
        hits = [hit for _, result in results for hit in result["hits"]]
        docs = {hit["doc_id"] for hit in hits} | {
            doc for query, _ in results for doc in query["right"]
        }
        titles = self.index.frame(_SQL("titles"), sorted(docs))
        chunk_ids = sorted({hit["chunk_id"] for hit in hits})
        texts = self.index.frame(_SQL("words", chars=str(_SNIPPET_CHARS)), chunk_ids)
        return {
            "documents": {doc: [title, origin] for doc, title, origin in titles.iter_rows()},
            "chunks": {chunk: [place, words] for chunk, place, words in texts.iter_rows()},
        }


def write_report(report: Mapping[str, Any], folder: Path, name: str, page: bool) -> dict[str, str]:
    """Paths of a report written as JSON and, if `page`, as a page of the same name."""
    paths = (folder / f"{name}{f'-{n}' if n else ''}.json" for n in itertools.count())
    path = next(p for p in paths if not p.exists())
    files = {"json": (path, json.dumps(report, ensure_ascii=False, indent=1, sort_keys=True))}
    if page:
        files["page"] = (path.with_suffix(".html"), html_page(report))
    for path, text in files.values():
        write_atomically(path, text)
    return {kind: str(path) for kind, (path, _) in files.items()}


def read_report(path: Path) -> dict[str, Any]:
    """A report that `saved` wrote; GroundTruthError if the file is none of this format."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GroundTruthError(
            f"{path} cannot be read as a report of `weft eval run` ({error})"
        ) from error
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise GroundTruthError(
            f"{path} is not a report of this version of Weft; `weft eval run` makes a new one"
        )
    return report
