"""Mails and threads as they are read: the tree, the parts of each mail, and its series."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from dagster_project.extras.web.mail_parts import Part, mail_parts
from dagster_project.extras.web.marks import Address, Marked
from dagster_project.extras.web.question import page_of
from dagster_project.extras.web.site import rows_about
from dagster_project.index.search.lookup import Ask
from dagster_project.system.sql_files import SqlFile
from transforms.errors import UnknownIdError

_SQL = SqlFile(__file__, "mails.sql")

PER_PAGE = 500
"""Mails of a thread on one page."""
_FIRST = 240
"""Characters of a mail that it is folded to, and by which a tree tells it from others."""
_QUOTED = 1_000
"""Characters of a mail that an answer to it quotes: addresses of a few thousand are refused by mail
programs.
"""


class _Mail(NamedTuple):
    """One mail; `row` are its columns, `node` its place in the thread, `series` its row of
    `patch_series` or None.
    """

    row: Mapping[str, Any]
    node: Mapping[str, Any]
    parts: list[Part]
    attachments: Sequence[Mapping[str, Any]]
    series: Mapping[str, Any] | None
    ancestors: list[str | None]

    @property
    def first_words(self) -> str:
        """The beginning of what the author says, on one line."""
        texts = (part.html.striptags() for part in self.parts if part.kind == "text")
        return " ".join(next(texts, "").split())[:_FIRST]

    def quoted_from(self, depth: int) -> str | None:
        """The Message-ID of the mail that a quote of that depth comes from, if the thread says it
        and a source holds it.
        """
        return self.ancestors[depth - 1] if 0 < depth <= len(self.ancestors) else None


class _Thread(NamedTuple):
    """A thread: its row of `threads`, the rows of its tree in reading order, and the mails that are
    shown of it.
    """

    row: Mapping[str, Any]
    tree: list[dict[str, Any]]
    mails: list[_Mail]

    @property
    def with_own_subject(self) -> set[str]:
        """The mails whose subject is not that of the mail that they answer."""
        subjects = {node["message_id"]: node["subject_norm"] for node in self.tree}
        own = (
            n
            for n in self.tree
            if n["subject"] and n["subject_norm"] != subjects.get(n["parent_id"])
        )
        return {node["message_id"] for node in own}

    def around(self, message_id: str) -> tuple[str | None, str | None]:
        """The mails before and behind one in reading order, ghosts left out."""
        ids = [node["message_id"] for node in self.tree if not node["is_ghost"]]
        at = ids.index(message_id)
        return (ids[at - 1] if at else None), (ids[at + 1] if at + 1 < len(ids) else None)


def thread_page(ask: Ask, thread_id: str, start: int = 0) -> _Thread:
    """A thread with `PER_PAGE` of its mails from the place `start` on; UnknownIdError if the index
    lacks it.
    """
    (row,) = rows_about(ask, _SQL("thread"), "thread", thread_id)
    tree = ask(_SQL("tree"), {"id": thread_id}).to_pylist()
    ids = [node["message_id"] for node in tree[start : start + PER_PAGE] if not node["is_ghost"]]
    return _Thread(row, tree, _mails(ask, ids, tree))


def mail_page(ask: Ask, message_id: str, cited: tuple[int, int] | None = None) -> _Thread:
    """The thread of a mail with that mail alone; UnknownIdError if no source holds it."""
    (row,) = rows_about(ask, _SQL("thread_of"), "mail", message_id)
    tree = ask(_SQL("tree"), {"id": row["thread_id"]}).to_pylist()
    mails = _mails(ask, [message_id], tree, cited)
    if not mails:
        raise UnknownIdError(f"{message_id} is a mail that others refer to and no source holds")
    return _Thread(row, tree, mails)


def reply_address(mail: _Mail) -> str | None:
    """The address (RFC 6068) that opens an answer to all in one's mail program; None if the
    author's is not shown.
    """
    row = mail.row
    to = row["reply_to"] or row["from_addr"]
    if not to or "@" not in to:
        return None
    others = dict.fromkeys(a for a in (*row["to_addrs"], *row["cc_addrs"]) if "@" in a and a != to)
    lines = row["body"][:_QUOTED].splitlines()
    who = row["from_name"] or row["from_addr"]
    subject = row["subject"] or ""
    fields = {
        "In-Reply-To": f"<{row['message_id']}>",
        "Cc": ",".join(others),
        "Subject": subject if subject.lower().startswith("re:") else f"Re: {subject}",
        "body": f"{who} wrote:\r\n" + "".join(f"> {line}\r\n" for line in lines),
    }
    return f"mailto:{quote(to, safe='@')}?" + "&".join(
        f"{n}={quote(v, safe='')}" for n, v in fields.items() if v
    )


def _mails(
    ask: Ask,
    ids: Sequence[str],
    tree: Iterable[dict[str, Any]],
    cited: tuple[int, int] | None = None,
) -> list[_Mail]:
    """The mails of these ids, in their order, with all that is shown of them; `cited` are bytes of
    the first.
    """
    rows: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for name in ("mails", "blocks", "lists", "attachments", "links", "series"):
        for row in ask(_SQL(name), {"ids": list(ids)}).to_pylist():
            rows[name, row["message_id"]].append(row)
    nodes = {node["message_id"]: node for node in tree}
    mails = []
    for message_id in (i for i in ids if ("mails", i) in rows):
        spans = [
            Address(link["byte_start"], link["byte_end"], page_of("message", link["to_id"]))
            for link in rows["links", message_id]
        ]
        row, series = rows["mails", message_id][-1], [None, *rows["series", message_id]][-1]
        blocks = sorted(rows["blocks", message_id], key=lambda block: block["byte_start"])
        parts = mail_parts(Marked(row["body"], cited, spans), blocks)
        shown = {**row, "lists": [row["list_id"] for row in rows["lists", message_id]]}
        above = _ancestors(nodes, message_id)
        mails.append(
            _Mail(shown, nodes[message_id], parts, rows["attachments", message_id], series, above)
        )
    return mails


def _ancestors(nodes: Mapping[str, Mapping[str, Any]], message_id: str) -> list[str | None]:
    """The mails above one in its thread, the one it answers first; None for one that no source
    holds.
    """
    above: list[str] = []
    at = nodes[message_id]["parent_id"]
    while at in nodes and at not in above:
        above.append(at)
        at = nodes[at]["parent_id"]
    return [None if nodes[id_]["is_ghost"] else id_ for id_ in above]
