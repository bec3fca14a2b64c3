"""Author lines and headers of quotes in replies as mail programs of each language write them.

    python benchmarks/author_lines.py FOLDER

FOLDER is the git directory of a mail program with Android's texts in `values-CODE/strings.xml`
(thunderbird/thunderbird-android, Apache-2.0), of which the lines above a quote are read. A case is a
reply of two lines, one of such lines with a date and a name, and a quote with marks or below a block
of header fields. Printed are, by language, the number of cases, F1 of author lines, and the share of
the program's lines that are headers; then the share of thanks and greetings that are known as such.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

from blocks import weft
from printing import new_parser, new_table
from retrieval import show

from transforms.signs import has_sign

CODES = {
    "german": "de",
    "french": "fr",
    "spanish": "es",
    "italian": "it",
    "portuguese": "pt-rBR",
    "dutch": "nl",
    "polish": "pl",
    "russian": "ru",
    "ukrainian": "uk",
    "turkish": "tr",
    "japanese": "ja",
    "chinese": "zh-rCN",
    "korean": "ko",
}
PHRASES = Path(__file__).parents[1] / "tests" / "transforms" / "sign_phrases.toml"
_PLACE = "legacy/ui/legacy/src/main/res/values-{}/strings.xml"
_PREFIX = "message_compose_"
_FIELDS = ("from", "send_date", "to", "subject")
NAMES = (
    "Ann Example <ann@example.org>",
    "Ann Example",
    "ann@example.org",
    "山田太郎 <taro@example.org>",
)
DATES = ("2018-07-06 10:00", "06.07.2018 10:00", "6/7/18 10:00", "06.07.18", "2018/07/06 10:00:12")

Case = list[tuple[str, str]]
"""Lines of a mail with their labels."""


def main() -> None:
    """Print one row a language."""
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    phrases = tomllib.loads(PHRASES.read_text())
    columns = ("language", "cases", "author lines, F1", "headers", "thanks and greetings")
    table = new_table("replies by language", columns)
    for language, code in CODES.items():
        own = phrases[language]
        found = [
            (case, weft("\n".join(line for _, line in case) + "\n"))
            for case in cases(_texts(folder, code), own)
        ]
        signs = [has_sign(p, kind) for kind in ("thanks", "greeting") for p in own[kind]]
        headers = [k for case, kinds in found for k in _judged(case, kinds, "header")]
        share = sum(kind == "header" for kind in headers) / len(headers)
        table.add_row(
            language,
            str(len(found)),
            f"{_f1(found):.3f}",
            f"{share:.3f}",
            f"{sum(signs)} of {len(signs)}",
        )
    show(table, as_markdown=True)


def cases(texts: dict[str, str], own: dict[str, list[str]]) -> Iterator[Case]:
    """Replies with each line that the program writes above a quote, and with its block of fields."""
    above = [texts[name] for name in ("reply_header_fmt", "reply_header_fmt_with_date")]
    fields = [texts[f"quote_header_{name}"] for name in _FIELDS]
    for number, (date, name) in enumerate(product(DATES, NAMES)):
        reply = [("author", own["thanks"][number % 2]), ("author", own["question"][number % 2])]
        quoted = [own["plain"][number % 2], own["negation"][number % 2]]
        marked = [("quote", f"> {line}") for line in quoted]
        for template in above:
            line = template.replace("%1$s", date).replace("%2$s", name).replace("%s", name)
            yield [*reply, ("blank", ""), ("header", line), *marked]
        values = (name, date, "bo@example.org", own["plain"][0])
        block = [
            ("header", f"{field} {value}") for field, value in zip(fields, values, strict=True)
        ]
        yield [
            *reply,
            ("blank", ""),
            ("header", texts["quote_header_separator"]),
            *block,
            ("blank", ""),
            *(("quote", line) for line in quoted),
        ]


def _texts(folder: Path, code: str) -> dict[str, str]:
    command = ["git", "--git-dir", str(folder), "show", f"HEAD:{_PLACE.format(code)}"]
    root = ElementTree.fromstring(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        element.get("name", "").removeprefix(_PREFIX): re.sub(
            r"\\(['\"])", r"\1", "".join(element.itertext())
        )
        for element in root.iter("string")
    }


def _judged(case: Case, kinds: list[str], label: str) -> list[str]:
    return [kind for (own, _), kind in zip(case, kinds, strict=True) if own == label]


def _f1(found: list[tuple[Case, list[str]]]) -> float:
    pairs = [
        (own == "author", kind == "author")
        for case, kinds in found
        for (own, _), kind in zip(case, kinds, strict=True)
        if own != "blank"
    ]
    right = sum(own and kind for own, kind in pairs)
    return 2 * right / sum(own + kind for own, kind in pairs)


if __name__ == "__main__":
    main()
