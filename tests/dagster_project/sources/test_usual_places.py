"""Places of programs below a home: what is there, with its size, and no file opened."""

import os
from pathlib import Path

import pytest

from dagster_project.sources.usual_places import usual_places

FILES = {
    ".thunderbird/x1.default/Mail/Local Folders/Inbox": 3_000_000,
    ".thunderbird/x1.default/prefs.js": 10,
    ".local/share/evolution/mail/local/cur/1": 20,
    "Maildir/new/1": 30,
    "Maildir/cur/2": 40,
    "Downloads/takeout-20261129T1-001.zip": 50,
    "Downloads/takeout-20261129T1-002.tgz": 50,
    "Downloads/WhatsApp Chat with Hens.zip": 60,
    "Downloads/Example Slack export Jan 1 2026.zip": 70,
    "Downloads/other.zip": 80,
    "Notes/Work/.obsidian/app.json": 2,
    "Notes/Work/a.md": 90,
    "Documents/report.pdf": 600_000_000,
    "Mail/empty": 0,
}


def test_places_are_found_with_their_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, size in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    monkeypatch.setattr("builtins.open", None)
    monkeypatch.setattr(os, "open", None)
    places = usual_places(tmp_path)
    known = [
        (place.program, str(place.path.relative_to(tmp_path)), place.files, place.bytes)
        for place in places
    ]
    assert known == [
        ("Thunderbird", ".thunderbird/x1.default/Mail", 1, 3_000_000),
        ("Evolution", ".local/share/evolution/mail/local", 1, 20),
        ("mail", "Maildir", 2, 70),
        ("Takeout", "Downloads/takeout-20261129T1-001.zip", 1, 50),
        ("Takeout", "Downloads/takeout-20261129T1-002.tgz", 1, 50),
        ("WhatsApp", "Downloads/WhatsApp Chat with Hens.zip", 1, 60),
        ("Slack", "Downloads/Example Slack export Jan 1 2026.zip", 1, 70),
        ("Obsidian", "Notes/Work", 2, 92),
        ("notes and documents", "Documents", 1, 600_000_000),
    ]
    assert (places[0].minutes, places[-1].minutes) == (1, 5)


def test_an_empty_home_has_none(tmp_path: Path):
    assert usual_places(tmp_path) == []
