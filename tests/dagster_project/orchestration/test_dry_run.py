"""What `weft plan` says: why something is made again, how much it is, and what it takes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_project.orchestration.build import build
from dagster_project.orchestration.dry_run import Outlook, outlook
from tests.archives import Mail, Workspace, discussion

DEV = ["dev/2004-01", "dev/2004-02"]
ALL = [*DEV, "users/2004-01"]


def looked(work: Workspace) -> Outlook:
    with work.instance() as instance:
        return outlook(work.settings, instance)


def configured(work: Workspace, **sections: dict[str, object]) -> Workspace:
    """The workspace with its sources and other settings."""
    return work.configure(
        *({"name": s.name, "kind": s.kind, "path": s.path} for s in work.settings.sources),
        **sections,
    )


def test_nothing_is_to_do_after_a_build(built: Workspace):
    result = built.weft("plan", catch_exceptions=False)
    assert result.output == "Nothing to do: the index shows the 3 partitions of the sources.\n"


def test_a_source_that_is_missing_is_said_with_the_exit_code_of_a_build(built: Workspace):
    (built.folder / "mail" / "dev").rename(built.folder / "elsewhere")
    ends = {}
    for command in ("plan", "build"):
        for option in ([], ["--json"]):
            result = built.weft(command, *option)
            ends[command, *option] = (result.exit_code, result.stderr.rpartition("error: ")[2])
            if command == "plan":
                broken = json.loads(result.stdout)["broken"] if option else {}
                assert list(broken) == ["dev"] if option else "Nothing to do" in result.stdout
                assert option or "sources that can be read" in result.stdout
    assert len(set(ends.values())) == 1 and ends["plan",][0] == 4 and "dev" in ends["plan",][1]


def _more_mail(work: Workspace) -> None:
    path = work.folder / "mail" / "dev" / "dev.2004-02.mbox"
    path.write_bytes(path.read_bytes() * 2)


def _other_settings(work: Workspace) -> None:
    configured(work, chunks={"message_chars": 900})


def _other_chunker(work: Workspace) -> None:
    for table in ("message_chunks", "message_exclusions"):
        footer = work.lake.footer(table, ALL[0])
        assert footer
        older = "0-" + footer.code_version.partition("-")[2]
        stored = work.lake.read(table, ALL[0]).table
        work.lake.stage(table, ALL[0], stored, code_version=older, inputs=footer.inputs).commit()


REASONS: dict[str, tuple[Callable[[Workspace], object], int, str]] = {
    "source changed": (_more_mail, 1, "attachments"),
    "new": (
        lambda w: w.write("dev/dev.2004-03.mbox", discussion(700, 4, "planner")),
        1,
        "attachments",
    ),
    "other settings of message_chunks": (_other_settings, 3, "message_chunks"),
    "message_chunks is of another version of Weft": (_other_chunker, 1, "message_chunks"),
    "damaged": (
        lambda work: work.lake.path("messages", ALL[0]).write_bytes(b"PAR1"),
        1,
        "attachments",
    ),
    "message_terms is missing": (
        lambda w: w.lake.path("message_terms", ALL[0]).unlink(),
        1,
        "message_terms",
    ),
}
"""By reason the change that gives it, the number of its partitions, and the first table."""


@pytest.mark.parametrize("reason", REASONS)
def test_why_something_is_made_again(built: Workspace, reason: str):
    change, count, first_table = REASONS[reason]
    change(built)
    found = looked(built)
    assert found.reasons == {reason: count}
    assert found.pieces[0].tables[0] == first_table
    assert found.publishes and found.seconds is not None and found.seconds > 0
    if "message_chunks" in found.pieces[0].tables:
        assert found.texts > 0 and found.tokens > found.texts


def test_what_is_gone_and_other_whole_tables_are_told(built: Workspace, every_key: None):
    (built.folder / "mail" / "users" / "users.2004-01.mbox").unlink()
    built.write("users/users.2004-02.mbox", [Mail(400, "Still here.", "Still here")])
    configured(built, threads={"subject_days": 7})
    found = looked(built)
    assert found.removed == ("users/2004-01",)
    assert found.whole == {
        name: f"other settings of {name}" for name in ("mail_buckets", "threads", "thread_tree")
    }
    told = built.weft("plan", "--json", catch_exceptions=False)
    answer = json.loads(told.output)
    assert answer["outcome"] == "BUILD" and answer["reasons"] == {"new": 1}
    assert answer["seconds_by_step"]["build_threads"] >= 0


@pytest.mark.exhaustive
def test_readers_have_the_version_of_the_former_default_until_that_of_todays_is_whole(
    built: Workspace,
):
    configured(built, embedding={"model": "static"}).build()
    built.weft("cache", "prune", "--other-models")
    old = (built.index / "CURRENT").resolve()
    found = looked(configured(built))
    assert found.pieces == () and found.whole["embeddings"] == "other model or settings of it"
    assert found.texts == built.lake.read("embeddings").table.num_rows
    served: list[Path] = []

    def meanwhile(stage: str, partition: str | None, rows: int) -> None:
        if stage == "embeddings":
            served.append((built.index / "CURRENT").resolve())
            assert built.column("SELECT count(*) FROM chunks") == [21]
            assert built.weft("search", "compactor").exit_code == 0

    with built.instance() as instance:
        done = build(built.settings, instance, tell=meanwhile)
    assert set(served) == {old}
    assert done.published and (built.index / "CURRENT").resolve() != old
    assert built.column("SELECT DISTINCT model FROM embeddings") == ["weft-1-256"]
    assert built.weft("search", "compactor").exit_code == 0 and built.plan().is_empty
