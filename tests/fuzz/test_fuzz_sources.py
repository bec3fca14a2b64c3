"""Sources in which members are broken at random: all else is read, each broken member has its
reason, nothing raises.
"""

import io
import json
import os
import random
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_project.composition.objects import make_sources
from tests.archives import Mail, Workspace, mbox
from tests.broken_files import PACKERS, UNREADABLE, Epoch, a_folder, mail, mutated
from tests.fuzz.fuzzing import seeds, within_limits
from transforms.documents.files import read_documents
from transforms.errors import WeftError
from transforms.mail.messages import read_mail

DAY = json.dumps([{"ts": "1736937000.1", "user": "U1", "text": "from Slack"}]).encode()
DISCORD = json.dumps(
    {
        "messages": [
            {
                "timestamp": "2025-01-15T10:30:00Z",
                "author": {"name": "ada"},
                "content": "from Discord",
            }
        ]
    }
).encode()
MEMBERS = {
    "users.json": b'[{"id": "U1", "real_name": "Ada"}]',
    "general/1.json": DAY,
    "one.json": DISCORD,
    "rows.csv": b"timestamp,author,message\n2025-01-15 10:30,ada,from a table\n",
    "_chat.txt": b"27.03.25, 18:02 - Ada: from WhatsApp\n",
}
LINES = (
    "# A heading",
    "---",
    "a: &a [*a, *a]",
    "tags: [x, {y: z}]",
    "> " * 900 + "deep",
    "[[" * 2000,
    "![" * 2000 + "]" * 2000,
    "`" * 5000,
    "* " * 900,
    "x" * 50_000,
    "| a " * 3000,
    "<div>" * 5000,
    "%%",
    "***" * 5000,
    "[a]: <b>",
    "\0",
    "\ufeff",
    "```",
    "#tag" * 3000,
    "$$",
    "&#x110000;",
    "\u202e\ud7ff",
    "date: 9999-99-99",
)


def take_stock(work: Workspace) -> tuple[list[bytes], list[str], int]:
    """Mails as they are read, places in quarantine, and rows of messages, documents and chats."""
    sources = make_sources(work.settings)
    mails: list[bytes] = []
    quarantined: list[str] = []
    rows = 0
    for partition in sources.discover():
        if partition.source_type == "mail":
            found = list(sources.mails(partition))
            mails += [m.data for m in found if not m.fault]
            made = read_mail(
                found,
                source=partition.source,
                partition=partition.name,
                list_id=partition.list_id,
                settings=work.settings.mail,
            )
            rows += made.messages.num_rows
            quarantined += made.quarantine["place"].to_pylist()
        elif partition.source_type == "documents":
            files = list(sources.files(partition))
            documents = read_documents(
                files,
                source=partition.source,
                partition=partition.name,
                settings=work.settings.documents,
            )
            assert documents.documents.num_rows + documents.quarantine.num_rows == len(files)
            rows += documents.documents.num_rows
            quarantined += documents.quarantine["place"].to_pylist()
        else:
            messages, _, faults = sources.conversation(partition)
            rows += messages.num_rows
            quarantined += faults["place"].to_pylist()
    return mails, quarantined, rows


def broken_sources(folder: Path, seed: int, random_: random.Random) -> None:
    """Mail, notes and a repository of which random members are broken: the others are read, those
    have a reason.
    """
    work = Workspace(folder).configure(
        {"name": "mail", "kind": "mbox", "path": "mail/*"},
        {"name": "notes", "kind": "vault", "path": "notes"},
        {"name": "list", "kind": "public_inbox", "path": "inbox"},
    )
    (folder / "notes").mkdir()
    sound: set[bytes] = set()
    notes, broken = 0, set()
    for number in range(8):
        ending = random_.choice([*PACKERS])
        name, is_sound = f"m{number}.mbox{ending}", random_.random() < 0.6 or number == 0
        if is_sound:
            work.write(name, PACKERS[ending](mbox([Mail(number)])))
            sound.add(Mail(number).text().strip().encode())
            (folder / "notes" / f"n{number}.md").write_text(f"# Note {number}")
            notes += 1
        else:
            random_.choice(UNREADABLE)(folder / "mail" / name)
            put = random_.choice([p for p in UNREADABLE if p is not a_folder])
            put(folder / "notes" / f"n{number}.md")
            broken |= {name, f"n{number}.md"}
    epoch = Epoch(folder / "inbox")
    epoch.import_mails([mail(100 + number) for number in range(6)])
    for number in range(6):
        if number and random_.random() < 0.4:
            path = epoch.loose(f"master~{5 - number}:m")
            path.chmod(0o644)
            path.unlink() if random_.random() < 0.5 else path.write_bytes(random_.randbytes(50))
            broken.add(f"inbox:{epoch.git('rev-parse', f'master~{5 - number}')}")
        else:
            sound.add(mail(100 + number).strip())
    mails, quarantined, rows = take_stock(work)
    assert {m.strip() for m in mails} == sound, seed
    assert rows == len(sound) + notes, seed
    assert {q for q in quarantined if not q.startswith(".")} == broken, seed


def mutated_archive(folder: Path, seed: int, random_: random.Random) -> None:
    """An archive, an export of a chat or a repository with mutated bytes: rows, reasons or a
    WeftError.
    """
    kind = random_.choice(["mbox", "zip", "zip", "git"])
    if kind == "git":
        work = Workspace(folder).configure({"name": "dev", "kind": "public_inbox", "path": "inbox"})
        epoch = Epoch(folder / "inbox")
        epoch.import_mails([mail(number) for number in range(5)])
        if random_.random() < 0.5:
            epoch.git("repack", "-adq")
        files = [
            p for p in sorted(epoch.folder.rglob("*")) if p.is_file() and "hooks" not in p.parts
        ]
        for path in random_.sample(files, random_.randint(1, 3)):
            path.chmod(0o644)
            path.write_bytes(mutated(path.read_bytes(), random_))
    elif kind == "mbox":
        work = Workspace(folder).configure()
        ending = random_.choice([*PACKERS])
        packed = PACKERS[ending](mbox([Mail(number) for number in range(random_.randint(1, 60))]))
        work.write(f"dev.mbox{ending}", mutated(packed, random_))
    else:
        work = Workspace(folder).configure(
            {"name": "chats", "kind": "conversation", "path": "mail"}
        )
        data = io.BytesIO()
        with zipfile.ZipFile(
            data, "w", random_.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
        ) as archive:
            for name in random_.sample([*MEMBERS], random_.randint(1, len(MEMBERS))):
                content = (
                    mutated(MEMBERS[name], random_) if random_.random() < 0.3 else MEMBERS[name]
                )
                archive.writestr(name, content)
        (folder / "mail" / "x.zip").write_bytes(mutated(data.getvalue(), random_))
        for name, content in MEMBERS.items():
            if random_.random() < 0.3:
                (folder / "mail" / Path(name).name).write_bytes(mutated(content, random_))
    try:
        mails, quarantined, rows = take_stock(work)
    except WeftError as error:
        assert str(error), seed
    else:
        assert kind != "mbox" or mails or quarantined, seed
        assert kind != "zip" or rows or quarantined, seed


def hostile_vault(folder: Path, seed: int, random_: random.Random) -> None:
    """A vault of odd names, links, depths and texts: each of its entries is a document or has a
    reason.
    """
    work = Workspace(folder).configure({"name": "notes", "kind": "vault", "path": "notes"})
    notes = folder / "notes"
    notes.mkdir()
    (notes / "sound.md").write_text("# Sound")
    before = Path.cwd()
    os.chdir(notes)
    try:
        # Each level is looked up from the root of the disk: most of a case's time goes into a
        # thousand.
        for _ in range(1000 if random_.random() < 0.03 else random_.choice([0, 3, 30, 100])):
            Path("d").mkdir()
            os.chdir("d")
            if random_.random() < 0.02:
                Path("deep.md").write_text("# Deep")
    finally:
        os.chdir(before)
    for number in range(random_.randint(1, 6)):
        odd = bytes(
            random_.choice(b"\n\r\t \\*?[]'\"%.#^|:\xff\xe9\x80ab")
            for _ in range(random_.randint(1, 40))
        )
        path = notes / os.fsdecode(
            odd
            + b"%d." % number
            + random_.choice([b"md"] * 12 + [b"rst", b"html", b"txt", b"\xe9"])
        )
        if random_.random() < 0.3:
            random_.choice(UNREADABLE)(path)
            continue
        text = "\n".join(random_.choices(LINES, k=random_.choice([1, 3, 8])))
        if random_.random() < 0.03:
            text = "\n".join(f"# {n}" for n in range(10_000))
        if random_.random() < 0.3:
            text = f"---\n{text}\n---\n"
        if random_.random() < 0.1:
            levels = "\n".join(
                f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)
            )
            text = f"---\na0: &a0 [x]\n{levels}\n---\n"
        data = text.encode(random_.choice(["utf-8", "utf-8", "utf-16", "utf-32"]), "replace")
        path.write_bytes(mutated(data, random_) if random_.random() < 0.3 else data)
    mails, quarantined, rows = take_stock(work)
    assert rows >= 1, seed


Case = Callable[[Path, int, random.Random], None]


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [broken_sources, mutated_archive, hostile_vault])
def test_many_broken_sources(tmp_path: Path, case: Case):
    for seed, random_ in seeds(100):
        with within_limits((case.__name__, seed)):
            try:
                case(tmp_path / str(seed), seed, random_)
            except Exception as error:
                error.add_note(f"seed {seed} of {case.__name__}")
                raise
        subprocess.run(
            ["rm", "-rf", str(tmp_path / str(seed))], check=True
        )  # shutil cannot go so deep
