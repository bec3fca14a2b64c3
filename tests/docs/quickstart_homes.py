"""Home folders with archives as people have them, one for each quickstart."""

import gzip
import mailbox
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "data" / "sample"


def mailing_list(home: Path) -> None:
    """Monthly archives as Mailman and HyperKitty give them."""
    (home / "archives").mkdir()
    for file in (SAMPLE / "quern-users").iterdir():
        month = file.name.rpartition(".")[2]
        (home / "archives" / f"quern-users-{month}.mbox.gz").write_bytes(
            gzip.compress(file.read_bytes())
        )


def maildir(home: Path) -> None:
    """A Maildir of an IMAP client with the folder Sent."""
    inbox = mailbox.Maildir(home / "Maildir")
    for number, file in enumerate(sorted((SAMPLE / "quern-dev").iterdir())):
        folder = inbox.add_folder("Sent") if number == 0 else inbox
        for message in mailbox.mbox(file, create=False):
            folder.add(mailbox.MaildirMessage(message))


def vault(home: Path) -> None:
    shutil.copytree(SAMPLE / "notes", home / "Notes")


def documents(home: Path) -> None:
    """A project whose documentation is a folder beside its code."""
    shutil.copytree(SAMPLE / "docs", home / "project" / "docs")
    (home / "project" / "src").mkdir()
    (home / "project" / "src" / "main.c").write_text("int main(void) { return 0; }\n")


def chat(home: Path) -> None:
    """What a phone sends as "Export chat"."""
    (text,) = (SAMPLE / "chat").iterdir()
    (home / "Downloads").mkdir()
    with zipfile.ZipFile(home / "Downloads" / f"{text.stem}.zip", "w") as archive:
        archive.write(text, text.name)


HOMES: dict[str, Callable[[Path], None]] = {
    "start-mailing-list": mailing_list,
    "start-maildir": maildir,
    "start-vault": vault,
    "start-documents": documents,
    "start-chat": chat,
    "start-assistant": vault,
}
"""What makes the home folder of each page, by the name of the page."""
