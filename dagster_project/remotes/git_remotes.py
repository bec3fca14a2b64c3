"""Repositories of a public-inbox: cloned once as mirrors, then fetched; nothing of a remote's
configuration is run.

git is started without the configuration of system and user, without hooks, templates, prompts and
submodules, for the protocol of the address alone. Credentials reach it through its environment, not
its command line.
"""

import asyncio
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from dagster_project.config.source_settings import GitRemote
from dagster_project.remotes.landing import Landing
from dagster_project.system.durable import put
from dagster_project.system.masking import Credentials, shown_address
from dagster_project.system.processes import output_of
from dagster_project.system.rate_limit import Quota
from transforms.errors import FetchError, FetchInterruptedError

_MOST_EPOCHS = 1000
_ABSENT = re.compile(
    r"not found|does not exist|does not appear to be a git repository|no such file or directory",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"authentication failed|could not read (?:username|password)|permission denied|access denied|host key verification|"
    r"returned error: 40[13]|certificate|transport '.*' not allowed",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile("file too large", re.IGNORECASE)
_REDIRECTED = re.compile(
    r"returned error: 30[0-9]|unable to update url base from redirection", re.IGNORECASE
)
_KEPT_BYTES = 1 << 16
"""Last bytes of git's output that are kept: a server can have it say any number of them."""
_STALLED_BYTES = 1000
"""Bytes per second below which a transfer counts as stalled."""


class _AbsentError(FetchError):
    """An address has no repository."""


class GitRepositories:
    """One fetch of all epochs of an inbox into git/0.git, git/1.git, …"""

    def __init__(self, remote: GitRemote, landing: Landing, credentials: Credentials):
        self.remote, self.landing, self.credentials = remote, landing, credentials
        self.quota = Quota(remote.requests_per_minute, 1)
        self.ends_at = time.monotonic() + remote.time_limit_seconds

    def fetch(self) -> None:
        """Make the mirrors equal to the repositories; raises as the protocol `Remotes` says."""
        if shutil.which("git") is None:
            raise FetchError("the git program is not there; install git")
        self.landing.forget_unfinished()
        (self.landing.folder / "git").mkdir(exist_ok=True)
        for epoch in range(_MOST_EPOCHS if "{epoch}" in self.remote.url else 1):
            mirror = self.landing.folder / "git" / f"{epoch}.git"
            url = self.remote.url.replace("{epoch}", str(epoch))
            try:
                self._update(mirror, url)
            except _AbsentError:
                # An epoch after the newest is simply not there yet; one that was fetched must be.
                if epoch == 0 or mirror.exists():
                    raise
                return

    def _update(self, mirror: Path, url: str) -> None:
        asyncio.run(self.quota.take(1, 0))
        self.landing.requests += 1
        before = _state(mirror)
        size = _bytes_below(mirror)
        if mirror.exists():
            for lock in mirror.rglob("*.lock"):
                lock.unlink()  # of a killed fetch; this one is alone
            # By address and not by name: the origin in the mirror's configuration does not matter.
            self._git(
                url,
                "--git-dir",
                str(mirror),
                "fetch",
                "--quiet",
                "--prune",
                "--no-recurse-submodules",
                "--no-write-fetch-head",
                url,
                "+refs/*:refs/*",
            )
        else:
            # A folder of this process alone: the git of a fetch that was killed may still write
            # into its own.
            unfinished = self.landing.partial(f"{mirror.name}.{os.getpid()}.{time.time_ns()}")
            self._git(
                url,
                "clone",
                "--quiet",
                "--mirror",
                "--template=",
                "--no-hardlinks",
                url,
                str(unfinished),
            )
            put(unfinished, mirror)
        now = _state(mirror)
        self.landing.bytes += max(0, _bytes_below(mirror) - size)
        if before is None:
            self.landing.added += 1
        elif before == now:
            self.landing.unchanged += 1
        else:
            self.landing.changed += 1
        if times := [int(t) for t, _, _ in now or () if t.isdecimal()]:
            # Authors of commits can name any time.
            self.landing.saw(datetime.fromtimestamp(min(max(times), time.time()), UTC))

    def _git(self, url: str, *arguments: str) -> None:
        """Run git with the rest of the time; FetchError with its own words where it fails."""
        settings = {
            "core.hooksPath": os.devnull,
            "gc.autoDetach": "false",
            "maintenance.autoDetach": "false",
            # git looks at no address that a redirect leads to, and would ask any host in any
            # network.
            "http.followRedirects": "false",
            "http.lowSpeedLimit": str(_STALLED_BYTES),
            "http.lowSpeedTime": str(max(1, int(self.remote.timeout_seconds))),
        }
        if self.credentials.authorization:
            settings["http.extraHeader"] = f"Authorization: {self.credentials.authorization}"
        process = subprocess.Popen(
            ["git", *arguments],
            env=_environment(urlsplit(url).scheme, settings, self.remote.timeout_seconds),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # Python ignores SIGXFSZ; git, too, is to see a too large file as an error that it can
            # tell.
            restore_signals=False,
        )
        if hasattr(resource, "prlimit"):
            resource.prlimit(
                process.pid, resource.RLIMIT_FSIZE, (self.remote.max_bytes, self.remote.max_bytes)
            )
        with process:
            try:
                complaint = _complaint(process, self.ends_at)
            # An interruption, too, ends git and its children: they do not end with it.
            except BaseException as error:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
                    raise self.remote.too_late(shown_address(url)) from None
                raise
        if process.returncode:
            raise self._fault(url, complaint.decode(errors="replace"))

    def _fault(self, url: str, complaint: str) -> FetchError:
        """The fault in git's words: absent, refused, too large, or a fault that may pass."""
        lines = [
            line
            for line in complaint.splitlines()
            if line.startswith(("fatal:", "error:", "remote:"))
        ]
        some = "; ".join(lines[-3:] or complaint.splitlines()[-1:]).replace(url, shown_address(url))
        words = self.credentials.hidden(some)
        message = f"{shown_address(url)}: git says: {words or 'nothing'}"
        if _TOO_LARGE.search(complaint):
            return FetchError(
                f"{message}; a file has more than {self.remote.max_bytes:,} bytes (max_bytes)"
            )
        if _REDIRECTED.search(complaint):
            return FetchError(
                f"{message}; redirects are not followed: give the address that it leads to"
            )
        if _REFUSED.search(complaint):
            return FetchError(f"{message}; check address and credentials")
        if _ABSENT.search(complaint):
            return _AbsentError(f"{message}; mend the address")
        return FetchInterruptedError(message)


def _environment(scheme: str, settings: dict[str, str], timeout: float) -> dict[str, str]:
    """git's environment: the inherited one without git's own variables, and our configuration."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_ALLOW_PROTOCOL": scheme,
        "GIT_SSH_COMMAND": f"ssh -oBatchMode=yes -oConnectTimeout={max(1, int(timeout))}",
        "GIT_CONFIG_COUNT": str(len(settings)),
        "LC_ALL": "C",
    }
    for number, (key, value) in enumerate(settings.items()):
        own |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return inherited | own


def _complaint(process: subprocess.Popen[bytes], ends_at: float) -> bytes:
    """The end of git's standard error when it ends; TimeoutError or TimeoutExpired if it does not
    in time.
    """
    assert process.stderr
    tail = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while True:
            seconds = ends_at - time.monotonic()
            if seconds <= 0 or not selector.select(seconds):
                raise TimeoutError
            if not (block := os.read(process.stderr.fileno(), _KEPT_BYTES)):
                break
            tail = (tail + block)[-_KEPT_BYTES:]
    process.wait(max(0.1, ends_at - time.monotonic()))
    return bytes(tail)


def _state(mirror: Path) -> list[tuple[str, str, str]] | None:
    """Commit time, object and name of every branch of a mirror; None where there is none.

    A folder that is not a repository any more is removed, so that the next fetch clones it again.
    """
    if not mirror.exists():
        return None
    command = ["for-each-ref", "--format=%(committerdate:unix) %(objectname) %(refname)"]
    process = subprocess.Popen(
        ["git", "--git-dir", str(mirror), *command],
        env=_environment("", {}, 1),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    printed, complaint = output_of(process)
    if process.returncode:
        message = complaint.decode(errors="replace").strip()
        if "not a git repository" not in message:
            raise FetchError(
                f"{mirror} cannot be read: git says: {message}; mend it, or delete it to have it cloned again"
            )
        shutil.rmtree(mirror)
        return None
    lines = (line.split(" ", 2) for line in printed.decode(errors="replace").splitlines())
    return [(at, name, ref) for at, name, ref in lines]


def _bytes_below(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if folder.exists() else 0
