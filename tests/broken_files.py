"""Everything that a file system, a compressor and git can do to a member of a source."""

import bz2
import gzip
import lzma
import os
import random
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.archives import Mail

PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1, mtime=0),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".bz2": lambda data: bz2.compress(data, 1),
}
JANUARY, FEBRUARY = 1_073_300_000, 1_076_000_000
"""Author times in January and February 2004."""


def linked_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def linked_in_a_circle(path: Path) -> None:
    other = path.with_name("." + path.name + "2")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


def linked_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def linked_to_a_long_name(path: Path) -> None:
    path.symlink_to("x" * 300)


def linked_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(before)


def a_folder(path: Path) -> None:
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


UNREADABLE = (
    linked_to_itself,
    linked_in_a_circle,
    linked_to_nothing,
    linked_to_a_long_name,
    linked_to_a_device,
    a_pipe,
    a_socket,
    a_folder,
    empty,
)
"""Each puts something where a file ought to be that cannot be read as one."""


class Epoch:
    """One bare repository to which mails are added and from which they are removed."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=master", str(folder))

    def git(self, *arguments: str, given: bytes = b"", at: int = JANUARY) -> str:
        environment = {
            **os.environ,
            "GIT_DIR": str(self.folder),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "c",
            "GIT_COMMITTER_EMAIL": "c@example.org",
            "GIT_AUTHOR_DATE": f"{at} +0000",
            "GIT_COMMITTER_DATE": "1700000000 +0000",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.hooksPath",
            "GIT_CONFIG_VALUE_0": os.devnull,
        }
        done = subprocess.run(
            ["git", *arguments], input=given, env=environment, check=True, stdout=subprocess.PIPE
        )
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, bytes], at: int = JANUARY) -> str:
        """A commit on top whose tree holds these files and nothing else."""
        blobs = {
            name: self.git("hash-object", "-w", "--stdin", given=data)
            for name, data in files.items()
        }
        listing = "".join(f"100644 blob {blob}\t{name}\n" for name, blob in sorted(blobs.items()))
        tree = self.git("mktree", given=listing.encode())
        has_parent = bool(self.git("for-each-ref"))
        parent = ["-p", "refs/heads/master"] if has_parent else []
        commit = self.git("commit-tree", tree, *parent, "-m", "x", at=at)
        self.git("update-ref", "refs/heads/master", commit)
        return commit

    def import_mails(self, mails: list[bytes]) -> None:
        """Commits of many mails at once, one each, as loose objects."""
        stream = b"".join(
            b"commit refs/heads/master\nauthor a <a> %d +0000\ncommitter c <c> 1700000000 +0000\ndata 1\nx\n"
            b"M 100644 inline m\ndata %d\n%s\n" % (JANUARY + number, len(mail), mail)
            for number, mail in enumerate(mails)
        )
        self.git("-c", "fastimport.unpackLimit=100000", "fast-import", "--quiet", given=stream)

    def add(self, number: int, at: int = JANUARY) -> str:
        return self.commit({"m": mail(number)}, at)

    def remove(self, number: int) -> str:
        return self.commit({"d": mail(number)})

    def loose(self, what: str) -> Path:
        """The file of a loose object."""
        name = self.git("rev-parse", what)
        return self.folder / "objects" / name[:2] / name[2:]


def mail(number: int) -> bytes:
    return Mail(number, body=f"mail {number}").text().encode()


def mutated(data: bytes, random_: random.Random) -> bytes:
    """The bytes with a few turned, cut, doubled, taken out or put in."""
    found = bytearray(data)
    for _ in range(random_.randint(1, 6)):
        at, end = sorted(random_.randrange(len(found) + 1) for _ in range(2))
        end = min(end, at + random_.choice((1, 4, 64, 4096)))
        change = random_.randrange(6)
        if change == 0:
            found[at:end] = random_.randbytes(end - at)
        elif change == 1:
            del found[at:end]
        elif change == 2:
            found[at:at] = found[at:end]
        elif change == 3:
            found[at:at] = random_.randbytes(random_.choice((1, 8, 100)))
        elif change == 4:
            del found[at:]
        elif at < len(found):
            found[at] ^= 1 << random_.randrange(8)
    return bytes(found)


def noisy_git(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Put a git first on the PATH that says 200 MB on its standard error, prints a word, and ends
    with `code`.
    """
    folder.mkdir()
    program = folder / "git"
    program.write_text(
        "#!/bin/sh\nprintf 'warning: ' >&2\nhead -c 200000000 /dev/zero | tr '\\0' x >&2\n"
        f"printf printed\nexit {code}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
