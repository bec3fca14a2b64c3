"""Answers: sentences of the archive that answer a question, and whether a source says each sentence of a text."""

from dagster_project.extensions import Command, Extra

_HERE = "dagster_project.extras.answers"
EXTRA = Extra(
    commands={
        "ask": Command(
            f"{_HERE}.command:ask",
            "Search and read",
            "Answer QUESTION in sentences of the sources, each with who said it when, and its citation.",
        )
    },
    settings={"answers": f"{_HERE}.settings:AnswerSettings"},
    answers=f"{_HERE}.asking:answer_to",
    prompts=f"{_HERE}.asking:prompt_of",
    claims=f"{_HERE}.claims:checked_sentences",
)
