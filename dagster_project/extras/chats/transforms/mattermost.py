"""Mattermost: the JSON lines of its bulk export."""

from collections.abc import Iterator, Mapping
from typing import Any

from transforms.conversations.exports import (
    Chat,
    Entry,
    Fault,
    NamedFile,
    fields,
    json_lines,
    kind_of,
    list_of,
    milliseconds,
)
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError

_NAMES = ("username", "nickname", "first_name", "last_name", "email")


def looks_like_mattermost(head: bytes) -> bool:
    """True if the first line is that of a bulk export."""
    first = head.partition(b"\n")[0].replace(b" ", b"")
    return first.startswith(b"{") and b'"type":"version"' in first and b'"version":' in first


def read_mattermost(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chats of an export: `name/team/channel`, and `name/direct/n` in the order in which they
    begin.

    A reply names its post. ChatFormatError if no line is a post.
    """
    chats: dict[tuple[str, ...], list[Entry]] = {}
    names: set[str] = set()
    faults: list[Fault] = []
    for place, line, row in json_lines(data, name, faults):
        kind = str(row.get("type") or "")
        value = fields(row.get(kind))
        if kind == "user":
            names.update(str(value[key]) for key in _NAMES if value.get(key))
        elif kind in ("post", "direct_post"):
            members = tuple(sorted(map(str, list_of(value.get("channel_members")))))
            names.update(members)
            pair = (str(value.get("team")), str(value.get("channel")))
            channel = members if kind == "direct_post" else pair
            key = place.rpartition(":")[2]
            replies = enumerate(map(fields, list_of(value.get("replies"))))
            posts = [(value, key, ""), *((reply, f"{key}.{n}", key) for n, reply in replies)]
            for post, own, answered in posts:
                entry = _entry(post, own, answered)
                if entry is None:
                    faults.append(Fault(f"{name}:{own}", "no_time: the post has no time", line))
                    continue
                names.add(entry.author)
                chats.setdefault((kind, *channel), []).append(entry)
    if not chats and not faults:
        raise ChatFormatError("no_mattermost: the file is no bulk export of Mattermost with posts")
    direct = 0
    for (kind, *channel), entries in chats.items():
        direct += kind == "direct_post"
        place = f"direct/{direct}" if kind == "direct_post" else "/".join(channel)
        ordered = sorted(entries, key=lambda entry: entry.at)
        title = "" if kind == "direct_post" else channel[-1]
        yield Chat(f"{name}/{place}", ordered, frozenset(names - {""}), title=title)
    if faults:
        yield Chat(name, [], faults=faults)


def _entry(post: Mapping[str, Any], key: str, answered: str) -> Entry | None:
    at, author = milliseconds(post.get("create_at")), str(post.get("user") or "")
    if at is None:
        return None
    files = [
        NamedFile(place.rpartition("/")[2], (f"data/{place}", place))
        for place in (
            str(fields(file).get("path") or "") for file in list_of(post.get("attachments"))
        )
        if place
    ]
    text = "\n".join([str(post.get("message") or ""), *(f"[{file.name}]" for file in files)]).strip(
        "\n"
    )
    reactions = len(list_of(post.get("reactions")))
    system = str(post.get("type") or "").startswith("system_")
    kind = "system" if system else kind_of(text, author)
    is_edited = bool(post.get("edit_at"))
    return Entry(
        at, "" if system else author, text, kind, key, answered, reactions, is_edited, tuple(files)
    )


PROGRAM = Program((".jsonl",), looks_like_mattermost, read_mattermost)
