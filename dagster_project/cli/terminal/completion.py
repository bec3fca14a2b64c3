"""Words that a shell completes: names of sources, addresses of lists and ids, as settings and index
have them.

A command that completes no word starts faster without the modules that read them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from transforms.errors import WeftError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MOST = 50
_LISTS = """SELECT list_id AS word, NULL AS help FROM memberships
    WHERE starts_with(list_id, $start) GROUP BY ALL ORDER BY count(*) DESC, word LIMIT $most"""
_IDS = """
    (SELECT message_id AS word, subject AS help FROM messages
     WHERE starts_with(message_id, $start) ORDER BY word LIMIT $most)
    UNION ALL
    (SELECT doc_id, title FROM documents
     WHERE starts_with(doc_id, $start) OR starts_with(path, $start) ORDER BY doc_id LIMIT $most)"""


def _from_index(statement: str) -> Completer:
    def complete(
        context: click.Context, _parameter: click.Parameter, start: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from dagster_project.config.settings import load_settings
        from dagster_project.index.search.statements.sql import query_current

        try:
            folder = load_settings(context.params.get("config")).root / "index"
            rows = query_current(folder, statement, {"start": start, "most": _MOST})
        except WeftError:  # a shell does not report it
            return []
        return [CompletionItem(row["word"], help=row["help"]) for row in rows.to_pylist()]

    return complete


def complete_source(
    context: click.Context, _parameter: click.Parameter, start: str
) -> list[CompletionItem]:
    """The sources of the settings whose names begin with `start`, with their kinds."""
    from click.shell_completion import CompletionItem

    from dagster_project.config.settings import load_settings

    try:
        sources = load_settings(context.params.get("config")).sources
    except WeftError:
        return []
    return [CompletionItem(s.name, help=s.kind) for s in sources if s.name.startswith(start)]


complete_list = _from_index(_LISTS)
"""The lists of the published index, those with most mail first."""
complete_id = _from_index(_IDS)
"""Message-IDs and ids of documents of the published index."""
