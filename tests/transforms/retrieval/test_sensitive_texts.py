"""Labels of sensitive texts, and those that are like them."""

import re

import numpy as np
import pytest

from dagster_project.index.search.opened_index import open_index
from tests.archives import Workspace
from transforms.errors import SettingsError
from transforms.retrieval.sensitive_texts import alike, read_labels

RNG = np.random.default_rng(7)
KINDS = np.repeat([True, False], 40)
VECTORS = np.where(KINDS[:, None], [0.9, 0.1], [0.1, 0.9]) + RNG.normal(0, 0.05, (80, 2))
EXAMPLES = {n: bool(KINDS[n]) for n in [*range(20), *range(40, 60)]}


def test_texts_like_the_sensitive_examples_are_found_and_a_label_is_believed():
    texts = np.arange(80)
    assert alike(80, texts, VECTORS, EXAMPLES).tolist() == KINDS.tolist()
    # The last text has no vector, and the first and the sixtieth are labelled against their vectors.
    labelled = {**EXAMPLES, 0: False, 59: True}
    assert np.flatnonzero(alike(81, texts, VECTORS, labelled) != [*KINDS, False]).tolist() == [
        0,
        59,
        80,
    ]
    # One of the vectors of a text is enough.
    assert alike(80, np.append(texts, 79), np.vstack([VECTORS, VECTORS[:1]]), EXAMPLES)[79]
    with pytest.raises(SettingsError, match="names 9 and 20"):
        alike(80, texts, VECTORS, {n: s for n, s in EXAMPLES.items() if n not in range(11)})


def test_a_line_without_a_label_is_named():
    assert read_labels("# id\tlabel\n<a@b>\tSecret\tby Ann\n\nnotes:x.md\tpublic\n", "f") == {
        "a@b": "secret",
        "notes:x.md": "public",
    }
    with pytest.raises(SettingsError, match=re.escape("f, line 2: write an id, a tab and a label")):
        read_labels("a@b\tsecret\nc@d secret\n", "f")


def test_a_lens_leaves_out_texts_that_a_file_labels_and_follows_the_file(built: Workspace):
    built.config.write_text(
        f'{built.config.read_text()}\n[lenses]\nopen = "-sensitivity:labelled"\nlike = "-sensitivity:alike"\n'
    )
    with pytest.raises(SettingsError, match="need labels.tsv"):
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
    with pytest.raises(SettingsError, match="labels names 2 and 1"):
        open_index(built.settings, lens="like")
