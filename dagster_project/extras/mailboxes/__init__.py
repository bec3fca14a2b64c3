"""Mailboxes of mail servers, as remotes of sources."""

from dagster_project.extras.registry import Extra, Remote

_HERE = "dagster_project.extras.mailboxes"
EXTRA = Extra(
    remotes={ "imap": Remote(f"{_HERE}.settings:ImapRemote", f"{_HERE}.imap_folders:ImapFolder", ("maildir",)),
    "jmap": Remote(f"{_HERE}.settings:JmapRemote", f"{_HERE}.jmap_folders:JmapFolder", ("maildir",)), }
)  # fmt: skip
