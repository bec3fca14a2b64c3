"""Decisions on a topic: what was accepted, chosen, rejected, replaced or settled in its discussions, by whom and when."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from dagster_project.config.settings import Settings
from dagster_project.extras.answers.transforms.choice import changes, content_words
from dagster_project.extras.answers.transforms.decisions import (
    ACCEPTED,
    APPROVED,
    CHOSEN,
    OF_TRAILER,
    POSTED,
    REJECTED,
    REPLACED,
    SETTLED,
    decision_signs,
    without,
)
from dagster_project.extras.answers.transforms.pieces import turns_in
from dagster_project.extras.answers.transforms.words import language_for
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.servers.answers import Decision, Replacement
from dagster_project.system.sql_files import SqlFile
from transforms.retrieval.citations import cited
from transforms.settings.search import TermSettings

_SQL = SqlFile(__file__, "decisions.sql")
_DISCUSSIONS = 10
"""Discussions that are read, of the best hits."""
_EACH = 8
"""Decisions of a discussion that are shown; those on its last revision come first."""
_ALIKE = 0.4
"""Share of the words that a choice has of an earlier one which it replaces."""
_ORDER = (ACCEPTED, REJECTED, CHOSEN, REPLACED, SETTLED, POSTED, APPROVED)


class Statement(NamedTuple):
    """A decision before it is known what replaced it: its half-open bytes in its text, and the row of that."""

    kind: str
    text: str
    start: int
    end: int
    row: Mapping[str, Any]
    at: datetime | None
    speaker: str | None
    person: str | None

    def citation(self) -> str:
        """The bytes of the sentence; of a revision its mail."""
        name = self.row["doc_id"]
        return cited(name, self.start, self.end) if self.end else name


def decisions_on(
    settings: Settings, index: SearchIndex, rows: Sequence[Mapping[str, Any]]
) -> list[Decision]:
    """The decisions in the discussions of hits, whose rows are those of `schemas.SEARCH_HITS`.

    Those of the best discussion are first, in each the oldest. Mails with all revisions of their patches, and windows
    of chats, are read; a trailer counts in an answer by the person whom it names.
    """
    ids = list(dict.fromkeys(row["doc_id"] for row in rows))
    stated = stated_in_mails(index, ids, _DISCUSSIONS) + _of_chats(index, ids)
    last = _last_revisions(stated)
    shown = [one for group in _discussions(stated) for one in _best(group, last)]
    return [_decision(settings, one, stated, last) for one in shown]


def stated_in_mails(index: SearchIndex, ids: Sequence[str], most: int) -> list[Statement]:
    """The decisions that the discussions of mails state, `most` discussions at most, the oldest of each first."""
    values = {"ids": list(ids), "most": most}
    mails = index.ask(_SQL("mails"), values).to_pylist()
    trailers: dict[str, list[tuple[str, int, int]]] = {}
    for row in index.ask(_SQL("trailers"), {**values, "kinds": list(OF_TRAILER)}).to_pylist():
        sign = (OF_TRAILER[row["kind"]], row["byte_start"], row["byte_end"])
        trailers.setdefault(row["message_id"], []).append(sign)
    bodies = index.screen.masked([mail["body"] for mail in mails])
    return [
        stated
        for mail, body in zip(mails, bodies, strict=True)
        for stated in _in_mail(_shown(index, mail), body, trailers)
    ]


def _shown(index: SearchIndex, mail: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a mail as it may be shown."""
    texts = {name: index.screen.optional(mail[name]) for name in ("subject", "author")}
    return {**mail, **texts, "doc_id": mail["message_id"]}


def _in_mail(
    mail: Mapping[str, Any], body: str, trailers: Mapping[str, Sequence[tuple[str, int, int]]]
) -> Iterator[Statement]:
    by = {
        "row": mail,
        "at": mail["effective_at"],
        "speaker": mail["author"],
        "person": mail["person_id"],
    }
    if mail["is_reply"] is False:
        if mail["is_latest"]:
            yield Statement(POSTED, mail["subject"], 0, 0, **by)
        return
    data = body.encode()
    if len(data) != len(mail["body"].encode()):
        return  # held back as a whole
    own = trailers.get(mail["doc_id"], ())
    for kind, start, end in own:
        yield Statement(kind, data[start:end].decode(errors="replace"), start, end, **by)
    ranges, holes = (
        [(one["start"], one["end"]) for one in mail[name]] for name in ("ranges", "holes")
    )
    holes += [(start, end) for _, start, end in own]
    for sign in decision_signs(body, without(ranges, holes)):
        if sign.kind != SETTLED or mail["is_first_author"]:
            yield Statement(sign.kind, sign.text, sign.start, sign.end, **by)


def _of_chats(index: SearchIndex, ids: Sequence[str]) -> list[Statement]:
    """The decisions that turns of windows state."""
    windows = index.ask(_SQL("windows"), {"ids": list(ids)}).to_pylist()
    texts = index.screen.masked([window["markdown"] for window in windows])
    results = []
    for window, text in zip(windows, texts, strict=True):
        if len(text.encode()) != len(window["markdown"].encode()):
            continue  # held back as a whole
        row = {
            "doc_id": window["doc_id"],
            "thread_id": window["doc_id"],
            "rank": _DISCUSSIONS + ids.index(window["doc_id"]),
            "subject": index.screen.optional(window["title"]),
            "series_id": None,
            "version": None,
        }
        turns = list(turns_in(text))
        language = language_for(" ".join(turn.text for turn in turns))
        for turn in turns:
            for sign in decision_signs(turn.text, language=language):
                start, end = turn.start + sign.start, turn.start + sign.end
                by = (row, turn.at, turn.speaker, turn.speaker)
                results.append(Statement(sign.kind, sign.text, start, end, *by))
    return results


def _last_revisions(stated: Iterable[Statement]) -> dict[str, list[Mapping[str, Any]]]:
    """The patches of the last revision of each series, by their parts."""
    results: dict[str, list[Mapping[str, Any]]] = {}
    for one in stated:
        if one.kind == POSTED:
            results.setdefault(one.row["series_id"], []).append(one.row)
    return {key: sorted(rows, key=lambda r: r["part"] or 0) for key, rows in results.items()}


def _discussions(stated: Iterable[Statement]) -> list[list[Statement]]:
    """The statements by discussion."""
    groups: dict[int, list[Statement]] = {}
    for one in stated:
        groups.setdefault(one.row["rank"], []).append(one)
    return [groups[rank] for rank in sorted(groups)]


def _best(
    group: Sequence[Statement], last: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[Statement]:
    """The decisions of a discussion to show, each approval of a person once a revision."""
    once: dict[Any, Statement] = {}
    for one in group:
        series, version = one.row["series_id"], one.row["version"]
        if one.kind == POSTED:
            if version > 1:
                once.setdefault(
                    (POSTED, series),
                    one._replace(row=last[series][0], text=last[series][0]["subject"]),
                )
            continue
        key = (one.kind, one.person, series or one.row["thread_id"], version)
        once.setdefault(key if one.kind == APPROVED else (*key, one.text), one)

    def order(one: Statement) -> tuple[bool, int]:
        revisions = last.get(one.row["series_id"])
        is_old = bool(revisions) and one.row["version"] < revisions[0]["version"]
        return is_old, _ORDER.index(one.kind)

    return sorted(sorted(once.values(), key=order)[:_EACH], key=lambda one: (_time(one), one.start))


def _time(one: Statement) -> str:
    return one.at.isoformat() if one.at else ""


def _decision(
    settings: Settings,
    one: Statement,
    stated: Sequence[Statement],
    last: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Decision:
    return Decision(
        kind=one.kind,
        text=one.text,
        citation=one.citation(),
        doc_id=one.row["doc_id"],
        title=one.row["subject"],
        speaker=one.speaker,
        at=one.at,
        version=one.row["version"],
        replaced_by=_of_revision(one, last) or _of_later(settings, one, stated),
    )


def _of_revision(
    one: Statement, last: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Replacement | None:
    """The last revision of the patch that a decision is on, if that is a later one."""
    patches = [
        patch
        for patch in last.get(one.row["series_id"] or "", ())
        if patch["version"] > one.row["version"] and _is_later(patch["effective_at"], one.at)
    ]
    if not patches:
        return None
    same = (patch for patch in patches if patch["title"] == one.row["title"])
    patch = next(same, patches[0])
    return Replacement(
        citation=patch["doc_id"],
        title=patch["subject"],
        at=patch["effective_at"],
        version=patch["version"],
    )


def _is_later(later: datetime | None, than: datetime | None) -> bool:
    return later is not None and than is not None and later > than


def _of_later(
    settings: Settings, one: Statement, stated: Sequence[Statement]
) -> Replacement | None:
    """The first later decision of the same thread that takes this one back or chooses something else on it."""
    if one.kind not in (ACCEPTED, CHOSEN) or one.at is None:
        return None
    for later in sorted(stated, key=_time):
        is_below = later.row["thread_id"] == one.row["thread_id"] and _is_later(later.at, one.at)
        if is_below and _takes_back(settings.terms, one, later):
            return Replacement(
                citation=later.citation(), title=later.text, at=later.at, version=None
            )
    return None


def _takes_back(terms: TermSettings, one: Statement, later: Statement) -> bool:
    if later.kind in (REJECTED, REPLACED):
        return later.person == one.person and later.row["series_id"] == one.row["series_id"]
    if not one.kind == later.kind == CHOSEN:
        return False
    if changes([one.text, later.text], [one.at, later.at], terms):
        return True
    before, after = content_words(one.text, terms), content_words(later.text, terms)
    return before != after and len(before & after) >= _ALIKE * len(before | after)
