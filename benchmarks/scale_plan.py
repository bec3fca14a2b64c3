"""What 1, 10 and 100 million mails take, multiplied from what `scale.py --json` measured: the
tables of docs/scale.md.

    python benchmarks/scale.py --sizes 25000,60000,125000,250000 --json sizes.json
    python benchmarks/scale_plan.py sizes.json
    python benchmarks/scale.py --sizes 1000000 --longest 1500 --without-notmuch --json million.json
    python benchmarks/scale_plan.py sizes.json --built million.json

Prints the rates of each size with their growth, the exponent of the mails between the smallest and
the largest size: 1 where twice the mail takes twice as much. The plan multiplies the rates of the
largest size; what grows faster is to be measured with more mail before it is believed. Of a list
that was built, here of a million short mails, it prints what was measured beside what the rates of
the largest size say of as many chunks.
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

MILLIONS = (1, 10, 100)
STAGES = {
    "reading mail": ("messages",),
    "blocks": ("message_blocks",),
    "references": ("message_references",),
    "chunks": ("message_chunks", "slow_chunks"),
    "terms": ("message_terms", "slow_terms"),
}
"""The rows of what is made in partitions, by the stages of a build whose processor time they add
up.
"""
RELATIONS, PUBLISHING = "relations and vectors", "publishing"
REST = "starts, planning, Dagster"
"""Processor time in no stage."""
INDEX = "a version of the index, with its arrays"
QDRANT_SHARE = 0.37
"""Of a version whose texts stay in the lake and vectors in Qdrant; of a year of linux-erofs, 2,641
mails and few long attachments.
"""
POINT_KB = 2.44
"""A vector of 256 numbers, 123 postings of eight bytes, 128 bytes of graph and a payload of 300."""
VECTOR_KB = 1.1
"""Of a chunk in the cache."""
PARTITION_MAILS, PARTITION_OBJECTS, LISTED = 2_000, 18, 1_000
NODE_GB = 48
"""What a node of Qdrant with 64 GB has for points."""
CORE_HOUR, MILLION_REQUESTS, GB_MONTH, NODE_MONTH = 0.05, 5.0, 0.023, 300
"""Dollars."""

Size = Mapping[str, Any]
"""A size of `scale.py --json`, with `first_mails`: those of its first build."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measured", type=Path)
    parser.add_argument("--built", type=Path, help="figures of a list to compare the plan with")
    arguments = parser.parse_args()
    report = json.loads(arguments.measured.read_text())
    print("\n\n".join(tables(report)))
    if arguments.built:
        print(f"\n{compared(report, json.loads(arguments.built.read_text()))}")


def tables(report: Mapping[str, Any]) -> list[str]:
    """The rates of each size of a report of scale.py, and the plan in three tables, in Markdown."""
    sizes: list[Size] = [
        size
        | {"first_mails": size["mails"] - report["hour_mails"] * (1 + len(size["hours_before"]))}
        for size in sorted(report["sizes"], key=lambda size: int(size["mails"]))
    ]
    largest = sizes[-1]
    return [
        _rates(sizes),
        _multiplied(
            "a first build, static model",
            "ms of a core a mail",
            "core hours",
            _core_ms(largest),
            1e3 / 3600,
            1,
        ),
        _multiplied("bytes", "kB a mail", "GB", _kilobytes(largest), 1.0, 0),
        _counted(largest),
    ]


def compared(report: Mapping[str, Any], built: Mapping[str, Any]) -> str:
    """What the largest list of a report and the one of another take, and that of the other over
    what its chunks give.
    """
    sizes = [
        max(figures["sizes"], key=lambda size: int(size["mails"])) for figures in (report, built)
    ]
    values = {
        "chunks": [float(size["chunks"]) for size in sizes],
        "archive, GB": [size["archive_bytes"] / 1e9 for size in sizes],
        "first build, core hours": [size["first"]["processor"] / 3600 for size in sizes],
        "lake, GB": [size["lake_bytes"] / 1e9 for size in sizes],
        f"{INDEX}, GB": [size["index_bytes"] / 1e9 for size in sizes],
        "peak memory, GiB": [size["first"]["peak_mib"] / 1024 for size in sizes],
        "an hour with 300 mails, s": [size["hour"]["seconds"] for size in sizes],
        "an hour with nothing new, s": [size["nothing"]["seconds"] for size in sizes],
        "a search, ranked, p50, ms": [size["ranked"]["p50_ms"] for size in sizes],
    }
    more = values["chunks"][1] / values["chunks"][0]
    lines = [
        [
            row,
            *(f"{v:,.{0 if row == 'chunks' else 2}f}" for v in pair),
            f"{pair[1] / pair[0] / more:.2f}",
        ]
        for row, pair in values.items()
    ]
    head = ["", *(f"{size['mails']:,} mails" for size in sizes), "beside what its chunks give"]
    return _table(head, lines)


def _core_ms(size: Size) -> dict[str, float]:
    """Milliseconds of a core that each part of a first build takes for a mail, and all of them."""
    per_mail = 1e3 / size["first_mails"]
    used = {name: values["processor"] for name, values in size["first"]["stages"].items()}
    parts = {row: sum(used.pop(stage, 0.0) for stage in stages) for row, stages in STAGES.items()}
    published = [
        used.pop(name) for name in list(used) if name.startswith(("publish_", "search_index"))
    ]
    parts |= {RELATIONS: sum(used.values()), PUBLISHING: sum(published)}
    parts = {row: value * per_mail for row, value in parts.items()}
    total = size["first"]["processor"] * per_mail
    return {**parts, REST: max(total - sum(parts.values()), 0.0), "all": total}


def _kilobytes(size: Size) -> dict[str, float]:
    """Kilobytes that a mail takes in each place."""
    chunks = size["chunks"] / size["mails"]
    return {
        "mail, as mbox": size["archive_bytes"] / size["first_mails"] / 1e3,
        "lake": size["lake_bytes"] / size["mails"] / 1e3,
        INDEX: size["index_bytes"] / size["mails"] / 1e3,
        "the same beside Qdrant, computed": QDRANT_SHARE
        * size["index_bytes"]
        / size["mails"]
        / 1e3,
        "cache of vectors, computed": VECTOR_KB * chunks,
        "points in Qdrant, computed": POINT_KB * chunks,
    }


def _rates(sizes: Sequence[Size]) -> str:
    """The measured rates of each size."""
    cells: dict[str, list[float]] = {
        "chunks a mail": [size["chunks"] / size["mails"] for size in sizes]
    }
    for row in _core_ms(sizes[-1]):
        cells[f"{row}, ms"] = [_core_ms(size)[row] for size in sizes]
    for row in _kilobytes(sizes[-1]):
        cells[f"{row}, kB"] = [_kilobytes(size)[row] for size in sizes]
    whole = {
        "peak memory, MiB": [size["first"]["peak_mib"] for size in sizes],
        "an hour, s": [size["hour"]["seconds"] for size in sizes],
        "a search, p50, ms": [size["described"]["p50_ms"] for size in sizes],
    }
    cells |= whole
    lines = [
        [row, *(f"{v:,.2f}" for v in values), _growth(sizes, values, row in whole)]
        for row, values in cells.items()
    ]
    return _table(
        ["a mail takes", *(f"{size['mails']:,} mails" for size in sizes), "growth"], lines
    )


def _growth(sizes: Sequence[Size], values: Sequence[float], is_whole: bool) -> str:
    """The exponent of the mails by which a value of all mails grows; `is_whole` if it is not a
    value of one mail.
    """
    mails = sizes[-1]["mails"] / sizes[0]["mails"]
    if mails <= 1 or min(values[0], values[-1]) <= 0:
        return ""
    return f"{math.log(values[-1] / values[0]) / math.log(mails) + (not is_whole):.2f}"


def _multiplied(
    head: str, unit: str, of: str, rates: Mapping[str, float], factor: float, digits: int
) -> str:
    """Rates of a mail, and what they are for each number of millions."""
    rate_digits = 2 if digits else 1
    lines = [
        [row, f"{rate:,.{rate_digits}f}", *(f"{rate * factor * m:,.{digits}f}" for m in MILLIONS)]
        for row, rate in rates.items()
    ]
    return _table([head, unit, f"1 million, {of}", "10 million", "100 million"], lines)


def _counted(size: Size) -> str:
    """Objects, requests, memory, nodes and dollars of each number of millions."""
    hours, gigabytes = _core_ms(size)["all"] / 3.6, _kilobytes(size)
    partitions = [m * 10**6 // PARTITION_MAILS for m in MILLIONS]
    objects = [PARTITION_OBJECTS * count for count in partitions]
    nodes = [math.ceil(gigabytes["points in Qdrant, computed"] * m / NODE_GB) for m in MILLIONS]
    rows: dict[str, Iterable[str]] = {
        "partitions of 2,000 mails": (f"{n:,}" for n in partitions),
        "objects of the lake, 18 a partition": (f"{n:,}" for n in objects),
        "requests of a look": (f"{n // LISTED:,}" for n in objects),
        "nodes of Qdrant with 64 GB, vectors on disk, computed": map(str, nodes),
        "dollars of a first build": (f"{hours * m * CORE_HOUR:.1f}" for m in MILLIONS),
        "dollars of its puts": (f"{n * MILLION_REQUESTS / 1e6:.1f}" for n in objects),
        "dollars a month, lake": (f"{gigabytes['lake'] * m * GB_MONTH:.1f}" for m in MILLIONS),
        "dollars a month, nodes of Qdrant": (f"{n * NODE_MONTH:,}" for n in nodes),
    }
    return _table(
        ["", "1 million", "10 million", "100 million"],
        [[row, *cells] for row, cells in rows.items()],
    )


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines)).replace(
        "|  |", "| |"
    )


if __name__ == "__main__":
    main()
