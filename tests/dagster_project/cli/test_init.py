"""`weft init` on archives as people have them: what it takes them for, what it writes, and that the
settings work.
"""

import gzip
import json
import shlex
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from dagster_project.cli.main import COMMANDS, main
from dagster_project.composition.objects import make_sources
from dagster_project.config.settings import load_settings
from tests.archives import Mail, Workspace, mbox
from tests.format_files import zipped
from transforms.settings.models import MULTILINGUAL

MBOX = mbox([Mail(1), Mail(2)])
MAIL = Mail(1).text().encode()
NOTE = b"# A note\n\nIt links to [[Another note]].\n"
PAGE = b"# A page\n\nIt links to [another](other.md).\n"
ENGLISH = "# A\n\nThis is the note that we have for you.\n"
GERMAN = (
    "Warum ist das Netz so langsam, und kann man es auch ohne einen neuen Router schneller machen?"
)
WHATSAPP = b"27.03.25, 18:02 - Ada: hello\n27.03.25, 18:03 - Ben: hello too\n"
DAY = json.dumps(
    [{"type": "message", "user": "U1", "text": "hi", "ts": "1736931600.000100"}]
).encode()
AT = {
    "id": 1,
    "type": "message",
    "date": "2025-01-15T10:00:00",
    "date_unixtime": "1736935200",
    "from": "Ada",
    "text": "hi",
}
SAID = {
    "id": "1",
    "type": "Default",
    "timestamp": "2025-01-15T10:00:00+00:00",
    "content": "hi",
    "author": {"name": "ada"},
}
TELEGRAM = json.dumps({"name": "Hens", "type": "private_group", "id": 1, "messages": [AT]}).encode()
ISSUES = json.dumps([{"body": "x" * 9999, "number": 1, "title": "No wind"}]).encode()
NOTES = json.dumps(
    [{"body": "yes", "issue_url": "https://api.github.com/repos/o/r/issues/1"}]
).encode()
ISSUE = b"---\nstate: open\n---\n# No wind\n"
DISCORD = json.dumps({"guild": {"id": "1"}, "channel": {"id": "2"}, "messages": [SAID]}).encode()


def init(folder: Path, *arguments: str, answers: str | None = None) -> Result:
    config = str(folder / "weft.toml")
    return CliRunner().invoke(main, ["init", *arguments, "--config", config], input=answers)


def written(folder: Path) -> list[dict[str, str]]:
    """The sources of the weft.toml of a folder."""
    return tomllib.loads((folder / "weft.toml").read_text())["sources"]


def put(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


ARCHIVES: dict[str, tuple[Mapping[str, bytes], list[tuple[str, str]]]] = {
    "monthly archives": ({"dev.2024-01": MBOX, "dev.2024-02": MBOX}, [("mbox", "x/*")]),
    "archives beside other files": (
        {
            "dev-2024-01.mbox.gz": gzip.compress(MBOX),
            "dev-2024-02.mbox.gz": gzip.compress(MBOX),
            "SUMS": b"0",
        },
        [("mbox", "x/dev-*")],
    ),
    "lists in folders": (
        {"a/a.200401": MBOX, "b/b.200401": MBOX, "b/README.md": PAGE},
        [("mbox", "x/a/*"), ("mbox", "x/b/b.*")],
    ),
    "Thunderbird": ({"Inbox": MBOX, "Inbox.msf": b"//", "Inbox.sbd/Work": MBOX}, [("mbox", "x")]),
    "Takeout": (
        {"Takeout/Mail/All mail.mbox": MBOX, "Takeout/archive_browser.html": PAGE},
        [("mbox", "x")],
    ),
    "Maildir": ({"cur/1:2,S": MAIL, "new/2": MAIL, ".Sent/cur/3:2,S": MAIL}, [("maildir", "x")]),
    "MH": ({"inbox/1": MAIL, "inbox/2": MAIL}, [("maildir", "x")]),
    "eml": ({"2024/a.eml": MAIL}, [("eml", "x")]),
    "Obsidian": ({".obsidian/app.json": b"{}", "a.md": PAGE}, [("vault", "x")]),
    "notes": ({"a.md": NOTE, "b.md": PAGE}, [("vault", "x")]),
    "documents": (
        {"docs/a.md": PAGE, "docs/b.rst": b"B\n=\n", "c.png": b"\x89PNG"},
        [("tree", "x")],
    ),
    "WhatsApp": ({"WhatsApp Chat with Hens.txt": WHATSAPP}, [("conversation", "x")]),
    "WhatsApp of iOS": (
        {"chat.zip": zipped({"_chat.txt": WHATSAPP, "IMG-1.jpg": b"x"})},
        [("conversation", "x")],
    ),
    "Slack": ({"channels.json": b"[]", "general/2025-01-15.json": DAY}, [("conversation", "x")]),
    "Slack in a zip": (
        {"export.zip": zipped({"channels.json": b"[]", "general/2025-01-15.json": DAY})},
        [("conversation", "x")],
    ),
    "Telegram": ({"result.json": TELEGRAM}, [("conversation", "x")]),
    "issues of GitHub": ({"issues.json": ISSUES, "p/comments.json": NOTES}, [("issues", "x")]),
    "MediaWiki": (
        {"w/dump.xml.gz": gzip.compress(b"<mediawiki>"), "a.xml": b"<a>"},
        [("wiki", "x")],
    ),
    "issues as notes": ({"1.md": ISSUE, "2.md": ISSUE, "README.md": PAGE}, [("issues", "x")]),
    "Discord": ({"hens.json": DISCORD}, [("conversation", "x")]),
    "a table": (
        {"chat.csv": b"time,author,message\n2025-01-01T10:00:00,ada,hi\n"},
        [("conversation", "x")],
    ),
    "all of it": (
        {"mail/dev.2024-01": MBOX, "notes/a.md": NOTE, "chats/_chat.txt": WHATSAPP},
        [("conversation", "x/chats"), ("mbox", "x/mail/*"), ("vault", "x/notes")],
    ),
}


@pytest.mark.parametrize(("files", "expected"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_is_known_by_its_files_and_can_be_read(
    tmp_path: Path, files: Mapping[str, bytes], expected: list[tuple[str, str]]
):
    result = init(tmp_path, str(put(tmp_path / "x", files)))
    assert result.exit_code == 0, result.output
    assert sorted((s["kind"], s["path"]) for s in written(tmp_path)) == expected
    assert ("first names in texts" in result.output) == ("conversation" in dict(expected))
    assert make_sources(load_settings(tmp_path / "weft.toml")).discover()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("dev.mbox", MBOX, "mbox"),
        ("a.eml", MAIL, "eml"),
        ("_chat.txt", WHATSAPP, "conversation"),
        ("result.json", TELEGRAM, "conversation"),
        ("issues.json", ISSUES, "issues"),
    ],
)
def test_a_file_is_a_source(tmp_path: Path, name: str, content: bytes, kind: str):
    assert init(tmp_path, str(put(tmp_path, {name: content}) / name)).exit_code == 0
    assert [(s["kind"], s["path"]) for s in written(tmp_path)] == [(kind, name)]


@pytest.mark.parametrize(
    ("place", "files", "name"),
    [
        (
            "archives",
            {"quern-dev-2024-01.mbox.gz": gzip.compress(MBOX), "quern-dev-2024-02.mbox": MBOX},
            "quern-dev",
        ),
        ("lists", {"dev.2024-01": MBOX, "users.2024-01": MBOX}, "lists"),
        ("WhatsApp Chat with Hens & Co.txt", {"": WHATSAPP}, "Hens-Co"),
        ("team/Mail", {"cur/1": MAIL}, "team"),
        ("My Notes", {"a.md": NOTE}, "My-Notes"),
        ("linux-modules/repo", {"cur/1": MAIL}, "linux-modules"),
    ],
)
def test_a_source_is_named_after_what_it_holds(
    tmp_path: Path, place: str, files: Mapping[str, bytes], name: str
):
    put(tmp_path, {f"{place}/{file}".rstrip("/"): content for file, content in files.items()})
    assert init(tmp_path, str(tmp_path / place)).exit_code == 0
    assert [s["name"] for s in written(tmp_path)] == [name]


@pytest.mark.parametrize(
    ("mails", "partitions"), [(2, ["x/all"]), (1_001, ["x/2004", "x/2004-01"])]
)
def test_folders_of_few_mails_share_a_partition(tmp_path: Path, mails: int, partitions: list[str]):
    files = {f"cur/{number}:2,S": MAIL for number in range(mails - 1)}
    place = put(tmp_path / "x", files | {".Sent/cur/1:2,S": MAIL})
    assert init(tmp_path, str(place)).exit_code == 0
    assert all("grain" not in source for source in written(tmp_path))
    found = make_sources(load_settings(tmp_path / "weft.toml")).discover()
    assert sorted(partition.key for partition in found) == partitions


def test_a_clone_of_a_public_inbox_is_known(tmp_path: Path):
    epoch = tmp_path / "list" / "git" / "0.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(epoch)], check=True)
    for place in (tmp_path / "list", epoch):
        assert init(tmp_path, str(place)).exit_code == 0
        assert [s["name"] for s in written(tmp_path)] == ["list"]
        (tmp_path / "weft.toml").unlink()
    assert init(tmp_path, str(tmp_path / "list")).exit_code == 0
    assert written(tmp_path) == [{"name": "list", "kind": "public_inbox", "path": "list"}]


def test_an_address_is_fetched(tmp_path: Path):
    assert init(tmp_path, "https://lore.kernel.org/linux-erofs/").exit_code == 0
    (source,) = load_settings(tmp_path / "weft.toml").sources
    assert source.name == "linux-erofs" and source.remote is not None
    assert source.remote.url == "https://lore.kernel.org/linux-erofs/{epoch}"


def test_a_second_place_is_added_under_a_name_of_its_own_and_never_twice(tmp_path: Path):
    for name in ("a", "b"):
        assert init(tmp_path, str(put(tmp_path / name / "notes", {"a.md": NOTE}))).exit_code == 0
    assert [s["name"] for s in written(tmp_path)] == ["notes", "notes-2"]
    again = init(tmp_path, str(tmp_path / "b" / "notes"))
    assert again.exit_code == 2 and "is a source of the settings already" in again.stderr
    assert len(written(tmp_path)) == 2


def test_what_stands_in_the_settings_stays_and_faults_of_it_are_reported(tmp_path: Path):
    config = put(tmp_path, {"weft.toml": b"# mine\nnosuch = 1\n", "notes/a.md": NOTE}) / "weft.toml"
    assert init(tmp_path, str(tmp_path / "notes")).exit_code == 2
    config.write_text('# mine\nsources = []\n\n[terms]\nstemmer = "german"\n')
    assert init(tmp_path, str(tmp_path / "notes")).exit_code == 2, "an array cannot be continued"
    assert config.read_text().startswith("# mine\nsources") and "notes" not in config.read_text()


def test_a_vault_keeps_what_is_built_in_a_hidden_folder(tmp_path: Path):
    assert init(put(tmp_path, {"a.md": NOTE}), str(tmp_path), "--language", "german").exit_code == 0
    settings = load_settings(tmp_path / "weft.toml")
    assert settings.root == tmp_path / ".weft" and settings.terms.stemmer == "german"


@pytest.mark.parametrize(
    "files",
    [
        {"a.md": f"# Haus\n\n{GERMAN}".encode()},
        {"dev.mbox": mbox([Mail(1), Mail(2, GERMAN), Mail(3, GERMAN)])},
        {"chat.zip": zipped({"_chat.txt": f"27.03.25, 18:02 - Ada: {GERMAN}\n".encode()})},
    ],
)
def test_the_language_of_most_texts_is_found_and_written(
    tmp_path: Path, files: Mapping[str, bytes]
):
    place = put(tmp_path / "x", files)
    result = init(tmp_path, str(place if "a.md" in files else place / next(iter(files))))
    assert "German is the language of" in result.stdout
    assert load_settings(tmp_path / "weft.toml").terms.stemmer == "german"
    english = put(tmp_path / "y", {"a.md": ENGLISH.encode()})
    assert "most of these texts are English" in init(tmp_path, str(english)).stdout
    notes = {f"{n}.md": (GERMAN if n % 3 else ENGLISH).encode() for n in range(9)}
    result = init(tmp_path / "z", str(put(tmp_path / "z", notes)))
    assert "German is the language of 6, English of 3 of 9" in result.stdout
    assert load_settings(tmp_path / "z/weft.toml").terms.stemmer == "german+english"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (
            "Nous avons décidé avec elle que le serveur est dans la cave et pas sur le toit.",
            MULTILINGUAL,
        ),
        ("サーバーの設定をここに書いておくので、あとで見てください。", MULTILINGUAL),
        (ENGLISH, "weft"),
        (GERMAN, "weft"),
    ],
)
def test_the_table_of_many_languages_is_written_where_it_finds_more(
    tmp_path: Path, text: str, model: str
):
    notes = {f"{n}.md": text.encode() for n in range(3)}
    init(tmp_path, str(put(tmp_path / "x", notes)))
    assert load_settings(tmp_path / "weft.toml").embedding.model == model


def test_pictures_of_a_vault_are_not_files_that_no_source_reads(tmp_path: Path):
    files = {"a.md": NOTE, "b.png": b"\x89PNG", "c.svg": b"<svg/>", "d.bin": b"\0"}
    result = init(tmp_path, str(put(tmp_path / "x", files)))
    assert "files that no source reads: 1 .bin\n" in result.stdout


def test_a_file_that_is_not_read_has_a_way_out(tmp_path: Path):
    files = {"a.md": NOTE, "b.rtf": b"{}", "c.bin": b"\0"}
    printed = init(tmp_path, str(put(tmp_path / "x", files))).stdout
    assert "  .rtf: convert it by `soffice --headless --convert-to docx FILE`\n" in printed
    assert "  .bin:" not in printed


def test_times_without_a_zone_get_that_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    init(tmp_path, str(put(tmp_path / "chats", {"_chat.txt": WHATSAPP})))
    assert written(tmp_path)[0]["timezone"] == "Europe/Berlin"


@pytest.mark.parametrize(
    ("home", "answers", "pseudonyms"),
    [
        ("", None, "others"),
        ("elsewhere", None, None),
        ("elsewhere", "y\n", "others"),
        ("", "n\n", None),
    ],
)
def test_names_stay_for_an_owner_who_says_so_or_in_whose_home_a_chat_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, answers: str | None, pseudonyms: str
):
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.setattr("dagster_project.cli.init._can_answer", lambda: answers is not None)
    place = put(tmp_path / "chats", {"_chat.txt": WHATSAPP})
    result = init(tmp_path, str(place), answers=answers)
    assert written(tmp_path)[0].get("pseudonyms") == pseudonyms
    assert ("for you alone" in result.stderr) == (answers is not None or pseudonyms is not None)
    assert ("you read the names" in result.stdout) == (pseudonyms is not None)


@pytest.mark.parametrize(
    "files", [{}, {"a.bin": b"\0"}, {"mail.zip": b"PK"}, {"t.zip": zipped({"a.bin": b"\0"})}]
)
def test_what_is_no_archive_is_4_and_writes_nothing(tmp_path: Path, files: Mapping[str, bytes]):
    (folder := tmp_path / "x").mkdir()
    places = [folder, *(put(folder, files) / name for name in files if name.endswith(".zip"))]
    result = init(tmp_path, str(places[-1]))
    assert result.exit_code == 4 and result.stderr.startswith("error: ")
    assert not (tmp_path / "weft.toml").exists()


def test_without_a_terminal_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    result = init(tmp_path)
    assert result.exit_code == 2 and "give the PLACE" in result.stderr


def test_an_archive_of_takeout_is_taken_as_it_comes(tmp_path: Path):
    files = {"Takeout/Mail/All mail.mbox": MBOX, "Takeout/archive_browser.html": PAGE}
    put(tmp_path / "Downloads", {"takeout-2026.zip": zipped(files)})
    result = init(tmp_path / "w", str(tmp_path / "Downloads" / "takeout-2026.zip"))
    assert result.exit_code == 0 and "its mail is unpacked" in result.stdout, result.output
    (source,) = written(tmp_path / "w")
    assert (source["kind"], source["path"]) == ("mbox", "unpacked/takeout-2026")
    assert make_sources(load_settings(tmp_path / "w" / "weft.toml")).discover()
    bomb = zipped({"a.mbox": b"\0" * (40 << 20)})
    place = put(tmp_path / "Downloads", {"bomb.zip": bomb}) / "bomb.zip"
    refused = init(tmp_path / "v", str(place))
    assert refused.exit_code == 4 and "unpacks to more than" in refused.stderr
    assert not (tmp_path / "v" / "weft.toml").exists()
    assert [path for path in (tmp_path / "v").rglob("*") if path.is_file()] == []


def test_places_of_this_machine_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    put(
        tmp_path,
        {".thunderbird/a/Mail/x/Inbox": MBOX, "Maildir/cur/1": MAIL, "v/.obsidian/a": b"1"},
    )
    put(tmp_path / "v", {"a.md": NOTE})
    refused = init(tmp_path)
    assert f"weft init {tmp_path / 'Maildir'}" in refused.stderr and refused.exit_code == 2
    monkeypatch.setattr("dagster_project.cli.init._can_answer", lambda: True)
    result = init(tmp_path / "w", answers="4\n1, 3\nall\n\n")
    assert result.exit_code == 0, result.output
    assert f"Thunderbird at {tmp_path}/.thunderbird/a/Mail, 1 file, " in result.stderr
    assert "numbers from 1 to 3" in result.stderr and "a build takes about 1 min" in result.stderr
    assert sorted(source["kind"] for source in written(tmp_path / "w")) == ["mbox", "vault"]


def test_three_questions_make_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dagster_project.cli.init._can_answer", lambda: True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    put(tmp_path / "x", {"notes/a.md": NOTE, "mail/b.mbox": MBOX, "c.BIN": b"\0", "d": b"\0"})
    monkeypatch.chdir(put(tmp_path / "w", {"a": b""}))
    result = init(tmp_path, answers="../x\n1 3\n2\ngerman\n")
    assert (
        "2  notes: vault at x/notes, 1 file, 40 bytes" in result.stderr
        and "from 1 to 2" in result.stderr
    )
    assert "../x: files that no source reads: 1 .bin, 1 without ending\n" in result.stdout
    assert [source["path"] for source in written(tmp_path)] == ["x/notes"]
    assert load_settings(tmp_path / "weft.toml").terms.stemmer == "german"


def test_what_it_names_as_next_works(tmp_path: Path):
    result = init(tmp_path, str(put(tmp_path / "notes", {"a.md": NOTE})))
    for line in result.stdout.partition("Next:\n")[2].splitlines():
        program, command, *options = shlex.split(line)
        known = main.get_command(None, command)  # type: ignore[arg-type]
        assert program.endswith("weft") and known and options[:1] == ["--config"]


@pytest.mark.parametrize(
    ("topic", "begins"),
    [
        ("sources", "# What is read"),
        ("docs/settings.md", "<!--"),
        ("exit-codes", "## Exit codes"),
        ("Exit codes", "## Exit"),
    ],
)
def test_help_prints_a_page_or_a_section(topic: str, begins: str):
    result = CliRunner().invoke(main, ["help", topic])
    assert result.exit_code == 0 and result.stdout.startswith(begins)
    assert len(result.stdout) < 40_000


def test_help_lists_its_pages_and_names_what_is_near():
    assert "start-mailing-list  Ten minutes" in CliRunner().invoke(main, ["help"]).stdout
    missed = CliRunner().invoke(main, ["help", "exit-code"])
    assert missed.exit_code == 2 and "exit-codes" in missed.stderr


COMPLETED = {
    "weft search --source ": ["dev", "users"],
    "weft se": sorted(name for name in COMMANDS if name.startswith("se")),
    "weft search --list d": ["dev"],
    "weft get m1@": ["m1@example.org"],
    "weft search fox --why m2@": ["m2@example.org"],
    "weft get nosuch": [],
}


@pytest.mark.parametrize("line", COMPLETED)
def test_a_shell_completes_commands_sources_lists_and_ids(
    built_once: Workspace, monkeypatch: pytest.MonkeyPatch, line: str
):
    monkeypatch.setenv("WEFT_CONFIG", str(built_once.config))
    words = line.split(" ")
    found = ShellComplete(main, {}, "weft", "_WEFT_COMPLETE").get_completions(
        words[1:-1], words[-1]
    )
    assert [item.value for item in found] == COMPLETED[line]


def test_without_settings_or_an_index_nothing_is_completed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    for config, sources in (
        (workspace.config, ["dev"]),
        (workspace.config.with_name("none.toml"), []),
    ):
        monkeypatch.setenv("WEFT_CONFIG", str(config))
        shell = ShellComplete(main, {}, "weft", "_WEFT_COMPLETE")
        assert shell.get_completions(["get"], "m") == []
        assert [item.value for item in shell.get_completions(["search", "--source"], "")] == sources
