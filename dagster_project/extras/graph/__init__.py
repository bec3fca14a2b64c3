"""What people and programs read in the document graph: stripes, questions with their chunks, and the files of its export."""

from dagster_project.extras.registry import Command, Extra

_COMMANDS = "dagster_project.extras.graph.command"
EXTRA = Extra(
    commands={
        "ask": Command(
            f"{_COMMANDS}:ask",
            "Search and read",
            "Find what answers QUERY: with --static first among the questions stored with chunks, then by search.",
        ),
        "stripe": Command(
            f"{_COMMANDS}:stripe",
            "Search and read",
            "Show the N chunks that represent DOCUMENT best; more chunks begin with those of fewer.",
        ),
        "serve-graph": Command(
            "dagster_project.extras.graph.server:serve_graph",
            "Serve",
            "Serve the exported graph of documents over HTTP, read-only, until interrupted.",
        ),
    }
)
