"""Labels of sensitive texts."""

import re

import pytest

from dagster_project.index.search.opened_index import open_index
from tests.archives import Workspace
from transforms.errors import SettingsError
from transforms.retrieval.sensitive_texts import read_labels


def test_a_line_without_a_label_is_named():
    assert read_labels("# id\tlabel\n<a@b>\tSecret\tby Ann\n\nnotes:x.md\tpublic\n", "f") == {
        "a@b": "secret",
        "notes:x.md": "public",
    }
    with pytest.raises(SettingsError, match=re.escape("f, line 2: write an id, a tab and a label")):
        read_labels("a@b\tsecret\nc@d secret\n", "f")


def test_a_lens_leaves_out_texts_that_a_file_labels_and_follows_the_file(built: Workspace):
    built.config.write_text(
        f'{built.config.read_text()}\n[lenses]\nopen = "-sensitivity:labelled"\n'
    )
    with pytest.raises(SettingsError, match="needs labels.tsv"):
        open_index(built.settings, lens="open")
    ids = [doc for (doc,) in built.sql("SELECT message_id FROM messages ORDER BY 1")]
    for hidden in (set(ids[:2]), set(ids[1:3])):
        (built.config.parent / "labels.tsv").write_text(
            "".join(f"{doc}\tprivate\n" for doc in hidden) + f"{ids[5]}\tpublic\n"
        )
        index = open_index(built.settings, lens="open")
        assert {
            doc for (doc,) in index.connection.execute("SELECT message_id FROM messages").fetchall()
        } == {*ids} - hidden
        index.close()
