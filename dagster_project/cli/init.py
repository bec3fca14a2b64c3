"""`weft init`: the settings file for an archive, from its place or from three questions."""

import json
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import click
import Stemmer

from dagster_project.cli.help import documentation
from dagster_project.cli.options import CONFIG, TEXT_TYPE, as_typed, explained
from dagster_project.config.places import chosen_config
from dagster_project.config.settings import (
    FOR_OTHERS,
    ConversationSourceSettings,
    DocumentSourceSettings,
    Settings,
    SourceSettings,
    load_settings,
)
from dagster_project.extensions import extras, is_address, offered_account
from dagster_project.sources.detection import Detected, sample_texts, sources_at, unread_files
from dagster_project.sources.packed_mail import holds_mail, unpack
from dagster_project.sources.usual_places import usual_places
from dagster_project.system.globs import write_atomically
from transforms.errors import SettingsError
from transforms.languages import languages_of
from transforms.settings.documents import WAYS_OUT
from transforms.settings.models import MULTILINGUAL
from transforms.signs import languages_with_signs

_KINDS = tuple(
    k
    for s in (SourceSettings, DocumentSourceSettings, ConversationSourceSettings)
    for k in s.kinds()
)
_LANGUAGE = "english"
_OF_WEFT = {"english", "german"}
"""Languages that the default table knows: it is level there or better (`benchmarks/table`)."""
_LEAST_TEXTS = 3
"""Texts in a further language than that of most, from which its stemmer is written: a mail or two
may be strange.
"""
_GENERIC = (
    *("mail", "archive", "archives", "inbox", "git", "repo", "repos", "repository", "clone"),
    *("mirror", ""),
)
"""Names of folders that say less than the name of the folder above them."""

_NOT_NAMED = re.compile(
    r"[\[\]*?]|^WhatsApp[ -]Chat (?:with|mit|-) |^\d+\.git$|(?:\.(?:mbox|zip|txt|json|xml|gz|xz|bz2|git))+$",
    re.I,
)
"""Parts of the name of a file that say nothing of its content."""


_NOTEBOOK, _SAMPLE_INDEX = "published_index.ipynb", r"\"../data/sample/state/index/CURRENT\""
_OF_SAMPLE = {
    "Build the sample first (`make run`)": "Run `weft build` first",
    "'torn records after a power cut'": "(SELECT title FROM chunks WHERE title <> '' ORDER BY chunk_no LIMIT 1)",
}
"""Parts of the notebook that are of the sample, and those of every archive."""

_PSEUDONYMS = (
    "  pseudonyms replace the names of those who write; first names in texts, other people and telephone numbers stay; "
    '`pseudonyms = "others"` below the source keeps the names for you alone, false for all'
)
_NAMES = (
    "  you read the names of those who write; a lens, a person's token and an assistant read pseudonyms; "
    "`pseudonyms = true` below the source replaces them for all"
)


@dataclass(frozen=True)
class _New:
    """A source to be written: its name, the detected place, the remote of its files, whether its
    owner is to read the names of people, and the step before it is written: a function of the
    storage root that returns words on what it did, as where a password is.
    """

    name: str
    detected: Detected
    fetch: Mapping[str, Any] = field(default_factory=dict)
    shows_names: bool = False
    step: Callable[[Path], str] | None = None

    @property
    def described(self) -> str:
        """Words on the source for a person."""
        return self.detected.path if self.fetch else _described(self.detected)

    def toml(self, zone: str) -> str:
        """The source as a part of a settings file."""
        rows = {"name": self.name, "kind": self.detected.kind}
        if not self.fetch:
            rows["path"] = self.detected.path
        if not self.detected.has_zone:
            rows["timezone"] = zone
        if self.shows_names:
            rows["pseudonyms"] = FOR_OTHERS
        text = f"[[sources]]\n{_lines(rows)}"
        return f"{text}\n[sources.fetch]\n{_lines(self.fetch)}" if self.fetch else text


@dataclass(frozen=True)
class _Places:
    """The places of a command line: where relative paths start, and the name and kind for them."""

    base: Path
    name: str | None
    kind: str | None
    can_answer: bool


@click.command()
@click.argument("places", nargs=-1, type=TEXT_TYPE, metavar="[PLACE]...")
@CONFIG
@click.option(
    "--name", type=TEXT_TYPE, help="Name of the source; default: that of its file or folder."
)
@click.option(
    "--kind", type=click.Choice(_KINDS), help="Kind of the source; default: that of its files."
)
@click.option(
    "--language",
    type=click.Choice(["none", *Stemmer.algorithms()]),
    metavar="NAME",
    help="Language of the texts, as german, whose word endings a search ignores; or none. Default: that of most texts.",
)
@click.option(
    "--notebook",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a new notebook FILE, which asks the index of the settings by Ibis.",
)
@explained
def init(
    places: tuple[str, ...],
    config: Path | None,
    name: str | None,
    kind: str | None,
    language: str | None,
    notebook: Path | None,
) -> None:
    """Write a settings file for the archive at PLACE, or add PLACE to the one that is there.

    PLACE is a file or folder, a mail address, as ann@gmail.com, or the address of a public-inbox,
    as https://lore.kernel.org/linux-erofs. Weft sees by names and first bytes whether it is mail,
    notes, documents or exported chats, also in an archive of Takeout as it comes. At a terminal it
    asks which of several sources to take, and for the password of a mailbox. Without PLACE it lists
    the places of programs on this machine with their sizes, reads none that is not chosen, and asks
    for the language, too.
    """
    file = chosen_config(config)
    settings = load_settings(file) if file.exists() else None
    if notebook:
        if settings is None or places:
            raise SettingsError(
                "--notebook is for settings that are there: first run `weft init PLACE` alone"
            )
        _write_notebook(notebook, settings.root.resolve() / "index" / "CURRENT")
        return
    if settings and language:
        raise SettingsError(f"{file} is there already: set terms.stemmer = {language!r} in it")
    is_asking = not places
    places = places or _places_of_answer()
    if name and len(places) > 1:
        raise SettingsError("--name is for one PLACE; run `weft init` once for each")
    base = file.resolve().parent
    offered = _at_places(places, _Places(base, name, kind, _can_answer()), settings)
    new = _with_names(_chosen(offered, is_asking), base)
    if settings:
        _tell_other_language(file, new, settings)
    else:
        language = language or _language(file, new, is_asking)
    is_other = bool(language and _is_multilingual(language)) or _reads_unstemmed(file, new)
    _write(file, new, language if language != _LANGUAGE else None, is_other)
    _tell_unread(places, offered, base)
    _report(file, config, new)


def _at_places(places: Sequence[str], where: _Places, settings: Settings | None) -> list[_New]:
    """The sources at places that the settings do not have, with names that they do not have;
    SettingsError if there are none.
    """
    new: list[_New] = []
    for place in places:
        names = {s.name for s in (*(settings.sources if settings else ()), *new)}
        path = _absolute(place)
        if is_address(place) and not path.exists():
            new += _of_account(place, where, names)
        elif holds_mail(path):
            new.append(_of_packed_mail(path, where, names))
        else:
            new += _sources(place, where, names)
    return _unknown(new, settings) if settings else new


def _of_account(address: str, where: _Places, names: set[str]) -> list[_New]:
    """The folders of a mail account that were chosen, with names beside `names`."""
    account = offered_account(address, where.can_answer)
    new: list[_New] = []
    for folder in account.folders:
        name = _free(where.name or folder.name, names | {s.name for s in new})
        detected = Detected("maildir", folder.described, "mailbox", 0)
        new.append(_New(name=name, detected=detected, fetch=folder.fetch, step=account.store))
    return new


def _of_packed_mail(file: Path, where: _Places, names: set[str]) -> _New:
    """The mail of an archive, with a name beside `names`; it is unpacked once it was chosen."""
    name = _free(where.name or _name_of(file), names)
    folder = where.base / "unpacked" / name
    detected = Detected("mbox", _below(folder, where.base), f"mail of {file.name}", 0)
    return _New(name=name, detected=detected, step=lambda _: unpack(file, folder))


def _language(file: Path, new: Sequence[_New], is_asking: bool) -> str | None:
    """The stemmers of new settings: of most texts, or as somebody at a terminal says; None without
    either.
    """
    likely, shares = _languages_of([s.detected for s in new if not s.fetch], file.resolve().parent)
    if is_asking or (_can_answer() and all(source.fetch for source in new)):
        first = likely or _LANGUAGE
        choices = click.Choice([*dict.fromkeys([first, "none", *Stemmer.algorithms()])])
        what = "In which language is most of it"
        return click.prompt(what, default=first, type=choices, show_choices=False, err=True)
    if likely:
        click.echo(f"{file}: {shares} (--language changes it)")
    return likely


def _is_multilingual(stemmers: str) -> bool:
    """True if the table of many languages finds more in one of the stemmers' languages than `weft`."""
    return bool({*stemmers.split("+")} & {*languages_with_signs()} - _OF_WEFT)


def _reads_unstemmed(file: Path, new: Sequence[_New]) -> bool:
    """True if most texts of new sources are of a language without a stemmer that the table knows."""
    places = (
        replace(s.detected, path=str(file.resolve().parent / s.detected.path))
        for s in new
        if not s.fetch
    )
    counts = languages_of(text for place in places for text in sample_texts(place))
    most = counts[0][0] if counts else ""
    return most not in Stemmer.algorithms() and _is_multilingual(most)


def _tell_other_language(file: Path, new: Sequence[_New], settings: Settings) -> None:
    """Print how the words of new sources are found, if their language is not that of the settings."""
    likely, _ = _languages_of([s.detected for s in new if not s.fetch], file.resolve().parent)
    most = (likely or "").partition("+")[0]
    if most and most not in settings.terms.languages:
        both = f"{settings.terms.stemmer}+{most}"
        click.echo(
            f"{file}: most of these texts are {most.title()}; terms.stemmer remains {settings.terms.stemmer!r}: set "
            f"{both!r} to find their words with other endings"
        )


def _write_notebook(file: Path, index: Path) -> None:
    """Write the notebook of the documentation for another index; SettingsError if the file is
    there.
    """
    if file.exists():
        raise SettingsError(f"{file} is there already; name a new file")
    text = (documentation() / _NOTEBOOK).read_text(encoding="utf-8")
    for sample, own in _OF_SAMPLE.items():
        text = text.replace(sample, own)
    write_atomically(file, text.replace(_SAMPLE_INDEX, json.dumps(json.dumps(str(index)))[1:-1]))
    click.echo(f"{file}: asks {index}; to open it takes Jupyter and ibis-framework[duckdb]")


def _languages_of(sources: Sequence[Detected], base: Path) -> tuple[str | None, str]:
    """The stemmers for the texts of sources, and a sentence on their languages; None if no stemmer
    knows that of most.

    A further language has a tenth of the texts, and at least _LEAST_TEXTS.
    """
    places = (replace(source, path=str(base / source.path)) for source in sources)
    counts = languages_of(text for place in places for text in sample_texts(place))
    of = sum(count for _, count in counts)
    stemmed = [(name, count) for name, count in counts if name in Stemmer.algorithms()]
    if not stemmed or stemmed[0] != counts[0]:
        return None, ""
    most, *others = stemmed
    chosen = [
        most,
        *((name, count) for name, count in others if count >= max(_LEAST_TEXTS, of / 10)),
    ]
    shares = ", ".join(f"{name.title()} of {count}" for name, count in chosen)
    shares = shares.replace(" of ", " is the language of ", 1)
    return "+".join(name for name, _ in chosen), f"{shares} of {of} texts read"


def _places_of_answer() -> tuple[str, ...]:
    """The places that somebody at a terminal chooses of those on this machine, or names;
    SettingsError with these where nobody can answer.
    """
    usual = usual_places(Path.home())
    if not _can_answer():
        commands = "".join(f"\n  weft init {shlex.quote(str(place.path))}" for place in usual)
        raise SettingsError(
            "give the PLACE of an archive, as `weft init ~/mail`: there is no terminal to ask on"
            + (f". This machine has:{commands}" if usual else "")
        )
    for number, place in enumerate(usual, 1):
        size = _size_in_words(place.files, place.bytes)
        click.echo(
            f"  {number}  {place.program} at {place.path}{size}; a build takes about {place.minutes} min",
            err=True,
        )

    def chosen(answer: str) -> tuple[str, ...]:
        words = answer.replace(",", " ").split()
        if not usual or not words or not all(word.isdecimal() for word in words):
            return (answer.strip(),)
        if not all(0 < int(word) <= len(usual) for word in words):
            raise click.BadParameter(f"give a place, or numbers from 1 to {len(usual)}")
        return tuple(str(usual[number - 1].path) for number in sorted({int(w) for w in words}))

    numbers = "Which of these (numbers), or where" if usual else "Where"
    what = f"{numbers} is the archive (file, folder, mail address, or address of a public-inbox)"
    return click.prompt(what, value_proc=chosen, err=True)


def _chosen(offered: list[_New], is_asking: bool) -> list[_New]:
    """The sources that somebody at a terminal takes; all of one or without a terminal, and all
    folders of a mailbox, as these were chosen already.
    """
    has_choice = is_asking or (len(offered) > 1 and _can_answer())
    if has_choice and not all(source.fetch for source in offered):
        return _taken(offered)
    return offered


def _taken(new: list[_New]) -> list[_New]:
    """The sources that somebody at a terminal takes."""
    for number, source in enumerate(new, 1):
        click.echo(f"  {number}  {source.name}: {source.described}", err=True)

    def chosen(answer: str) -> list[_New]:
        words = answer.replace(",", " ").split()
        if words == ["all"]:
            return new
        if not words or not all(w.isdecimal() and 0 < int(w) <= len(new) for w in words):
            raise click.BadParameter(f"give all, or numbers from 1 to {len(new)}")
        return [new[n - 1] for n in sorted({int(w) for w in words})]

    return click.prompt(
        "Which shall become sources (all, or numbers)", "all", value_proc=chosen, err=True
    )


def _with_names(new: Sequence[_New], base: Path) -> list[_New]:
    """The sources, chats with names if they are for their owner alone: so somebody at a terminal
    says, else the place, if it is in the own home.
    """
    chats = [source for source in new if source.detected.kind == "conversation"]
    if not chats:
        return list(new)
    if _can_answer():
        is_alone = click.confirm("Is this for you alone", default=True, err=True)
    else:
        home = Path.home().resolve()
        places = [(base / source.detected.path).resolve() for source in chats]
        is_alone = all(place.is_relative_to(home) for place in places)
        if is_alone:
            click.echo(f"the chats are in your home, {home}: taken as for you alone", err=True)
    return [replace(source, shows_names=is_alone and source in chats) for source in new]


def _can_answer() -> bool:
    return sys.stdin.isatty()


def _sources(place: str, where: _Places, names: set[str]) -> list[_New]:
    """The sources at a place, with names beside `names`; paths below the base are relative to it."""
    if "://" in place:
        url = (
            place
            if "{epoch}" in place or place.endswith(".git")
            else f"{place.rstrip('/')}/{{epoch}}"
        )
        address = re.sub(r"/(\{epoch\}|git/.*|\d+)?$", "", url.removesuffix(".git"))
        detected = Detected("public_inbox", url, "public-inbox", 0)
        return [_New(_free(where.name or address, names), detected, {"kind": "git", "url": url})]
    path = _absolute(place)
    kind, base = where.kind, where.base
    sources = [Detected(kind, str(path), kind, 0)] if kind else sources_at(path)
    new: list[_New] = []
    for detected in sources:
        there = Path(detected.path)
        own = _free(where.name or detected.name or _name_of(there), names | {s.name for s in new})
        new.append(_New(own, replace(detected, path=_below(there, base))))
    return new


def _below(path: Path, base: Path) -> str:
    """A path as the settings have it: relative if it is below their folder."""
    return str(path.relative_to(base) if path.is_relative_to(base) else path)


def _absolute(place: str) -> Path:
    """The path of a place from the root on, without `..`: a file has one path, whichever place it
    is found from.
    """
    return Path(os.path.abspath(os.path.expanduser(place)))  # noqa: PTH100, PTH111


def _name_of(path: Path) -> str:
    """The name for a source at a path: its file or folder without endings, or the folder above if
    that says more.
    """
    for part in (path.name, *(p.name for p in path.parents)):
        stem = _NOT_NAMED.sub("", part).strip(" ._-")
        if stem.lower() not in _GENERIC:
            return stem
    return "archive"


def _free(text: str, names: set[str]) -> str:
    """`text` as a name of a source, with a number behind it if another source has that name."""
    name = (
        re.sub(r"[^A-Za-z0-9._-]+", "-", text.rpartition("/")[2])
        .replace("..", ".")
        .strip("._-")[:50]
        or "archive"
    )
    numbered = (f"{name}-{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in names)


def _unknown(new: Sequence[_New], settings: Settings) -> list[_New]:
    """Those of `new` whose place is that of no source; SettingsError if that is none of them."""
    places = {str(settings.place(s)) for s in settings.sources if not s.remote}
    accounts = [s.remote.model_dump() for s in settings.sources if s.remote]
    rest = [
        s
        for s in new
        if not any(s.fetch.items() <= remote.items() for remote in accounts if s.fetch)
        and (s.fetch or str(settings.base / s.detected.path) not in places)
    ]
    if not rest:
        raise SettingsError(
            f"{new[0].detected.path} is a source of the settings already; `weft build` reads what changed"
        )
    return rest


def _write(file: Path, new: Sequence[_New], language: str | None, other_words: bool) -> None:
    """Write the sources behind those in the settings file, if that gives valid settings, after
    their steps.
    """
    before = file.read_text(encoding="utf-8-sig") if file.exists() else ""
    text = before and before.rstrip("\n") + "\n\n"
    if not before:
        if any(s.detected.path in (".", "*") for s in new):
            text = '[storage]\nroot = ".weft"\n\n'
        if language:
            text += f"[terms]\nstemmer = {_quoted(language)}\n\n"
        if other_words:
            text += f"[embedding]\nmodel = {_quoted(MULTILINGUAL)}\n\n"
    text += "\n".join(source.toml(_zone()) for source in new)
    try:
        root = Settings(**tomllib.loads(text), base=file.resolve().parent).root
    except ValueError as error:
        raise SettingsError(
            f"{file}: no valid settings could be made of {new[0].detected.path}: {error}"
        ) from error
    steps = dict.fromkeys(source.step for source in new if source.step)
    for words in filter(None, [step(root) for step in steps]):
        click.echo(words)
    write_atomically(file, text)


def _tell_unread(places: Sequence[str], offered: Sequence[_New], base: Path) -> None:
    """Print the endings of the files at places whose kinds were found, if no source reads them."""
    read = [replace(source.detected, path=str(base / source.detected.path)) for source in offered]
    for place in places if all(source.files for source in read) else ():
        if rest := unread_files(_absolute(place), read):
            endings = ", ".join(f"{count:,} {ending}" for ending, count in rest.most_common(6))
            click.echo(
                f"{place}: files that no source reads: {endings}{', and others' if len(rest) > 6 else ''}"
            )
            for ending, _ in rest.most_common():
                if way_out := WAYS_OUT.get(ending.removeprefix(".")):
                    click.echo(f"  {ending}: {way_out}")


def _report(file: Path, config: Path | None, new: Sequence[_New]) -> None:
    for source in new:
        click.echo(f"{file}: source {source.name}: {source.described}")
        if source.detected.kind == "conversation":
            click.echo(_NAMES if source.shows_names else _PSEUDONYMS)
    fetch = ", once it is fetched," if any(s.fetch for s in new) else ""
    commands = {
        as_typed("build", config): f"reads it{fetch} and publishes the index",
        f'{as_typed("search", config)} "some words"': "asks it",
    }
    kinds = {"", *(s.detected.kind for s in new)}
    for name, command in ((n, c) for extra in extras() for n, c in extra.commands.items()):
        if command.next and command.next_for in kinds:
            commands[as_typed(name, config)] = command.next
    width = max(map(len, commands))
    click.echo(
        "Next:\n" + "\n".join(f"  {command:<{width}}  {what}" for command, what in commands.items())
    )


def _described(detected: Detected) -> str:
    count = ""
    if detected.files:
        count = _size_in_words(detected.files, detected.bytes)
    form = "" if detected.form in (detected.kind, "documents") else f" ({detected.form})"
    return f"{detected.kind}{form} at {detected.path}{count}"


def _size_in_words(files: int, size: int) -> str:
    words = f"{size / 1e6:,.1f} MB" if size >= 50_000 else f"{size:,} bytes"
    return f", {files:,} {'file' if files == 1 else 'files'}, {words}"


def _zone() -> str:
    """The time zone of this machine, as `Europe/London`; UTC if it has no name."""
    place = (
        os.environ.get("TZ", "").removeprefix(":")
        or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    )
    return place if re.fullmatch(r"[A-Z][A-Za-z_]+(/[A-Za-z_+-]+)*", place) else "UTC"


def _lines(rows: Mapping[str, Any]) -> str:
    """Rows of TOML."""
    return "".join(
        f"{key} = {_quoted(value) if isinstance(value, str) else value}\n"
        for key, value in rows.items()
    )


def _quoted(text: str) -> str:
    """A text as TOML has it; SettingsError for the name of a file that is not text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(
            f"{text.encode(errors='backslashreplace').decode()}: the name is not UTF-8; rename it"
        ) from error
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
