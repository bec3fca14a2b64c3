"""Transcripts of meetings: WebVTT, SubRip and the JSON of Whisper, as chats of who spoke."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from transforms.conversations.exports import Chat, Entry, decoded, fields, in_utc
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError

_CUE = re.compile(
    r"^(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})[ \t]+-->[ \t]+[^\n]*\n(?P<text>(?:[^\n]*\S[^\n]*(?:\n|\Z))*)",
    re.M,
)
_VOICE = re.compile(r"<v(?:\.[\w.]+)?[ \t]+(?P<speaker>[^>\n]{1,120})>")
_TAG = re.compile(r"</?[a-z][^>\n]*>|<\d\d:[\d:.]+>")
_SPEAKER = re.compile(r"(?P<speaker>[^\W\d_][^:\n]{1,60}): +(?=\S)")
_DAY = re.compile(
    r"(?P<year>(?:19|20)\d\d)-?(?P<month>\d\d)-?(?P<day>\d\d)"
    r"(?:[T _-]{1,3}(?P<h>\d\d)[-:.]?(?P<m>\d\d)(?:[-:.]?(?P<s>\d\d))?)?"
)
_NOBODY = "Speaker"
_SENTENCE = (".", "?", "!", "\u2026", "\u3002")
_LONG_CHARS = 240
"""A turn this long ends with its sentence."""


def looks_like_transcript(head: bytes) -> bool:
    """True for WebVTT, SubRip and the JSON of Whisper."""
    text = head.decode(errors="replace").lstrip("\ufeff \r\n")
    return (
        text.startswith("WEBVTT")
        or bool(_CUE.search(text.replace("\r\n", "\n")))
        or (
            text.startswith("{") and '"segments"' in text and '"start"' in text and '"text"' in text
        )
    )


def read_transcript(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chat of a transcript: a turn is the words of one speaker until another speaks, cut at
    sentences.

    Times count from the day, and the clock if there is one, in the name of the file (`2024-03-01
    14.30 planning.vtt`). ChatFormatError if the name has no day, or nothing is said.
    """
    match = _DAY.search(name.rpartition("/")[2])
    try:
        parts = [int(part or 0) for part in match.groups()] if match else []
        begin = in_utc(datetime(*parts[:3], *parts[3:]), timezone)  # type: ignore[misc, arg-type]
    except (TypeError, ValueError) as error:
        raise ChatFormatError(
            "no_date: a transcript counts time from its beginning; name the file after its day, as 2024-03-01 planning.vtt"
        ) from error
    turns: list[tuple[float, str, str]] = []
    for start, speaker, text in _cues(decoded(data)):
        last = turns[-1] if turns else (0.0, "", "")
        if last[1] == speaker and not (len(last[2]) > _LONG_CHARS and last[2].endswith(_SENTENCE)):
            turns[-1] = (last[0], speaker, f"{last[2]} {text}")
        elif text:
            turns.append((start, speaker, text))
    if not turns:
        raise ChatFormatError("no_transcript: the file has no times with words")
    entries = [
        Entry(begin + timedelta(seconds=at), speaker, text, "message")
        for at, speaker, text in turns
    ]
    yield Chat(name, entries, frozenset(speaker for _, speaker, _ in turns) - {_NOBODY})


def _cues(text: str) -> Iterator[tuple[float, str, str]]:
    """Seconds, speaker and words of each cue; without a name the speaker is the last one named."""
    speaker = _NOBODY
    if text.lstrip().startswith("{"):
        try:
            segments = fields(json.loads(text))["segments"]
            for row in map(fields, segments):
                words = " ".join(str(row["text"]).split())
                yield float(row["start"]), str(row.get("speaker") or _NOBODY), words
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ChatFormatError("no_transcript: the file is no JSON of Whisper") from error
        return
    for cue in _CUE.finditer(text.replace("\r\n", "\n")):
        hours, minutes, seconds, thousandths = (int(part or 0) for part in cue.groups()[:4])
        words = cue["text"]
        voice = _VOICE.search(words) or _SPEAKER.match(words)
        if voice:
            speaker, words = voice["speaker"].strip(), words[: voice.start()] + words[voice.end() :]
        start = hours * 3600 + minutes * 60 + seconds + thousandths / 1000
        yield start, speaker, " ".join(_TAG.sub("", words).split())


PROGRAM = Program((".json", ".vtt", ".srt"), looks_like_transcript, read_transcript, has_zone=False)
