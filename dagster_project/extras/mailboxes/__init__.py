"""Mailboxes of mail servers, as remotes of sources."""

from dagster_project.extensions import Extra, Remote

_HERE = "dagster_project.extras.mailboxes"
_REST = ("maildir",), f"{_HERE}.sign_in:log_in"
EXTRA = Extra(
    accounts=f"{_HERE}.arrival:account_of",
    remotes={
        "imap": Remote(
            f"{_HERE}.settings:ImapRemote",
            f"{_HERE}.imap_folders:ImapFolder",
            *_REST,
            reports=f"{_HERE}.imap_folders:ImapFolder",
        ),
        "jmap": Remote(f"{_HERE}.settings:JmapRemote", f"{_HERE}.jmap_folders:JmapFolder", *_REST),
    },
)
