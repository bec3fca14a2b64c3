"""Exports of issue trackers: what becomes of each form, of comments, and of what is broken."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.documents.files import RawFile, read_documents
from transforms.documents.issues import issue_files, looks_like_issues
from transforms.documents.nodes import document_nodes
from transforms.settings.documents import DocumentSettings

GITHUB: dict[str, Any] = {
    "url": "https://api.github.com/repos/o/r/issues/12",
    "html_url": "https://github.com/o/r/issues/12",
    "number": 12,
    "title": "Crash on start",
    "body": "It crashes.\r\n\r\n## Steps\r\nStart it.",
    "user": {"login": "ann"},
    "state": "open",
    "comments": 1,
    "labels": [{"name": "bug"}],
    "created_at": "2025-01-02T10:00:00Z",
    "updated_at": "2025-01-03T10:00:00Z",
}
COMMENT = {
    "id": 5,
    "issue_url": "https://api.github.com/repos/o/r/issues/12",
    "body": "Me too.",
    "user": {"login": "bob"},
    "created_at": "2025-01-02T11:00:00Z",
}
GH = {
    "author": {"login": "ann"},
    "body": "It crashes.",
    "comments": [
        {"author": {"login": "bob"}, "body": "Me too.", "createdAt": "2025-01-02T11:00:00Z"}
    ],
    "createdAt": "2025-01-02T10:00:00Z",
    "labels": [{"name": "bug"}],
    "number": 12,
    "state": "OPEN",
    "title": "Crash on start",
    "url": "https://github.com/o/r/issues/12",
}
GITLAB = {
    "id": 901,
    "iid": 12,
    "project_id": 8,
    "title": "Crash on start",
    "description": "It crashes.",
    "state": "opened",
    "author": {"username": "ann"},
    "labels": ["bug"],
    "created_at": "2025-01-02T10:00:00Z",
    "web_url": "https://gitlab.example/o/r/-/issues/12",
}
NOTE = {
    "id": 7,
    "noteable_iid": 12,
    "project_id": 8,
    "body": "Me too.",
    "author": {"username": "bob"},
    "system": False,
    "created_at": "2025-01-02T11:00:00Z",
}
SYSTEM = NOTE | {"system": True, "body": "changed the description"}


def read(**files: Any) -> list[RawFile]:
    """The files that exports become; a name ends with its format behind a `_`."""
    raw = [
        RawFile(
            name.replace("_", "."), data if isinstance(data, bytes) else json.dumps(data).encode()
        )
        for name, data in files.items()
    ]
    return list(issue_files(raw))


def pages(*lists: Any) -> bytes:
    """Pages one behind the other, as `gh api --paginate` writes them."""
    return b"\n".join(json.dumps(page).encode() for page in lists)


EXPORTS = {
    "GitHub, comments apart": {"issues_json": [GITHUB], "comments_json": [COMMENT]},
    "GitHub, pages in one file": {"all_json": pages([GITHUB], [COMMENT], [])},
    "GitHub, pages in a list": {"all_json": [[GITHUB], [COMMENT]]},
    "GitHub, a search": {
        "found_json": {"total_count": 1, "items": [GITHUB]},
        "comments_json": [COMMENT],
    },
    "gh issue list --json": {"gh_json": [GH]},
    "JSON lines": {"gh_jsonl": pages(GH)},
    "GitLab, notes apart": {"issues_json": [GITLAB], "notes_json": [SYSTEM, NOTE]},
    "GitLab, notes inside": {"issues_json": [GITLAB | {"notes": [NOTE, SYSTEM]}]},
    "GitLab, discussions": {"issues_json": [GITLAB | {"discussions": [{"notes": [NOTE]}]}]},
}


@pytest.mark.parametrize("files", EXPORTS.values(), ids=EXPORTS)
def test_each_form_gives_the_same_issue_with_its_comment_as_a_turn(files: dict[str, Any]):
    (file,) = read(**files)
    assert (file.path, file.fault) == ("o/r/12.md", None)
    tables = read_documents([file], source="s", partition="s/all", settings=DocumentSettings())
    (row,) = tables.documents.to_pylist()
    facts = json.loads(row["frontmatter"])
    assert (row["title"], row["tags"], row["doc_type"]) == ("Crash on start", ["bug"], "issue")
    assert (facts["number"], facts["state"], facts["author"]) == ("12", "open", "ann")
    assert f"{row['created_at']:%Y-%m-%d %H:%M}" == "2025-01-02 10:00"
    titles = [n["title"] for n in document_nodes(tables.documents).to_pylist() if n["depth"] < 3]
    assert titles[-2:] == ["Crash on start", "Comment by bob, 2025-01-02 11:00"]
    assert "It crashes." in row["text"] and row["text"].endswith("\n\nMe too.\n")


BROKEN = {
    "no title": ([{"number": 13}], "no_title"),
    "no number": ([{"title": "x"}], "no_number"),
    "a number that is none": ([{"title": "x", "number": "many"}], "no_number"),
    "no object": ([5], "no_issue"),
    "no text": ([GITHUB | {"body": {"a": 1}}], "no_text"),
    "a comment alone": ([COMMENT], "no_issue"),
    "a comment on an issue of thousands of digits": (
        [COMMENT | {"issue_url": f"https://api.github.com/repos/o/r/issues/{'9' * 5000}"}],
        "no_issue",
    ),
    "a number of thousands of digits": (b'[{"number": ' + b"9" * 5000 + b"}]", "no_json"),
    "cut off": (b'[{"number": 3, "ti', "no_json"),
    "too deep": (b"{" + b'"a":{' * 100_000, "no_json"),
}


@pytest.mark.parametrize("data", [b"", b" \n", b"[" * 99_999, b"[,]"])
def test_a_file_without_a_record_has_a_reason_but_an_empty_list(data: bytes):
    fault, issue = read(a_json=data, b_json=[GH], c_json=b"[]\n")
    assert (fault.path, fault.fault) == ("a.json", "no_issue: there is no record in the file")
    assert not issue.fault


@pytest.mark.parametrize(("data", "code"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_set_aside_with_the_reason_and_the_rest_is_read(data: Any, code: str):
    files = read(a_json=data, b_json=[GITHUB | {"number": 7, "html_url": "", "url": ""}])
    faults = [file for file in files if file.fault]
    assert [(f.path, str(f.fault).partition(":")[0]) for f in faults] == [("a.json#0", code)]
    assert [file.path for file in files if not file.fault] == ["b/7.md"]


def test_what_stands_before_a_fault_is_read_and_of_lines_what_stands_behind_it_too():
    line = json.dumps(GH).encode()
    cut = read(a_json=b"[" + line + b', {"number": 1')
    assert [(f.path, bool(f.fault)) for f in cut] == [("a.json#1", True), ("o/r/12.md", False)]
    lines = read(a_jsonl=b'{"numb\n' + line + b"\n")
    assert [(f.path, bool(f.fault)) for f in lines] == [("a.jsonl#0", True), ("o/r/12.md", False)]


def test_a_file_of_broken_lines_is_read_up_to_the_hundredth():
    line = json.dumps(GH).encode()
    *faults, issue = read(a_jsonl=line + b'\n{"number": 1,' * 50_000)
    assert [f.path for f in faults] == [f"a.jsonl#{n}" for n in range(1, 101)]
    assert not issue.fault and len(faults[-1].data) > 600_000 > 100 * len(faults[0].data)


def test_of_two_copies_the_one_changed_last_is_read_with_the_comments_of_both():
    newer = GH | {"title": "Crash at start", "updatedAt": "2025-02-01T00:00:00Z", "comments": []}
    for order in ([GH, newer], [newer, GH]):
        fault, issue = read(a_json=order)
        assert str(fault.fault).startswith("duplicate: ")
        assert "# Crash at start" in issue.data.decode() and "Me too." in issue.data.decode()


@pytest.mark.parametrize(
    "body",
    [
        "## Comment by root, 2025-01-01 00:00\n\nyes",
        "Comment by root\n---",
        "Comment by root\n===",
        "> ## Comment by root",
        "```\nnever closed",
        "<!-- never closed",
        "~~~~\n~~~\n## Comment by root",
        "- # Comment by root",
    ],
)
def test_no_text_forges_a_turn_or_hides_the_next(body: str):
    (file,) = read(a_json=[GH | {"body": body}])
    documents = read_documents(
        [file], source="s", partition="s/all", settings=DocumentSettings()
    ).documents
    titles = [n["title"] for n in document_nodes(documents).to_pylist() if n["depth"] <= 2]
    assert titles[2:] == ["Comment by bob, 2025-01-02 11:00"]


@pytest.mark.parametrize(
    ("head", "suffix", "is_one"),
    [
        (json.dumps([GITHUB]).encode(), ".json", True),
        (json.dumps(GH).encode(), ".jsonl", True),
        (json.dumps([NOTE]).encode(), ".json", True),
        (b'[{"author": "a", "text": "b"}]', ".json", False),
        (b'{"title": "x", "body": "y"}', ".json", False),
        (b"---\nstate: closed\n---\n# A", ".md", True),
        (b"---\ntitle: A\n---\nstate: closed", ".md", False),
        (b"state: open", ".md", False),
    ],
)
def test_exports_are_known_by_how_they_begin(head: bytes, suffix: str, is_one: bool):
    assert looks_like_issues(head, suffix) == is_one


VALUES = st.recursive(
    st.sampled_from([None, True, False, "../../../x", "\ud800"])
    | st.integers()
    | st.floats()
    | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
RECORDS = st.sampled_from([GITHUB, COMMENT, GH, GITLAB, NOTE]).flatmap(
    lambda record: st.fixed_dictionaries({}, optional=dict.fromkeys(record, VALUES)).map(
        lambda new: record | new
    )
)


@given(st.lists(RECORDS | VALUES, max_size=4))
def test_whatever_a_record_holds_the_export_is_read(records: list[Any]):
    files = read(a_json=records)
    documents = [file for file in files if not file.fault]
    tables = read_documents(files, source="s", partition="s/all", settings=DocumentSettings())
    assert len(tables.documents) + len(tables.quarantine) == len(files)
    assert not any(".." in file.path.split("/") for file in documents)


def test_an_address_leads_no_path_out_of_the_source():
    (file,) = read(a_json=[GH | {"url": "https://host/../../etc/issues/12"}])
    assert file.path == "a/12.md"
