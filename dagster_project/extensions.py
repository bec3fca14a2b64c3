"""Extensions of the core: the hooks that an extra may fill, and the extras that are there.

This is the one module through which the core meets an extra, and all rooms stand above it. An extra
is a folder of `dagster_project/extras`, or belongs to another package, which names it as an entry
point of the group `weft.extras`.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from dagster_project.commands import Command, load
from transforms.errors import SettingsError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "weft.extras"
_FOLDER = Path(__file__).with_name("extras")
_PACKAGE = f"{__package__}.{_FOLDER.name}"


@dataclass(frozen=True)
class RankingOffer:
    """A service that ranks in place of the published file, if `index.target` is an address of its
    kind.

    `opened` is a function of a published file and the section `[index]` that returns the ranking,
    None if the service does not have the file; `mirror` one of `[index]` and `[search]` that
    returns the mirror of publishes. `url` is the pattern of addresses, `example` one with its
    meaning.
    """

    opened: str
    mirror: str
    url: str
    example: str


@dataclass(frozen=True)
class EngineOffer:
    """An engine that makes partitions elsewhere, if `engine.kind` has its name.

    `make` is a function of the settings that returns the engine, `embedder` one of the settings and
    an embedder that returns the embedder of many documents.
    """

    make: str
    embedder: str = ""


@dataclass(frozen=True)
class ModelService:
    """Models that embed, answer or score, if a key of the settings that chooses a model has their
    service's name.

    `embedder` is a function of `[embedding]`, `[gemini]`, `[safety]`, the budget of the run and the
    folder of notes on jobs, `language_model` one of the name, `[gemini]`, the tokens of an answer
    and the last three of these. `key` returns the environment variable with the key.
    `require_served`, if there is one, is a function of `[gemini]`, the names of embedding models
    and those of language models; it raises ServiceError for one that the service does not have.
    `scorer` is a function of `[rerank]` that returns a `PassageScorer`. An extra has those of these
    that it offers. They need the package `module`, which `pip install 'weft[EXTRA]'` of `extra`
    brings.
    """

    embedder: str = ""
    language_model: str = ""
    key: str = ""
    require_served: str = ""
    scorer: str = ""
    module: str = ""
    extra: str = ""


@dataclass(frozen=True)
class Remote:
    """A kind of `[sources.fetch]`: its settings (a `RemoteSettings`), and for which kinds of source
    it is.

    `fetcher` is a function of the settings, the `Landing`, the `Credentials` and the folder that
    relative paths start from; it returns a fetcher. `log_in` is a function of the settings, the
    `Landing`, the storage root and a function that prints a line, or None; it returns the
    `Credentials`, with that function after it led a person through a sign-in. `reports` is a function
    of the same as `fetcher` that returns a connection to a remote that says when it has news.
    """

    model: str
    fetcher: str
    sources: tuple[str, ...]
    log_in: str = ""
    reports: str = ""


@dataclass(frozen=True)
class AccountFolder:
    """A folder of an account: a name for its source, words on it, and its `[sources.fetch]`."""

    name: str
    described: str
    fetch: Mapping[str, Any]


@dataclass(frozen=True)
class MailAccount:
    """The folders of an account that were chosen; `store` is a function of the storage root that
    keeps the login, and returns words on the place.
    """

    folders: tuple[AccountFolder, ...]
    store: Callable[[Path], str]


@dataclass(frozen=True)
class Extra:
    """Additions of an extra; the `__init__.py` of its folder assigns one to `EXTRA` and imports
    nothing that is slow to load.

    Texts of the form `module:attribute` name objects that are loaded when they are needed.
    """

    commands: Mapping[str, Command] = field(default_factory=dict)
    """By their names."""
    evaluations: Mapping[str, Command] = field(default_factory=dict)
    """Commands of `weft eval`, by their names."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The models of sections of the settings file, by the names of the sections."""
    designs: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """The values of its keys in a design, by the names of the designs and sections."""
    tables: str = ""
    """The tables of the lake that it declares, over the whole lake."""
    published: str = ""
    """Those that the published file has, each with the SQL condition of the rows that a lens shows.
    """
    macros: str = ""
    """The statements that create table macros of the published file, by their names."""
    enabled: str = ""
    """A function of the settings that says whether these have the stages; without one they always
    do.
    """
    stages: str = ""
    """A function of the settings that returns the stages over the whole lake, before and after the
    published index.
    """
    resources: str = ""
    """A function of the settings that returns resources of the stages, by name."""
    folder: str = ""
    """The folder below the root that the stages write; a build makes a lost one again."""
    keeps: tuple[str, ...] = ()
    """Folders below the root with files that no build can make again; `weft backup` stores them."""
    admits: tuple[str, ...] = ()
    """Folders below the root whose files, each named after its token's SHA-256, let people in;
    `weft backup` stores them, and restores them on request alone.
    """
    keeps_beside: tuple[str, ...] = ()
    """Patterns of such files beside the settings."""
    queries: str = ""
    """A function that takes how a table of the lake is read, and returns the texts that stages
    embed as queries.
    """
    checks: str = ""
    """A function of the settings that returns asset checks."""
    guard: str = ""
    """A function of the settings, a new file and the current one that raises CheckFailedError
    unless it may be published.
    """
    proofs: str = ""
    """A function of the settings, an index, its lens and a text that returns the citations in it,
    each with the links to its source: name, state and detail.
    """
    answers: str = ""
    """A function of the settings, an index, an `AskRequest` and filters that returns the answer,
    with the passages that it shows.
    """
    prompts: str = ""
    """A function of the settings, an index, an `AskRequest` and filters that returns the `ModelPrompt`
    for a model of the caller, with the passages in it.
    """
    claims: str = ""
    """A function of the settings, an index and a text that returns its sentences, each a
    `CheckedSentence`.
    """
    issues: str = ""
    """A function of the settings, an index and its lens that returns the notes of a build on each
    issue, masked, the newest first.
    """
    rankings: Mapping[str, RankingOffer] = field(default_factory=dict)
    """By their names."""
    engines: Mapping[str, EngineOffer] = field(default_factory=dict)
    """By their names."""
    models: Mapping[str, ModelService] = field(default_factory=dict)
    """By their names."""
    remotes: Mapping[str, Remote] = field(default_factory=dict)
    """By their kinds."""
    accounts: str = ""
    """A function of a mail address, and of whether a person can answer on a terminal, that returns
    the `MailAccount` there: its folders are sources of kind maildir.
    """
    chats: Mapping[str, str] = field(default_factory=dict)
    """Programs whose exports of chats it reads, each a `Program` or `ProgramOfFolders`, by the
    names of their formats.
    """
    lake_lock: str = ""
    """A function that returns a lock of a lake on an object store, as a context."""
    lake_look: str = ""
    """A function that returns one look at the footers of such a lake."""
    progress: Mapping[str, str] = field(default_factory=dict)
    """By stage: two or three words for those who watch a build."""


def extra_parts(attribute: str) -> list[Any]:
    """The objects that the extras name by an attribute of `Extra` of the form `module:attribute`,
    loaded.
    """
    return [load(place) for extra in extras() if (place := getattr(extra, attribute))]


def store_part(attribute: str) -> Any:
    """The part of a lake on an object store that an extra names so; SettingsError if no extra has
    it.
    """
    if parts := extra_parts(attribute):
        return parts[0]
    raise SettingsError(
        "storage.lake is on an object store, and this installation has no extra for these"
    )


def offered(attribute: str) -> dict[str, Any]:
    """The offers of all extras by name, from an attribute of `Extra` that has such, as `engines`."""
    return {name: offer for extra in extras() for name, offer in getattr(extra, attribute).items()}


def is_address(text: str) -> bool:
    """True for the address of a mailbox, as ann@example.org.

    >>> is_address("ann@example.org"), is_address("~/ann@home"), is_address("https://a@b.org")
    (True, False, False)
    """
    return re.fullmatch(r"[^@\s/\\]+@(?:[\w-]+\.)+[\w-]{2,}", text) is not None


def offered_account(address: str, can_answer: bool) -> MailAccount:
    """The account of a mail address, as `Extra.accounts` says; SettingsError if no extra knows any."""
    if functions := extra_parts("accounts"):
        account: MailAccount = functions[0](address, can_answer)
        return account
    raise SettingsError(f"{address}: no extra here reads mailboxes; give a file or folder")


def ranking_at(target: str) -> RankingOffer | None:
    """The service that ranks at an address; None if none has addresses of that kind."""
    return next(
        (offer for offer in offered("rankings").values() if re.fullmatch(offer.url, target)), None
    )


def model_service(name: str) -> ModelService:
    """The service of the models of that name; SettingsError if no extra offers it."""
    service: ModelService | None = offered("models").get(name)
    if not service:
        raise SettingsError(f"the settings choose models of {name!r}, and no extra here has them")
    return service


def declared_tables() -> dict[str, Any]:
    """The tables of the lake that extras declare, by name."""
    return {table.name: table for tables in extra_parts("tables") for table in tables}


def enabled(settings: Any) -> list[Extra]:
    """The extras that these settings have."""
    return [extra for extra in extras() if not extra.enabled or load(extra.enabled)(settings)]


def published_tables() -> dict[str, str]:
    """The tables of extras that the published file has: by name the SQL condition of the rows that
    a lens shows.
    """
    return {name: rows for tables in extra_parts("published") for name, rows in tables.items()}


def sections() -> dict[str, Any]:
    """The models of the sections of the settings file that extras add, by the names of the
    sections.
    """
    return {name: load(place) for name, place in offered("settings").items()}


@cache
def extras() -> tuple[Extra, ...]:
    """The extras that are there: those of folders, then those of other packages, by their names.

    SettingsError for one of another package that is not an extra, or does not load.
    """
    folders = sorted(module.name for module in iter_modules([str(_FOLDER)]) if module.ispkg)
    own = (import_module(f"{_PACKAGE}.{folder}").EXTRA for folder in folders)
    return (*own, *map(_loaded, _entry_points()))


def _entry_points() -> "list[EntryPoint]":
    """Those of the group, by name. A look at the files saves their reader, which takes long to
    load, if none names it.
    """
    files = (f for folder in sys.path for f in Path(folder).glob("*.dist-info/entry_points.txt"))
    if not any(GROUP in file.read_text() for file in files):
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


def _loaded(entry: "EntryPoint") -> Extra:
    package = entry.dist.name if entry.dist else entry.value
    remedy = f"repair the package {package} or uninstall it"
    try:
        extra = entry.load()
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"the extra {entry.name} does not load ({error}): {remedy}") from error
    if not isinstance(extra, Extra):
        raise SettingsError(f"the extra {entry.name} is not a {__name__}.Extra: {remedy}")
    return extra
