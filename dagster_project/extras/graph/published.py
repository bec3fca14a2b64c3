"""The tables of the document graph in the published file, and a macro over them; they exist if the graph is enabled."""

from dagster_project.config.settings import Settings
from dagster_project.extras.graph.transforms.settings import GraphSettings

_OF_DOC = "doc_id IN (SELECT doc_id FROM shown_docs)"
PUBLISHED = {
    **dict.fromkeys(("chunk_classes", "chunk_similarities", "stripe_orders", "chunk_keywords"), _OF_DOC),
    "keywords": "false",
    "prompt_hashes": f"{_OF_DOC} AND asked_in IN (SELECT doc_id FROM shown_docs)",
}
"""The tables, each with the condition of the rows that a lens shows."""

MACROS = {
    "stripe": (
        "document, n, kind := 'conceptual'",
        "The first n chunks that represent a document; a request for more begins with what one for fewer returns.",
        """
SELECT o.place, o.chunk_id, o.chunk_index, c.title, c.is_code, s.similarity, c.text_display
FROM stripe_orders o JOIN chunks c USING (chunk_id)
JOIN chunk_similarities s ON s.chunk_id = o.chunk_id AND s.baseline = o.baseline
WHERE o.doc_id = document AND o.baseline = kind AND o.place < n ORDER BY o.place
""",
    )
}
"""Parameters, comment and query of each macro."""


def is_enabled(settings: Settings) -> bool:
    """True if the settings ask for the graph."""
    return settings.section(GraphSettings).enabled
