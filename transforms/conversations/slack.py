"""Slack exports: one channel from its daily files, with the texts of bots in attachments and
blocks.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from transforms.conversations.exports import (
    Chat,
    Entry,
    Fault,
    NamedFile,
    fields,
    in_utc,
    json_list,
    kind_of,
    list_of,
    moment,
    no_time,
    reaction_count,
)

_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_LINK = re.compile(r"<(?P<url>(?:https?|mailto|tel):[^|>]+)(?:\|(?P<label>[^>]*))?>")
_CHANNEL = re.compile(r"<#(?P<id>[A-Z0-9]+)(?:\|(?P<name>[^>]*))?>")
# A group, everybody, or a date with the text for programs that cannot show it.
_SPECIAL = re.compile(r"<!(?P<what>[^|>]+)(?:\|(?P<label>[^>]*))?>")
_SYSTEM = re.compile(
    r"(?:channel|group)_|pinned_item|unpinned_item|bot_(?:add|remove|enable|disable)|reminder_add|sh_room"
)
_FILE_FOLDERS = ("__uploads", "attachments", "files")


def read_slack(
    days: Iterable[tuple[str, bytes]], users: Sequence[Mapping[str, Any]], name: str
) -> Chat:
    """The chat of one channel of a Slack export: its daily JSON files by name, and `users.json`.

    The text of a message has that of its attachments and blocks behind it where they say more, and
    the titles of its files. A message without any text is a row of the faults, counted by its
    subtype.
    """
    listed = [u for u in users if isinstance(u, Mapping) and u.get("id")]
    people, channel = {str(u["id"]): _name(u) for u in listed}, name.rpartition("/")[2]
    names = {n for u in listed for n in _names(u)}
    entries: list[Entry] = []
    faults: list[Fault] = []
    for file, data in sorted(days):
        rows = json_list(data, f"{name}/{file}", faults)
        for number, row in enumerate(rows):
            at = moment(row.get("ts")) if isinstance(row, Mapping) else None
            if at is None:
                faults.append(no_time(f"{name}/{file}:{number}", row))
                continue
            names.update(_names({"profile": row.get("user_profile")}))
            entries.append(entry := _entry(row, in_utc(at, "UTC"), people, channel))
            if entry.kind == "media":
                why = (
                    f"no_text: a message of the subtype {row.get('subtype') or 'none'} has no text"
                )
                faults.append(Fault(f"{name}/{file}:{number}", why, repr(row).encode()))
    entries.sort(key=lambda e: e.at)
    return Chat(name, entries, frozenset(names), faults)


def _entry(row: Mapping[str, Any], at: datetime, people: Mapping[str, str], channel: str) -> Entry:
    profile = fields(row.get("user_profile"))
    user = str(row.get("user") or row.get("bot_id") or "")
    bot = fields(row.get("bot_profile")).get("name")
    author = people.get(user) or str(profile.get("real_name") or row.get("username") or bot or user)
    key, thread = str(row["ts"]), str(row.get("thread_ts") or "")
    entry = Entry(
        at,
        author,
        "",
        "deleted",
        key,
        thread if thread != key else "",
        reaction_count(row.get("reactions")),
        bool(row.get("edited")),
        tuple(_files(row, channel)),
    )
    if row.get("subtype") == "tombstone":
        return entry
    text = _resolved("\n".join(_texts(row)), people)
    if _SYSTEM.match(str(row.get("subtype") or "")):
        return entry._replace(author="", text=text, kind="system")
    return entry._replace(text=text, kind=kind_of(text, author))


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    """The text of a message, further texts of its blocks and attachments, and the titles of its
    files.
    """
    text = str(row.get("text") or "")
    yield from [text] if text.strip() else []
    for more in (
        *("\n".join(_of_blocks(row.get("blocks"))),),
        *(_of_attachment(fields(a)) for a in list_of(row.get("attachments"))),
    ):
        if more.strip() and _plain(more) not in _plain(text):
            text += more
            yield more
    for file in _file_rows(row):
        if title := str(file.get("title") or file.get("name") or ""):
            yield f"[{title}]"


def _file_rows(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from map(
        fields, list_of(row.get("files")) or list_of([row.get("file")] if row.get("file") else [])
    )


def _files(row: Mapping[str, Any], channel: str) -> Iterator[NamedFile]:
    """The files of a message, which programs that fetch them put into folders beside the days or
    the channels.
    """
    for file in _file_rows(row):
        name, key = str(file.get("name") or file.get("title") or ""), str(file.get("id") or "")
        if name and file.get("mode") != "tombstone":
            below = (
                f"{folder}/{key}{sign}{name}"
                for folder in _FILE_FOLDERS
                for sign in ("/", "-", "_")
            )
            places = tuple(f"{top}{place}" for place in below for top in ("", f"{channel}/"))
            yield NamedFile(name, places, str(file.get("mimetype") or ""))


def _of_attachment(attachment: Mapping[str, Any]) -> str:
    """The text of an attachment: the preview of a link, or the fields of a bot."""
    title = str(attachment.get("title") or "")
    link = str(attachment.get("title_link") or attachment.get("from_url") or "")
    parts = [
        str(attachment.get("pretext") or ""),
        f"{title} ({link})" if title and link else title or link,
        str(attachment.get("text") or ""),
        *(
            f"{f.get('title') or ''}: {f.get('value') or ''}".strip(": ")
            for f in map(fields, list_of(attachment.get("fields")))
        ),
        "\n".join(_of_blocks(attachment.get("blocks"))),
    ]
    return "\n".join(part for part in parts if part.strip()) or str(
        attachment.get("fallback") or ""
    )


def _of_blocks(blocks: object) -> Iterator[str]:
    for block in map(fields, list_of(blocks)):
        text = "".join(_of_element(block))
        if text.strip():
            yield text.strip("\n")


def _of_element(element: object) -> Iterator[str]:
    """The text of a block or of an element in it, to any depth."""
    at = fields(element)
    kind = str(at.get("type") or "")
    if kind == "user":
        yield f"<@{at.get('user_id')}>"
    elif kind == "channel":
        yield f"<#{at.get('channel_id')}>"
    elif kind == "link":
        yield f"<{at.get('url')}|{at.get('text') or at.get('url')}>"
    elif kind == "emoji":
        yield f":{at.get('name')}:"
    elif kind == "broadcast":
        yield f"<!{at.get('range')}>"
    for key in ("title", "text", "alt_text", "label"):
        value = at.get(key)
        if kind != "link" and isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _of_element(value)
    for key in ("fields", "elements"):
        for child in list_of(at.get(key)):
            yield from _of_element(child)
    if kind in (
        "rich_text_section",
        "rich_text_preformatted",
        "rich_text_quote",
        "mrkdwn",
        "plain_text",
    ):
        yield "\n"


def _resolved(text: str, people: Mapping[str, str]) -> str:
    """`text` with people, channels, groups, dates and links as Slack shows them."""
    text = _MENTION.sub(lambda m: f"@{people.get(m[1], m[1])}", text)
    text = _CHANNEL.sub(lambda m: f"#{m['name'] or m['id']}", text)
    text = _SPECIAL.sub(
        lambda m: m["label"] or "@" + m["what"].partition("^")[2 if "^" in m["what"] else 0], text
    )
    text = _LINK.sub(
        lambda m: (
            f"{m['label']} ({m['url']})" if m["label"] and m["label"] != m["url"] else m["url"]
        ),
        text,
    )
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _plain(text: str) -> str:
    """The letters and digits outside links and mentions, which are equal for one text in two forms."""
    return "".join(
        c for c in _SPECIAL.sub("", _CHANNEL.sub("", _LINK.sub("", text))) if c.isalnum()
    ).casefold()


def _name(user: Mapping[str, Any]) -> str:
    profile = fields(user.get("profile"))
    return str(user.get("real_name") or profile.get("real_name") or user.get("name") or user["id"])


def _names(user: Mapping[str, Any]) -> Iterator[str]:
    profile = fields(user.get("profile"))
    for name in (
        *(user.get(key) for key in ("real_name", "name")),
        *(profile.get(key) for key in ("real_name", "display_name", "name", "email", "phone")),
    ):
        if isinstance(name, str) and name.strip():
            yield name
