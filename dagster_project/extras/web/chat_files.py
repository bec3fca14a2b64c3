"""Files that messages of chats name, as their exports hold them at that moment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster_project.config.settings import ConversationSourceSettings
from dagster_project.extras.web.site import Site
from dagster_project.system.globs import recall
from transforms.conversations.windows import window_id
from transforms.errors import ChatFormatError, SourceError


def source_of(site: Site, name: str) -> ConversationSourceSettings | None:
    """The source of chats with that name; None for a source of another kind."""
    source = next((s for s in site.settings.sources if s.name == name), None)
    return source if isinstance(source, ConversationSourceSettings) else None


def chat_file(site: Site, source: ConversationSourceSettings, row: Mapping[str, Any]) -> Path | bytes:
    """The path of a file of a chat, a row of `attachments`, or its bytes if it is in a zip.

    SourceError if its export changed since the build, or does not hold it."""
    partition = row["partition"].removeprefix(f"{source.name}/")
    listings = recall(site.settings.root / "cache" / "chats.json")
    chats = site.chats
    with site.reading_chats:
        for export in chats.exports_of_source(source, lambda path: site.sources.identify(path)[0]):
            if partition not in (name for name, _ in listings.get(export.digest, {}).get("windows", ())):
                continue
            for chat in chats.chats(export):
                for _, window in chats.windows(chat, source):
                    if window_id(f"{source.name}:{chat.name}", window.key) == row["message_id"]:
                        named_files = [file for entry in window.entries for file in entry.files]
                        try:
                            return chats.files(export).content(named_files[row["part_index"]].place)
                        except (ChatFormatError, IndexError) as fault:
                            raise SourceError(f"source {source.name}: {fault}") from fault
    raise SourceError(f"source {source.name}: the export changed since the last build; build again")
