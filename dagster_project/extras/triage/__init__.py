"""Triage of issues: the summary, finds and gaps of each, and earlier ones that it may repeat."""

from dagster_project.extensions import Command, Extra

EXTRA = Extra(
    commands={
        "triage": Command(
            "dagster_project.extras.triage.command:triage",
            "Search and read",
            "Print the summary, findings and gaps of each issue, and earlier ones that it may repeat; newest first.",
            next="says what came in, and what of it is known",
            next_for="issues",
        )
    },
    tables="dagster_project.extras.triage.transforms.table:TABLES",
    stages="dagster_project.extras.triage.assets:stages",
    checks="dagster_project.extras.triage.assets:checks",
    issues="dagster_project.extras.triage.command:noted_issues",
    progress={"issue_triage": "sorting issues"},
)
