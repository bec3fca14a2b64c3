"""The tables of the published file at the right edge of the graph, and checks on each that people run when they like."""

from collections.abc import Iterator, Mapping

import dagster as dg

from assets.protocols.search import PublishedTables
from transforms.operations import table_checks
from transforms.schemas.registry import REGISTRY, lake_names
from transforms.schemas.table import Table

GROUP = "published"
_EXAMPLES = 5

Columns = Mapping[str, str]
"""The columns of a table with what they mean."""


def published_key(table: str) -> dg.AssetKey:
    """Key of the asset of a table of the published file."""
    return dg.AssetKey([GROUP, table])


def published_spec(table: str, comment: str, columns: Columns) -> dg.AssetSpec:
    """The external asset of a table of the published file, below the asset that publishes."""
    lineage = {
        column: [dg.TableColumnDep(dg.AssetKey(name), column) for name in there]
        for column in columns
        if (there := [name for name in lake_names(table) if column in REGISTRY[name].schema.names])
    }
    shown = dg.TableSchema([dg.TableColumn(name, description=text) for name, text in columns.items()])
    return dg.AssetSpec(
        published_key(table),
        group_name=GROUP,
        kinds={"duckdb"},
        deps=["search_index"],
        description=f"{comment}\n\nA table of the file that `search_index` publishes.",
        metadata={
            "dagster/column_schema": shown,
            **({"dagster/column_lineage": dg.TableColumnLineage(lineage)} if lineage else {}),
        },
    )


def published_check(table: str, columns: Columns, added: Table | None = None) -> dg.AssetChecksDefinition:
    """The checks on a table of the published file; no build runs them, and they block nothing.

    `added` is its schema, if an extra declares it.
    """
    key = published_key(table)
    rules = table_checks.rules_of(table, added)

    @dg.multi_asset_check(
        name=f"check_{table}",
        specs=[dg.AssetCheckSpec(rule, asset=key, description=table_checks.RULES[rule]) for rule in rules],
        can_subset=True,
    )
    def check(
        context: dg.AssetCheckExecutionContext, published_tables: dg.ResourceParam[PublishedTables]
    ) -> Iterator[dg.AssetCheckResult]:
        chosen = {check.name for check in context.selected_asset_check_keys}
        with published_tables.open() as tables:
            for rule in rules:
                if rule not in chosen:
                    continue
                if rule == table_checks.DECLARED:
                    odd = sorted(set(columns) ^ set(tables[table].columns))
                    count, examples = len(odd), odd
                else:
                    rows = table_checks.violations(rule, table, tables, added)
                    count = rows.count().to_pyarrow().as_py()
                    examples = rows.limit(_EXAMPLES).to_pyarrow().column("id").to_pylist() if count else []
                yield dg.AssetCheckResult(
                    check_name=rule,
                    asset_key=key,
                    passed=count == 0,
                    metadata={"rows": count, "examples": examples[:_EXAMPLES]},
                )

    return check
