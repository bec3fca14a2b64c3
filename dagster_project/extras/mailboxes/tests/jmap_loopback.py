"""A JMAP server on the loopback interface with one account (RFC 8620, RFC 8621): it answers truly
until it lies.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.http_loopback import WholeAnswers, served

TOKEN = "t0ken-of-Ada-4711"
BOXES = (("in", "Eingang", None, "inbox"), ("li", "Lists", None, None), ("de", "dev", "li", None))


@dataclass
class Account:
    """The mails of an account (bytes, arrival, folders) by id, the log of changes, and lies.

    `keywords` are those of the mails that have some. `lies` maps a method, `session` or `blob` to a
    function of the true answer that returns the one to give: a value, or `(status, headers)` of
    HTTP. Changes before `forgotten` are not known any more. A page has two ids.
    """

    url: str = ""
    mails: dict[str, tuple[bytes, str, tuple[str, ...]]] = field(default_factory=dict)
    keywords: dict[str, tuple[str, ...]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    forgotten: int = 0
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    lies: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def put(self, mail: str, data: bytes, at: str = "2004-01-20T12:00:00Z", *boxes: str) -> None:
        """Add a mail, or give one other folders."""
        self.mails[mail] = data, at, boxes
        self.log.append(mail)

    def remove(self, mail: str) -> None:
        del self.mails[mail]
        self.log.append(mail)

    def session(self) -> dict[str, Any]:
        return {
            "capabilities": {"urn:ietf:params:jmap:core": {"maxObjectsInGet": 2}},
            "apiUrl": f"{self.url}/api",
            "primaryAccounts": {"urn:ietf:params:jmap:mail": "u1"},
            "downloadUrl": f"{self.url}/download/{{accountId}}/{{blobId}}/{{name}}?type={{type}}",
        }

    def answer(self, method: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The true arguments of a response; those of an error have a `type`."""
        if method == "Mailbox/get":
            names = ("id", "name", "parentId", "role")
            boxes = [dict(zip(names, box, strict=True)) for box in BOXES]
            for box in boxes:
                box["totalEmails"] = sum(box["id"] in mail[2] for mail in self.mails.values())
            return {"list": boxes}
        if method == "Email/query":
            box, after = asked["filter"]["inMailbox"], asked["filter"].get("after", "")
            ids = [m for m, (_, at, boxes) in self.mails.items() if box in boxes and at >= after]
            ids.sort(key=lambda m: self.mails[m][1], reverse=True)
            start = ids.index(asked["anchor"]) + asked["anchorOffset"] if "anchor" in asked else 0
            return {"ids": ids[start : start + 2], "total": len(ids)}
        if method == "Email/changes":
            since = int(asked["sinceState"])
            if since < self.forgotten:
                return {"type": "cannotCalculateChanges"}
            changed, now = set(self.log[since : since + 2]), min(since + 2, len(self.log))
            there, gone = sorted(changed & {*self.mails}), sorted(changed - {*self.mails})
            facts = {"created": there, "updated": [], "destroyed": gone}
            return {"newState": str(now), "hasMoreChanges": now < len(self.log), **facts}
        assert len(asked["ids"]) <= 2
        mails = [
            {
                "id": m,
                "blobId": f"B{m}",
                "size": len(data),
                "receivedAt": at,
                "mailboxIds": dict.fromkeys(boxes, True),
                "keywords": dict.fromkeys(self.keywords.get(m, ()), True),
            }
            for m, (data, at, boxes) in self.mails.items()
            if m in asked["ids"]
        ]
        return {
            "state": str(len(self.log)),
            "notFound": [*{*asked["ids"]} - {*self.mails}],
            "list": mails,
        }


class _Handler(WholeAnswers):
    account: Account

    def do_GET(self) -> None:  # noqa: N802
        if self.path.startswith("/download/u1/B"):
            self.reply("blob", self.account.mails[self.path.split("/")[3][1:]][0])
        else:
            self.reply("session", self.account.session())

    def do_POST(self) -> None:  # noqa: N802
        ((method, asked, tag),) = json.loads(self.form())["methodCalls"]
        answer = {"accountId": asked["accountId"], **self.account.answer(method, asked)}
        self.reply(
            method, {"methodResponses": [["error" if "type" in answer else method, answer, tag]]}
        )

    def reply(self, what: str, true: Any) -> None:
        self.account.asked.append(what)
        given = self.account.lies.get(what, lambda answer: answer)(true)
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.account.tokens:
            given = 401, {}
        status, headers = given if isinstance(given, tuple) else (200, {})
        self.send(status, b"" if isinstance(given, tuple) else given, headers)


@contextmanager
def served_account() -> Iterator[Account]:
    """A running server over an empty account."""
    account = Account()
    with served(_Handler, account=account) as account.url:
        yield account
