"""One folder of an IMAP server as a Maildir: mails that are new there come, mails that are gone
there go.

The folder is opened with EXAMINE and mails are read with BODY.PEEK (RFC 9051, sections 6.3.3 and
6.4.5.1), so that nothing changes there. A file's name says which mail it is: a hash of server,
folder, user and UIDVALIDITY, and the UID; the one other memory is the mod-sequence (RFC 7162) up to
which labels are here.
"""

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from imapclient import IMAPClient
from imapclient.datetime_util import format_criteria_date
from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError

from dagster_project.extras.mailboxes.imap_wire import TooManyBytesError, Wire, WiredClient
from dagster_project.extras.mailboxes.labels import flag_labels
from dagster_project.extras.mailboxes.maildir import Maildir
from dagster_project.extras.mailboxes.settings import ImapRemote, MailFolder
from dagster_project.remotes.landing import MALFORMED, Landing
from dagster_project.system.masking import Credentials
from dagster_project.system.rate_limit import Quota
from transforms.embedding.vectors import batch_ranges
from transforms.errors import FetchError, FetchInterruptedError, LoginRefusedError
from transforms.hashing import parts_hash

_BATCH_MAILS = 200
_BATCH_BYTES = 8 << 20
_KEY_CHARS = 12
_HIGHEST_UID = (1 << 32) - 1
_LISTED_AT_ONCE = 90_000
"""Mails whose UIDs are asked for at once: an answer is one line, and imaplib reads none of more
than 1,000,000 bytes.
"""
_LABELS_AT_ONCE = 500
_LABEL_BYTES = 1 << 20
_NEWS_SECONDS, _LAST_SECONDS = 60.0, 5.0
"""Seconds between two looks at a quiet connection, and before the time limit cuts it."""
_NAME_BYTES = 1 << 20
"""Bytes of the names of folders that a server sends as literals."""
_ROLES = {rb"\All", rb"\Archive", rb"\Drafts", rb"\Flagged", rb"\Junk", rb"\Sent", rb"\Trash"}
_NO_FOLDER = {rb"\Noselect", rb"\NonExistent"}
_Answer = TypeVar("_Answer")


class _Listing(NamedTuple):
    """A folder as it is: the key of its files, its UIDs, the count of its mails, and its highest
    mod-sequence if any.
    """

    key: str
    uids: list[int]
    count: int
    modseq: int | None


class ImapFolder:
    """One fetch of a folder; its address is a whole one, without a part in `base`."""

    def __init__(self, remote: ImapRemote, landing: Landing, credentials: Credentials, base: Path):
        self.remote, self.landing, self.credentials = remote, landing, credentials
        self.quota = Quota(remote.requests_per_minute, 1)
        self.ends_at = time.monotonic() + remote.time_limit_seconds
        self.wire = Wire()
        self.label_items = [b"FLAGS"]
        today = datetime.now(UTC).date()
        self.since = remote.oldest(today, is_first=not landing.is_complete)

    def fetch(self) -> None:
        """Make the Maildir equal to the folder; raises as the protocol `Remotes` says."""
        with self._logged_in():
            self._bring(Maildir(self.landing, self.remote.max_bytes))

    def news(self) -> Iterator[None]:
        """An item when the folder is open, and one whenever its mails change; ends with the time
        limit. By IDLE (RFC 2177), else by NOOP once a minute. Raises as `fetch`.
        """
        what = f"waiting for mail in the folder {self.remote.folder!r}"
        with self._logged_in():
            self._ask("opening the folder", self._open)
            has_idle = self.client.has_capability("IDLE")
            if has_idle:
                self._ask(what, self.client.idle)
            yield
            while (left := self.ends_at - time.monotonic()) > _LAST_SECONDS:
                seconds = min(left - _LAST_SECONDS, _NEWS_SECONDS)
                wait = self.client.idle_check if has_idle else self._after_noop
                # A number begins a line on a mail; others say that the connection lives.
                if any(
                    isinstance(line[0], int) for line in self._ask(what, partial(wait, seconds))
                ):
                    yield

    def _after_noop(self, seconds: float) -> list[Any]:
        """The lines of the server to NOOP, some seconds from now."""
        time.sleep(seconds)
        lines: list[Any] = self.client.noop()[1]
        return lines

    def folders(self) -> list[MailFolder]:
        """The folders of the account that hold mails, as the server lists them; raises as `fetch`."""
        with self._logged_in():
            what = "listing the folders"
            listed = self._ask(what, self.client.list_folders, _NAME_BYTES)
            names = [(name, flags) for flags, _, name in listed if not _NO_FOLDER & set(flags)]
            return [
                MailFolder(
                    name=name,
                    mails=self._ask(what, partial(self._count, name), _NAME_BYTES),
                    role=_role(flags),
                )
                for name, flags in names
            ]

    def _count(self, folder: str) -> int:
        """The count of mails in a folder; 0 for one that the server lists and does not open."""
        try:
            return int(self.client.folder_status(folder, [b"MESSAGES"])[b"MESSAGES"])
        except IMAPClientAbortError:
            raise
        except IMAPClientError:
            return 0

    @contextmanager
    def _logged_in(self) -> Iterator[None]:
        """The time in which `client` is connected and logged in."""
        watch = threading.Timer(max(0.0, self.ends_at - time.monotonic()), self.wire.cut)
        watch.daemon = True
        watch.start()
        try:
            self.client = self._ask("connecting", self._greeted)
            self._ask("login", self._log_in)
            yield
        finally:
            watch.cancel()
            self.wire.close()

    @property
    def _address(self) -> str:
        return f"imap server {':'.join(map(str, self.remote.address))}"

    def _reason(self, error: BaseException) -> str:
        # Only the name or the password cannot be encoded: the reason is the kind of the error
        # alone.
        text = "" if isinstance(error, UnicodeEncodeError) else self.credentials.hidden(str(error))
        return text or type(error).__name__

    def _ask(self, what: str, call: Callable[[], _Answer], literals: int = 0) -> _Answer:
        """The answer of the server; every fault of it as a FetchError that says what was asked for.

        At most so many bytes of literals are read. It waits for the quota, and ends when the time
        limit is over.
        """
        if time.monotonic() >= self.ends_at:
            raise self.remote.too_late(self._address)
        asyncio.run(self.quota.take(1, 0))
        self.landing.requests += 1
        self.wire.allow(literals)
        fault: FetchError
        here = self._address
        try:
            return call()
        except LoginError as error:
            was_cut = isinstance(error.__context__, IMAPClientAbortError)
            remedy = self.remote.remedy(self.landing.source)
            reason = f"{here} refuses the login ({self._reason(error)})"
            fault = (
                self._interrupted(what, self._reason(error))
                if was_cut
                else LoginRefusedError(reason, remedy)
            )
        except ssl.SSLCertVerificationError as error:
            fault = FetchError(
                f"{here}: the certificate cannot be trusted ({error.verify_message}); name a file with the "
                "authority's certificate by SSL_CERT_FILE"
            )
        except ssl.SSLError as error:
            fault = FetchError(
                f"{here}: no encrypted connection ({self._reason(error)}); check host and tls"
            )
        except TooManyBytesError as error:
            fault = FetchError(
                f"{here}, {what}: {error} came, more than an answer has; check host and folder"
            )
        except (OSError, IMAPClientError) as error:
            fault = self._interrupted(what, self._reason(error))
        except MALFORMED as error:
            why = f"the answer cannot be read ({type(error).__name__}: {self._reason(error)})"
            fault = self._interrupted(what, f"{why}; if it stays so, check host and folder")
        raise fault

    def _interrupted(self, what: str, reason: str) -> FetchError:
        if time.monotonic() >= self.ends_at:
            return self.remote.too_late(self._address)
        return FetchInterruptedError(f"{self._address}, {what}: {reason}")

    def _greeted(self) -> IMAPClient:
        context = ssl.create_default_context()
        client = WiredClient(
            self.wire,
            self.remote.address[0],
            port=self.remote.address[1],
            ssl=self.remote.tls == "tls",
            ssl_context=context if self.remote.tls == "tls" else None,
            timeout=self.remote.timeout_seconds,
        )
        if self.remote.tls == "starttls":
            client.starttls(context)
        return client

    def _log_in(self) -> None:
        if self.credentials.token:
            has = self.client.has_capability
            by_xoauth2 = has("AUTH=XOAUTH2") or not has("AUTH=OAUTHBEARER")
            log_in = self.client.oauth2_login if by_xoauth2 else self.client.oauthbearer_login
            log_in(self.credentials.user, self.credentials.token)
        else:
            self.client.login(self.credentials.user, self.credentials.password)

    def _bring(self, maildir: Maildir) -> None:
        listed = self._listed()
        key = listed.key
        names = maildir.names()
        there = {f"{key}.{uid:010d}": uid for uid in listed.uids}
        missing = sorted((uid for name, uid in there.items() if name not in names), reverse=True)
        self.landing.unchanged += len(there) - len(missing)
        for batch in self._batches(maildir, missing):
            self._store(maildir, key, batch)
        self._label(maildir, listed, {uid: name for name, uid in there.items() if name in names})
        # Mails of another UIDVALIDITY go only when all of this one have come.
        stale = names - set(there)
        if self.remote.expunged == "keep":
            stale = {name for name in stale if not name.startswith(f"{key}.")}
        maildir.drop(stale)

    def _listed(self) -> _Listing:
        validity, count, modseq = self._ask("opening the folder", self._open)
        identity = [*map(str, self.remote.address), self.credentials.user or "", self.remote.folder]
        key = parts_hash([*identity, str(validity)])[:_KEY_CHARS]
        what = f"listing the folder {self.remote.folder!r}"
        uids = sorted(self._searched(what, count, _condition(self.since)))
        if not uids and self.since != self.remote.since:  # a folder of older mails alone
            self.since = self.remote.since
            uids = sorted(self._searched(what, count, _condition(self.since)))
        # Mails that are gone there go here: an answer without a list must not pass for an empty
        # folder.
        if (count and not uids and not self.since) or any(
            not 0 < uid <= _HIGHEST_UID for uid in uids
        ):
            raise FetchInterruptedError(
                f"{self._address}, {what}: {count:,} mails are said to be there, and their UIDs are missing"
            )
        return _Listing(key, uids, count, modseq)

    def _searched(self, what: str, count: int, condition: str) -> set[int]:
        """The UIDs of the mails, `count` in all, that a condition of SEARCH is true for."""
        uids: set[int] = set()
        for numbers in _number_ranges(count):
            uids.update(self._ask(what, partial(self.client.search, numbers + condition)))
        return uids

    def _open(self) -> tuple[int, int, int | None]:
        """UIDVALIDITY of the folder, the count of its mails, and its highest mod-sequence if it has
        one.
        """
        if self.client.has_capability("X-GM-EXT-1"):
            self.label_items = [b"FLAGS", b"X-GM-LABELS"]
        if self.client.has_capability("CONDSTORE") and self.client.has_capability("ENABLE"):
            self.client.enable("CONDSTORE")  # Dovecot counts changes only from then on.
        try:
            chosen = self.client.select_folder(self.remote.folder, readonly=True)
        except IMAPClientAbortError:
            raise
        except IMAPClientError as error:
            raise FetchError(
                f"{self._address} does not open the folder {self.remote.folder!r} ({self._reason(error)}); mend `folder`"
            ) from None
        return int(chosen[b"UIDVALIDITY"]), int(chosen[b"EXISTS"]), chosen.get(b"HIGHESTMODSEQ")

    def _label(self, maildir: Maildir, listed: _Listing, here: Mapping[int, str]) -> None:
        """Give the mails that were here before, files by their UIDs, the labels that they have
        there now.

        Those that changed since the mod-sequence of the last fetch are asked for; all if the server
        counts none.
        """
        now, last = (
            {"key": listed.key, "modseq": listed.modseq},
            self.landing.items.get("labels", {}),
        )
        uids = set(here)
        if last == now and listed.modseq:
            return
        if uids and listed.modseq and last.get("key") == listed.key and last.get("modseq"):
            what = f"changes in the folder {self.remote.folder!r}"
            uids &= self._searched(what, listed.count, f" MODSEQ {last['modseq'] + 1}")
        for start in range(0, len(uids), _LABELS_AT_ONCE):
            batch = sorted(uids)[start : start + _LABELS_AT_ONCE]
            for uid, labels in self._fetched(
                "flags of ", batch, self.label_items, _flags, _LABEL_BYTES
            ):
                if labels is not None:
                    maildir.relabel(here[uid], labels)
        self.landing.items["labels"] = now

    def _batches(self, maildir: Maildir, uids: Sequence[int]) -> Iterator[list[int]]:
        """The mails to be fetched, so many at once that a batch stays small; too large ones are
        left out.
        """
        for start in range(0, len(uids), _BATCH_MAILS):
            some, items = uids[start : start + _BATCH_MAILS], [b"RFC822.SIZE"]
            sizes = self._fetched(
                "sizes of ", some, items, lambda parts: int(parts.get(b"RFC822.SIZE", 0))
            )
            fitting = [(uid, size) for uid, size in sizes if not maildir.is_too_large(uid, size)]
            for places in batch_ranges([size for _, size in fitting], _BATCH_MAILS, _BATCH_BYTES):
                yield [fitting[place][0] for place in places]

    def _store(self, maildir: Maildir, key: str, uids: list[int]) -> None:
        """Fetch mails and give each its file."""
        most = max(self.remote.max_bytes, _BATCH_BYTES) + _LABEL_BYTES
        items = [b"BODY.PEEK[]", b"INTERNALDATE", *self.label_items]
        for uid, (data, arrived, labels) in self._fetched("", uids, items, _mail, most):
            if data is None:  # expunged by somebody since it was listed
                continue
            self.landing.bytes += len(data)
            if not maildir.is_too_large(uid, len(data)):
                maildir.put(f"{key}.{uid:010d}", data, arrived, labels)

    def _fetched(
        self,
        what: str,
        uids: Sequence[int],
        items: list[bytes],
        read: Callable[[Mapping[bytes, Any]], _Answer],
        literals: int = 0,
    ) -> list[tuple[int, _Answer]]:
        """The result of `read` for the parts of each mail, the highest UID first."""

        def call() -> dict[int, _Answer]:
            return {uid: read(parts) for uid, parts in self.client.fetch(uids, items).items()}

        place = f"UID {min(uids)} to {max(uids)} of the folder {self.remote.folder!r}"
        return sorted(self._ask(f"{what}{place}", call, literals).items(), reverse=True)


def _number_ranges(count: int) -> Iterator[str]:
    """The sequence numbers of so many mails as ranges, the highest first; ALL where one range is
    enough.

    A mail that somebody expunges meanwhile lowers the numbers above its own: in this order, none of
    them is left out.
    """
    if count <= _LISTED_AT_ONCE:
        yield "ALL"
        return
    end = "*"
    for start in range((count - 1) // _LISTED_AT_ONCE * _LISTED_AT_ONCE + 1, 0, -_LISTED_AT_ONCE):
        yield f"{start}:{end}"
        end = str(start - 1)


def _condition(since: date | None) -> str:
    """The condition of SEARCH for mails that arrived on a day or later; empty for all."""
    return f" SINCE {format_criteria_date(since).decode()}" if since else ""


def _role(flags: Sequence[bytes]) -> str:
    """The role of a folder by its flags (RFC 6154)."""
    return next((flag.decode().strip("\\").lower() for flag in flags if flag in _ROLES), "")


def _flags(parts: Mapping[bytes, Any]) -> list[str] | None:
    """The labels of a mail; None if the answer is of other facts, which a server may send at any
    time.
    """
    return flag_labels(parts) if b"FLAGS" in parts else None


def _mail(parts: Mapping[bytes, Any]) -> tuple[bytes | None, datetime, list[str]]:
    """A mail, None without one, its arrival by the server's clock, now without one, and its labels.
    ValueError if wrong.
    """
    data, date = parts.get(b"BODY[]"), parts.get(b"INTERNALDATE")
    if data is not None and not isinstance(data, bytes):
        raise ValueError(f"a mail that is {type(data).__name__}")
    arrived = date.astimezone(UTC) if isinstance(date, datetime) else datetime.now(UTC)
    return data, arrived, flag_labels(parts)
