"""Prefixes of object stores and other folders, as remotes of sources."""

from dagster_project.extras.registry import Extra, Remote

_HERE = "dagster_project.extras.stores"
EXTRA = Extra(
    remotes={
        "objects": Remote(
            f"{_HERE}.settings:ObjectRemote",
            f"{_HERE}.object_prefixes:ObjectPrefix",
            ("mbox", "maildir", "eml", "vault", "tree", "issues", "conversation"),
        )
    }
)
