"""Embedding of texts that the cache lacks: estimate, claim, embed, store, account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import ibis
import numpy as np
import pyarrow as pa

from assets.protocols.lake import Progress
from assets.protocols.models import Embedded, Embedder, EmbeddingCache, Key
from transforms.embedding import sent_texts, vectors
from transforms.embedding.embedded_text import batches
from transforms.errors import BudgetError, RefusedTextError, UnansweredError, WeftError
from transforms.hashing import text_hash
from transforms.text import redaction

TASK = "document"
QUERY_TASK = "query"
PAID_TWICE = "perhaps_paid_twice"
"""The figure of texts whose earlier request may be paid for without an answer."""
_READ_TEXTS = 4096


@dataclass(frozen=True)
class Estimate:
    """The cost of embedding: texts in all, texts without a vector, batches, their tokens and US
    dollars.

    `unfinished` of the missing texts were sent before, but their answer was lost: they may be paid
    for already.
    """

    texts: int
    missing: int
    calls: int
    tokens: int
    dollars: float
    truncated: int
    unfinished: int = 0


@dataclass
class EmbeddingReport:
    """The result of a run: texts in all and embedded now, the tokens and calls that took, texts
    that were cut.

    `finds` counts the secrets and personal data that did not leave this machine, by kind, `held`
    the texts that did not. `sent_as` has the hash of the text as sent for each altered text.
    `refused` says why texts have no vector, by their hash, now or in an earlier run. `unfinished`
    were sent by an earlier run that did not see the answer: they are embedded now, and perhaps paid
    for twice.
    """

    texts: int
    dollars_per_million: float
    embedded: set[str] = field(default_factory=set)
    tokens: int = 0
    calls: int = 0
    truncated: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    finds: Counter[str] = field(default_factory=Counter)
    held: int = 0
    sent_as: Mapping[str, str] = field(default_factory=dict)

    def add(self, done: Embedded, names: Sequence[str]) -> None:
        """Count one batch of the texts `names`."""
        self.embedded |= {names[i] for i in range(len(names)) if i not in done.refused}
        self.tokens += done.tokens
        self.calls += done.calls
        self.truncated += done.truncated


def missing_texts(
    texts: ibis.Table, embedder: Embedder, cache: EmbeddingCache
) -> tuple[list[str], list[str]]:
    """The hashes of `texts` (text_hash, text), sorted: all, and those that have no vector and may
    get one.
    """
    hashes = texts.select("text_hash").distinct().order_by("text_hash").to_pyarrow()
    names = hashes.column("text_hash").to_pylist()
    return names, _open_texts((embedder.model, embedder.dimensions, TASK), names, cache)


def _open_texts(key: Key, names: Sequence[str], cache: EmbeddingCache) -> list[str]:
    """Those of `names` that have no vector and that the model has not refused."""
    missing = cache.missing(key, names)
    names = [name for name in names if name in missing]
    refused = cache.refusals(key, names)
    return [name for name in names if name not in refused]


def estimate(texts: ibis.Table, embedder: Embedder, cache: EmbeddingCache) -> Estimate:
    """The cost of embedding `texts` (text_hash, text) now."""
    texts = _sent(texts, embedder).texts
    names, missing = missing_texts(texts, embedder, cache)
    unfinished = cache.unfinished((embedder.model, embedder.dimensions, TASK), missing)
    return replace(_estimate(texts, len(names), missing, embedder)[0], unfinished=len(unfinished))


def _estimate(
    texts: ibis.Table, total: int, missing: Sequence[str], embedder: Embedder
) -> tuple[Estimate, dict[str, int]]:
    """The estimate, and the tokens of each missing text after it was cut."""
    counts: dict[str, int] = {}
    truncated = calls = 0
    for batch in batches(texts, missing, _READ_TEXTS):
        lengths = embedder.token_counts(batch.column("text").to_pylist())
        if embedder.max_tokens is not None:
            truncated += int((lengths > embedder.max_tokens).sum())
            lengths = lengths.clip(max=embedder.max_tokens)
        counts |= dict(zip(batch.column("text_hash").to_pylist(), lengths.tolist(), strict=True))
        calls += len(
            list(
                vectors.batch_ranges(lengths.tolist(), embedder.batch_texts, embedder.batch_tokens)
            )
        )
    tokens = sum(counts.values())
    dollars = tokens * embedder.price / 1e6
    calls = calls if embedder.is_paid else 0
    return Estimate(total, len(missing), calls, tokens, dollars, truncated), counts


def vectors_of(
    texts: ibis.Table,
    names: Sequence[str],
    embedder: Embedder,
    cache: EmbeddingCache,
    progress: Progress,
) -> tuple[StoredVectors, EmbeddingReport]:
    """The vectors of `texts` (text_hash, text) in the order of `names`, their hashes, and the
    report on the missing ones.

    A text that is altered before it is sent has the vector of the sent text, and in the cache its
    hash. A text that the model refuses has no vector but a reason in the report.
    """
    sent = _sent(texts, embedder)
    report = _embed_sent(sent.texts, embedder, cache, progress)
    stored = StoredVectors(cache, (embedder.model, embedder.dimensions, TASK), names, sent.renamed)
    report.finds, report.held, report.sent_as = sent.finds, sent.withheld, sent.renamed
    if sent.renamed:
        sent_as, refused = ((name, sent.renamed.get(name, name)) for name in names), report.refused
        report.refused = {own: refused[name] for own, name in sent_as if name in refused}
    return stored, report


def _sent(texts: ibis.Table, embedder: Embedder) -> sent_texts.Sent:
    return (
        sent_texts.Sent(texts)
        if embedder.safety is None
        else sent_texts.texts_sent(texts, embedder.safety)
    )


@dataclass(frozen=True)
class StoredVectors:
    """Vectors of the cache in the order of the texts `names`; only a few of them are in memory at a
    time.

    `sent_as` has the hash of the text as sent for each altered text.
    """

    cache: EmbeddingCache
    key: Key
    names: Sequence[str]
    sent_as: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many of the texts have a vector."""
        hashes = [self.sent_as.get(name, name) for name in self.names]
        missing = self.cache.missing(self.key, hashes)
        return sum(name not in missing for name in hashes)

    def between(self, first: int, end: int) -> Iterator[pa.Table]:
        """Columns `text_hash` and `vector` of those of the texts number `first` to `end` - 1 that
        have one.
        """
        for start in range(first, end, _READ_TEXTS):
            names = self.names[start : min(end, start + _READ_TEXTS)]
            hashes = [self.sent_as.get(name, name) for name in names]
            known, matrix = self.cache.vectors(self.key, hashes)
            row_of = {name: row for row, name in enumerate(known)}
            own = [name for name, sent in zip(names, hashes, strict=True) if sent in row_of]
            yield vectors.table_of(own, matrix[[row_of[sent] for sent in hashes if sent in row_of]])


def _embed_sent(
    texts: ibis.Table, embedder: Embedder, cache: EmbeddingCache, progress: Progress
) -> EmbeddingReport:
    """Give every text (text_hash, text), as it is sent, a vector in the cache; returns the report.

    Each batch is stored when it is done. Texts that other processes embed meanwhile are left to
    them. A text that the model refuses is not asked for again; the report says why. BudgetError
    before the first call if it would cost too much.
    """
    names, missing = missing_texts(texts, embedder, cache)
    embedder = embedder.for_texts(len(missing))
    report = EmbeddingReport(len(names), embedder.price)
    key = embedder.model, embedder.dimensions, TASK
    counts: dict[str, int] = {}
    if embedder.is_paid and missing:
        needed, counts = _estimate(texts, len(names), missing, embedder)
        _require_budget(needed, embedder)
    if missing:
        progress.expect("embeddings", len(missing))
    while missing:
        attempt = _Pass(texts, missing, counts, embedder, cache, key)
        try:
            attempt.run(report, progress)
        finally:
            report.unfinished |= attempt.unfinished
        cache.await_others(key, attempt.left_to_others)
        missing = _open_texts(key, attempt.left_to_others, cache)
    refused = cache.refusals(key, names)
    report.refused = {name: refused[name] for name in cache.missing(key, list(refused))}
    return report


def query_vectors(
    texts: Sequence[str], embedder: Embedder, cache: EmbeddingCache
) -> dict[str, np.ndarray]:
    """The vector of each text that is searched with, by the text; none for those that the model
    refuses.

    A text is embedded once, as it is sent, and a refused one not asked for again, as far as the
    cache may be written. Each answer is stored when it comes: an end of this process loses only the
    request under way.
    """
    key = (embedder.model, embedder.dimensions, QUERY_TASK)
    sent = (
        list(texts) if embedder.safety is None else redaction.screened(texts, embedder.safety).texts
    )
    hashes = [text_hash(text) for text in sent]
    by_hash = dict(zip(hashes, sent, strict=True))
    missing = _open_texts(key, sorted(by_hash), cache)
    row_of: dict[str, np.ndarray] = {}
    for start in range(0, len(missing), embedder.batch_texts):
        batch = {name: by_hash[name] for name in missing[start : start + embedder.batch_texts]}
        row_of |= _embed_queries(batch, embedder, cache)
    row_of |= zip(*cache.vectors(key, sorted(by_hash.keys() - row_of.keys())), strict=True)
    return {text: row_of[name] for text, name in zip(texts, hashes, strict=True) if name in row_of}


def _embed_queries(
    texts: Mapping[str, str], embedder: Embedder, cache: EmbeddingCache
) -> dict[str, np.ndarray]:
    """The vectors of texts (by their hash) that are searched with; the cache keeps them, and why
    some are refused.
    """
    key = (embedder.model, embedder.dimensions, QUERY_TASK)
    names, refused = list(texts), {}
    try:
        matrix = embedder.embed_queries(list(texts.values()))
    except RefusedTextError as error:
        matrix, refused = error.vectors, {names[place]: why for place, why in error.reasons.items()}
    places = [place for place, name in enumerate(names) if name not in refused]
    accepted = [names[place] for place in places]
    cache.store(key, accepted, matrix[places])
    cache.refuse(key, refused)
    return dict(zip(accepted, matrix[places], strict=True))


@dataclass
class _Pass:
    """One go through the missing texts; `left_to_others` are those that other processes had
    claimed.
    """

    texts: ibis.Table
    missing: Sequence[str]
    counts: Mapping[str, int]
    embedder: Embedder
    cache: EmbeddingCache
    key: Key
    under_way: dict[int, list[str]] = field(default_factory=dict)
    left_to_others: list[str] = field(default_factory=list)
    unfinished: set[str] = field(default_factory=set)

    def run(self, report: EmbeddingReport, progress: Progress) -> None:
        """Embed and store batch by batch; a failure gives back the texts under way.

        Texts that may be paid for without an answer, now or before, stay noted, so that the next
        run can say so.
        """
        try:
            for done in self.embedder.embed_batches(self._batches()):
                names = self.under_way[done.batch]
                places = [i for i in range(len(names)) if i not in done.refused]
                self.cache.store(self.key, [names[i] for i in places], done.vectors[places])
                self.cache.refuse(self.key, {names[i]: why for i, why in done.refused.items()})
                if self.embedder.is_paid:
                    self.cache.finish(self.key, names)
                self.cache.release(self.key, self.under_way.pop(done.batch))
                report.add(done, names)
                progress.step("embeddings", None, len(places))
        except UnansweredError:
            raise
        except WeftError:
            if self.embedder.is_paid:
                hashes = {name for names in self.under_way.values() for name in names}
                self.cache.finish(self.key, hashes - self.unfinished)
            raise
        finally:
            for names in self.under_way.values():
                self.cache.release(self.key, names)

    def _batches(self) -> Iterator[list[str]]:
        """The texts of the batches, each taken on when it is asked for."""
        number = 0
        size = self.embedder.batch_texts
        for rows in batches(self.texts, self.missing, size if not self.counts else _READ_TEXTS):
            names, texts = (rows.column(c).to_pylist() for c in ("text_hash", "text"))
            counts = [self.counts.get(n, 0) for n in names]
            for part in vectors.batch_ranges(counts, size, self.embedder.batch_tokens):
                own = self._taken_on([names[i] for i in part])
                if own:
                    self.under_way[number] = [names[i] for i in part if names[i] in own]
                    number += 1
                    yield [texts[i] for i in part if names[i] in own]

    def _taken_on(self, names: list[str]) -> set[str]:
        """Those of `names` that still lack a vector and that this process may embed."""
        claimed = set(names)
        if self.embedder.is_paid:
            claimed = self.cache.claim(self.key, names)
            self.left_to_others += [n for n in names if n not in claimed]
        # Looked up after claiming: vectors that another process stored before it let go are seen
        # now.
        open_texts = set(_open_texts(self.key, sorted(claimed), self.cache))
        if self.embedder.is_paid:
            self.cache.release(self.key, claimed - open_texts)
        if self.embedder.is_paid and not self.embedder.remembers:
            self.unfinished |= self.cache.begin(self.key, sorted(open_texts))
        return open_texts


def require_budget(groups: Iterable[ibis.Table], embedder: Embedder, cache: EmbeddingCache) -> None:
    """BudgetError if a paid model would need more tokens than its budget for all groups of texts
    (text_hash, text).
    """
    if not embedder.is_paid or embedder.budget is None:
        return
    needed = Estimate(0, 0, 0, 0, 0.0, 0)
    for texts in groups:
        own = estimate(texts, embedder, cache)
        sums = {
            name: getattr(needed, name) + getattr(own, name)
            for name in ("missing", "tokens", "dollars")
        }
        needed = replace(needed, **sums)
    _require_budget(needed, embedder)


def _require_budget(needed: Estimate, embedder: Embedder) -> None:
    if embedder.budget is not None and needed.tokens > embedder.budget:
        raise BudgetError(
            f"{needed.missing:,} texts without a vector of {embedder.model} take about {needed.tokens:,} tokens "
            f"(some {needed.dollars:.2f} US dollars), the budget of a run has {embedder.budget:,} left: nothing "
            "was asked for; raise gemini.budget_tokens, or build fewer sources first"
        )
