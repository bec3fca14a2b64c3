"""Stored chats whose names only their owner sees, with pseudonyms for others."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.conversations.chunks import masked_pages
from transforms.conversations.pseudonyms import Pseudonym, masked_texts
from transforms.conversations.windows import window_id
from transforms.hashing import text_hash
from transforms.schemas.conversations import CONVERSATION_MESSAGES
from transforms.schemas.mail import ATTACHMENTS


class MaskedChats(NamedTuple):
    """The tables `conversations` and `conversation_attachments` with pseudonyms for names."""

    turns: pa.Table
    attachments: pa.Table


def masked_turns(
    turns: pa.Table, attachments: pa.Table, names: Iterable[str], pseudonym: Pseudonym
) -> MaskedChats:
    """Turns and files of chats with pseudonyms for `names`, those of all who wrote in their sources.

    Replaced are authors, and names in texts, titles and names of files as `masked_texts` finds
    them; ids and partitions, which name chats, follow the replaced title.
    """
    people = sorted(names)
    rows, files = turns.to_pylist(), attachments.to_pylist()
    labels = [f"{row['conversation_id'].partition(':')[2]}\0{row['title']}" for row in rows]
    texts = masked_texts([*labels, *(row["text"] for row in rows)], people, pseudonym)
    windows: dict[str, dict[str, str]] = {}
    for row, label, text in zip(rows, texts[: len(rows)], texts[len(rows) :], strict=True):
        name, _, title = label.partition("\0")
        conversation = f"{row['source']}:{name}"
        own = {
            "doc_id": window_id(conversation, row["window"]),
            "partition": f"{row['source']}/{text_hash(row['partition'])[:12]}",
        }
        windows[row["doc_id"]] = own
        author = row["author"] and pseudonym(row["author"])
        row |= own | {"conversation_id": conversation, "title": title}
        row |= {"text": text, "author": author}
    for file in files:
        own = windows[file["message_id"]]
        file |= {"message_id": own["doc_id"], "partition": own["partition"]}
        file |= _masked_file(file, people, pseudonym)
    return MaskedChats(CONVERSATION_MESSAGES.from_rows(rows), ATTACHMENTS.from_rows(files))


def _masked_file(
    file: dict[str, Any], names: Sequence[str], pseudonym: Pseudonym
) -> dict[str, Any]:
    """The changed columns of a file; of a picture only the ending of its name stays."""
    mask = partial(masked_texts, names=names, pseudonym=pseudonym)
    (name,) = mask([file["filename"] or ""])
    if file["picture"]:  # a part of a name is not masked
        name = f"picture.{name.rpartition('.')[2]}"
    text, starts = masked_pages(file["text"], file["page_starts"], mask)
    return {
        "filename": name,
        "text": text,
        "page_starts": starts,
        "char_count": len(text or ""),
    }
