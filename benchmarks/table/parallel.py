"""Texts in English and, beside them, in another language, from bare copies of public repositories.

    python benchmarks/table/parallel.py FOLDER OUT

FOLDER has the git directory of each of REPOSITORIES as `owner+name/repo`. OUT (JSON lines) has
`language`, `part`, `english` and `other`. The chapters LEFT_OUT of
Python's documentation go to OUT with `.judge` behind its name: no language is trained on them.
"""

import ast
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from printing import new_parser

LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "tr", "ja", "zh", "ko")
LEFT_OUT = ("tutorial/classes.po", "tutorial/errors.po", "tutorial/inputoutput.po")
_CHANGELOG = "whatsnew/changelog"
_PYTHON = {
    "fr": ("python+python-docs-fr", "3.13"),
    "es": ("python+python-docs-es", "3.12"),
    "it": ("python+python-docs-it", "3.13"),
    "ja": ("python+python-docs-ja", "3.11"),
    "ko": ("python+python-docs-ko", "3.13"),
    "pl": ("python+python-docs-pl", "3.13"),
    "pt": ("python+python-docs-pt-br", "3.15"),
    "uk": ("python+python-docs-uk", "3.13"),
    "tr": ("python+python-docs-tr", "3.12"),
    "zh": ("python+python-docs-zh-cn", "3.14"),
}
_ANDROID = (
    "thunderbird+thunderbird-android",
    "LineageOS+android_packages_apps_Messaging",
    "LineageOS+android_packages_apps_Email",
    "LineageOS+android_packages_apps_Dialer",
    "LineageOS+android_packages_apps_Calendar",
)
REPOSITORIES = (
    *(name for name, _ in _PYTHON.values()),
    "unicode-org+cldr-json",
    "jupyterlab+language-packs",
    "wagtail+wagtail",
    "openstreetmap+id-tagging-schema",
    "electron+i18n",
    "nodejs+i18n",
    "matrix-org+matrix-react-sdk",
    "JabRef+jabref",
    *_ANDROID,
)
_MARKUP = (
    (re.compile(r":[\w:+-]+:`([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),
    (re.compile(r"`([^`<]*?)\s*<[^`>]*>`_*"), r"\1"),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"<[^<>\n]{1,200}>|\|[\w ]+\||\\"), " "),
    (re.compile(r"[`*]+"), " "),
    (re.compile(r"%(?:\d\$)?[sd]|%\(\w+\)s|\{+\w*\}+|https?://\S+"), " "),
    (re.compile(r"\s+"), " "),
)


Pair = tuple[str, str, str, str, str]
"""Part, language, name of the place, English text, other text."""


def main() -> None:
    """Write the pairs of all parts, each once."""
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    counts, seen = Counter[str](), set[tuple[str, str, str]]()
    judge = arguments.out.with_name(f"{arguments.out.name}.judge")
    with arguments.out.open("w") as out, judge.open("w") as aside:
        for part, language, name, english, other in _pairs(arguments.folder):
            pair = (language, plain(english), plain(other))
            if pair[1] == pair[2] or not all(pair) or pair in seen:
                continue
            seen.add(pair)
            row = {"language": language, "part": part, "english": pair[1], "other": pair[2]}
            is_left_out = part == "python" and name in LEFT_OUT
            (aside if is_left_out else out).write(
                json.dumps(row | {"name": name}, ensure_ascii=False) + "\n"
            )
            counts[f"{part} {language}{' left out' * is_left_out}"] += 1
    for name, count in sorted(counts.items()):
        print(f"{count:>8,} {name}")


def plain(text: str) -> str:
    """A text without markup, placeholders and addresses, on one line."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()


def _pairs(folder: Path) -> Iterator[Pair]:
    for language, (name, branch) in _PYTHON.items():
        for path, text in _files(folder / name / "repo", branch, lambda p: p.endswith(".po")):
            if not path.startswith((_CHANGELOG, ".")):
                yield from (("python", language, path, *pair) for pair in po_pairs(text))
    yield from _names(folder / "unicode-org+cldr-json" / "repo")
    yield from _catalogues(folder / "jupyterlab+language-packs" / "repo", "jupyter")
    yield from _catalogues(folder / "wagtail+wagtail" / "repo", "wagtail")
    yield from _map_terms(folder / "openstreetmap+id-tagging-schema" / "repo")
    yield from _pages(folder / "electron+i18n" / "repo", "electron", "content/")
    yield from _pages(folder / "nodejs+i18n" / "repo", "nodejs", "content/v13.x/")
    yield from _strings(folder)


def _files(
    repository: Path, branch: str, wanted: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    git = ["git", "--git-dir", str(repository)]
    if not (repository / "HEAD").exists():
        git[2] = str(repository / ".git")
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "--name-only", "-z", branch], capture_output=True, check=True
    )
    names = [name for name in listed.stdout.decode().split("\0") if name and wanted(name)]
    asked = "".join(f"{branch}:{name}\n" for name in names)
    with subprocess.Popen(
        [*git, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as batch:
        assert batch.stdin is not None
        assert batch.stdout is not None
        for name, line in zip(names, asked.splitlines(keepends=True), strict=True):
            batch.stdin.write(line.encode())
            batch.stdin.flush()
            *_, size = batch.stdout.readline().split()
            if size == b"missing":  # A snapshot may lack its largest files.
                continue
            yield name, batch.stdout.read(int(size) + 1).decode(errors="replace")
        batch.stdin.close()


def po_pairs(text: str) -> Iterator[tuple[str, str]]:
    """The English texts of a file of translations, each with its translation, but for fuzzy ones."""
    for entry in re.split(r"\n\s*\n", text):
        if re.search(r"(?m)^#,.*fuzzy", entry):
            continue
        english, other = (_po_text(entry, key) for key in ("msgid", "msgstr"))
        if english and other:
            yield english, other


def _po_text(entry: str, key: str) -> str:
    match = re.search(rf'(?m)^{key} ((?:".*"\n?)+)', entry)
    lines = match[1].strip().split("\n") if match else []
    try:
        return "".join(ast.literal_eval(line) for line in lines)
    except (SyntaxError, ValueError):
        return ""


def _names(repository: Path) -> Iterator[Pair]:
    """The names and keywords of signs, countries, languages, currencies and units."""
    suffix = re.compile(
        r"/(?:main|annotations|annotationsDerived)/(en|" + "|".join(LANGUAGES) + r")/(\w+)\.json$"
    )
    kinds = {
        "annotations",
        "territories",
        "languages",
        "currencies",
        "units",
        "dateFields",
        "ca-gregorian",
    }
    texts: dict[tuple[str, str], dict[str, str]] = {}

    def wanted(path: str) -> bool:
        match = suffix.search(path)
        return (
            match is not None
            and path.count("-full/") == 1
            and (match[2] in kinds or "ca-gregorian" in path)
        )

    for path, text in _files(repository, "HEAD", wanted):
        match = suffix.search(path)
        assert match is not None
        key = path[: match.start()] + match[2]
        texts.setdefault((key, match[1]), {}).update(_leaves(json.loads(text)))
    for (key, code), own in texts.items():
        english = texts.get((key, "en"), {})
        if code != "en":
            for place, other in own.items():
                if place in english and len(other) > 1:
                    yield "cldr", code, place, english[place], other


def _leaves(node: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for name, child in node.items():
            yield from _leaves(
                child, path if name in LANGUAGES or name == "en" else f"{path}/{name}"
            )
    elif isinstance(node, list):
        yield path, ", ".join(map(str, node))
    elif isinstance(node, str) and not path.endswith("_cldrVersion"):
        yield path, node


def _catalogues(repository: Path, part: str) -> Iterator[Pair]:
    """The texts of catalogues of translations (.po) in folders of a language."""
    place = re.compile(r"/locale/(\w\w)(?:_(?!TW|Hant|HK)\w+)?/LC_MESSAGES/\w+\.po$")
    for path, text in _files(repository, "HEAD", lambda p: bool(place.search(p))):
        match = place.search(path)
        if match is not None and match[1] in LANGUAGES:
            yield from ((part, match[1], path, *pair) for pair in po_pairs(text))


def _map_terms(repository: Path) -> Iterator[Pair]:
    """The names of things on maps, such as shops, and the words by which people look for them."""
    place = re.compile(r"dist/translations/(\w\w)(?:-(?:BR|CN))?\.json$")
    texts: dict[str, dict[str, str]] = {}
    for path, text in _files(repository, "HEAD", lambda p: bool(place.match(p))):
        texts.setdefault(place.sub(r"\1", path), {}).update(_leaves(json.loads(text)))
    for code in LANGUAGES:
        shared = [name for name in texts.get(code, {}) if name in texts["en"]]
        yield from (("maps", code, name, texts["en"][name], texts[code][name]) for name in shared)


def _pages(repository: Path, part: str, above: str) -> Iterator[Pair]:
    """Paragraphs of pages that have as many in both languages."""
    pages: dict[str, dict[str, str]] = {}
    for path, text in _files(
        repository, "HEAD", lambda p: p.startswith(above) and p.endswith(".md")
    ):
        code, _, name = path[len(above) :].partition("/")
        pages.setdefault(name, {})[code[:2]] = re.sub(r"(?s)```.*?```", " ", text)
    for name, by_code in pages.items():
        english = re.split(r"\n\s*\n", by_code.get("en", ""))
        for code in LANGUAGES:
            other = re.split(r"\n\s*\n", by_code.get(code, ""))
            if len(other) == len(english) > 1:
                yield from ((part, code, name, *pair) for pair in zip(english, other, strict=True))


def _strings(folder: Path) -> Iterator[Pair]:
    """Texts of programs that are shown to people: JSON, properties and Android's XML."""
    tables: dict[tuple[str, str], dict[str, str]] = {}
    matrix = re.compile(r"src/i18n/strings/(\w\w)(?:_(?!Hant)\w+)?\.json$")
    for path, text in _files(
        folder / "matrix-org+matrix-react-sdk" / "repo", "HEAD", lambda p: bool(matrix.match(p))
    ):
        tables["matrix", matrix.sub(r"\1", path)] = dict(_leaves(json.loads(text)))
    jabref = re.compile(r"jablib/src/main/resources/l10n/JabRef_(\w\w)(?:_CN)?\.properties$")
    for path, text in _files(
        folder / "JabRef+jabref" / "repo", "HEAD", lambda p: bool(jabref.match(p))
    ):
        lines = (re.split(r"(?<!\\)=", line, maxsplit=1) for line in text.splitlines())
        tables["jabref", jabref.sub(r"\1", path)] = {c[0]: c[1] for c in lines if len(c) == 2}
    android = re.compile(r"(.*/res/values)(?:-(\w\w)(?:-r(?:BR|CN))?)?/\w*strings\.xml$")
    for name in _ANDROID:
        for path, text in _files(
            folder / name / "repo", "HEAD", lambda p: bool(android.match(f"/{p}"))
        ):
            match = android.match(f"/{path}")
            assert match is not None
            tables.setdefault((f"{name} {match[1]}", match[2] or "en"), {}).update(_android(text))
    for (part, code), own in tables.items():
        english = tables.get((part, "en"), {})
        if code in LANGUAGES:
            shared = [place for place in own if place in english]
            yield from (("programs", code, place, english[place], own[place]) for place in shared)


def _android(text: str) -> Iterator[tuple[str, str]]:
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError:
        return
    for element in root:
        if element.tag == "string" and element.get("translatable") != "false":
            yield element.get("name", ""), re.sub(r"\\['\"n]", " ", "".join(element.itertext()))


if __name__ == "__main__":
    main()
