"""Pictures of notes, mails and chats are embedded by what they show, found, shown and cited."""

import json
from email.message import EmailMessage
from pathlib import Path

import pytest

from dagster_project.composition.objects import make_embedding_cache
from tests.archives import Workspace, differences, rebuilt
from tests.format_files import picture
from tests.gemini_loopback import Loopback
from tests.pages import pages
from transforms.errors import SettingsError
from transforms.hashing import text_hash
from transforms.text.visible import Picture, picture_text

NOTES = {"name": "notes", "kind": "vault", "path": "notes"}
MAIL = {"name": "dev", "kind": "mbox", "path": "mail/*"}
CHAT = {"name": "chat", "kind": "conversation", "path": "chats"}
GEMINI = {"model": "gemini", "dimensions": 768}
SEEN, LOGO, BOAT = map(picture, ("a queue", "a logo", "a boat"))
SAID = "27.03.25, 18:03 - Maud Fenwick: "


def mail(number: int, **pictures: bytes) -> bytes:
    """A mail of an mbox file with attached pictures."""
    message = EmailMessage()
    message["From"], message["Message-ID"] = "ada@example.org", f"<m{number}@example.org>"
    message["Subject"], message["Date"] = f"Weir {number}", f"{number} Jan 2024 00:00:00 +0000"
    message.set_content(f"The weir is open on day {number}.\n")
    for name, data in pictures.items():
        message.add_attachment(data, maintype="image", subtype="png", filename=f"{name}.png")
    return b"From ada@example.org Mon Jan  5 10:00:00 2004\n" + message.as_bytes() + b"\n"


def test_pictures_need_a_model_that_sees(tmp_path: Path):
    for embedding in ({}, {"embedding": GEMINI | {"name": "gemini-embedding-001"}}):
        work = Workspace(tmp_path).configure(NOTES, documents={"pictures": True}, **embedding)
        with pytest.raises(SettingsError, match=r"documents\.pictures needs a model that sees"):
            _ = work.settings


@pytest.mark.exhaustive
def test_a_picture_has_one_vector_wherever_it_is_and_is_found_shown_cited_and_forgotten(
    tmp_path: Path, gemini: Loopback
):
    options = {"embedding": GEMINI, "lenses": {"chats": "source:chat"}}
    work = Workspace(tmp_path).configure(NOTES, MAIL, CHAT, documents={"pictures": True}, **options)
    work.put("notes/Queue.md", "# Queue\n\nHow the queue fills: ![[img/turnstile.png]]\n")
    place = work.put("notes/img/turnstile.png", "")
    place.write_bytes(SEEN)
    work.write("a.mbox", mail(1, sluice=LOGO, turnstile=SEEN))
    work.put("chats/WhatsApp.txt", f"{SAID}Fenwick.png (file attached)\n{SAID}see the weir\n")
    work.put("chats/Fenwick.png", "").write_bytes(BOAT)
    work.build()
    shown = dict(work.sql("SELECT title, attachment_id FROM chunks WHERE chunk_kind = 'picture'"))
    in_mail = {"Weir 1 · sluice.png", "Weir 1 · turnstile.png"}
    assert {*shown} == {"turnstile", *in_mail, "WhatsApp · picture.png"}
    assert [count for text, count in gemini.paid.items() if text.startswith("data:")] == [1, 1, 1]
    assert work.files_with("fenwick") == []

    asked = len(gemini.requests)
    place.write_bytes(picture("another queue"))
    assert work.build().embedding["embedded"] == 1
    work.write("b.mbox", mail(2, sluice=LOGO))
    place.write_bytes(SEEN)
    assert work.build().embedding["embedded"] == 1, "the text of the mail"
    assert work.build().embedding == {} and len(gemini.requests) == asked + 2
    assert differences(work.index, rebuilt(work, tmp_path / "again").index) == {}

    def kinds(query: str) -> dict[str, str]:
        hits = json.loads(work.weft("search", query, "--json").output)["queries"][0]["hits"]
        return {hit["citation"]: hit["chunk_kind"] for hit in hits}

    assert kinds("turnstile")["notes:img/turnstile.png bytes 0-31"] == "picture"
    cited = f"m1@example.org attachment {shown['Weir 1 · turnstile.png'][:12]} bytes 0-31"
    assert kinds("turnstile kind:attachment")[cited] == "picture"
    of_chats, web = pages(work.settings, lens="chats"), pages(work.settings)
    page = web.get("/d/notes%3Aimg%2Fturnstile.png").text
    assert 'class="picture"' in page and "Queue" in page.partition("Linked from")[2]
    assert 'src="/picture/notes%3Aimg%2Fturnstile.png"' in web.get("/?q=turnstile").text
    sluice = f"/picture/{shown['Weir 1 · sluice.png']}"
    assert f'src="{sluice}"' in web.get("/?q=sluice&kind=attachment").text
    assert f'src="{sluice}"' in web.get(f"/a/{shown['Weir 1 · sluice.png']}").text
    image = web.get(sluice)
    assert (image.headers["content-type"], image.content) == ("image/png", LOGO)
    assert (
        of_chats.get(sluice).status_code == web.get("/picture/notes%3AQueue.md").status_code == 404
    )
    assert of_chats.get(f"/picture/{shown['WhatsApp · picture.png']}").content == BOAT

    vectors, key = (
        make_embedding_cache(work.settings),
        (work.settings.embedding.model_id, 768, "document"),
    )
    assert work.weft("forget", "chat", "--yes").exit_code == 0
    hashes = [text_hash(picture_text(Picture("image/png", data))) for data in (SEEN, LOGO, BOAT)]
    assert vectors.missing(key, hashes) == {hashes[2]}
