"""The remotes of the sources that have one: each source is fetched by its kind, by one process at a
time.
"""

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Protocol

from assets.protocols.sources import Fetched
from dagster_project.config.settings import Settings, SourceSettings
from dagster_project.config.source_settings import GitRemote, HttpRemote
from dagster_project.extensions import load, offered
from dagster_project.remotes.git_remotes import GitRepositories
from dagster_project.remotes.landing import Landing
from dagster_project.system.masking import FAULT_CHARS, Credentials, quiet_wire_logs
from transforms.errors import FetchError, FetchInterruptedError, SettingsError


class Fetcher(Protocol):
    """One fetch of one remote."""

    def fetch(self) -> None:
        """Make the files here equal to those there; raises as the protocol `Remotes` says."""


class Reports(Protocol):
    """A connection to a remote that reports its news."""

    def news(self) -> Iterator[None]:
        """An item once the remote reports its news, and one for each of them; raises as a fetch."""


class SourceRemotes:
    """Fetches the remotes of `[sources.fetch]` into the folder of fetched files."""

    def __init__(self, settings: Settings, now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        self.settings, self.now = settings, now

    def fetch(self, source: str) -> Fetched:
        """Bring new mails and files from a source's remote; raises as the protocol says, with
        nothing secret in any text.
        """
        credentials, landing = Credentials(), Landing(self.settings.fetched, source)
        try:
            credentials = self.log_in(source)
            landing.prepare()
            with _alone(landing):
                self._fetcher(source, landing, credentials).fetch()
                landing.is_complete = True
                landing.save()
        except FetchInterruptedError as error:
            fault = FetchInterruptedError(credentials.hidden(str(error), FAULT_CHARS), error.pause)
        except FetchError as error:
            fault = FetchError(credentials.hidden(str(error), FAULT_CHARS))
        except OSError as error:
            # The fetchers raise faults of the network as FetchError.
            fault = FetchError(
                f"source {source}: {error.filename or self.settings.fetched} cannot be read or written "
                f"({error.strerror or type(error).__name__}); mend the disk or storage.root"
            )
        else:
            return Fetched(
                landing.added,
                landing.changed,
                landing.unchanged,
                landing.removed,
                landing.bytes,
                landing.requests,
                landing.newest_at,
                self._lag(landing),
                tuple(map(credentials.hidden, landing.notes)),
            )
        # Outside of the handlers: an exception holds requests, and those the credentials.
        raise fault

    def log_in(self, source: str, say: Callable[[str], None] | None = None) -> Credentials:
        """The credentials of a fetch; with `say`, those after a person signed in as the lines say
        that it is called with.

        SettingsError if the source has no remote, or with `say` none that people sign in to;
        FetchError if that fails.
        """
        quiet_wire_logs()
        remote = next((one.remote for one in self.settings.sources if one.name == source), None)
        offer = offered("remotes").get(remote.kind) if remote else None
        if offer and offer.log_in:
            landing, function = Landing(self.settings.fetched, source), load(offer.log_in)
            return function(remote, landing, self.settings.root, say)
        if say or not remote:
            raise SettingsError(
                f"{source!r} is not a source that fetches a mailbox; name one that does"
            )
        return Credentials.of(remote, source)

    def reports(self, source: str) -> Reports:
        """A connection to the remote of a source, of a kind whose offer has `reports`."""
        remote = self.settings.source(source).remote
        assert remote, f"source {source} has no fetch"
        connect = load(offered("remotes")[remote.kind].reports)
        landing = Landing(self.settings.fetched, source)
        connection: Reports = connect(remote, landing, self.log_in(source), self.settings.base)
        return connection

    def lag_seconds(self, source: str) -> float | None:
        """How old the newest mail or file is that was fetched; None where nothing was."""
        return self._lag(Landing(self.settings.fetched, source))

    def _lag(self, landing: Landing) -> float | None:
        return (self.now() - landing.newest_at).total_seconds() if landing.newest_at else None

    def _fetcher(self, name: str, landing: Landing, credentials: Credentials) -> Fetcher:
        source = self.settings.source(name)
        remote = source.remote
        # httpx2 takes a fifth of a second to import, which only a fetch of such a remote needs.
        if isinstance(remote, HttpRemote):
            from dagster_project.remotes.http_archives import MonthlyArchives

            list_id = source.list_id if isinstance(source, SourceSettings) else None
            return MonthlyArchives(remote, landing, credentials, list_id or name, self.now())
        if isinstance(remote, GitRemote):
            return GitRepositories(remote, landing, credentials)
        assert remote, f"source {name} has no fetch"
        fetcher: Fetcher = load(offered("remotes")[remote.kind].fetcher)(
            remote, landing, credentials, self.settings.base
        )
        return fetcher


@contextlib.contextmanager
def _alone(landing: Landing) -> Iterator[None]:
    """Hold the lock of a source; it goes with the process. FetchInterruptedError where another
    holds it.
    """
    with landing.work.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FetchInterruptedError(
                f"source {landing.source} is being fetched by another process"
            ) from error
        yield
