"""Backups of what no build can make again, in a folder or on an object store: stored, verified and
restored.
"""

from dagster_project.extensions import Command, Extra

EXTRA = Extra(
    commands={
        "backup": Command(
            "dagster_project.extras.backup.command:backup",
            "Keep an index",
            "Store what no build can make again at PLACE, a folder or an object store; verify it, or restore it.",
        )
    },
)
