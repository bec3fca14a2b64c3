"""Object stores: prefixes as remotes of sources, and locks and looks at footers for a lake on a
store.
"""

from dagster_project.extensions import Extra, Remote

_HERE = "dagster_project.extras.stores"
EXTRA = Extra(
    remotes={
        "objects": Remote(
            f"{_HERE}.settings:ObjectRemote",
            f"{_HERE}.object_prefixes:ObjectPrefix",
            ("mbox", "maildir", "eml", "vault", "tree", "issues", "wiki", "conversation"),
        )
    },
    lake_lock=f"{_HERE}.lake_locks:store_lock",
    lake_look=f"{_HERE}.lake_footers:RemoteFooters",
)
