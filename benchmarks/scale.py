"""A whole list archive built, then the mail of some hours added.

    python benchmarks/scale.py [--share 1.0] [--seed 1] [--folder FOLDER] [--grain auto]

Makes the archive of `scale_corpus.py` (kept in FOLDER, if one is given), builds it with `weft build`, and prints
seconds, rates and peak memory of every stage; then appends 300 mails to the last month three times, as hours bring them,
and prints what the next `weft build` takes each time, process start included, and the one after that, which has nothing to
do. The third is the first that finds a version to change in place.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import mail_collections as collections
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table
from scale_corpus import Writer, described, in_time, plan, pools
from stages import built

HOURS, HOUR = 3, 300


def main() -> None:
    """Run and print everything."""
    parser = new_parser(__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the messages of the model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where archive and index stay")
    parser.add_argument("--grain", choices=["auto", "month", "year"], default="auto", help="partition grain")
    arguments = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        mail, made = folder / "mail", plan(arguments.share, arguments.seed)
        if mail.exists():
            parser.error(f"{mail} holds an archive, to which this one would be added: name an empty folder")
        text = pools(collections.corpora_folder())
        console.print(described(made))
        order = in_time(made)
        archived, coming = order[: -HOURS * HOUR], order[-HOURS * HOUR :]
        Writer(made, text).write(mail, archived)
        megabytes = sum(file.stat().st_size for file in mail.iterdir()) / 1e6
        first = built(folder, f"{mail}/scale.*", arguments.grain)
        console.print(stage_table(first, len(archived), megabytes))
        for hour in range(HOURS):
            Writer(made, text).write(mail, coming[hour * HOUR : (hour + 1) * HOUR])
            tell_hour(console, f"hour {hour + 1}, with {HOUR} new mails", folder, mail, arguments.grain)
        tell_hour(console, "an hour with nothing new", folder, mail, arguments.grain)


def tell_hour(console: Console, title: str, folder: Path, mail: Path, grain: str) -> None:
    """Build once more, and print what took longest."""
    hour = built(folder, f"{mail}/scale.*", grain)
    slowest = sorted(hour["stages"].items(), key=lambda item: -item[1]["seconds"])[:6]
    told = ", ".join(f"{name} {values['seconds']:.1f} s" for name, values in slowest)
    how = "in place" if (hour["published"] or {}).get("changed_in_place") else "by a copy"
    console.print(
        f"{title}: {hour['wall']:.1f} s, process start included, {hour['peak']:,.0f} MiB "
        f"({f'{told}; published {how}' if hour['published'] else hour['outcome']})"
    )


def stage_table(result: dict[str, dict[str, dict[str, float]]], mails: int, megabytes: float) -> Table:
    """Seconds and rates per stage."""
    table = new_table(f"{mails:,} mails, {megabytes:,.0f} MB", ("stage", "rows", "seconds", "rows/s"))
    for stage, values in result["stages"].items():
        rate = f"{values['rows'] / values['seconds']:,.0f}" if values["rows"] else ""
        table.add_row(stage, f"{values['rows']:,}", f"{values['seconds']:.1f}", rate)
    for name, key in (("mbox to published", "seconds"), ("with process start", "wall")):
        seconds = float(result[key])  # type: ignore[arg-type]
        table.add_row(
            name, f"{mails:,}", f"{seconds:.1f}", f"{mails / seconds:,.0f}; {megabytes / seconds:.1f} MB/s"
        )
    table.caption = (
        f"peak memory {result['peak']:,.0f} MiB, of all processes ({result['peak_mapped']:,.0f} with mapped files); "
        f"processor time {result['processor']:,.0f} s"
    )
    return table


if __name__ == "__main__":
    main()
