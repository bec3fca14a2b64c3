"""Citations as people and models write them, and whether the text that they quote is that of the
published file.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from dagster_project.context.context_index import passages
from dagster_project.index.search.lookup import Reading, asking, reading
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.screen import Screen
from transforms.context.passages import Passage, as_quote, said_at, turn_line
from transforms.errors import QueryError, shortened

STATES = ("proved", "unchanged since read", "source gone", "differs", "not known")
PROVED, UNCHANGED, SOURCE_GONE, DIFFERS, UNKNOWN = STATES
FAILING = (SOURCE_GONE, DIFFERS)
_NAMED = re.compile(r"(?<!\\)⟨([^⟨⟩\n]+)⟩|(https?://[^\s/]+/(?:open|[mdac])[/?][^\s<>()\"'“”⟨⟩]+)")
_ABOVE = re.compile(r"((?:^>.*\n)+)\s*\Z", re.M)
_SPOKEN = re.compile(r"[“\"«]([^“”\"«»]+)[”\"»]")
_PASSAGES = """
SELECT chunk_id, coalesce(list_min([s.byte_start FOR s IN spans IF s.role = 'own']), spans[1].byte_start) AS begins,
  coalesce(list_max([s.byte_end FOR s IN spans IF s.role = 'own']), spans[-1].byte_end) AS ends
FROM chunks WHERE doc_id = $doc AND attachment_id IS NOT DISTINCT FROM $attachment AND len(spans) > 0
UNION ALL SELECT NULL, heading_start, byte_end FROM nodes WHERE doc_id = $doc AND $attachment IS NULL
UNION ALL SELECT NULL, byte_start, body_end FROM nodes WHERE doc_id = $doc AND $attachment IS NULL
UNION ALL SELECT NULL, 0, $size
"""


class ProofLink(NamedTuple):
    """One step of a chain of proof: its name, one of `STATES`, and the things that were compared."""

    name: str
    state: str
    detail: str


class Reference(NamedTuple):
    """A citation, and the text that is given under it: the lines of a block with their `>`, or the
    words of a quotation.
    """

    citation: str
    quote: str = ""


def references_in(text: str) -> list[Reference]:
    """The citations of a text: those in `⟨ ⟩`, and addresses of pages of `weft serve`; without any,
    the text is one.

    >>> references_in("> Yes.\\n\\n⟨a@b bytes 0-4⟩ He said “No.” http://x/m/c%40d?bytes=3-6#cited")
    [Reference(citation='a@b bytes 0-4', quote='> Yes.'), Reference(citation='c@d bytes 3-6', quote='No.')]
    """
    result, last = [], 0
    for match in _NAMED.finditer(text):
        before, last = text[last : match.start()], match.end()
        above, spoken = _ABOVE.search(before), _SPOKEN.findall(before.rpartition("\n\n")[2])
        quote = above[1].rstrip("\n") if above else "".join(spoken[-1:])
        result.append(
            Reference(match[1] or _citation_of(urlsplit(match[2].rstrip(".,;:!?"))), quote)
        )
    return result or [Reference(text.strip())]


def _citation_of(url: SplitResult) -> str:
    query = parse_qs(url.query)
    place = query["id"][0] if "id" in query else unquote(url.path[1:].partition("/")[2])
    if "bytes" in query:
        return f"{place} bytes {query['bytes'][0]}"
    return (
        f"{place}#{unquote(url.fragment)}" if url.fragment and url.path.startswith("/d/") else place
    )


def cited_text(index: SearchIndex, citation: str) -> tuple[Reading, int, int]:
    """The stored text that a citation names a part of, and the bytes of the part; UnknownIdError or
    QueryError as `reading`.

    QueryError also for a thread or a chunk: neither is a range of bytes of one text.
    """
    ask = asking(index.connection)
    part = reading(ask, citation)
    if part.kind in ("thread", "chunk"):
        raise QueryError(
            f"{shortened(citation)!r} is a {part.kind}: give a citation as hits print it"
        )
    whole = reading(ask, part.id if part.kind == "attachment" else part.doc_id)
    end = len(whole.text.encode()) if part.byte_end is None else part.byte_end
    return whole, part.byte_start or 0, end


def quote_link(
    index: SearchIndex, whole: Reading, start: int, end: int, quote: str, screen: Screen
) -> ProofLink:
    """Whether a quote, or without one a stored passage, is these bytes; `screen` masks as it does
    blocks.
    """
    text, attachment = whole.text.encode(), whole.id if whole.kind == "attachment" else None
    values = {"doc": whole.doc_id, "attachment": attachment, "size": len(text)}
    rows = asking(index.connection)(_PASSAGES, values).to_pylist()
    if not quote:
        for name, at in (("begins", start), ("ends", end)):
            near = min((row[name] for row in rows), key=lambda place: abs(place - at))
            if near != at:
                return ProofLink(
                    "quote", DIFFERS, f"no passage {name} at byte {at}; nearest at {near}"
                )
        return ProofLink(
            "quote", PROVED, f"{end - start:,} bytes begin and end where stored passages do"
        )
    within = [
        r["chunk_id"] for r in rows if r["chunk_id"] and start <= r["begins"] <= r["ends"] <= end
    ]
    plain = passages(index, within)
    shown = sorted(
        [*plain.values(), *screen.passages(plain).values()], key=lambda passage: passage.start
    )
    piece = text[start:end].decode()
    masked = screen.masked([whole.text])[0].encode()[start:end].decode(errors="replace")
    forms = [
        piece,
        screen.text(piece),
        masked,
        *(p.text for p in shown if (p.start, p.end) == (start, end)),
    ]
    if quote.startswith(">"):
        is_same = any(quote in as_quote(form) for form in forms) or _is_of_turns(shown, quote)
    else:
        is_same = any(" ".join(quote.split()) in " ".join(form.split()) for form in forms)
    if is_same:
        return ProofLink("quote", PROVED, "the quote is the cited bytes, or a part of them")
    return ProofLink("quote", DIFFERS, f"the cited bytes are others: {shortened(forms[1])}")


def _is_of_turns(shown: Sequence[Passage], quote: str) -> bool:
    """True for turns of a chat in their order, some left out, as a block of context writes them."""
    rest, before = f"{quote}\n", None
    for turn in (passage for passage in shown if passage.turn is not None):
        line = as_quote(turn_line(turn, said_at(before) if before else ""))
        if form := next((f for f in (f"{line}\n", f"> […]\n{line}\n") if rest.startswith(f)), None):
            rest, before = rest[len(form) :], turn
    return not rest
