"""Citations followed to their sources: what was changed by one byte is named, and nothing of it is
called whole.
"""

import json
import re
import shutil
import subprocess
from base64 import b64encode
from contextlib import closing
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from dagster_project.cli.main import COMMANDS
from dagster_project.context.context_index import passages
from dagster_project.extras.proof.signatures import Keys, signature_links
from dagster_project.index.publish.lens import lens_file
from dagster_project.index.search.opened_index import open_index
from tests.archives import Mail, Once, Workspace
from tests.broken_files import Epoch
from transforms.context.passages import render_block
from transforms.errors import CheckFailedError

dkim = pytest.importorskip("dkim", reason="weft[proof] is not installed")

NOTE = "# Kiln\n\nThe kiln is fired on Mondays, by whoever has the key.\n"
SAID = (
    ("Ada", "is the kiln free on Monday evening?"),
    ("Bob", "ok"),
    ("Cem", "yes, but Dora has the key"),
)
CASES = {
    "m1@": ("first", "mail/dev/dev.mbox", "unchanged since read", "dev.mbox, byte 0"),
    "m3@": ("text", "mail/box/new/1.host", "unchanged since read", "new/1.host"),
    "m4@": ("mail", "", "proved", "0.git holds m as blob"),
    "notes:": ("key", "notes/Kiln.md", "proved", "notes/.git holds Kiln.md as blob"),
    "chat:": ("key", "chat/kiln.txt", "unchanged since read", "kiln.txt (SHA-256 "),
}
"""By the begin of a document's id: a word that stands in no other, its file, the state and the text
of its place.
"""


@pytest.fixture(scope="module")
def made_once(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """An archive, a Maildir and a public inbox, notes in a git work tree, and a chat."""
    work = Workspace(tmp_path_factory.mktemp("proof") / "work").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "box", "kind": "maildir", "path": "mail/box"},
        {"name": "lore", "kind": "public_inbox", "path": "mail/inbox"},
        {"name": "notes", "kind": "vault", "path": "notes"},
        {"name": "chat", "kind": "conversation", "path": "chat"},
        **{"lenses.mail": {"where": "source:dev OR source:box"}},
    )
    first = Mail(1, "The first text of the archive.", "A text of the archive")
    work.write("dev/dev.mbox", [first, Mail(2, "The second text.")])
    work.write(
        "box/new/1.host", Mail(3, "The text is of ann@example.org, in a folder.").text().encode()
    )
    Epoch(work.folder / "mail/inbox/git/0.git").add(4)
    Epoch(work.put("notes/Kiln.md", NOTE).parent / ".git").commit({"Kiln.md": NOTE.encode()})
    lines = [f"27.03.25, 18:0{n} - {name}: {text}\n" for n, (name, text) in enumerate(SAID)]
    work.put("chat/kiln.txt", "".join(lines))
    return once(work)


def block(work: Workspace, begin: str) -> str:
    """A block of context of what a document holds, a chat by its turns, masked as for assistants."""
    where = f"starts_with(doc_id, '{begin}') AND (chunk_kind = 'turn' OR doc_id NOT LIKE 'chat:%')"
    with closing(open_index(work.settings, for_assistant=True)) as index:
        ids = work.column(f"SELECT chunk_id FROM chunks WHERE {where}")
        found = index.screen.passages(passages(index, ids)).values()
    return render_block(sorted(found, key=lambda passage: passage.start))


def verified(work: Workspace, what: str, *options: str) -> dict[str, tuple[str, str]]:
    """State and detail of each link of the one citation in a text, and that the exit code says the
    same.
    """
    run = work.weft("verify", what, "--json", *options)
    answer = json.loads(run.stdout)
    ((_, links),) = (chain.values() for chain in answer["citations"])
    found = {link["name"]: (link["state"], link["detail"]) for link in links}
    is_broken = any(state in ("differs", "source gone") for state, _ in found.values())
    expected = (7, "NOT_VERIFIED") if is_broken else (0, "VERIFIED")
    assert (run.exit_code, answer["outcome"]) == expected
    return found


@pytest.mark.parametrize("begin", CASES)
def test_what_is_whole_is_called_so_and_no_other_quote(made_once: Workspace, begin: str):
    text, (word, _, place, where) = block(made_once, begin), CASES[begin]
    found = verified(made_once, text)
    states = [found[name][0] for name in ("quote", "source", "place")]
    assert states == ["proved", "unchanged since read", place] and where in found["place"][1]
    assert verified(made_once, text.replace(word, f"x{word[1:]}"))["quote"][0] == "differs"
    citation = text.partition("⟨")[2].partition("⟩")[0]
    place, _, end = citation.rpartition("-")
    for moved in (f"{place}-{int(end) - 1}", f"{place.rpartition(' ')[0]} 1-{end}"):
        link = verified(made_once, moved)["quote"]
        assert link[0] == "differs" and "no passage" in link[1]


@pytest.mark.parametrize("begin", [begin for begin, (_, file, *_) in CASES.items() if file])
def test_a_source_that_changed_or_went_is_named(made: Workspace, begin: str):
    text, file, word = block(made, begin), made.folder / CASES[begin][1], CASES[begin][0].encode()
    before, _, after = file.read_bytes().rpartition(word)
    for changed in (b"x" + word[1:], b"x" + word):
        file.write_bytes(before + changed + after)
        found = verified(made, text)
        assert (found["quote"][0], found["source"][0]) == ("proved", "differs")
    file.unlink()
    found = verified(made, text)
    assert (found["quote"][0], found["source"][0], len(found)) == ("proved", "source gone", 2)


def test_of_git_the_history_counts(made: Workspace):
    repository = made.folder / "notes" / ".git"
    shutil.rmtree(repository)
    Epoch(repository).commit({"Kiln.md": b"# Another\n"})
    assert verified(made, "notes:Kiln.md")["place"][0] == "differs"
    shutil.rmtree(repository)
    Epoch(repository).commit({"Other.md": b"# Another\n"})
    assert verified(made, "notes:Kiln.md")["place"][0] == "not known"
    inbox, other = made.folder / "mail/inbox/git/0.git", Epoch(made.folder / "other.git")
    other.add(5)
    shutil.copytree(other.folder, inbox, dirs_exist_ok=True)
    found = verified(made, "m4@example.org")
    assert (found["source"][0], found["place"][0]) == ("unchanged since read", "not known")
    shutil.rmtree(inbox)
    other.folder.rename(inbox)
    assert verified(made, "m4@example.org")["source"][0] == "source gone"


def test_citations_of_an_answer_are_told_apart(made_once: Workspace):
    citation = block(made_once, "m1@").partition("⟨")[2].partition("⟩")[0]
    address = "http://127.0.0.1:8320/m/m1%40example.org?bytes=0-30#cited"
    answer = f"It is “the archive” (⟨{citation}⟩), not “a folder” ({address}). \\⟨m1⟩\n\n⟨m9@example.org bytes 0-3⟩"
    run = made_once.weft("verify", "-", input=answer)
    states = [line.split()[1] for line in run.stdout.splitlines() if "  quote" in line]
    assert (run.exit_code, states) == (7, ["proved:", "differs:", "differs:"])
    assert max(map(len, run.stdout.splitlines())) <= 80


def test_a_text_that_names_nothing_is_not_a_citation(made_once: Workspace):
    run = made_once.weft("verify", "nonsense")
    assert run.exit_code == 3 and "holds nothing called 'nonsense'" in run.stderr
    assert "differs" not in run.output


def test_a_lens_shows_neither_places_nor_other_texts(made_once: Workspace):
    found = verified(made_once, block(made_once, "m3@"), "--lens", "mail")
    assert {name: state for name, (state, _) in found.items()} == {
        "quote": "proved",
        "source": "not known",
    }
    hidden = made_once.weft("verify", "notes:Kiln.md", "--lens", "mail")
    assert hidden.exit_code == 3 and "holds nothing called 'notes:Kiln.md'" in hidden.stderr


@pytest.mark.parametrize("changed", ["notes/Kiln.md", "mail/dev/dev.mbox"])
def test_only_what_a_lens_shows_changes_answers(
    made_once: Workspace, made: Workspace, changed: str
):
    file = made.folder / changed
    queries = made.put("a.yaml", "queries: [{id: a, query: text, relevant: [{thread: m1}]}]")
    file.write_text(file.read_text().replace("text", "texts, a text") + NOTE)
    made.build()
    ask = partial(made_once.weft, "eval", "lens", "mail", str(made.config), "--json")
    drafted, given = ask(), ask("--queries", str(queries))
    expected = (0, []) if "notes" in changed else (7, ["list_sources", "text"])
    assert (given.exit_code, json.loads(given.stdout)["differing"]) == expected
    assert drafted.exit_code == expected[0] and json.loads(drafted.stdout)["asked"] > 1


def test_a_publish_is_refused_if_hidden_texts_change_an_answer(
    made: Workspace, monkeypatch: pytest.MonkeyPatch
):
    made.config.write_text(f"{made.config.read_text()}[evaluation]\npublish_check = true\n")
    made.put("notes/Other.md", NOTE)
    assert made.build().published
    before, count = (made.index / "CURRENT").resolve(), lens_file.count_words
    leak = "UPDATE terms SET df = df + (SELECT count(*) FROM src.documents)"
    monkeypatch.setattr(
        lens_file, "count_words", lambda file, *of: (count(file, *of), file.execute(leak))
    )
    made.put("notes/Third.md", NOTE)
    with pytest.raises(
        CheckFailedError, match="[1-9] of [0-9]+ answers under the lens mail change with"
    ):
        made.build()
    assert (made.index / "CURRENT").resolve() == before
    (made.folder / CASES["m3@"][1]).write_text(Mail(3, "Another text that is shown.").text())
    assert made.build().published, "of other texts there are other answers"


@cache
def private_key() -> tuple[bytes, str]:
    """A private key, and the lines of a file with its public one, of two domains."""
    pair = rsa.generate_private_key(65537, 1024)
    public = pair.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    record = b64encode(public).decode()
    line = f's1._domainkey.%s. IN TXT "v=DKIM1; k=rsa; " "p={record}"\n'
    lines = f"{line % 'example.org'}{line % 'relay.example'}s0._domainkey.example.org v=DKIM1; p=\n"
    return pair.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()), lines


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file of keys."""
    (tmp_path / "keys").write_text(private_key()[1])
    return tmp_path / "keys"


def signed(number: int, domain: bytes = b"example.org") -> bytes:
    """A mail of ada@example.org that a domain signed."""
    mail = Mail(number, f"The text of mail {number}.", f"Subject of {number}").text().encode()
    return dkim.sign(mail, b"s1", domain, private_key()[0]) + mail


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.exhaustive)])
def test_what_the_sender_signed_is_proved_and_no_other_byte(keys: Path, count: int):
    for number in range(count):
        mail = signed(number)
        at = mail.index((b"From: ada", b"Subject: Subj", b"The text", b"Date: ")[number % 4]) + 6
        changed = mail[:at] + b"y" + mail[at + 1 :]
        links = [
            *signature_links(mail, Keys(keys.parent, keys)),
            *signature_links(changed, Keys(keys.parent, keys)),
        ]
        assert [link.state for link in links] == ["proved", "differs"], links


@pytest.mark.parametrize(
    ("old", "new", "state", "why"),
    [
        (b"s=s1", b"s=s2", "not known", "the key s2._domainkey.example.org is needed"),
        (b"\nSubject", b"\nSubject: No\nSubject", "not known", "second subject"),
        (b"DKIM-Signature", b"X-Signature", "not known", "no sender signed it"),
        (b"text of mail", b"text of no mail", "differs", "body hash mismatch"),
        (
            b"s=s1",
            b"x=9; s=s1",
            "not known",
            "the signature of example.org cannot be judged: x= value is past",
        ),
        (b"s=s1", b"s=s0", "not known", "no key of it can be read"),
        (
            b"",
            b"",
            "not known",
            "the signature of relay.example is valid, and the author is of example.org",
        ),
    ],
)
def test_what_a_signature_does_not_prove(keys: Path, old: bytes, new: bytes, state: str, why: str):
    mail = signed(1).replace(old, new) if old else signed(1, b"relay.example")
    (link,) = signature_links(mail, Keys(keys.parent, keys))
    assert link.state == state and why in link.detail


def test_the_command_asks_keys_of_a_file_and_records_those_of_dns(
    made: Workspace, keys: Path, monkeypatch: pytest.MonkeyPatch
):
    (made.folder / CASES["m3@"][1]).write_bytes(signed(3))
    assert verified(made, "m3@example.org", "--keys", str(keys))["dkim"][0] == "proved"
    with monkeypatch.context() as patch:
        patch.setattr(
            dkim, "get_txt", lambda name: re.findall(rb"p=[\w+/=]+", keys.read_bytes())[0]
        )
        assert verified(made, "m3@example.org", "--dns")["dkim"][0] == "proved"
    assert verified(made, "m3@example.org")["dkim"][0] == "proved"
    if "backup" in COMMANDS:
        made.weft("backup", str(made.folder / "kept"))
        (snapshot,) = (made.folder / "kept" / "snapshots").iterdir()
        assert "root/dkim/keys" in snapshot.read_text()
    keys.write_text("no key\n\nalone")
    refused = made.weft("verify", "m3@example.org", "--keys", str(keys))
    assert refused.exit_code == 2 and "'alone' is not a key" in refused.stderr


def test_a_key_that_dns_gave_proves_without_dns(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, name = tmp_path / "dkim" / "keys", "s1._domainkey.example.org"
    right, other = (
        re.findall(r"p=[\w+/=]+", lines)[0]
        for _, lines in (private_key(), private_key.__wrapped__())
    )

    def found(record: str = "") -> dict[str, list[str]]:
        monkeypatch.setattr(dkim, "get_txt", {f"{name}.".encode(): record.encode()}.get)
        return {
            link.name: link[1:]
            for link in signature_links(signed(1), Keys(tmp_path, None, bool(record)))
        }

    assert "is needed" in found()["dkim"][1] and found(other)["dkim"][0] == "differs"
    day = f"recorded {datetime.now(UTC):%Y-%m-%d}"
    for record, origin in ((right, "of DNS"), (right, "of DNS"), (other, day), ("", day)):
        state, detail = found(record)["dkim"]
        assert state == "proved" and detail.endswith(f"; key of {name}, {origin}")
    assert len(file.read_text().splitlines()) == 2 and file.parent.stat().st_mode & 0o077 == 0
    assert next(signature_links(signed(1), Keys(tmp_path / "new", file))).state == "proved"
    file.write_text(file.read_text().replace(right, right[:-1]))
    broken = found()
    assert broken["dkim"][0] == "differs" and "line 2 of" in broken["keys"][1]
    shutil.rmtree(file.parent)
    file.parent.write_text("in the way")
    unwritten = found(right)
    assert unwritten["dkim"][0] == "proved" and "was not recorded" in unwritten["keys"][1]
    monkeypatch.undo()
    _, fault = signature_links(
        signed(1).replace(b"s=s1", b"s=" + b"s" * 70), Keys(tmp_path, None, True)
    )
    assert "DNS gave no key" in fault.detail


@pytest.mark.exhaustive
def test_seals_of_relays_and_openpgp(keys: Path, monkeypatch: pytest.MonkeyPatch):
    mail = b"Authentication-Results: relay.example; dkim=pass; arc=none\n" + signed(1)
    mail = (
        b"".join(dkim.arc_sign(mail, b"s1", b"relay.example", private_key()[0], b"relay.example"))
        + mail
    )
    assert (
        "relay.example recorded dkim=pass" in next(signature_links(mail, Keys(keys.parent))).detail
    )
    with TemporaryDirectory(dir="/tmp") as home:  # names of sockets are short
        monkeypatch.setenv("GNUPGHOME", home)
        gpg = partial(subprocess.run, check=True, stdout=subprocess.PIPE)
        who, part = "Ada <ada@example.org>", b"Content-Type: text/plain\r\n\r\nThe text.\r\n"
        gpg(
            [
                "gpg",
                "--batch",
                "--passphrase",
                "",
                "--quick-gen-key",
                who,
                "ed25519",
                "sign",
                "never",
            ]
        )
        made = gpg(["gpg", "--batch", "--armor", "--detach-sign"], input=part).stdout
        head = b'From: ada@example.org\nContent-Type: multipart/signed; boundary="b"\n\n--b\n'
        rest = b"\n--b\nContent-Type: text/plain\n\n" + made + b"\n--b--\n"
        openpgp = head + part.replace(b"\r\n", b"\n") + rest
        for whole, old, new in ((mail, b"s=s1", b"s=s9"), (openpgp, b"ada@", b"bob@")):
            changes = (whole, whole.replace(b"The text", b"The taxt"), whole.replace(old, new))
            states = [
                list(signature_links(change, Keys(keys.parent, keys)))[1].state
                for change in changes
            ]
            assert states == ["proved", "differs", "not known"]
        gpg(["gpgconf", "--kill", "all"])
