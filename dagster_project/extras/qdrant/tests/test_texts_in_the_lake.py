"""With Qdrant as its target, a published file has references to texts of the lake, and answers as
one with all texts.
"""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dagster_project.index.files.arrays import folder_of
from dagster_project.index.files.hit_rows import HitRows
from dagster_project.index.search.lookup import reading
from dagster_project.index.search.opened_index import open_index
from tests.archives import Mail, Workspace
from transforms.errors import IndexUnavailableError

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")

from dagster_project.extras.qdrant import collection  # noqa: E402
from dagster_project.lake.referenced_texts import LakeTexts  # noqa: E402
from dagster_project.lake.text_references import TEXTS  # noqa: E402
from tests.qdrant_edge_client import EdgeClient  # noqa: E402

pytestmark = pytest.mark.exhaustive

TALK = "Ada: The load doubles when the compactor runs.\nBen: And what does the shell say of its pace?\n"
MAILS = "SELECT message_id, body, strlen(body) AS bytes FROM messages ORDER BY message_id"
QUESTIONS = (
    ["search", "compactor load", "write-ahead log", '"keeps its pace"', "l:users pace"],
    ["search", "m3@example.org"],
    ["search", "compactor", "--json", "--expand", "parent", "--expand", "neighbours"],
    ["search", "compactor load", "--stages"],
    ["similar", "m3@example.org"],
    ["context", "--stdin"],
    ["context", "--stdin", "--lens", "users"],
    ["sql", MAILS],
    ["sql", "SELECT chunk_id, text_display FROM chunks ORDER BY ALL"],
    ["sql", "SELECT * FROM thread((SELECT min(thread_id) FROM threads)) ORDER BY ALL"],
)


@pytest.fixture
def pair(
    built_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Workspace, Workspace]:
    """A workspace with a lens, and the same published for Qdrant."""
    works = []
    (folder := tmp_path / "collections").mkdir()
    client = EdgeClient(folder)
    monkeypatch.setattr(collection, "connected", lambda url: client)
    for name, target in (("file", ""), ("points", 'target = "http://host:6333/weft"\n')):
        work = built_once.copied(tmp_path / name)
        config = work.config.read_text() + '\n[lenses.users]\nwhere = "source:users"\n'
        work.config.write_text(config.replace("[storage]\n", f"[index]\n{target}[storage]\n"))
        works.append(work)
    works[1].publish()
    return works[0], works[1]


def said(work: Workspace, arguments: list[str]) -> str:
    """What a command says, without times and the parts of scores."""
    answer = work.weft(*arguments, input=TALK)
    assert answer.exit_code == 0, answer.output
    varying = (
        r"[\d-]+(T[\d:]+Z| [\d:]+ UTC)|[\d.]+ m?s\b|-?\d+\.\d+(e-\d+)?|exact|hnsw|[0-9a-f]{16}| +"
    )
    return re.sub(varying, " ", answer.output)


def test_every_question_has_the_same_answer_and_the_file_no_text(pair: tuple[Workspace, Workspace]):
    plain, points = pair
    for arguments in QUESTIONS:
        assert said(points, arguments) == said(plain, arguments), arguments
    for id_ in ("m3@example.org", "m3@example.org bytes 3-20"):
        read = [
            reading(index.ask, id_) for index in map(open_index, (plain.settings, points.settings))
        ]
        assert read[0] == read[1] and len(read[0].text) > 10
    published = (points.index / "CURRENT").resolve()
    with duckdb.connect(str(published), read_only=True) as connection:
        for table, (_, columns) in TEXTS.items():
            for column in columns:
                texts = connection.execute(f"SELECT {column} FROM {table}").fetchall()
                assert all(text is None or text.startswith("\x1f") for (text,) in texts), table
    keys = np.load(folder_of(published) / "chunk_keys.npy")
    rows = HitRows(folder_of(published), keys)
    shown = rows.of(range(len(keys))).values()
    stored = rows.texts(row["text_key"] for row in shown)
    assert stored and all(
        t.startswith("\x1f") for t in (*stored.values(), *(row["text_display"] for row in shown))
    )


def test_what_came_is_read_and_what_the_lake_lost_is_empty_until_the_next_publish(
    pair: tuple[Workspace, Workspace],
):
    _, work = pair
    work.write(
        "dev/dev.2004-03.mbox", [Mail(900, "The compactor's news is here.", "Compactor news")]
    )
    assert work.build().published
    with closing(open_index(work.settings)) as before:
        work.write("dev/dev.2004-03.mbox", [Mail(901, "Nothing is left of it.", "Nothing left")])
        work.build()
        (hit,) = before.search(["m900@example.org"]).hits.to_pylist()
        assert hit["subject"] == "Compactor news" and not hit["snippet"]
        assert before.ask(
            "SELECT body FROM messages WHERE message_id = 'm900@example.org'", {}
        ).to_pylist() == [{"body": ""}]
    with closing(open_index(work.settings)) as now:
        (hit,) = now.search(["m901@example.org"]).hits.to_pylist()
        assert hit["snippet"] == "Nothing is left of it."


def test_a_statement_reads_the_texts_of_the_rows_that_joins_leave(
    pair: tuple[Workspace, Workspace], monkeypatch: pytest.MonkeyPatch
):
    asked: list[str | None] = []
    of = LakeTexts.of

    def counted(texts: LakeTexts, values: Sequence[str | None]) -> list[str | None]:
        asked.extend(values)
        return of(texts, values)

    with closing(open_index(pair[1].settings)) as index:
        (first, *_) = index.search(["compactor load"]).hits.to_pylist()
        monkeypatch.setattr(LakeTexts, "of", counted)
        index.ask(
            "SELECT text_display, body FROM chunks JOIN messages ON message_id = doc_id WHERE chunk_id = $id",
            {"id": first["chunk_id"]},
        )
        assert len(asked) == 2, "what is shown, and the body around it"
        asked.clear()
        index.ask("SELECT count(*), max(subject) FROM messages", {})
        assert not asked
    (pair[1].settings.root / "lake").rename(pair[1].settings.root / "moved")
    with (
        closing(open_index(pair[1].settings)) as index,
        pytest.raises(
            IndexUnavailableError, match="lake, where the texts of this index are, is not there"
        ),
    ):
        index.search(["compactor load"])
