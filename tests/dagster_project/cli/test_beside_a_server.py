"""Commands that read print the same beside a server as without one, whatever becomes of the server,
of their settings and of their output.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest

from dagster_project.servers import local
from dagster_project.servers.local_server import answering
from tests.archives import Workspace, discussion
from tests.processes import weft
from tests.timing import until

MAIL = "m0@example.org"
ASKED: tuple[tuple[str, ...], ...] = (
    ("search", "the compactor"),
    ("search", "--json", "--limit", "3", "the compactor", "shell"),
    ("search", "--explain", "--more", "--since", "2004-02", "--expand", "parent", "run"),
    ("search", "--json", "--", "-nothing zzzz"),
    ("similar", MAIL),
    ("similar", "--json", MAIL),
    ("get", MAIL),
    ("get", "--json", MAIL),
    ("get", "nobody"),
    ("context", "question.txt"),
    ("context", "--json", "question.txt"),
    ("context", "--lens", "dev", "question.txt"),
    ("context", "--lens", "dev", "--json", "--budget", "100", "question.txt"),
    ("context", "--lens", "nobody", "question.txt"),
)
"""Commands of each kind: text and JSON, under a lens and not, with an answer and with a fault."""
TIMES = re.compile(r'(?<=seconds": )[\d.]+|\d+(?= ms)|(?<=newest text came )\d+ \w+')
HEAVY = (
    *("polars", "numpy", "duckdb", "pyarrow", "pydantic", "multiprocessing"),
    *("dagster_project.extensions", "transforms.retrieval.query_fields", "click.shell_completion"),
)
"""Packages and modules that search or take long to load, which no command beside a server needs."""


class Done(NamedTuple):
    """A command that ended: exit code, output and messages without times."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def work(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = built_once.copied(tmp_path_factory.mktemp("beside") / "work")
    made.config.write_text(f'{made.config.read_text()}\n[lenses]\ndev = "l:dev"\n')
    made.put("question.txt", "How does the compactor behave?")
    return made


@pytest.fixture(autouse=True)
def _here(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work.folder)


def without_server(*arguments: str) -> Done:
    """A command, in a process that has loaded what it needs."""
    done = weft(Path.cwd(), *arguments)
    return Done(done.code, TIMES.sub("0", done.out), TIMES.sub("0", done.err))


def started(*arguments: str, redirected: str = "") -> tuple[Done, set[str]]:
    """A command as a shell starts it, and the heavy libraries that it loaded."""
    command = [sys.executable, "-X", "importtime", "-m", "dagster_project.cli", *arguments]
    shell = ["sh", "-c", f'exec "$@" {redirected}', "sh", *command]
    ended = subprocess.run(shell, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = ended.stderr.splitlines(keepends=True)
    imports = [line for line in lines if line.startswith("import time:")]
    own = "".join(line for line in lines if not line.startswith("import time:"))
    loaded = {name for name in HEAVY if any(f" {name}\n" in line for line in imports)}
    return Done(ended.returncode, TIMES.sub("0", ended.stdout), TIMES.sub("0", own)), loaded


def test_each_command_prints_the_same_and_loads_nothing_that_searches(work: Workspace):
    here = [without_server(*arguments) for arguments in ASKED]
    with answering(work.config):
        beside = [started(*arguments) for arguments in ASKED]
    assert [done for done, _ in beside] == here
    by_server = [
        arguments for arguments, (_, loaded) in zip(ASKED, beside, strict=True) if not loaded
    ]
    assert by_server == [a for a in ASKED if a[-1] != "nobody" and "nobody" not in a]


EIGHT_BITS = {
    "iso-8859-1": "Wie groß wird die Übertragung über Köln?",
    "windows-1252": "Wie groß wird die “Übertragung” über Köln?",
    "koi8-r": "Насколько велика передача через Киев?",
    "shift_jis": "圧縮プログラムはどう動きますか",
}


SENT, DRAFT = "Message-ID: <eight@example.org>", "Date: Mon, 5 Jan 2004 10:00:00 +0000"


@pytest.mark.parametrize("of", [SENT, DRAFT], ids=["sent", "draft"])
@pytest.mark.parametrize("charset", EIGHT_BITS)
def test_a_mail_of_eight_bits_by_a_pipe_keeps_its_letters(work: Workspace, charset: str, of: str):
    """It asks what the same mail in UTF-8 asks, also beside a server, whose question is JSON."""
    text = EIGHT_BITS[charset]
    asked = hashes_by_pipe(work, text, "utf-8", of)
    assert hashes_by_pipe(work, text, charset, of) == asked
    assert hashes_by_pipe(work, text.encode("ascii", "replace").decode(), charset, of) != asked
    with answering(work.config):
        assert hashes_by_pipe(work, text, charset, of) == asked


def hashes_by_pipe(work: Workspace, text: str, charset: str, of: str) -> list[str]:
    """The hashes of the queries of a mail on standard input, which has the header `of`."""
    head = (
        "From: a@example.org",
        of,
        f"Content-Type: text/plain; charset={charset}",
        "Content-Transfer-Encoding: 8bit",
    )
    mail = "\n".join([*head, "\n"]).encode() + text.encode(charset)
    done = work.weft("context", "--stdin", "--json", input=mail)
    return [query["text_sha256"] for query in json.loads(done.stdout)["manifest"]["queries"]]


OTHERS = {
    "settings": lambda work: work.config.write_text(work.config.read_text() + "\n# other\n"),
    "synonyms": lambda work: work.put("synonyms.txt", "a, b\n"),
    "code": lambda _: os.utime(local.__file__),
    "variables": lambda _: os.environ.update(WEFT_PSEUDONYM_KEY="other"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_server_of_other_code_or_settings_answers_nothing(
    work: Workspace, what: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WEFT_PSEUDONYM_KEY", "one")
    before, state = work.config.read_text(), Path(local.__file__).stat()
    stamp = local.stamp(work.config)
    with answering(work.config):
        try:
            OTHERS[what](work)
            assert local.stamp(work.config) != stamp
            assert local._answer_of_server(work.config, {"command": "get", "name": MAIL}) is None
        finally:
            work.config.write_text(before)
            (work.folder / "synonyms.txt").unlink(missing_ok=True)
            os.utime(local.__file__, ns=(state.st_atime_ns, state.st_mtime_ns))
            monkeypatch.setenv("WEFT_PSEUDONYM_KEY", "one")
        assert local._answer_of_server(work.config, {"command": "get", "name": MAIL})


def _whole(peer: socket.socket) -> bytes:
    with peer.makefile("rb") as lines:
        return lines.readline()


LIES: dict[str, Callable[[socket.socket, bytes], object]] = {
    "closes at once": lambda *_: None,
    "is silent": lambda peer, _: peer.recv(1),
    "is another": lambda peer, _: peer.sendall(b"0" * 64 + b"\n"),
    "goes away after the question": lambda peer, stamp: (peer.sendall(stamp), _whole(peer)),
    "goes away amid the answer": lambda peer, stamp: (
        peer.sendall(stamp),
        _whole(peer),
        peer.sendall(b'{"kind": "message", "id'),
    ),
    "answers what is not JSON": lambda peer, stamp: (
        peer.sendall(stamp),
        _whole(peer),
        peer.sendall(b"hello\n"),
    ),
}


@pytest.fixture
def liar(work: Workspace, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """A server that does not answer; the list gets each talk."""
    config, talks = work.config.resolve(), list[str]()
    place = next(local.folders()) / f"{local.socket_name(config)}-liar"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def talk() -> None:
            peer, _ = listener.accept()
            talks.append(request.param)
            with peer:
                LIES[request.param](peer, local.stamp(config))

        threading.Thread(target=talk, daemon=True).start()
        yield talks
    place.unlink()


@pytest.mark.parametrize("liar", LIES, indirect=True)
def test_a_command_does_itself_what_a_server_leaves(work: Workspace, liar: list[str]):
    done = without_server("get", MAIL)
    assert (done.code, len(liar)) == (0, 1) and "compactor" in done.out


OUTPUTS = {
    ">/dev/full": (11, "error: standard output cannot be written (No space left on device)"),
    ">&-": (1, "error: standard output is closed"),
    "<&-": (0, ""),
    "2>&-": (0, ""),
    "2>/dev/full": (0, ""),
}


@pytest.mark.parametrize("is_beside", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_output_that_fails_is_said_and_leaves_nothing_to_the_next_command(
    work: Workspace, is_beside: bool
):
    next_one = ("search", "--json", "zzqqxx")
    with ExitStack() as stack:
        if is_beside:
            stack.enter_context(answering(work.config))
        for arguments in (
            ("search", "shell"),
            ("similar", "--json", MAIL),
            ("context", "question.txt"),
        ):
            for redirected, (code, sentence) in OUTPUTS.items():
                done, loaded = started(*arguments, redirected=redirected)
                assert done.code == code, (redirected, done)
                assert redirected.startswith("2") or bool(loaded) != is_beside
                assert "Traceback" not in done.err and sentence in done.err
        done, _ = started(*next_one)
        assert done.code == 3 and json.loads(done.out)["queries"][0]["query"] == "zzqqxx"


@pytest.mark.parametrize("arguments", [("get", MAIL), ("build", "--quiet"), ("--version",)])
def test_a_command_in_a_folder_that_is_gone_says_so(tmp_path: Path, arguments: tuple[str, ...]):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = [sys.executable, "-m", "dagster_project.cli", *arguments]
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command],
        cwd=gone,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(local.__file__).parents[2])},
    )
    assert done.returncode == 1 and done.stderr.startswith("error: this folder is gone"), (
        done.stderr
    )
    assert len(done.stderr.splitlines()) == 1


def test_many_commands_and_one_that_never_reads_are_answered_side_by_side(work: Workspace):
    question = {"command": "get", "name": MAIL}
    with answering(work.config), closing(socket.socket(socket.AF_UNIX)) as idle:
        idle.connect(str(local.sockets(work.config.resolve())[0]))
        idle.sendall(json.dumps(question).encode() + b"\n")
        with ThreadPoolExecutor(12) as threads:
            answers = list(
                threads.map(local._answer_of_server, [work.config] * 40, [question] * 40)
            )
    assert len({json.dumps(answer) for answer in answers}) == 1 and answers[0]


def test_each_of_two_servers_answers_and_neither_leaves_its_socket(work: Workspace):
    config, question = work.config.resolve(), {"command": "get", "name": MAIL}
    with answering(config):
        with answering(config):
            assert len(local.sockets(config)) == 2
        assert local._answer_of_server(config, question)
    assert local.sockets(config) == []
    with closing(socket.socket(socket.AF_UNIX)) as killed:
        killed.bind(str(next(local.folders()) / f"{local.socket_name(config)}-killed"))
    assert local._answer_of_server(config, question) is None and local.sockets(config) == []


def test_sockets_are_in_folders_of_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "_ABOVE", (str(tmp_path),))
    (folder,) = local.folders()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert not [*local.folders()]
    folder.rmdir()
    (tmp_path / "private").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "private")
    assert not [*local.folders()]


@pytest.mark.exhaustive
def test_no_answer_is_of_a_version_before_the_current_one(work: Workspace, tmp_path: Path):
    copy = work.copied(tmp_path / "copy")
    with answering(copy.config):
        assert started("search", "ziggurat", "--config", str(copy.config))[0].code == 3
        copy.write("dev/dev.2004-03.mbox", discussion(400, 3, "ziggurat"))
        assert weft(copy.folder, "build", "--quiet", "--config", copy.config).code == 0
        assert started("search", "ziggurat", "--config", str(copy.config))[0].code == 0
        until(
            lambda: not started("search", "ziggurat", "--config", str(copy.config))[1],
            "an answer of the server from the new version",
        )
