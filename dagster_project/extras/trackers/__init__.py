"""Issue trackers, GitHub's and GitLab's, as remotes of sources of issues."""

from dagster_project.extensions import Extra, Remote

_HERE = "dagster_project.extras.trackers"
EXTRA = Extra(
    remotes={
        "github": Remote(
            f"{_HERE}.settings:GithubRemote", f"{_HERE}.issue_polls:GithubIssues", ("issues",)
        ),
        "gitlab": Remote(
            f"{_HERE}.settings:GitlabRemote", f"{_HERE}.issue_polls:GitlabIssues", ("issues",)
        ),
    }
)
