"""Answers to questions: sentences of the archive with their citations, or why there are none."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dagster_project.config.settings import Settings
from dagster_project.extras.answers.decisions import decisions_on
from dagster_project.extras.answers.sources import CitedPiece, sources_of
from dagster_project.extras.answers.transforms import choice
from dagster_project.extras.answers.transforms.choice import Sentence
from dagster_project.extras.answers.transforms.words import is_aside, sentence_ranges
from dagster_project.extras.answers.writing import (
    checked_reply,
    instruction_for_caller,
    model_of,
    prompt_for,
    written,
)
from dagster_project.index.search.hit_table import SearchResult
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.servers.answers import (
    AnswerSentence,
    Changed,
    Decision,
    ModelPrompt,
    QuestionAnswer,
    Shown,
)
from dagster_project.servers.requests import AskRequest, ModelRequest, ReplyRequest
from transforms.errors import QueryError
from transforms.retrieval import bm25
from transforms.retrieval.search_filters import Filters
from transforms.toml_file import toml_file

_HITS = 10
"""Hits that are read for an answer, as many as decide on the label."""
_HITS_OF_TOPIC = 30
"""Hits whose discussions are read for decisions."""
_NO_PROSE = re.compile(
    r"#|>|\||\$ |\[[^]]*\]\([^)]*\)\W*$|[-=~*^_+|]{3}|\.\. |:\w+:|```|<!--|diff --git|@@ "
)
"""Begins of sentences that are headings, quotes, rules, directives or code."""
_NO_WORDS = re.compile(
    r"[;{}]\s*\Z|\|\s+\d+ [+-]|\A[\w .'-]+ \(\d+\):\Z|\A[A-Za-z]+(?:-[A-Za-z]+)*-by: |"
    r"\A(?:Fixes|Link|Cc|Closes|Subject|Message-ID): |[=-]{4}"
)
"""Lines of code, a diffstat, the head of a shortlog, or trailers."""
_LABELLED = re.compile(r"^[ \t]*[\w ./-]{2,30}: ", re.M)
_MOST_DIGITS = 0.2
"""Share of digits in a sentence of prose."""
_ASKS_OR_LEADS = re.compile(r"[?:：？][\W_]*\Z")
"""Ends of a question, and of a sentence that leads to what is below it."""
_FEWEST_LETTERS = 0.7
"""Share of letters and blanks in a sentence of prose."""
_CLOSINGS = tuple(
    toml_file("transforms.mail.blocks.last_paragraphs", "closings.toml")["beginnings"]
)
_CLOSING_WORDS = 4
"""Words of a line that closes a mail, at most."""
_LEAST_WORDS = 3
EXTRACT, DECISIONS = "extract", "decisions"


def answer_to(
    settings: Settings, index: SearchIndex, request: AskRequest, filters: Filters
) -> Shown[QuestionAnswer]:
    """The answer to a question: sentences of the texts that a search finds for it; nothing where that finds nothing.

    QueryError for a question that is empty or cannot be understood. The model of `[answers]` writes the sentences for
    a `ModelRequest`; with `decisions` those in discussions on it are listed, which no model writes.
    """
    if isinstance(request, ModelRequest):
        if request.decisions:
            raise QueryError("decisions are listed in words of the sources: ask without a model")
        model_of(settings)
    limit = _HITS_OF_TOPIC if request.decisions else _HITS
    result = index.search([request.q], filters, limit)
    answer = _begun(index, request, result)
    rows = result.hits.to_pylist()
    if request.decisions:
        return _of_decisions(answer, decisions_on(settings, index, rows))
    if rows:
        sources = sources_of(index, rows)
        if isinstance(request, ReplyRequest):
            prompt = prompt_for(request.q, sources)
            of_caller = checked_reply(settings, request.reply, prompt) | {"by": request.by}
            return _shown(
                answer.model_copy(update=of_caller | _result(settings, of_caller["sentences"]))
            )
        if isinstance(request, ModelRequest):
            by_model = written(settings, index, request.q, sources)
            answer = answer.model_copy(update=by_model | _result(settings, by_model["sentences"]))
            return _shown(answer)
        sentences = _sentences(sources)
        shown = [
            _sentence_of(sources, sentences[n])
            for n in _chosen(index, request.q, rows, sources, sentences)
        ]
        answer = answer.model_copy(update=_result(settings, shown))
    return _shown(answer)


def prompt_of(
    settings: Settings, index: SearchIndex, request: AskRequest, filters: Filters
) -> Shown[ModelPrompt]:
    """The question with the texts that a search finds for it, for a model of the caller."""
    rows = index.search([request.q], filters, _HITS).hits.to_pylist()
    prompt = prompt_for(request.q, sources_of(index, rows))
    text = json.dumps(prompt.content, ensure_ascii=False) if prompt.passages else ""
    passages = [
        Disclosed(
            piece.citation(0, len(passage["text"].encode())), passage["text"], piece.facts["doc_id"]
        )
        for passage, piece in zip(prompt.content["passages"], prompt.passages.values(), strict=True)
    ]
    return Shown(ModelPrompt(instruction=instruction_for_caller(), text=text), passages)


def _of_decisions(answer: QuestionAnswer, listed: list[Decision]) -> Shown[QuestionAnswer]:
    outcome = "ANSWER" if listed else "NO_RESULTS"
    values = {"by": DECISIONS, "outcome": outcome, "decisions": listed}
    later = [one.replaced_by for one in listed if one.replaced_by]
    passages = [Disclosed(one.citation, one.text, one.doc_id) for one in listed]
    passages += [
        Disclosed(one.citation, one.title or "", one.citation.partition(" ")[0]) for one in later
    ]
    return Shown(answer.model_copy(update=values), passages)


def _shown(answer: QuestionAnswer) -> Shown[QuestionAnswer]:
    return Shown(answer, [Disclosed(s.citation, s.text, s.doc_id) for s in answer.sentences])


def _begun(index: SearchIndex, request: AskRequest, result: SearchResult) -> QuestionAnswer:
    return QuestionAnswer(
        outcome="NO_RESULTS",
        question=request.q,
        label=result.labels[0],
        by=EXTRACT,
        nearest=result.understood[0].nearest,
        index_version=index.manifest["version"],
        completeness=result.completeness,
    )


def _result(settings: Settings, shown: Sequence[AnswerSentence]) -> dict[str, Any]:
    """The parts of an answer of these sentences beside its question."""
    pairs = choice.changes([s.text for s in shown], [s.at for s in shown], settings.terms)
    changed = [Changed(**pair._asdict()) for pair in pairs]
    return {
        "outcome": "ANSWER" if shown else "NO_RESULTS",
        "sentences": list(shown),
        "changes": changed,
    }


def _sentences(sources: Sequence[CitedPiece]) -> list[Sentence]:
    """The sentences of pieces that are prose, each once."""
    results, before = [], set[str]()
    for number, source in enumerate(sources):
        text = source.evidence.text
        for first, last in sentence_ranges(text):
            sentence = text[first:last]
            plain = " ".join(sentence.casefold().split())
            if plain in before or not _is_prose(sentence, source):
                continue
            before.add(plain)
            cut = _cut(sentence)
            start = len(text[:first].encode())
            end = start + len(cut.encode())
            results.append(Sentence(cut, number, source.hit, start, end))
    return results


def _is_prose(sentence: str, source: CitedPiece) -> bool:
    """True for a sentence in words; of mails and documents not for one that is a name or less, that asks, greets or
    leads on, for code or a diffstat, and of no text for a sign-off with the name of its author.
    """
    if _NO_PROSE.match(sentence) or _is_sign_off(sentence, source.evidence.speaker or ""):
        return False
    if not any(map(str.isalpha, sentence)):
        return False
    if source.facts["source_kind"] == "conversation":
        return True
    letters = sum(sign.isalpha() or sign.isspace() for sign in sentence)
    if _NO_WORDS.search(sentence) or letters < _FEWEST_LETTERS * len(sentence):
        return False
    if _ASKS_OR_LEADS.search(sentence) or is_aside(sentence) or _is_list(sentence):
        return False
    return len(sentence.split()) >= _LEAST_WORDS or not sentence.isascii()


def _is_list(sentence: str) -> bool:
    """True for lines of subjects or of names with values, and for a dump."""
    lines = sentence.count("\n") + 1
    labels = len(_LABELLED.findall(sentence))
    digits = sum(map(str.isdigit, sentence))
    return (lines > 1 and 2 * labels >= lines) or digits > _MOST_DIGITS * len(sentence)


def _is_sign_off(sentence: str, speaker: str) -> bool:
    """True for the name of the speaker, a line that closes a mail, or both."""
    names = set(re.findall(r"\w+", speaker.casefold()))
    words = [word for word in re.findall(r"\w+", sentence.casefold()) if word not in names]
    closes = len(words) <= _CLOSING_WORDS and " ".join(words).startswith(_CLOSINGS)
    return bool(names) and (not words or closes)


def _cut(sentence: str) -> str:
    """A sentence of at most as many words as an answer."""
    words = list(re.finditer(r"\S+", sentence))
    return (
        sentence[: words[choice.MOST_WORDS - 1].end()]
        if len(words) > choice.MOST_WORDS
        else sentence
    )


def _chosen(
    index: SearchIndex,
    question: str,
    rows: Sequence[Mapping[str, Any]],
    sources: Sequence[CitedPiece],
    sentences: Sequence[Sentence],
) -> list[int]:
    """The numbers of the sentences to show, the oldest text first and each text in its order."""
    units = choice.units(sentences)
    if not units:
        return []
    texts = [" ".join(sentences[n].text for n in unit) for unit in units]
    terms = index.query_terms([question, *texts], index.settings.stopwords)
    count = index.postings.ranked_count
    weights = {t: bm25.idf(index.postings.df(t), count) for t in set(terms[0])}
    shares = choice.term_shares(terms[0], terms[1:], weights)
    if index.embedder.is_paid:
        vectors, cosines = choice.term_vectors(terms[1:]), np.zeros(len(units))
    else:
        embedded = index.embedder.embed_queries([question, *texts])
        vectors, cosines = embedded[1:], embedded[1:] @ embedded[0]
    best = max((row["score"] for row in rows), default=0.0) or 1.0
    scores = np.array([max(rows[sentences[u[0]].hit]["score"] / best, 0.0) for u in units])
    picked = choice.chosen(
        [len(text.split()) for text in texts],
        choice.relevance(shares, cosines, scores),
        vectors,
    )
    return sorted(
        (n for unit in picked for n in units[unit]), key=lambda n: _order(sources, sentences[n])
    )


def _order(sources: Sequence[CitedPiece], sentence: Sentence) -> tuple[str, str, int]:
    source = sources[sentence.piece]
    at = source.evidence.at
    return at.isoformat() if at else "", source.place, source.start + sentence.start


def _sentence_of(sources: Sequence[CitedPiece], sentence: Sentence) -> AnswerSentence:
    source = sources[sentence.piece]
    return AnswerSentence(
        text=sentence.text,
        citation=source.citation(sentence.start, sentence.end),
        doc_id=source.facts["doc_id"],
        title=source.facts["subject"],
        speaker=source.evidence.speaker,
        at=source.evidence.at,
    )
