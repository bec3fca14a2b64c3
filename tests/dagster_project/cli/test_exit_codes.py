"""Every exit code of the documentation is the one that commands end with."""

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dagster_project.cli.main import COMMANDS, main
from tests.archives import Mail, Workspace, mbox
from transforms import errors

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
CODES = {int(code) for code in re.findall(r"^\| (\d+) \| ", PAGE, re.M)}
UNKNOWN = [
    "no@such.mail",
    "<no@such.mail>",
    "nowhere/none.md#no",
    "\x01",
    "no\udcff",
    "x'; DROP TABLE chunks; --",
    "a" * 30_000,
]
TAKE_AN_ID: dict[str, Callable[[str], list[str]]] = {
    "get": lambda name: ["get", name],
    "similar": lambda name: ["similar", name],
    "search --why": lambda name: ["search", "compactor", "--why", name],
    "graph stripe": lambda name: ["graph", "stripe", name],
    "graph stripe --technical": lambda name: ["graph", "stripe", name, "--technical"],
}
TAKE_AN_ID = {call: made for call, made in TAKE_AN_ID.items() if call.split()[0] in COMMANDS}


def ended(work: Workspace, *arguments: str, given: str | None = None) -> tuple[int, str]:
    """The exit code and the faults of a command."""
    result = work.weft(*arguments, input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


def test_codes_are_those_of_the_readme_and_of_the_help():
    kinds = [
        k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.WeftError)
    ]
    ended_by_signals = {128 + signal.SIGINT, 128 + signal.SIGTERM}
    assert {kind.exit_code for kind in kinds} | {0, 3} | ended_by_signals == CODES
    told = CliRunner().invoke(main, ["--help"]).stdout.split("Exit codes:")[1]
    assert {int(code) for code in re.findall(r"(?:^|; |\n *)\s*(\d+) (?=[a-z])", told)} == CODES


@pytest.mark.parametrize("command", TAKE_AN_ID)
def test_an_unknown_id_is_3(built_once: Workspace, command: str):
    for name in UNKNOWN:
        code, said = ended(built_once, *TAKE_AN_ID[command](name))
        assert code == 3 and said.startswith("error: ") and len(said) < 2_000, name[:20]


UNREAD = {
    "no_export": ("talk.json", "{}"),
    "no_message": ("talk.json", '{"messages": []}'),
    "no_line": ("talk.csv", "time,author,message\n"),
    "mails": ("talk.mbox", mbox([Mail(1, "The gate is open."), Mail(2, "Rye.", "Flour")]).decode()),
}
"""By the source its only file, in which its reader finds no message."""


def test_a_source_without_a_file_that_can_be_read_is_4(tmp_path: Path):
    work = Workspace(tmp_path / "work")
    for source, (name, text) in UNREAD.items():
        work.put(f"{source}/{name}", text)
    work.put("notes/a.md", "# A\n\nThe gate is open.\n")
    chats = [{"name": name, "kind": "conversation", "path": name} for name in UNREAD]
    work.configure(*chats, {"name": "notes", "kind": "vault", "path": "notes"})
    said = [f"source {name}: none of its files could be read, as talk" for name in UNREAD]
    for _ in range(2):
        code, faults = ended(work, "build", "--quiet")
        assert code == 4 and [line in faults for line in said] == [True] * len(UNREAD)
    examined = work.weft("doctor")
    assert examined.exit_code == 7 and all(line in examined.stdout for line in said)
    assert ended(work, "search", "gate")[0] == 0
    for name in UNREAD:
        work.put(f"{name}/b.csv", "time,author,message\n2025-01-01T10:00:00,ada,It creaks\n")
    assert ended(work, "build", "--quiet") == (0, "")
    assert "none of its files" not in work.weft("doctor").stdout


LONG = "a" * 20_001
CALLS: dict[int, list[list[str]]] = {
    0: [
        ["search", "compactor"],
        ["search", "compactor \udcff"],
        ["search", "compactor \udcff", "--json"],
        ["search", "compactor", "--stages"],
        ["search", "compactor \udcff", "--stages", "--json"],
        ["get", "m1@example.org"],
        ["search", '"no such phrase at all"', "--why", "m1@example.org"],
        ["similar", "m1@example.org"],
        ["sql", "SELECT 1"],
        ["sql", "SELECT '\udcff'"],
    ],
    2: [
        ["search"],
        ["context"],
        ["nosuch"],
        ["context", "nosuch.txt"],
        ["search", "\u2028"],
        ["search", '"open'],
        ["search", LONG],
        ["search", "--plain", LONG],
        ["search", 's:"\udcff', "--json"],
        ["search", "--stages", "a", "b"],
        ["search", "compactor", "--source", "nowhere"],
        ["search", "compactor", "--from", "a " * 600],
        ["search", "compactor", "--path", "?" * 1_001],
        ["search", "compactor", "--limit", "0"],
        ["search", "--stages", "(" * 40 + '"a"' + ")" * 40],
        ["get", "m1@example.org bytes 5-100000"],
        ["search", "--stages", '"open'],
        ["sql", "SELEKT"],
        ["sql", "FROM nowhere"],
        ["sql", "FROM read_csv('/etc/passwd')"],
    ],
    3: [
        ["search", '"no such phrase at all"'],
        ["search", "thread:nowhere"],
        ["search", "m:no@such.mail"],
        ["search", "compactor", "--until", "1990-01-01"],
        ["search", "%_\\"],
        ["search", "--stages", '"no such phrase at all"'],
        ["similar", "m1@example.org\udcff", "--json"],
    ],
}


@pytest.mark.parametrize("code", CALLS)
def test_a_command_ends_with_its_code(built_once: Workspace, code: int):
    for arguments in CALLS[code]:
        assert ended(built_once, *arguments)[0] == code, arguments


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "code"), [("How does the compactor behave?", 0), ("?", 3), ("x" * 100_000, 3)]
)
def test_a_context_is_0_and_none_is_3(built_once: Workspace, text: str, code: int):
    found, said = ended(built_once, "context", "--stdin", given=text)
    assert found in (0, 3) if code == 3 else found == 0, said


def test_what_is_not_there_or_not_readable_has_its_code(workspace: Workspace, tmp_path: Path):
    for arguments in (
        ["search", "x"],
        ["search", "x", "--stages"],
        ["get", "x"],
        ["sql", "SELECT 1"],
    ):
        code, said = ended(workspace, *arguments)
        assert code == 5 and "weft build" in said, arguments
    assert ended(workspace, "build")[0] == 4, "no file matches the source"
    manifest = tmp_path / "manifest.json"
    manifest.write_text("{}")
    assert ended(workspace, "context", "--reproduce", str(manifest))[0] == 1
    workspace.config.write_text("[nosuch]\n")
    assert ended(workspace, "search", "x")[0] == 2
