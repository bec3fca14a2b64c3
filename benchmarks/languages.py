"""Sections of a manual in two languages in one archive, found by their headings in other word
forms, by stemmer.

    python benchmarks/languages.py FOLDER CODE CODE [--state FOLDER]

FOLDER has a folder of pages for each language by its code (ISO 639-1), as `de` and `en` of Debian's
reference (`debian-reference-de`, `ch*.de.html`). A question is the heading of a section, each
content word of it in another form that the pages of the language have, if there is one: the most
frequent other word with the same stem. Right are the chunks of that section. All stemmers rank the
same questions: that of one language over the archive of both, both together, and, as the bound that
a mixed archive can reach, each over an archive of its language alone. Printed are nDCG@10 and
Recall@10 with 95 % intervals, how far both together are ahead, and the processor time of a query,
measured in turns.
"""

import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tasks
from printing import new_parser, new_table
from retrieval import show

from transforms.evaluation.quality import bootstrap
from transforms.languages import function_words, language_names
from transforms.settings.search import TermSettings
from transforms.text.terms import stems

CONFIG = '[storage]\nroot = "state"\n\n[terms]\nstemmer = "{}"\n\n[[sources]]\nname = "manual"\nkind = "tree"\npath = "{}"\n'
MEASURES = ("nDCG@10", "Recall@10")
ROUNDS = 3
_WORD = re.compile(r"[^\W\d_]{3,}")


def main() -> None:
    """Print one table a language."""
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("codes", nargs=2)
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    arguments = parser.parse_args()
    names = [language_names()[code] for code in arguments.codes]
    with tempfile.TemporaryDirectory() as temporary:
        state = (arguments.state or Path(temporary)) / "languages"
        for code in arguments.codes:
            shutil.copytree(arguments.folder / code, state / "pages" / code, dirs_exist_ok=True)
        mixed = {name: _index(state, name, state / "pages") for name in (*names, "+".join(names))}
        alone = {
            name: _index(state, name, state / "pages" / code, "alone")
            for code, name in zip(arguments.codes, names, strict=True)
        }
        for code, name in zip(arguments.codes, names, strict=True):
            prefix = f"{code}/"
            questions = _questions(mixed[name], prefix, name)
            systems = {
                f"{stemmer}, both languages": (index, prefix) for stemmer, index in mixed.items()
            }
            systems[f"{name}, its language alone"] = (alone[name], "")
            _print(name, questions, systems)


def _index(state: Path, stemmer: str, pages: Path, kind: str = "mixed") -> Any:
    folder = state / f"{kind}-{stemmer}"
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "weft.toml").write_text(CONFIG.format(stemmer, pages.resolve()))
    return tasks.built(folder / "weft.toml", {})


def _sections(index: Any, prefix: str) -> dict[int, tuple[str, str]]:
    """Page and heading of each chunk that has one, by chunk number."""
    rows = index.connection.execute(
        "SELECT chunk_no, split_part(doc_id, ':', 2), heading_path[-1] FROM chunks WHERE len(heading_path) > 0"
    ).fetchall()
    return {
        number: (page[len(prefix) :], heading)
        for number, page, heading in rows
        if page.startswith(prefix)
    }


def _questions(index: Any, prefix: str, language: str) -> list[tuple[str, tuple[str, str]]]:
    """Each section whose heading has a content word with another form: the heading in other forms,
    and the section.
    """
    settings = TermSettings(stemmer=language)
    texts = index.connection.execute(
        "SELECT text_display FROM chunks WHERE split_part(doc_id, ':', 2) LIKE ? || '%'", [prefix]
    ).fetchall()
    counts = Counter(word for (text,) in texts for word in _WORD.findall(text.lower()))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    by_stem: dict[str, list[str]] = {}
    for word, stem in zip(words, stems(words, settings), strict=True):
        by_stem.setdefault(stem, []).append(word)
    found = []
    left_out = {*function_words(language)}
    for section in sorted({*_sections(index, prefix).values()}):
        content = [w for w in _WORD.findall(section[1].lower()) if w not in left_out]
        forms = [
            _other(word, by_stem[stem]) if (stem := one) in by_stem else word
            for word, one in zip(content, stems(content, settings), strict=True)
        ]
        if forms != content and len(content) > 1:
            found.append((" ".join(forms), section))
    return found


def _other(word: str, forms: Sequence[str]) -> str:
    return next((form for form in forms if form != word), word)


def _print(
    language: str, questions: list[tuple[str, tuple[str, str]]], systems: dict[str, tuple[Any, str]]
) -> None:
    queries = [query for query, _ in questions]
    values, milliseconds = {}, {name: [] for name in systems}
    for name, (index, prefix) in systems.items():
        sections = _sections(index, prefix)
        right = [
            frozenset(str(n) for n, place in sections.items() if place == section)
            for _, section in questions
        ]
        items = {
            n: str(n) for (n,) in index.connection.execute("SELECT chunk_no FROM chunks").fetchall()
        }
        corpus = tasks.Corpus(name, index, [], items, {})
        task = tasks.Task(language, queries, right)
        values[name] = task.measured(tasks.weft_ranking(corpus, task).ranked)
    for _ in range(ROUNDS):
        for name, (index, _) in systems.items():
            for query in queries[::4]:
                start = time.process_time()
                index.search([query])
                milliseconds[name].append(1000 * (time.process_time() - start))
    both = next(name for name in systems if "+" in name)
    table = new_table(
        f"{language}: {len(queries)} questions",
        ("stemmer", *(c for m in MEASURES for c in (m, "95 %", "both ahead by")), "CPU ms, p50"),
        left=1,
    )
    for name, measured in values.items():
        cells = []
        for measure in MEASURES:
            own, ahead = (
                bootstrap(measured[measure]),
                bootstrap(values[both][measure] - measured[measure]),
            )
            cells += [
                f"{own.mean:.3f}",
                f"{own.low:.3f} to {own.high:.3f}",
                f"{ahead.mean:+.3f} ({ahead.low:+.3f} to {ahead.high:+.3f})",
            ]
        table.add_row(name, *cells, f"{np.median(milliseconds[name]):.1f}")
    show(table, as_markdown=True)


if __name__ == "__main__":
    main()
