"""Which chunker finds the passages that answer a question: characters retrieved at an equal budget.

    python benchmarks/passages.py [--budget CHARACTERS] [--set NAME=VALUE ...]

Reads corpora/passages (documents, questions, exact passages). Each chunker's chunks are searched by
Weft's own search (BM25 blended with the static model, one chunk a hit), and hits are taken in order
until the budget is full, the last one cut to fit. Printed per chunker: recall of the passages'
characters for each document, the mean over the documents, precision and IoU over all questions, and
the recall of five chunks, which rewards big ones. Beside them recursive splitters of
langchain-text-splitters. One more row per chunker of Weft shows the same documents with the
encyclopaedia's headings written as Markdown.

A second table holds the recommended chunker fixed and compares what ranks its chunks: Weft's
default, its halves, rank fusion and bm25s, with 95 % intervals of the recall and how far the
default is ahead.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from langchain_text_splitters import RecursiveCharacterTextSplitter
from mail_collections import corpora_folder
from printing import new_parser, new_table
from retrieval import p_value
from rich.console import Console
from rich.table import Table
from tasks import ranker

from assets.protocols.models import Embedder
from dagster_project.models.embedders import make_embedder
from transforms.chunks.table import chunks_from_rows
from transforms.documents.chunks.table import document_chunks
from transforms.documents.files import RawFile, read_documents
from transforms.documents.nodes import document_nodes
from transforms.evaluation.metrics import DocumentSpan, PassageScore, passage_score
from transforms.evaluation.quality import bootstrap, paired_difference
from transforms.retrieval import bm25 as lexical
from transforms.retrieval import fusion
from transforms.retrieval.postings import Postings, Slots, TermSegment
from transforms.settings.designs import DESIGNS
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings
from transforms.settings.models import EmbeddingSettings
from transforms.settings.search import BUILT_IN_PROFILES, SearchSettings, TermSettings
from transforms.text import terms

RECURSIVE_SIZES = (400, 700, 1200)
CHUNKS = 5
_WIKITEXT_HEADING = re.compile(r"^ (?P<marks>(?:= )+)(?P<title>.*?) ((?:= ?)+)$", re.MULTILINE)
_FUSIONS = ("default", "lexical", "vector", "rrf")
_DEPTH = 200


class Question(NamedTuple):
    """A question, the document that answers it, and the passages as half-open ranges of characters."""

    text: str
    document: str
    passages: Sequence[tuple[int, int]]


class ChunkIndex:
    """Chunks in memory as the published index ranks them: postings, lengths and vectors."""

    def __init__(self, chunks: pa.Table, embedder: Embedder, settings: SearchSettings):
        self.settings, self.embedder, self.terms = settings, embedder, TermSettings()
        self.ids: list[str] = chunks.column("chunk_id").to_pylist()
        self.vectors = embedder.embed_documents(chunks.column("text_embed").to_pylist())
        self.postings = self._postings(chunks)

    def _postings(self, chunks: pa.Table) -> Postings:
        numbers = pl.DataFrame({"chunk_id": self.ids, "chunk_no": range(len(self.ids))})
        counted = pl.from_arrow(terms.chunk_terms(chunks, self.terms))
        assert isinstance(counted, pl.DataFrame)
        counted = counted.join(numbers, on="chunk_id").with_columns(
            term_id=pl.col("term").rank("dense").cast(pl.Int64)
        )
        per_field = [
            pl.col("tf").filter(pl.col("field") == f).sum().alias(f"{f}_tf") for f in lexical.FIELDS
        ]
        rows = counted.group_by("term_id", "chunk_no").agg(*per_field).sort("term_id", "chunk_no")
        terms_ = counted["term"].unique().sort()
        ids = rows["term_id"].to_numpy()
        starts = np.append(np.searchsorted(ids, np.arange(1, len(terms_) + 1)), len(ids)).astype(
            np.int64
        )
        lengths = np.zeros((len(lexical.FIELDS), len(self.ids)), dtype=np.int32)
        for field, chunk, length in (
            counted.group_by("field", "chunk_no").agg(pl.col("tf").sum()).iter_rows()
        ):
            lengths[lexical.FIELDS.index(field), chunk] = length
        chunk_numbers = rows["chunk_no"].to_numpy().astype(np.int32)
        frequencies = rows.select(f"{f}_tf" for f in lexical.FIELDS).to_numpy()
        numbers = {term: n for n, term in enumerate(terms_)}
        segment = TermSegment(
            numbers, starts, chunk_numbers, np.arange(len(ids)), frequencies, lengths
        )
        return Postings([segment], Slots(np.arange(len(self.ids), dtype=np.int32), len(self.ids)))

    def ranked(self, questions: Sequence[str]) -> list[list[int]]:
        """The numbers of the best chunks for each question, best first."""
        asked = terms.query_terms(questions, self.terms, self.settings.stopwords)
        weights = lexical.weighed(self.postings, self.settings)
        scores = [lexical.TermScores(words, self.postings, weights, None) for words in asked]
        vectors = self.embedder.embed_queries(questions) @ self.vectors.T
        own = np.arange(len(self.ids), dtype=np.int32)
        places = fusion.Places(own, own, own < 0, own < 0)
        return [
            fusion.fused_candidates(
                n,
                fusion.Fusion(scores[n], fusion.ExactScores(vectors[n], None), self.settings),
                None,
                places,
            )["chunk_no"]
            .head(_DEPTH)
            .to_list()
            for n in range(len(questions))
        ]


def main() -> None:
    """Read, chunk, search, print."""
    parser = new_parser(__doc__)
    parser.add_argument("--budget", type=int, default=5000, help="characters; default %(default)s")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [search]"
    )
    arguments = parser.parse_args()
    folder = corpora_folder() / "passages"
    questions = [_question(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    names = sorted({question.document for question in questions})
    texts = {name: (folder / f"{name}.md").read_bytes().decode() for name in names}
    changed = dict(pair.split("=", 1) for pair in arguments.set)
    settings = SearchSettings.model_validate({"thread_weight": 0.0, **changed})
    embedder = make_embedder(EmbeddingSettings())
    table = result_table(names, arguments.budget)
    for name, chunks in chunkings(texts).items():
        index = ChunkIndex(chunks, embedder, settings)
        ranked = index.ranked([question.text for question in questions])
        spans = character_spans(chunks, texts)
        at_budget = scores(questions, ranked, spans, arguments.budget, _DEPTH)
        at_chunks = scores(questions, ranked, spans, len("".join(texts.values())), CHUNKS)
        add_row(table, name, chunks.num_rows, names, questions, at_budget, at_chunks)
    Console(width=125).print(table)
    chunks = weft_chunks(texts, DocumentChunkSettings())
    Console(width=125).print(
        ranking_table(questions, chunks, character_spans(chunks, texts), embedder, arguments.budget)
    )


def ranking_table(
    questions: Sequence[Question],
    chunks: pa.Table,
    spans: Sequence[DocumentSpan],
    embedder: Embedder,
    budget: int,
) -> Table:
    """What different rankings of the same chunks find."""
    asked = [question.text for question in questions]
    index = ChunkIndex(chunks, embedder, SearchSettings())
    rankings = {}
    for name in _FUSIONS:
        index.settings = SearchSettings.model_validate(
            {**BUILT_IN_PROFILES[name], "thread_weight": 0.0}
        )
        rankings[f"weft, {name}"] = index.ranked(asked)
    titles, displayed = (chunks.column(c).to_pylist() for c in ("title", "text_display"))
    bm25 = ranker(
        [(str(n), f"{t}\n{d}") for n, (t, d) in enumerate(zip(titles, displayed, strict=True))]
    )
    rankings["bm25s, same chunks"] = [[int(n) for n, _ in hits] for hits in bm25(asked)]
    recalls = {
        name: np.array([s.recall for s in scores(questions, ranked, spans, budget, _DEPTH)])
        for name, ranked in rankings.items()
    }
    columns = ("ranking", "recall", "95 %", "default ahead by", "p")
    table = new_table(f"rankings of the same chunks at {budget:,} characters", columns)
    default = recalls["weft, default"]
    for name, values in recalls.items():
        found, (ahead, p) = bootstrap(values), paired_difference(values, default)
        beside = [f"{ahead.mean:+.3f} [{ahead.low:+.3f}, {ahead.high:+.3f}]", p_value(p)]
        own = ["", ""] if name == "weft, default" else beside
        table.add_row(name, f"{found.mean:.3f}", f"{found.low:.3f}–{found.high:.3f}", *own)
    return table


def _question(line: str) -> Question:
    row = json.loads(line)
    passages = [(r["start_index"], r["end_index"]) for r in row["references"]]
    return Question(row["question"], row["corpus"], passages)


def chunkings(texts: Mapping[str, str]) -> dict[str, pa.Table]:
    """The chunks of every chunker by its name."""
    titled = {name: with_markdown_headings(text) for name, text in texts.items()}
    variants = {
        "weft sections (recommended)": DocumentChunkSettings(),
        "weft sections, seed": DocumentChunkSettings(**DESIGNS["secondbrain"]["document_chunks"]),
        "weft sections, 400": DocumentChunkSettings(target_chars=400),
        "weft sections, 1200": DocumentChunkSettings(target_chars=1200),
        "weft sections, no context": DocumentChunkSettings(context_chars=0),
        "weft semantic": DocumentChunkSettings(chunker="semantic"),
        "weft tree": DocumentChunkSettings(chunker="tree"),
    }
    made = {f"recursive {size}": recursive_chunks(texts, size) for size in RECURSIVE_SIZES}
    made |= {name: weft_chunks(texts, settings) for name, settings in variants.items()}
    made |= {
        f"{name}; headings": weft_chunks(titled, settings) for name, settings in variants.items()
    }
    return made


def with_markdown_headings(text: str) -> str:
    """The text with WikiText's ` = = Title = = ` as Markdown headings, every character in its
    place.
    """

    def heading(found: re.Match[str]) -> str:
        line = f"{'#' * found['marks'].count('=')} {found['title']}"
        return line.ljust(len(found.group()))

    return _WIKITEXT_HEADING.sub(heading, text)


def weft_chunks(texts: Mapping[str, str], settings: DocumentChunkSettings) -> pa.Table:
    """The chunks Weft makes of the texts."""
    files = [RawFile(f"{name}.md", text.encode()) for name, text in texts.items()]
    documents = read_documents(
        files, source="p", partition="u", settings=DocumentSettings()
    ).documents
    return document_chunks(documents, document_nodes(documents), settings).chunks


def recursive_chunks(texts: Mapping[str, str], size: int) -> pa.Table:
    """The chunks of a recursive character splitter: paragraphs, lines, sentences, words."""
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=size,
        chunk_overlap=0,
        add_start_index=True,
        keep_separator="end",
        separators=["\n\n", "\n", ". ", "? ", "! ", " ", ""],
    )
    rows = []
    for name, text in texts.items():
        for found in splitter.create_documents([text]):
            start = found.metadata["start_index"]
            begin = len(text[:start].encode())
            span = {
                "byte_start": begin,
                "byte_end": begin + len(found.page_content.encode()),
                "role": "own",
            }
            rows.append(
                {
                    "chunk_id": f"{name}:{start}",
                    "source_kind": "document",
                    "source": "p",
                    "partition": "u",
                    "doc_id": f"p:{name}.md",
                    "chunk_kind": "section",
                    "chunk_index": 0,
                    "chunk_count": 0,
                    "text_display": found.page_content,
                    "text_embed": found.page_content,
                    "spans": [span],
                    "chunker": f"recursive-{size}",
                }
            )
    return chunks_from_rows(rows)


def character_spans(chunks: pa.Table, texts: Mapping[str, str]) -> list[DocumentSpan]:
    """Document, first and last character of each chunk, overlap included."""
    begins = {
        name: np.flatnonzero(np.frombuffer(text.encode(), np.int8) >= -64)
        for name, text in texts.items()
    }
    found = []
    for doc_id, spans in zip(
        chunks.column("doc_id").to_pylist(), chunks.column("spans").to_pylist(), strict=True
    ):
        name = doc_id.removeprefix("p:").removesuffix(".md")
        places = [place for span in spans for place in (span["byte_start"], span["byte_end"])] or [
            0
        ]
        start, end = np.searchsorted(begins[name], [min(places), max(places)])
        found.append(DocumentSpan(name, int(start), int(end)))
    return found


def scores(
    questions: Sequence[Question],
    ranked: Sequence[Sequence[int]],
    spans: Sequence[DocumentSpan],
    budget: int,
    limit: int,
) -> list[PassageScore]:
    """The scores of each question over its first `limit` chunks, `budget` characters at most."""
    return [
        passage_score(
            [DocumentSpan(question.document, *passage) for passage in question.passages],
            [spans[hit] for hit in hits[:limit]],
            budget,
        )
        for question, hits in zip(questions, ranked, strict=True)
    ]


def result_table(names: Sequence[str], budget: int) -> Table:
    """The empty table of results."""
    recalls = [f"recall {name[:12]}" for name in names]
    columns = ("chunker", "chunks", *recalls, "mean", "all", "precision", "IoU", f"recall@{CHUNKS}")
    return new_table(f"characters retrieved at {budget:,} characters", columns)


def add_row(
    table: Table,
    name: str,
    chunks: int,
    names: Sequence[str],
    questions: Sequence[Question],
    at_budget: Sequence[PassageScore],
    at_chunks: Sequence[PassageScore],
) -> None:
    """One chunker's means."""
    per_document = [
        float(
            np.mean(
                [
                    s.recall
                    for s, q in zip(at_budget, questions, strict=True)
                    if q.document == document
                ]
            )
        )
        for document in names
    ]
    recall, precision, iou = np.mean(at_budget, axis=0)
    values = [*per_document, float(np.mean(per_document)), recall, precision, iou]
    values.append(float(np.mean([score.recall for score in at_chunks])))
    table.add_row(name, f"{chunks:,}", *(f"{value:.3f}" for value in values))


if __name__ == "__main__":
    main()
