"""Relations made by bucket after each change of the sources are those that are made of the whole
lake.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ibis
import pyarrow as pa
import pytest

from assets.partitions import MAIL
from assets.pipeline import relation_stages, source_stages
from assets.protocols.lake import Partitions, Parts
from assets.stages.declaration import Stage
from assets.stages.stage import _Run
from assets.stages.stage_run import StageRun
from dagster_project.composition.objects import make_sources
from dagster_project.lake.io_manager import LakeIOManager
from dagster_project.lake.lake import ParquetLake, commit_all
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.system.long_work import LoggedProgress
from tests.archives import START, Mail, Workspace
from tests.fuzz.fuzzing import seeds
from transforms.mail.chunks.long_texts import AT_ONCE
from transforms.mail.threads import buckets, corpus_measures, threads

TEXT = (
    "The planner looks at every index of a table before it takes the first one of them,\n"
    "which costs a millisecond a table, and more where a table has many of them to look at,"
)
LEFT_OUT = {
    "message_terms",
    "message_references",
    "message_links",
    "document_links",
    "patch_series",
    "people",
    "corpus_measures",
}


class Relations:
    """The stages of mail up to context and counts of measures, run without Dagster over the lake of
    a workspace.
    """

    def __init__(self, work: Workspace):
        self.work, self.lake, s = work, work.lake, work.settings
        self.known: dict[str, str] = {}
        of_sources = source_stages(s, PackagedTokenCounter(), AT_ONCE)
        of_mail = [stage for stage in of_sources if stage.source_type == MAIL]
        self.mail = [stage for stage in of_mail if stage.name not in LEFT_OUT]
        self.stages = [stage for stage in relation_stages(s) if stage.name not in LEFT_OUT]

    def refresh(self) -> dict[str, set[str]]:
        """Make all that changed; by stage in buckets, the buckets that were made."""
        sources = make_sources(self.work.settings)
        present = {p.key: p.fingerprint for p in sources.discover()}
        for gone in set(self.lake.partitions("messages")) - present.keys():
            self.lake.remove(gone)
        changed = [key for key in sorted(present) if self.known.get(key) != present[key]]
        self.known = present
        for key in changed:
            for stage in self.mail:
                run = StageRun(stage, stage.settings, self.lake, sources=sources)
                readers = [
                    Partitions(table, partial(self.lake.read, table)) for table in stage.inputs
                ]
                commit_all(
                    [file for _, file, _ in run.stage_partition(key, readers, stage.outputs)]
                )
        made = {}
        for stage in self.stages:
            if stage.in_buckets:
                made[stage.name] = self._in_buckets(stage)
            else:
                self._store(stage, self._made(stage, self.tables(stage.inputs)))
        return made

    def tables(
        self, names: Sequence[str], manager: LakeIOManager | None = None
    ) -> dict[str, ibis.Table]:
        """Tables of the lake as the I/O manager opens them."""
        manager = manager or LakeIOManager(self.lake)
        partitions = self.lake.partitions("messages")
        return {
            name: manager.table(name, partitions if name in MAIL.tables else [None])
            for name in names
        }

    def stored(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of each table that is made in buckets, by its key."""
        return {
            name: _rows(self.lake.read(name).table, stage, name) for stage, name in self._bucketed()
        }

    def whole(self) -> dict[str, list[dict[str, Any]]]:
        """`stored`, as it would be if it were made of the whole lake."""
        found = {}
        for stage in self.stages:
            if stage.in_buckets:
                made = self._made(stage, self._published(stage))
                found |= {n: _rows(t, stage, n) for n, t in zip(stage.outputs, made, strict=True)}
        return found

    def _published(self, stage: Stage) -> dict[str, ibis.Table]:
        """What a stage in buckets reads, of the whole lake and each mail once."""
        tables = self.tables([*stage.inputs, "memberships"])
        once = {
            name: threads.canonical(tables[name], tables["memberships"], key)
            for name, key in (
                ("messages", "message_id"),
                ("message_chunks", "doc_id"),
                ("attachments", "message_id"),
            )
            if name in tables
        }
        if "thread_tree" in tables:
            once["thread_tree"] = tables["thread_tree"].filter(~tables["thread_tree"].is_ghost)
        return {name: (tables | once)[name] for name in stage.in_buckets or {}}

    def _bucketed(self) -> Iterator[tuple[Stage, str]]:
        return (
            (stage, name) for stage in self.stages if stage.in_buckets for name in stage.outputs
        )

    def _made(self, stage: Stage, tables: Mapping[str, ibis.Table]) -> Sequence[Any]:
        settings = [] if stage.settings is None else [stage.settings]
        nothing = SimpleNamespace(stored=lambda table, columns: None, evaluated=self.lake.evaluated)
        rows = [table.to_pyarrow() if stage.in_buckets else table for table in tables.values()]
        needed = {"lake": nothing} if stage.needs.resources else {}
        if stage.needs.code_version:
            needed["code_version"] = stage.code
        made = stage.make(*rows, *settings, **needed)
        return [made] if isinstance(made, pa.Table | ibis.Table) else made

    def _store(self, stage: Stage, made: Any) -> None:
        for name, data in zip(stage.outputs, getattr(made, "tables", made), strict=True):
            table = data.to_pyarrow() if isinstance(data, ibis.Table) else data
            version = stage.code_version(stage.settings)
            self.lake.stage(name, None, table, code_version=version, inputs={}).commit()

    def _in_buckets(self, stage: Stage) -> set[str]:
        loaded = self.tables([*stage.inputs, "mail_buckets"], manager := LakeIOManager(self.lake))
        context: Any = SimpleNamespace(
            resources=SimpleNamespace(
                lake=self.lake, io_manager=manager, progress=LoggedProgress()
            ),
            op_execution_context=SimpleNamespace(selected_output_names=set(stage.outputs)),
        )
        run = _Run(context, stage, stage.settings, loaded)
        made: set[str] = set()
        for output in list(run.buckets(stage.in_buckets or {})):
            parts = output.value
            assert isinstance(parts, Parts)
            made |= {name for name, _ in parts.new}
            version = stage.code_version(stage.settings)
            self.lake.stage_parts(output.output_name, parts, code_version=version).commit()
        return made


def _rows(table: pa.Table, stage: Stage, name: str) -> list[dict[str, Any]]:
    if name == "measure_counts":  # those of a bucket are no rows of the whole lake, their sums are
        table = corpus_measures.corpus_measures(ibis.memtable(table)).to_pyarrow()
    return sorted(
        table.to_pylist(), key=lambda row: [row[column] for column in stage.schemas[name].key]
    )


@pytest.fixture(scope="module", autouse=True)
def _small_buckets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(buckets, "_MOST", 3)
        yield


def archive(chance: random.Random, numbers: Sequence[int]) -> list[Mail]:
    """Mails of a few threads, some short, some that repeat the mail they answer, some without a
    parent.
    """
    return [
        Mail(
            number,
            chance.choice(
                [
                    "Yes.",
                    f"Run {number} was measured, and it keeps its pace.",
                    f"{TEXT}\n\nNo, never.",
                ]
            ),
            chance.choice(["Tea", "Re: Tea", f"Coffee {number % 3}"]),
            chance.choice([None, number - 1, number - 7, 900]),
            f"p{number % 3}@example.org",
            at=START + timedelta(minutes=number),
        )
        for number in numbers
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "chance"), list(seeds(1)))
def test_after_any_history_the_relations_are_those_of_the_whole_lake(
    tmp_path: Path, seed: int, chance: random.Random
):
    work = Workspace(tmp_path).configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
    )
    held = {
        "dev/a": list(range(12)),
        "users/b": list(range(40, 52)),
        "dev/c": list(range(800, 806)),
    }
    relations = Relations(work)
    for _ in range(3):
        name = chance.choice([*held, "users/d"])
        match chance.choice(["add", "remove", "late parent", "crosspost", "edit", "nothing"]):
            case "add":
                held[name] = sorted({*held.get(name, []), *chance.sample(range(1000), 3)})
            case "remove" if any(
                h != name and h[:3] == name[:3] for h in held
            ):  # no source without a file
                held.pop(name, None)
            case "late parent":
                held[name] = [*held.get(name, []), 900]
            case "crosspost":
                held["users/d"] = held.get("dev/a", [])[:4]
            case "edit":
                held[name] = held.get(name, [])[1:]
        for file in (work.folder / "mail").rglob("*.mbox"):
            file.unlink()
        for file_name, numbers in held.items():
            work.write(f"{file_name}.mbox", archive(random.Random(f"{seed % 3}{numbers}"), numbers))
        relations.refresh()
    assert relations.stored() == relations.whole()
    assert relations.refresh() == {
        "build_threads": set(),
        "inferred_quotes": set(),
        "build_chunk_context": set(),
        "measure_counts": set(),
    }


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory: pytest.TempPathFactory) -> Relations:
    work = Workspace(tmp_path_factory.mktemp("relations") / "work").configure()
    topics = [
        [Mail(n, f"About {n}.", f"Topic {n}"), Mail(n + 1, "A.", reply_to=n)]
        for n in range(0, 16, 2)
    ]
    work.write("dev.mbox", [each for topic in topics for each in topic])
    made = Relations(work)
    made.refresh()
    return made


@pytest.fixture
def relations(refreshed: Relations, tmp_path: Path) -> Relations:
    copy = Relations(refreshed.work.copied(tmp_path / "work"))
    copy.known = refreshed.known
    return copy


@pytest.mark.exhaustive
def test_a_reply_changes_the_bucket_of_its_thread_alone(relations: Relations):
    relations.work.write("dev.late.mbox", [Mail(20, "It does, as run 3 has shown.", reply_to=6)])
    made = relations.refresh()
    rows = relations.lake.read("mail_buckets").table.to_pylist()
    bucket_of = {row["message_id"]: row["bucket"] for row in rows}
    assert len(set(bucket_of.values())) > 3
    assert made["build_threads"] == {bucket_of["m6@example.org"]} == {bucket_of["m20@example.org"]}


@pytest.mark.exhaustive
def test_the_counts_of_a_mail_follow_the_blocks_of_another_under_its_id(relations: Relations):
    """The blocks of both have the id of the first, which is in another bucket than the second."""
    relations.work.write(
        "dev.late.mbox", [Mail(21, TEXT, reply_to=6, at=START - timedelta(hours=1))]
    )
    for quote in ("> How long is one of them?", f"> {TEXT}".replace("\n", "\n> ")):
        body = f"{quote}\n\nSo it does, as run 3 has shown."
        relations.work.write("dev.other.mbox", [Mail(90, body, ident="m21@example.org")])
        relations.refresh()
    assert relations.stored() == relations.whole()


def test_other_code_makes_all_buckets_again(relations: Relations, monkeypatch: pytest.MonkeyPatch):
    every = {row["bucket"] for row in relations.lake.read("mail_buckets").table.to_pylist()}
    stage = next(s for s in relations.stages if s.name == "build_threads")
    assert relations._in_buckets(stage) == set()
    (partition,) = relations.lake.partitions("messages")
    mails = relations.lake.read("messages", partition).table
    relations.lake.stage("messages", partition, mails, code_version="other", inputs={}).commit()
    assert relations._in_buckets(stage) == every
    monkeypatch.setattr(Stage, "code_version", lambda self, settings: "other-code")
    assert relations._in_buckets(stage) == every


@pytest.mark.exhaustive
def test_a_run_killed_between_two_parts_is_made_up_for(
    relations: Relations, monkeypatch: pytest.MonkeyPatch
):
    before = relations.stored()
    relations.work.write("dev.late.mbox", [Mail(20, "It does, as run 3 has shown.", reply_to=6)])
    with monkeypatch.context() as patched:
        patched.setattr(ParquetLake, "stage_parts", _killed)
        with pytest.raises(KeyboardInterrupt):
            relations.refresh()
    assert relations.lake.footer("threads") is None
    relations.refresh()
    assert relations.stored() == relations.whole() != before


def _killed(lake: ParquetLake, table: str, parts: Parts, *, code_version: str) -> None:
    for _, part in parts.new:
        part.commit()
    raise KeyboardInterrupt
