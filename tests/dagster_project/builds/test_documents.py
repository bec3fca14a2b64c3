"""Notes and documentation are built, published and found beside the mail."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.index.search.opened_index import open_index
from tests.archives import Mail, Workspace, differences, embedded, rebuilt
from tests.format_files import Text, pdf
from tests.library import CHAT, COMPACTION, DOCS, MAIL, NOTES, ODD, OPTIONS, SECTIONS

SEEN = "SELECT first_seen FROM quarantine WHERE source = 'dev'"


@pytest.fixture(scope="module")
def made_once(library: Workspace) -> Workspace:
    return library


def test_each_grain_makes_its_partitions(made_once: Workspace):
    partitions = {
        u.key: u.source_type for u in made_once.plan().partitions if u.source not in ("odd", "chat")
    }
    assert partitions == {
        "dev/2004-01": "mail",
        "dev/2004-05": "mail",
        "docs/guide": "documents",
        "docs/old": "documents",
        "docs/reference": "documents",
        "docs/top": "documents",
        "journal/all": "documents",
        "notes/all": "documents",
    }


def test_documents_nodes_and_chunks_are_published_beside_the_mail(made_once: Workspace):
    assert made_once.column("SELECT doc_id FROM documents ORDER BY 1") == [
        "docs:guide/index.md",
        "docs:manual.md",
        "docs:old/manual.md",
        "docs:reference/options.md",
        "journal:Monday.md",
        "notes:Compaction.md",
        "notes:Ideas/Snapshots.md",
    ]
    assert "notes:Ideas/Snapshots.md#dropping" in made_once.column("SELECT node_id FROM nodes")
    assert made_once.column("SELECT DISTINCT source_kind FROM chunks ORDER BY 1") == [
        "attachment",
        "conversation",
        "document",
        "message",
    ]
    assert made_once.column(
        "SELECT count(*) FROM chunks SEMI JOIN embeddings USING (chunk_id)"
    ) == (made_once.column("SELECT count(*) FROM chunks"))


def test_the_bytes_of_a_chunk_are_its_text(made_once: Workspace):
    rows = made_once.sql(
        "SELECT d.text, c.spans, c.text_display FROM chunks c JOIN documents d USING (doc_id) ORDER BY c.chunk_id"
    )
    assert rows
    for text, spans, display in rows:
        data = text.encode()
        assert all(data[s["byte_start"] : s["byte_end"]].decode().strip() in display for s in spans)


def test_every_chunk_names_its_node(made_once: Workspace):
    assert made_once.column(
        "SELECT count(*) FROM chunks WHERE source_kind = 'document' AND parent_id NOT IN (SELECT node_id FROM nodes)"
    ) == [0]


@pytest.mark.parametrize(
    ("words", "section"),
    [
        ("taking one costs nothing", "snapshots"),
        ("reader sees committed", "reading"),
        ("old versions go", "dropping"),
    ],
)
def test_a_hit_is_shown_under_the_section_with_the_words(
    made_once: Workspace, words: str, section: str
):
    with closing(open_index(made_once.settings)) as index:
        hit = index.search([words]).hits.to_pylist()[0]
    assert hit["node_id"] == f"notes:Ideas/Snapshots.md#{section}"
    assert f"#{section} bytes " in hit["citation"] and section.title() in hit["breadcrumb"]


def test_links_are_resolved_over_the_whole_lake_and_broken_ones_kept(made_once: Workspace):
    links = dict(made_once.sql("SELECT target, to_id FROM links WHERE kind <> 'url'"))
    assert links["Snapshots#Reading"] == "notes:Ideas/Snapshots.md#reading"
    assert links["Compaction.md#pauses"] is None  # relative to Ideas/, where there is no such file
    assert links["../reference/options.md"] == "docs:reference/options.md"
    assert "Nowhere" in links and links["Nowhere"] is None
    backlinks = made_once.column("SELECT target FROM backlinks")
    assert "Snapshots#Reading" in backlinks and "#reading" not in backlinks and links["#reading"]


def test_files_that_are_not_read_are_listed_with_the_reason(made_once: Workspace):
    assert made_once.sql("SELECT place, reason FROM quarantine WHERE source = 'notes'") == [
        (".obsidian", "hidden: the folder's name begins with a dot")
    ]


def test_a_second_build_does_nothing(made: Workspace):
    assert made.plan().is_empty
    assert made.build().as_json()["outcome"] == "UNCHANGED"


@pytest.mark.exhaustive
def test_an_edit_makes_one_partition_again_and_embeds_the_changed_section_alone(made: Workspace):
    made.put(
        "notes/Compaction.md", COMPACTION.replace("longer than a second", "longer than a blink")
    )
    with made.instance() as instance:
        result = made.build()
        event = instance.get_latest_materialization_event(dg.AssetKey("document_chunks"))
    assert list(result.plan.stale) == ["notes/all"]
    assert embedded(result) == 1
    assert event and event.asset_materialization
    facts = event.asset_materialization.metadata
    assert (facts["added"].value, facts["removed"].value) == (1, 1)
    assert facts["kept"].value > 1


@pytest.mark.exhaustive
def test_incremental_equals_full(made: Workspace, tmp_path: Path):
    """Notes are added and continued, mail comes; then a note, a partition and a source go."""
    made.put("docs/reference/options.md", OPTIONS + "\n## sync\n\nWrite through to the disk.\n")
    made.put("docs/howto/backup.md", "# Backup\n\nCopy a snapshot.")
    made.put("notes/Nowhere.md", "Now it is somewhere.")
    made.write(
        "dev.2004-02.mbox", [Mail(60, "The zqxjvkwb was our secret.", "About zqxjvkwb", reply_to=0)]
    )
    made.write("dev.2004-03.mbox", b"From nobody\n\nno header at all\n")
    result = made.build()
    assert result.published and result.published["built_on_previous"]
    assert differences(made.index, rebuilt(made, tmp_path / "anew").index) == {}
    words, since = ("zqxjvkwb", "neighbouring", "read it back"), made.sql(SEEN)
    assert all(made.files_with(word) for word in words) and "term_bytes.npy" in made.files_with(
        words[0]
    )
    for name in ("notes/Compaction.md", "mail/dev.2004-02.mbox"):
        (made.folder / name).unlink()
    shutil.rmtree(made.folder / "docs/guide")
    result = made.configure(MAIL, ODD, NOTES, DOCS, CHAT, **SECTIONS).build()
    assert result.plan.vanished == ("dev/2004-02", "docs/guide", "journal/all")
    assert result.published and not result.published["built_on_previous"]
    assert [made.files_with(word) for word in words] == [[], [], []]
    assert made.sql(SEEN) == since != []


@pytest.mark.exhaustive
def test_an_edit_of_a_large_vault_reads_one_part_and_any_growth_equals_full(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dagster_project.sources.trees._TEXTS_OF_PART", 20)
    workspace.configure({"name": "notes", "kind": "vault", "path": "notes"})
    for number in range(21):
        workspace.put(
            f"notes/{number}.md",
            f"# Note {number}\n\nAbout the number {number}, see [[{number + 1}]].\n",
        )
    (workspace.folder / "notes/paper.pdf").write_bytes(pdf([[Text("Primes are rare.")]]))
    first = workspace.build()
    assert sorted(first.plan.stale) == ["notes/files", "notes/part-000-of-2", "notes/part-001-of-2"]
    workspace.put("notes/7.md", "# Note 7\n\nChanged.\n")
    (workspace.folder / "notes/8.md").rename(workspace.folder / "notes/7.5.md")
    assert [p for p in workspace.build().plan.stale if p == "notes/files"] == []
    assert differences(workspace.index, rebuilt(workspace, tmp_path / "moved").index) == {}
    for number in range(15, 21):
        (workspace.folder / f"notes/{number}.md").unlink()
    assert workspace.files_with("primes")
    (workspace.folder / "notes/paper.pdf").unlink()
    result = workspace.build()
    assert result.plan.vanished == ("notes/files", "notes/part-000-of-2", "notes/part-001-of-2")
    assert list(result.plan.stale) == ["notes/all"]
    assert workspace.column("SELECT count(*) FROM documents") == [15] and not workspace.files_with(
        "primes"
    )


def test_one_search_finds_mail_and_notes_and_cites_both(made_once: Workspace):
    found = made_once.weft("search", "--json", "compactor pauses merge of runs")
    assert found.exit_code == 0, found.output
    hits = json.loads(found.output)["queries"][0]["hits"]
    assert {"message", "document"} <= {h["source_kind"] for h in hits}
    best = next(h for h in hits if h["source_kind"] == "document")
    assert best["node_id"] == "notes:Compaction.md#pauses"
    text = (made_once.folder / "notes/Compaction.md").read_bytes()
    assert b"A pause longer than a second" in text[best["byte_start"] : best["byte_end"]]
    shown = made_once.weft("search", "--kind", "document", "merge of runs")
    assert "⟨notes:Compaction.md#pauses bytes " in shown.output
    assert "Compaction\n     Pauses · notes\n" in shown.output


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        (["--kind", "document"], {"document"}),
        (["--kind", "message"], {"message"}),
        (["--source", "docs"], {"document"}),
        (["--list", "dev"], {"message"}),
        (["--since", "2004", "--until", "2004"], {"message"}),
    ],
)
def test_filters_choose_between_mail_and_documents(
    made_once: Workspace, options: list[str], kinds: set[str]
):
    found = made_once.weft("search", "--json", *options, "compactor cache store")
    assert {h["source_kind"] for h in json.loads(found.output)["queries"][0]["hits"]} == kinds


@pytest.mark.exhaustive
def test_documents_alone_have_chunkers_per_source_and_keep_their_vectors_when_renamed(
    tmp_path: Path,
):
    chunkers = ("tree", "sections", "semantic")
    work = Workspace(tmp_path / "work").configure(
        *({"name": c, "kind": "vault", "path": c, "chunker": c} for c in chunkers)
    )
    notes = (
        "A note without any heading.",
        "## Only\n\na second level\n",
        "# Titled\n\nnote\n",
        COMPACTION,
    )
    for chunker in chunkers:
        for number, text in enumerate(notes):
            work.put(f"{chunker}/before-{number}.md", text)
    assert work.build().published
    used = work.sql("SELECT DISTINCT source, chunker FROM chunks")
    assert sorted((source, chunker.split("-")[0]) for source, chunker in used) == sorted(
        (c, c) for c in chunkers
    )
    (work.folder / "sections/moved").mkdir()
    for number in range(len(notes)):
        place = work.folder / "sections" / f"before-{number}.md"
        place.rename(place.parent / ("moved" if number == 3 else ".") / f"after-{number}.md")
    result = work.build()
    assert list(result.plan.stale) == ["sections/all"]
    assert embedded(result) == 0
    found = work.column("SELECT DISTINCT doc_id FROM chunks WHERE source = 'sections' ORDER BY 1")
    assert found == [*(f"sections:after-{n}.md" for n in range(3)), "sections:moved/after-3.md"]


def test_texts_of_signs_alone_keep_no_other_text_from_being_published(tmp_path: Path):
    work = Workspace(tmp_path).configure(MAIL, NOTES, CHAT)
    signs = "?!\u2026 " * 3_000
    work.put("notes/\u203d.md", f"# {'?' * 5_000}\n\n{signs}\n\n## \u203d\n\n{signs}")
    work.put("notes/Mill.md", "# Mill\n\nThe quernstone turns.")
    work.write("dev.2004-01.mbox", [Mail(1, signs, "???"), Mail(2, "The weathercock turns.")])
    work.put(
        "chat/WhatsApp Chat with Bob.txt",
        f"12/31/23, 10:00 - Bob: {signs}\n12/31/23, 10:01 - Ann: Well.\n",
    )
    work.build()
    for word in ("quernstone", "weathercock"):
        assert word in work.weft("search", "--json", word).output
    assert work.column("SELECT count(*) FROM documents") == [2]
    assert work.plan().is_empty
