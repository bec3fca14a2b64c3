"""`weft ask`: the answer to a question, in sentences of the sources."""

import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import (
    CONFIG,
    JSON,
    LENS,
    NO_RESULTS,
    TEXT_TYPE,
    QueryCommand,
    explained,
    filtered,
)
from dagster_project.config.settings import load_settings
from dagster_project.context.sessions import Account
from dagster_project.extras.answers.asking import DECISIONS, answer_to
from dagster_project.index.search.opened_index import open_index
from dagster_project.servers.answers import Decision, QuestionAnswer
from dagster_project.servers.requests import AskRequest, ModelRequest
from transforms.retrieval.search_filters import Filters
from transforms.text.visible import visible

_COLUMNS = 80


@click.command(cls=QueryCommand)
@click.argument("question", nargs=-1, required=True, type=TEXT_TYPE)
@CONFIG
@JSON
@LENS
@click.option(
    "--model",
    "by_model",
    is_flag=True,
    help="Let the model of [answers] write; what no source says is left out.",
)
@click.option(
    "--decisions",
    "by_decisions",
    is_flag=True,
    help="List what was decided in discussions on QUESTION, when, by whom, and what replaced it.",
)
@filtered
@explained
def ask(
    question: tuple[str, ...],
    config: Path | None,
    as_json: bool,
    lens: str | None,
    by_model: bool,
    by_decisions: bool,
    **conditions: Any,
) -> None:
    """Answer QUESTION in sentences of the sources, each with who said it when, and its citation.

    The sentences are those of the texts that a search finds, so that nothing is made up; with --model
    a model writes them from these texts, and those that no source says are left out. Where they
    say the same with other numbers at another time, both days are named. Exit code 3 if the search
    finds nothing.
    """
    settings, text = load_settings(config), " ".join(question)
    with closing(open_index(settings, for_assistant=by_model, lens=lens)) as index:
        index.screen.finds.clear()
        request = (ModelRequest if by_model else AskRequest)(q=text, decisions=by_decisions)
        shown = answer_to(settings, index, request, Filters(**conditions))
        if lens:
            Account(settings, lens, index).note(
                "weft ask", text, shown.passages, index.screen.finds
            )
    answer = shown.answer
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        click.echo("\n".join(visible(line) for line in _lines(answer)))
    if answer.outcome == "NO_RESULTS":
        sys.exit(NO_RESULTS)


def _lines(answer: QuestionAnswer) -> Iterator[str]:
    if answer.by == DECISIONS and answer.decisions:
        for decision in answer.decisions:
            yield from _lines_of(decision)
    elif not answer.sentences:
        near = f"; the nearest is {answer.nearest}" if answer.nearest else ""
        yield f"NO_RESULTS: no text answers this{near}"
    for sentence in answer.sentences:
        yield from textwrap.wrap(sentence.text, _COLUMNS) or [""]
        day = f", {sentence.at:%Y-%m-%d}" if sentence.at else ""
        yield f"  {_by(sentence.speaker, sentence.title)}{day} ⟨{sentence.citation}⟩"
    for change in answer.changes:
        earlier, later = answer.sentences[change.earlier].at, answer.sentences[change.later].at
        yield f"On {earlier:%Y-%m-%d}: {change.before}; on {later:%Y-%m-%d}: {change.after}, the later."
    if answer.left_out:
        one = "1 sentence" if answer.left_out == 1 else f"{answer.left_out} sentences"
        yield f"{one} left out: no source says it"
    if answer.tokens:
        yield f"by {answer.by}, {answer.tokens:,} tokens, ${answer.dollars:.4f}"


def _lines_of(decision: Decision) -> Iterator[str]:
    day = f"{decision.at:%Y-%m-%d}" if decision.at else "no day"
    of = f" v{decision.version}" if decision.version else ""
    yield f"{day} {decision.kind}{of} by {_by(decision.speaker, None)}: {decision.title or 'no title'}"
    if decision.text != decision.title:
        yield from textwrap.wrap(
            decision.text, _COLUMNS, initial_indent="  ", subsequent_indent="  "
        )
    yield f"  ⟨{decision.citation}⟩"
    if later := decision.replaced_by:
        on = f" on {later.at:%Y-%m-%d}" if later.at else ""
        yield f"  replaced{on} by {later.title} ⟨{later.citation}⟩"


def _by(speaker: str | None, title: str | None) -> str:
    return speaker or title or "no author"
