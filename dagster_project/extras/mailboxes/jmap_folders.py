"""One folder of a JMAP account as a Maildir: mails that are new there come, mails that are gone
there go.

Only methods that read are called (RFC 8621) and mails downloaded, so that nothing changes there.
The server's state is noted when all of it is here: the next fetch asks for the changes since.
Without it, or if the server does not know it any more, the folder is listed; a file's name says
which mail it is.
"""
# ruff: noqa: UP013

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import AwareDatetime, Field, NonNegativeInt, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from dagster_project.extras.mailboxes.labels import clean_labels
from dagster_project.extras.mailboxes.maildir import Maildir
from dagster_project.extras.mailboxes.settings import JmapRemote, MailFolder
from dagster_project.remotes.http_requests import HttpRequests, body_of
from dagster_project.remotes.landing import Landing
from dagster_project.remotes.redirects import next_hop
from dagster_project.system.masking import Credentials, shown_address
from transforms.errors import FetchError, FetchInterruptedError
from transforms.hashing import parts_hash

_CORE, _MAIL = "urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"
_MAILS_AT_ONCE, _IDS_AT_ONCE, _MOST_MAILS, _SHOWN_FOLDERS, _MOST_LEVELS = (
    200,
    5_000,
    2_000_000,
    20,
    100,
)
_ANSWER_BYTES = 16 << 20
_ATTEMPTS = 5
"""Times that a request is sent to a server that asks to wait each time."""
_KEY_CHARS = 12
_PASSING = {"serverUnavailable", "serverFail", "serverPartialFail", "rateLimit", "anchorNotFound"}
"""Errors of methods after which the same fetch may succeed (RFC 8620, sections 3.6.2 and 5.5)."""
_FLAGS = frozenset(("$answered", "$draft", "$flagged", "$seen"))
"""Keywords that are flags of IMAP (RFC 8621, section 4.1.1), and labels with the names that these
have.
"""
_ROLES = {role: role for role in ("all", "archive", "drafts", "flagged", "junk", "sent", "trash")}
_Shape = TypeVar("_Shape")
_Result = TypeVar("_Result")
_adapter = cache(TypeAdapter)
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,200}$")]
"""An id (RFC 8620, section 1.2), short enough for the name of a file."""
_Session = TypedDict(
    "_Session",
    {
        "capabilities": dict[str, dict[str, Any]],
        "primaryAccounts": dict[str, Id],
        "apiUrl": str,
        "downloadUrl": str,
    },
)
_Mailbox = TypedDict(
    "_Mailbox",
    {
        "id": Id,
        "name": str,
        "parentId": Id | None,
        "role": str | None,
        "totalEmails": NotRequired[NonNegativeInt],
    },
)
_Mailboxes = TypedDict("_Mailboxes", {"list": list[_Mailbox]})
_Mail = TypedDict(
    "_Mail",
    {
        "id": Id,
        "blobId": Id,
        "size": NonNegativeInt,
        "receivedAt": AwareDatetime,
        "mailboxIds": dict[Id, bool],
        "keywords": dict[str, bool],
    },
)
_Mails = TypedDict("_Mails", {"state": str, "list": list[_Mail], "notFound": list[Id]})
_Found = TypedDict("_Found", {"ids": list[Id], "total": NonNegativeInt})
_Changes = TypedDict(
    "_Changes",
    {
        "newState": str,
        "hasMoreChanges": bool,
        "created": list[Id],
        "updated": list[Id],
        "destroyed": list[Id],
    },
)
_Answers = TypedDict("_Answers", {"methodResponses": list[tuple[str, dict[str, Any], str]]})


class _UnknownStateError(FetchInterruptedError):
    """The server does not know a state any more."""


class JmapFolder:
    """One fetch of a folder; its address is a whole one, without a part in `base`."""

    def __init__(self, remote: JmapRemote, landing: Landing, credentials: Credentials, base: Path):
        self.remote, self.landing, self.is_whole = remote, landing, True
        self.requests = HttpRequests(remote, landing, credentials, datetime.now(UTC))
        self.oldest = remote.oldest(datetime.now(UTC).date(), is_first=not landing.is_complete)

    def fetch(self) -> None:
        """Make the Maildir equal to the folder; raises as the protocol `Remotes` says."""
        self.maildir = Maildir(self.landing, self.remote.max_bytes)
        self._run(self._fetch())

    def folders(self) -> list[MailFolder]:
        """The folders of the account that hold mails; raises as `fetch`."""
        return self._run(self._folders())

    def _run(self, task: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return asyncio.run(task)
        except TimeoutError:
            raise self.remote.too_late(shown_address(self.remote.url)) from None

    @asynccontextmanager
    async def _logged_in(self) -> AsyncIterator[None]:
        """The time in which `client` is connected, and `session` and `account` are known."""
        async with (
            asyncio.timeout(self.remote.time_limit_seconds),
            self.requests.client() as self.client,
        ):
            self.session = self._read(_Session, await self._answer(self.remote.url), "the session")
            self.account = self.session["primaryAccounts"].get(_MAIL, "")
            if not self.account:
                raise self._fault(
                    "the login has no account of mail; give the token the scope of mail"
                )
            yield

    async def _folders(self) -> list[MailFolder]:
        async with self._logged_in():
            boxes = await self._mailboxes()
        return [
            MailFolder(
                _path(box, boxes), box.get("totalEmails", 0), _ROLES.get(box["role"] or "", "")
            )
            for box in boxes.values()
        ]

    async def _fetch(self) -> None:
        async with self._logged_in():
            self.mailbox, self.paths = await self._mailbox()
            self.key = parts_hash([self.remote.url, self.account, self.mailbox])[:_KEY_CHARS]
            names = self.maildir.names()
            here = {name for name in names if name.startswith(f"{self.key}.")}
            state, stale = await self._bring(here)
        # Mails of another folder go only when all of this one have come.
        self.maildir.drop(names - here | (stale if self.remote.expunged == "delete" else set()))
        self.landing.items = (
            {"jmap": {"state": state, "of": self._identity()}} if self.is_whole else {}
        )

    def _identity(self) -> str:
        """A hash of the folder, what is fetched of it, and the mails that are here."""
        settings = [self.key, str(self.oldest), str(self.remote.max_bytes)]
        folders = [part for folder in sorted(self.paths.items()) for part in folder]
        return parts_hash([*settings, *folders, *sorted(self.maildir.names())])

    async def _bring(self, here: set[str]) -> tuple[str, set[str]]:
        """Fetch the mails that are not here; the state of the server before, and the names of mails
        that are gone.
        """
        memory = self.landing.items.get("jmap", {})
        try:
            if memory.get("of") != self._identity():
                raise _UnknownStateError("")
            state, ids, stale = await self._changed(str(memory.get("state")))
        except _UnknownStateError:
            state = (await self._call("Email/get", {"ids": []}, _Mails))["state"]
            ids = list(await self._listed())
            if not ids and self.oldest != self.remote.since:  # a folder of older mails alone
                self.oldest = self.remote.since
                ids = list(await self._listed())
            stale = here.difference(map(self._name, ids))
        since = datetime.combine(self.oldest or date.min, time(), UTC)
        async for mail in self._mails_of(ids):
            name = self._name(mail["id"])
            if self.mailbox not in mail["mailboxIds"] or mail["receivedAt"] < since:
                stale.add(name)
            elif name in here:
                self.maildir.relabel(name, self._labels(mail))
            else:
                await self._store(name, mail)
        self.landing.unchanged += len(here - stale)
        return state, stale

    async def _changed(self, state: str) -> tuple[str, list[str], set[str]]:
        """The state now, mails that came or changed since a state, and the names of those that are
        gone.
        """
        changed, destroyed, has_more = dict[str, None](), set[str](), True
        while has_more:
            part = await self._call("Email/changes", {"sinceState": state}, _Changes)
            has_more = part["hasMoreChanges"]
            if (has_more and part["newState"] == state) or len(changed) + len(
                destroyed
            ) > _MOST_MAILS:
                raise self._fault(
                    "Email/changes: changes are announced without an end", passes=True
                )
            changed |= dict.fromkeys([*part["created"], *part["updated"]])
            destroyed.update(part["destroyed"])
            state = part["newState"]
        return (
            state,
            [one for one in changed if one not in destroyed],
            set(map(self._name, destroyed)),
        )

    async def _listed(self) -> dict[str, None]:
        """The ids of all mails in the folder, the youngest first.

        A page begins behind the last mail of the page before: mails that come or go meanwhile move
        no page.
        """
        after = {"after": f"{self.oldest}T00:00:00Z"} if self.oldest else {}
        query: dict[str, Any] = {
            "filter": {"inMailbox": self.mailbox, **after},
            "sort": [{"property": "receivedAt", "isAscending": False}],
            "limit": _IDS_AT_ONCE,
            "calculateTotal": True,
        }
        ids, is_new, total = dict[str, None](), True, 1
        while is_new and len(ids) < min(total, _MOST_MAILS):
            page = await self._call("Email/query", query, _Found)
            is_new, total = not ids.keys() >= set(page["ids"]), page["total"]
            ids |= dict.fromkeys(page["ids"])
            query |= {"anchor": next(reversed(ids), None), "anchorOffset": 1}
        # Mails that are gone there go here: a list that is cut off must not pass for a smaller
        # folder.
        if len(ids) < total:
            counts = f"{total:,} mails are said to be there, and {len(ids):,} are listed"
            raise self._fault(f"Email/query: {counts}", passes=True)
        return ids

    async def _mails_of(self, ids: list[str]) -> AsyncIterator[_Mail]:
        """The mails of these ids that are still there, in this order."""
        limit = self.session["capabilities"].get(_CORE, {}).get("maxObjectsInGet")
        count = (
            min(_MAILS_AT_ONCE, limit) if isinstance(limit, int) and limit > 0 else _MAILS_AT_ONCE
        )
        properties = ["id", "blobId", "size", "receivedAt", "mailboxIds", "keywords"]
        for some in (ids[start : start + count] for start in range(0, len(ids), count)):
            answer = await self._call("Email/get", {"ids": some, "properties": properties}, _Mails)
            mails = {mail["id"]: mail for mail in answer["list"]}
            if lost := set(some) - mails.keys() - set(answer["notFound"]):
                counts = f"{len(lost)} of {len(some)} mails"
                raise self._fault(f"Email/get: {counts} are not answered", passes=True)
            for mail in filter(None, map(mails.get, some)):
                yield mail

    async def _store(self, name: str, mail: _Mail) -> None:
        """Download a mail; one that is other than the server says is noted, and the next fetch asks
        for it again.
        """
        if self.maildir.is_too_large(mail["id"], mail["size"]):
            return
        url = self.session["downloadUrl"]
        values = {
            "accountId": self.account,
            "blobId": mail["blobId"],
            "type": "message/rfc822",
            "name": "mail.eml",
        }
        for field, value in values.items():
            url = url.replace(f"{{{field}}}", quote(value, safe=""))
        data = await self._answer(url, most=mail["size"])
        if len(data) == mail["size"]:
            self.maildir.put(name, data, mail["receivedAt"], self._labels(mail))
            return
        self.is_whole = False
        text = f"mail {mail['id']} has other than the {mail['size']:,} bytes that the server says"
        self.landing.note(f"{text}; the next fetch asks for it again")

    def _labels(self, mail: _Mail) -> list[str]:
        """The keywords of a mail and the other folders that it is in; `seen` for `$seen`."""
        keywords = (word for word, is_set in mail["keywords"].items() if is_set)
        others = (self.paths.get(box, "") for box in mail["mailboxIds"] if box != self.mailbox)
        return clean_labels(
            [*(word.lstrip("$") if word in _FLAGS else word for word in keywords), *others]
        )

    async def _mailbox(self) -> tuple[str, dict[str, str]]:
        """The id of the folder, that of the role `inbox` for INBOX, and the paths of all folders by
        their ids.
        """
        boxes = await self._mailboxes()
        ids = {"INBOX": one for one, box in boxes.items() if box["role"] == "inbox"}  # noqa: B035
        paths = {one: _path(box, boxes) for one, box in boxes.items()}
        ids |= {path: one for one, path in paths.items()}
        folder = "INBOX" if self.remote.folder.upper() == "INBOX" else self.remote.folder
        if folder not in ids:
            names = ", ".join(sorted(ids)[:_SHOWN_FOLDERS])
            raise self._fault(f"there is no folder {folder!r}, but {names}; mend `folder`")
        return ids[folder], paths

    async def _mailboxes(self) -> dict[str, _Mailbox]:
        """All folders by their ids."""
        properties = ["id", "name", "parentId", "role", "totalEmails"]
        answer = await self._call(
            "Mailbox/get", {"ids": None, "properties": properties}, _Mailboxes
        )
        return {box["id"]: box for box in answer["list"]}

    def _name(self, mail: str) -> str:
        return f"{self.key}.{mail}"

    async def _call(self, method: str, arguments: Mapping[str, Any], shape: type[_Shape]) -> _Shape:
        """The answer to a method of the account of mail (RFC 8620, section 3.3)."""
        call = [method, {"accountId": self.account, **arguments}, "0"]
        body = json.dumps({"using": [_CORE, _MAIL], "methodCalls": [call]}).encode()
        answers = self._read(_Answers, await self._answer(self.session["apiUrl"], body), method)
        name, answer, _ = (*answers["methodResponses"], ("no answer", {}, ""))[0]
        kind = str(answer.get("type"))
        if name == "error" and kind == "cannotCalculateChanges":
            raise _UnknownStateError(method)
        if name == "error":
            remedy = "" if kind in _PASSING else "; check what the token may read"
            raise self._fault(
                f"{method}: the server answers {kind}{remedy}", passes=kind in _PASSING
            )
        if (name, answer.get("accountId")) != (method, self.account):
            raise self._fault(
                f"{method}: the answer is of another method or account; check url", passes=True
            )
        return self._read(shape, answer, method)

    async def _answer(
        self, url: str, body: bytes | None = None, most: int = _ANSWER_BYTES
    ) -> bytes:
        """The bytes of an answer, a block more than `most` at most; none where the server has
        nothing (404, 410).

        A pause that the server requests is waited for.
        """
        first = httpx2.URL(self.remote.url)
        there = (await next_hop(first, first, url)).url
        if there.port != first.port:
            # Another server, which somebody else may run on the same host.
            raise self._fault(
                f"the session leads to {shown_address(str(there))}, another port; mend `url`"
            )
        address = str(there)

        async def receive(response: httpx2.Response) -> bytes:
            if response.status_code not in (200, 404, 410):
                raise self.requests.refused(response, address)
            data = await body_of(response, most)
            self.landing.bytes += len(data)
            return data if response.status_code == 200 else b""

        for _ in range(_ATTEMPTS):
            try:
                headers = {"Content-Type": "application/json"}
                return await self.requests.result(self.client, address, receive, headers, body)
            except FetchInterruptedError as error:
                fault = error
                if fault.pause is None:
                    break
        raise fault

    def _read(self, shape: type[_Shape], answer: bytes | dict[str, Any], what: str) -> _Shape:
        """The parts of an answer that are used; a fault that may pass if it has another shape."""
        adapter = _adapter(shape)
        try:
            if isinstance(answer, bytes):
                return adapter.validate_json(answer)
            return adapter.validate_python(answer)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
        why = f"the answer cannot be read ({'.'.join(map(str, first['loc']))} {first['msg']})"
        raise self._fault(f"{what}: {why}; if it stays so, check url", passes=True)

    def _fault(self, text: str, *, passes: bool = False) -> FetchError:
        kind = FetchInterruptedError if passes else FetchError
        return kind(f"jmap account {shown_address(self.remote.url)}: {text}")


def _path(box: _Mailbox, boxes: Mapping[str, _Mailbox]) -> str:
    """The names of a mailbox and those above it, divided by `/`."""
    names = [box["name"]]
    while (above := boxes.get(box["parentId"] or "")) and len(names) < _MOST_LEVELS:
        names.append(above["name"])
        box = above
    return "/".join(reversed(names))
