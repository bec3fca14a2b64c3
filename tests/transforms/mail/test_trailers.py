"""Trailers name people and commits; whatever is quoted or a header of a forwarded mail is none."""

import pyarrow as pa
import pytest

from transforms.mail.trailers import message_trailers


def trailers(*bodies: str) -> list[dict[str, object]]:
    columns = {
        n: [f"{n}{i}" for i in range(len(bodies))] for n in ("message_id", "source", "partition")
    }
    return message_trailers(
        pa.table({**columns, "body": pa.array(bodies, pa.large_string())})
    ).to_pylist()


@pytest.mark.parametrize(
    ("line", "kind", "name", "addr"),
    [
        ("Signed-off-by: Ann Lee <ann@example.org>", "signed-off-by", "Ann Lee", "ann@example.org"),
        (
            "Reviewed-by: Ann Lee <Ann@Example.org> # v2 only",
            "reviewed-by",
            "Ann Lee",
            "ann@example.org",
        ),
        (
            "Reported-and-tested-by: bot+1@example.org",
            "reported-and-tested-by",
            None,
            "bot+1@example.org",
        ),
        ("Cc: <stable@example.org> # 5.4+", "cc", None, "stable@example.org"),
        ('Acked-by: "Lee, Ann" <ann@example.org>', "acked-by", "Lee, Ann", "ann@example.org"),
        ("Author: Ann Lee", "author", "Ann Lee", None),
        ("Reported-by: https://example.org/bug/1", "reported-by", None, None),
        ("Tested-by: Ann Lee\n  <ann@example.org>", "tested-by", "Ann Lee", "ann@example.org"),
    ],
)
def test_a_trailer_names_a_person(line: str, kind: str, name: str | None, addr: str | None):
    (row,) = trailers(f"A patch.\n\n{line}\n")
    assert (row["kind"], row["name"], row["addr"]) == (kind, name, addr)


def test_a_trailer_that_names_several_people_is_a_row_for_each():
    rows = trailers("Reviewed-by: Ann Lee <ann@example.org>, Bo Ek, Cy Oz (earlier version)\n")
    assert [(r["name"], r["addr"]) for r in rows] == [
        ("Ann Lee", "ann@example.org"),
        ("Bo Ek", None),
        ("Cy Oz", None),
    ]


@pytest.mark.parametrize(
    "line",
    [
        'Fixes: 0123abcd4567 ("gauges: count \\"zero\\" once")',
        'Fixes: 0123abcd4567 ("gauges: count\n\\"zero\\" once")',
    ],
)
def test_a_trailer_names_a_commit(line: str):
    (row,) = trailers(f"{line}\n")
    assert (row["commit_id"], row["commit_title"]) == (
        "0123abcd4567",
        'gauges: count \\"zero\\" once',
    )


def test_links_keep_what_they_say():
    rows = trailers("Closes: https://example.org/bug/7\nLink: https://example.org/m/1@x\n")
    assert [(r["kind"], r["value"]) for r in rows] == [
        ("closes", "https://example.org/bug/7"),
        ("link", "https://example.org/m/1@x"),
    ]


def test_offsets_are_bytes_of_the_mails_own_body():
    bodies = ["Grüße\nAcked-by: Ann Lee <ann@example.org>\n", "Cc: bo@example.org"]
    for row, body in zip(trailers(*bodies), bodies, strict=True):
        text = body.encode()[row["byte_start"] : row["byte_end"]].decode()
        assert text.endswith(row["value"]) and text.lower().startswith(f"{row['kind']}:")


@pytest.mark.parametrize(
    "text",
    [
        "> Reviewed-by: Ann Lee <ann@example.org>\n",
        "    Signed-off-by: Ann Lee <ann@example.org>\n",
        "From: Bo\nSent: Monday\nTo: Ann\nCc: Cy <cy@example.org>\nSubject: Hi\n",
        "commit 0123abcd4567\nAuthor: Ann Lee <ann@example.org>\nDate: Mon\n",
    ],
)
def test_what_is_quoted_or_a_header_is_no_trailer(text: str):
    assert trailers(text) == []
