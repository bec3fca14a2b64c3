"""How long it takes to publish: everything anew, and an hour's mail onto what is published.

    python benchmarks/publishing.py [--state FOLDER] [--chunks 100000 300000]

Builds the PostgreSQL lists and linux-erofs with Weft, copies their lake with `replicas.py` to each
number of chunks, publishes it from nothing, lets 300 mails come to the youngest partition, and
publishes again: onto the previous version, and from nothing. Prints wall and processor seconds, and
whether both made the same tables and the same arrays.
"""

import filecmp
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from printing import new_parser, new_table
from replicas import Replicas, replica_settings
from rich.console import Console
from search_speed import base_lake

from assets.partitions import MAIL
from dagster_project.composition.objects import make_lake, make_publisher
from dagster_project.index.files.arrays import folder_of
from dagster_project.index.publish.publisher import Published
from dagster_project.lake.lake import ParquetLake

NEW_MAILS = 300
_MAILS_BEFORE = 1000
"""Mails of the youngest partition before the new ones come: what a busy list has had in a month."""


def main() -> None:
    """Measure each size and print a table."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--state", type=Path, help="where lakes and indexes are kept; default: a temporary folder"
    )
    parser.add_argument("--chunks", type=int, nargs="+", default=[100_000, 300_000])
    arguments = parser.parse_args()
    columns = (
        "chunks",
        "from nothing, s",
        "processor, s",
        "onto the last, s",
        "processor, s",
        "the same",
    )
    table = new_table(f"{NEW_MAILS} new mails", columns, left=0)
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        base = base_lake(state)
        for chunks in arguments.chunks:
            table.add_row(*measured(base, state, chunks))
    Console(width=110).print(table)


def measured(base: ParquetLake, state: Path, chunks: int) -> tuple[str, ...]:
    """One row of the table."""
    settings = replica_settings(state, f"publishing_{chunks}")
    replicas = Replicas(base, make_lake(settings))
    copies = replicas.copies(chunks)
    partitions = {replicas.write_unit(copy): MAIL.name for copy in range(copies)}
    partitions[replicas.write_unit(copies, _MAILS_BEFORE)] = MAIL.name
    replicas.write_whole(copies + 1, _MAILS_BEFORE)
    publisher = make_publisher(settings, make_lake(settings))
    publisher.publish(partitions)
    replicas.write_unit(copies, _MAILS_BEFORE + NEW_MAILS)
    replicas.write_whole(copies + 1, _MAILS_BEFORE + NEW_MAILS)
    onto, taken = timed(lambda: publisher.publish(partitions))
    assert onto.reused and onto.changed == 1, onto
    kept = settings.root / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    (settings.root / "index").rename(kept)
    anew, full = timed(lambda: publisher.publish(partitions))
    same = same_content(kept / onto.path.name, anew.path)
    return (f"{anew.rows['chunks']:,}", *full, *taken, "yes" if same else "no")


def timed(work: Callable[[], Published]) -> tuple[Published, tuple[str, str]]:
    """What work returns, and its wall and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    made = work()
    return made, (f"{time.perf_counter() - wall:.1f}", f"{time.process_time() - processor:.1f}")


def same_content(one: Path, other: Path) -> bool:
    """True if the tables that search reads hold the same rows, and the arrays beside them the same
    bytes.

    The arrays in segments say the same in other places; the tests compare them.
    """
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{one}' AS a (READ_ONLY)")
        connection.execute(f"ATTACH '{other}' AS b (READ_ONLY)")
        for name in (
            "messages",
            "blocks",
            "chunks",
            "terms",
            "postings",
            "chunk_lengths",
            "term_forms",
            "embeddings",
        ):
            a, b = (_rows(of, name) for of in ("a", "b"))
            counts = connection.execute(
                f"SELECT (SELECT count(*) FROM ({a} EXCEPT ALL {b})), (SELECT count(*) FROM ({b} EXCEPT ALL {a}))"
            ).fetchone()
            if counts != (0, 0):
                return False
    # The rows of the hits stand in the order of the tables, which a publish onto another does not
    # keep.
    arrays = [
        path.name
        for path in folder_of(one).glob("*.npy")
        if not path.name.startswith(("hit_", "slots"))
    ]
    return not any(filecmp.cmpfiles(folder_of(one), folder_of(other), arrays, shallow=False)[1:])


def _rows(of: str, name: str) -> str:
    """The rows of a table of a version, without the numbers of terms, of which new ones are behind
    the others.
    """
    if name == "postings":
        return f"SELECT * EXCLUDE (term_id, df) FROM {of}.postings JOIN {of}.terms USING (term_id)"
    return f"SELECT {'* EXCLUDE (term_id)' if name == 'terms' else '*'} FROM {of}.{name}"


if __name__ == "__main__":
    main()
