"""Hits in files with pages say the page, and their citations lead back to the text."""

from contextlib import closing
from email.message import EmailMessage

import pytest

from dagster_project.index.search.lookup import asking, reading
from dagster_project.index.search.opened_index import open_index
from tests.archives import Workspace
from tests.format_files import page_of, pdf
from transforms.retrieval.citations import citation
from transforms.retrieval.folding import COPY


@pytest.mark.parametrize(
    ("page", "expected"), [(None, "v:a.pdf bytes 1-2"), (3, "v:a.pdf page 3 bytes 1-2")]
)
def test_a_citation_names_the_page(page: int | None, expected: str):
    hit = {
        "doc_id": "v:a.pdf",
        "node_id": None,
        "attachment_id": None,
        "block_index": None,
        "page": page,
    }
    assert citation({**hit, "byte_start": 1, "byte_end": 2}) == expected


@pytest.mark.exhaustive
def test_a_hit_in_an_attached_pdf_says_its_page(workspace: Workspace):
    mail = EmailMessage()
    mail["From"], mail["Message-ID"], mail["Date"] = (
        "a@example.org",
        "<1@example.org>",
        "1 Jan 2024 00:00:00 +0000",
    )
    mail.set_content("See the attached file.\n")
    pages = [page_of(text) for text in ("Apples ripen in autumn.", "Bears sleep in winter.")]
    mail.add_attachment(pdf(pages), maintype="application", subtype="pdf", filename="seasons.pdf")
    folder = workspace.folder / "mails"
    folder.mkdir()
    (folder / "1.eml").write_bytes(mail.as_bytes())
    workspace.configure({"name": "m", "kind": "eml", "path": "mails/*.eml"}).build()
    with closing(open_index(workspace.settings)) as index:
        (hit, *_) = index.search(["when do bears sleep"]).hits.to_pylist()
        assert hit["filename"] == "seasons.pdf" and " page 2 bytes " in hit["citation"]
        assert "Bears sleep" in reading(asking(index.connection), hit["citation"]).text


@pytest.mark.exhaustive
def test_a_hit_in_a_pdf_of_a_tree_says_its_page(workspace: Workspace):
    texts = ["Apples ripen in autumn.", "Bears sleep in winter.", "Cranes return in spring."]
    folder = workspace.folder / "notes"
    folder.mkdir()
    (folder / "seasons.pdf").write_bytes(pdf([page_of(text) for text in texts]))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\n")
    workspace.configure({"name": "v", "kind": "tree", "path": "notes"}).build()
    with closing(open_index(workspace.settings)) as index:
        (hit, *_) = index.search(["when do bears sleep"]).hits.to_pylist()
        assert hit["page"] == 2 and " page 2 bytes " in hit["citation"]
        assert "Bears sleep" in reading(asking(index.connection), hit["citation"]).text
        assert index.connection.execute("SELECT place FROM quarantine").fetchall() == [
            ("broken.pdf",)
        ]


@pytest.mark.exhaustive
def test_a_page_stands_for_its_text_in_another_format(workspace: Workspace):
    folder = workspace.folder / "manual"
    folder.mkdir()
    words = (
        "Bears sleep in their caves from the first snow of November until the rivers thaw, "
        "and lose a third of their weight, which is why they look for berries in autumn."
    )
    (folder / "bears.html").write_text(
        f"<h1>Bears</h1><p>Bears sleep.</p><h2>Winter</h2><p>{words}</p>"
    )
    (folder / "bears.txt").write_text(f"Bears\n\nBears sleep.\n\nWinter\n\n{words}\n")
    (folder / "cranes.txt").write_text("Cranes return in spring, bears or no bears.\n")
    workspace.configure({"name": "v", "kind": "tree", "path": "manual"}).build()
    with closing(open_index(workspace.settings)) as index:
        result = index.search(["why do bears sleep in winter until the rivers thaw"])
        pages = [hit["doc_id"] for hit in result.hits.to_pylist()]
        assert pages[0] == "v:bears.html" and "v:bears.txt" not in pages
        folded = [part for hit in result.hits.to_pylist() for part in hit["folded"]]
        copies = {part["doc_id"] for part in folded if part["relation"] == COPY}
        assert copies == {"v:bears.txt"} and result.labels == ("PASS",)


@pytest.mark.exhaustive
def test_the_page_whose_opening_is_asked_for_stands_above_one_that_has_the_words(
    workspace: Workspace,
):
    folder = workspace.folder / "manual"
    folder.mkdir()
    detail = "The lock of the door is turned by its key, and the lock of a thread is released.\n"
    for name, opening in (("doors", "Doors of houses."), ("threads", "Locks between threads.")):
        (folder / f"{name}.md").write_text(f"# {name}\n\n{opening}\n\n## Details\n\n{detail * 9}")
    (folder / "knots.py.md").write_text("# Knots\n\nTie them.\n")
    workspace.configure({"name": "v", "kind": "tree", "path": "manual"}).build()
    with closing(open_index(workspace.settings)) as index:
        openings = index.openings[index.openings >= 0]
        texts = [row["text_display"] for row in index.arrays.rows.of(openings.tolist()).values()]
        assert len(texts) == 3 and all(text.startswith("# ") for text in texts)
        hits = index.search(["locks between threads"]).hits.to_pylist()
        assert hits[0]["doc_id"] == "v:threads.md"
        parts = [{part["part"]: part["value"] for part in hit["rerank_parts"]} for hit in hits]
        assert parts[0]["opens"] > 0
