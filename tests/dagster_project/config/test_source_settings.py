"""Settings of remotes: what is accepted, and what is refused with a reason that repeats no secret."""

from pathlib import Path
from typing import Any

import pytest

from dagster_project.config.source_settings import REMOTES
from tests.archives import Workspace
from transforms.errors import SettingsError

HTTP = {"kind": "http", "url": "https://example.org/{list}.{year}{month:02}", "since": "2004-01"}
pytestmark = pytest.mark.skipif(
    bool({"imap", "objects"} - REMOTES.keys()), reason="without these remotes"
)
IMAP = {"kind": "imap", "host": "mail.example.org", "credentials": "P"}
JMAP = {"kind": "jmap", "url": "https://api.fastmail.com/jmap/session", "credentials": "P"}
GIT = {"kind": "git", "url": "https://lore.kernel.org/linux-erofs/{epoch}"}
OBJECTS = {"kind": "objects", "url": "s3://bucket/prefix"}


def loaded(folder: Path, kind: str, fetch: dict[str, Any], **more: Any) -> Workspace:
    work = Workspace(folder).configure({"name": "dev", "kind": kind, "fetch": fetch, **more})
    assert work.settings.sources[0].remote
    return work


@pytest.mark.parametrize(
    ("kind", "fetch", "place"),
    [
        ("mbox", HTTP, "dev/*"),
        ("mbox", OBJECTS, "dev/*"),
        ("maildir", IMAP, "dev"),
        ("maildir", JMAP, "dev"),
        ("public_inbox", GIT, "dev"),
        ("vault", OBJECTS, "dev"),
        ("tree", OBJECTS, "dev"),
        ("conversation", OBJECTS, "dev/*"),
    ],
)
def test_what_is_fetched_lies_below_the_root(
    tmp_path: Path, kind: str, fetch: dict[str, Any], place: str
):
    settings = loaded(tmp_path, kind, fetch).settings
    assert settings.place(settings.sources[0]) == settings.root / "sources" / place
    assert settings.is_generated(settings.root / "lake") and not settings.is_generated(
        settings.place(settings.sources[0])
    )


def test_a_path_is_below_what_is_fetched(tmp_path: Path):
    work = Workspace(tmp_path).configure(
        {"name": "docs", "kind": "tree", "path": "guide", "fetch": OBJECTS},
        storage={"root": "state"},
    )
    assert work.settings.place(work.settings.sources[0]) == tmp_path / "state/sources/docs/guide"


@pytest.mark.parametrize(
    ("kind", "fetch", "fault"),
    [
        ("mbox", IMAP, "a source of kind mbox is fetched by http or objects, not by imap"),
        ("vault", HTTP, "must be one of|objects"),
        ("mbox", {"kind": "ftp"}, f"fetch.kind: must be one of {', '.join(sorted(REMOTES))}"),
        ("mbox", HTTP | {"url": "https://example.org/{year}"}, "needs {year} and {month:02}"),
        ("mbox", HTTP | {"url": "https://example.org/{year}{month.real}"}, "known fields are"),
        ("mbox", HTTP | {"url": "https://example.org/{year}{month!r}"}, "known fields are"),
        (
            "mbox",
            HTTP | {"url": "https://example.org/{year}{month"},
            "cannot be understood|expected",
        ),
        ("mbox", HTTP | {"url": "file:///{year}{month}"}, "must begin with https:// or http://"),
        (
            "mbox",
            HTTP | {"url": "https://ada:hidden@example.org/{year}{month}"},
            "leave name and password out",
        ),
        ("mbox", HTTP | {"since": "2004-13"}, "since"),
        ("mbox", HTTP | {"since": "2004-01/2003-01"}, "before the first"),
        ("mbox", HTTP | {"lists": ["../x"]}, "is not a list's name"),
        (
            "mbox",
            HTTP | {"url": "https://example.org/{year}{month}", "lists": ["a", "b"]},
            "several lists need {list}",
        ),
        ("mbox", HTTP | {"credentials": "hidden-token!"}, "never the secret itself"),
        (
            "mbox",
            HTTP | {"url": "http://example.org/{year}{month}", "credentials": "T"},
            "https:// only",
        ),
        ("maildir", IMAP | {"tls": "off"}, "localhost alone"),
        ("maildir", {"kind": "imap", "host": "mail.example.org"}, "needs credentials"),
        ("maildir", JMAP | {"url": "http://mail.example.org/"}, "https:// only"),
        (
            "maildir",
            JMAP | {"url": "https://ada:hidden@mail.example.org/"},
            "leave name and password out",
        ),
        ("public_inbox", GIT | {"url": "ext::sh -c hidden"}, "must begin with https://"),
        ("public_inbox", GIT | {"url": "https://example.org/{year}"}, "the only field is {epoch}"),
        ("public_inbox", GIT | {"url": "ssh://example.org/x", "credentials": "P"}, "agent"),
        ("eml", OBJECTS | {"url": "github://x/y"}, "must begin with s3:// or file://"),
        ("eml", OBJECTS | {"credentials": "P", "endpoint": "http://example.org"}, "https"),
    ],
)
def test_what_cannot_be_right_is_refused(
    tmp_path: Path, kind: str, fetch: dict[str, Any], fault: str
):
    with pytest.raises(SettingsError) as raised:
        loaded(tmp_path, kind, fetch)
    assert any(part in str(raised.value) for part in fault.split("|"))
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("path", ["/etc", "../elsewhere"])
def test_a_path_beside_a_remote_stays_inside(tmp_path: Path, path: str):
    with pytest.raises(SettingsError, match="stays inside"):
        loaded(tmp_path, "mbox", HTTP, path=path)


def test_a_source_has_a_path_or_a_remote(tmp_path: Path):
    with pytest.raises(SettingsError, match="give a path, or say with fetch"):
        assert Workspace(tmp_path).configure({"name": "dev", "kind": "mbox"}).settings


def test_two_remotes_whose_steps_would_have_one_name_are_refused(tmp_path: Path):
    sources = [{"name": name, "kind": "mbox", "fetch": HTTP} for name in ("a-b", "a.b")]
    with pytest.raises(SettingsError, match="differ in no letter or digit"):
        assert Workspace(tmp_path).configure(*sources).settings
