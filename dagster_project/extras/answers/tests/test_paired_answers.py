"""Two workspaces that differ only outside a lens answer, verify and decide with the same bytes under it."""

import json
import random
import re
from contextlib import closing

import pytest

from dagster_project.index.search.opened_index import open_index
from dagster_project.servers.answers import question_answered, verified
from dagster_project.servers.requests import AskRequest
from tests.archives import Workspace
from tests.dagster_project.servers.test_paired_lenses import (
    ANSWERED,
    HIDDEN,
    PUBLIC,
    UNSAID,
    bytes_of,
    pair,
)
from transforms.errors import QueryError
from transforms.retrieval.search_filters import Filters

__all__ = ["pair"]
QUESTIONS = 500
FORMS = ("who {} the {}?", "when was the {} {}?", "{} and {}", "what of the {} beside the {} {}?")
WORDS = sorted({w for mail in (*PUBLIC, *HIDDEN) for w in re.findall(r"[a-z]{4,}", mail.body)})
SENTENCES = sorted({s for mail in (*PUBLIC, *HIDDEN) for s in mail.body.split("\n") if len(s) > 20})


def answered(work: Workspace, lens: str, questions: list[str]) -> list[str]:
    """The answers to questions, each with the decisions on it and the colours of a sentence."""
    results = []
    with closing(open_index(work.settings, lens=lens)) as index:
        for number, question in enumerate(questions):
            requests = [AskRequest(q=question), AskRequest(q=question, decisions=True)]
            said: list[str] = []
            for request in requests:
                answer = question_answered(work.settings, index, request, Filters()).answer
                said.append(
                    answer.model_dump_json(exclude={"question", "index_version", "completeness"})
                )
            text = SENTENCES[number % len(SENTENCES)].replace("mill", WORDS[number % len(WORDS)])
            try:
                colours = verified(work.settings, index, lens, text).answer.sentences
                said.append(
                    json.dumps([s.model_dump(mode="json", exclude={"text"}) for s in colours])
                )
            except QueryError as fault:
                said.append(str(fault))
            results.append(bytes_of(" ".join(said)))
    return results


@pytest.mark.exhaustive
@pytest.mark.parametrize("lens", ANSWERED)
def test_what_a_lens_hides_changes_no_answer(pair: tuple[Workspace, Workspace], lens: str):
    chance = random.Random(lens)
    questions = [
        chance.choice(FORMS).format(*chance.sample(WORDS, 3))
        for _ in range(QUESTIONS // len(ANSWERED))
    ]
    few, many = (answered(work, lens, questions) for work in pair)
    assert [q for q, one, other in zip(questions, few, many, strict=True) if one != other] == []
    assert [word for word in UNSAID if word.decode() in "".join(many)] == []
    assert sum('"sentences":[{' in said for said in few) >= 10
