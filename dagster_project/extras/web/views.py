"""The views of search and of mail: the data of each page."""

from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from dagster_project.extensions import extra_parts
from dagster_project.extras.web import (
    contents,
    corpus,
    documents,
    files,
    mails,
    patches,
    results,
    searches,
)
from dagster_project.extras.web.mail_parts import plain_parts
from dagster_project.extras.web.marks import Marked, markdown_html
from dagster_project.extras.web.question import medium_of, page_of, question_of
from dagster_project.extras.web.site import Site, cited_bytes, parameter, rows_about, tagged
from dagster_project.index.search.explain import explanation
from dagster_project.index.search.lookup import reading
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.servers import answers
from dagster_project.servers.answers import CheckedSentence, Followed
from dagster_project.servers.requests import AskRequest
from dagster_project.servers.threads import card
from dagster_project.system.sql_files import SqlFile
from transforms.errors import QueryError, UnknownIdError, shortened
from transforms.text.storable import storable

_BROWSE = SqlFile(__file__, "browse.sql")
_ISSUES, _LIKELY = 50, 0.1
"""Issues on their page, and the confidence from which it names an earlier one."""
_SHORT_THREAD = 3
"""Mails of a thread up to which none is folded."""
_LISTED_SEARCHES = 12
"""Saved searches on the start page."""
_PICTURE = """
SELECT text_embed AS picture FROM chunks WHERE chunk_kind = 'picture' AND $id IN (chunk_id, coalesce(attachment_id, doc_id))
"""


def search(site: Site, request: Request, index: SearchIndex) -> Response:
    """The box, and the results if there is a question."""
    question = question_of(request.query_params)
    if question.is_empty:
        glance = corpus.glance(index.ask)
        for name, ident in (("recent", "thread_id"), ("documents", "doc_id"), ("chats", "doc_id")):
            _note(
                request,
                ((row[ident], row.get("subject") or row.get("title")) for row in glance[name]),
            )
        saved = searches.own_searches(site, index, _LISTED_SEARCHES)
        return site.page("home.html", request, index, corpus=glance, searches=saved)
    result = results.results(index, question)
    hits = [hit for group in result.groups for hit in (*group.hits, *group.folded)]
    _note(request, ((hit.row["citation"], hit.row["snippet"]) for hit in hits))
    folded = (part for hit in hits for _, parts in hit.folded for part in parts)
    _note(request, ((part["doc_id"], part["title"]) for part in folded))
    saved, why_not = searches.saved_as(site, question, index), searches.why_not(site)
    return site.page("results.html", request, index, results=result, saved=saved, why_not=why_not)


def _note(request: Request, rows: Iterable[tuple[str, str | None]]) -> None:
    """Add the places and texts that the page shows to its receipt."""
    request.state.shown += [Disclosed(place, text, place) for place, text in rows if text]


def why(site: Site, request: Request, index: SearchIndex) -> Response:
    """The effect of every stage of a search, and the fate of one id."""
    question, ident = question_of(request.query_params), request.query_params.get("id") or None
    if not question.query:
        raise QueryError("there is no query to explain: add ?q= to the address")
    result = explanation(
        index, question.query, ident, question.filters, results.MOST_HITS, question.plain
    )
    ways, stages = result.ways(results.ROWS), results.why_stages(result)
    _note(request, ((place, title) for (_, place, title), _ in ways))
    return site.page("why.html", request, index, why=result, ways=ways, stages=stages, ident=ident)


def open_id(site: Site, request: Request, index: SearchIndex) -> Response:
    """Leads from an id, or from a citation with its bytes, to its page."""
    text = reading(index.ask, parameter(request))
    kind, id_, start, end = text.kind, text.id, text.byte_start, text.byte_end
    if kind == "chunk":
        kind, id_ = str(text.facts["source_kind"]), str(text.facts["attachment_id"] or text.doc_id)
        spans = [span for span in text.facts["spans"] if span["role"] == "own"]
        start, end = (spans[0]["byte_start"], spans[-1]["byte_end"]) if spans else (None, None)
    elif kind == "node":
        start = end = None
    return RedirectResponse(page_of(kind, id_, start, end), 302)


def ask(site: Site, request: Request, index: SearchIndex) -> Response:
    """A form for a question, and its answer in sentences of the sources."""
    question, answer = question_of(request.query_params), None
    if not question.is_empty:
        decisions = "decisions" in request.query_params
        ask_request = AskRequest(q=question.query, decisions=decisions)
        answer, passages = answers.question_answered(
            site.settings, index, ask_request, question.filters
        )
        request.state.shown += passages
    return site.page("ask.html", request, index, answer=answer)


def verify(site: Site, request: Request, index: SearchIndex) -> Response:
    """A form for a text, and its sentences with their colours; the way of each citation back to its
    source, link by link.
    """
    if request.method == "POST":
        form = dict(parse_qsl(request.state.body.decode(errors="replace"), max_num_fields=9))
        text = storable(form.get("text", "")).strip()
    else:
        text = request.query_params.get("id", "").strip()
    checked, chains = list[CheckedSentence](), list[Followed]()
    if text:
        shown, passages = answers.verified(site.settings, index, site.lens, text)
        request.state.shown += passages
        checked, chains = shown.sentences, shown.citations
    marked = [(sentence, marked_words(sentence)) for sentence in checked]
    is_pasted = request.method == "POST" or not text
    values = {"chains": chains, "sentences": marked, "text": text if is_pasted else ""}
    return site.page("verify.html", request, index, **values)


def marked_words(sentence: CheckedSentence) -> list[tuple[str, bool]]:
    """The parts of the source of a sentence, and whether both have their words."""
    data, at, parts = (sentence.source or "").encode(), 0, list[tuple[str, bool]]()
    for start, end in sentence.words:
        parts += [(data[at:start].decode(), False), (data[start:end].decode(), True)]
        at = end
    return [part for part in [*parts, (data[at:].decode(), False)] if part[0]]


def mail(site: Site, request: Request, index: SearchIndex) -> Response:
    """One mail beside the tree of its thread."""
    ask, id_ = index.ask, parameter(request)
    thread = mails.mail_page(ask, id_, cited_bytes(request))
    first = thread.mails[0]
    backlinks = patches.backlinks(ask, id_)
    _note(request, [(id_, first.row["body"])])
    _note(request, ((node["message_id"], node["subject"]) for node in thread.tree))
    _note(request, ((row["from_id"], row["subject"]) for row in backlinks))
    return site.page(
        "mail.html",
        request,
        index,
        thread=thread,
        mail=first,
        around=thread.around(id_),
        series=patches.versions(ask, first.series),
        backlinks=backlinks,
        has_files=site.shows_files(index),
        sent=files.html_of(site, index, id_, is_read=request.query_params.get("view") == "html"),
        pictures_too="?pictures=1" if request.query_params.get("pictures") == "1" else "",
        reply=mails.reply_address(first),
    )


def stored_text(site: Site, request: Request, index: SearchIndex) -> Response:
    """The stored text of a mail, an attachment, a document or a chat, as it is."""
    text = reading(index.ask, parameter(request))
    if text.kind not in ("message", "attachment", "document", "conversation"):
        raise UnknownIdError(f"the index holds no text of its own for {shortened(text.id)!r}")
    _note(request, [(text.id, text.text)])
    headers = {"Content-Disposition": f"inline; filename*=UTF-8''{quote(text.id)}.txt"}
    return tagged(request, PlainTextResponse(text.text, headers=headers))


def thread(site: Site, request: Request, index: SearchIndex) -> Response:
    """A thread, all mails on one page, but for the cited folded to two lines, or as a tree."""
    start = request.query_params.get("start", "0")
    first = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 0
    page = mails.thread_page(index.ask, parameter(request), first)
    view = request.query_params.get("view") or "flat"
    is_tree = view == "tree"
    question = question_of(request.query_params)
    opening = page.mails[0].row["message_id"] if page.mails and not first else None
    hits = card(index, question.query, opening, plain=question.plain) if opening else []
    _note(request, ((node["message_id"], node["subject"]) for node in page.tree))
    _note(request, ((row["citation"], row["snippet"]) for row in hits))
    cited = {row["doc_id"] for row in hits} or {of.row["message_id"] for of in page.mails[:1]}
    is_short = len(page.mails) <= _SHORT_THREAD
    first_words = {of.row["message_id"]: of.first_words for of in page.mails}
    texts = first_words if is_tree else {of.row["message_id"]: of.row["body"] for of in page.mails}
    _note(request, texts.items())
    return site.page(
        "thread.html",
        request,
        index,
        thread=page,
        is_tree=is_tree,
        view=view,
        open_mails={of.row["message_id"] for of in page.mails} if is_short else cited,
        first_words=first_words,
        card=results.hit_passages(hits),
        has_files=site.shows_files(index),
        start=first,
        next=first + mails.PER_PAGE if first + mails.PER_PAGE < len(page.tree) else None,
    )


def attachment(site: Site, request: Request, index: SearchIndex) -> Response:
    """The text of an attachment, or why there is none."""
    (row,) = rows_about(index.ask, _BROWSE("attachment"), "attachment", parameter(request))
    is_pdf = bool(row["page_starts"]) and (row["filename"] or "").lower().endswith(".pdf")
    text = Marked(row["text"] or "", cited_bytes(request), is_printed=is_pdf)
    _note(request, [(row["attachment_id"], row["text"])])
    of_chat = _of_chat(site, index, row["source"])
    has_file = of_chat["has_files"] and (
        not of_chat["only_media"] or medium_of(row["filename"]) is not None
    )
    spans = pairwise([*row["page_starts"], len(text.data)]) if has_file and is_pdf else ()
    pages = [markdown_html(text, span=span) for span in spans]
    parts = (
        plain_parts(text, is_diff=row["content_class"] == "patch")
        if row["text"] and not pages
        else []
    )
    return site.page(
        "attachment.html",
        request,
        index,
        attachment=row,
        parts_of=parts,
        has_file=has_file,
        pages=pages,
    )


def _of_chat(site: Site, index: SearchIndex, source: str) -> dict[str, bool]:
    """Whether files of a source are shown, and whether of those only media, as of a chat with
    pseudonyms.
    """
    chats = files.source_of(site, source)
    return {
        "has_files": site.shows_files(index),
        "only_media": chats is not None and chats.pseudonyms is True,
    }


def series(site: Site, request: Request, index: SearchIndex) -> Response:
    """All versions of a patch series."""
    page = patches.series_page(index.ask, parameter(request))
    of = (patch.row for posting in page.postings for patch in posting.patches)
    _note(request, ((row["message_id"], row["subject"]) for row in of))
    return site.page("series.html", request, index, series=page)


def diff(site: Site, request: Request, index: SearchIndex) -> Response:
    """The changes from one version of a patch to another."""
    old, new = (request.query_params.get(name, "") for name in ("from", "to"))
    page = patches.patch_difference(index.ask, old, new)
    _note(request, ((row["message_id"], row["subject"]) for row in (page.old, page.new)))
    _note(request, [(new, "\n".join(line for _, line in page.lines))])
    return site.page("diff.html", request, index, diff=page)


def document(site: Site, request: Request, index: SearchIndex) -> Response:
    """A document with its outline and the links to it."""
    has_files = site.shows_files(index)
    page = documents.document_page(
        index.ask, parameter(request), cited_bytes(request), has_files=has_files
    )
    _note(request, [(page.row["doc_id"], page.row["text"]), *page.embedded])
    _note(request, ((row["from_id"], row["title"]) for row in page.backlinks))
    before, after = contents.beside(site, index, page.row["source"], page.row["doc_id"])
    _note(request, ((entry.doc_id, entry.title) for entry in (before, after) if entry))
    opens, source = (
        None,
        next((s for s in site.settings.sources if s.name == page.row["source"]), None),
    )
    if has_files and source and source.kind == "vault":
        path = site.settings.place(source).absolute() / page.row["path"]
        opens = f"obsidian://open?path={quote(str(path), safe='')}"
    values = {"before": before, "after": after, "has_file": has_files, "obsidian": opens}
    return site.page("document.html", request, index, document=page, **values)


def picture(site: Site, request: Request, index: SearchIndex) -> Response:
    """A picture as it was embedded."""
    (row,) = rows_about(index.ask, _PICTURE, "picture", parameter(request))
    return files.picture_response(row["picture"])


def chat(site: Site, request: Request, index: SearchIndex) -> Response:
    """A window of a chat by its days."""
    page = documents.chat_page(index.ask, parameter(request), cited_bytes(request))
    _note(request, [(page.row["doc_id"], page.row["markdown"])])
    return site.page(
        "chat.html", request, index, chat=page, **_of_chat(site, index, page.row["source"])
    )


def person(site: Site, request: Request, index: SearchIndex) -> Response:
    """A person: addresses, mails over time, threads, partners, reviews, files."""
    page = corpus.person_page(index.ask, parameter(request))
    for name, ident in (
        ("threads", "thread_id"),
        ("reviews", "message_id"),
        ("files", "message_id"),
    ):
        _note(request, ((row[ident], row["subject"]) for row in page.lists[name]))
    return site.page("person.html", request, index, person=page)


def quarantine(site: Site, request: Request, index: SearchIndex) -> Response:
    """The files and mails in quarantine, by reason, with examples."""
    return site.page(
        "quarantine.html", request, index, reasons=corpus.corpus_rows(index.ask, "quarantine")
    )


def issues_page(site: Site, request: Request, index: SearchIndex) -> Response:
    """The newest issues with what each lacks and may repeat."""
    parts = extra_parts("issues")
    rows = [row for notes in parts for row in notes(site.settings, index, site.lens)][:_ISSUES]
    _note(request, ((row["doc_id"], f"{row['title']}\n{row['summary']}") for row in rows))
    for row in rows:
        row["likely"] = [d for d in row["duplicates"] if d["confidence"] >= _LIKELY]
        _note(request, ((one["doc_id"], one["title"]) for one in row["likely"]))
    return site.page("issues.html", request, index, issues=rows)


def help_page(site: Site, request: Request, index: SearchIndex | None) -> Response:
    """The query language, with examples of the index if there is one."""
    language = corpus.query_help(index.ask if index else None)
    if index:
        _note(request, (("help", example) for *_, example in language["fields"]))
    return site.page("help.html", request, index, language=language)


def corpus_page(site: Site, request: Request, index: SearchIndex) -> Response:
    """The corpus as a whole."""
    quality = corpus.last_quality(site.reports) if site.reports else None
    overview = corpus.overview(index.ask)
    for name, ident in (("threads", "thread_id"), ("open", "message_id")):
        _note(request, ((row[ident], row["subject"]) for row in overview[name]))
    has_issues = extra_parts("issues") and any(s.kind == "issues" for s in site.settings.sources)
    facts = {"corpus": overview, "quality": quality, "has_issues": has_issues}
    return site.page("corpus.html", request, index, **facts)
