"""One sentence for a chunk: what it is about and where it stands, put before the text that is embedded.

What is here: sentences from what is known, and what a language model is asked and may answer. A sentence
says nothing that grows with its thread or moves with a document's other sections, so that what is added there
changes no other embedded text.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import ibis
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, Field, create_model

from transforms.hashing import text_hash
from transforms.settings.models import SafetySettings
from transforms.text.redaction import screened

VERSION = "1"
PROMPT_VERSION = "1"
INSTRUCTION = (
    "You write one sentence about each chunk of a mail or document, to be put before it in a search index. `place` "
    "says where a chunk stands, `before` what comes before it, `text` is the chunk. Say what the chunk is about and "
    "how it fits in: name things by their names instead of pronouns, in the language of the chunk, in at most 30 "
    "words, plain text. Write one sentence per chunk, in their order."
)
_FACTS = ("description", "from_name", "from_addr", "thread_subject", "document_title")
BATCH_CHUNKS = 10
"""Chunks per prompt (SecondBrain)."""
SENTENCE_CHARS = 300
"""A longer sentence is not taken."""
_LOOKBACK, _BEFORE_CHARS = 2, 300
"""Chunks before a chunk that are shown with it (SecondBrain), and characters of each."""
_TEXT_CHARS = 2000
"""Characters of the chunk that are shown."""
_SCRIPT_SHARE = 0.5


@dataclass(frozen=True)
class Known:
    """Tables that say where a chunk stands: messages, thread_tree, threads and documents."""

    messages: ibis.Table
    tree: ibis.Table
    threads: ibis.Table
    documents: ibis.Table


def placed(chunks: ibis.Table, known: Known) -> ibis.Table:
    """`chunks` with from_name, from_addr, at, thread_subject, document_title, tags and description."""
    mails = known.messages.select(
        mail="message_id", from_name="from_name", from_addr="from_addr", sent="effective_at"
    )
    # A view, since Ibis takes a join of what is a join already for one chain, which knows no computed columns.
    subjects = (
        known.tree.view()
        .join(known.threads.select("thread_id", thread_subject="subject"), "thread_id")
        .select(member="message_id", thread_subject="thread_subject")
    )
    documents = known.documents.select(
        document="doc_id", document_title="title", tags="tags", description="description",
        written=ibis.coalesce(known.documents.modified_at, known.documents.created_at),
    )  # fmt: skip
    columns = [
        "chunk_id", "source", "source_kind", "doc_id", "attachment_id", "chunk_index", "chunk_count", "title",
        "heading_path", "text_display",
    ]  # fmt: skip
    own = chunks.select(columns)
    joined = own.left_join(mails, own.doc_id == mails.mail)
    joined = joined.left_join(subjects, joined.doc_id == subjects.member)
    joined = joined.left_join(documents, joined.doc_id == documents.document)
    return joined.select(*columns, *_FACTS, "tags", at=ibis.coalesce(joined.sent, joined.written)).order_by(
        "doc_id", "attachment_id", "chunk_index", "chunk_id"
    )


def structural_sentences(placed: pa.Table) -> pa.Table:
    """Columns chunk_id and sentence, of what `placed` returns, in its order; no model is asked."""
    frame = pl.DataFrame(placed)
    day = pl.col("at").dt.strftime("%Y-%m-%d")
    author = pl.coalesce(_filled("from_name"), _filled("from_addr"))
    part = pl.when(pl.col("chunk_count") > 1).then(
        pl.format(", part {} of {}", pl.col("chunk_index") + 1, "chunk_count")
    )
    mail = pl.concat_str(
        pl.when(pl.col("attachment_id").is_not_null())
        .then(pl.format("Attachment “{}” of a mail", _line("title")))
        .otherwise(pl.lit("Mail")),
        _said(" by ", author),
        _said(" of ", day),
        _said(" in the thread “", _filled("thread_subject"), "”"),
        part.fill_null(""),
        pl.lit("."),
    )
    headings = pl.col("heading_path").list.join(" › ")
    document = pl.concat_str(
        pl.when(headings != "").then(pl.format("Section “{}” of the document", headings)).otherwise(pl.lit("Document")),
        _said(" “", _filled("document_title"), "”"),
        _said(" of ", day),
        _said(" on ", pl.col("tags").list.join(", ").replace("", None)),
        _said(": ", _filled("description")),
        pl.lit("."),
    )  # fmt: skip
    # Who speaks in a conversation may be a pseudonym, which is not indexed: its title is enough.
    talk = pl.concat_str(
        pl.lit("Conversation"),
        _said(" “", pl.col("heading_path").list.first().replace("", None), "”"),
        pl.lit("."),
    )
    kind = pl.col("source_kind")
    sentence = (
        pl.when(kind == "document").then(document).when(kind == "conversation").then(talk).otherwise(mail)
    )
    return frame.select("chunk_id", sentence=_one_line(sentence)).to_arrow()


def _line(column: str) -> pl.Expr:
    return _one_line(pl.col(column))


def _one_line(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(r"\s+", " ").str.strip_chars()


def _filled(column: str) -> pl.Expr:
    """The column on one line, null where it is empty."""
    return _line(column).replace("", None)


def _said(before: str, what: pl.Expr, after: str = "") -> pl.Expr:
    """What is known between two words, and nothing where it is not known."""
    return pl.concat_str(pl.lit(before), what, pl.lit(after)).fill_null("")


@dataclass(frozen=True)
class Request:
    """What a language model reads of one chunk; `key` names its answer in the cache: model, prompt version, hash."""

    chunk_id: str
    key: str
    data: Mapping[str, str]


def requests(
    placed: pa.Table, sentences: pa.Table, model: str, safety: SafetySettings
) -> tuple[list[Request], Counter[str]]:
    """What is asked about each chunk of `placed`: its place, the chunks before it, its text, cut to their lengths.

    Texts are screened before they are cut, so that no half of a secret is left; finds by kind beside them.
    """
    shown = screened(placed.column("text_display").to_pylist(), safety)
    placed = placed.set_column(
        placed.schema.get_field_index("text_display"),
        "text_display",
        pa.array(shown.texts, pa.large_string()),
    )
    frame = pl.DataFrame(placed.select(["chunk_id", "doc_id", "attachment_id", "text_display"]))
    before = [
        pl.col("text_display").shift(n).over("doc_id", "attachment_id").str.slice(0, _BEFORE_CHARS)
        for n in range(_LOOKBACK, 0, -1)
    ]
    made = frame.select(
        "chunk_id",
        before=pl.concat_list([pl.lit([], dtype=pl.List(pl.String)), *before])
        .list.drop_nulls()
        .list.join("\n…\n"),
        text=pl.col("text_display").str.slice(0, _TEXT_CHARS),
    ).join(pl.DataFrame(sentences), on="chunk_id", maintain_order="left")
    found = []
    for chunk_id, earlier, text, place in made.iter_rows():
        data = {"place": place, "before": earlier, "text": text}
        key = f"{model}/{PROMPT_VERSION}/{text_hash(json.dumps(data, sort_keys=True))}"
        found.append(Request(chunk_id, key, data))
    return found, shown.finds


class Sentences(BaseModel):
    """What a language model answers: one sentence per chunk, in their order."""

    sentences: list[str]


def sentences_shape(count: int) -> type[Sentences]:
    """The shape of an answer on `count` chunks."""
    exactly = Annotated[list[str], Field(min_length=count, max_length=count)]
    return create_model("Sentences", __base__=Sentences, sentences=(exactly, ...))


def prompt(batch: Sequence[Request]) -> dict[str, Any]:
    """The data of a prompt on some chunks."""
    return {"chunks": [{"number": n, **request.data} for n, request in enumerate(batch, 1)]}


def usable(sentence: str, text: str) -> str | None:
    """The sentence on one line; None if it is empty, too long or not in the script of the chunk's text.

    The language itself is not told: a sentence in Latin letters on a text in Cyrillic ones is found,
    one in French on an English text is not.
    """
    line = " ".join(sentence.split())
    if not 10 <= len(line) <= SENTENCE_CHARS or not re.search(r"[^\W\d_]", line):
        return None
    script = _script(text[:_TEXT_CHARS])
    return line if script is None or _share(line, script) >= _SCRIPT_SHARE else None


def _script(text: str) -> str | None:
    """The script that most letters of a text are of; None if it has hardly any letters."""
    counted = _scripts(text)
    if sum(counted.values()) < 20:
        return None
    return max(sorted(counted), key=lambda name: counted[name])


def _share(text: str, script: str) -> float:
    counted = _scripts(text)
    return counted[script] / max(1, sum(counted.values()))


def _scripts(text: str) -> Counter[str]:
    """Letters by the first word of their Unicode name, which is their script; those of Japan and China as one."""
    letters = Counter(sign for sign in text if sign.isalpha())
    counted: Counter[str] = Counter()
    for sign, count in letters.items():
        name = unicodedata.name(sign, "UNKNOWN").split()[0]
        counted["CJK" if name in ("HIRAGANA", "KATAKANA") else name] += count
    return counted


def with_sentences(context: pa.Table, texts: pa.Table, sentences: pa.Table) -> pa.Table:
    """The `chunk_context` table with sentences: rows of `context`, and of chunks that have a sentence alone.

    `texts` has the chunk_id and text_embed of every chunk with a sentence; `sentences` its sentence
    and sentence_kind. The sentence and an empty line are put before what is embedded (the SecondBrain design).
    """
    own = pl.DataFrame(context).drop("sentence", "sentence_kind")
    alone = (
        pl.DataFrame(texts)
        .join(own, on="chunk_id", how="anti")
        .select(
            "chunk_id",
            context=pl.lit(""),
            context_kind=pl.lit("sentence"),
            text_embed="text_embed",
            checksum=pl.lit(""),
        )
    )
    joined = (
        pl.concat([own, alone])
        .join(pl.DataFrame(sentences), on="chunk_id", how="left")
        .with_columns(pl.col("sentence", "sentence_kind").fill_null(""))
        .sort("chunk_id")
    )
    told = pl.when(pl.col("sentence") != "").then(pl.format("{}\n\n{}", "sentence", "text_embed"))
    embedded = joined.with_columns(text_embed=told.otherwise(pl.col("text_embed")))
    hashes = [text_hash(text) for text in embedded.get_column("text_embed")]
    return embedded.with_columns(checksum=pl.Series(hashes, dtype=pl.String)).to_arrow()
