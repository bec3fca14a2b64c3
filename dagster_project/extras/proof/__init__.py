"""Proof: from a citation back to the source that it was read from, and to its sender's signature."""

from dagster_project.extras.registry import Command, Extra

EXTRA = Extra(
    commands={
        "verify": Command(
            "dagster_project.extras.proof.command:verify",
            "Search and read",
            "Follow citations back to their sources: to the mail or file, its commit, and the sender's signature.",
        )
    }
)
