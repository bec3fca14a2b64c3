"""What a lens does not show is in no answer: as if the index held nothing else."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dagster_project.cli.main import COMMANDS, main
from dagster_project.composition.objects import make_ledger, temporary_sweep
from dagster_project.config.settings import Settings
from dagster_project.index.search.opened_index import open_index
from dagster_project.ledger.ledger import Row
from dagster_project.outgoing.receipts import Receipts
from tests.archives import Mail, Workspace
from tests.assistants import Call, called
from tests.cases import examples
from tests.pages import BROWSED, pages
from tests.processes import forked
from tests.timing import HUNG
from transforms.settings.search import LensSettings

LENSES = {
    "public": "l:public",
    "secret": "source:secret",
    "notes": "source:notes",
    "open": "tag:open",
    "mails": "kind:message -l:secret",
    "young": "d:2020..",
    "chats": "kind:conversation",
    "nothing": "l:public kind:document",
    "clean": "source:desk sensitivity:public",
    "calm": "source:desk -sensitivity:secret",
    "keys": "sensitivity:secret",
    "bugs": "source:bugs tag:back",
}
SEEN = {
    "public": {"pubone", "pubtwo", "crossmark"},
    "secret": {"secone", "sectwo", "secreply", "crossmark"},
    "notes": {"noteopen", "shutmark", "noteshut.md"},
    "open": {"noteopen"},
    "mails": {"pubone", "pubtwo", "crossmark"},
    "young": {"chatword"},
    "chats": {"chatword"},
    "nothing": set(),
    "clean": {"deskclean"},
    "calm": {"deskclean", "deskmail"},
    "keys": {"deskkey"},
    "bugs": {"buglater"},
}
"""The marks of what each lens shows; every text, subject and author has its own."""
ALL = set.union(*SEEN.values())
CROSS = Mail(
    5,
    "The quorum of crossmark is shared.",
    "crossmark subject",
    sender="crossmark <crossmark@example.org>",
)


def marked(number: int, mark: str, reply_to: int | None = None) -> Mail:
    body = f"The quorum of {mark} needs {mark}text and the ledger of {mark}s."
    body += f"\n\nSigned-off-by: {mark} person <{mark}@work.example>"
    return Mail(
        number, body, f"{mark}subject quorum", reply_to, f"{mark} person <{mark}@example.org>"
    )


PUBLIC = [marked(1, "pubone"), marked(4, "pubtwo", reply_to=3), CROSS]
SECRET = [
    marked(2, "secone", reply_to=1),
    marked(3, "sectwo", reply_to=2),
    CROSS,
    Mail(6, "Yes, secreply.", "Re: secreply", 1, "secreply <secreply@example.org>"),
]
LONG = "The quorum sits at the long table by the window, and nobody has moved it for years. " * 12
DESK = {
    "deskclean": "",
    "deskmail": "Ask quill@example.org.",
    "deskkey": f"{LONG}\n\n## Further\n\nThe key is AKIAIOSFODNN7EXAMPLE.",
}
"""Notes by what they hold."""
BUGS = [
    {
        "number": n,
        "title": f"{mark} is slow",
        "body": f"The quorum of {mark} takes ages in 1.2.",
        "state": "open",
        "created_at": f"2005-01-0{n}T10:00:00Z",
        "html_url": f"https://example.org/o/r/issues/{n}",
        "user": {"login": "x"},
        "labels": [{"name": label}],
    }
    for n, mark, label in ((1, "bugfirst", "front"), (2, "buglater", "back"))
]
TABLES = (
    "messages",
    "chunks",
    "terms",
    "threads",
    "links",
    "memberships",
    "manifest",
    "duckdb_tables()",
)
EVERY_TABLE = " UNION ALL ".join(
    f"SELECT left(string_agg(t::VARCHAR, ' '), 9000) FROM {t} t" for t in TABLES
)
"""One statement, as each has a process of its own."""
QUERIES = (
    "quorum",
    "the ledger",
    "quorum of secone",
    "shutmark",
    "chatword",
    "secont",
    "f:sectwo",
    "l:secret",
    "tag:shut",
    '"quorum of"',
    "m1@example.org",
    "m3@example.org",
    "notes:noteshut.md",
    "sensitivity:secret",
    "desk:deskkey.md",
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two lists with a mail that is in both, a vault, a chat, notes of each sensitivity and issues."""
    made = Workspace(tmp_path_factory.mktemp("lenses") / "work")
    made.write("public.mbox", PUBLIC)
    made.write("secret.mbox", SECRET)
    made.put(
        "notes/noteopen.md",
        "---\ntags: [open]\n---\n# noteopen\n\nThe quorum of noteopen, see [[noteshut]] and [[twin]].\n",
    )
    made.put("notes/far/away/twin.md", "---\ntags: [open]\n---\n# Far\n\nTwo of them.\n")
    made.put("notes/twin.md", "---\ntags: [shut]\n---\n# Near\n\nTwo of them.\n")
    made.put("notes/.hidden/note.md", "# Hidden\n")
    made.put("notes/noteshut.md", "---\ntags: [shut]\n---\n# noteshut\n\nThe quorum of shutmark.\n")
    lines = [
        {
            "timestamp": "2024-01-05T10:00:00",
            "author": "chatword",
            "message": "The quorum of chatword.",
        }
    ]
    made.put("chats/chatword.jsonl", "\n".join(map(json.dumps, lines)) + "\n")
    for mark, text in DESK.items():
        made.put(f"desk/{mark}.md", f"# {mark}\n\nThe quorum of {mark}. {text}\n")
    made.put("bugs/issues.json", json.dumps(BUGS))
    made.configure(
        {"name": "desk", "kind": "tree", "path": "desk"},
        {"name": "bugs", "kind": "issues", "path": "bugs"},
        {"name": "public", "kind": "mbox", "path": "mail/public.mbox", "list_id": "public"},
        {"name": "secret", "kind": "mbox", "path": "mail/secret.mbox", "list_id": "secret"},
        {"name": "notes", "kind": "vault", "path": "notes"},
        {"name": "chat", "kind": "conversation", "path": "chats/*.jsonl", "pseudonyms": False},
        lenses=LENSES,
    )
    made.build()
    return made


def served(work: Workspace, lens: str, queries: Sequence[str]) -> Iterator[str]:
    """What the servers answer under a lens."""
    calls: list[Call] = [("list_sources", {})]
    for query in queries:
        calls += [
            ("search", {"query": query}),
            ("context", {"text": f"What of {query}? And the quorum?"}),
            *((name, {"id": query}) for name in ("get", "similar", "thread")),
            (
                "search",
                {
                    "query": query,
                    "options": {"expand": ["parent", "section", "links"], "weak": True},
                },
            ),
        ]
    calls += [
        (f"weft://{kind}/{query}", {}) for kind in ("document", "thread") for query in queries
    ]
    calls += [("sql", {"statement": EVERY_TABLE})] if "quorum" in queries else []
    answers = called(work.settings, *calls, lens=lens)
    assert "quorum" not in queries or not answers[-1].is_error, answers[-1].content
    yield from map(repr, answers)
    if "serve" in COMMANDS:
        yield from paged(work, lens, queries)


def paged(work: Workspace, lens: str, queries: Sequence[str]) -> Iterator[str]:
    """What the pages show under a lens."""
    with pages(work.settings, lens=lens) as client:
        for path in ("/", "/corpus", "/api/sources", *BROWSED):
            yield client.get(path).text
        for query in queries:
            for path in ("/", "/why", "/feed", "/api/search"):
                yield client.get(path, params={"q": query}).text
            for page in ("m", "t", "d", "c", "raw", "original", "open", "p", "mbox", "file"):
                yield client.get(f"/{page}/{query}", follow_redirects=False).text
            yield client.get("/why", params={"q": "quorum", "id": query}).text
            yield client.get("/api/thread", params={"id": query}).text


def told(work: Workspace, lens: str, *queries: str) -> Iterator[str]:
    """What every interface answers under a lens."""
    yield from served(work, lens, queries)
    under = ["--lens", lens, "--json", "--config", str(work.config)]
    for query in queries:
        yield (
            CliRunner()
            .invoke(main, ["context", "--stdin", *under], input=f"The quorum of {query}")
            .output
        )
    if "triage" in COMMANDS:
        yield CliRunner().invoke(main, ["triage", *under]).output
        yield Receipts(work.settings.root).path.read_text().rpartition('"weft triage"')[2]


@pytest.mark.parametrize(
    "lens",
    [
        "public",
        *(
            pytest.param(n, marks=pytest.mark.exhaustive)
            for n in ("notes", "clean", "calm", "bugs")
        ),
    ],
)
def test_a_lens_shows_what_it_names_and_nothing_else(work: Workspace, lens: str):
    everything = "".join(told(work, lens, "quorum", "m4@example.org"))
    assert {mark for mark in ALL if mark in everything} == SEEN[lens]
    assert lens in ("secret", "mails") or "secret" not in everything.replace(LENSES[lens], "")


@pytest.mark.exhaustive
@examples(4, suppress_health_check=list(HealthCheck))
@given(lens=st.sampled_from(sorted(LENSES)), query=st.sampled_from(QUERIES))
def test_nothing_outside_a_lens_is_in_any_answer(work: Workspace, lens: str, query: str):
    # What was asked is repeated in answers, so of a mark in the query what it is joined to is
    # looked for.
    hidden = {
        name
        for mark in ALL - SEEN[lens]
        for name in (
            [f"{mark}{end}" for end in ("subject", "text", " person", "@")]
            if mark in query
            else [mark]
        )
    }
    for said in told(work, lens, query):
        assert not {name for name in hidden if name in said}


@pytest.mark.exhaustive
def test_a_lens_is_like_an_index_of_nothing_else(work: Workspace):
    """Words, frequencies, threads, people and scores are those of an index that was built of the
    list alone.
    """
    alone = Workspace(work.folder.parent / "alone")
    alone.write("public.mbox", PUBLIC)
    alone.configure(
        {"name": "public", "kind": "mbox", "path": "mail/public.mbox", "list_id": "public"}
    )
    alone.build()
    tables = (
        "SELECT term, df FROM terms",
        "SELECT * EXCLUDE (bucket) FROM thread_tree",
        "FROM people",
        "SELECT * EXCLUDE (bucket) FROM threads",
        "FROM patch_series",
        "FROM links",
        "SELECT chunk_id, chunk_no FROM chunks",
        "SELECT form, chunk_count FROM term_forms",
        "SELECT list_id, source FROM memberships",
    )
    shown = ["chunk_id", "score", "citation"]
    with (
        closing(open_index(work.settings, lens="public")) as narrowed,
        closing(open_index(alone.settings)) as whole,
    ):
        for statement in tables:
            rows = [
                sorted(i.connection.execute(statement).fetchall(), key=str)
                for i in (narrowed, whole)
            ]
            assert rows[0] == rows[1]
        found = [
            i.search(["quorum of pubtwo", "ledger"]).hits.select(shown) for i in (narrowed, whole)
        ]
    assert found[0].to_pylist() == found[1].to_pylist()


@pytest.mark.parametrize("lens", [None, "notes"])
def test_every_answer_says_what_was_searched_and_under_a_lens_of_it_alone(
    work: Workspace, lens: str | None
):
    calls = (
        ("search", {"query": "quorum"}),
        ("similar", {"id": "notes:noteshut.md"}),
        ("context", {"text": "The quorum of noteopen?"}),
    )
    answers, under = called(work.settings, *calls, lens=lens), ["--config", str(work.config)]
    said = [answer.structured_content["completeness"] for answer in answers]
    context = ["context", "--stdin", "--json", *under, *(["--lens", lens] if lens else [])]
    said.append(
        json.loads(CliRunner().invoke(main, context, input="quorum").output)["completeness"]
    )
    if lens is None:
        found = CliRunner().invoke(main, ["search", "--json", "quorum", *under]).output
        said.append(json.loads(found)["completeness"])
    if "serve" in COMMANDS:
        with pages(work.settings, lens=lens) as client:
            for asked in ("search?q=quorum", "context?text=quorum"):
                said.append(client.get(f"/api/{asked}").json()["completeness"])
            shown = client.get("/", params={"q": "quorum"}).text
            assert (
                f"searchable: {said[0]['mails']} mails, {said[0]['documents']} documents" in shown
            )
    assert all(statement == said[0] for statement in said)
    names = (
        "mails",
        "documents",
        "turns",
        "held",
        "without_text",
        "set_aside",
        "unread",
        "not_seen",
        "missing_legs",
    )
    held = dict(zip(names, (0, 4, 0) if lens else (6, 9, 1), strict=False))
    expected = (*held.values(), held, 0, {} if lens else {"hidden": 1}, {}, {}, [])
    assert tuple(said[0][name] for name in names) == expected
    assert (said[0]["looked_at"] is None) == bool(lens)


@pytest.mark.parametrize(
    ("lenses", "name", "why"),
    [
        ({}, "public", "no lens is called 'public'"),
        ({"public": ""}, "public", "would show all"),
        ({"public": "quorum"}, "public", "conditions alone"),
        ({"public": "b:quorum"}, "public", "conditions alone"),
        ({"public": "l:public -s:quorum"}, "public", "would show all"),
        ({"public": "l:publik"}, "public", "holds no l:publik"),
        (
            {"public": "source:publik OR kind:message -source:publik"},
            "public",
            "holds no source:publik",
        ),
        (
            {"public": "kind:message -source:publik source:notthere"},
            "public",
            "holds no source:notthere:",
        ),
    ],
)
def test_a_lens_that_is_none_opens_nothing(
    work: Workspace, lenses: dict[str, str], name: str, why: str
):
    named = {lens: LensSettings.model_validate(where) for lens, where in lenses.items()}
    changed = work.settings.model_copy(update={"lenses": named})
    with pytest.raises(Exception, match=why):
        open_index(changed, lens=name)


def test_to_exclude_what_the_index_does_not_hold_excludes_nothing(work: Workspace):
    where = "kind:message l:public -source:gone -l:gone -(tag:gone OR type:gone) -source:secret -meta.gone:x"
    changed = work.settings.model_copy(update={"lenses": {"open": LensSettings(where=where)}})
    with closing(open_index(changed, lens="open")) as index:
        shown = index.connection.execute("SELECT message_id FROM messages ORDER BY ALL").fetchall()
    assert [mail for (mail,) in shown] == ["m1@example.org", "m4@example.org", "m5@example.org"]


def _narrow_until(event: str, settings: Settings) -> None:
    """Open a lens, and die when its file is ready: as it gets its name, or as what it is narrowed
    from goes.
    """
    sys.addaudithook(
        lambda name, what: os._exit(9) if name == event and "lens" in str(what) else None
    )
    open_index(settings, lens="narrow").close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("event", ["os.rename", "shutil.rmtree"])
def test_a_narrowing_that_was_killed_leaves_nothing_after_the_next_sweep(
    work: Workspace, event: str
):
    named = {"narrow": LensSettings(where=f"source:desk sensitivity:public -l:{event}")}
    settings = work.settings.model_copy(update={"lenses": named})
    before = set(settings.root.rglob("*"))
    process = forked(_narrow_until, event, settings)
    process.start()
    process.join()
    temporary_sweep(settings)
    left = set(settings.root.rglob("*")) - before
    assert process.exitcode == 9 and {p.name for p in left if p.is_file()} <= {".lock"}


def _open_at_once(settings: Settings) -> None:
    with ThreadPoolExecutor(len(settings.lenses)) as threads:
        list(threads.map(lambda lens: open_index(settings, lens=lens).close(), settings.lenses))


@pytest.mark.exhaustive
def test_lenses_that_are_opened_at_once_for_the_first_time_do_not_wait_for_each_other(
    work: Workspace,
):
    named = {f"one of many {n}": LensSettings(where="l:public") for n in range(16)}
    process = forked(_open_at_once, work.settings.model_copy(update={"lenses": named}))
    process.start()
    process.join(HUNG)
    process.kill()
    assert process.exitcode == 0


@pytest.mark.parametrize(
    ("lens", "target"), [("notes", "notes:twin.md"), ("open", "notes:far/away/twin.md")]
)
def test_a_link_that_several_notes_answer_leads_to_one_that_is_shown(
    work: Workspace, lens: str, target: str
):
    with closing(open_index(work.settings, lens=lens)) as index:
        links = index.connection.execute(
            "SELECT target, to_id FROM links WHERE from_id LIKE '%noteopen%'"
        ).fetchall()
    assert dict(links) == {
        "noteshut": None if lens == "open" else "notes:noteshut.md",
        "twin": target,
    }


@pytest.mark.parametrize("place", ["public", "secret"])
def test_a_mail_is_found_in_each_place_that_holds_a_copy_and_names_that_place(
    work: Workspace, place: str
):
    with closing(open_index(work.settings)) as index:
        queries = [
            f"crossmark source:{place}",
            f"crossmark l:{place}",
            f"source:{place} l:{place} s:crossmark",
        ]
        hits = index.search(queries).hits.to_pylist()
    found = {
        (h["query"], h["source"], h["list_id"]) for h in hits if h["doc_id"] == CROSS.message_id
    }
    assert found == {(query, place, place) for query in range(3)}


@pytest.mark.parametrize("is_damaged", [False, True])
def test_faults_and_state_under_a_lens_name_no_path_and_no_other_source(
    work: Workspace, tmp_path: Path, is_damaged: bool
):
    copy = work.copied(tmp_path / "work")
    changed: dict[Row, Row] = {("secret/new.mbox",): ("", "2999-01-01T00:00:00+00:00")}
    make_ledger(copy.settings).record("changes", changed)
    if is_damaged:
        for version in copy.index.glob("weft-*.duckdb"):
            version.write_bytes(b"nothing")
    calls = (("search", {"query": "quorum"}), ("sql", {"statement": "FROM nosuch"}))
    answers = str(called(copy.settings, *calls, lens="public"))
    if "serve" in COMMANDS:
        with pages(copy.settings, lens="public") as client:
            paths = ("/", "/?q=quorum", "/m/m9", "/api/search?q=quorum")
            answers += "".join(client.get(path).text for path in paths)
    assert not [
        name for name in ("secret", str(tmp_path), ".duckdb", "sources changed") if name in answers
    ]
    assert ("there is no answer now" in answers) is is_damaged


def test_a_lens_bounds_what_an_assistant_is_shown(work: Workspace):
    few = LensSettings(where="l:public", passages=2, tokens=60, share=0.5)
    changed = work.settings.model_copy(update={"lenses": {"few": few}})
    searches = (("search", {"query": "quorum", "limit": n}) for n in (1, 1, 9))
    first, again, more, sources = called(changed, *searches, ("list_sources", {}), lens="few")
    assert not first.is_error and not again.is_error and not sources.is_error
    assert more.is_error and "DisclosureLimitError" in more.content[0].text
    assert "ask for less" in more.content[0].text
