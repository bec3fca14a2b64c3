"""Exports of issue trackers to files of Markdown: an issue is a document, its comments are turns
below headings.

It reads the JSON of GitHub's and GitLab's REST interfaces and of `gh issue list --json`. It does
not say what an issue lacks, nor which issues it repeats.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transforms.documents.files import RawFile
from transforms.settings.documents import ISSUE_FORMATS
from transforms.text.charsets import decode_text

COMMENT = re.compile(r"^#{2,3} Comments?\b", re.M)
"""The heading of the first turn behind the text of the author of an issue."""
_REQUESTS = ("pull_request", "merge_request")
_ADDRESS = re.compile(
    r"https?://[^/\s]+/(?:api/v\d+/)?(?:repos/)?(?P<project>\w[\w.-]*(?:/\w[\w.-]*)*?)/(?:-/)?"
    r"(?:issues|pull|merge_requests|work_items)/(?P<number>\d{1,18})\b"
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^((?: {0,4}(?:>|[-*+]|\d{1,9}[.)]))* {0,4})(#{1,6})(?=\s|$)")
_UNDERLINE = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$")
_STATES = re.compile(rb"""^state:\s*["']?(?:open|opened|closed|OPEN|CLOSED)\b""", re.M)
_MOST_BROKEN = 100
"""Lines of a file that are not JSON; behind the last one nothing is read."""
_BETWEEN = frozenset("[], \t\r\n\ufeff")
"""The text between records of lists, of lists of lists, and of one list behind the other."""
_HEADING_LEVEL = 2
"""The addition to the levels of headings in a text: it is below the heading of a turn."""


@dataclass
class _Issue:
    """An issue and its comments by their id, as their records are."""

    record: Mapping[str, Any]
    file: RawFile
    comments: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def looks_like_issues(head: bytes, suffix: str) -> bool:
    """True if a file with this ending (`.json`, `.md`) begins as an export of issues, or as an
    issue with its state.

    >>> looks_like_issues(b'[{"iid": 3, "project_id": 8, "title": "No wind"}]', ".json")
    True
    """
    if suffix.removeprefix(".") not in ISSUE_FORMATS:
        return (
            suffix == ".md"
            and head.startswith(b"---")
            and bool(_STATES.search(head.partition(b"\n---")[0]))
        )
    names = set(re.findall(rb'"(\w+)"\s*:', head))
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{") and any(
        keys <= names
        for keys in (
            {b"iid", b"project_id"},
            {b"noteable_iid"},
            {b"issue_url", b"body"},
            {b"number", b"title"},
        )
    )


def issue_files(files: Iterable[RawFile]) -> Iterator[RawFile]:
    """The issues of exports as files of Markdown, unreadable ones with the reason; other files as
    they are.

    Comments may be in their issue (`comments`, `notes`) or in files of their own, and pages one
    behind the other in one file. If an issue has several copies, the one changed last is read.
    """
    issues: dict[tuple[str, int], _Issue] = {}
    comments: list[tuple[RawFile, Mapping[str, Any]]] = []
    for file in files:
        if file.fault or file.path.rpartition(".")[2].lower() not in ISSUE_FORMATS:
            yield file
            continue
        number = -1
        for number, record in enumerate(_records(file)):
            if isinstance(record, _Broken):
                why = f"no_json: the rest of it cannot be read: {record.why}"
                yield RawFile(f"{file.path}#{number}", record.text.encode("utf-8", "replace"), why)
                continue
            place = RawFile(f"{file.path}#{number}", json.dumps(record).encode())
            if _is_comment(record):
                comments.append((place, record))
            elif fault := _fault(record):
                yield RawFile(place.path, place.data, fault)
            else:
                yield from _added(issues, _Issue(record, place), file.path)
        if number < 0 and file.data.split() != [b"[]"]:
            yield RawFile(file.path, file.data, "no_issue: there is no record in the file")
    yield from _with_comments(issues, comments)
    yield from (
        _markdown(key, issue) for key, issue in sorted(issues.items(), key=lambda item: item[0])
    )


class _Broken(NamedTuple):
    """A line, or the rest of a file, that is not JSON, and why."""

    text: str
    why: str


def _records(file: RawFile) -> Iterator[Any]:
    """The values in a file, those of lists one by one; `_Broken` for text that is not JSON, before
    more JSON lines.
    """
    text = decode_text(file.data, "utf-8").text
    decoder, at, broken = json.JSONDecoder(), 0, 0
    while at < len(text):
        if text[at] in _BETWEEN:
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            why = getattr(error, "msg", str(error))
            broken += 1
            goes_on = broken < _MOST_BROKEN and not file.path.lower().endswith(".json")
            line = text.find("\n", at) if goes_on else -1
            end = len(text) if line < 0 else line
            is_deep = isinstance(error, RecursionError)
            yield _Broken(text[at:end], "nested too deeply" if is_deep else why)
            at = end
            continue
        pages = (
            (value.get(name) for name in ("items", "issues")) if isinstance(value, Mapping) else ()
        )
        yield from next((page for page in pages if isinstance(page, list)), [value])


def _is_comment(record: Any) -> bool:
    return (
        isinstance(record, Mapping)
        and "title" not in record
        and isinstance(record.get("body"), str)
        and bool(record.get("issue_url") or record.get("noteable_iid"))
    )


def _fault(record: Any) -> str | None:
    if not isinstance(record, Mapping):
        return "no_issue: the record is no object"
    if not isinstance(record.get("title"), str) or not record["title"].strip():
        return "no_title: the record has no title, and is no comment on an issue"
    number = _number(record)
    if type(number) is not int or not 0 < number < 2**63:
        return "no_number: the issue has no `number` or `iid`"
    if not isinstance(record.get("body", record.get("description")), str | None):
        return "no_text: what should be its text is none"
    return None


def _number(record: Mapping[str, Any]) -> Any:
    return record.get("number", record.get("iid"))


def _added(issues: dict[tuple[str, int], _Issue], issue: _Issue, file: str) -> Iterator[RawFile]:
    """Add an issue to the others; yields the older of two copies with its reason."""
    key = _project(issue.record) or file.rpartition(".")[0], _number(issue.record)
    issue.comments = {_id(comment): comment for comment in _inside(issue.record)}
    older = issues.get(key)
    if older and _changed(older.record) > _changed(issue.record):
        older, issue = issue, older
    issues[key] = issue
    if older:
        issue.comments = older.comments | issue.comments
        why = f"duplicate: the export has issue {key[1]} again, changed later"
        yield RawFile(older.file.path, older.file.data, why)


def _with_comments(
    issues: Mapping[tuple[str, int], _Issue], comments: Iterable[tuple[RawFile, Mapping[str, Any]]]
) -> Iterator[RawFile]:
    """Add comments that have records of their own to their issues; yields those of issues that are
    not there.
    """
    by_id = {(str(i.record.get("project_id")), number): i for (_, number), i in issues.items()}
    numbers: dict[int, list[_Issue]] = {}
    for issue in issues.values():
        numbers.setdefault(_number(issue.record), []).append(issue)
    for place, comment in comments:
        address = _ADDRESS.match(str(comment.get("issue_url")))
        number: Any = int(address["number"]) if address else comment.get("noteable_iid")
        number = number if isinstance(number, int) else 0
        of = issues.get((address["project"], number)) if address else None
        of = of or by_id.get((str(comment.get("project_id")), number))
        if (
            of is None
            and len(only := numbers.get(number, [])) == 1
            and not _project(only[0].record)
        ):
            of = only[0]
        if of is None:
            why = f"no_issue: the issue of the comment, {number}, is not in the export"
            yield RawFile(place.path, place.data, why)
        else:
            of.comments[_id(comment)] = comment


def _inside(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The comments that stand in an issue, those of its discussions too."""
    for name in ("comments", "notes", "discussions"):
        for one in record[name] if isinstance(record.get(name), list) else ():
            if isinstance(one, Mapping) and isinstance(one.get("notes"), list):
                yield from _inside(one)
            elif isinstance(one, Mapping) and isinstance(one.get("body"), str):
                yield one


def _id(comment: Mapping[str, Any]) -> str:
    """The parts of a comment that are the same in two copies."""
    return f"{_time(comment, 'created')} {_author(comment)} {comment['body'][:80]}"


def _project(record: Mapping[str, Any]) -> str:
    """The project that an issue's addresses name; empty if they name none."""
    matches = (_ADDRESS.match(str(record.get(name))) for name in ("html_url", "web_url", "url"))
    return next((address["project"] for address in matches if address), "")


def _time(record: Mapping[str, Any], name: str) -> str:
    value = record.get(f"{name}_at", record.get(f"{name}At"))
    return value if isinstance(value, str) else ""


def _changed(record: Mapping[str, Any]) -> str:
    return _time(record, "updated") or _time(record, "created")


def _author(record: Mapping[str, Any]) -> str:
    """Who wrote it, on one line; empty if that is unknown."""
    person = record.get("user") or record.get("author")
    if isinstance(person, Mapping):
        person = person.get("login") or person.get("username") or person.get("name")
    return " ".join(person.split()) if isinstance(person, str) else ""


def _markdown(key: tuple[str, int], issue: _Issue) -> RawFile:
    """An issue as a file of Markdown, with the facts of its record in the frontmatter."""
    record, (project, number) = issue.record, key
    labels = record.get("labels")
    labels = labels if isinstance(labels, list) else []
    names = [one.get("name") if isinstance(one, Mapping) else one for one in labels]
    is_request = any(record.get(name) for name in _REQUESTS) or "/pull/" in str(record.get("url"))
    title = " ".join(record["title"].split())
    front = {
        "title": title,
        "type": "pull_request" if is_request else "issue",
        "number": number,
        "state": {"opened": "open"}.get(state := str(record.get("state") or "").lower(), state),
        "author": _author(record),
        "tags": [name for name in names if isinstance(name, str)],
        "created": _time(record, "created"),
        "modified": _time(record, "updated"),
        "url": next(
            (u for n in ("html_url", "web_url", "url") if isinstance(u := record.get(n), str)), ""
        ),
    }
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in front.items() if value
    ]
    body = _below(record.get("body", record.get("description")))
    parts = ["\n".join(("---", *lines, "---")), f"# {title}", body]
    turns = (comment for comment in issue.comments.values() if not comment.get("system"))
    for comment in sorted(turns, key=lambda c: (_time(c, "created"), _id(c))):
        byline = ", ".join(
            filter(None, (_author(comment), _time(comment, "created")[:16].replace("T", " ")))
        )
        parts += [f"## Comment by {byline}" if byline else "## Comment", _below(comment["body"])]
    text = "\n\n".join(part for part in parts if part.strip()) + "\n"
    return RawFile(f"{project}/{number}.md", text.encode("utf-8", "replace"))


def _below(text: str | None) -> str:
    """A text as it may stand below the heading of a turn: nothing in it begins another turn, or
    hides those behind it.

    >>> _below("# Steps\\n```\\n# run")
    '### Steps\\n```\\n# run\\n```'
    """
    lines, fence, above = [], "", ""
    for line in (text or "").replace("\0", "\ufffd").splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            line = _HEADING.sub(lambda m: m[1] + "#" * min(6, len(m[2]) + _HEADING_LEVEL), line)
            if _UNDERLINE.match(line) and above.strip():
                line = f"\\{line.lstrip()}"
        lines.append(line)
        above = line
    body = "\n".join([*lines, *([fence] if fence else [])]).strip("\n")
    return body if body.count("<!--") == body.count("-->") else body.replace("<!--", "<\\!--")
