"""The pages in which people search and read the published index, and the JSON that programs read."""

from dagster_project.extensions import Command, Extra

EXTRA = Extra(
    commands={
        "serve": Command(
            "dagster_project.extras.web.command:serve",
            "Start",
            "Serve web pages to search and read the published index, until interrupted.",
            next="opens a page to search and read in",
        )
    },
    admits=("tokens",),
    keeps_beside=("searches/*.json",),
)
