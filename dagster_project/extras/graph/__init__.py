"""The document graph: how chunks represent documents, keywords, questions, and its files for people
and programs.
"""

from dagster_project.extensions import Command, Extra

_HERE = "dagster_project.extras.graph"
EXTRA = Extra(
    commands={
        "graph": Command(
            f"{_HERE}.command:graph",
            "Search and read",
            "Read and serve the document graph: the chunks of a document, stored questions, its files.",
            former={"stripe": "graph stripe", "serve-graph": "graph serve"},
        )
    },
    settings={"graph": f"{_HERE}.transforms.settings:GraphSettings"},
    designs={"information-graph": {"graph": {"enabled": True, "prompts": "threshold"}}},
    tables=f"{_HERE}.transforms.schema:TABLES",
    published=f"{_HERE}.published:PUBLISHED",
    macros=f"{_HERE}.published:GRAPH_MACROS",
    enabled=f"{_HERE}.published:is_enabled",
    stages=f"{_HERE}.composition:stages",
    resources=f"{_HERE}.composition:resources",
    folder="graph",
    queries=f"{_HERE}.composition:queries",
    progress={
        "keywords": "finding keywords",
        "prompt_hashes": "hashing questions",
        "chunk_classes": "finding code",
        "chunk_similarities": "ordering chunks",
        "chunk_keywords": "finding keywords",
        "document_graph": "writing the graph",
    },
)
