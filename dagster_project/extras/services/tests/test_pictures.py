"""Pictures of a vault are embedded by what they show, found, shown and cited."""

from contextlib import closing
from pathlib import Path

import pytest

from dagster_project.index.search.opened_index import open_index
from tests.archives import Workspace, differences, rebuilt
from tests.format_files import picture
from tests.gemini_loopback import KEY, loopback
from tests.pages import pages
from transforms.errors import SettingsError

NOTES = {"name": "notes", "kind": "vault", "path": "notes"}
GEMINI = {"model": "gemini", "dimensions": 768}


def test_pictures_need_a_model_that_sees(tmp_path: Path):
    for embedding in ({}, {"embedding": GEMINI | {"name": "gemini-embedding-001"}}):
        work = Workspace(tmp_path).configure(NOTES, documents={"pictures": True}, **embedding)
        with pytest.raises(SettingsError, match=r"documents\.pictures needs a model that sees"):
            _ = work.settings


@pytest.mark.exhaustive
def test_a_picture_of_a_note_has_one_vector_and_is_found_shown_and_cited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    seen = picture("a queue")
    with loopback() as gemini:
        work = Workspace(tmp_path)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        work.configure(NOTES, documents={"pictures": True}, embedding=GEMINI)
        work.put("notes/Queue.md", "# Queue\n\nHow the queue fills: ![[img/turnstile.png]]\n")
        place = work.put("notes/img/turnstile.png", "")
        place.write_bytes(seen)
        assert work.build().embedding["embedded"] == 2
        (chunk,) = work.sql("SELECT chunk_kind, doc_id, title FROM chunks WHERE doc_id LIKE '%.png'")
        assert chunk == ("picture", "notes:img/turnstile.png", "turnstile")
        assert work.sql("SELECT count(*) FROM embeddings") == [(2,)]
        asked = len(gemini.requests)
        place.write_bytes(picture("another queue"))
        assert work.build().embedding["embedded"] == 1
        place.write_bytes(seen)
        assert work.build().embedding["embedded"] == 0 and len(gemini.requests) == asked + 1
        with closing(open_index(work.settings)) as index:
            hits = index.search(["turnstile"]).hits.to_pylist()
        assert {hit["citation"]: hit["chunk_kind"] for hit in hits} == {
            "notes:img/turnstile.png bytes 0-31": "picture",
            "notes:Queue.md#queue bytes 0-53": "section",
        }
        web = pages(work.settings)
        assert 'src="/picture/notes%3Aimg%2Fturnstile.png"' in web.get("/?q=turnstile").text
        page = web.get("/d/notes%3Aimg%2Fturnstile.png").text
        assert 'class="picture"' in page and "Queue" in page.partition("Linked from")[2]
        shown = web.get("/picture/notes%3Aimg%2Fturnstile.png")
        assert (shown.headers["content-type"], shown.content) == ("image/png", seen)
        assert web.get("/picture/notes%3AQueue.md").status_code == 404
        assert differences(work.index, rebuilt(work, tmp_path / "again").index) == {}
