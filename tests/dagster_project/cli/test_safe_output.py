"""No sign of a stranger's text steers a terminal: every command of the command line, on a workspace
full of such signs.
"""

import base64
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click
import dagster as dg
import pytest
import yaml
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from dagster_project.cli.main import COMMANDS, main
from dagster_project.cli.terminal.safe_console import SafeConsole
from tests.archives import Workspace
from transforms.text.visible import visible

CONTROLS = [chr(n) for n in (*range(32), *range(0x7F, 0xA0)) if chr(n) not in "\t\n"]
UNSEEN = [chr(n) for n in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
UNSEEN += [
    "\u2028",
    "\u2029",
    "\u200b",
    "\u2060",
    "\ufeff",
    "\U000e0001",
    "\U000e0041",
    "\U000e007f",
]
EVIL = "\x1b]52;c;aGFja2Vk\x07" + "".join(CONTROLS + UNSEEN)
NAMED = "".join(sign for sign in EVIL if sign != "\0")
"""What may stand in the name of a file and in an argument."""
PIXEL = "https://evil.example/pixel.png"
"""A picture that tells its owner who looks."""
STEERS = re.compile(f"[{''.join(map(re.escape, CONTROLS + UNSEEN))}\ud800-\udfff]")


def word(text: str) -> str:
    """A header's value that holds `text`."""
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode()}?="


def mail(number: int, answers: int | None = None) -> str:
    """A mail with steering signs in its names, texts, quote and attachment."""
    reference = f"In-Reply-To: <m{answers}@example.org>\n" if answers is not None else ""
    return (
        f"From ada@example.org Mon Jan  5 10:00:00 2004\nFrom: {word(f'Ada {EVIL} Lovelace')} <ada@example.org>\n"
        f"To: dev@example.org\nMessage-ID: <m{number}@example.org>\n{reference}"
        f"Date: Mon, 05 Jan 2004 {10 + number}:00:00 +0000\nSubject: {word(f'compactor {EVIL} load')}\n"
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
        "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
        + base64.encodebytes(
            f"> the compactor {NAMED} was quoted\n> in {NAMED} two lines\n\n![it]({PIXEL}) The compactor of "
            f"run {number} keeps "
            f"{EVIL} its pace when the load doubles, and {EVIL} nothing is lost.\n".encode()
        ).decode()
        + f'\n--b\nContent-Type: text/plain; name="{word(f"log {EVIL}.txt")}"\n'
        f"Content-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n"
        + base64.encodebytes(f"the compactor's log {EVIL} says it all\n".encode()).decode()
        + "\n--b--\n\n"
    )


FACTS = yaml.safe_dump({"tags": ["compactor", f"tag{EVIL}"], "title": f"Notes {EVIL}"})
NOTE = (
    f"---\n{FACTS}---\n# Compactor {NAMED}\n\nThe compactor merges ![it]({PIXEL}) {NAMED} sorted runs.\n\n"
    f"## Part {NAMED}\n\nNobody {NAMED} waits for ![it]({PIXEL}) in a load.\n"
)
PAIRS = f"## Q: What merges {NAMED} sorted runs?\n\nA: See [the manual](manual.md).\n"
CHAT = "".join(
    f"27.03.25, 18:{n:02d} - Ma{NAMED}ud: the compactor {NAMED} merges run {n} of the load\n"
    for n in range(9)
)
QUERY = {"id": "one", "query": f"compactor load {EVIL}", "tags": [f"tag{EVIL}"]}
TRUTH = yaml.safe_dump({"queries": [{**QUERY, "relevant": [{"message": "m1@example.org"}]}]})


@dataclass(frozen=True)
class Built:
    """The workspace, and what its build, its backfill and its evaluation printed."""

    work: Workspace
    said: dict[str, Result]

    def run(self, *arguments: str, text: str | None = None) -> Result:
        return weft(self.work, *arguments, text=text)


def weft(work: Workspace, *arguments: str, text: str | None = None) -> Result:
    filled = [
        a.replace("CONFIG", str(work.config)).replace("WORK", str(work.folder)) for a in arguments
    ]
    return CliRunner().invoke(main, filled, input=text)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """A workspace whose folder, files and texts are full of steering signs; built once."""
    short = "".join(s for s in ("\x1b]0;t\x07", "\x9b", "\u202e", "\u200b", "\u2028"))
    work = Workspace(tmp_path_factory.mktemp("evil") / f"w{short}k").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*", "list_id": f"dev{short}"},
        {"name": "notes", "kind": "vault", "path": "notes"},
        {"name": "docs", "kind": "tree", "path": "docs", "grain": "folder"},
        {"name": "chat", "kind": "conversation", "path": "chats", "pseudonyms": False},
        graph={"enabled": True, "prompts": "top"},
        document_chunks={"chunker": "tree"},
        evaluation={"queries": ["truth.yaml"]},
    )
    work.write(f"dev.2004{short}-01.mbox", (mail(1) + mail(2, 1) + mail(3, 1)).encode())
    work.write(f"broken{short}.mbox.gz", b"")
    work.put(f"notes/compactor {short}.md", NOTE)
    work.put(f"docs/guide{short}/manual.md", NOTE)
    work.put(f"docs/guide{short}/qa-pairs.md", PAIRS)
    work.put(f"chats/WhatsApp Chat with {short}.txt", CHAT)
    work.put("truth.yaml", TRUTH)
    work.put("given.txt", f"The compactor {EVIL} and its load")
    work.put("hostile.yaml", yaml.safe_dump({"queries": [EVIL]}))
    said = {
        "plan": weft(work, "plan", "--config", "CONFIG"),
        "build": weft(work, "build", "--config", "CONFIG"),
        "eval run": weft(work, "eval", "run", "--config", "CONFIG"),
        "context": weft(
            work, "context", "--config", "CONFIG", "WORK/given.txt", "--manifest", "WORK/one.json"
        ),
    }
    for name, result in said.items():
        assert result.exit_code == 0, (name, result.output, result.exception)
    yield Built(work, said)


def commands(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield (*before, name)


HERE = ("--config", "CONFIG")
CALLS: dict[str, list[tuple[str, ...]]] = {
    "config": [HERE, (*HERE, "--effective"), ("--config", f"WORK/none{NAMED}")],
    "eval trec": [(f"none{NAMED}", f"run{NAMED}")],
    "build": [
        HERE,
        (*HERE, "--verify"),
        (*HERE, "--fetch-only", f"none{NAMED}"),
        (*HERE, "--backfill", f"none{NAMED}"),
        (*HERE, "--sign-in", f"none{NAMED}"),
    ],
    "backup": [
        (*HERE, f"WORK/copy{NAMED}"),
        ("--verify", f"WORK/none{NAMED}"),
        ("--restore", f"WORK/{NAMED}", f"WORK/copy{NAMED}"),
    ],
    "search": [
        (*HERE, "compactor load"),
        (*HERE, f"compactor {NAMED} s:compactor"),
        (*HERE, "compactor", "--list", NAMED),
        (*HERE, f'"not closed {NAMED}'),
        (*HERE, "merges", "--kind", "conversation"),
        (*HERE, "merges", "--kind", "document"),
        (*HERE, "log", "--kind", "attachment"),
        (*HERE, f"compactor {NAMED}", "--stages"),
        (*HERE, "compactor", "--why", "m1@example.org"),
        (*HERE, "load", "--why", NAMED),
    ],
    "context": [
        (*HERE, "WORK/given.txt"),
        (*HERE, "--reproduce", "WORK/one.json"),
        (*HERE, f"WORK/none{NAMED}"),
        ("--compare", "WORK/one.json", "WORK/one.json"),
        (*HERE, "--timezone", NAMED, "WORK/given.txt"),
    ],
    "ask": [(*HERE, "compactor load"), (*HERE, f"compactor {NAMED}"), (*HERE, NAMED)],
    "mcp receipts": [HERE, (*HERE, "--last", "1")],
    "mcp skill": [(f"WORK/{NAMED}",)],
    "serve tokens": [
        ("list", *HERE),
        ("revoke", "a\u202e\x9b", *HERE),
        ("new", "\u202e\x1b]0;t\x07", *HERE),
    ],
    "forget": [(*HERE, "--dry-run", "m1@example.org"), (*HERE, "--dry-run", f"none{NAMED}")],
    "triage": [HERE, (*HERE, "--source", NAMED)],
    "verify": [(*HERE, "m1@example.org"), (*HERE, f"m1{NAMED} bytes 0-3")],
    "sql": [
        *(
            (*HERE, f"FROM {name}")
            for name in ("messages", "chunks", "nodes", "documents", "attachments", "quarantine")
        ),
        (*HERE, f"SELECT {NAMED}"),
        (*HERE, 'SELECT 1 AS "\u202e\x9b31m"'),
    ],
    "get": [(*HERE, "m1@example.org"), (*HERE, "manual.md"), (*HERE, f"m1{NAMED}")],
    "similar": [(*HERE, "m1@example.org"), (*HERE, f"m1{NAMED}")],
    "graph stripe": [(*HERE, "manual.md"), (*HERE, f"manual{NAMED}")],
    "graph ask": [(*HERE, "What merges sorted runs?", "--static"), (*HERE, f"compactor {NAMED}")],
    "init": [(*HERE, f"WORK/none{NAMED}"), (*HERE, "WORK/mail", "--name", NAMED)],
    "help": [(f"none{NAMED}",), ("exit-codes",)],
    "plan": [HERE, (*HERE, "--cost")],
    **dict.fromkeys(("doctor", "cache stats", "cache verify", "cache prune"), [HERE]),
    "cache import": [(*HERE, f"WORK/none{NAMED}")],
    "eval context": [HERE, (*HERE, "--queries", "WORK/hostile.yaml")],
    "eval run": [
        HERE,
        (*HERE, "--queries", "WORK/hostile.yaml"),
        (*HERE, "--profile", NAMED),
        (*HERE, "--tag", NAMED),
    ],
    "eval init": [(*HERE, f"WORK/new{NAMED[:40]}.yaml"), (*HERE, "WORK/truth.yaml")],
    "eval compare": [("REPORT", "REPORT"), (f"WORK/none{NAMED}", "REPORT")],
    "eval lens": [(*HERE, NAMED, "CONFIG")],
    "eval sweep": [
        (*HERE, "--set", "rrf_k=10,60"),
        (*HERE, "--set", f"{NAMED}=1"),
        (*HERE, "--measure", NAMED),
    ],
    # They serve until they are interrupted: what they say is that they cannot begin.
    "serve": [("--config", f"WORK/none{NAMED}"), ("--port", NAMED), (*HERE, "--host", NAMED)],
    "graph serve": [("--config", f"WORK/none{NAMED}"), ("--port", NAMED)],
    "mcp": [("--config", f"WORK/none{NAMED}"), ("--http", NAMED)],
    "ui": [("--config", f"WORK/none{NAMED}"), ("--port", NAMED)],
    "follow": [("--config", f"WORK/none{NAMED}")],
}
CALLS = {name: calls for name, calls in CALLS.items() if name.split()[0] in COMMANDS}
SHOWING = {
    "search",
    "ask",
    "context",
    "sql",
    "get",
    "similar",
    "graph stripe",
    "graph ask",
    "config",
    "doctor",
    "cache import",
    "eval run",
    "eval init",
    "eval compare",
    "eval sweep",
    "eval trec",
    "serve",
    "graph serve",
    "mcp",
    "mcp skill",
    "ui",
    "follow",
    "backup",
    "build",
    "init",
    "verify",
    "serve tokens",
}
"""Commands that do print a steering sign's escape: the test would pass for an output without any.
"""


def require_safe(result: Result, what: object) -> None:
    """Neither stream of a run has a steering sign, and it ended as Weft ends."""
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        what,
        result.exception,
    )
    for stream in (result.stdout, result.stderr):
        found = STEERS.search(stream.replace("\r\n", "\n"))
        assert found is None, (what, stream[max(0, found.start() - 60) : found.end() + 20])


def test_every_command_has_its_calls():
    assert {" ".join(words) for words in commands(main)} == set(CALLS)


@pytest.mark.parametrize("command", CALLS)
def test_no_command_prints_a_steering_sign(built: Built, command: str):
    report = sorted((built.work.settings.root / "eval").glob("*.json"))[0]
    said = ""
    for call in (*CALLS[command], (f"--{NAMED}",), (*HERE, *(f"{n}{NAMED}" for n in "abc"))):
        filled = [str(report) if part == "REPORT" else part for part in call]
        result = built.run(*command.split(), *filled)
        require_safe(result, (command, call))
        said += result.output if call in CALLS[command] else ""
    assert (command in SHOWING) == ("\\u202e" in said), said


def test_what_builds_say_is_safe(built: Built):
    for name, result in built.said.items():
        require_safe(result, name)
    assert "\\u202e" in built.said["build"].stdout and "\\u202e" in built.said["context"].stdout


def test_unknown_commands_and_options_are_named_safely(built: Built):
    for arguments in ([EVIL], [f"--{EVIL}"], ["cache", EVIL], ["eval", f"--{EVIL}"]):
        require_safe(CliRunner().invoke(main, arguments), arguments)


@pytest.mark.parametrize(
    "command",
    [
        c
        for c in ("search", "get", "sql", "context", "similar", "graph stripe", "graph ask")
        if c in CALLS
    ],
)
def test_json_is_safe_and_says_exactly_what_is_stored(built: Built, command: str):
    result = built.run(*command.split(), "--json", *CALLS[command][0])
    require_safe(result, command)
    assert "\u202e" in json.dumps(json.loads(result.stdout), ensure_ascii=False)


def test_json_of_a_text_is_that_text(built: Built):
    (body,) = built.work.column("SELECT body FROM messages WHERE message_id = 'm1@example.org'")
    assert "\x1b]52;" in body and "\u202e" in body and "\x9b" in body
    assert json.loads(built.run("get", "--json", *HERE, "m1@example.org").stdout)["text"] == body
    assert built.run("get", *HERE, "m1@example.org").stdout == visible(body)


@pytest.mark.exhaustive
def test_metadata_in_dagster_fetches_no_picture_of_a_text(built: Built):
    found: list[str] = []
    with built.work.instance() as instance:
        for key in instance.get_asset_keys():
            event = instance.get_latest_materialization_event(key)
            if event is None or event.asset_materialization is None:  # a source is observed
                continue
            for name, value in event.asset_materialization.metadata.items():
                if isinstance(value, dg.MarkdownMetadataValue):
                    found.append(f"{key.to_user_string()} {name}")
                    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(
                        str(value.value)
                    )
                    inline = [child for token in tokens for child in token.children or ()]
                    assert not [
                        t
                        for t in (*tokens, *inline)
                        if t.type in ("image", "html_block", "html_inline")
                    ]
                elif PIXEL in str(value.value):
                    found.append(f"{key.to_user_string()} {name} as text")
    assert "document_links preview as text" in found
    assert "conversation_context latest_context as text" in found


def test_signs_that_scripts_and_emoji_need_stay():
    persian, family = (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f52c",
    )
    said = f"{persian} {family}\ta\r\nb"
    assert visible(said) == said


def test_on_a_terminal_tables_stay_whole_and_only_styles_are_sent():
    screen = io.StringIO()
    console = SafeConsole(screen, force_terminal=True, color_system="standard", width=200)
    table = Table(title=f"[link=https://evil.example]x[/link] {EVIL}")
    table.add_column(f"name {EVIL[:30]}")
    table.add_row(Text(f"a{EVIL}b", style="bold"))
    table.add_row(f":smile: [red]{EVIL}")
    console.print(table)
    highlighted = Text("before \x1b]52;\u202e\x9b after")
    highlighted.stylize("bold", highlighted.plain.index("after"))
    console.print(highlighted, soft_wrap=True)
    shown = screen.getvalue()
    assert "\x1b[1mafter\x1b[0m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert STEERS.search(plain) is None
    assert "[link=https://evil.example]" in plain and ":smile:" in plain and "[red]" in plain
    widths = {len(line) for line in plain.splitlines() if line[:1] in "\u2502\u250f\u2521\u2514"}
    assert len(widths) == 1


def test_a_bar_of_progress_on_a_terminal_shows_the_signs_of_a_partition():
    screen = io.StringIO()
    console = SafeConsole(screen, force_terminal=True, color_system="standard", width=600)
    with Progress(TextColumn("{task.description}", markup=False), console=console) as progress:
        progress.add_task(f"dev/[bold]2004{EVIL}", total=1)
    drawn = re.sub(r"\x1b\[[0-9;?]*[mlhAK]", "", screen.getvalue()).replace("\r", "")
    assert STEERS.search(drawn) is None and "[bold]2004\\u001b]52;" in drawn
