"""Proof: from a citation back to its source and its sender's signature, and whether lenses leak."""

from dagster_project.extensions import Command, Extra

EXTRA = Extra(
    commands={
        "verify": Command(
            "dagster_project.extras.proof.command:verify",
            "Search and read",
            "Follow citations back to their sources, and say of each sentence of a text whether a source says it.",
        )
    },
    keeps=("dkim",),
    proofs="dagster_project.extras.proof.command:proofs",
    guard="dagster_project.extras.proof.leaks:require_no_leak",
    evaluations={
        "lens": Command(
            "dagster_project.extras.proof.leaks:lens",
            "Commands",
            "Ask this workspace and that of the settings file OTHER the same queries under the lens NAME.",
        )
    },
)
