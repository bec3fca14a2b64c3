"""One folder of an IMAP server as a Maildir: mails that are new there come, mails that are gone there go.

The folder is opened with EXAMINE and mails are read with BODY.PEEK (RFC 9051, sections 6.3.3 and 6.4.5.1), so that
nothing changes there. A file's name says which mail it is: a hash of server, folder, user and UIDVALIDITY, and
the UID; what is in the folder is therefore all that is remembered.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError

from dagster_project.config.source_settings import ImapRemote
from dagster_project.resources.remotes.landing import Landing
from dagster_project.resources.system.credentials import Credentials
from dagster_project.resources.system.rate_limit import Quota
from transforms.errors import FetchError, FetchInterruptedError
from transforms.hashing import parts_hash

_BATCH_MAILS = 200
_BATCH_BYTES = 8 << 20
_KEY_CHARS = 12


class ImapFolder:
    """One fetch of a folder."""

    def __init__(self, remote: ImapRemote, landing: Landing, credentials: Credentials, base: Path):
        self.remote, self.landing, self.credentials = remote, landing, credentials
        self.trusted = base / remote.ca_file if remote.ca_file else None
        self.quota = Quota(remote.requests_per_minute, 1)
        self.ends_at = time.monotonic() + remote.time_limit_seconds

    def fetch(self) -> None:
        """Make the Maildir what the folder is; raises as the protocol `Remotes` says."""
        for part in ("cur", "new", "tmp"):
            (self.landing.folder / part).mkdir(exist_ok=True)
        fault: FetchError
        try:
            with self._connected() as client:
                self._bring(client)
            return
        except LoginError as error:
            was_cut = isinstance(error.__context__, IMAPClientAbortError)
            fault = self._interrupted(error) if was_cut else self._refused(error)
        except ssl.SSLCertVerificationError as error:
            fault = FetchError(
                f"{self._address}: the certificate cannot be trusted ({error.verify_message}); name the authority's "
                "certificate as ca_file"
            )
        except ssl.SSLError as error:
            fault = FetchError(
                f"{self._address}: no encrypted connection ({self._said(error)}); check port and tls"
            )
        except (OSError, IMAPClientAbortError) as error:
            fault = self._interrupted(error)
        except IMAPClientError as error:
            fault = FetchInterruptedError(f"{self._address}: {self._said(error)}")
        raise fault

    @property
    def _address(self) -> str:
        return f"imap server {self.remote.host}:{self.remote.used_port}"

    def _said(self, error: Exception) -> str:
        return self.credentials.hidden(str(error)) or type(error).__name__

    def _refused(self, error: LoginError) -> FetchError:
        secret = self.remote.password_variable or self.remote.token_variable
        return FetchError(
            f"{self._address} refuses the login ({self._said(error)}); check {self.remote.user_variable} and {secret}"
        )

    def _interrupted(self, error: Exception) -> FetchError:
        if time.monotonic() >= self.ends_at:
            return FetchError(
                f"{self._address}: the time limit of {self.remote.time_limit_seconds:g} s is over "
                "(time_limit_seconds); the next fetch goes on"
            )
        return FetchInterruptedError(f"{self._address}: {self._said(error)}")

    @contextmanager
    def _connected(self) -> Iterator[IMAPClient]:
        """A connection that is logged in, cut when the time limit is over."""
        context = ssl.create_default_context(cafile=str(self.trusted) if self.trusted else None)
        client = IMAPClient(
            self.remote.host,
            port=self.remote.used_port,
            ssl=self.remote.tls == "tls",
            ssl_context=context if self.remote.tls == "tls" else None,
            timeout=self.remote.timeout_seconds,
        )

        def cut() -> None:
            with suppress(OSError):  # closed already
                client.socket().shutdown(socket.SHUT_RDWR)

        watch = threading.Timer(max(0.0, self.ends_at - time.monotonic()), cut)
        watch.daemon = True
        watch.start()
        try:
            if self.remote.tls == "starttls":
                client.starttls(context)
            self._log_in(client)
            yield client
        finally:
            watch.cancel()
            with suppress(OSError):
                client.shutdown()

    def _log_in(self, client: IMAPClient) -> None:
        if self.credentials.token:
            client.oauth2_login(self.credentials.user, self.credentials.token)
        else:
            client.login(self.credentials.user, self.credentials.password)

    def _bring(self, client: IMAPClient) -> None:
        key, uids = self._listed(client)
        held = {p.name for p in (self.landing.folder / "cur").iterdir()}
        there = {f"{key}.{uid:010d}": uid for uid in uids}
        missing = sorted((uid for name, uid in there.items() if name not in held), reverse=True)
        self.landing.unchanged += len(there) - len(missing)
        for batch in self._batches(client, missing):
            self._store(client, key, batch)
        # Mails of another UIDVALIDITY go only when all of this one have come.
        if self.remote.expunged == "delete":
            gone = held - set(there)
        else:
            gone = {name for name in held - set(there) if not name.startswith(f"{key}.")}
        for name in sorted(gone):
            self.landing.drop(f"cur/{name}")

    def _listed(self, client: IMAPClient) -> tuple[str, list[int]]:
        """The key of the folder as it is now, and the UIDs in it."""
        self._count()
        try:
            chosen = client.select_folder(self.remote.folder, readonly=True)
        except IMAPClientAbortError:
            raise
        except IMAPClientError as error:
            raise FetchError(
                f"{self._address} does not open the folder {self.remote.folder!r} ({self._said(error)}); mend `folder`"
            ) from None
        validity = int(chosen[b"UIDVALIDITY"])
        identity = [
            self.remote.host,
            str(self.remote.used_port),
            self.credentials.user or "",
            self.remote.folder,
        ]
        key = parts_hash([*identity, str(validity)])[:_KEY_CHARS]
        self._count()
        criteria: list[Any] = ["SINCE", self.remote.since] if self.remote.since else ["ALL"]
        return key, sorted(client.search(criteria))

    def _batches(self, client: IMAPClient, uids: Sequence[int]) -> Iterator[list[int]]:
        """The mails to be fetched, so many at once that a batch stays small; too large ones are left out."""
        for start in range(0, len(uids), _BATCH_MAILS):
            self._count()
            sizes = client.fetch(uids[start : start + _BATCH_MAILS], [b"RFC822.SIZE"])
            batch: list[int] = []
            filled = 0
            for uid in sorted(sizes, reverse=True):
                size = sizes[uid].get(b"RFC822.SIZE", 0)
                if size > self.remote.max_bytes:
                    self.landing.note(
                        f"mail {uid} has {size:,} bytes, more than max_bytes; it was not fetched"
                    )
                    continue
                if batch and filled + size > _BATCH_BYTES:
                    yield batch
                    batch, filled = [], 0
                batch.append(uid)
                filled += size
            if batch:
                yield batch

    def _store(self, client: IMAPClient, key: str, uids: list[int]) -> None:
        """Fetch mails and give each its file, as old as its arrival on the server."""
        self._count()
        for uid, parts in sorted(client.fetch(uids, [b"BODY.PEEK[]", b"INTERNALDATE"]).items(), reverse=True):
            data = parts.get(b"BODY[]")
            if data is None:  # expunged by somebody since it was listed
                continue
            self.landing.bytes += len(data)
            name = f"{key}.{uid:010d}"
            unfinished = self.landing.partial(name)
            unfinished.write_bytes(data.replace(b"\r\n", b"\n"))
            arrived = (
                parts[b"INTERNALDATE"].astimezone(UTC) if b"INTERNALDATE" in parts else datetime.now(UTC)
            )
            os.utime(unfinished, (arrived.timestamp(), arrived.timestamp()))
            self.landing.put(unfinished, f"cur/{name}")
            self.landing.saw(arrived)

    def _count(self) -> None:
        """Wait for the quota, and end when the time limit is over."""
        if time.monotonic() >= self.ends_at:
            raise self._interrupted(TimeoutError())
        asyncio.run(self.quota.take(1, 0))
        self.landing.requests += 1
