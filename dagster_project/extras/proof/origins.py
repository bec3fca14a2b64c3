"""The links from a stored text to its source: read again as a build reads it, and the file or
commit that holds it.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from dagster_project.composition.stores import make_sources
from dagster_project.config.settings import ConversationSourceSettings, Settings
from dagster_project.extras.proof.citations import (
    DIFFERS,
    PROVED,
    SOURCE_GONE,
    UNCHANGED,
    UNKNOWN,
    ProofLink,
)
from dagster_project.extras.proof.signatures import Keys, signature_links
from dagster_project.index.search.lookup import asking
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.sources.git_history import git, named_object
from dagster_project.sources.raw_mail import mails_at
from dagster_project.system.globs import is_file, is_there, real_path
from transforms.conversations.windows import conversation_markdown
from transforms.documents.files import read_documents
from transforms.errors import SourceError
from transforms.mail.messages import RawMail, read_mail

_ROWS = {
    "message": "SELECT * EXCLUDE (person_id) FROM messages WHERE message_id = $id",
    "document": "FROM documents WHERE doc_id = $id",
    "conversation": "FROM conversation_windows WHERE doc_id = $id",
}
_OF_THE_ARCHIVE = {
    *(
        "message_id",
        "source",
        "partition",
        "list_id",
        "place",
        "effective_at",
        "date_quality",
        "defects",
    )
}
"""Columns of a mail that say more than its bytes: its copies, its archive, the time of a From_
line.
"""
_UID = re.compile(r".+\.(\d{10})")
"""The name of a file that was fetched from a folder of an IMAP server."""


def origin_links(
    settings: Settings, index: SearchIndex, memory: Path, keys: Keys, doc_id: str, text: str
) -> list[ProofLink]:
    """The links from a stored text to its source, and on to the signatures of a mail's sender.

    The sources remember in the folder `memory` which files they read.
    """
    ask = asking(index.connection)
    rows = (
        (kind, row) for kind, rows in _ROWS.items() for row in ask(rows, {"id": doc_id}).to_pylist()
    )
    kind, row = next(rows)
    alone = settings.model_copy(
        update={"sources": [s for s in settings.sources if s.name == row["source"]]}
    )
    try:
        if not alone.sources:
            raise SourceError(f"source {row['source']} is not in the settings any more")
        if kind == "message":
            return list(_mail(alone, row, keys))
        return list(_read_again(alone, memory, row, text))
    except (SourceError, OSError) as fault:
        return [ProofLink("source", SOURCE_GONE, f"{fault}; mend the source, or build again")]


def _mail(settings: Settings, row: dict[str, Any], keys: Keys) -> Iterator[ProofLink]:
    """The links of a mail: all stored parts of it are compared with those decoded now."""
    name, place, nearest = row["source"], row["place"], None
    given = {column: row[column] for column in ("source", "partition", "list_id")}
    for path, data in mails_at(settings, name, place, row["raw_bytes"]):
        now = read_mail(
            [RawMail(place, data)], **given, settings=settings.mail
        ).messages.to_pylist()
        others = [c for c in row if c not in _OF_THE_ARCHIVE and (not now or now[0][c] != row[c])]
        nearest = min(filter(None, (nearest, (len(others), others, path, data))))
    if nearest is None or {"header_message_id", "text_hash", "raw_bytes"} <= set(nearest[1]):
        raise SourceError(f"source {name}: the mail is not at {place} any more")
    _, others, path, data = nearest
    if others:
        yield ProofLink(
            "source", DIFFERS, f"{place} of {name} is other than was read: {', '.join(others)}"
        )
    else:
        size = f"{row['raw_bytes']:,} bytes"
        yield ProofLink(
            "source", UNCHANGED, f"{place}: {size}, decoded again: all that is stored is equal"
        )
        yield _place(settings.source(name), place, path, data)
    yield from signature_links(data, keys)


def _place(source: Any, place: str, path: Path, data: bytes) -> ProofLink:
    """The commit, the file or the UID of a mail."""
    if source.kind == "public_inbox":
        return _in_git(path, place.rpartition(":")[2], "m", data)
    where = f"{path}, byte {place.rpartition(':')[2]}" if source.kind == "mbox" else str(path)
    uid = _UID.fullmatch(path.name.partition(":")[0])
    if uid and source.remote and source.remote.kind == "imap":
        return ProofLink(
            "place", UNCHANGED, f"UID {int(uid[1])} of {source.remote.folder!r}, here {where}"
        )
    return _in_work_tree(path) or ProofLink("place", UNCHANGED, where)


def _read_again(
    settings: Settings, memory: Path, row: dict[str, Any], text: str
) -> Iterator[ProofLink]:
    """The links of a document or a chat: its files are read again, as a build reads them."""
    source, sources = settings.source(row["source"]), make_sources(settings, memory)
    again, files = list[str](), list[Path]()

    def digest(file: Path) -> str:
        files.append(file)
        return _sha256(file)

    is_chat = isinstance(source, ConversationSourceSettings)
    partitions = sources.chats.partitions(source, digest) if is_chat else sources.discover()
    for partition in (one for one in partitions if one.key == row["partition"]):
        if is_chat:
            turns, attached, _ = sources.conversation(partition)
            windows = conversation_markdown(turns).filter(pc.field("doc_id") == row["doc_id"])
            again = [*windows.column("markdown").to_pylist(), *attached.column("text").to_pylist()]
        else:
            raw = [file for file in sources.files(partition) if file.path == row["path"]]
            given = {column: row[column] for column in ("source", "partition")}
            tables = read_documents(raw, **given, settings=settings.documents)
            again = tables.documents.column("text").to_pylist()
            paths = {file.name: file.path for file in sources.stored_files(partition)}
            files = [paths.get(row["path"], settings.place(source))]
    if not again:
        raise SourceError(
            f"source {row['source']}: {row.get('path') or row['doc_id']} is not there any more"
        )
    named = ", ".join(f"{file} (SHA-256 {_sha256(file)})" for file in files[:3])
    if text not in again:
        yield ProofLink("source", DIFFERS, f"read again, the text is another one: {named}")
        return
    yield ProofLink(
        "source", UNCHANGED, f"read again, all {len(text.encode()):,} bytes of it are equal"
    )
    yield (len(files) == 1 and _in_work_tree(files[0])) or ProofLink("place", UNCHANGED, named)


def _in_work_tree(file: Path) -> ProofLink | None:
    """Whether the last commit holds a file as it is; None if the file is in no git work tree."""
    file = real_path(file)
    folder = next((parent for parent in file.parents if is_there(parent / ".git")), None)
    if folder is None or not is_file(file):
        return None
    repository = folder / ".git"
    if is_file(repository):
        repository = (
            folder / repository.read_text("utf-8", "replace").removeprefix("gitdir:").strip()
        )
    return _in_git(repository, "HEAD", file.relative_to(folder).as_posix(), file.read_bytes())


def _in_git(repository: Path, commit: str, name: str, data: bytes) -> ProofLink:
    """Whether a commit of the history of HEAD holds these bytes by a name."""
    try:
        commit = named_object(repository, f"{commit}^{{commit}}")
        git(repository, "merge-base", "--is-ancestor", commit, "HEAD")
        held = named_object(repository, f"{commit}:{name}")
        blob = git(repository, "hash-object", "--stdin", stdin=data).decode().strip()
    except SourceError:
        return ProofLink(
            "place", UNKNOWN, f"no commit {commit} in the history of {repository} holds {name}"
        )
    if held != blob:
        return ProofLink(
            "place", DIFFERS, f"{name} is blob {blob}; {commit} of {repository} holds {held}"
        )
    return ProofLink(
        "place", PROVED, f"commit {commit} of {repository} holds {name} as blob {blob}"
    )


def _sha256(file: Path) -> str:
    return (
        hashlib.sha256(file.read_bytes()).hexdigest() if is_file(file) else "none: it is a folder"
    )
