"""The changes of a public-inbox repository, however damaged: git runs no program of it and fetches
nothing.
"""

import contextlib
import hashlib
import os
import re
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dagster_project.system.globs import is_folder, is_there
from dagster_project.system.processes import output_of
from transforms.errors import SourceError

# Plumbing runs no pager, no diff driver and no signature check. Objects that a partial clone lacks
# are missing: git before 2.39.4 knows no way not to ask for it, and then finds no protocol that it
# may use.
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_BLOCK = 1 << 20
_HEADER = 128
MISSING, DAMAGED, TOO_LARGE = "missing", "damaged", "too_large"


class Object(NamedTuple):
    """An object of a repository: its bytes; without them the fault (MISSING, DAMAGED or TOO_LARGE),
    and its size.
    """

    data: bytes
    size: int = 0
    fault: str | None = None


class Objects(contextlib.AbstractContextManager["Objects"]):
    """The objects of one repository by name, each checked against it; git is started again where
    one ended it.
    """

    def __init__(self, repository: Path):
        self.repository = repository
        self._process: subprocess.Popen[bytes] | None = None
        self._nobody = secrets.token_hex(16)

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, name: str, kind: str, limit: int = 64 << 20) -> Object:
        """The object of a name if it is of a kind (`blob`, `commit`, `tree`) and not over `limit`
        bytes.
        """
        was_running = self._process is not None
        answer, is_cut = self._answer(name, limit)
        if not answer and was_running:  # it may have ended over the object before this one
            answer, is_cut = self._answer(name, limit)
        first, _, data = answer.partition(b"\n")
        header = first.split()
        if len(header) == 2 and header[1] == b"missing":
            return Object(b"", fault=MISSING)
        if len(header) != 3:
            return Object(b"", fault=DAMAGED)
        size = int(header[2])
        if is_cut:
            return Object(b"", size, TOO_LARGE)
        del data[-1:]
        digest = hashlib.sha256() if len(name) == 64 else hashlib.sha1(usedforsecurity=False)
        digest.update(header[1] + b" %d\0" % size + data)
        if digest.hexdigest() != name or header[1] != kind.encode():
            return Object(b"", size, DAMAGED)
        return Object(bytes(data), size) if size <= limit else Object(b"", size, TOO_LARGE)

    def _answer(self, name: str, limit: int) -> tuple[bytearray, bool]:
        """The answer of git for an object, cut if it is far over `limit`; empty where git ends.

        A name that does not exist is requested after it: git gives a corrupt object fewer bytes
        than it says.
        """
        if self._process is None:
            self._process = start(
                self.repository, "cat-file", "--batch", stderr=subprocess.DEVNULL, unbuffered=True
            )
        assert self._process.stdin and self._process.stdout
        answer, is_cut = bytearray(), False
        with contextlib.suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), f"{name}\n{self._nobody}\n".encode())
        end = f"{self._nobody} missing\n".encode()
        while not answer.endswith(end):
            block = os.read(self._process.stdout.fileno(), _BLOCK)
            if not block:
                self._end()
                return bytearray(), False
            answer += block
            if len(answer) > limit + _BLOCK:
                del answer[_HEADER : -len(end)]
                is_cut = True
        return answer[: -len(end)], is_cut

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            with self._process:
                self._process = None


def missing_objects(repository: Path, names: Sequence[str]) -> set[str]:
    """Those of some names whose object the repository lacks, or cannot begin to read."""
    stdin = "".join(f"{name}\n" for name in names).encode()
    try:
        output = git(
            repository,
            "cat-file",
            "--batch-check=%(objectname) %(objectsize)",
            "--buffer",
            stdin=stdin,
        )
    except GitFailedError:  # as in a partial clone, over the first one that is missing
        output = git(
            repository,
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(objectname)",
            "--unordered",
        )
        return set(names) - set(output.decode("ascii", "replace").split())
    return {
        line.partition(b" ")[0].decode()
        for line in output.split(b"\n")
        if line.endswith(b" missing")
    }


def start(
    repository: Path, *arguments: str, stderr: int = subprocess.PIPE, unbuffered: bool = False
) -> subprocess.Popen[bytes]:
    """A running git command on that repository."""
    try:
        return subprocess.Popen(
            ["git", *arguments],
            # Without variables that would point git elsewhere.
            env={n: v for n, v in os.environ.items() if not n.startswith("GIT_")}
            | {**_ENVIRONMENT, "GIT_DIR": str(repository)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0 if unbuffered else -1,
        )
    except FileNotFoundError:
        raise SourceError(
            f"{repository}: the git program is not there; install git, or remove the source of kind public_inbox"
        ) from None


class GitFailedError(SourceError):
    """A git command failed; the text has its own first line."""


def git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """The output of a git command; GitFailedError with git's own words where it fails."""
    process = start(repository, *arguments)
    printed, complaint = output_of(process, stdin)
    if process.returncode:
        lines = complaint.decode(errors="replace").strip().splitlines()
        reason = f"git {arguments[0]} says: {lines[0] if lines else 'nothing'}"
        raise GitFailedError(str(_broken(repository, reason)))
    return printed


def named_object(repository: Path, name: str) -> str:
    """The id of the object that git calls so, as `HEAD:file`; GitFailedError if there is none."""
    return git(repository, "rev-parse", "--verify", "--quiet", name).decode().strip()


_CHANGE = re.compile(rb":\d{6} (\d{6}) [0-9a-f]+ ([0-9a-f]+) ([AMDT])\t([md])")
_COMMIT = re.compile(
    rb"tree ([0-9a-f]+)\n(?:parent ([0-9a-f]+)\n)?(?:parent [0-9a-f]+\n)*(?:author [^\n]* (\d{1,12}) )?"
)
_AGAIN = "fetch or clone it again"


class Change(NamedTuple):
    """A commit: when its author made it, the blob that came and the one that was removed, or empty.

    `fault` names the part of the commit, or of the history before it, that cannot be read.
    """

    commit: str
    at: int | None
    came: str = ""
    removed: str = ""
    fault: str | None = None


def history(repository: Path) -> list[Change]:
    """The changes of the only branch, or of HEAD's, oldest first; SourceError if there is nothing
    that can be read.
    """
    head = _head(repository)
    if head is None:
        return []
    try:
        changes = list(_changes_by_git(repository, head))
    except GitFailedError:
        changes = list(_walked(repository, head))
        if not any(change.came or change.removed for change in changes):
            raise _broken(repository, changes[0].fault or "no commit changes a mail") from None
    if begins := [change for change in changes if change.commit in _shallow(repository)]:
        why = f"{repository.name} is a shallow clone that begins at commit {begins[0].commit}; fetch it all"
        changes.insert(
            0, Change(f"before {begins[0].commit}", begins[0].at, fault=f"missing_history: {why}")
        )
    return changes


def _changes_by_git(repository: Path, head: str) -> Iterator[Change]:
    """The changes as git tells them; GitFailedError if it misses an object."""
    commits = git(repository, "rev-list", "--first-parent", "--reverse", head)
    output = git(
        repository,
        "diff-tree",
        "--stdin",
        "--root",
        "-r",
        "-m",
        "--first-parent",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--format=%H %at",
        stdin=commits,
    )
    commit, at, mail = "", 0, ""
    changed: dict[str, tuple[str, str]] = {}
    for line in (*output.split(b"\n"), b"end 0"):
        if (change := _CHANGE.fullmatch(line)) is not None:
            mode, blob, kind, path = (group.decode() for group in change.groups())
            changed[path] = (kind if mode.startswith("100") or kind == "D" else "T", blob)
        elif line and not line.startswith(b":"):
            if changed:
                came, removed, mail = _meaning(changed, mail)
                yield Change(commit, at, came, removed)
                changed = {}
            commit, _, seconds = line.decode("ascii", "replace").partition(" ")
            at = int(seconds) if seconds.lstrip("-").isdecimal() else 0


def _walked(repository: Path, head: str) -> Iterator[Change]:
    """The changes read object by object, as far as the objects go, and the missing or corrupt one."""
    with Objects(repository) as objects:
        commits, lost = _commits(objects, head, _shallow(repository))
        before: dict[str, str] | None = {}
        if lost:
            at = commits[-1][1] if commits else None
            what = f"commit {lost[0]} of repository {repository.name} is {lost[1]}"
            why = f"{lost[1]}_history: {what}, earlier commits cannot be read; {_AGAIN}"
            yield Change(lost[0], at, fault=why)
            before = None
        mail = ""
        absent = missing_objects(repository, [tree for _, _, tree in commits])
        for commit, at, tree in reversed(commits):
            now, fault = (None, MISSING) if tree in absent else _entries(objects, tree)
            if now is None:
                what = f"tree {tree} of commit {commit} of repository {repository.name} is {fault}"
                yield Change(commit, at, fault=f"{fault}_object: {what}; {_AGAIN}")
            else:
                came, removed, mail = _meaning(_changed(before or {}, now), mail)
                if came or removed:
                    yield Change(commit, at, came, removed)
            before = now


def _commits(
    objects: Objects, head: str, boundary: set[str]
) -> tuple[list[tuple[str, int, str]], tuple[str, str] | None]:
    """Name, author time and tree of the commits, newest first; the one at which they break off, and
    its fault.
    """
    commits: list[tuple[str, int, str]] = []
    name = head
    while name:
        commit = objects.read(name, "commit")
        parts = _COMMIT.match(commit.data)
        if parts is None:
            return commits, (name, commit.fault or DAMAGED)
        tree, parent, at = ((part or b"").decode() for part in parts.groups())
        commits.append((name, int(at or 0), tree))
        name = "" if name in boundary else parent
    return commits, None


def _entries(objects: Objects, tree: str) -> tuple[dict[str, str] | None, str | None]:
    """By name the blobs `m` and `d` of a tree, empty for anything but a file. None and the fault if
    it cannot be read.
    """
    tree_object = objects.read(tree, "tree")
    if tree_object.fault:
        return None, tree_object.fault
    width, entries, at = len(tree) // 2, {}, 0
    while at < len(tree_object.data):
        mode, _, rest = tree_object.data[at:].partition(b" ")
        name, nul, rest = rest.partition(b"\0")
        if not nul or len(rest) < width:
            return None, DAMAGED
        if name in (b"m", b"d"):
            entries[name.decode()] = rest[:width].hex() if mode.startswith(b"100") else ""
        at += len(mode) + len(name) + 2 + width
    return entries, None


def _changed(before: dict[str, str], now: dict[str, str]) -> dict[str, tuple[str, str]]:
    """By path how it differs (A, T, or D) and the blob there now."""
    return {
        path: ("D", "") if path not in now else ("A" if now[path] else "T", now[path])
        for path in ("m", "d")
        if before.get(path) != now.get(path)
    }


def _meaning(changed: dict[str, tuple[str, str]], mail: str) -> tuple[str, str, str]:
    """Blob that came, blob that was removed, and the blob that is at `m` now."""
    kind, blob = changed.get("m", ("", ""))
    came = blob if kind in ("A", "M") else ""
    mail = came or ("" if kind == "D" else mail)
    kind, blob = changed.get("d", ("", ""))
    removed = blob if kind in ("A", "M") else ""
    if kind == "D" and not came:
        came = mail  # the mail at `m` is there again without having changed
    return came, removed, mail


def _head(repository: Path) -> str | None:
    """The newest commit: HEAD, else the only branch; None for a repository in which there is
    nothing at all.
    """
    if not is_folder(repository / "objects"):
        raise SourceError(
            f"{repository} is not a git repository of public-inbox; name the inbox's folder (it holds git/0.git) "
            "or a bare repository as `path`"
        )
    heads = git(
        repository, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"
    ).split(b"\n")
    branches = {ref: name for name, _, ref in (line.partition(b" ") for line in heads if line)}
    if not branches:
        if any(
            any((repository / "objects").glob(kind))
            for kind in ("pack/*.pack", "[0-9a-f][0-9a-f]/*")
        ):
            raise _broken(repository, "it holds objects, but no branch that git can read")
        return None
    current = _current(repository)
    chosen = branches.get(current)
    # A corrupt branch exists, and another one was not meant.
    if (
        chosen is None
        and len(branches) == 1
        and not (current and is_there(repository / os.fsdecode(current)))
    ):
        chosen = next(iter(branches.values()))
    if chosen is None:
        raise SourceError(
            f"{repository}: HEAD names {current.decode(errors='replace') or 'no branch'}, which is none of its "
            f"{len(branches)} branches; set it with `git symbolic-ref HEAD refs/heads/NAME`"
        )
    return chosen.decode()


def _current(repository: Path) -> bytes:
    """The branch that HEAD names, if it names one."""
    try:
        return git(repository, "symbolic-ref", "HEAD").strip()
    except GitFailedError:  # the branch is missing or corrupt, or HEAD names a commit
        with contextlib.suppress(OSError):
            return (repository / "HEAD").read_bytes()[:1024].removeprefix(b"ref: ").strip()
        return b""


def _shallow(repository: Path) -> set[str]:
    try:
        return set((repository / "shallow").read_text("ascii", "replace").split())
    except OSError:
        return set()


def _broken(repository: Path, what: str) -> SourceError:
    return SourceError(
        f"repository {repository} cannot be read: {what}; look at it with `git fsck`, or fetch it again"
    )
