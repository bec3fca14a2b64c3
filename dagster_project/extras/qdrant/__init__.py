"""A collection of Qdrant that ranks in place of the published file: its points and its searches."""

from dagster_project.extensions import Extra, RankingOffer

EXTRA = Extra(
    rankings={
        "qdrant": RankingOffer(
            opened="dagster_project.extras.qdrant.service:qdrant_ranking",
            mirror="dagster_project.extras.qdrant.service:qdrant_mirror",
            # A service, or for trials a folder that one process at a time opens, and the name of
            # the alias.
            url=r"(?:https?://[^/]+|file:/.*)/[A-Za-z0-9_.-]+",
            example="http://host:6333/weft: the service, and the name of the alias",
        )
    }
)
