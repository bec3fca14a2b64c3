"""Chunks as a specification: the design's rules and examples, sizes, ids, and the account of bytes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import examples, some
from transforms.hashing import text_hash
from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks import attachments
from transforms.mail.chunks import table as chunks
from transforms.mail.chunks.table import message_chunks, title_of
from transforms.schemas.chunks import CHUNKS, EXCLUSIONS, UNEMBEDDED
from transforms.schemas.mail import ATTACHMENTS
from transforms.settings.mail import BlockSettings, ChunkSettings
from transforms.text.diffs import diff_segments
from transforms.text.segments import (
    ProseLimits,
    code_segments,
    prose_segments,
    section_segments,
    sql_segments,
)

Row = dict[str, Any]


def mails(
    *bodies: str, subject: str = "", in_reply_to: str | None = None, body_format: str = "plain"
) -> pa.Table:
    n = len(bodies)
    return pa.table(
        {
            "message_id": [f"m{i}" for i in range(n)],
            "content_hash": ["h"] * n,
            "source": ["s"] * n,
            "partition": ["u"] * n,
            "subject": [subject] * n,
            "in_reply_to": pa.array([in_reply_to] * n, pa.string()),
            "refs": pa.array([[]] * n, pa.list_(pa.string())),
            "body": pa.array(bodies, pa.large_string()),
            "body_format": [body_format] * n,
        }
    )


def attachment(
    text: str | None, content_class: str = "text", filename: str = "f.txt", lane: str = "fast"
) -> pa.Table:
    return ATTACHMENTS.from_rows(
        [
            {
                "attachment_id": "a0",
                "message_id": "m0",
                "source": "s",
                "partition": "u",
                "part_index": 1,
                "filename": filename,
                "declared_type": "text/plain",
                "content_class": content_class,
                "text": text,
                "char_count": len(text or ""),
                "byte_count": 7,
                "reason": None,
                "lane": lane,
            }
        ]
    )


@contextmanager
def sized(**chars: int) -> Iterator[None]:
    """Small sizes, so that small texts show what large ones do."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in chars.items():
            patched.setattr(attachments, name, value)
        yield


def chunked(
    table: pa.Table, parts: pa.Table | None = None, **options: object
) -> tuple[list[Row], list[Row]]:
    """The chunks and exclusions of mails and attachments, as rows."""
    blocks = message_blocks(table, BlockSettings())
    tables = message_chunks(
        table, blocks, parts or ATTACHMENTS.empty(), ChunkSettings.model_validate(options)
    )
    assert tables.chunks.schema.equals(CHUNKS.arrow)
    assert tables.exclusions.schema.equals(EXCLUSIONS.arrow)
    return tables.chunks.to_pylist(), tables.exclusions.to_pylist()


def texts(body: str, **mail: Any) -> list[tuple[str, str]]:
    """Kind and embedded text of the chunks of one body."""
    return [(r["chunk_kind"], r["text_embed"]) for r in chunked(mails(body, **mail))[0]]


def test_example_2_long_nested_quote_history() -> None:
    body = "On Tue, ...\n> On Mon, ...\n> > older history\n> local point\n\nMy response.\n"
    rows, excluded = chunked(mails(body))
    assert [(r["chunk_kind"], r["text_embed"]) for r in rows] == [
        ("quote_reply_pair", "Quoted point:\nlocal point\n\nReply:\nMy response.")
    ]
    assert rows[0]["text_display"] == "> local point\n\nMy response."
    assert [r["reason"] for r in excluded] == ["header", "unused_quote", "deep_quote"]
    assert rows[0]["rest_lex"] == "On Tue, ...\n\n> On Mon, ...\n\n> > older history\n"


def test_example_4_response_first_quote_later() -> None:
    body = "This looks reasonable to me.\n\n> old quoted thread history\n"
    rows, excluded = chunked(mails(body))
    assert [(r["chunk_kind"], r["text_embed"]) for r in rows] == [
        ("authored_message", "This looks reasonable to me.")
    ]
    assert [r["reason"] for r in excluded] == ["unused_quote"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Examples 1 and 3 of the design: a direct reply with the quote on top, and a patch reviewed
        # in between.
        (
            "On Tue, ...\n> Should we rename this field?\n\nNo, because it breaks the existing ABI.\n",
            [
                (
                    "quote_reply_pair",
                    "Quoted point:\nShould we rename this field?\n\nReply:\nNo, because it breaks the "
                    "existing ABI.",
                )
            ],
        ),
        (
            "> rename this variable\n\nI agree.\n\n> move the check earlier\n\nI do not think that is safe.\n",
            [
                ("review_pair", "Quoted point:\nrename this variable\n\nReply:\nI agree."),
                (
                    "review_pair",
                    "Quoted point:\nmove the check earlier\n\nReply:\nI do not think that is safe.",
                ),
            ],
        ),
        (
            "> if the spare node shuts down and the restore command is waiting, the postmaster\nwill never\n"
            "> exit  :-(\n\nIs that a bug?\n",
            [
                (
                    "quote_reply_pair",
                    "Quoted point:\nif the spare node shuts down and the restore command is waiting, the "
                    "postmaster\nwill never\nexit  :-(\n\nReply:\nIs that a bug?",
                )
            ],
        ),
        (
            "> first\n\nHi Ann and Ben,\n...\n\n> point\n\nAnswer.\n",
            [("quote_reply_pair", "Quoted point:\npoint\n\nReply:\nHi Ann and Ben,\n...\nAnswer.")],
        ),
        (
            "Hi Ann,\n\n> point\n\nAnswer.\n",
            [("quote_reply_pair", "Quoted point:\npoint\n\nReply:\nHi Ann,\nAnswer.")],
        ),
        (
            "One. Two.\n\n> point\n\nAnswer.\n",
            [
                ("authored_message", "One. Two."),
                ("quote_reply_pair", "Quoted point:\npoint\n\nReply:\nAnswer."),
            ],
        ),
        ("> > deep\n\nAnswer.\n", [("authored_message", "Answer.")]),
        (
            "> point\n> > deep\n\nAnswer.\n",
            [("quote_reply_pair", "Quoted point:\npoint\n\nReply:\nAnswer.")],
        ),
        (
            "> first\n\n> second\n\nAnswer.\n",
            [("quote_reply_pair", "Quoted point:\nsecond\n\nReply:\nAnswer.")],
        ),
        ("Answer.\n\n-- \nAnn\n", [("authored_message", "Answer.")]),
        (
            "@@ -1 +1 @@\n-a\n+b\nPlease keep a.\n",
            [("review_pair", "Quoted point:\n@@ -1 +1 @@\n-a\n+b\n\nReply:\nPlease keep a.")],
        ),
        ("> only a quote\n", [("unauthored_message", "")]),
        ("", []),
        ("...\n", []),
    ],
)
def test_units_and_anchors(body: str, expected: list[tuple[str, str]]) -> None:
    assert texts(body) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("> ...\n", "too_little_text"),
        ("--\n\n...\n", "too_little_text"),
    ],
)
def test_rule_6_mails_without_text_are_recorded(body: str, reason: str) -> None:
    rows, excluded = chunked(mails(body))
    assert rows == []
    assert [(r["reason"], r["byte_start"], r["byte_end"]) for r in excluded] == [
        (reason, 0, len(body))
    ]


def test_a_comment_knows_the_file_and_the_function_of_each_hunk() -> None:
    body = (
        "> diff --git a/fs/a.c b/fs/a.c\n> --- a/fs/a.c\n> +++ b/fs/a.c\n> @@ -1,3 +1,4 @@ int first(void)\n> +\tx = 1;\n\n"
        "Why x?\n\n> @@ -9,3 +9,4 @@ int second(void)\n> +\ty = 2;\n\n[snip]\n\n> \tw = 2;\n[...]\n\nWhy y?\n\n"
        "> +\tz = 2;\n\nAnd z?\n\n> all\n\nDone.\n"
    )
    rows, _ = chunked(mails(body, in_reply_to="p"))
    assert [(r["diff_files"], r["diff_functions"]) for r in rows] == [
        (["fs/a.c"], ["int first(void)"]),
        (["fs/a.c"], ["int second(void)"]),
        (["fs/a.c"], ["int second(void)"]),
        ([], []),
    ]


def test_rule_2_an_anchor_keeps_the_end_of_the_quote() -> None:
    quote = "".join(f"> line {i:03} of a quote that is long\n" for i in range(100))
    short, _ = chunked(mails(f"{quote}\nNo.\n"))
    long, excluded = chunked(mails(f"{quote}\n{'Because it would break. ' * 20}\n"))
    for rows, low, cap in ((short, 1400, 1500), (long, 700, 800)):
        assert low < rows[0]["quote_anchor_chars"] <= cap
        assert rows[0]["quote_lex"].endswith("line 099 of a quote that is long")
        assert rows[0]["is_quote_heavy"]
    assert [r["reason"] for r in excluded] == ["unused_quote"]


@pytest.mark.parametrize(
    ("body", "subject", "parent", "needs"),
    [
        ("Yes.\n", "", "p", True),
        ("Yes.\n", "[users] AW: lock", None, True),
        ("Yes.\n", "lock", None, False),
        ("> q\n\nYes.\n", "", "p", False),
        ("Long. " * 60, "", "p", False),
    ],
)
def test_rule_5_a_short_reply_without_anchor_needs_its_parent(
    body: str, subject: str, parent: str | None, needs: bool
) -> None:
    row = chunked(mails(body, subject=subject, in_reply_to=parent))[0][0]
    assert (row["needs_parent"], row["parent_id"]) == (needs, parent)


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        ("Re: [HACKERS] Savepoints", "Savepoints"),
        ("[PATCH v2 1/3] erofs: fix", "[PATCH v2 1/3] erofs: fix"),
        ("Re: AW: Fwd: x", "x"),
        ("", ""),
        ("Re:", ""),
        ("[list]", "[list]"),
    ],
)
def test_title(subject: str, title: str) -> None:
    assert title_of(subject) == title


def test_the_subject_stands_before_the_embedded_text() -> None:
    table = mails("Text.\n", subject="Re: [HACKERS] Savepoints")
    row = chunked(table)[0][0]
    assert row["text_embed"] == "Subject: Savepoints\n\nText."
    assert row["checksum"] == text_hash(row["text_embed"])


PARAGRAPH = "This is a sentence about vacuum. " * 12


def test_long_text_is_split_at_paragraphs_with_overlap() -> None:
    body = "\n\n".join(f"{i}. {PARAGRAPH.strip()}" for i in range(12)) + "\n"
    rows, _ = chunked(mails(body))
    assert {r["chunk_kind"] for r in rows} == {"long_authored_segment"}
    assert all(r["char_count"] <= 2000 for r in rows)
    assert [r["chunk_count"] for r in rows] == [len(rows)] * len(rows)
    spans = [r["spans"][0] for r in rows]
    for before, after in zip(spans, spans[1:], strict=False):
        assert 0 <= before["byte_end"] - after["byte_start"] <= 300
    assert all(r["text_display"].endswith("vacuum.") for r in rows)


def test_a_paragraph_stays_whole_up_to_the_recursive_size_and_is_cut_above() -> None:
    middle = "This is a sentence about vacuum. " * 100
    assert [r["char_count"] for r in chunked(mails(middle))[0]] == [len(middle)]
    rows, _ = chunked(mails(middle * 3))
    assert all(r["char_count"] <= 2000 and r["text_display"].rstrip().endswith(".") for r in rows)


FILE = "diff --git a/{0} b/{0}\nindex 123456..abcdef 100644\n--- a/{0}\n+++ b/{0}\n"
HUNK = "@@ -{0},30 +{0},30 @@ int f{0}(void)\n" + "".join(
    f" line {i} of some context in the hunk\n" for i in range(30)
)


def patch(files: int, hunks: int) -> str:
    """A patch of so many files with so many hunks of 1,100 characters."""
    return "".join(
        FILE.format(f"src/f{f}.c") + "".join(HUNK.format(100 * h + 1) for h in range(hunks))
        for f in range(files)
    )


def test_an_unquoted_patch_is_split_by_file_and_hunk_and_carries_their_names() -> None:
    body = f"Fix it.\n\nSigned-off-by: Ann\n---\n src/f0.c | 2 +-\n\n{patch(2, 3)}-- \n2.43.0\n"
    rows, excluded = chunked(mails(body, subject="[PATCH] fix"))
    assert rows[0]["text_display"].endswith("src/f0.c | 2 +-")
    code = rows[1:]
    assert all(
        r["is_code"] and r["has_patch_markers"] and r["content_class"] == "patch" for r in code
    )
    assert [r["text_embed"].split("\n")[2] for r in code] == ["src/f0.c", "src/f1.c"]
    with sized(PATCH_HUNKS=2):
        small, _ = chunked(mails(body))
    assert [r["diff_files"] for r in small[1:]] == [["src/f0.c"]] * 3 + [["src/f1.c"]] * 3
    assert [r["diff_functions"] for r in small[1:4]] == [[f"int f{n}(void)"] for n in (1, 101, 201)]
    assert excluded == []


def test_a_new_and_a_deleted_file_keep_their_headers_and_names() -> None:
    heads = (
        "diff --git a/new.c b/new.c\nnew file mode 100644\nindex 0000..1234\n--- /dev/null\n+++ b/new.c\n",
        "diff --git a/old.c b/old.c\ndeleted file mode 100644\n--- a/old.c\n+++ /dev/null\n",
    )
    text = "".join(head + HUNK.format(1) for head in heads)
    assert [p.file for p in diff_segments(text, 0, len(text), 2000, 12_000, 10)] == [
        "new.c",
        "old.c",
    ]


@pytest.mark.parametrize(
    ("text", "content_class", "count"),
    [
        ("short\n", "text", 1),
        (patch(1, 2), "patch", 1),
        (patch(3, 4), "patch", 3),
        (patch(1, 20), "patch", 20),
        (patch(101, 1), "patch", 102),
        ("x" * 20_000, "log", 3),
        ("line\n" * 4_000, "log", 3),
        (("para\n" * 100 + "\n") * 30, "text", 2),
    ],
)
def test_attachments(text: str, content_class: str, count: int) -> None:
    table = mails("Attached.\n", subject="Re: fix")
    rows = [
        r
        for r in chunked(table, attachment(text, content_class, "a.patch", "slow"))[0]
        if r["attachment_id"]
    ]
    assert len(rows) == count
    for row in rows:
        assert (row["chunk_kind"], row["lane"]) == ("attachment_segment", "slow")
        assert row["title"] == "fix · a.patch"
        assert row["char_count"] <= 8000
        assert row["text_embed"].startswith("Subject: fix\n\na.patch\n")
    assert [r["chunk_index"] for r in rows] == list(range(count))


@pytest.mark.parametrize(("content_class", "reason"), [("text", "no_text"), ("archive", "binary")])
def test_an_attachment_without_text_is_recorded(content_class: str, reason: str) -> None:
    _, excluded = chunked(mails("Attached.\n"), attachment(None, content_class))
    assert [(r["attachment_id"], r["reason"], r["byte_end"]) for r in excluded] == [
        ("a0", reason, 7)
    ]


LINES = st.sampled_from(
    [
        "",
        "> q one",
        "> > q two",
        "Hello there.",
        "On Mon, 1 Jan 2001, A wrote:",
        "-- ",
        "Ann",
        "ü€𝄞 text",
        "@@ -1,2 +1,2 @@",
        "+x",
        "-y",
        " z",
        "diff --git a/f b/f",
        "--- a/f",
        "+++ b/f",
        "{",
        "};",
        "> On Mon, B wrote:",
        "word " * 60,
        "-----Original Message-----",
        "From: A",
        "To: B",
        "Subject: c",
        "...",
        ">",
        "Sentence. " * 20,
    ]
)
BODIES = st.lists(LINES, max_size=40).map("\n".join)
SMALL = {
    "message_chars": 120,
    "recursive_chars": 400,
    "overlap_chars": 30,
    "anchor_chars": 20,
    "anchor_chars_short": 40,
    "attachment_chars": 100,
}


def chunked_small(table: pa.Table, policy: str = "pairs") -> tuple[list[Row], list[Row]]:
    """Chunks and exclusions under sizes that the texts of BODIES pass."""
    with sized(PATCH_CHARS=150, PATCH_HUNKS=2):
        return chunked(table, policy=policy, **SMALL)


@given(st.lists(BODIES, min_size=1, max_size=3), st.sampled_from(["pairs", "message"]))
@example(["> " + "x" * 100 + "\n\nNo.\n"], "pairs")
@examples(100)
def test_every_byte_is_in_a_chunk_or_an_exclusion(bodies: list[str], policy: str) -> None:
    rows, excluded = chunked_small(mails(*bodies, in_reply_to="p"), policy)
    assert len({r["chunk_id"] for r in rows}) == len(rows)
    for i, body in enumerate(bodies):
        data, covered = body.encode(), []
        for row in (r for r in rows if r["doc_id"] == f"m{i}"):
            assert row["text_display"].strip()
            assert row["char_count"] == len(row["text_display"])
            own = [
                data[s["byte_start"] : s["byte_end"]].decode()
                for s in row["spans"]
                if s["role"] == "own"
            ]
            assert any(c.isalnum() for c in "".join(own)) == (
                row["chunk_kind"] != "unauthored_message"
            )
            parts = [data[s["byte_start"] : s["byte_end"]].decode() for s in row["spans"]]
            assert "\n".join(parts).split() == row["text_display"].split()
            indexed = " ".join(row[c] for c in ("text_lex", "added_lex", "removed_lex"))
            assert sorted(re.findall(r"\w+", " ".join(own))) == sorted(re.findall(r"\w+", indexed))
            edges = [(s["byte_start"], s["byte_end"]) for s in row["spans"]]
            assert all(0 <= a < b <= len(data) for a, b in edges)
            assert all(b <= c for (_, b), (c, _) in zip(edges, edges[1:], strict=False))
            covered += edges
        covered += [(r["byte_start"], r["byte_end"]) for r in excluded if r["doc_id"] == f"m{i}"]
        at = 0
        for start, end in [*sorted(covered), (len(data), len(data))]:
            assert not data[at:start].decode().strip()
            at = max(at, end)


def test_a_field_at_the_top_of_a_mail_has_nothing_to_do_with_a_banner_at_the_end_of_another():
    banner = "-----Original Message-----"
    alone, below = (
        chunked_small(mails(*bodies))
        for bodies in ((f"To: B\n{banner}",), (banner, f"To: B\n{banner}"))
    )
    own = [[row["text_lex"] for row in rows if row["text_lex"]] for rows, _ in (alone, below)]
    assert own[0] == own[1] != []


@given(st.lists(BODIES, min_size=2, max_size=4), st.randoms(use_true_random=False))
@examples(50)
def test_the_order_of_the_mails_does_not_matter(bodies: list[str], random: Any) -> None:
    table = mails(*bodies)
    order = list(range(len(bodies)))
    random.shuffle(order)
    assert chunked_small(table) == chunked_small(table.take(order))


def test_how_mails_are_batched_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = ["> q\n\nYes.\n", "", "Long. " * 500, "On Mon, A wrote:\n> q\n", patch(2, 3)]
    repeated = chunked(mails(*bodies, *bodies), attachment(patch(1, 1), "patch"))
    monkeypatch.setattr(chunks, "BATCH_BYTES", 1)
    assert chunked(mails(*bodies, *bodies), attachment(patch(1, 1), "patch")) == repeated


def test_with_policy_message_the_pairs_come_besides_the_whole_mail() -> None:
    body = "> one\n\nFirst answer.\n\n> two\n\nSecond answer.\n"
    rows, _ = chunked(mails(body), policy="message")
    assert [(r["chunk_kind"], r["text_lex"], r["anchor_source"]) for r in rows] == [
        ("authored_message", "First answer.\nSecond answer.", "none"),
        ("review_pair", "First answer.", "quote"),
        ("review_pair", "Second answer.", "quote"),
    ]
    assert rows[0]["text_display"] == "First answer.\n\nSecond answer."
    assert {r["doc_id"] for r in rows} == {"m0"}


def test_with_policy_message_a_mail_is_whole_up_to_the_recursive_size() -> None:
    text = "\n\n".join([PARAGRAPH.strip()] * 12) + "\n"
    assert [r["chunk_kind"] for r in chunked(mails(text), policy="message")[0]] == [
        "authored_message"
    ]
    assert len(chunked(mails(text * 3), policy="message")[0]) > 1


BINARY = (
    "GIT binary patch\nliteral 14\nVcmZQzU|?bZVqjok0AdCY4FCZG01f~E\n\nliteral 0\nHcmV?d00001\n\n"
)
UUENCODED = "begin 644 a.gz\n" + "M" + "A" * 60 + "\n#0V%T\n`\nend\n"


@pytest.mark.parametrize("encoded", [BINARY, UUENCODED])
def test_encoded_binaries_are_no_text(encoded: str) -> None:
    text = f"{FILE.format('a.c')}{HUNK.format(1)}diff --git a/logo.png b/logo.png\n{encoded}"
    rows, excluded = chunked(mails("Attached.\n"), attachment(text, "patch"))
    assert not any("cmV" in r["text_embed"] or "AAAA" in r["text_embed"] for r in rows)
    assert "logo.png" in rows[-1]["diff_files"]
    binary = [r for r in excluded if r["reason"] == "binary"]
    assert "".join(text[r["byte_start"] : r["byte_end"]] for r in binary).split() == encoded.split()


def test_a_binary_patch_in_a_body_is_no_text() -> None:
    body = f"Add a logo.\n\n---\n{FILE.format('a.c')}{HUNK.format(1)}diff --git a/l.png b/l.png\n{BINARY}-- \n2.43.0\n"
    rows, excluded = chunked(mails(body))
    assert not any("cmV" in r["text_embed"] for r in rows)
    assert "binary" in {r["reason"] for r in excluded}


def test_a_patch_of_very_many_files_has_a_record_of_them_and_slow_parts() -> None:
    rows, _ = chunked(mails("Attached.\n"), attachment(patch(101, 1), "patch"))
    record, *parts = [r for r in rows if r["attachment_id"]]
    assert record["diff_files"] == [f"src/f{n}.c" for n in range(101)]
    assert (record["lane"], {r["lane"] for r in parts}) == ("fast", {"slow"})


def test_a_patch_that_cannot_be_read_has_a_record() -> None:
    rows, _ = chunked(mails("Attached.\n"), attachment("@@ broken\n+a\n-b\n", "patch", "x.patch"))
    assert [r["text_display"] for r in rows if r["attachment_id"]] == ["@@ broken\n+a\n-b"]


def test_ids_do_not_depend_on_positions() -> None:
    pairs = [f"> point {i}\n\nAnswer {i}.\n\n" for i in range(4)]
    before = {r["chunk_id"] for r in chunked(mails("".join(pairs)))[0]}
    after = {r["chunk_id"] for r in chunked(mails("> new\n\nInserted.\n\n" + "".join(pairs)))[0]}
    assert len(before) == 4
    assert before < after


def test_equal_texts_of_one_mail_have_their_own_ids() -> None:
    rows, _ = chunked(mails("> same\n\nYes.\n\n" * 3))
    assert len({r["chunk_id"] for r in rows}) == 3
    assert len({r["text_display"] for r in rows}) == 1


ADVERSARIAL = st.one_of(
    st.text(alphabet=" \n.!x>@-+", max_size=400),
    st.sampled_from(
        ["x" * 999, " " * 999, "\n" * 999, ". " * 500, "@@ -1 +1 @@\n" * 90, "--- a\n+++ b\n" * 90]
    ),
)


@given(ADVERSARIAL, st.integers(1, 60), st.integers(0, 80), st.booleans())
@examples(300)
def test_split_loops_end_cover_and_keep_their_bounds(
    text: str, limit: int, overlap: int, recursive: bool
) -> None:
    prose = list(
        prose_segments(text, 0, len(text), ProseLimits(limit, overlap, 4 * limit, recursive))
    )
    assert all(p.end - p.start <= (limit if recursive else 4 * limit) for p in prose)
    for segments in (
        prose,
        list(diff_segments(text, 0, len(text), limit, limit, 10)),
        list(section_segments(text, limit)),
        list(code_segments(text, limit)),
        list(sql_segments(text, limit)),
    ):
        at = 0
        for segment in segments:
            assert segment.start <= at < segment.end
            at = segment.end
        assert at == len(text)
        if segments is not prose:
            assert all(p.end - p.start <= limit for p in segments)


WORST = {
    "line": "x" * 500_000,
    "marks": "> " * 250_000 + "\nyes\n",
    "quote": "> " + "word " * 50_000 + "\n\nyes\n",
    "pairs": "> q\n\na\n\n" * 5_000,
    "mixed": "int f();\n\nprose here\n\n" * 5_000,
    "patch": patch(300, 4),
    "headers": "> On Mon, A wrote:\n" * 5_000 + "yes\n",
    "sentences": "A sentence. " * 25_000,
    "blanks": " " * 500_000,
    "empty": "\n" * 500_000,
    "paragraphs": "A paragraph.\n\n" * 25_000,
    "uuencode": "begin 644 x\n" * 12_500,
    "hunks": "@@ -1 +1 @@\n-a\n+b\n" * 12_500,
}


@pytest.mark.parametrize("name", some(WORST, each=3))
def test_worst_cases_end(name: str) -> None:
    rows, excluded = chunked(mails(WORST[name], in_reply_to="p"))
    assert rows or excluded
    assert all(r["char_count"] <= 12_000 + 1500 + 10 for r in rows)


def test_a_flowed_mail_is_shown_without_its_soft_line_ends_and_cited_with_them() -> None:
    body = "> How long does \n> it take?\nAbout as long \nas it took \nlast year.\n"
    (row,), _ = chunked(mails(body, subject="Re: time", in_reply_to="x", body_format="flowed"))
    assert row["text_display"] == "> How long does it take?\nAbout as long as it took last year."
    assert "Quoted point:\nHow long does it take?" in row["text_embed"]
    own = [s for s in row["spans"] if s["role"] == "own"]
    assert body[own[0]["byte_start"] : own[-1]["byte_end"]].startswith("About as long \nas it took")


def test_sql_is_cut_between_statements_and_not_inside_strings_or_function_bodies() -> None:
    function = "CREATE FUNCTION f{n}() RETURNS int AS $$\nBEGIN\n\nSELECT 1;\n\nEND;\n$$ LANGUAGE plpgsql;\n"
    insert = "INSERT INTO t VALUES ('a;\n\nb{n}'); -- one; more\n"
    text = "".join((function + insert).format(n=n) for n in range(6))
    rows, _ = chunked(mails("see"), attachment(text, "code", "dump.sql"), attachment_chars=170)
    segments = [r["text_display"] for r in rows[1:]]
    assert len(segments) == 6
    assert all(p.startswith("CREATE FUNCTION") and p.endswith("-- one; more") for p in segments)


def test_sql_that_is_broken_is_cut_as_other_code_is() -> None:
    text = "SELECT 'no end;\n\n" * 21
    assert list(sql_segments(text, 60)) == list(code_segments(text, 60))


@pytest.mark.parametrize(("most", "embedded"), [(None, True), (200, False), (100_000, True)])
def test_a_log_above_the_size_has_no_text_to_embed_and_all_its_words(
    most: int | None, embedded: bool
):
    log = "2004-01-05 10:00:00 ERROR compactor: queue is full\n" * 400
    made, _ = chunked(
        mails("It stops here."), attachment(log, "log", "x.log"), log_vector_chars=most
    )
    of_log = [row for row in made if row["content_class"] == "log"]
    assert len(of_log) > 1 and all("compactor" in row["text_lex"] for row in of_log)
    assert {row["text_embed"] != "" for row in of_log} == {embedded}
    assert {row["checksum"] == UNEMBEDDED for row in of_log} == {not embedded}
    assert all(row["text_embed"] for row in made if row["content_class"] != "log")
