"""The answer to `weft context`, as JSON: the same in the process of the command and in a server."""

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from dagster_project.config.settings import Settings
from dagster_project.context.conversation_context import (
    ConversationText,
    context_of,
    read_conversation,
    read_window,
)
from dagster_project.context.sessions import Account, Session, opened_session
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.screen import Disclosure, Screen
from transforms.errors import ContextError, SourceError


def context_here(settings: Settings, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question, which may continue a session of this process alone."""
    lens, name = question["lens"], question["session"]
    with opened_session(settings.root, name) if name else nullcontext() as session:
        if session:
            session.require_lens(lens)
        with closing(open_index(settings, lens=lens)) as index:
            return read_context(settings, index, question, session)


def read_context(
    settings: Settings,
    index: SearchIndex,
    question: Mapping[str, Any],
    session: Session | None = None,
) -> dict[str, Any]:
    """The context of a window, a text or a file, within the bounds of its lens, and noted in the
    session; under a lens with a receipt. ContextError without the session that it continues.
    """
    if question["session"] and session is None:
        raise ContextError("a turn is added by the command that shows it, or it could be lost")
    names = ("budget_tokens", "where", "include")
    options = {name: question[name] for name in names if question[name] is not None}
    settings = settings.model_copy(update={"context": settings.context.model_copy(update=options)})
    conversation, lens = _conversation(settings, question), question["lens"]
    entries: Sequence[Disclosure] = ()
    screen = Screen(settings.safety, not question["unmasked"], index.screen.clear)
    with index.screened(screen):
        earlier = session.manifests if session and not question["again"] else ()
        result = context_of(settings, conversation, index, earlier)
        if lens:
            account = Account(settings, lens, index, session.entries if session else ())
            entries = account.note(
                "weft context", conversation.markdown, result.disclosed(), screen.finds
            )
    if session:
        session.add(lens, result.manifest, entries)
    return result.as_json() | ({"plan": result.explained()} if question["explains"] else {})


def _conversation(settings: Settings, question: Mapping[str, Any]) -> ConversationText:
    """The conversation of a question; SourceError if its file is another one in this process."""
    if question["window"]:
        return read_window(settings, question["window"])
    file, text = question["file"], question["text"]
    if file is None:
        data = text.encode(errors="surrogateescape")
        return read_conversation(settings, None, data, question["timezone"])
    state = Path(file).stat()
    if [state.st_dev, state.st_ino] != question["file_id"]:
        raise SourceError(f"{file} was replaced by another file: ask again")
    return read_conversation(settings, Path(file), None, question["timezone"])
