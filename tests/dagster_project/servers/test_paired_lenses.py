"""Two workspaces that differ only outside a lens give the same bytes under it: ids, orders, names,
scores, tables.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.statements.context_sql import CONTEXT_TABLES
from tests.archives import Mail, Workspace
from tests.assistants import Call, called
from tests.pages import BROWSED, pages

LENSES = {
    "shown": "source:pub OR source:wiki OR source:talk",
    "listed": "l:public",
    "without": "-source:ahead -source:zeta -source:attic -source:asides",
    "unlisted": "kind:message -l:ahead -l:zeta",
    "attached": "source:pub (has:attachment OR larger:600 OR thread:m10@example.org)",
    "unanswered": "source:pub is:unanswered",
    "small": "source:pub -larger:300 -f:boss -sensitivity:secret",
}
ANSWERED = ("shown", "without", "attached", "small")
"""The lenses that are asked all questions too; the tables that answers come from are compared under
every lens.
"""
QUARRY = (
    "The quarry beside the mill was opened by the council in the spring of that year.\n"
    "Nobody who lived there had asked for a quarry, and the mill had to close in autumn.\n"
    "The council still pays for both of them, which the ledger of the town shows."
)
CANAL = (
    "The canal behind the dike was dug by prisoners in the winter of the great flood.\n"
    "Its lock was never finished, and the barges of the town still go round by the sea.\n"
    "A second lock was planned twice and paid for twice, as the ledger of the dike shows."
)
REFERRED = "<m1@example.org> <m20@example.org>"
FOOTER = (
    "\n_______________________________________________\nahead mailing list\nahead@lists.example.org"
)


def with_parts(number: int, body: str, subject: str, **files: str) -> Mail:
    parts = "".join(
        f'--part\nContent-Type: text/plain; name="{name}.txt"\nContent-Disposition: attachment; '
        f'filename="{name}.txt"\n\n{text}\n'
        for name, text in files.items()
    )
    text = f"--part\nContent-Type: text/plain\n\n{body}\n{parts}--part--"
    return Mail(
        number,
        text,
        subject,
        headers=["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="part"'],
    )


def patch(number: int, title: str, line: str, sender: str = "pat@example.org") -> Mail:
    diff = f"--- a/mill.c\n+++ b/mill.c\n@@ -1,2 +1,2 @@ int grind(void)\n-\treturn 0;\n+\treturn {line};\n"
    return Mail(number, f"Grind with {line}.\n\n---\n{diff}", title, sender=sender)


PUBLIC = [
    Mail(1, QUARRY, "The quarry"),
    with_parts(2, "The plan of the bridge is attached.", "The bridge"),
    with_parts(
        3, "Two plans of the tower were drawn.", "The tower", tower="The tower leans by a foot."
    ),
    Mail(4, "The well is deep and its water is cold, says the miller.", "The well"),
    Mail(5, "The orchard was sold to the miller.", "The orchard"),
    Mail(6, "Yes, certainly.", "Re: The quarry", 1, "bea@example.org"),
    Mail(
        7, "No, never.", "Re: The canal", 20, "cem@example.org", headers=[f"References: {REFERRED}"]
    ),
    Mail(8, f"{CANAL}\n\nThat is what I remember of it.", "Re: The canal", 20, "dot@example.org"),
    Mail(9, f"{QUARRY}\n\nThat is how it was.", "Re: The quarry", 1, "eve@example.org"),
    Mail(
        10,
        "The mill https://lore.kernel.org/r/m20@example.org and m21@example.org are old.",
        "The mill",
    ),
    patch(11, "[PATCH] mill: grind finer", "1"),
    Mail(12, "The dance of the millers was moved.", "Re: The dance", sender="fay@example.org"),
    *(
        Mail(n, "The well is deep and its water is cold, says the miller.", "The well")
        for n in (16, 17)
    ),
    Mail(14, "Perhaps.", "Re: The tower", 3, "gus@example.org"),
]
CROSSED = [
    PUBLIC[0],
    with_parts(
        2,
        "The plan of the bridge is attached.",
        "The bridge",
        plan="The bridge of secrets spans it.",
    ),
    with_parts(
        3,
        "Two plans of the tower were drawn.",
        "The tower",
        tower="The tower leans by a foot.",
        deed="The deed.",
    ),
    Mail(
        4,
        PUBLIC[3].body + FOOTER,
        "[ahead] The well",
        sender="Miller <ada@example.org>",
        headers=["Cc: boss@example.org"],
    ),
    Mail(6, "Yes, certainly.", "Re: The quarry", 1, "Bea Boss <bea@example.org>"),
]
HIDDEN = [
    *CROSSED,
    Mail(-9, "An older orchard.", "The orchard", ident="m5@example.org"),
    Mail(20, CANAL, "The canal", 1),
    Mail(21, "The council met in secret about the mill and the quarry.", "Re: The quarry", 1),
    Mail(22, "Yes.", "Re: The canal", 8, "Bea Boss <bea@example.org>"),
    patch(23, "[PATCH v2] mill: grind finer", "2"),
    patch(24, "[PATCH v0] mill: grind finer", "3", "ada@example.org"),
    Mail(-3, "A dance is held.", "The dance"),
    Mail(26, "They are.", "Re: The mill", 10, "hal@example.org"),
    Mail(
        25,
        "See m10@example.org.\n\nSigned-off-by: Bea <bea@example.org>\nSigned-off-by: Bea <bea@work.example>",
    ),
]
UNSAID = (b"met in secret", b"of secrets spans", b"An older orchard", b"boss@example.org")
"""What only hidden mails say."""
QUERIES = (
    "quarry",
    "the bridge plan",
    '"the tower"',
    "canal lock",
    "mill",
    "f:bea",
    "grind finer",
    "orchard sold",
    "Yes",
    "source:pub The well",
    "kind:message d:2004",
)
IDS = (*(f"m{n}@example.org" for n in (1, 2, 3, 4, 5, 7, 8, 10, 11, 12)), "wiki:mill.md", "mill")
TABLES = (
    "messages",
    "attachments",
    "blocks",
    "trailers",
    "memberships",
    "threads",
    "thread_tree",
    "links",
    "patch_series",
    "chunks",
    "chunk_context",
    "inferred_quotes",
    "embeddings",
    "embedding_refusals",
    "postings",
    "terms",
    "term_forms",
    "chunk_lengths",
    "documents",
    "nodes",
    "conversation_windows",
    "exclusions",
    "quarantine",
    "people",
)
DATED = "---\nupdated: 2020-05-01\n---\n"
OPTIONS = {"weak": True, "expand": ["parent", "section", "links"]}
LISTS = {"pub": "public", "ahead": "ahead", "zeta": "zeta"}
LINES = (
    {
        "timestamp": "2024-01-05T10:00:00",
        "author": "ida",
        "message": "The mill was loud in the night.",
    },
)


def workspace(made: Workspace, hidden: list[Mail]) -> Workspace:
    """Two lists, notes and a chat in the lens, and of each some outside of it; much of that with
    `hidden` mails.
    """
    made.write("pub.mbox", PUBLIC)
    made.write(
        "ahead.mbox", [Mail(30, "Nothing much.", "Nothing", sender="zed@example.org"), *hidden]
    )
    made.write(
        "zeta.mbox", [Mail(31, "Little else.", "Little", sender="zed@example.org"), *hidden[:5]]
    )
    made.put(
        "wiki/mill.md",
        f"{DATED}# mill\n\nThe mill of [[bridge]], [[cellar]] and [[mill]]. m21@example.org\n",
    )
    made.put("wiki/near/bridge.md", f"{DATED}# bridge\n\nThe bridge at the [[mill]].\n")
    made.put("attic/dust.md", "# dust\n\nDust.\n")
    made.put("talk/talk.jsonl", "\n".join(map(json.dumps, LINES)) + "\n")
    made.put("asides/asides.jsonl", json.dumps({**LINES[0], "message": "Hush."}) + "\n")
    if hidden:
        made.put("attic/bridge.md", "# bridge\n\nThe hidden bridge of [[mill]], m1@example.org.\n")
        made.put("attic/cellar.md", "# cellar\n\nThe cellar.\n")
        made.put(
            "asides/more.jsonl",
            json.dumps({**LINES[0], "author": "bea", "message": "The mill!"}) + "\n",
        )
    made.configure(
        *(
            {"name": n, "kind": "mbox", "path": f"mail/{n}.mbox", "list_id": LISTS[n]}
            for n in LISTS
        ),
        {"name": "wiki", "kind": "vault", "path": "wiki"},
        {"name": "attic", "kind": "vault", "path": "attic"},
        *(
            {"name": n, "kind": "conversation", "path": f"{n}/*.jsonl", "pseudonyms": False}
            for n in ("talk", "asides")
        ),
        lenses=LENSES,
        safety={"outputs": "send"},
    )
    made.build()
    return made


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Workspace]:
    """A workspace, and one that has more in its hidden sources."""
    folder = tmp_path_factory.mktemp("paired")
    return workspace(Workspace(folder / "few"), []), workspace(Workspace(folder / "many"), HIDDEN)


def tables(work: Workspace, lens: str) -> Iterator[tuple[str, str]]:
    with closing(open_index(work.settings, lens=lens)) as index:
        for table in TABLES:
            yield table, str(index.connection.execute(f"FROM {table} ORDER BY ALL").fetchall())


def told(
    work: Workspace, lens: str, queries: Sequence[str], ids: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """What the servers and the command line answer."""
    calls: list[Call] = [
        ("list_sources", {}),
        (
            "sql",
            {
                "statement": "SELECT * EXCLUDE (database_oid, schema_oid, table_oid) FROM duckdb_tables()"
            },
        ),
        *(("sql", {"statement": f"FROM {name} ORDER BY ALL"}) for name in CONTEXT_TABLES),
        *(("search", {"query": q, "options": OPTIONS}) for q in queries),
        ("context", {"text": "What of the quarry? And of the mill, the bridge and the canal?"}),
        *((name, {"id": i}) for i in ids for name in ("get", "similar", "thread")),
        *((f"weft://document/{i}", {}) for i in ids),
    ]
    for call, said in zip(calls, called(work.settings, *calls, lens=lens), strict=True):
        parts = getattr(said, "content", None) or getattr(said, "contents", None)
        yield str(call), str([part.text for part in parts] if parts else said)
    with pages(work.settings, lens=lens) as client:
        addresses = [
            "/",
            "/corpus",
            "/feed?q=mill",
            "/why?q=mill&id=m10@example.org",
            "/api/sources",
        ]
        addresses += [f"{page}?q={q}" for q in queries for page in ("/", "/api/search")] + BROWSED
        of_id = (
            "m",
            "t",
            "d",
            "c",
            "a",
            "raw",
            "original",
            "file",
            "document-file",
            "mbox",
            "api/thread",
        )
        addresses += [
            f"/{page}{'?id=' if page[3:4] == '/' else '/'}{i}" for i in ids for page in of_id
        ]
        addresses += [f"/verify?id={i} bytes 0-9" for i in ids]
        for page in addresses:
            yield page, client.get(page).text
    under = ["--lens", lens, "--json", "--config", str(work.config)]
    context = CliRunner().invoke(
        main, ["context", "--stdin", *under], input="The mill and the canal?"
    )
    yield "weft context", context.output


def bytes_of(said: str) -> str:
    """An answer without times of builds and durations, which no two runs share."""
    for varying in (
        r'(?<=seconds": )[0-9.e-]+',
        r"(?<=published )<time.*?</time>",
        r"(?<=<td>)(just now|\d+ (minutes?|hours?) ago)",
        r'(?<=<td class="number">)\d+ (s|min)(?=<)',
        r"[0-9.]+ ms",
        r"(?<=newest text came )\d+ \w+(?= ago)",
        r'(?<=class="part" width=")[0-9.]+',
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+",
        r'(?<=published_at":) ?"[^"]+|(?<=published )\d{4}-\d\d-\d\d \d\d:\d\d UTC',
        r'(?<=(?:CONTEXT|NO_HITS)", "version": ")\w+|(?<=manifest": "\d", "index_version": ")\w+',
    ):
        said = re.sub(varying, "", said)
    return said


@pytest.mark.exhaustive
@pytest.mark.parametrize("lens", LENSES)
def test_what_a_lens_hides_changes_no_table_and_no_answer(
    pair: tuple[Workspace, Workspace], lens: str
):
    number = sorted(LENSES).index(lens)
    queries, ids = (
        (QUERIES, IDS) if lens == "without" else (QUERIES[number % 3 :: 3], IDS[number % 3 :: 3])
    )
    rows = (
        [*tables(w, lens), *(told(w, lens, queries, ids) if lens in ANSWERED else ())] for w in pair
    )
    few, many = ({name: bytes_of(said) for name, said in of_one} for of_one in rows)
    assert [name for name, said in few.items() if said != many[name]] == []
    files = [file.read_bytes() for file in (pair[1].settings.root / "lenses").rglob("*.duckdb")]
    assert [word for word in UNSAID for data in files if word in data] == []
    mails, attachments = few["messages"], few["attachments"]
    partly = lens in ("attached", "unanswered", "small")
    assert mails != "[]" and (partly or all(mail.message_id in mails for mail in PUBLIC))
    assert lens in ("unlisted", "unanswered", "small") or "tower.txt" in attachments
