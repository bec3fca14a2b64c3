"""Answers to assistants: the structure holds all, and a few words say what is in it."""

from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

from dagster_project.servers import answers
from transforms.errors import shortened

_WORDS: Mapping[type, Callable[[Any], list[str]]] = {
    answers.Hits: lambda a: [
        f"{a.label}, {len(a.hits)} hits",
        *(f"{hit.rank}. {shortened(hit.title or hit.doc_id)} ⟨{hit.citation}⟩" for hit in a.hits),
    ],
    answers.Text: lambda a: [
        f"{a.kind} {a.id} bytes {a.byte_start}-{a.byte_end}{' of more' if a.is_cut else ''}"
    ],
    answers.Block: lambda a: [f"{a.outcome}, {a.tokens} of {a.budget_tokens} tokens: {a.stopped}"],
    answers.ThreadOutline: lambda a: [f"{len(a.mails)} mails: {shortened(a.subject or '')}"],
    answers.SourceList: lambda a: [", ".join(source.name for source in a.sources)],
    answers.PersonList: lambda a: [
        f"{person.name or person.addresses[0]}, {person.mails} mails" for person in a.people
    ],
    answers.Verification: lambda a: [
        *(f"{s.colour}: {shortened(s.text)}" for s in a.sentences),
        *(
            f"⟨{c.citation}⟩ {', '.join(f'{link.name} {link.state}' for link in c.links)}"
            for c in a.citations
        ),
    ],
    answers.QuestionAnswer: lambda a: [
        f"{a.outcome}, {a.label}, {len(a.sentences)} sentences, {a.left_out} left out",
        *(f"⟨{shown.citation}⟩" for shown in (*a.sentences, *a.decisions)),
    ],
    answers.IssueList: lambda a: [f"#{i.number} {shortened(i.title)}" for i in a.issues],
    answers.Rows: lambda a: [f"{len(a.rows)} rows{' of more' if a.is_cut else ''}"],
}


def call_result(answer: BaseModel) -> CallToolResult:
    """The result of a call: the answer once, as its structure, and a few words about it."""
    text = "\n".join(_WORDS[type(answer)](answer))
    return CallToolResult(
        content=[TextContent(text=text)], structured_content=answer.model_dump(mode="json")
    )


def short_schema(schema: Any) -> Any:
    """A JSON schema that says the same to a reader in fewer characters: no titles, no null beside
    the type of an argument that may be left out, parts in place of their names.

    >>> short_schema({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "N", "default": None})
    {'type': 'integer'}
    """
    return _shortened(schema, schema.get("$defs", {}))


def _shortened(schema: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_shortened(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if reference := schema.get("$ref"):
        schema = parts[reference.rpartition("/")[2]] | schema
    rest = {name: value for name, value in schema.items() if not _says_nothing(name, value)}
    types = [of for of in rest.pop("anyOf", ()) if of != {"type": "null"}]
    rest |= types[0] if len(types) == 1 else {"anyOf": types} if types else {}
    properties = rest.pop("properties", {})
    short = {name: _shortened(value, parts) for name, value in rest.items()}
    within = {name: _shortened(value, parts) for name, value in properties.items()}
    return short | ({"properties": within} if within else {})


def _says_nothing(name: str, value: Any) -> bool:
    is_usual = name == "default" and value in (None, False)
    return is_usual or name in ("$defs", "$ref") or (name == "title" and isinstance(value, str))
