"""Passages to a block of context within a budget, which a manifest reproduces.

Compiling follows the context compilation of AvocadoDB: a fixed order, a budget of tokens, no
text twice, a citation for every passage, and a manifest that reproduces the same bytes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from transforms.context.passages import (
    HEAD,
    Passage,
    as_quote,
    edges,
    is_noise,
    joins,
    render_block,
    render_stretch,
    said_at,
    stretches,
    turn_line,
)
from transforms.context.stops import ENDED, FULL
from transforms.errors import ContextError
from transforms.hashing import bytes_sha256
from transforms.text.passages import CountTokens, FormatText, repeated, says_little, unmarked

FORMAT = "8"

_SENTENCE_ENDS = re.compile(r"\n|(?<=[.!?])\s")
_LEAST_CUT = 64
"""Tokens that a passage has at least that is cut, its title and citation included."""

SHOWN = "shown: an earlier turn of the session showed it"
NOISE = "noise: it says nothing by itself"
LITTLE = "little: it says little more than the text that it answers"


class _Omission(NamedTuple):
    """A passage that the block omits, and the reason."""

    passage: Passage
    reason: str


class CompiledBlock(NamedTuple):
    """A block of context, its tokens, its passages in order and its omissions."""

    block: str
    tokens: int
    chosen: list[Passage]
    dropped: list[_Omission]

    @property
    def stopped(self) -> str:
        """Why the block holds no more: FULL if a passage was cut or did not fit, else ENDED."""
        is_cut = any(passage.cut is not None for passage in self.chosen)
        return (
            FULL
            if is_cut or any(d.reason.startswith("over_budget") for d in self.dropped)
            else ENDED
        )


def compile_block(
    passages: Sequence[Passage],
    budget_tokens: int,
    count: CountTokens,
    *,
    expand: bool = True,
    earlier: Sequence[Passage] = (),
) -> CompiledBlock:
    """The block of as many of `passages`, in their order, as the budget holds, without those that
    `earlier` blocks showed.

    A passage that repeats a chosen one, or that is inside or across its bytes, is left out, a reply
    that says little more than a chosen one, and one that does not fit: later ones may. The first
    that does not fit is cut if the rest of the budget shows enough of it. With `expand`, the rest
    shows sections and mails in place of the passages from them, the best first.
    """
    listed = _in_turn(passages)
    dropped = [_Omission(passage, NOISE) for passage in passages if is_noise(passage)]
    chosen: list[Passage] = []
    remaining = budget_tokens - count([HEAD])[0]
    headings = count([passage.heading for passage in listed])
    alone = count([passage.alone for passage in listed])
    # Most turns of a chat join others, few texts of mails and pages do.
    turns = {n: _joined(passage) for n, passage in enumerate(listed) if passage.turn is not None}
    joined = dict(zip(turns, count([*turns.values()]), strict=True))
    touched: set[tuple[str, int]] = set()
    headed: set[tuple[str, str]] = set()
    too_large: list[tuple[Passage, int]] = []
    for number, passage in enumerate(listed):
        under = passage.doc_id, passage.heading
        cost = alone[number] + headings[number] * (under not in headed)
        if joins(passage, touched):
            cost = joined[number] if number in joined else count([_joined(passage)])[0]
        if reason := _omitted_for(passage, chosen, earlier):
            dropped.append(_Omission(passage, reason))
        elif cost + 1 > remaining:
            too_large.append((passage, cost))
        else:
            chosen.append(passage)
            touched |= edges(passage)
            headed.add(under)
            remaining -= cost + 1
    cut = _cut_to(*too_large[0], remaining - 1, count) if too_large else None
    if cut is not None:
        chosen.append(cut)
        remaining = 0
    dropped += [
        _Omission(passage, f"over_budget: {cost} tokens, {max(remaining, 0)} are left")
        for passage, cost in too_large[cut is not None :]
    ]
    if expand:
        chosen = _expand(chosen, remaining, count, earlier)
    tokens, excess = _shrink(chosen, budget_tokens, count)
    dropped += excess
    ordered = [passage for stretch in stretches(chosen) for passage in stretch]
    return CompiledBlock(render_block(ordered), tokens, ordered, dropped)


def _in_turn(passages: Sequence[Passage]) -> list[Passage]:
    """The passages that say something, short replies at the end: by then it is known if the block has
    the text that they answer.
    """
    return sorted((p for p in passages if not is_noise(p)), key=_is_short_reply)


def _omitted_for(
    passage: Passage, chosen: Sequence[Passage], earlier: Sequence[Passage]
) -> str | None:
    """Why a passage is left out beside the chosen and the earlier ones, whatever its size."""
    if _repeats(passage, earlier):
        return SHOWN
    if repeated_by := _repeats(passage, chosen):
        return repeated_by
    is_answered = _is_short_reply(passage) and _has_answered(passage, [*chosen, *earlier])
    return LITTLE if is_answered else None


def _is_short_reply(passage: Passage) -> bool:
    """True for a mail whose own words say little without the mail that it answers."""
    return passage.source_kind == "message" and says_little(_parts(passage)[0], passage.title)


def _has_answered(reply: Passage, others: Sequence[Passage]) -> bool:
    """True if one of the other passages is of the mail that a reply answers, or shows its quote."""
    if any(other.doc_id == reply.answers for other in others):
        return True
    quote = unmarked(_parts(reply)[1])
    return bool(quote.strip()) and repeated([*(p.shown[0] for p in others), quote])[-1] is not None


def _parts(passage: Passage) -> tuple[str, str]:
    """The author's words in the text of a mail, and the quotes that they answer."""
    lines = passage.text.splitlines()
    own, quoted = (
        [line for line in lines if line.startswith(">") == is_quote] for is_quote in (False, True)
    )
    return "\n".join(own), "\n".join(quoted)


def _joined(passage: Passage) -> str:
    """A passage as it goes on another one."""
    is_turn = passage.turn is not None
    return as_quote(turn_line(passage, said_at(passage)) if is_turn else passage.text)


def _shrink(
    chosen: list[Passage], budget_tokens: int, count: CountTokens
) -> tuple[int, list[_Omission]]:
    """The tokens of the block of `chosen`, once its last expansions and then its last passages are
    taken out so that the budget holds it; and those passages.
    """
    dropped: list[_Omission] = []
    while (tokens := count([render_block(chosen)])[0] if chosen else 0) > budget_tokens:
        last = next((n for n in reversed(range(len(chosen))) if chosen[n].expanded), None)
        if last is None:
            dropped.append(_Omission(chosen.pop(), "over_budget: the whole block is too large"))
        else:
            chosen[last] = replace(chosen[last], expanded=False)
    return tokens, dropped


def _cut_to(passage: Passage, cost: int, budget: int, count: CountTokens) -> Passage | None:
    """The beginning of a passage, up to the end of a line or sentence, within `budget` tokens; None
    if little is left.
    """
    length = len(passage.text)
    while budget >= _LEAST_CUT:
        length = int(length * min(0.95, budget / cost))
        ends = [m.end() for m in _SENTENCE_ENDS.finditer(passage.text, 0, length)]
        shorter = replace(passage, cut=ends[-1] if ends else length)
        is_quote = all(
            not line.strip() or line.startswith(">")
            for line in passage.text[: shorter.cut].splitlines()
        )
        if length < 1 or is_quote:
            return None
        cost = count([render_stretch([shorter])])[0]
        if cost <= budget:
            return shorter if cost >= _LEAST_CUT else None
    return None


def _expand(
    chosen: list[Passage], remaining: int, count: CountTokens, earlier: Sequence[Passage]
) -> list[Passage]:
    """The passages with their surroundings, as far as the remaining tokens allow."""
    places = [
        n for n, passage in enumerate(chosen) if passage.around is not None and passage.cut is None
    ]
    wider = [replace(chosen[n], expanded=True) for n in places]
    costs = (
        count([render_stretch([p]) for p in form]) for form in ([chosen[n] for n in places], wider)
    )
    result = list(chosen)
    for number, passage, narrow, wide in zip(places, wider, *costs, strict=True):
        cost = wide - narrow
        others = [*result[:number], *result[number + 1 :], *earlier]
        if cost <= remaining and not _repeats(passage, others):
            result[number] = passage
            remaining -= cost
    return result


def _repeats(passage: Passage, chosen: Sequence[Passage]) -> str | None:
    """Why a passage is not shown beside the chosen ones; turns of a chat repeat each other if their
    texts are equal.
    """
    text, start, end = passage.shown
    for number, other in enumerate(chosen, start=1):
        if (
            passage.doc_id != other.doc_id
            and passage.place.split("#")[0] != other.place.split("#")[0]
        ):
            texts = [FormatText.of(p.doc_id, p.shown[0]) for p in (passage, other)]
            if _are_pages(passage, other) and texts[0].is_in_other_format(texts[1]):
                return f"same_text: passage {number} says it"
            continue
        if passage.turn is not None and other.turn is not None:
            is_known = passage.turn == other.turn or passage.text == other.text
        else:
            other_text, low, high = other.shown
            if (
                passage.place.split("#")[0] == other.place.split("#")[0]
                and start < high
                and low < end
            ):
                return f"overlaps: its bytes are partly those of passage {number}"
            is_known = (
                passage.doc_id == other.doc_id and repeated([other_text, text])[-1] is not None
            )
        if is_known:
            return f"same_text: passage {number} says it"
    return None


def _are_pages(*passages: Passage) -> bool:
    return all(passage.source_kind == "document" for passage in passages)


def manifest(compilation: CompiledBlock, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The origin of a compiled block: `facts` (index version, model, settings, budget, question)
    and every passage.
    """
    return {
        "manifest": FORMAT,
        **facts,
        "block_sha256": bytes_sha256(compilation.block.encode()),
        "block_tokens": compilation.tokens,
        "stopped": compilation.stopped,
        "chosen": [
            {**_manifest_entry(p), "text_sha256": bytes_sha256(p.shown[0].encode())}
            for p in compilation.chosen
        ],
        "dropped": [
            {**_manifest_entry(d.passage), "reason": d.reason} for d in compilation.dropped
        ],
    }


def _manifest_entry(passage: Passage) -> dict[str, Any]:
    _, start, end = passage.shown
    return {
        "chunk_id": passage.chunk_id,
        "doc_id": passage.doc_id,
        "place": passage.place,
        "byte_start": start,
        "byte_end": end,
        "lines": list(passage.shown_lines),
        "expanded": passage.expanded,
        "cut": passage.cut,
        "similarity": passage.similarity
        if passage.similarity is None
        else round(passage.similarity, 6),
        "score": passage.score if passage.score is None else round(passage.score, 6),
    }


def reproduce_block(recorded: Mapping[str, Any], passages: Mapping[str, Passage]) -> str:
    """The block of a manifest, reproduced byte for byte from `passages` by chunk.

    Raises ContextError if a chunk is missing or if the bytes are not those that the manifest names.
    """
    chosen = []
    for entry in recorded["chosen"]:
        passage = passages.get(entry["chunk_id"])
        if passage is None:
            raise ContextError(
                f"chunk {entry['chunk_id']} of {entry['place']} is not in the index any more"
            )
        chosen.append(as_shown(passage, entry))
    block = render_block(chosen)
    digest = bytes_sha256(block.encode())
    if digest != recorded["block_sha256"]:
        raise ContextError(
            f"the block made again has SHA-256 {digest}, the manifest names {recorded['block_sha256']}"
        )
    return block


def as_shown(passage: Passage, entry: Mapping[str, Any]) -> Passage:
    """A passage as the entry of a manifest says that it was shown."""
    return replace(passage, expanded=entry["expanded"], cut=entry.get("cut"))


def difference(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """The changes from one manifest to the other: passages `added`, `removed`, `moved` and
    `resized`.
    """
    old = {e["chunk_id"]: (n, e) for n, e in enumerate(first["chosen"], start=1)}
    new = {e["chunk_id"]: (n, e) for n, e in enumerate(second["chosen"], start=1)}
    stays = [c for c in new if c in old]
    # Only a passage that changed its place among those that stayed has moved.
    moved = [
        (c, was) for c, was in zip(stays, (c for c in old if c in new), strict=True) if c != was
    ]
    resized = [
        c for c in stays if any(new[c][1].get(h) != old[c][1].get(h) for h in ("expanded", "cut"))
    ]

    def entry(chunk: str, entries: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
        return {"place": entries[chunk][1]["place"], "chunk_id": chunk, **facts}

    return {
        "added": [entry(c, new, rank=new[c][0]) for c in new if c not in old],
        "removed": [entry(c, old, rank=old[c][0]) for c in old if c not in new],
        "moved": [entry(c, new, **{"from": old[c][0], "to": new[c][0]}) for c, _ in moved],
        "resized": [entry(c, new, expanded=new[c][1]["expanded"]) for c in resized],
    }
