"""Answers to programs from the published index: texts screened, bounded and cited, with the
passages that they show.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, Field, computed_field

from dagster_project.config.settings import Settings
from dagster_project.context.context_tables import contexts_of
from dagster_project.context.conversation_context import context_of, read_conversation
from dagster_project.extensions import extra_parts
from dagster_project.index.search.completeness import Completeness
from dagster_project.index.search.conditions.field_values import DATED
from dagster_project.index.search.hit_table import SearchResult
from dagster_project.index.search.lookup import reading, resolved_name
from dagster_project.index.search.opened_index import with_options
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.index.search.statements.assistant_sql import bounded_rows
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.servers.requests import AskRequest, SearchRequest
from dagster_project.system.sql_files import SqlFile
from transforms.context.passages import as_quote
from transforms.errors import QueryError, SettingsError, UnknownIdError, shortened
from transforms.retrieval.labels import label_of_judge
from transforms.retrieval.search_filters import Filters

_Answer = TypeVar("_Answer", bound=BaseModel)
BY_OTHERS = "text by others"
_SQL = SqlFile(__file__, "answers.sql", dated=DATED)
_SCORE_DIGITS = 4
"""Decimals of a score: more say nothing about which of two texts answers."""
_Score = Annotated[float, AfterValidator(lambda score: round(score, _SCORE_DIGITS))]


class Shown(NamedTuple, Generic[_Answer]):
    """An answer, and the passages whose text it shows."""

    answer: _Answer
    passages: list[Disclosed]


class Hit(BaseModel):
    """One hit of a search."""

    rank: int
    citation: str = Field(description="for `get`: a place and its bytes")
    doc_id: str
    source: str
    source_kind: str
    list_id: str | None
    title: str | None = Field(description=BY_OTHERS)
    breadcrumb: str | None = Field(
        description="titles from the document down to the section, by others"
    )
    author: str | None = Field(description=BY_OTHERS)
    at: datetime | None
    thread_id: str | None
    score: _Score
    lexical_score: _Score
    vector_score: _Score
    snippet: str = Field(description=BY_OTHERS)
    folded: list["Folded"] = Field(description="texts that are folded into this one")
    expansions: list["Around"] = []
    label: str | None = None


class Folded(BaseModel):
    """A text that is folded into a hit, as an earlier version; `relation` says how it relates to it."""

    relation: str
    doc_id: str
    title: str | None = Field(description=BY_OTHERS)
    author: str | None = Field(description=BY_OTHERS)
    day: str | None


class Found(BaseModel):
    """How many hits a query has, folded ones not counted, and the threads that these are in."""

    hits: int
    threads: int
    is_exact: bool


class Around(BaseModel):
    """A text around a hit, if the search expands hits."""

    kind: str = Field(description="parent, previous, next, section or link")
    citation: str
    doc_id: str
    title: str | None = Field(description=BY_OTHERS)
    text: str = Field(description=BY_OTHERS)


class Hits(BaseModel):
    """The answer to a search; `label` says how far it can be trusted.

    Without hits `nearest` is the title and id of the nearest text, `meant` is the query with
    other words in place of those no text holds, if that finds something.
    """

    outcome: str
    label: str
    nearest: str | None = Field(description=BY_OTHERS)
    meant: list[str]
    index_version: str
    hits: list[Hit]
    count: Found
    completeness: Completeness


class Repeated(BaseModel):
    """An earlier issue that one may repeat: how likely (0 to 1), how much of the words bears it out,
    and the fields in which both agree or contradict each other.
    """

    number: int | None
    doc_id: str
    title: str = Field(description=BY_OTHERS)
    confidence: float
    evidence: float
    same: list[str]
    different: list[str]


class Issue(BaseModel):
    """An issue as triage sees it, masked."""

    number: int | None
    doc_id: str = Field(description="for `get`")
    source: str
    title: str = Field(description=BY_OTHERS)
    state: str
    created_at: datetime | None
    summary: str = Field(description=BY_OTHERS)
    missing: list[str] = Field(description="what it lacks, as steps or a version")
    duplicates: list[Repeated]


class IssueList(BaseModel):
    """Issues, the newest first, and how many more there are."""

    issues: list[Issue]
    more: int


class Text(BaseModel):
    """A stored text; `byte_end` is where the next `get` would go on if `is_cut`."""

    kind: str
    id: str
    doc_id: str
    title: str | None = Field(description=BY_OTHERS)
    text: str = Field(
        description=f"{BY_OTHERS}; a mark takes as many bytes as the text that it masks"
    )
    byte_start: int
    byte_end: int
    is_cut: bool


class Block(BaseModel):
    """Passages for a text under a budget of tokens, with their citations."""

    outcome: str
    index_version: str
    tokens: int
    budget_tokens: int
    stopped: str = Field(
        description="budget: the next passage does not fit; evidence: no more bears it out"
    )
    block: str = Field(description="text by others, under headings that cite it")
    completeness: Completeness


class OutlinedMail(BaseModel):
    """A mail of a thread; one that is not in the archives has no author, time and subject."""

    message_id: str
    parent_id: str | None
    depth: int
    author: str | None = Field(description=BY_OTHERS)
    at: datetime | None
    subject: str | None = Field(description=BY_OTHERS)


class ThreadOutline(BaseModel):
    """A discussion without texts; `is_cut` if it has more mails than are listed, those from the place `next` on."""

    thread_id: str
    subject: str | None = Field(description=BY_OTHERS)
    mails: list[OutlinedMail]
    is_cut: bool
    next: int | None


class Source(BaseModel):
    """One source of the index; `newest` is the time of its newest mail, document or chat."""

    name: str
    kinds: list[str]
    lists: list[str]
    documents: int = Field(description="mails, documents, and windows of chats")
    passages: int
    newest: datetime | None


class Rows(BaseModel):
    """The rows of a statement; `is_cut` if there are more than are shown."""

    columns: list[str]
    rows: list[list[str | int | float | bool | None]] = Field(description="texts by others")
    is_cut: bool


class PersonThread(BaseModel):
    """A discussion that a person took part in."""

    thread_id: str
    subject: str | None = Field(description=BY_OTHERS)


class PersonRecord(BaseModel):
    """A person as the mails show them; `mentions` counts mails to them, in copy or with a trailer."""

    name: str | None = Field(description=BY_OTHERS)
    addresses: list[str]
    mails: int
    mentions: int
    first_at: datetime | None
    last_at: datetime | None
    lists: list[str]
    threads: list[PersonThread] = Field(description="the latest, at most five")


class PersonList(BaseModel):
    """The people of a name, who wrote most first."""

    people: list[PersonRecord]


class ProofStep(BaseModel):
    """A step from a citation to its source; `state` is proved, unchanged since read, source gone,
    differs or not known.
    """

    name: str
    state: str
    detail: str = Field(description=BY_OTHERS)


class Followed(BaseModel):
    """A citation with the steps to its source."""

    citation: str
    links: list[ProofStep]


class Differing(BaseModel):
    """One thing that a sentence says and its source does not, or the other way round."""

    kind: str = Field(description="number, date, name, speaker, negation, modal, citation or word")
    claim: str
    stands: str = Field(description=BY_OTHERS)


class CheckedSentence(BaseModel):
    """A sentence and the nearest sentence of a source; `words` are half-open byte ranges in `source`
    that both have. `label` is PASS, HALLUCINATION_RISK or IRRELEVANT: its colour as a judgement.
    """

    text: str
    colour: str = Field(description="green: a source says it; yellow: one is near; red: none")
    citation: str | None = None
    doc_id: str | None = None
    speaker: str | None = Field(None, description=BY_OTHERS)
    at: datetime | None = None
    source: str | None = Field(None, description=BY_OTHERS)
    words: list[tuple[int, int]] = []
    differs: list[Differing] = []

    @computed_field
    def label(self) -> str:
        return label_of_judge(is_accepted=self.colour == "green", is_near=self.colour == "yellow")


class Verification(BaseModel):
    """The citations in a text, and its sentences."""

    citations: list[Followed]
    sentences: list[CheckedSentence] = []


class AnswerSentence(BaseModel):
    """A sentence of an answer: the words of a source, or those of a model that a source says."""

    text: str = Field(description=BY_OTHERS)
    citation: str
    doc_id: str
    title: str | None = Field(description=BY_OTHERS)
    speaker: str | None = Field(description=BY_OTHERS)
    at: datetime | None


class Changed(BaseModel):
    """Two sentences, by their place from 0, that say the same with other numbers."""

    earlier: int
    later: int
    before: str
    after: str


class Replacement(BaseModel):
    """A later revision of a patch, or a later decision with its words as title."""

    citation: str
    title: str | None = Field(description=BY_OTHERS)
    at: datetime | None
    version: int | None


class Decision(BaseModel):
    """A decision in the words of a source: who stated it when, and what replaced it later."""

    kind: str = Field(
        description="accepted, approved, chosen, rejected, replaced, settled, or posted: a last revision"
    )
    text: str = Field(description=BY_OTHERS)
    citation: str
    doc_id: str
    title: str | None = Field(description=BY_OTHERS)
    speaker: str | None = Field(description=BY_OTHERS)
    at: datetime | None
    version: int | None = Field(description="revision of the patch that it is on")
    replaced_by: Replacement | None


class QuestionAnswer(BaseModel):
    """The answer to a question in sentences that sources say; `label` is that of its search."""

    outcome: str = Field(description="ANSWER or NO_RESULTS")
    question: str
    label: str
    by: str = Field(description="extract, decisions, or the model that wrote the sentences")
    sentences: list[AnswerSentence] = []
    decisions: list[Decision] = []
    left_out: int = Field(0, description="sentences of a model that no source says")
    changes: list[Changed] = []
    nearest: str | None = Field(None, description=BY_OTHERS)
    tokens: int = 0
    dollars: float = 0.0
    index_version: str
    completeness: Completeness


class ModelPrompt(BaseModel):
    """The question with its passages for a model of the caller; no text where the search finds nothing."""

    instruction: str
    text: str


class SourceList(BaseModel):
    """The sources of the index."""

    index_version: str
    sources: list[Source]


def within(name: str, number: int | None, usual: int, most: int, least: int = 1) -> int:
    """The number that a question names, else the usual one or the most; QueryError for one that is
    not given.
    """
    if number is not None and number > most:
        raise QueryError(
            f"{name} is {number}, and this server gives {most} at most: ask for less, or parts"
        )
    if number is not None and number < least:
        raise QueryError(f"{name} is {number}, and begins at {least}")
    return min(usual, most) if number is None else number


def best_hits(
    settings: Settings, index: SearchIndex, request: SearchRequest, filters: Filters, most: int
) -> Shown[Hits]:
    """The best hits of a query, `most` at most; QueryError for more, or if no profile has the name
    that the request gives.
    """
    limit = within("limit", request.limit, index.settings.limit, most)
    changed = with_options(settings, request).search
    return hits(index, index.search([request.q], filters, limit, request.plain, changed))


def hits(index: SearchIndex, result: SearchResult) -> Shown[Hits]:
    """The hits of a search for one query, or of the texts near to one."""
    items = [
        Hit(
            title=row["subject"],
            author=row["from_name"] or row["from_addr"],
            at=row["effective_at"],
            folded=[
                Folded(**{name: part[name] for name in Folded.model_fields})
                for part in row["folded"]
            ],
            expansions=[
                Around(
                    title=index.screen.optional(around["title"]),
                    **{n: around[n] for n in ("kind", "citation", "doc_id", "text")},
                )
                for around in row["expansions"]
            ],
            **{name: row[name] for name in _SAME},
        )
        for row in result.hits.to_pylist()
    ]
    understood = result.understood[0]
    answer = Hits(
        outcome="HITS" if items else "NO_RESULTS",
        label=result.labels[0],
        nearest=understood.nearest,
        meant=list(understood.meant),
        index_version=index.manifest["version"],
        hits=items,
        count=Found(**result.counts[0]._asdict()),
        completeness=result.completeness,
    )
    passages = list[Disclosed]()
    for hit in items:
        passages.append(Disclosed(hit.citation, hit.snippet, hit.doc_id))
        passages += [
            Disclosed(around.citation, around.text, around.doc_id) for around in hit.expansions
        ]
    return Shown(answer, passages)


_SAME = (
    "rank",
    "snippet",
    "breadcrumb",
    "citation",
    "doc_id",
    "source",
    "source_kind",
    "list_id",
    "thread_id",
    "score",
    "lexical_score",
    "vector_score",
    "label",
)


def text(index: SearchIndex, name: str, byte_start: int, most: int) -> Shown[Text]:
    """The text that `name` means, from `byte_start` on, `most` characters; QueryError if that is
    behind its end.
    """
    item = reading(index.ask, name)
    stored = index.screen.text(item.text).encode()
    if byte_start > len(stored):
        raise QueryError(
            f"byte_start {byte_start} is not in {item.id}, which has {len(stored)} bytes here"
        )
    excerpt = stored[byte_start:].decode(errors="replace")[:most]
    end = byte_start + len(excerpt.encode())
    answer = Text(
        **{n: getattr(item, n) for n in ("kind", "id", "doc_id")},
        title=index.screen.optional(item.title),
        text=excerpt,
        byte_start=byte_start,
        byte_end=end,
        is_cut=end < len(stored),
    )
    of = item.id if item.kind == "thread" else item.doc_id
    return Shown(answer, [Disclosed(f"{item.id}:{byte_start}-{end}", excerpt, of)])


def block(
    settings: Settings, index: SearchIndex, question: str, budget: int, where: str
) -> Shown[Block]:
    """The context of a text; `where` narrows the sources of the settings."""
    usual = settings.context.where
    both = f"({usual}) ({where})" if usual.strip() and where.strip() else usual + where
    narrowed = settings.context.model_copy(update={"budget_tokens": budget, "where": both})
    conversation = read_conversation(settings, None, question)
    context = context_of(settings.model_copy(update={"context": narrowed}), conversation, index)
    answer = Block(
        outcome=context.outcome,
        index_version=index.manifest["version"],
        tokens=int(context.manifest["block_tokens"]),
        budget_tokens=budget,
        stopped=context.manifest["stopped"],
        block=context.block,
        completeness=context.completeness,
    )
    return Shown(answer, context.disclosed())


def thread_outline(
    index: SearchIndex, name: str, limit: int, start: int = 0
) -> Shown[ThreadOutline]:
    """Mails of the thread that `name` means, or that the mail of that name is in, from the place
    `start` on.

    QueryError if it means neither, or if the thread has no mail there.
    """
    kind, id_ = resolved_name(index.ask, name)
    if kind not in ("thread", "message"):
        raise QueryError(f"{name!r} is a {kind}, which is in no thread: name a thread or a mail")
    values = {"id": id_, "limit": limit + 1, "start": start}
    rows = index.connection.execute(_SQL("outline"), values).to_arrow_table().to_pylist()
    if not rows:
        raise QueryError(f"{name!r} has no mail at the place {start}")
    mails = [
        OutlinedMail(
            author=index.screen.optional(row["from_name"] or row["from_addr"]),
            subject=index.screen.optional(row["subject"]),
            at=row["effective_at"],
            **{n: row[n] for n in ("message_id", "parent_id", "depth")},
        )
        for row in rows[:limit]
    ]
    answer = ThreadOutline(
        thread_id=rows[0]["thread_id"],
        subject=index.screen.optional(rows[0]["thread_subject"]),
        mails=mails,
        is_cut=len(rows) > limit,
        next=start + limit if len(rows) > limit else None,
    )
    return Shown(
        answer, [Disclosed(mail.message_id, mail.subject or "", mail.message_id) for mail in mails]
    )


def people_named(index: SearchIndex, name: str, limit: int) -> Shown[PersonList]:
    """The people whose name or address holds the words of `name`; UnknownIdError without one."""
    addresses = index.conditions.values.people.named(name).addresses
    rows = index.ask(_SQL("people"), {"addrs": addresses, "limit": limit}).to_pylist()
    if not rows:
        raise UnknownIdError(
            f"no mail is from or to a person called {shortened(name)!r}; `search` finds names in texts"
        )
    for thread in (thread for row in rows for thread in row["threads"]):
        thread["subject"] = index.screen.optional(thread["subject"])
    listed = [PersonRecord(**row) for row in rows]
    threads = [thread for person in listed for thread in person.threads]
    passages = [Disclosed(t.thread_id, t.subject or "", t.thread_id) for t in threads]
    return Shown(PersonList(people=listed), passages)


def verified(
    settings: Settings, index: SearchIndex, lens: str | None, text: str
) -> Shown[Verification]:
    """Each citation in a text, or the text as one, and those of the sentences that a source says,
    followed back; and the colour of each sentence.
    """
    checked = sentences_of(settings, index, text)
    names = cited_in(text, checked)
    proofs = extra_parts("proofs") if names else []
    chains = [c for proof in proofs for c in proof(settings, index, lens, names)]
    followed = [
        Followed(citation=name, links=[ProofStep(**link._asdict()) for link in links])
        for name, links in chains
    ]
    passages = [
        Disclosed(f.citation, link.detail, f.citation) for f in followed for link in f.links
    ]
    passages += [
        Disclosed(s.citation, s.source or "", s.doc_id or "") for s in checked if s.citation
    ]
    return Shown(Verification(citations=followed, sentences=checked), passages)


def question_answered(
    settings: Settings, index: SearchIndex, request: AskRequest, filters: Filters
) -> Shown[QuestionAnswer]:
    """The answer to a question from texts that meet the filters; SettingsError without an extra
    that answers.
    """
    if not (parts := extra_parts("answers")):
        raise SettingsError(
            "no extra of this installation answers questions: use search or context"
        )
    answer: Shown[QuestionAnswer] = parts[0](settings, index, request, filters)
    return answer


def prompt_for_caller(
    settings: Settings, index: SearchIndex, request: AskRequest, filters: Filters
) -> Shown[ModelPrompt]:
    """The prompt of a question for a model of the caller; SettingsError without an extra that
    answers.
    """
    if not (parts := extra_parts("prompts")):
        raise SettingsError(
            "no extra of this installation answers questions: use search or context"
        )
    prompt: Shown[ModelPrompt] = parts[0](settings, index, request, filters)
    return prompt


def sentences_of(settings: Settings, index: SearchIndex, text: str) -> list[CheckedSentence]:
    """The sentences of a text with their colours; none without an extra that checks them."""
    return [s for check in extra_parts("claims") for s in check(settings, index, text)]


def cited_in(text: str, checked: Sequence[CheckedSentence]) -> str:
    """The citations of a text, or the text as one unless it has sentences, and behind them those of
    its green sentences with the words of their sources as quotes.
    """
    green = {f"⟨{s.citation}⟩": s.source or "" for s in checked if s.colour == "green"}
    for name in green:
        text = text.replace(name, "")
    quotes = [f"{as_quote(source)}\n\n{name}" for name, source in green.items()]
    cites = not checked or "⟨" in text or "://" in text
    return "\n\n".join([*([text] if cites else []), *quotes])


def triaged(
    settings: Settings, index: SearchIndex, lens: str | None, number: int | None, most: int
) -> Shown[IssueList]:
    """The newest issues, or those of a number, with the earlier ones that they may repeat."""
    rows = [r for notes in extra_parts("issues") for r in notes(settings, index, lens)]
    rows = [row for row in rows if number in (None, row["number"])]
    issues = [Issue(**row) for row in rows[:most]]
    passages = [
        Disclosed(of.doc_id, f"{of.title}\n{getattr(of, 'summary', '')}", of.doc_id)
        for issue in issues
        for of in (issue, *issue.duplicates)
    ]
    return Shown(IssueList(issues=issues, more=len(rows) - len(issues)), passages)


def sources(index: SearchIndex) -> Shown[SourceList]:
    """The sources of the index."""
    rows: list[dict[str, Any]] = (
        index.connection.execute(_SQL("sources")).to_arrow_table().to_pylist()
    )
    answer = SourceList(
        index_version=index.manifest["version"], sources=[Source(**row) for row in rows]
    )
    return Shown(answer, [])


def rows(
    settings: Settings, index: SearchIndex, statement: str, most: int, most_characters: int
) -> Shown[Rows]:
    """The rows of one SELECT on the shown index, with every text masked, up to so many rows and
    characters.
    """
    table = bounded_rows(
        index.path,
        statement,
        most + 1,
        most_characters,
        on_start=index.further.append,
        contexts=contexts_of(settings, index, statement),
    )
    lines: list[list[str | int | float | bool | None]] = []
    room = most_characters
    for row in zip(*(column.to_pylist() for column in table.slice(0, most).columns), strict=True):
        cells = [_cell(value, index) for value in row]
        room -= sum(len(cell) for cell in cells if isinstance(cell, str))
        if room < 0:
            break
        lines.append(cells)
    answer = Rows(columns=table.column_names, rows=lines, is_cut=len(lines) < table.num_rows)
    texts = [json.dumps(cells, ensure_ascii=False) for cells in lines]
    return Shown(
        answer, [Disclosed(f"row {number}", text, "sql") for number, text in enumerate(texts, 1)]
    )


def _cell(value: Any, index: SearchIndex) -> str | int | float | bool | None:
    """A value as JSON has it: numbers as they are, all else as a masked text."""
    if (
        value is None
        or isinstance(value, bool | int)
        or (isinstance(value, float) and isfinite(value))
    ):
        return value
    return index.screen.text(str(value))
