"""A mailbox becomes sources: from its address alone, by questions to a person at a terminal."""

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from pydantic import ValidationError

from dagster_project.config.settings import faults_of
from dagster_project.extensions import AccountFolder, MailAccount, load, offered
from dagster_project.extras.mailboxes import passwords
from dagster_project.extras.mailboxes.addresses import Lookups, MailServer, server_of
from dagster_project.extras.mailboxes.settings import FolderRemote, MailFolder
from dagster_project.remotes.landing import Landing
from dagster_project.system.masking import Credentials, quiet_wire_logs
from transforms.errors import FetchError, FetchInterruptedError, LoginRefusedError, SettingsError

LOOKUPS = Lookups()
_ATTEMPTS = 3
"""Passwords that a person may try in one run."""
_TIMEOUT_SECONDS, _TIME_LIMIT_SECONDS = 15.0, 120.0
"""Waits while a person waits, too: for the next bytes, and for the list of folders."""
_SHOWN_FOLDERS = 60
_SECONDARY = ("trash", "junk", "drafts", "flagged")
"""Roles of folders with mails that nobody searches, or that are in other folders as well."""
_YEAR_DAYS = 365


def account_of(address: str, can_answer: bool) -> MailAccount:
    """The mailbox of an address, as the hook `addresses` says.

    Where nobody can answer, the environment has the password, and the folders are those that a
    person is offered first.
    """
    quiet_wire_logs()
    server = server_of(address, LOOKUPS) or _named_server(address, can_answer)
    _say(f"{address}: {server.provider}, {server.fetch.get('host') or server.fetch.get('url')}")
    credentials = credentials_name(address)
    remote = _remote(server, credentials)
    login, folders = _tried(remote, server, can_answer)
    chosen = _chosen(folders) if can_answer else _first(folders)
    facts: dict[str, Any] = {**server.fetch, "credentials": credentials}
    if not can_answer or _takes_last_year_first(chosen):
        facts["first_days"] = _YEAR_DAYS
    keep = partial(_keep, credentials=credentials, login=login)
    return MailAccount(
        folders=tuple(
            AccountFolder(
                name=_source_name(address, folder.name, len(chosen)),
                described=f"{folder.name} of {address}, {_mails(folder.mails)}",
                fetch=facts | {"folder": folder.name},
            )
            for folder in chosen
        ),
        store=keep if not _is_in_environment(credentials) else lambda _: "",
    )


def with_password(
    remote: FolderRemote, landing: Landing, root: Path, say: Callable[[str], None] | None
) -> Credentials:
    """The credentials of the environment, or those stored; with `say`, a person gives the password,
    which is tried and stored.

    FetchError as `Credentials.of`, and if the server refuses the password.
    """
    known = passwords.environment(root, remote.credentials)
    if not say:
        return Credentials.of(remote, landing.source, known)
    name = str(remote.credentials)
    user = known.get(f"{name}_USER") or click.prompt("Name of the login", err=True)
    login = Credentials(user=user, password=_password(MailServer("", {}, user)))
    _folders(remote, login)
    say(
        f"The password is right; it is in {passwords.store(root, name, user, login.password or '')}"
    )
    return login


def credentials_name(address: str) -> str:
    """The name with which the variables of an address's login begin.

    >>> credentials_name("ann.lee+x@gmail.com")
    'ANN_LEE_X_GMAIL_COM'
    """
    name = re.sub(r"[^A-Z0-9]+", "_", address.upper()).strip("_")
    return name[:90] if name[:1].isalpha() else f"MAIL_{name}"[:90]


def _named_server(address: str, can_answer: bool) -> MailServer:
    """The server that a person names; SettingsError where nobody can answer."""
    domain = address.rpartition("@")[2]
    if not can_answer:
        raise SettingsError(
            f"{address}: nothing says which server of mail {domain} has; write a source with "
            '`[sources.fetch]` and `kind = "imap"`, as `weft help operations` describes'
        )
    _say(f"Nothing says which server of mail {domain} has.")
    host = click.prompt("Name of its IMAP server", default=f"imap.{domain}", err=True)
    return MailServer(domain, {"kind": "imap", "host": host.strip()}, address)


def _remote(server: MailServer, credentials: str, folder: str = "INBOX") -> FolderRemote:
    """The settings of a folder of a server, with the patience of a person."""
    model = load(offered("remotes")[server.fetch["kind"]].model)
    try:
        remote: FolderRemote = model(**server.fetch, credentials=credentials, folder=folder)
    except ValidationError as error:
        raise SettingsError(f"{server.provider}: {faults_of(error)}") from None
    patience = {"timeout_seconds": _TIMEOUT_SECONDS, "time_limit_seconds": _TIME_LIMIT_SECONDS}
    return remote.model_copy(update=patience)


def _tried(
    remote: FolderRemote, server: MailServer, can_answer: bool
) -> tuple[Credentials, list[MailFolder]]:
    """A login that the server takes, and the folders that it then lists."""
    name = str(remote.credentials)
    if password := os.environ.get(f"{name}_PASSWORD"):
        login = Credentials(user=os.environ.get(f"{name}_USER") or server.user, password=password)
        return login, _folders(remote, login)
    if not can_answer:
        raise SettingsError(
            f"set {name}_USER and {name}_PASSWORD, or run `weft init` at a terminal, which asks for the password"
        )
    for number, step in enumerate(server.steps, 1):
        _say(f"  {number}. {step}")
    for left in reversed(range(_ATTEMPTS)):
        login = Credentials(user=server.user, password=_password(server))
        try:
            return login, _folders(remote, login)
        except LoginRefusedError as fault:
            if not left:
                raise
            _say(f"{fault}. Try again, or press Ctrl-C: nothing was written.")
    raise AssertionError("an attempt returns or raises")


def _password(server: MailServer) -> str:
    text = click.prompt("Password (nothing is shown while you type)", hide_input=True, err=True)
    # Letters of app passwords are shown in groups.
    return "".join(text.split()) if server.steps else text.strip()


def _folders(remote: FolderRemote, login: Credentials) -> list[MailFolder]:
    """The folders of an account with their counts; FetchError with nothing secret in it."""
    fetcher = load(offered("remotes")[remote.kind].fetcher)
    with TemporaryDirectory(prefix="weft-") as folder:
        landing = Landing(Path(folder), "mailbox")
        try:
            folders: list[MailFolder] = fetcher(remote, landing, login, Path(folder)).folders()
        except FetchInterruptedError as error:
            fault: FetchError = FetchInterruptedError(login.hidden(str(error)), error.pause)
        except LoginRefusedError as error:
            fault = LoginRefusedError(login.hidden(error.reason))
        except FetchError as error:
            fault = FetchError(login.hidden(str(error)))
        else:
            return folders
    # Outside of the handlers: an exception holds requests, and those the credentials.
    raise fault


def _first(folders: Sequence[MailFolder]) -> list[MailFolder]:
    """The folders to begin with: that of all mails if there is one, else those that people search."""
    everything = [folder for folder in folders if folder.role == "all" and folder.mails]
    others = [f for f in folders if f.mails and f.role not in _SECONDARY]
    return everything or others or [f for f in folders if f.name.upper() == "INBOX"]


def _chosen(folders: Sequence[MailFolder]) -> list[MailFolder]:
    """The folders that a person takes."""
    first = _first(folders)
    shown = sorted(folders, key=lambda f: (f not in first, -f.mails))[:_SHOWN_FOLDERS]
    for number, folder in enumerate(shown, 1):
        _say(f"  {number}  {folder.name}, {_mails(folder.mails)}")
    if len(folders) > len(shown):
        _say(f"  and {len(folders) - len(shown)} smaller ones")
    default = " ".join(str(number) for number in range(1, min(len(first), len(shown)) + 1))

    def numbers(answer: str) -> list[MailFolder]:
        words = answer.replace(",", " ").split()
        if words == ["all"]:
            return list(folders)
        if not words or not all(w.isdecimal() and 0 < int(w) <= len(shown) for w in words):
            raise click.BadParameter(f"give all, or numbers from 1 to {len(shown)}")
        return [shown[n - 1] for n in sorted({int(word) for word in words})]

    return click.prompt(
        "Which folders (all, or numbers)", default=default, value_proc=numbers, err=True
    )


def _takes_last_year_first(folders: Sequence[MailFolder]) -> bool:
    count = sum(folder.mails for folder in folders)
    what = f"The last year first, of {_mails(count)} (the next build brings the older ones)"
    return click.confirm(what, default=True, err=True)


def _source_name(address: str, folder: str, count: int) -> str:
    return address.replace("@", "-") if count == 1 else f"{address.replace('@', '-')}-{folder}"


def _keep(root: Path, credentials: str, login: Credentials) -> str:
    place = passwords.store(root, credentials, login.user or "", login.password or "")
    return f"the password is in {place}"


def _is_in_environment(credentials: str) -> bool:
    return bool(os.environ.get(f"{credentials}_PASSWORD"))


def _mails(count: int) -> str:
    return f"{count:,} {'mail' if count == 1 else 'mails'}"


def _say(text: str) -> None:
    click.echo(text, err=True)
