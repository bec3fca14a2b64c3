"""Exports of chat programs beyond those of the core, and transcripts of meetings; files alone, no service is asked."""

from dagster_project.extras.registry import Extra

_HERE = "dagster_project.extras.chats.transforms"
EXTRA = Extra(
    chats={
        "element": f"{_HERE}.element:PROGRAM",
        "transcript": f"{_HERE}.transcripts:PROGRAM",
        "mattermost": f"{_HERE}.mattermost:PROGRAM",
        "irc": f"{_HERE}.irc:PROGRAM",
        "sms": f"{_HERE}.sms:PROGRAM",
        "imessage": f"{_HERE}.imessage:PROGRAM",
        "zulip": f"{_HERE}.zulip:PROGRAM",
    }
)
