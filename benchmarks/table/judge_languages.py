"""What a table of token vectors finds by itself in other languages, and across languages.

    python benchmarks/table/judge_languages.py PAGES JUDGE TABLE ...

PAGES has Debian's reference in several languages (`ch*.LANGUAGE.html` of debian-reference-LANGUAGE);
the heading of a section is the question, its text without the heading is right. JUDGE is the file of
`parallel.py` with the left-out chapters of Python's documentation: a paragraph in English asks for its
translation among those of its language. Both have nDCG@10 and Recall@10. No table is trained on them.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[1]))
from printing import new_parser, new_table
from retrieval import show

from transforms.embedding.vectors import unit_length

CODES = ("en", "de", "fr", "es", "it", "pt", "ja", "zh-cn")
_LEAST_CHARS, _MOST_CHARS, _LEAST_WORDS = 100, 2_500, 8
_HEADING = re.compile(r"(?s)<h[2-5][^>]*title[^>]*>(.*?)</h[2-5]>")
_TAG = re.compile(r"<[^>]+>|\s+")
_NUMBER = re.compile(r"^\s*(?:Kapitel|Chapter|Chapitre|Capítulo|Capitolo)?[\s\d.]+")


def main() -> None:
    """Print two tables for each table of vectors."""
    parser = new_parser(__doc__)
    parser.add_argument("pages", type=Path)
    parser.add_argument("judge", type=Path)
    parser.add_argument("tables", type=Path, nargs="+")
    arguments = parser.parse_args()
    sections = {code: sections_of(arguments.pages, code) for code in CODES}
    places = sorted(set.intersection(*map(set, sections.values())))
    pairs = defaultdict(list)
    for line in arguments.judge.open():
        pair = json.loads(line)
        if len(pair["english"].split()) >= _LEAST_WORDS:
            pairs[pair["language"]].append(pair)
    for folder in arguments.tables:
        print_sections(folder, sections, places)
        print_paragraphs(folder, pairs)


def sections_of(folder: Path, code: str) -> dict[tuple[str, int], tuple[str, str]]:
    """The heading and the text of each section of a language, by its chapter and number."""
    found = {}
    for file in sorted(folder.glob(f"ch*.{code}.html")):
        _, *parts = _HEADING.split(file.read_text(encoding="utf-8", errors="replace"))
        for number, (heading, text) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
            title, body = (" ".join(_TAG.sub(" ", part).split()) for part in (heading, text))
            if len(body) > _LEAST_CHARS:
                found[file.name.split(".")[0], number] = (
                    _NUMBER.sub("", title),
                    body[:_MOST_CHARS],
                )
    return found


def vectors(folder: Path, texts: list[str]) -> np.ndarray:
    """The vectors of texts by a table, as Weft makes them."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    own = load_file(folder / "table.safetensors")
    rows = own["rows"] * own["scale"][:, None]
    encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return unit_length(np.stack([rows[e.ids or [1]].sum(axis=0) for e in encoded]))


def measured(asked: np.ndarray, texts: np.ndarray) -> tuple[float, float]:
    """nDCG@10 and Recall@10 if each row of `asked` asks for the same row of `texts`."""
    cosines = asked @ texts.T
    rank = (cosines > cosines.diagonal()[:, None]).sum(axis=1)
    return float(((rank < 10) / np.log2(rank + 2)).mean()), float((rank < 10).mean())


def print_sections(folder: Path, sections: dict, places: list) -> None:
    """Questions in the language of the sections and in English, by language."""
    heads, texts = (
        {
            code: vectors(folder, [own[p][part] or "-" for p in places])
            for code, own in sections.items()
        }
        for part in (0, 1)
    )
    english, _ = measured(heads["en"], texts["en"])
    columns = ("language", "nDCG@10", "of English", "English asks: nDCG@10", "Recall@10")
    table = new_table(f"{folder.name}: {len(places)} sections of Debian's reference", columns)
    for code in CODES:
        (own, _), (cross, recall) = (measured(heads[c], texts[code]) for c in (code, "en"))
        table.add_row(code, f"{own:.3f}", f"{own / english:.2f}", f"{cross:.3f}", f"{recall:.3f}")
    show(table, as_markdown=True)


def print_paragraphs(folder: Path, pairs: dict) -> None:
    """Paragraphs in English that ask for their translations, by language."""
    columns = ("language", "paragraphs", "nDCG@10", "Recall@10")
    table = new_table(f"{folder.name}: left-out chapters of Python's documentation", columns)
    for code, own in sorted(pairs.items()):
        english, other = (vectors(folder, [p[side] for p in own]) for side in ("english", "other"))
        gain, recall = measured(english, other)
        table.add_row(code, str(len(own)), f"{gain:.3f}", f"{recall:.3f}")
    show(table, as_markdown=True)


if __name__ == "__main__":
    main()
