"""Speed of the document chunkers beside chonkie and semchunk: one thread, the same Markdown in one
run.

    python benchmarks/chunkers.py [--text FOLDER ...] [--megabytes N]

Reads the Markdown files below the folders (default: those of the installed packages, and of the
corpora where they are), repeats them up to N megabytes, and prints the best of five interleaved
rounds in MB/s of UTF-8 for each chunker, each beside the fastest peer that produces structure; then
the time over 1, 2, 4 and 8 times the text. Peers get one document after the other, as Weft does.
Weft's figure is all of its stage: offsets, heading paths, three texts a chunk, hashes and the Arrow
table; headings are parsed before.
"""

import os
import site
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import semchunk
from chonkie import RecursiveChunker, RecursiveLevel, RecursiveRules
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table

from transforms.documents.chunks.table import document_chunks
from transforms.documents.files import RawFile, read_documents
from transforms.documents.nodes import document_nodes
from transforms.settings.designs import DESIGNS
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings

ROUNDS = 5
TARGET = DocumentChunkSettings().target_chars
STRUCTURED_PEER = "chonkie recursive, markdown"
MARKDOWN_RULES = RecursiveRules(
    levels=[
        RecursiveLevel(delimiters=[f"\n{'#' * n} " for n in range(1, 7)], include_delim="next"),
        RecursiveLevel(delimiters=["\n\n", "\r\n", "\n", "\r"]),
        RecursiveLevel(delimiters=[". ", "! ", "? "]),
        RecursiveLevel(
            delimiters=["{", "}", '"', "[", "]", "<", ">", "(", ")", ":", ";", ",", "—", "|", "~"]
        ),
        RecursiveLevel(whitespace=True),
        RecursiveLevel(),
    ]
)
"""Headings, paragraphs, sentences, marks, words: the levels of chonkie's published Markdown recipe.
"""


class Corpus:
    """Markdown texts, and the tables Weft makes of them."""

    def __init__(self, files: list[RawFile]):
        self.documents = read_documents(
            files, source="bench", partition="u", settings=DocumentSettings()
        ).documents
        self.nodes = document_nodes(self.documents)
        self.texts: list[str] = self.documents.column("text").to_pylist()
        self.megabytes = (
            pa.compute.sum(pa.compute.binary_length(self.documents.column("text"))).as_py() / 1e6
        )


def main() -> None:
    """Read, measure, print."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--text", type=Path, nargs="+", default=_default_folders(), metavar="FOLDER"
    )
    parser.add_argument(
        "--megabytes", type=float, default=4.0, help="size of the text; default %(default)s"
    )
    arguments = parser.parse_args()
    files = markdown_files(arguments.text, arguments.megabytes * 1e6)
    corpus = Corpus(files)
    console = Console(width=110)
    console.print(
        f"{len(corpus.texts):,} files, {corpus.megabytes:.1f} MB, chunks of {TARGET} characters"
    )
    runs = {**weft_chunkers(), **peers()}
    console.print(speed_table(corpus, measured(runs, corpus)))
    console.print(growth_table(files, weft_chunkers()))


def _default_folders() -> list[Path]:
    corpora = Path(
        os.environ.get("WEFT_CORPORA") or Path(__file__).parents[2] / "shared" / "corpora"
    )
    documentation = Path("/usr/share/doc")
    return [Path(site.getsitepackages()[0]), documentation, corpora / "passages"]


def markdown_files(folders: list[Path], size: float) -> list[RawFile]:
    """Files from all folders in turn until `size` bytes are reached, repeated under other names if
    need be.
    """
    found = [path for folder in folders for path in sorted(folder.rglob("*.md")) if path.is_file()]
    if not found:
        raise SystemExit(
            f"no Markdown below {', '.join(map(str, folders))}: name another folder with --text"
        )
    files: list[RawFile] = []
    for number, path in enumerate(cycle(found)):
        if size <= 0:
            return files
        data = path.read_bytes()
        files.append(RawFile(f"{number:06d}.md", data))
        size -= max(len(data), 1)
    return files


def weft_chunkers() -> dict[str, Callable[[Corpus], int]]:
    """Chunkers of Weft by name: each returns how many chunks it made."""

    def run(settings: DocumentChunkSettings) -> Callable[[Corpus], int]:
        return lambda corpus: (
            document_chunks(corpus.documents, corpus.nodes, settings).chunks.num_rows
        )

    return {
        "weft tree": run(DocumentChunkSettings(chunker="tree")),
        "weft sections": run(DocumentChunkSettings()),
        "weft sections, seed": run(
            DocumentChunkSettings(**DESIGNS["secondbrain"]["document_chunks"])
        ),
        "weft semantic": run(DocumentChunkSettings(chunker="semantic")),
    }


def peers() -> dict[str, Callable[[Corpus], int]]:
    """The other chunkers, counting characters as Weft does."""
    markdown = RecursiveChunker(tokenizer="character", chunk_size=TARGET, rules=MARKDOWN_RULES)
    plain = RecursiveChunker(tokenizer="character", chunk_size=TARGET)
    semantic = semchunk.chunkerify(len, TARGET, memoize=False)
    return {
        STRUCTURED_PEER: lambda corpus: sum(len(markdown.chunk(text)) for text in corpus.texts),
        "chonkie recursive, plain": lambda corpus: sum(
            len(plain.chunk(text)) for text in corpus.texts
        ),
        "semchunk, with offsets": lambda corpus: sum(
            len(semantic(text, offsets=True)[0]) for text in corpus.texts
        ),
    }


def measured(
    runs: dict[str, Callable[[Corpus], int]], corpus: Corpus
) -> dict[str, tuple[float, int]]:
    """Processor seconds of the best round, and chunks, of each chunker; rounds are interleaved."""
    best = {name: (float("inf"), 0) for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.process_time()
            chunks = run(corpus)
            best[name] = min(best[name], (time.process_time() - start, chunks))
    return best


def speed_table(corpus: Corpus, best: dict[str, tuple[float, int]]) -> Table:
    """MB/s and chunks, and how many times longer each takes than the structured peer."""
    table = new_table("speed", ("chunker", "MB/s", "chunks", "times the structured peer"))
    for name, (seconds, chunks) in best.items():
        ratio = seconds / best[STRUCTURED_PEER][0]
        table.add_row(name, f"{corpus.megabytes / seconds:.1f}", f"{chunks:,}", f"{ratio:.2f}")
    return table


def growth_table(files: list[RawFile], runs: dict[str, Callable[[Corpus], int]]) -> Table:
    """Seconds over one, two, four and eight times the text in one document: linear if they double."""
    text = b"\n\n".join(file.data for file in files)[: 1 << 18].decode(errors="ignore").encode()
    corpora = {n: Corpus([RawFile("one.md", text * n)]) for n in (1, 2, 4, 8)}
    title = f"seconds over one document of n × {len(text) / 1e6:.1f} MB"
    table = new_table(title, ["chunker", *(f"n = {n}" for n in corpora)])
    columns = [measured(runs, corpus) for corpus in corpora.values()]
    for name in runs:
        table.add_row(name, *(f"{column[name][0]:.3f}" for column in columns))
    return table


if __name__ == "__main__":
    main()
