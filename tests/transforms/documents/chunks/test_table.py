"""What every chunker of documents keeps: all of the text, bytes that can be cited, ids that stay."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import examples, some
from tests.documents import chunks_of, exclusions_of, read, tables
from tests.timing import seconds
from transforms.documents.chunks.table import document_chunks
from transforms.documents.nodes import document_nodes
from transforms.schemas.chunks import CHUNKS, EXCLUSIONS
from transforms.settings.documents import DocumentChunkSettings

CHUNKERS = {
    "sections": {"target_chars": 60, "min_chars": 15, "overlap_chars": 20, "context_chars": 30},
    "sections without overlap": {"target_chars": 40, "min_chars": 0, "overlap_chars": 0},
    "semantic": {
        "chunker": "semantic",
        "semantic_min_tokens": 5,
        "semantic_deep_tokens": 10,
        "semantic_max_tokens": 15,
    },
    "strict": {
        "chunker": "semantic",
        "strict": True,
        "semantic_max_tokens": 15,
        "semantic_min_tokens": 5,
    },
}
LINES = st.sampled_from(
    [
        "# Öffnung",
        "## Setup",
        "### Deep",
        "Intro",
        "===",
        "---",
        "- item one",
        "  - nested ✓",
        "1. first",
        "> quote",
        "> ## quoted heading",
        "```python",
        "```",
        "    indented = 1",
        "| a | b |",
        "|---|---|",
        "",
        "",
        "%%hidden%%",
        "%%",
        "A sentence. Another one! Why? 日本語の文。次の文。",
        "word " * 30,
        "x" * 90,
        "\t",
        "<div>",
        "[[Note|alias]]",
        "🙂" * 25,
        "a\r",
    ]
)
TEXTS = (
    st.lists(LINES, min_size=1, max_size=30)
    .map("\n".join)
    .filter(lambda text: text.strip(" \t\r\n"))
)


def spans(chunk: dict, role: str) -> list[tuple[int, int]]:
    return [(s["byte_start"], s["byte_end"]) for s in chunk["spans"] if s["role"] == role]


@pytest.mark.parametrize("name", CHUNKERS)
@given(text=TEXTS)
@examples(60)
def test_own_spans_and_exclusions_are_the_text_each_byte_once(name: str, text: str):
    data = text.encode()
    made = document_chunks(*tables(note=text), DocumentChunkSettings(**CHUNKERS[name]))
    assert made.chunks.schema.equals(CHUNKS.arrow)
    assert made.exclusions.schema.equals(EXCLUSIONS.arrow)
    chunks = made.chunks.to_pylist()
    ranges = [span for chunk in chunks for span in spans(chunk, "own")]
    ranges += [(row["byte_start"], row["byte_end"]) for row in made.exclusions.to_pylist()]
    edges = sorted(ranges)
    assert [a for a, _ in edges] == [0, *(b for _, b in edges[:-1])]
    assert edges[-1][1] == len(data)
    for start, end in ranges:
        data[start:end].decode()
    assert len({chunk["chunk_id"] for chunk in chunks}) == len(chunks)
    assert [chunk["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        parts = sorted(spans(chunk, "own") + spans(chunk, "overlap"))
        shown = b"".join(data[a:b] for a, b in parts).decode()
        assert chunk["text_display"] == shown.strip("\r\n").rstrip() != ""
        assert chunk["char_count"] == len(chunk["text_display"])


@given(text=TEXTS)
@example("# A\n# B\n%%\n" + "word " * 34 + "\n%%hidden%%")  # nothing but a comment follows
@examples(60)
def test_an_overlap_repeats_the_end_of_the_chunk_before_it(text: str):
    for before, chunk in pairwise(chunks_of(text, **CHUNKERS["sections"])):
        for start, end in spans(chunk, "overlap"):
            assert spans(before, "own")[0][0] <= start < end <= spans(chunk, "own")[0][0]
            assert len(text.encode()[start:end].decode()) <= 20


@pytest.mark.parametrize("chunker", ["sections", "semantic"])
@pytest.mark.parametrize(
    "text",
    ["x", "Buy milk tomorrow.", "# T\n\nBuy milk.", "# A\n\na\n\n# B\n\nb\n", "---\na: b\n---\nx"],
)
def test_a_note_of_a_few_characters_is_kept(chunker: str, text: str):
    shown = "\n".join(chunk["text_display"] for chunk in chunks_of(text, chunker=chunker))
    assert all(word in shown for word in text.removeprefix("---\na: b\n---\n").split())


@pytest.mark.parametrize("chunker", ["sections", "semantic"])
def test_what_nobody_is_to_find_is_left_out_and_recorded(chunker: str):
    text = (
        "---\ntitle: T\n---\n# One\n\nSeen %%not this%% and seen.\n\n%%\nnor this\n%%\n\n"
        "A word <!-- or this --> more.\n\n<!--\nor this\n-->\n\n`%%code%%` and `<!-- code -->` stay.\n"
    )
    chunks = chunks_of(text, chunker=chunker)
    for name in ("text_display", "text_embed", "text_lex"):
        assert not any("this" in chunk[name] for chunk in chunks), name
    assert "`%%code%%` and `<!-- code -->` stay." in chunks[-1]["text_display"]
    assert exclusions_of(text, chunker=chunker) == [
        ("frontmatter", "---\ntitle: T\n---\n"),
        ("comment", "%%not this%%"),
        ("comment", "%%\nnor this\n%%"),
        ("comment", "<!-- or this -->"),
        ("comment", "<!--\nor this\n-->"),
    ]


@pytest.mark.parametrize(
    "sign",
    [
        '<span class="icon-link" aria-hidden="true">this</span>',
        "![[this-send.svg#icon]]",
        "[![this](https://img.shields.io/a.svg)](https://a.example)",
        "![this](https://a.example/badge/b.svg) [![this](https://codecov.io/badge.svg)](c)",
    ],
)
def test_icons_and_lines_of_badges_are_not_text(sign: str):
    text = f"# One\n\n{sign}\n\nSeen `{sign}` text.\n\n```\n{sign}\n```\n"
    (chunk,) = chunks_of(text)
    assert chunk["text_display"].count(sign) == 2
    assert (
        not chunk["text_embed"].replace(f"`{sign}`", "").replace(f"```\n{sign}", "").count("this")
    )
    assert exclusions_of(text) == [("comment", sign)]


@pytest.mark.parametrize("chunker", ["sections", "semantic"])
def test_ids_of_other_sections_stay_when_a_section_is_inserted(chunker: str):
    parts = [
        f"# Part {n}\n\n" + f"Sentence {n} of many words in a row. " * 40 + "\n\n" for n in range(6)
    ]
    same = "# Same\n\n" + "The same words again and again. " * 40 + "\n\n"
    before = chunks_of("".join([*parts, same, same]), chunker=chunker)
    after = chunks_of(
        "".join([*parts[:3], "# New\n\n" + "Unheard. " * 200 + "\n\n", *parts[3:], same, same]),
        chunker=chunker,
    )
    ids = {chunk["chunk_id"] for chunk in after}
    assert all(chunk["chunk_id"] in ids for chunk in before)
    assert len({chunk["chunk_id"] for chunk in before}) == len(before)


def test_a_chunk_says_where_it_stands():
    text = "---\ntags: [oil]\naliases: Grease\n---\n# Machine\n\n" + "Intro words. " * 60
    text += "\n## Care\n\n### Oil\n\n" + "Oil it daily, they say. " * 20
    first, *_, oil = chunks_of(text)
    assert oil["heading_path"] == ["Machine", "Care", "Oil"]
    assert oil["title"] == "Machine › Care › Oil"
    assert oil["parent_id"] == "s:note.md#oil"
    assert oil["text_embed"].startswith("Machine › Care › Oil\n\n## Care\n\n### Oil")
    assert first["text_lex"].endswith("\noil\nGrease")
    assert (oil["source_kind"], oil["chunk_kind"], oil["doc_id"]) == (
        "document",
        "section",
        "s:note.md",
    )


@pytest.mark.parametrize("chunker", ["sections", "semantic"])
@pytest.mark.parametrize(
    "body, is_code",
    [
        ("Words only.\n", False),
        ("```\na = 1\nb = 2\n```\n", True),
        ("One line.\n\n```\na = 1\n```\n", True),
        ("One line.\nTwo lines.\n\n```\na = 1\n```\n", False),
        ("- item\n\n  ```\n  a = 1\n  b = 2\n  c = 3\n  ```\n", True),
        ("    a = 1\n    b = 2\n", True),
        ("> ```\n> a = 1\n> ```\n", True),
    ],
)
def test_half_the_lines_make_a_chunk_code(chunker: str, body: str, is_code: bool):
    (chunk,) = chunks_of(body, chunker=chunker)
    assert chunk["is_code"] is is_code


ADVERSARIAL = {
    "no blanks": "x" * 1_000_000,
    "blanks": "a" + " " * 1_000_000 + "b",
    "newlines": "a" + "\n" * 1_000_000 + "b",
    "hashes": "#" * 1_000_000,
    "headings": "# a\n" * 20_000 + "b",
    "items": "- a\n" * 30_000,
    "marks": ". " * 300_000,
    "fences": "```\na\n" * 10_001,
    "comments": "%%a%% b\n\n" * 10_000,
    "emoji": "🙂" * 300_000,
    "words": "word " * 400_000,
}


@pytest.mark.parametrize("chunker", ["sections", "semantic"])
@pytest.mark.parametrize("name", some(ADVERSARIAL, each=3))
def test_every_text_ends_in_chunks_of_bounded_size(chunker: str, name: str):
    made = document_chunks(*tables(note=ADVERSARIAL[name]), DocumentChunkSettings(chunker=chunker))
    sizes = made.chunks.column("char_count").to_pylist()
    assert sizes and max(sizes) <= (800 if chunker == "sections" else 20_000)


@pytest.mark.exhaustive
@pytest.mark.parametrize("chunker", ["sections", "semantic", "tree"])
@pytest.mark.parametrize("as_one", [True, False], ids=["one document", "many documents"])
def test_ten_times_the_text_is_about_ten_times_the_work(chunker: str, as_one: bool):
    part = "## Part {n}\n\nText of part {n}, with words.\n\n- item {n}\n\n```\ncode {n}\n```\n\n%%{n}%% naïve.\n\n"

    def seconds_of(count: int) -> float:
        parts = [part.format(n=n) for n in range(count)]
        texts = {"d": "".join(parts)} if as_one else {f"d{n}": text for n, text in enumerate(parts)}
        made = tables(**texts)
        return seconds(lambda: document_chunks(*made, DocumentChunkSettings(chunker=chunker)))

    assert seconds_of(1000) / max(seconds_of(100), 1e-3) < 25


def test_a_list_of_keywords_has_no_chunks():
    listed = {
        "a/_keywords/words.md": "| b | 1 |",
        "_keywords/words.md": "é",
        "my_keywords/words.md": "c d",
    }
    documents = read(listed).documents
    made = document_chunks(documents, document_nodes(documents), DocumentChunkSettings())
    assert made.chunks["doc_id"].to_pylist() == ["s:my_keywords/words.md"]
    rows = [
        (r["doc_id"], r["byte_start"], r["byte_end"], r["reason"])
        for r in made.exclusions.to_pylist()
    ]
    assert rows == [
        ("s:_keywords/words.md", 0, 2, "word_list"),
        ("s:a/_keywords/words.md", 0, 9, "word_list"),
    ]


def test_a_word_list_has_no_chunks():
    made = document_chunks(
        *tables(**{"a/_keywords/words": "winch\nlantern\n", "b": "winch"}), DocumentChunkSettings()
    )
    assert made.chunks["doc_id"].to_pylist() == ["s:b.md"]
    assert [(r["doc_id"], r["reason"]) for r in made.exclusions.to_pylist()] == [
        ("s:a/_keywords/words.md", "word_list")
    ]
