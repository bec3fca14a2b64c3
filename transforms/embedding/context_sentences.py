"""One sentence for a chunk: its subject and its place, put before the text that is embedded.

This module has sentences from known facts, and the prompt of a language model and its answer. A
sentence says nothing that grows with its thread or moves with a document's other sections, so that
an addition there changes no other embedded text.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import ibis
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, Field, create_model

from transforms.embedding.sent_texts import DOCUMENT
from transforms.hashing import text_hash
from transforms.settings.models import SafetySettings
from transforms.text.redaction import screened

_PROMPT = "1"
"""Number of the prompt in the keys of answers, which are paid for: raised if `SENTENCES` changes."""
SENTENCES = (
    "You write one sentence about each chunk of a mail or document, to be put before it in a search index. `place` "
    "says where a chunk stands, `before` what comes before it, `text` is the chunk. Say what the chunk is about and "
    "how it fits in: name things by their names instead of pronouns, in the language of the chunk, in at most 30 "
    "words, plain text. Write one sentence per chunk, in their order."
)
_FACTS = ("description", "from_name", "from_addr", "thread_subject", "document_title")
BATCH_CHUNKS = 10
"""Chunks per prompt (SecondBrain)."""
SENTENCE_CHARS = 300
"""Characters; a longer sentence is rejected."""
_LOOKBACK, _BEFORE_CHARS = 2, 300
"""Chunks before a chunk that are shown with it (SecondBrain), and characters of each."""
_TEXT_CHARS = 2000
"""Characters of the chunk that are shown."""
_LONG_CHARS, _MOST_CHARS = 16_000, 200_000
"""Characters from which the service holds a document, some 4,096 tokens, and of it that are read at
most.
"""
_FEW_LETTERS, _SCRIPT_SHARE = 20, 0.5


@dataclass(frozen=True)
class FactTables:
    """Tables with the facts of a chunk: messages, thread_tree, threads and documents."""

    messages: ibis.Table
    tree: ibis.Table
    threads: ibis.Table
    documents: ibis.Table


def chunk_facts(chunks: ibis.Table, tables: FactTables) -> ibis.Table:
    """`chunks` with from_name, from_addr, at, thread_subject, document_title, tags and description."""
    mails = tables.messages.select(
        mail="message_id", from_name="from_name", from_addr="from_addr", sent="effective_at"
    )
    # A view, since Ibis takes a join of a join for one chain, which knows no computed columns.
    subjects = (
        tables.tree.view()
        .join(tables.threads.select("thread_id", thread_subject="subject"), "thread_id")
        .select(member="message_id", thread_subject="thread_subject")
    )
    documents = tables.documents.select(
        document="doc_id",
        document_title="title",
        tags="tags",
        description="description",
        written=ibis.coalesce(tables.documents.modified_at, tables.documents.created_at),
    )
    columns = [
        "chunk_id",
        "source",
        "source_kind",
        "doc_id",
        "attachment_id",
        "chunk_index",
        "chunk_count",
        "title",
        "heading_path",
        "text_display",
    ]
    own_columns = chunks.select(columns)
    facts = own_columns.left_join(mails, own_columns.doc_id == mails.mail)
    facts = facts.left_join(subjects, facts.doc_id == subjects.member)
    facts = facts.left_join(documents, facts.doc_id == documents.document)
    return facts.select(
        *columns, *_FACTS, "tags", at=ibis.coalesce(facts.sent, facts.written)
    ).order_by("doc_id", "attachment_id", "chunk_index", "chunk_id")


def structural_sentences(chunk_facts: pa.Table) -> pa.Table:
    """Columns chunk_id and sentence for the rows of `chunk_facts`, in their order; no model is
    called.
    """
    frame = pl.DataFrame(chunk_facts)
    day = pl.col("at").dt.strftime("%Y-%m-%d")
    author = pl.coalesce(_filled("from_name"), _filled("from_addr"))
    position = pl.when(pl.col("chunk_count") > 1).then(
        pl.format(", part {} of {}", pl.col("chunk_index") + 1, "chunk_count")
    )
    mail = pl.concat_str(
        pl.when(pl.col("attachment_id").is_not_null())
        .then(pl.format("Attachment “{}” of a mail", _line("title")))
        .otherwise(pl.lit("Mail")),
        _phrase(" by ", author),
        _phrase(" of ", day),
        _phrase(" in the thread “", _filled("thread_subject"), "”"),
        position.fill_null(""),
        pl.lit("."),
    )
    headings = pl.col("heading_path").list.join(" › ")
    document = pl.concat_str(
        pl.when(headings != "")
        .then(pl.format("Section “{}” of the document", headings))
        .otherwise(pl.lit("Document")),
        _phrase(" “", _filled("document_title"), "”"),
        _phrase(" of ", day),
        _phrase(" on ", pl.col("tags").list.join(", ").replace("", None)),
        _phrase(": ", _filled("description")),
        pl.lit("."),
    )
    # Who speaks in a conversation may be a pseudonym, which is not indexed: its title is enough.
    talk = pl.concat_str(
        pl.lit("Conversation"),
        _phrase(" “", pl.col("heading_path").list.first().replace("", None), "”"),
        pl.lit("."),
    )
    kind = pl.col("source_kind")
    sentence = (
        pl.when(kind == "document")
        .then(document)
        .when(kind == "conversation")
        .then(talk)
        .otherwise(mail)
    )
    return frame.select("chunk_id", sentence=_one_line(sentence)).to_arrow()


def _line(column: str) -> pl.Expr:
    return _one_line(pl.col(column))


def _one_line(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(r"\s+", " ").str.strip_chars()


def _filled(column: str) -> pl.Expr:
    """The column on one line, null if it is empty."""
    return _line(column).replace("", None)


def _phrase(prefix: str, value: pl.Expr, suffix: str = "") -> pl.Expr:
    """A value between a prefix and a suffix; empty if the value is null."""
    return pl.concat_str(pl.lit(prefix), value, pl.lit(suffix)).fill_null("")


@dataclass(frozen=True)
class Request:
    """The prompt's data about one chunk; `key` names its answer in the cache: model, prompt
    version, hash.
    """

    chunk_id: str
    key: str
    data: Mapping[str, str]
    document: str = ""


@dataclass(frozen=True)
class Asking:
    """The settings of requests: the model, the screen, and by source whether it reads all of a
    document (`document`).
    """

    model: str
    safety: SafetySettings
    kinds: Mapping[str, str] = field(default_factory=dict)


def requests(
    chunk_facts: pa.Table, sentences: pa.Table, asking: Asking
) -> tuple[list[Request], Counter[str]]:
    """A request for each chunk of `chunk_facts`, with its place, the chunks before it and its text,
    each cut; finds by kind.

    Texts are screened before they are cut, so that no half of a secret remains. If the model reads
    documents, a chunk of one with more than `_LONG_CHARS` characters has the document beside it.
    """
    screening = screened(chunk_facts.column("text_display").to_pylist(), asking.safety)
    chunk_facts = chunk_facts.set_column(
        chunk_facts.schema.get_field_index("text_display"),
        "text_display",
        pa.array(screening.texts, pa.large_string()),
    )
    frame = pl.DataFrame(
        chunk_facts.select(["chunk_id", "source", "doc_id", "attachment_id", "text_display"])
    )
    preceding = [
        pl.col("text_display").shift(n).over("doc_id", "attachment_id").str.slice(0, _BEFORE_CHARS)
        for n in range(_LOOKBACK, 0, -1)
    ]
    inputs = frame.select(
        "chunk_id",
        before=pl.concat_list([pl.lit([], dtype=pl.List(pl.String)), *preceding])
        .list.drop_nulls()
        .list.join("\n…\n"),
        text=pl.col("text_display").str.slice(0, _TEXT_CHARS),
        document=_documents(asking.kinds),
    ).join(pl.DataFrame(sentences), on="chunk_id", maintain_order="left")
    result = []
    for chunk_id, before, text, document, place in inputs.iter_rows():
        data = {"place": place, "before": before, "text": text}
        extra = {DOCUMENT: text_hash(document)} if document else {}
        key = f"{asking.model}/{_PROMPT}/{text_hash(json.dumps(data | extra, sort_keys=True))}"
        result.append(Request(chunk_id, key, data, document))
    return result, screening.finds


def _documents(kinds: Mapping[str, str]) -> pl.Expr:
    """All of the document or attachment of a chunk, if a model is to read it and it is long; else
    empty.
    """
    is_read = pl.col("source").is_in([source for source, kind in kinds.items() if kind == DOCUMENT])
    whole = pl.col("text_display").str.join("\n\n").over("doc_id", "attachment_id")
    is_long = whole.str.len_chars() > _LONG_CHARS
    return pl.when(is_read & is_long).then(whole.str.slice(0, _MOST_CHARS)).otherwise(pl.lit(""))


class Sentences(BaseModel):
    """The answer of a language model: one sentence per chunk, in their order."""

    sentences: list[str]


def sentences_shape(count: int) -> type[Sentences]:
    """The shape of an answer on `count` chunks."""
    exactly = Annotated[list[str], Field(min_length=count, max_length=count)]
    return create_model("Sentences", __base__=Sentences, sentences=(exactly, ...))


def sentence_prompt(batch: Sequence[Request]) -> dict[str, Any]:
    """The data of a prompt on some chunks."""
    extra = {DOCUMENT: batch[0].document} if batch[0].document else {}
    return extra | {"chunks": [{"number": n, **request.data} for n, request in enumerate(batch, 1)]}


def usable(sentence: str, text: str) -> str | None:
    """The sentence on one line; None if it is empty, too long or not in the script of the chunk's
    text.

    The script is checked, not the language: a sentence in Latin letters on a Cyrillic text is
    rejected, a French one on an English text is not.

    >>> usable("The mail is about rye.", "Рожь и соль в каждом хлебе") is None
    True
    """
    line = " ".join(sentence.split())
    if not 10 <= len(line) <= SENTENCE_CHARS or not re.search(r"[^\W\d_]", line):
        return None
    in_text, in_line = _scripts(text[:_TEXT_CHARS]), _scripts(line)
    if in_text.total() < _FEW_LETTERS:
        return line
    script = max(sorted(in_text), key=lambda name: in_text[name])
    return line if in_line[script] >= _SCRIPT_SHARE * max(1, in_line.total()) else None


def _scripts(text: str) -> Counter[str]:
    """Letters by the first word of their Unicode name, which is their script; those of Japan and
    China as one.
    """
    letters = Counter(sign for sign in text if sign.isalpha())
    counts: Counter[str] = Counter()
    for sign, count in letters.items():
        name = unicodedata.name(sign, "UNKNOWN").split()[0]
        counts["CJK" if name in ("HIRAGANA", "KATAKANA") else name] += count
    return counts


def with_sentences(context: pa.Table, texts: pa.Table, sentences: pa.Table) -> pa.Table:
    """The `chunk_context` table with sentences: rows of `context`, and of chunks that have a
    sentence alone.

    `texts` has the chunk_id and text_embed of every chunk with a sentence; `sentences` its sentence
    and sentence_kind. The sentence and an empty line are put before the embedded text
    (SecondBrain).
    """
    context_rows = pl.DataFrame(context).drop("sentence", "sentence_kind")
    alone = (
        pl.DataFrame(texts)
        .join(context_rows, on="chunk_id", how="anti")
        .select(
            "chunk_id",
            context=pl.lit(""),
            context_kind=pl.lit("sentence"),
            text_embed="text_embed",
            checksum=pl.lit(""),
        )
    )
    rows = (
        pl.concat([context_rows, alone])
        .join(pl.DataFrame(sentences), on="chunk_id", how="left")
        .with_columns(pl.col("sentence", "sentence_kind").fill_null(""))
        .sort("chunk_id")
    )
    with_sentence = pl.when(pl.col("sentence") != "").then(
        pl.format("{}\n\n{}", "sentence", "text_embed")
    )
    embedded = rows.with_columns(text_embed=with_sentence.otherwise(pl.col("text_embed")))
    hashes = [text_hash(text) for text in embedded.get_column("text_embed")]
    return embedded.with_columns(checksum=pl.Series(hashes, dtype=pl.String)).to_arrow()
