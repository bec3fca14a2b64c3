"""Passages with their headings, from the documentation of Debian and Python packages, as lines of
JSON.

    python benchmarks/table/corpus.py FOLDER OUT.jsonl

FOLDER holds one unpacked Debian package a folder (`dpkg-deb --fsys-tarfile`), files
`Translation-en` and `Translation-de` with the descriptions of Debian's packages, and folders
`python*` with sources. A line has `group` (the package), `title` (headings, one behind the other),
`text` and, where a text is a translation, `english`.
"""

import gettext
import gzip
import hashlib
import io
import json
import re
import sys
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TextIO

from lxml import etree, html

FEWEST_CHARS, MOST_CHARS = 80, 900
MOST_BYTES, MOST_PASSAGES = 16_000_000, 120_000
"""Bytes of files and passages of one package; which files, their hash decides."""
_OTHER_BYTES = {
    **dict.fromkeys(
        ("debian-docs", "linux-doc-6.1", "python-site", "python-stdlib", "wordnet-base"), 24_000_000
    ),
    "rust-doc": 14_000_000,
    "octave-doc": 8_000_000,
    "apache2-doc": 6_000_000,
    "twisted-doc": 6_000_000,
}
"""Packages from which the corpus takes more or less than from others, since they repeat themselves.
"""
_PAGES, _MEANINGS = {"html", "htm", "xhtml", "page"}, {"noun", "verb", "adj", "adv"}
_SCRIPTS = {"cfg", "lua", "c"}
_KINDS = {
    *_PAGES,
    *_MEANINGS,
    *_SCRIPTS,
    "py",
    "txt",
    "md",
    "rst",
    "NEWS",
    "changelog",
    "pod",
    "dz",
    "ruleset",
}
_KINDS |= {"mo", "rdb", "yml"}
_TALKS = {"fortunes", "state", "english", "german"}
"""Folders whose files all are text: sayings, constitutions, questions with their answers."""
_BLOCKS = {
    "p",
    "li",
    "dd",
    "dt",
    "pre",
    "td",
    "th",
    "blockquote",
    "figcaption",
    "title",
    "item",
    "paragraph",
}
_HEADINGS = {f"h{n}": n for n in range(1, 7)}
_LEFT_OUT = {
    "script",
    "style",
    "nav",
    "header",
    "footer",
    "svg",
    "math",
    "noscript",
    "button",
    "form",
}
_LEFT_OUT_CLASS = re.compile(
    r"sidebar|toctree|navheader|navfooter|breadcrumb|related|footer|headerlink|anchor|linenos"
)
_DOCSTRING = re.compile(
    r'^[ \t]*(?:class|(?:async )?def) +(\w+)([^\n]{0,200}(?:\n[^\n"]{0,200}){0,12}?):\n\s+[rRuU]?"""(.+?)"""',
    re.M | re.S,
)
_PARAGRAPH = re.compile(r"\n\s*\n")
_SCRIPT = re.compile(
    r'speaker\s*=\s*"?(?P<who>[^\n"]+)|^mission "(?P<mission>[^"]+)|\bname\s*=\s*_\s*"(?P<name>[^"]+)"'
    r'|(?:message|story|description)\s*=\s*_\s*"(?P<line>[^"]{8,})"|\bsay\w*\(\s*"(?P<said>[^"]{8,})'
    r'|`\s*(?P<talk>[^`\n]{8,})`|\b_\(?\s*\[\[(?P<long>.+?)\]\]|\b_\(?\s*"(?P<short>(?:\\.|[^"\\\n]){8,})"',
    re.M | re.S,
)
"""Names and lines of dialogue in scripts of games: Wesnoth, Endless Sky, Naev, Widelands, Dink
Smallwood.
"""
Passage = tuple[str, ...]
"""Title and text; of a translation also the English title and the English text."""


def main() -> None:
    """Write every passage once, package by package."""
    folder, out = map(Path, sys.argv[1:])
    seen: set[bytes] = set()
    packages = sorted(path for path in folder.iterdir() if path.is_dir())
    with out.open("w") as written, ProcessPoolExecutor() as workers:
        for package in packages:
            count = 0
            for found in workers.map(passages, chosen(package), chunksize=8):
                for passage in found:
                    digest = hashlib.sha1(passage[1][:300].encode()).digest()
                    if digest not in seen and count < MOST_PASSAGES:
                        seen.add(digest)
                        count += 1
                        fields = zip(
                            ("title", "text", "english_title", "english"), passage, strict=False
                        )
                        _write(written, {"group": package.name, **dict(fields)})
            print(package.name, count, flush=True)
        for row in _descriptions(folder):
            _write(written, row)


def chosen(package: Path) -> list[Path]:
    """The files of a package that are read, in an order that hashes decide, up to MOST_BYTES or
    `_OTHER_BYTES`.
    """
    most = _OTHER_BYTES.get(package.name, MOST_BYTES)
    files = [path for path in package.rglob("*") if path.is_file() and not path.is_symlink()]
    files = [
        path
        for path in files
        if _kind(path) in _KINDS or _is_manual(path) or path.parent.name in _TALKS
    ]
    files = [path for path in files if _kind(path) != "mo" or "de" in path.parts]
    files.sort(key=lambda path: hashlib.sha1(str(path.relative_to(package)).encode()).digest())
    ends = accumulate(path.stat().st_size for path in files)
    return [path for path, end in zip(files, ends, strict=True) if end <= most]


def passages(path: Path) -> list[Passage]:
    """The passages of a file."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    kind, text = _kind(path), data.decode("utf-8", "replace")
    if kind in _PAGES:
        return list(cut(_of_page(data)))
    if kind in ("mo", "rdb"):
        return list(_of_translations(data) if kind == "mo" else cut(_of_books(data)))
    if kind == "yml":
        pairs = re.findall(r"^- - (.+)\n  - (.+(?:\n    .+)*)", text, re.M)
        return [(question, _line(answer)) for question, answer in pairs if len(answer) >= 20]
    if kind in _SCRIPTS or "\t`" in text:
        return list(cut(_of_script(text)))
    if kind == "py":
        return list(_of_source(text))
    if kind in _MEANINGS:
        return list(_of_wordnet(text))
    if kind == "dz":
        return list(_of_dictionary(text))
    if path.parent.name == "fortunes":
        return list(cut((f"{n}", block) for n, block in enumerate(text.split("\n%\n"))))
    return list(cut(_of_manual(text) if _is_manual(path) else _of_text(text)))


def _kind(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.rsplit(".", 1)[-1]


def _is_manual(path: Path) -> bool:
    return bool(re.search(r"/man/(?:.*/)?man\d", str(path)))


def _write(file: TextIO, row: Mapping[str, str]) -> None:
    file.write(json.dumps(row, ensure_ascii=False) + "\n")


def cut(blocks: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(title, text) with neighbouring blocks of a title put together up to MOST_CHARS characters."""
    title, held = "", ""
    for new_title, block in blocks:
        if new_title != title or len(held) + len(block) > MOST_CHARS:
            if len(held) >= FEWEST_CHARS:
                yield title, held[:MOST_CHARS]
            held = ""
        title = new_title
        held = f"{held}\n{block}" if held else block
    if len(held) >= FEWEST_CHARS:
        yield title, held[:MOST_CHARS]


def _of_page(data: bytes) -> Iterator[tuple[str, str]]:
    try:
        root = html.fromstring(data)
    except (etree.ParserError, ValueError):
        return
    headings: list[tuple[int, str]] = []
    for node in list(root.iter()):
        named = isinstance(node.tag, str) and node.tag not in _LEFT_OUT
        if node.getparent() is not None and not (
            named and not _LEFT_OUT_CLASS.search(node.get("class") or "")
        ):
            node.drop_tree()
    for node in root.iter():
        if node.tag in _HEADINGS:
            level = _HEADINGS[node.tag]
            headings = [h for h in headings if h[0] < level] + [
                (level, _line(node.text_content()).rstrip("¶# "))
            ]
        elif node.tag in _BLOCKS and not any(
            a.tag in _BLOCKS and a.tag not in ("li", "dd", "td") for a in node.iterancestors()
        ):
            if any(child.tag in _BLOCKS for child in node):
                continue
            text = (
                node.text_content().strip("\n") if node.tag == "pre" else _line(node.text_content())
            )
            if text:
                yield " › ".join(h for _, h in headings[-2:]), text


def _of_source(source: str) -> Iterator[tuple[str, str]]:
    for name, signature, text in _DOCSTRING.findall(source):
        body = textwrap.dedent(" " * 8 + text).strip()
        first, _, rest = body.partition("\n")
        if len(rest) >= FEWEST_CHARS:
            yield (
                f"{name} › {first.strip()}",
                f"{name}{signature[:120]}\n{textwrap.dedent(rest).strip()}"[:MOST_CHARS],
            )
        elif len(body) >= FEWEST_CHARS // 2:
            yield name, body[:MOST_CHARS]


def _of_manual(source: str) -> Iterator[tuple[str, str]]:
    title, section, paragraph = "", "", []
    source = (
        re.sub(r"\\f[BIRP1-4]|\\f\(..|\\&|\\%", "", source)
        .replace("\\-", "-")
        .replace("\\(aq", "'")
    )
    for line in [*source.splitlines(), ".PP"]:
        if (
            line.startswith(
                (".SH", ".Sh", ".SS", ".Ss", ".PP", ".TP", ".Pp", ".P", ".IP", ".It", ".LP")
            )
            or not line.strip()
        ):
            if paragraph:
                text = _line(" ".join(paragraph))
                if section in ("NAME", "BEZEICHNUNG"):
                    title = text[:120]
                yield f"{title} › {section}", text
            paragraph = [line[3:].strip(' "')] if line.startswith((".IP", ".It")) else []
            if line[:3] in (".SH", ".Sh", ".SS", ".Ss"):
                section = line[3:].strip(' "')
        elif line.startswith((".B", ".I", ".BR", ".RB", ".Nm", ".Nd", ".Fl", ".Ar", ".Xr")):
            paragraph.append(line.split(" ", 1)[-1].replace('"', ""))
        elif line[0] not in ".'":
            paragraph.append(line)


def _of_text(source: str) -> Iterator[tuple[str, str]]:
    title = ""
    for block in _PARAGRAPH.split(source[:400_000]):
        block = block.strip("\n")
        lines = block.splitlines()
        if len(lines) == 2 and len(set(lines[1].strip())) == 1 and len(lines[1]) > 3:
            title = lines[0].strip()
        elif len(lines) == 1 and lines[0].startswith("#"):
            title = lines[0].strip("# ")
        elif block:
            yield title, textwrap.dedent(block)


def _of_script(source: str) -> Iterator[tuple[str, str]]:
    """What is spoken in a game, behind the name of the speaker where it is one."""
    title, who = "", ""
    for found in _SCRIPT.finditer(source):
        kind, text = found.lastgroup, found[found.lastgroup or 0].strip()
        if kind == "who":
            who = text if text[:1].isupper() else ""
        elif kind == "mission" or (kind == "name" and not title):
            title = text
        elif kind != "name":
            said = _line(re.sub(r"\\[nt]|<[^>]*>|\{[^}]*\}|\\", " ", text))
            yield title, f"{who}: {said}" if who else said
            who = ""


def _of_translations(data: bytes) -> Iterator[Passage]:
    """English messages of a catalogue of gettext, and the German ones beside the English."""
    for english, other in gettext.GNUTranslations(io.BytesIO(data))._catalog.items():
        if isinstance(english, str) and isinstance(other, str) and len(english) >= 40:
            pair = [
                _line(re.sub(r"<[^>]*>", " ", text.rpartition("\x04")[2]))[:MOST_CHARS]
                for text in (english, other)
            ]
            if len(pair[0]) >= FEWEST_CHARS:
                yield "", pair[0]
            if pair[0] != pair[1]:
                yield "", pair[1], "", pair[0]


def _of_books(data: bytes) -> Iterator[tuple[str, str]]:
    """Paragraphs of the novels in a database of R, whose lines are strings behind their length."""
    for found in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
        with suppress(zlib.error):
            held = zlib.decompressobj().decompress(data[found.start() :])
            lines, place = [], 0
            while 0 <= (place := held.find(b"\x00\x09\x00\x00", place)) < len(held) - 6:
                count = int.from_bytes(held[place + 2 : place + 6])
                lines.append(held[place + 6 : place + 6 + count].decode("latin-1"))
                place += 6 + count
            for paragraph in _PARAGRAPH.split("\n".join(lines)):
                yield "", _line(paragraph)


def _of_wordnet(source: str) -> Iterator[tuple[str, str]]:
    """Words of one meaning, and what says what they mean."""
    for line in source.splitlines():
        if line.startswith("  ") or "|" not in line:
            continue
        fields, gloss = line.split(" | ", 1)
        parts = fields.split()
        words = [parts[4 + 2 * n].replace("_", " ") for n in range(int(parts[3], 16))]
        yield ", ".join(words), gloss.strip()


def _of_dictionary(source: str) -> Iterator[tuple[str, str]]:
    """Entries of a dictionary of dictd: a word at the beginning of a line, and indented what it
    means.
    """
    for entry in re.split(r"\n(?=\S)", source):
        word, _, meaning = entry.partition("\n")
        word = re.sub(r"\\.*?\\", "", word).split(",")[0].strip()
        meaning = _line(re.sub(r"\[[^\]]{0,40}\]|[{}]", "", meaning))
        if len(meaning) >= 40:
            yield word, meaning[:MOST_CHARS]


def _descriptions(folder: Path) -> Iterator[dict[str, str]]:
    """The descriptions of packages in English, and in German beside the English."""
    english: dict[str, tuple[str, str]] = {}
    for language in ("en", "de"):
        for entry in (folder / f"Translation-{language}").read_text(errors="replace").split("\n\n"):
            found = re.match(
                rf"Package: (\S+)\nDescription-md5: (\w+)\nDescription-{language}: (.*)\n((?: .*\n?)*)",
                entry,
            )
            if not found:
                continue
            name, digest, short, long = found.groups()
            text = re.sub(r"\n \.\n", "\n\n", "\n" + long).replace("\n ", "\n").strip()[:MOST_CHARS]
            if language == "en":
                english[digest] = (short, text)
                if len(text) >= FEWEST_CHARS:
                    yield {"group": "descriptions", "title": f"{name} › {short}", "text": text}
            elif digest in english and "<trans>" not in short + text:
                own, whole = english[digest]
                enough = len(text) >= FEWEST_CHARS
                yield {
                    "group": "german",
                    "title": short,
                    "text": text if enough else short,
                    "english_title": own,
                    "english": whole if enough else own,
                }


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
