"""Exports of chat programs beyond those of the core, and transcripts of meetings; files alone, no
service is asked.
"""

from dagster_project.extensions import Extra

_CHATS = (
    "element transcript mattermost irc sms imessage signal signal_cli signal_export "
    "zulip zulip_topic zulip_page"
)
EXTRA = Extra(chats={name: f"{__name__}.transforms.{name}:PROGRAM" for name in _CHATS.split()})
