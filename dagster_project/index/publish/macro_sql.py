"""The macros of the published file, SQL that needs neither Weft nor an extension of DuckDB; and
comments on tables.
"""

import re
from collections.abc import Collection

import duckdb

from dagster_project.extensions import extra_parts
from dagster_project.index.publish.table_sql import COMMENTS, VIEWS, token_estimate
from dagster_project.system.sql_files import SqlFile, literal
from transforms.languages import UNSPACED
from transforms.retrieval import bm25
from transforms.settings.search import SearchSettings, TermSettings
from transforms.text import terms

_TABLE_NAMES = (
    "SELECT table_name FROM information_schema.tables WHERE table_catalog = current_database()"
)
# DuckDB looks for the tables of a macro in the database in use, not in the macro's own. A database
# in memory holds none: there the file is attached, as `weft` unless the caller names another.
_CATALOG = "coalesce(catalog || '.', if(current_database() = 'memory', 'weft.', ''))"
_COMMENTS = (
    "SELECT table_name, '', comment FROM duckdb_tables() UNION ALL "
    "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
)
_ATTACHED = (
    " If the file is attached under another name than `weft`, such as mail, add catalog := 'mail'."
)
MACROS = SqlFile(__file__, "macros.sql", attached=_ATTACHED)


def statements(search: SearchSettings, term_settings: TermSettings) -> tuple[list[str], list[str]]:
    """The statements of the views and of the macros, whose defaults are these settings and whose
    tables lack a catalog.
    """
    values = _search_text(search, term_settings)
    macros = [file(name, **values) for file in (MACROS, *extra_parts("macros")) for name in file]
    return [f'CREATE OR REPLACE VIEW "{name}" AS {VIEWS(name)}' for name in VIEWS], macros


def create(
    connection: duckdb.DuckDBPyConnection, search: SearchSettings, term_settings: TermSettings
) -> None:
    """Create or replace the views and the macros, whose defaults are these settings."""
    views, macros = statements(search, term_settings)
    for view in views:
        connection.execute(view)
    names = "|".join(name for (name,) in connection.execute(_TABLE_NAMES).fetchall())
    pattern = re.compile(rf"\b(FROM|JOIN) ({names})\b")
    for macro in macros:
        connection.execute(pattern.sub(rf"\1 query_table({_CATALOG} || '\2')", macro))


def comment(connection: duckdb.DuckDBPyConnection, further_views: Collection[str] = ()) -> None:
    """Comment on each table, view and column, unless the file has the comment already."""
    there = {*connection.execute(_COMMENTS).fetchall()}
    for name, (meaning, columns) in COMMENTS.items():
        what = "VIEW" if name in VIEWS or name in further_views else "TABLE"
        if (name, "", meaning) not in there:
            connection.execute(f'COMMENT ON {what} "{name}" IS {literal(meaning)}')
        for column, text in columns.items():
            if (name, column, text) not in there:
                connection.execute(f'COMMENT ON COLUMN "{name}"."{column}" IS {literal(text)}')


def _search_text(search: SearchSettings, term_settings: TermSettings) -> dict[str, str]:
    """The values that settings give the macro `search_text`."""
    weights = bm25.field_weights(search)
    humps = "word"
    for hump in terms.HUMPS:
        humps = f"regexp_replace({humps}, {literal(hump)}, '\\1_\\2', 'g')"
    return {
        "weights": ", ".join(
            f"{field}_weight := {_double(weight)}" for field, weight in weights.items()
        ),
        "k_one": _double(bm25.K1),
        "b": _double(bm25.B),
        "frequency": " + ".join(f"{field}_weight * p.{field}_tf" for field in weights),
        "length": " + ".join(f"{field}_weight * l.{field}_length" for field in weights),
        "mean": " + ".join(f"{field}_weight * avg(l.{field}_length)" for field in weights),
        "all_lengths": " + ".join(f"l.{field}_length" for field in weights),
        "stop": ", ".join(map(literal, terms.stems(list(search.stopwords), term_settings))),
        "cut": str(terms.MAX_TERM_CHARS),
        "part_chars": str(terms.PART_CHARS),
        "humps": humps,
        "unspaced": UNSPACED,
        "tokens": token_estimate("given"),
        "word": terms.WORD,
        "compound": terms.COMPOUND,
        "diff_prefix": terms.DIFF_PREFIX,
        "host": terms.HOST,
    }


def _double(value: float) -> str:
    """A DOUBLE literal; without the exponent it would be a DECIMAL, which is slower and can
    overflow.
    """
    return text if "e" in (text := repr(float(value))) else f"{text}e0"
