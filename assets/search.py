"""Scheduled searches: a job that sends the queries of its configuration to the published index and
keeps the hits.
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import polars as pl
from pydantic import create_model

from assets.protocols.lake import Lake
from assets.protocols.search import Searcher
from assets.stages.shown import table_metadata
from transforms.retrieval import scheduled_searches
from transforms.retrieval.search_filters import SEARCH_FILTERS, read_filters
from transforms.schemas.search import SEARCH_RESULTS
from transforms.settings.search import SearchOptions

GROUP = "search"
_RESULTS = "search_results"
_PREVIEW = ["query", "rank", "score", "snippet", "citation"]
_COLUMNS = dg.TableSchema([dg.TableColumn(name) for name in _PREVIEW])
_PREVIEW_ROWS = 20


_OPTIONAL: Any = {filter_.name: (str | None, None) for filter_ in SEARCH_FILTERS}
_Conditions: Any = create_model("Conditions", __base__=dg.Config, **_OPTIONAL)


class ScheduledSearch(_Conditions):
    """Queries to search for; their hits replace those of the last run under the same name."""

    name: str = "search"
    queries: list[str]
    limit: int = 10
    profile: str | None = None
    expand: list[str] = []
    diversity: float | None = None
    rerank: str | None = None
    per_document: int | None = None
    threads: bool = False
    weak: bool = False
    strict: bool = False

    @property
    def options(self) -> SearchOptions:
        """The changes of the search in [search]."""
        return SearchOptions.model_validate(
            {name: getattr(self, name) for name in SearchOptions.model_fields}
        )


def search_results_asset() -> dg.AssetsDefinition:
    """The asset `search_results`: hits of the queries in the run's configuration, beside those of
    other searches.
    """

    @dg.asset(
        name=_RESULTS,
        group_name=GROUP,
        kinds={"parquet"},
        deps=["search_index"],
        description=SEARCH_RESULTS.comment,
        metadata=table_metadata(SEARCH_RESULTS),
    )
    def search_results(
        context: dg.AssetExecutionContext,
        config: ScheduledSearch,
        searcher: dg.ResourceParam[Searcher],
        lake: dg.ResourceParam[Lake],
    ) -> Any:
        filters = read_filters({f.name: getattr(config, f.name) for f in SEARCH_FILTERS})
        results = searcher.search(config.queries, filters, config.limit, config.options)
        run = context.instance.get_run_record_by_id(context.run.run_id)
        at = run.create_timestamp if run else datetime.now(UTC)
        rows = scheduled_searches.search_results(
            results, config.queries, config.name, context.run.run_id, at
        )
        stored = lake.intact(_RESULTS, SEARCH_RESULTS.names)
        preview = pl.DataFrame(rows.select(_PREVIEW)).head(_PREVIEW_ROWS)
        context.add_output_metadata(
            {
                "hits": rows.num_rows,
                "queries": len(config.queries),
                "queries_without_hits": len(config.queries)
                - len(set(rows.column("query").to_pylist())),
                "index_version": results.version,
                "preview": dg.MetadataValue.table(
                    [dg.TableRecord(r) for r in preview.to_dicts()], _COLUMNS
                ),
            }
        )
        return scheduled_searches.with_others(rows, stored, config.name)

    return search_results
