"""What people read in hits: how many texts mix a quote with an answer, say nothing, or repeat a
higher hit.

    python benchmarks/shown.py CONFIG QUERIES.txt [--print FILE]

QUERIES.txt has a query a line. A hit of a mail is *mixed* if its text holds four words in a row
that only the quotes of the mail have and four that only its author's text has; *empty* if it is a
salutation, a sign-off or an attribution and nothing else; a *repeat* if four fifths of its
four-word sequences stand in a higher hit. `--print` writes the texts.
"""

import re
from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path

from dagster_project.config.settings import load_settings
from dagster_project.index.search.opened_index import open_index

_MARK = re.compile(r"(?m)^[ \t]*(?:>[ \t]?)+")
_EMPTY = re.compile(
    r"(?i)\W*(?:(?:hi|hello|hey|dear|thanks?|thank you|regards|cheers|all|everyone|folks|ok|best|sincerely)\b\W*)+"
    r"(?:[\w.\-]+\W*){0,3}|\W*|.{0,160}\b(?:wrote|writes|said)\s*:?\W*"
)
_QUOTES = """
SELECT byte_start, byte_end FROM blocks WHERE message_id = $id AND kind = 'quote'
UNION ALL SELECT byte_start, byte_end FROM inferred_quotes WHERE message_id = $id
"""


def grams(text: str) -> set[tuple[str, ...]]:
    """The sequences of four words of a text."""
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], words[3:], strict=False))


def main() -> None:
    """Search, count and print."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--print", type=Path, dest="target")
    arguments = parser.parse_args()
    queries = arguments.queries.read_text(encoding="utf-8").splitlines()
    counts = dict.fromkeys(("hits", "mixed", "empty", "repeats"), 0)
    lines: list[str] = []
    with closing(open_index(load_settings(arguments.config))) as index:
        for query in queries:
            lines.append(f"== {query}")
            above: set[tuple[str, ...]] = set()
            for hit in index.search([query], plain=True).hits.to_pylist():
                found = []
                text = grams(hit["snippet"])
                if hit["source_kind"] == "message":
                    rows = index.connection.execute(
                        "SELECT body FROM messages WHERE message_id = $id", {"id": hit["doc_id"]}
                    ).fetchone()
                    body = rows[0].encode()
                    spans = index.connection.execute(_QUOTES, {"id": hit["doc_id"]}).fetchall()
                    quoted = "\n".join(body[a:b].decode(errors="replace") for a, b in spans)
                    own = bytearray(body)
                    for a, b in spans:
                        own[a:b] = b"\n" * (b - a)
                    quotes = grams(_MARK.sub("", quoted))
                    authored = grams(own.decode(errors="replace"))
                    if text & (quotes - authored) and text & (authored - quotes):
                        found.append("mixed")
                    if _EMPTY.fullmatch(hit["snippet"].strip("… ")) and not hit.get("quoted_text"):
                        found.append("empty")
                text = grams(f"{hit['snippet']} {hit.get('quoted_text') or ''}")
                if (text and len(text & above) >= 0.8 * len(text)) or not hit["snippet"].strip(
                    "… "
                ):
                    found.append("repeats")
                above |= text
                counts["hits"] += 1
                for name in found:
                    counts[name] += 1
                facts = [hit["subject"], hit["from_name"], hit["chunk_kind"], hit["filename"]]
                lines.append(
                    f"{hit['rank']}. [{' '.join(found)}] {' · '.join(filter(None, facts))}"
                )
                if hit.get("quoted_text"):
                    lines.append(f"     > {hit['quoted_name']}: {hit['quoted_text']}")
                lines.append(f"     {hit['snippet']}")
    print(f"{len(queries)} queries: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    if arguments.target:
        arguments.target.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
