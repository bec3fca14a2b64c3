"""After a fault of disk, clock or people, one build comes to what an undisturbed one publishes, and
says what it met.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import time_machine

from assets.partitions import MAIL
from dagster_project.cli.doctor import examination
from dagster_project.cli.render.builds import BuildView
from dagster_project.evaluation.evaluate import open_index
from dagster_project.index.publish.versions import CURRENT
from dagster_project.lake.parquet_files import CORRUPT
from dagster_project.orchestration.outcomes import BuildResult, Interrupted
from dagster_project.orchestration.plan import Plan
from tests.archives import (
    Mail,
    Workspace,
    differences,
    discussion,
    flip,
    lake_hashes,
    mbox,
    two_lists,
)
from tests.processes import weft
from transforms.errors import IndexUnavailableError


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def without_hash(footer: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """What Weft writes into a footer, without the hash of another footer."""
    return {name: value for name, value in footer.items() if name != b"weft.footer_hash"}


def of_another_schema(file: Path) -> None:
    table = pq.read_table(file)
    footer = pq.read_metadata(file).metadata
    other = table.rename_columns(["other", *table.column_names[1:]])
    pq.write_table(other.replace_schema_metadata(without_hash(footer)), file)


def of_another_type(file: Path) -> None:
    table = pq.read_table(file)
    footer = pq.read_metadata(file).metadata
    column = pa.chunked_array([pa.array([b"x"] * table.num_rows, pa.binary())])
    other = table.set_column(0, table.column_names[0], column)
    pq.write_table(other.replace_schema_metadata(without_hash(footer)), file)


def assert_undisturbed(work: Workspace, expected: Workspace) -> None:
    """The lake and the published file of `work` are those of `expected`."""
    assert differences(work.index, expected.index) == {}
    assert lake_hashes(work) == lake_hashes(expected)
    assert work.plan().is_empty


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "messages/dev/2004-01": (truncated, "no whole Parquet file"),
    "message_terms/dev/2004-02": (emptied, "no whole Parquet file"),
    "message_blocks/dev/2004-02": (Path.unlink, "missing"),
    "threads": (of_another_schema, "of another schema"),
    "chunk_context": (of_another_type, "of another schema"),
    "corpus_measures": (Path.unlink, "missing"),
    "embeddings/dev/2004-01": (truncated, "no whole Parquet file"),
    "embeddings/users/2004-01": (Path.unlink, "missing"),
}


def cut_inside(file: Path) -> None:
    """Lose some bytes of the content; the footer stays whole."""
    written = file.read_bytes()
    file.write_bytes(written[:100] + written[110:])


SPOILED_FILES: dict[str, Callable[[Path], None]] = {
    "messages/dev/2004-02": flip,
    "message_chunks/dev/2004-01": cut_inside,
    "message_terms/dev/2004-01": flip,
    "memberships": flip,
    "embeddings/dev/2004-02": flip,
}


@pytest.mark.exhaustive
def test_damage_of_all_kinds_is_named_and_repaired_by_one_command(
    built: Workspace, built_once: Workspace
):
    """Damage inside a file, which its footer does not show, and damage of whole files."""
    lake = Path(str(built.lake.base))
    files = {str(lake / f"{name}.parquet"): damage for name, damage in SPOILED_FILES.items()}
    for file, damage in files.items():
        damage(Path(file))
    assert built.plan().is_empty, "the footers tell nothing of it"
    (told,) = (f for f in examination(built.settings) if f.area == "lake")
    assert (
        told.state == "fault"
        and told.found.startswith(f"{len(files)} of")
        and "--verify" in told.remedy
    )
    damages = DAMAGES | {
        f"{table}/users/2004-01": (Path.unlink, "missing") for table in MAIL.tables
    }
    for name, (damage, _) in damages.items():
        damage(lake / f"{name}.parquet")
    done = weft(built.folder, "build", "--verify", "--json", "--config", built.config)
    assert done.code == 0, done.err
    expected = dict.fromkeys(files, CORRUPT) | {
        str(lake / f"{n}.parquet"): s for n, (_, s) in damages.items()
    }
    assert {
        f: expected[f] in said and expected[f] for f, said in done.told["damaged"].items()
    } == expected
    assert_undisturbed(built, built_once)


def older_chunks(file: Path) -> None:
    """The table as an older version of Weft may have written it: without a column, and with its own
    version.
    """
    table, footer = pq.read_table(file), dict(pq.read_metadata(file).metadata)
    footer[b"weft.code_version"] = b"0-" + footer[b"weft.code_version"].partition(b"-")[2]
    pq.write_table(
        table.drop_columns(["chunker"]).replace_schema_metadata(without_hash(footer)), file
    )


@pytest.mark.exhaustive
def test_lake_and_index_of_an_older_version_are_made_again_and_that_is_said(
    built: Workspace, built_once: Workspace
):
    older_chunks(Path(str(built.lake.path("message_chunks", "dev/2004-01"))))
    with duckdb.connect(str((built.index / CURRENT).resolve())) as connection:
        connection.execute(
            "UPDATE manifest SET value = 'older' WHERE key IN ('layout', 'layout_version')"
        )
    with pytest.raises(
        IndexUnavailableError, match="has the layout older, this version of Weft reads"
    ):
        open_index(built.settings)
    anew = "The published version is of another layout, tokenizer or model: the index is made from the lake alone"
    planned = weft(built.folder, "plan", "--config", built.config).out
    assert "1  message_chunks is of another version of Weft, such as dev/2004-01" in planned
    assert anew in planned and "damaged" not in planned
    done = weft(built.folder, "build", "--config", built.config)
    assert done.code == 0, done.err
    assert anew in done.out and "damaged" not in done.out
    assert_undisturbed(built, built_once)


def test_people_read_what_was_damaged_and_what_was_interrupted(capsys: pytest.CaptureFixture[str]):
    plan = Plan((), {}, (), True, damaged={"lake/threads.parquet": "missing"})
    with BuildView(show=True) as view:
        view.plan(plan)
        interrupted = Interrupted("some-run", "2004-01-05T10:00:00+00:00", ("threads",))
        view.summary(BuildResult(plan, None, 1.0, interrupted=(interrupted,)))
    told = " ".join(capsys.readouterr().out.split())
    assert "damaged, made again: lake/threads.parquet: missing" in told
    assert (
        "Recovered: run some-run of 2004-01-05T10:00:00+00:00 (threads) was ended before it was done: its files are kept."
    ) in told


@pytest.mark.exhaustive
def test_a_published_file_that_is_lost_while_it_is_read_is_published_again(
    built: Workspace, built_once: Workspace
):
    """With a file of the lake that is damaged inside, which the publisher meets as it has no
    version to copy from.
    """
    spoiled = Path(str(built.lake.path("message_terms", "dev/2004-01")))
    current = (built.index / CURRENT).resolve()
    query = ["What does the compactor do?"]
    with (
        duckdb.connect(str(current), read_only=True) as reader,
        closing(open_index(built.settings)) as opened,
    ):
        found = opened.search(query).hits.to_pylist()
        current.unlink()
        shutil.rmtree(current.with_suffix(".arrays"))
        assert reader.execute("SELECT count(*) FROM messages").fetchall() == [(21,)]
        assert opened.search(query).hits.to_pylist() == found
    with pytest.raises(IndexUnavailableError, match="weft build"):
        open_index(built.settings)
    flip(spoiled)
    result = built.build()
    assert "is missing" in result.plan.damaged[str(built.index / CURRENT)]
    assert result.plan.damaged[str(spoiled)] == CORRUPT
    assert_undisturbed(built, built_once)
    with closing(open_index(built.settings)) as again:
        assert again.search(query).hits.to_pylist() == found


@pytest.mark.exhaustive
@pytest.mark.parametrize("damage", [truncated, emptied])
def test_a_published_file_that_is_damaged_would_be_published_again(
    built: Workspace, damage: Callable[[Path], None]
):
    damage((built.index / CURRENT).resolve())
    plan = built.plan()
    assert plan.publish and "cannot be read" in plan.damaged[str(built.index / CURRENT)]


@pytest.mark.exhaustive
def test_a_clock_that_is_set_back_changes_nothing_but_times(
    built: Workspace, built_once: Workspace
):
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    file = built.folder / "mail/dev/dev.2004-01.mbox"
    before = file.read_bytes()
    with time_machine.travel(tomorrow):
        built.write("dev/dev.2004-01.mbox", before + mbox([Mail(40, "It was slower yesterday.")]))
        assert built.build().published
    for written in built.folder.rglob("*"):
        os.utime(written, (tomorrow.timestamp(), tomorrow.timestamp()), follow_symlinks=False)
    assert built.plan().is_empty
    file.write_bytes(before)
    told = weft(built.folder, "build", "--config", built.config)
    assert told.code == 0 and "behind the last publish" in told.out
    assert_undisturbed(built, built_once)
    assert built.sql("SELECT count(*) FROM readiness WHERE lag_seconds < 0") == [(0,)]


@pytest.mark.exhaustive
def test_a_partition_that_is_lost_while_it_is_read_and_comes_back_is_read_again(
    workspace: Workspace, tmp_path: Path
):
    workspace.write("dev.2004-01.mbox", discussion(0, 3, "compactor"))
    lost = workspace.write("dev.2004-02.mbox", discussion(10, 3, "planner"))
    aside = tmp_path / "aside"

    def lose(stage: str, partition: str | None, rows: int) -> None:
        if partition == "dev/2004-01" and not aside.exists():
            lost.rename(aside)

    assert workspace.build(tell=lose).published
    assert workspace.sql("SELECT count(*) FROM messages") == [(3,)]
    assert list(workspace.lake.partitions("messages")) == ["dev/2004-01"], (
        "a file that went is no longer read"
    )
    aside.rename(lost)
    assert list(workspace.build().plan.stale) == ["dev/2004-02"]
    counts = "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM quarantine)"
    assert workspace.sql(counts) == [(6, 0)]
    assert workspace.plan().is_empty


@contextmanager
def disk_of(folder: Path, kilobytes: int) -> Iterator[Callable[[int], None]]:
    """A disk of its own at `folder`; gives a function that changes its size. Skips where none may
    be mounted.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def mount(*options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", *options], check=True, capture_output=True)

    try:
        mount(f"size={kilobytes}k", "tmpfs", str(folder))
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"a small disk needs the right to mount one: {error}")
    try:
        yield lambda size: mount(f"remount,size={size}k", str(folder))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def used(folder: Path) -> int:
    """Kilobytes that the files below a folder take on a disk."""
    return sum(-(-p.lstat().st_size // 4096) * 4 for p in folder.rglob("*") if p.is_file())


@pytest.mark.exhaustive
def test_a_disk_that_is_full_at_each_third_is_told_and_with_room_the_next_build_goes_on(
    built_once: Workspace, tmp_path: Path
):
    work = two_lists(tmp_path / "work", storage={"root": "disk/state"})
    rooms = [int(used(built_once.settings.root) * share) for share in (1 / 6, 1 / 2, 5 / 6)]
    with disk_of(work.folder / "disk", rooms[0]) as resize:
        for room in rooms:
            resize(room)
            done = weft(work.folder, "build", "--json", "--config", work.config)
            assert done.code == 11, done.err
            said = done.err.splitlines()[-1]
            assert said.startswith("error: no room is left on the disk of")
            assert "make room, then `weft build`" in said
        resize(1 << 18)
        done = weft(work.folder, "build", "--json", "--config", work.config)
        assert done.code == 0, done.err
        assert_undisturbed(work, built_once)
