"""The rows of chats whose names only their owner sees, as a lens has them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa

from dagster_project.config.settings import Settings
from dagster_project.index.publish.table_sql import BUILD
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.sources.chats import pseudonym_key
from dagster_project.system.sql_files import SqlFile
from transforms.conversations.chunks import conversation_chunks
from transforms.conversations.masked_turns import masked_turns
from transforms.conversations.pseudonyms import Pseudonym, keyed_pseudonym
from transforms.conversations.windows import conversation_markdown
from transforms.hashing import parts_hash
from transforms.settings.conversations import ConversationSettings

_SQL = SqlFile(__file__, "masked_chats.sql", chunk_key=BUILD("chunk_key"))


class Masks(NamedTuple):
    """The sources whose chats get pseudonyms, how, and the settings by which they are cut."""

    sources: tuple[str, ...]
    pseudonym: Pseudonym
    settings: ConversationSettings
    digest: str


def masks_of(settings: Settings, lens: str) -> Masks | None:
    """The masks of a lens; None if no chat has names for its owner alone, or the lens shows them."""
    sources = settings.named_chats
    if not sources or settings.lenses[lens].names:
        return None
    key = pseudonym_key(settings.pseudonym_key_file, settings.root)
    digest = parts_hash([*sources, key.hex(), settings.conversations.cutting_digest()])
    return Masks(sources, keyed_pseudonym(key), settings.conversations, digest)


def mask_chats(
    connection: duckdb.DuckDBPyConnection, rows: Callable[[str], str], masks: Masks | None
) -> Sequence[str]:
    """Create `masked_<table>` of the shown chats of some sources, take their own rows out of those
    that are shown, and return the tables; `rows` gives the statement for those of a table.
    """
    run = connection.execute
    run(_SQL("ids"))
    if masks is None:
        return ()
    sources = {"sources": list(masks.sources)}
    run(_SQL("masked"), sources)
    turns = run(_SQL("turns", rows=rows("conversations"))).to_arrow_table()
    attachments = run(_SQL("attachments", rows=rows("attachments"))).to_arrow_table()
    names = run(_SQL("names"), sources).fetchall()
    chats = masked_turns(turns, attachments, (name for (name,) in names), masks.pseudonym)
    cut = conversation_chunks(*chats, masks.settings, PackagedTokenCounter().counts)
    tables: Mapping[str, pa.Table] = {
        "conversations": chats.turns,
        "conversation_windows": conversation_markdown(chats.turns),
        "attachments": chats.attachments,
        "chunks": cut.chunks,
        "exclusions": cut.exclusions,
    }
    for table, data in tables.items():
        connection.register("data", data)
        key = _SQL("key") if table == "chunks" else ""
        run(_SQL("created", table=table, added=key))
        connection.unregister("data")
    run(_SQL("shown"))
    return tuple(tables)
