"""The tree chunker: one chunk per node, every byte accounted for."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.documents import documents, read
from transforms.documents.chunks.headings import tree_chunks
from transforms.documents.nodes import document_nodes
from transforms.schemas.chunks import CHUNKS, EXCLUSIONS

TEXT = (
    "---\ntitle: Thé\ntags: [x]\n---\npre %%no [[x]]%% amble\n# Thé\n## Empty\n## Héad\n\ntext\n\n"
    "%%\nhid\n%%\n### Code\n```\nx=1\n```\n# Last\n"
)


def chunked(made: pa.Table) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Chunks and exclusions of a table of documents."""
    tables = tree_chunks(made, document_nodes(made))
    assert CHUNKS.conform(tables.chunks).num_rows == tables.chunks.num_rows
    assert EXCLUSIONS.conform(tables.exclusions).num_rows == tables.exclusions.num_rows
    return tables.chunks.to_pylist(), tables.exclusions.to_pylist()


def test_every_node_is_one_chunk():
    made = documents(d=TEXT)
    chunks, _ = chunked(made)
    nodes = document_nodes(made).to_pylist()
    assert [c["parent_id"] for c in chunks] == [n["node_id"] for n in nodes]
    assert [c["parent_id"] for c in chunks] == [
        "s:d.md",
        "s:d.md#thé",
        "s:d.md#héad",
        "s:d.md#code",
    ]
    assert [(c["chunk_index"], c["chunk_count"]) for c in chunks] == [
        (0, 4),
        (1, 4),
        (2, 4),
        (3, 4),
    ]
    assert {c["doc_id"] for c in chunks} == {"s:d.md"}
    assert [c["title"] for c in chunks] == ["Thé", "Thé", "Thé › Héad", "Thé › Héad › Code"]
    assert [c["heading_path"] for c in chunks] == [
        [],
        ["Thé"],
        ["Thé", "Héad"],
        ["Thé", "Héad", "Code"],
    ]
    assert [c["is_code"] for c in chunks] == [False, False, False, True]


def test_texts_are_the_nodes_own_without_comments():
    chunks, _ = chunked(documents(d=TEXT))
    assert [c["text_display"] for c in chunks] == [
        "---\ntitle: Thé\ntags: [x]\n---\npre  amble",
        "Thé",
        "text",
        "```\nx=1\n```",
    ]
    assert [c["text_embed"] for c in chunks] == [
        "Thé\n\npre  amble",
        "Thé",
        "Thé › Héad\n\ntext",
        "Thé › Héad › Code\n\n```\nx=1\n```",
    ]
    assert not any(
        "hid" in c[name] for c in chunks for name in ("text_display", "text_embed", "text_lex")
    )


def test_spans_and_exclusions_account_for_every_byte():
    chunks, exclusions = chunked(documents(d=TEXT))
    data = TEXT.encode()
    own = [[data[s["byte_start"] : s["byte_end"]].decode() for s in c["spans"]] for c in chunks]
    assert own == [
        ["---\ntitle: Thé\ntags: [x]\n---\npre ", " amble\n"],
        ["# Thé\n"],
        ["\ntext\n\n", "\n"],
        ["```\nx=1\n```\n"],
    ]
    left = [(data[e["byte_start"] : e["byte_end"]].decode(), e["reason"]) for e in exclusions]
    assert left == [
        ("%%no [[x]]%%", "comment"),
        ("## Empty\n", "empty_section"),
        ("%%\nhid\n%%", "comment"),
        ("# Last\n", "empty_section"),
    ]


def test_a_large_node_is_not_split_and_a_tiny_one_not_left_out():
    chunks, _ = chunked(documents(d="# A\n" + "word " * 50_000 + "\n## B\nx\n"))
    assert [c["char_count"] for c in chunks] == [1, 249_999, 1]


def test_plain_text_is_one_chunk():
    chunks, _ = chunked(read({"a/notes.txt": "\ufeff# x\r\ny\r\n"}).documents)
    assert [(c["title"], c["text_display"], c["parent_id"]) for c in chunks] == [
        ("notes", "# x\r\ny", "s:a/notes.txt")
    ]


def test_equal_sections_have_ids_of_their_own():
    chunks, _ = chunked(documents(d="# A\n## S\nx\n# B\n## S\nx\n", e="# A\n## S\nx\n"))
    assert len({c["chunk_id"] for c in chunks}) == len(chunks) == 8


SECTION = st.builds(
    lambda level, title, text: f"{'#' * level} {title}\n\n{text}\n\n",
    st.integers(1, 6),
    st.sampled_from(["A", "B", "é"]),
    st.sampled_from(["x", "`y`", "%%c%%", "- a\n- b"]),
)


@examples(60)
@given(st.lists(SECTION, min_size=1, max_size=8), st.integers(0, 8))
def test_ids_hold_no_positions_and_bytes_are_counted_once(sections: list[str], place: int):
    text = "".join(sections)
    more = "".join([*sections[:place], "## Fresh\n\nnew\n\n", *sections[place:]])
    (before, left), (after, _) = chunked(documents(d=text)), chunked(documents(d=more))
    # The document's own chunk holds its title, which the first h1 gives: it may change.
    assert {c["chunk_id"] for c in before[1:]} <= {c["chunk_id"] for c in after[1:]}
    assert len({c["chunk_id"] for c in after}) == len(after)
    data = text.encode()
    covered = [0] * len(data)
    for span in [*(s for c in before for s in c["spans"]), *left]:
        for at in range(span["byte_start"], span["byte_end"]):
            covered[at] += 1
    assert max(covered) <= 1
    missed = bytes(byte for byte, count in zip(data, covered, strict=True) if not count).decode()
    assert all(line.startswith("#") for line in missed.splitlines() if line.strip())
