"""What the assets need from the world, as protocols; dagster_project/resources implements them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import BaseModel

# A search knows the protocols and nothing of what makes an index, which takes seconds to import.
if TYPE_CHECKING:
    import dagster as dg

    from transforms.context.block import Passage
    from transforms.documents.files import RawFile
    from transforms.evaluation.judgements import Contents
    from transforms.graph.hal_export import Folder
    from transforms.mail.messages import RawMail
    from transforms.operations.figures import Figures
    from transforms.retrieval.saved_searches import Answers
    from transforms.settings.conversations import ContextSettings
    from transforms.settings.models import SafetySettings

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True)
class SourcePartition:
    """One partition of a source: `fingerprint` changes whenever a byte of its files does.

    `source_type` says what its files become: mail, documents or conversations.
    """

    source: str
    name: str
    list_id: str | None
    fingerprint: str
    source_type: str = "mail"

    @property
    def key(self) -> str:
        """The partition key in Dagster and in the lake."""
        return f"{self.source}/{self.name}"


@dataclass(frozen=True)
class Fetched:
    """What a fetch brought: files or mails that came, changed, stayed and went, bytes and requests.

    `newest_at` is when the newest mail or file was made, `lag_seconds` how long ago that is; None
    where nothing is there. `notes` names what was left out and why.
    """

    added: int
    changed: int
    unchanged: int
    removed: int
    bytes: int
    requests: int
    newest_at: datetime | None
    lag_seconds: float | None
    notes: tuple[str, ...] = ()


class Remotes(Protocol):
    """What the sources with `fetch` are fetched from."""

    def fetch(self, source: str) -> Fetched:
        """Bring what is new in a source's remote.

        FetchInterruptedError where a repetition may help, else FetchError; what came before is kept.
        """

    def lag_seconds(self, source: str) -> float | None:
        """How old the newest mail or file is that was fetched; None where nothing was."""


class Sources(Protocol):
    """The configured sources."""

    def partition(self, partition: str) -> SourcePartition:
        """The partition behind a partition key; SourceError if no file makes it up."""

    def mails(self, partition: SourcePartition) -> Iterable[RawMail]:
        """The partition's mails in order; what cannot be read is a mail with a fault."""

    def files(self, partition: SourcePartition) -> Iterable[RawFile]:
        """The files of a partition of documents in order; what cannot be read is a file with a fault."""

    def conversation(self, partition: SourcePartition) -> tuple[pa.Table, pa.Table]:
        """The tables `conversations` and `conversation_quarantine` of one window of a conversation."""


@dataclass(frozen=True)
class Loaded:
    """A table read from the lake, with the hash of its content."""

    table: pa.Table
    content_hash: str


@dataclass(frozen=True)
class Partitions:
    """The partitions of one table, each read when it is asked for, all columns or some."""

    table: str
    read: Callable[[str, Sequence[str] | None], Loaded]


class Staged(Protocol):
    """A partition that is written beside its place and not yet visible."""

    content_hash: str
    row_count: int


class Footer(Protocol):
    """What a stored table says of itself."""

    code_version: str
    inputs: Mapping[str, str]
    row_count: int


@dataclass(frozen=True)
class Parts:
    """A table over the whole lake that is stored in parts, one for each partition that has rows of it.

    `kept` stay as they are, `made` are the new ones: name, what it was made from, its rows. All others go.
    """

    kept: Collection[str]
    made: Iterable[tuple[str, Mapping[str, str], Iterable[pa.Table]]]


class Lake(Protocol):
    """Where tables are kept."""

    def footer(self, table: str, partition: str | None = None) -> Footer | None:
        """What the stored table says of itself; None if there is none or it is damaged."""

    def stage(
        self,
        table: str,
        partition: str | None,
        data: pa.Table | Iterable[pa.Table],
        *,
        code_version: str,
        inputs: Mapping[str, str],
    ) -> Staged:
        """`data`, in one piece or several, checked against the table's schema and written beside its place."""

    def ids(self, table: str, partition: str) -> set[str]:
        """The first column of the table that is stored for the partition; empty if there is none."""

    def stored(self, table: str, columns: Sequence[str], partition: str | None = None) -> pa.Table | None:
        """Columns of a stored table, or of one partition of it; None if there is none or it is damaged."""


@dataclass(frozen=True)
class Embedded:
    """What became of one batch of texts.

    `batch` is its number in the order in which batches were asked for, `vectors` are float32 of
    shape (texts, dimensions), `refused` names the texts that the model will not embed, by place in
    the batch: their vectors are worthless. `calls` are requests to a service.
    """

    batch: int
    vectors: np.ndarray
    tokens: int
    truncated: int = 0
    calls: int = 0
    refused: Mapping[int, str] = field(default_factory=dict)


class Embedder(Protocol):
    """Makes unit-length vectors of texts.

    A text of more than `max_tokens` tokens is cut there; None means that no text is too long.
    A batch holds at most `batch_texts` texts and, where it is not None, `batch_tokens` tokens.
    What `is_paid` costs `price` US dollars per million tokens.
    `safety` says how texts are screened before they leave this machine; None where they stay on it.
    """

    model: str
    dimensions: int
    batch_texts: int
    batch_tokens: int | None
    is_paid: bool
    price: float
    safety: SafetySettings | None

    @property
    def budget(self) -> int | None:
        """Tokens that a run may still take; None where nothing is paid."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that are embedded."""

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text before it is cut, int64; an upper estimate where the model is elsewhere."""

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches as they are done, in any order; each is asked for when there is room for it."""

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched, float32 of shape (texts, dimensions)."""

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched with, float32 of shape (texts, dimensions).

        RefusedTextError names the texts that the model will not embed.
        """


class TokenCounter(Protocol):
    """Counts tokens as a model does."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""


class FoundVectors(Protocol):
    """Vectors of some texts in a given order, few of which are in memory at a time."""

    @property
    def count(self) -> int:
        """How many of the texts have a vector."""

    def between(self, first: int, end: int) -> Iterator[pa.Table]:
        """Columns `text_hash` and `vector` of those of the texts number `first` to `end` - 1 that have one."""


class EmbeddingCache(Protocol):
    """Vectors by hash of text, model, dimensions and task."""

    def hashes(self, model: str, dimensions: int, task: str) -> set[str]:
        """The text hashes that have a vector."""

    def claim(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that no other process has claimed; they are this one's until released."""

    def release(self, model: str, dimensions: int, task: str, hashes: Iterable[str]) -> None:
        """Give claims back; those of a process that ends are given back by themselves."""

    def await_others(self, model: str, dimensions: int, task: str, hashes: Iterable[str]) -> None:
        """Return when no other process claims any of `hashes`."""

    def store(
        self, model: str, dimensions: int, task: str, hashes: Sequence[str], vectors: np.ndarray
    ) -> None:
        """Keep vectors; durable when the call returns. EmbeddingError for one that is not of unit length."""

    def vectors(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> pa.Table:
        """Columns `text_hash` and `vector`, sorted by hash, for those of `hashes` that are known."""

    def laid_out(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> FoundVectors:
        """The vectors of those of `hashes` that are known, in their order; `hashes` are distinct."""

    def refuse(self, model: str, dimensions: int, task: str, reasons: Mapping[str, str]) -> None:
        """Keep why the model will not embed texts, by their hash; durable when the call returns."""

    def refusals(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> dict[str, str]:
        """Why those of `hashes` that the model refused have no vector."""

    def begin(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Note claimed texts before they are sent, durably; returns those of which an earlier request has no answer."""

    def finish(self, model: str, dimensions: int, task: str, hashes: Iterable[str]) -> None:
        """Take texts off the notes of `begin`: their vectors are kept, or nothing was answered."""

    def unfinished(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that were sent, or about to be, and of which no answer is known."""

    def compact(self, model: str, dimensions: int, task: str) -> None:
        """Merge what is stored in many small pieces."""

    def forget(self) -> None:
        """Let go of the memory in which `hashes` keeps what it read; it reads again when it is asked again."""


@dataclass(frozen=True)
class Answer(Generic[Shape]):
    """The answer to one prompt: its number, the value, or the reason why there is none, and what it took.

    `calls` are requests to the service, `dollars` US dollars by its list price.
    """

    prompt: int
    value: Shape | None
    refusal: str | None
    tokens: int
    calls: int = 1
    dollars: float = 0.0


class LanguageModel(Protocol):
    """Answers prompts in a given shape. A prompt is data, fenced as `transforms.embedding.prompts` says."""

    model: str

    def most(self, prompts: Sequence[Mapping[str, Any]], instruction: str) -> tuple[int, float]:
        """The tokens and the US dollars that answering prompts takes at most."""

    def answers(
        self, prompts: Sequence[Mapping[str, Any]], shape: type[Shape], instruction: str
    ) -> Iterator[Answer[Shape]]:
        """One answer per prompt as it comes, in any order, valid for the pydantic model `shape`.

        BudgetError before the first call if the prompts need more tokens than the budget of a run.
        """


class ContextIndex(Protocol):
    """The published index as conversations ask it."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What names the index in a manifest: index_version, model and dimensions."""

    def candidates(
        self,
        queries: pl.DataFrame,
        settings: ContextSettings,
        own: Mapping[str, Sequence[str]] | None = None,
    ) -> pl.DataFrame:
        """The rows of `conversation_candidates` for queries (window_id, query, text), in one pass.

        A query does not find its own window, or in place of it the documents that `own` names.
        """

    def chunk_vectors(self, chunk_ids: Sequence[str]) -> dict[str, np.ndarray]:
        """The vector of each chunk; zeros for one that has none."""

    def passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """The chunks as a reader sees them."""


class PublishedIndex(Protocol):
    """Opens what is published."""

    def open(self) -> AbstractContextManager[ContextIndex]:
        """The current version, closed on leaving."""


class AnswerCache(Protocol):
    """Answers of language models by what was asked."""

    def known(self, keys: Sequence[str]) -> dict[str, str]:
        """The answers to those of `keys` that have one."""

    def store(self, answers: Mapping[str, str]) -> None:
        """Keep answers; durable when the call returns."""


@dataclass(frozen=True)
class Readiness:
    """The table `readiness` of a published version, with the version's name."""

    version: str
    table: pa.Table


class Publisher(Protocol):
    """Builds and switches the published index."""

    def publish(self) -> Mapping[str, Any]:
        """Publish what the lake holds; returns version, row counts and what was reused."""

    def readiness(self) -> Readiness:
        """What the current version says of every text: `schemas.READINESS`."""


class OperationsHistory(Protocol):
    """What the runs of the last time did, and what is published."""

    def figures(self, instance: dg.DagsterInstance) -> Figures:
        """The figures of the report on how the system does."""


class GraphExporter(Protocol):
    """Keeps the exported graph of documents."""

    def export(self, folders: Iterable[Folder]) -> tuple[pa.Table, Mapping[str, int]]:
        """Make the export consist of `folders`; the files as `schemas.DOCUMENT_GRAPH`, and what was done."""


class Searcher(Protocol):
    """The published index as saved searches ask it."""

    def search(self, queries: Sequence[str], filters: Mapping[str, Any], limit: int) -> Answers:
        """The hits of each query; `filters` by name, those that are None left open."""


class Evaluator(Protocol):
    """The published index as evaluation sees it."""

    def ground_truth(self) -> tuple[pa.Table, pa.Table]:
        """The configured queries and their right answers, as `transforms.evaluation.ground_truth.GroundTruth`."""

    def run(self, queries: pa.Table) -> pa.Table:
        """Every list of every query and profile: `schemas.EVALUATION_RUNS`."""

    def contents(self, relevance: pa.Table) -> Contents:
        """What the index holds of what right answers can name."""

    def facts(self) -> pl.DataFrame:
        """What the index says of each chunk, see `transforms.evaluation.report.retrieved_measures`."""

    def save(self, report: Mapping[str, Any]) -> Mapping[str, str]:
        """Write a report; returns the paths of its files by their kind."""


class Progress(Protocol):
    """Is told how far a stage has come."""

    def expect(self, stage: str, rows: int) -> None:
        """`rows` rows of `stage` are to be done; the rate and the time left are told from now on."""

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """`rows` more rows of `stage` are done."""
