"""The parts of a query: the text that ranks, and the conditions that hits must meet.

A text without syntax is taken as it is. docs/search.md describes the language.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from dataclasses import field as declared
from pkgutil import get_data
from typing import Any, NamedTuple

from lark import Lark, Token, Tree, UnexpectedToken
from lark.lexer import Lexer

from transforms.errors import QueryError, QuerySyntaxError, shortened
from transforms.retrieval import query_fields
from transforms.text.storable import storable
from transforms.toml_file import toml_file

CONDITIONS: dict[str, str] = toml_file(__name__, "conditions.toml")
"""Field by the prefixes that name it."""

TEXT_FIELDS = ("", "s", "title", "b", "nq", "q", "dfn", "dfhh", "dfa", "dfb")
"""Fields whose words are looked for in text and rank hits, too; '' is all text."""

MAX_CHARACTERS = 20_000
"""Characters of a query or of a filter: some four times as many as any model of embeddings reads.
"""
MAX_CONDITIONS = 64
"""Words, phrases and fields that must be met or must not: each is looked up by itself."""
MAX_CONDITION_WORDS = 512
"""Words of all conditions of a query: each makes the pattern longer that a phrase is looked for
with.
"""
MAX_DEPTH = 32  # groups and negations inside of each other; each level calls the one below it

META = "meta."  # begins the prefix of a field of frontmatter, whose key is the rest
_FIELD = re.compile(rf"({'|'.join(CONDITIONS)}|{re.escape(META)}[\w.-]+):(?![\s:)\\]|//|\Z)")
# A short option of a command, a number and --option are not negations; -O2, -Wl,x and -n=1 neither.
_NEGATED = re.compile(r"-(?=[\"(]|[^\W\d_]\w{2,}+(?![^\s]*=))")


@dataclass(frozen=True)
class Leaf:
    """One thing that is looked for: `value` in `field`; `exact` if it is between quotes.

    `query` and `position` (character) say where it is.
    """

    field: str
    value: str
    exact: bool = False
    position: int = declared(default=0, compare=False)
    query: str = declared(default="", compare=False)

    def __str__(self) -> str:
        value = f'"{self.value}"' if self.exact else self.value
        return f"{self.field}:{value}" if self.field else value


@dataclass(frozen=True)
class Negation:
    """A condition that must not be met."""

    part: Condition

    def __str__(self) -> str:
        return f"-{self.part}"


@dataclass(frozen=True)
class Both:
    """Conditions that must all be met."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"({' AND '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Either:
    """Conditions, at least one to be met."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


Condition = Leaf | Negation | Both | Either


@dataclass(frozen=True)
class Query:
    """A query as it is understood: `text` of the `original` ranks, every one of `conditions` must
    be met.

    `factors` has the weights of some words of the text, and `patterns` those of the words of the
    index that a pattern matches; they rank as well. `identifier` is the query if it could be the id
    of a mail, document or chunk, without angle brackets. A query that `asks` may name persons, days
    and versions that are preferred.
    """

    original: str
    text: str
    conditions: tuple[Condition, ...] = ()
    identifier: str | None = None
    factors: tuple[tuple[str, float], ...] = ()
    patterns: tuple[tuple[str, float], ...] = ()
    asks: bool = True


def plain_query(text: str) -> Query:
    """The query in which nothing is syntax; QueryError if it is too long."""
    return Query(text, checked_query(text))


def checked_query(text: str, what: str = "the query") -> str:
    """The text as `storable`; QueryError if it has more than MAX_CHARACTERS."""
    if len(text) > MAX_CHARACTERS:
        raise QueryError(
            f"{what} has {len(text):,} characters, the limit is {MAX_CHARACTERS:,}: ask with a part of it; "
            "`context` takes longer texts"
        )
    return storable(text)


def parsed_query(text: str) -> Query:
    """The query in `text`; QueryError if it is too long or holds syntax that cannot be understood.

    A text of several lines is pasted, and so taken as it is.
    """
    stripped = (text := checked_query(text)).strip()
    if "\n" in stripped:
        return plain_query(text)
    tokens = list(_tokens(text))
    types = [t.type for t in tokens]
    if types not in (["PHRASE"], ["PATTERN"]) and (
        len(types) < 2 or set(types) <= {"WORD", "LPAR", "_RPAR"}
    ):
        bare = stripped.removeprefix("<").removesuffix(">")
        return replace(plain_query(text), identifier=bare or None)
    try:
        tree: Tree[Any] = _parser().parse(tokens)
    except UnexpectedToken as fault:
        raise _explained(text, tokens, fault.token) from None
    original, reader = text, _Reader(text)
    conditions = tuple(reader.conditions(tree))
    text = " ".join(reader.ranking)
    return Query(original, text, conditions, None, tuple(reader.factors), tuple(reader.patterns))


def leaves_of(condition: Condition) -> Iterator[Leaf]:
    """All leaves of a condition, in order."""
    if isinstance(condition, Leaf):
        yield condition
    else:
        for part in (condition.part,) if isinstance(condition, Negation) else condition.parts:
            yield from leaves_of(part)


def _tokens(query: str) -> Iterator[Token]:
    """The tokens of a query; a text without syntax is a WORD.

    Quotes, parentheses, `-` and fields count at the start of a word alone, so that f(x), 5" and
    std::vector are words. A parenthesis closes the one opened last, inside of a word or before it.
    """
    has_operators, at = query_fields.has_operators(re.sub(r'"[^"]*"', "", query)), 0
    groups: list[int | None] = []  # position of a group; None for a parenthesis inside of a word
    while at < len(query):
        begins = at == 0 or query[at - 1].isspace() or query[at - 1] in "(-:"
        if query[at].isspace():
            at += 1
        elif sign := (_opening(query, at, has_operators) if begins else None) or _closing(
            query, at, groups
        ):
            yield Token(sign.type, sign.text, start_pos=at)
            if sign.type == "LPAR":
                groups.append(at)
            elif sign.type == "_RPAR":
                groups.pop()
            at = sign.end
        else:
            end = _word_end(query, at, groups)
            yield from _word_tokens(query, at, end, begins=begins)
            at = end


class _Sign(NamedTuple):
    """A piece of syntax: the type of its token, the text of that, and where it ends."""

    type: str
    text: str
    end: int


def _opening(query: str, at: int, has_operators: bool) -> _Sign | None:
    """The sign that a word begins with: a phrase, a group, a negation, a field or an operator."""
    if query[at] == '"':
        return _phrase(query, at)
    if query[at] == "(":
        return _Sign("LPAR", "(", at + 1)
    if _NEGATED.match(query, at) or (query[at] == "-" and _FIELD.match(query, at + 1)):
        return _Sign("NOT", "-", at + 1)
    if match := _FIELD.match(query, at):
        return _Sign("FIELD", match[1], match.end())
    if has_operators and (match := query_fields.operator(query, at)):
        return _Sign({"AND": "_AND", "OR": "_OR"}.get(match[1], "NOT"), match[1], match.end())
    return None


def _phrase(query: str, at: int) -> _Sign:
    """The phrase that begins with a quote; QuerySyntaxError if it has words and no end."""
    end = query.find('"', at + 1)
    if end < 0 and any(map(str.isalnum, query[at:])):
        raise QuerySyntaxError(query, at, 'this phrase is not closed: add a "')
    inside = query[at + 1 : end] if end > 0 else query[at + 1 :]
    return _Sign(
        "PHRASE" if any(map(str.isalnum, inside)) else "WORD", inside, at + len(inside) + 2
    )


def _closing(query: str, at: int, groups: Sequence[int | None]) -> _Sign | None:
    """The sign behind a phrase or group: the factor that it counts by, or the end of a group."""
    if query[at - 1 : at] in ('"', ")") and (match := query_fields.factor_at(query, at)):
        return _Sign("BOOST", match[0], match.end())
    return (
        _Sign("_RPAR", ")", at + 1)
        if query[at] == ")" and groups and groups[-1] is not None
        else None
    )


def _word_tokens(query: str, at: int, end: int, *, begins: bool) -> Iterator[Token]:
    """A word or pattern with the factor behind it; a fault if it `begins` like a field that there
    is not.
    """
    word = query[at:end]
    if (
        begins
        and query[at - 1 : at] != ":"
        and (reason := query_fields.unknown_field(word, CONDITIONS))
    ):
        raise QuerySyntaxError(query, at, reason)
    word, factor = query_fields.boosted(word) if begins else (word, "")
    yield Token("PATTERN" if query_fields.is_pattern(word) else "WORD", word, start_pos=at)
    if factor:
        yield Token("BOOST", factor, start_pos=at + len(word))


def _word_end(query: str, at: int, groups: list[int | None]) -> int:
    """The end of the word that begins at `at`: a blank, or the end of a group; keeps count in
    `groups`.
    """
    start = at
    while at < len(query) and not query[at].isspace():
        if query[at] == "(":
            groups.append(None)
        elif query[at] == ")" and groups:
            if groups[-1] is not None and at > start:
                break
            groups.pop()
        at += 1
    return at


class _Reader:
    """Reads conditions off a parsed tree, and gathers the words that rank on the way."""

    def __init__(self, query: str):
        self.query = query
        self.ranking: list[str] = []
        self.factors: list[tuple[str, float]] = []
        self.patterns: list[tuple[str, float]] = []
        self.count, self.factor = 0, 1.0

    def conditions(self, sequence: Tree[Any], depth: int = 0) -> Iterator[Condition]:
        """The conditions of a sequence, inside of `depth` groups, whose plain words only rank."""
        for part in sequence.children:
            if isinstance(part, Token) and part.type == "WORD":
                self.rank(part)
            elif isinstance(part, Tree) and part.data == "group":
                yield from self.conditions(part.children[1], self.deeper(part, depth))
            elif isinstance(part, Tree) and part.data == "boosted":
                with self.counting(part) as inner:
                    yield from self.conditions(Tree("sequence", [inner]), depth)
            else:
                yield self.condition(part, "", True, depth)

    @contextmanager
    def counting(self, node: Tree[Any]) -> Iterator[Tree[Any] | Token]:
        """The node before a factor, which counts for the words in it."""
        inner, factor = node.children
        before, self.factor = self.factor, self.factor * float(str(factor))
        yield inner
        self.factor = before

    def rank(self, token: Token) -> None:
        """Let a word, a phrase or the words of a pattern count."""
        if token.type == "PATTERN":
            self.patterns.append((str(token), self.factor))
            return
        self.ranking.append(str(token))
        if self.factor != 1:
            self.factors.append((str(token), self.factor))

    def condition(self, node: Tree[Any] | Token, name: str, ranks: bool, depth: int) -> Condition:
        """The condition of a node below an operator or a field `name`, where plain words must be
        met, too.
        """
        if isinstance(node, Token):
            return self.leaf(node, name, ranks)
        if node.data == "negation":
            return Negation(self.condition(node.children[1], name, False, self.deeper(node, depth)))
        if node.data == "fielded":
            prefix, value = node.children
            if name:
                raise self.fault(prefix, f"a field is inside of {name}:( )")
            return self.condition(value, CONDITIONS.get(str(prefix), str(prefix)), ranks, depth)
        if node.data == "group":
            return self.condition(node.children[1], name, ranks, self.deeper(node, depth))
        if node.data == "boosted":
            with self.counting(node) as inner:
                return self.condition(inner, name, ranks, depth)
        parts = tuple(self.condition(part, name, ranks, depth) for part in node.children)
        if len(parts) == 1:
            return parts[0]
        return Either(parts) if node.data == "either" else Both(parts)

    def deeper(self, node: Tree[Any], depth: int) -> int:
        """The depth inside of a group or negation."""
        if depth == MAX_DEPTH:
            reason = f"groups or negations nested deeper than {MAX_DEPTH}: leave some out"
            raise self.fault(node.children[0], reason)
        return depth + 1

    def leaf(self, token: Token, name: str, ranks: bool) -> Leaf:
        """The condition that a word or phrase makes."""
        value, exact = str(token), token.type == "PHRASE"
        self.count += 1
        if self.count > MAX_CONDITIONS:
            raise self.fault(token, f"more than {MAX_CONDITIONS} conditions: ask with fewer")
        if name in TEXT_FIELDS:
            if ranks:
                self.rank(token)
            if token.type == "WORD":
                value = query_fields.bare(value)
            if not any(map(str.isalnum, value)):
                raise self.fault(token, "there is no letter or digit to look for here")
        elif reason := query_fields.fault_of(name, value):
            raise self.fault(token, reason)
        return Leaf(name, value, exact, token.start_pos or 0, self.query)

    def fault(self, token: Tree[Any] | Token, reason: str) -> QuerySyntaxError:
        """The fault at a token, for this reason."""
        assert isinstance(token, Token)
        return QuerySyntaxError(self.query, token.start_pos or 0, reason)


class _TokenFeed(Lexer):
    """Hands tokens that are made already to the parser."""

    __future_interface__ = 2  # gets the state, not the text alone

    def __init__(self, conf: object):
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        """The tokens, as they are."""
        return iter(lexer_state.text)


@functools.cache
def _parser() -> Lark:
    grammar = (get_data(__name__, "query_language.lark") or b"").decode()
    return Lark(grammar, parser="lalr", lexer=_TokenFeed)


def _explained(query: str, tokens: list[Token], unexpected: Token) -> QuerySyntaxError:
    """The fault at a token that the grammar does not expect."""
    if unexpected.type != "$END":
        at = unexpected.start_pos or 0
        what = {
            "_RPAR": "something to look for is missing before this",
            "_OR": "OR must be between two things to look for",
            "_AND": "AND must be between two things to look for",
        }.get(unexpected.type, f"{shortened(unexpected)!r} cannot be here")
        return QuerySyntaxError(query, at, what)
    depth: list[Token] = []
    for token in tokens:
        if token.type == "LPAR":
            depth.append(token)
        elif token.type == "_RPAR":
            depth.pop()
    if depth:
        return QuerySyntaxError(
            query, depth[-1].start_pos or 0, "this parenthesis is not closed: add a )"
        )
    return QuerySyntaxError(
        query, tokens[-1].start_pos or 0, f"nothing follows {shortened(tokens[-1])!r}"
    )
