"""Files as their sources hold them, and who wrote them: what is shown, what is to save, and what nobody is given."""

import io
import mailbox
from collections.abc import Iterator
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from starlette.testclient import TestClient

from dagster_project.extras.web.app import web_app
from dagster_project.extras.web.question import file_of
from tests.archives import Workspace
from transforms.settings.models import SafetySettings

BASE = "http://127.0.0.1:8320"
SCRIPT = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
NOTE = "# Kiln\n\n![[glow.png|300]] ![far](https://far.example/x.png) ![[../secret.png]] ![[drawn.svg]]\n"


def picture() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(data, format="png")
    return data.getvalue()


def mail(number: int, text: str, **files: bytes) -> bytes:
    """A mail by Ada that answers the one before; files by their names, `_` for the dot."""
    message = EmailMessage()
    message["From"], message["To"] = "Ada Lovelace <ada@example.org>", "Bob <bob@example.org>"
    message["Cc"] = "list@example.org"
    message["Date"] = f"Mon, {number + 1} Jan 2024 10:00:00 +0000"
    message["Subject"], message["Message-ID"] = "Kiln", f"<k{number}@example.org>"
    if number:
        message["In-Reply-To"] = f"<k{number - 1}@example.org>"
    message.set_content(text)
    for name, data in files.items():
        message.add_attachment(data, "application", "octet-stream", filename=name.replace("_", "."))
    return message.as_bytes()


@pytest.fixture(scope="module")
def files(once: object, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A list whose mails have files, and a vault with pictures in it, beside it and behind a link."""
    work = Workspace(tmp_path_factory.mktemp("files") / "work").configure(
        {"name": "dev", "kind": "eml", "path": "mail", "list_id": "dev"},
        {"name": "notes", "kind": "vault", "path": "notes", "exclude": ["private/"]},
    )
    work.write("0.eml", mail(0, "From here on\n", glow_png=picture(), drawn_svg=SCRIPT, odd_png=b"GIF? no"))
    work.write("1.eml", mail(1, "> From here on\nYes.\n"))
    work.put("notes/kiln/Kiln.md", NOTE)
    work.put("notes/art/Glaze.md", "# Glaze\n\nWhat the kiln does to a glaze.\n")
    for name in ("notes/art/Glow.png", "notes/private/p.png", "notes/.hidden/h.png", "secret.png"):
        work.put(name, "").write_bytes(picture())
    work.put("notes/art/drawn.svg", SCRIPT.decode())
    (work.folder / "notes" / "art" / "link.png").symlink_to("../../secret.png")
    return once(work)  # type: ignore[operator, no-any-return]


@pytest.fixture(scope="module")
def web(files: Workspace) -> Iterator[TestClient]:
    with TestClient(web_app(files.settings), base_url=BASE) as opened:
        yield opened


def test_a_picture_is_shown_and_what_may_run_something_is_to_save(web: TestClient, files: Workspace):
    ids = dict(files.sql("SELECT filename, attachment_id FROM attachments"))
    page = web.get("/m/k0@example.org").text
    shown = web.get(file_of("attachment", ids["glow.png"]))
    assert f'<img class="thumbnail" loading="lazy" src="{file_of("attachment", ids["glow.png"])}"' in page
    assert (shown.content, shown.headers["content-type"]) == (picture(), "image/png")
    assert shown.headers["content-disposition"].startswith("inline")
    for name in ("drawn.svg", "odd.png"):
        saved = web.get(file_of("attachment", ids[name]))
        assert saved.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
        assert saved.headers["content-type"] == "application/octet-stream"
        assert saved.headers["x-content-type-options"] == "nosniff"
    assert web.get(file_of("attachment", "nothing")).status_code == 404


def test_a_note_shows_its_own_pictures_alone(web: TestClient):
    page = web.get("/d/notes%3Akiln%2FKiln.md").text
    own = file_of("document", "notes:kiln/Kiln.md", "glow.png")
    assert f'src="{own}"' in page and 'src="http' not in page
    assert web.get(own).content == picture()
    assert web.get(file_of("document", "notes:kiln/Kiln.md")).text == NOTE
    for name in [
        "../secret.png", "../../secret.png", "p.png", "h.png", "link.png", "drawn.svg", "/etc/x.png", "a\x00.png",
    ]:  # fmt: skip
        assert web.get(file_of("document", "notes:kiln/Kiln.md", name)).status_code == 404, name


def test_a_thread_is_saved_as_mbox(web: TestClient, files: Workspace, tmp_path: Path):
    (thread,) = set(files.column("SELECT thread_id FROM threads"))
    assert f"/mbox/{thread}" in web.get(f"/t/{thread}").text
    (tmp_path / "t.mbox").write_bytes(web.get(f"/mbox/{thread}").content)
    assert b"\n>From here on\n" in (tmp_path / "t.mbox").read_bytes()
    with closing(mailbox.mbox(tmp_path / "t.mbox")) as box:
        assert [m["Message-ID"] for m in box] == ["<k0@example.org>", "<k1@example.org>"]


def test_a_mail_names_its_readers_and_is_answered_to_all(web: TestClient):
    page = web.get("/m/k1@example.org").text
    assert all(f'href="/p/{name}%40example.org"' in page for name in ("ada", "bob", "list"))
    address = urlsplit(page.partition('href="mailto:')[2].partition('"')[0].replace("&amp;", "&"))
    fields = parse_qs(address.query)
    assert address.path == "ada@example.org"
    assert fields["Cc"] == ["bob@example.org,list@example.org"] and fields["Subject"] == ["Re: Kiln"]
    assert fields["In-Reply-To"] == ["<k1@example.org>"] and "> Yes." in fields["body"][0]


def test_a_person_has_addresses_threads_and_files(web: TestClient):
    page = web.get("/p/ADA@example.org")
    assert page.status_code == 200
    assert "Ada Lovelace" in page.text and "2 of 2 mails" in page.text and "glow.png" in page.text
    assert web.get("/p/nobody@example.org").status_code == 404


def test_folders_are_facets_and_what_was_set_aside_has_a_page(web: TestClient):
    page = web.get("/", params={"q": "kiln", "kind": "document"}).text
    assert "Folder" in page and "kind=document&amp;path=art" in page
    assert "Glaze" in web.get("/", params={"q": "kiln", "path": "art"}).text
    aside = web.get("/quarantine").text
    assert "<h2>outside_root</h2>" in aside and "art/link.png" in aside
    assert 'href="/quarantine"' in web.get("/corpus").text


def test_nothing_of_a_file_is_shown_where_answers_are_masked(files: Workspace):
    masked = files.settings.model_copy(update={"safety": SafetySettings(outputs="mask")})
    (thread,), (first, *_) = (
        files.column("SELECT thread_id FROM threads"),
        files.column("SELECT attachment_id FROM attachments"),
    )
    own = file_of("document", "notes:kiln/Kiln.md")
    with TestClient(web_app(masked), base_url=BASE) as web:
        for address in (f"/mbox/{thread}", file_of("attachment", first), own, f"{own}?embeds=glow.png"):
            assert web.get(address).status_code == 403
        for page in ("/m/k0@example.org", "/d/notes%3Akiln%2FKiln.md", f"/a/{first}", f"/t/{thread}"):
            shown = web.get(page).text
            assert not [word for word in ("/mbox/", "/file/", "-file/", "mailto:") if word in shown]
