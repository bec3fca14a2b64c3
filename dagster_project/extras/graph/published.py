"""The tables of the document graph in the published file, and a macro over them; they exist if the
graph is enabled.
"""

from dagster_project.config.settings import Settings
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.system.sql_files import SqlFile

_OF_DOC = "doc_id IN (SELECT doc_id FROM shown_docs)"
PUBLISHED = {
    **dict.fromkeys(
        ("chunk_classes", "chunk_similarities", "stripe_orders", "chunk_keywords"), _OF_DOC
    ),
    "keywords": "false",
    "prompt_hashes": f"{_OF_DOC} AND asked_in IN (SELECT doc_id FROM shown_docs)",
}
"""The tables, each with the condition of the rows that a lens shows."""

GRAPH_MACROS = SqlFile(__file__, "macros.sql")


def is_enabled(settings: Settings) -> bool:
    """True if the settings ask for the graph."""
    return settings.section(GraphSettings).enabled
