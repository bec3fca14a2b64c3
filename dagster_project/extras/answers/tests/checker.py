"""A check of answers that shares no code with Weft: each sentence stands in the stored text, at the bytes that it cites,
and what it names and counts stands there or in the header of that text.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

_CITATION = re.compile(
    r"(?P<place>.+?)(?: attachment [0-9a-f]+)? bytes (?P<start>\d+)-(?P<end>\d+)"
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")
_NEGATIONS = re.compile(r"\b(?:not|never|no|nobody|none|without|cannot)\b|n't\b|n’t\b", re.I)
_MODALS = re.compile(r"\b(?:can|could|may|might|must|shall|should|will|would)\b", re.I)


def faults(answer: Mapping[str, Any], stored: Mapping[str, tuple[str, str]]) -> list[str]:
    """What is wrong with an answer; `stored` has the text and the header of each document."""
    found = [fault for said in answer["sentences"] for fault in _faults(said, stored)]
    if (answer["outcome"] == "NO_RESULTS") == bool(answer["sentences"]):
        found.append(f"{answer['outcome']} with {len(answer['sentences'])} sentences")
    return found


def _faults(said: Mapping[str, Any], stored: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    cited = _CITATION.fullmatch(said["citation"])
    if not cited or said["doc_id"] not in stored:
        yield f"cites nothing that is stored: {said['citation']}"
        return
    if not cited["place"].startswith(said["doc_id"].partition("#")[0]):
        yield f"cites another document than its own: {said['citation']}"
    text, header = stored[said["doc_id"]]
    data = text.encode()
    start, end = int(cited["start"]), int(cited["end"])
    if not 0 <= start < end <= len(data):
        yield f"cites bytes that are not there: {said['citation']}"
        return
    passage = _plain(data[start:end].decode(errors="replace"))
    sentence = _plain(said["text"])
    for signs in (_NUMBER, _NAME):
        for sign in signs.findall(sentence):
            if sign.lower() not in f"{passage} {_plain(header)}".lower():
                yield f"says {sign}, which does not stand there: {said['text']}"
    for signs in (_NEGATIONS, _MODALS):
        if len(signs.findall(sentence)) != len(signs.findall(passage)):
            yield f"says no, or may, where the source does not: {said['text']}"


def differing(answer: Mapping[str, Any], stored: Mapping[str, tuple[str, str]]) -> list[str]:
    """The sentences of an answer without a model that are not the bytes that they cite."""
    found = []
    for said in answer["sentences"]:
        *_, span = said["citation"].rpartition(" ")
        start, end = map(int, span.split("-"))
        if stored[said["doc_id"]][0].encode()[start:end].decode(errors="replace") != said["text"]:
            found.append(said["text"])
    return found


def _plain(text: str) -> str:
    """A text in one form of Unicode, with single blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).split())
