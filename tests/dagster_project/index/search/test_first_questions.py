"""Questions that are drawn from an archive have a right first hit, and the first build ends with them."""

import shlex
import shutil
from contextlib import closing

import pytest

from dagster_project.index.search.first_questions import first_questions
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import Mail, Workspace, mbox


@pytest.mark.parametrize(("name", "count"), [("shipped", 3), ("library", 2)])
def test_each_question_is_answered_by_its_first_hit(
    name: str, count: int, request: pytest.FixtureRequest
):
    work: Workspace = request.getfixturevalue(name)
    with closing(open_index(work.settings)) as index:
        questions = first_questions(index)
        assert len(questions) == count
        _require_good(index, questions)
        assert first_questions(index, 1) == questions[:1]


def _require_good(index: SearchIndex, questions: list[str]) -> None:
    """AssertionError for a question without an answer, and for one that has the words of another."""
    words = [{word for word in question.split() if word[0].isupper()} for question in questions]
    assert not words[0] & words[1]
    for question in questions:
        result = index.search([question], limit=1)
        assert result.labels == ("PASS",), question
        (first,) = result.hits.to_pylist()
        of_hit = f"{first['subject']} {first['snippet']} {first['thread_subject']}".casefold()
        assert any(len(w) > 3 and w.casefold() in of_hit for w in question.split()), question
        if question.startswith("what did "):
            assert question.startswith(f"what did {first['from_name']} say about ")


def test_the_first_version_comes_with_questions_and_no_later_one(built: Workspace):
    shutil.rmtree(built.settings.root / "index")
    first = built.weft("build", "--no-fetch").stdout.splitlines()
    asked = [line for line in first if " search " in line and f"--config {built.config}" in line]
    assert asked and asked[0].startswith("Ask: ")
    *_, question = shlex.split(asked[0])
    assert "PASS" in built.weft("search", question, "--json", "--limit", "1").stdout
    file = min(path for path in built.folder.glob("mail/**/*") if path.is_file())
    file.write_bytes(file.read_bytes() + mbox([Mail(99, "Another mail.", "Other")]))
    later = built.weft("build", "--no-fetch").stdout
    assert "Published version" in later and "Ask: " not in later
