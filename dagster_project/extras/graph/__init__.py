"""The document graph: how chunks represent documents, keywords, questions, and its files for people and programs."""

from dagster_project.extras.registry import Command, Extra

_HERE = "dagster_project.extras.graph"
EXTRA = Extra(
    commands={
        "ask": Command(
            f"{_HERE}.command:ask",
            "Search and read",
            "Find what answers QUERY: with --static first among the questions stored with chunks, then by search.",
        ),
        "stripe": Command(
            f"{_HERE}.command:stripe",
            "Search and read",
            "Show the N chunks that represent DOCUMENT best; more chunks begin with those of fewer.",
        ),
        "serve-graph": Command(
            f"{_HERE}.server:serve_graph",
            "Serve",
            "Serve the exported graph of documents over HTTP, read-only, until interrupted.",
        ),
    },
    settings={"graph": f"{_HERE}.transforms.settings:GraphSettings"},
    tables=f"{_HERE}.transforms.schema:TABLES",
    published=f"{_HERE}.published:PUBLISHED",
    macros=f"{_HERE}.published:MACROS",
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
