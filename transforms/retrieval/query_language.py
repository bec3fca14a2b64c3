"""What a query asks for: the text that ranks, and the conditions that hits must meet.

A text without syntax is taken as it stands. docs/search.md describes the language.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from dataclasses import field as declared
from datetime import UTC, datetime, timedelta
from typing import Any

from lark import Lark, Token, Tree, UnexpectedToken
from lark.lexer import Lexer

from transforms.errors import QueryError, QuerySyntaxError, shortened

FIELDS = {
    "s": "s", "subject": "s", "b": "b", "body": "b", "nq": "nq", "q": "q",
    "dfn": "dfn", "dfhh": "dfhh", "dfa": "dfa", "dfb": "dfb",
    "f": "f", "from": "f", "to": "to", "cc": "cc", "reviewed": "reviewed", "acked": "acked", "tested": "tested",
    "reported": "reported", "l": "l", "list": "l", "d": "d", "date": "d", "m": "m", "id": "m",
    "path": "path", "tag": "tag", "kind": "kind", "has": "has", "source": "source",
    "thread": "thread", "series": "series", "type": "type",
}  # fmt: skip
"""Field by the prefixes that name it."""

TEXT_FIELDS = ("", "s", "b", "nq", "q", "dfn", "dfhh", "dfa", "dfb")
"""Fields whose words are looked for in text and rank hits, too; '' is all text."""

KINDS = ("message", "attachment", "document", "conversation")
HAS = ("patch", "attachment")
_VALUES = {"kind": KINDS, "has": HAS}
MAX_CHARACTERS = 20_000
"""Characters of a query or of a filter: some four times what any model of embeddings reads."""
MAX_CONDITIONS = 64
"""Words, phrases and fields that must be met or must not: each is looked up by itself."""
MAX_CONDITION_WORDS = 512
"""Words of all conditions of a query: each makes the pattern longer that a phrase is looked for with."""
MAX_DEPTH = 32  # groups and negations inside of each other; each level calls the one below it

META = "meta."  # begins the prefix of a field of frontmatter, whose key is the rest
_FIELD = re.compile(rf"({'|'.join(FIELDS)}|{re.escape(META)}[\w.-]+):(?![\s:)\\]|//|\Z)")
# A short option of a command, a number and --option are not negations; -O2, -Wl,x and -n=1 neither.
_NEGATED = re.compile(r"-(?=[\"(]|[^\W\d_]\w{2,}+(?![^\s]*=))")
# AND, OR and NOT are words of SQL, and of whoever writes in capitals.
_SQL = re.compile(
    r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WHERE|HAVING|VALUES|CASE|WHEN|JOIN|BETWEEN)\b"
)
_OPERATOR = re.compile(r"(AND|OR|NOT)(?![^\s()])")
_JOINING = re.compile(r"\b(?:AND|OR|NOT)\b")
_CAPITALS = re.compile(r"\s+[A-Z]{2,}(?!\S)")
_GRAMMAR = """
?start: sequence
sequence: either+
?either: both (_OR both)*
?both: unary (_AND unary)*
?unary: NOT unary -> negation | atom
?atom: WORD | PHRASE | FIELD (WORD | PHRASE | group) -> fielded | group
group: LPAR sequence _RPAR
%declare WORD PHRASE FIELD LPAR _RPAR _OR _AND NOT
"""


@dataclass(frozen=True)
class Leaf:
    """One thing that is looked for: `value` in `field`; `exact` if it stands between quotes.

    `query` and `position` (character) say where it stands.
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
    """What must not be met."""

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
    """Conditions of which one must be met."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


Condition = Leaf | Negation | Both | Either


@dataclass(frozen=True)
class Query:
    """A query as it is understood: `text` of the `original` ranks, every one of `conditions` must be met.

    `identifier` is the query if it could be the id of a mail, document or chunk, without angle
    brackets.
    """

    original: str
    text: str
    conditions: tuple[Condition, ...] = ()
    identifier: str | None = None


def plain_query(text: str) -> Query:
    """The query in which nothing is syntax; QueryError if it is too long."""
    return Query(text, bounded(text))


def bounded(text: str, what: str = "the query") -> str:
    """The text as `storable`; QueryError if it has more than MAX_CHARACTERS."""
    if len(text) > MAX_CHARACTERS:
        raise QueryError(
            f"{what} has {len(text):,} characters, the limit is {MAX_CHARACTERS:,}: ask with a part of it; "
            "`weft context` takes texts of any length"
        )
    return storable(text)


def storable(text: str) -> str:
    """The text with ? for lone surrogates, which no table can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def parsed_query(text: str) -> Query:
    """What `text` asks for; QueryError if it is too long or holds syntax that cannot be understood.

    A text of several lines is pasted, and so taken as it stands.
    """
    text = bounded(text)
    stripped = text.strip()
    if "\n" in stripped:
        return plain_query(text)
    tokens = list(_tokens(text))
    types = [t.type for t in tokens]
    if types != ["PHRASE"] and (len(types) < 2 or set(types) <= {"WORD", "LPAR", "_RPAR"}):
        bare = stripped.removeprefix("<").removesuffix(">")
        return replace(plain_query(text), identifier=bare or None)
    try:
        tree: Tree[Any] = _parser().parse(tokens)
    except UnexpectedToken as fault:
        raise _explained(text, tokens, fault.token) from None
    reader = _Reader(text)
    conditions = tuple(reader.conditions(tree))
    return Query(text, " ".join(reader.ranking), conditions)


def leaves_of(condition: Condition) -> Iterator[Leaf]:
    """All leaves of a condition, in order."""
    if isinstance(condition, Leaf):
        yield condition
    else:
        for part in (condition.part,) if isinstance(condition, Negation) else condition.parts:
            yield from leaves_of(part)


def time_span(value: str) -> tuple[datetime | None, datetime | None] | None:
    """The half-open span of time (UTC) of `2004`, `2004-05`, `2004-05-17`, `20040517` or `from..to`; None if it is none.

    Both ends are meant as a whole: 2004..2006 ends with 2006; one of them may be missing.
    """
    first, dots, last = value.partition("..")
    if not dots:
        return _whole(first)
    begin, end = (_whole(part) if part else (None, None) for part in (first, last))
    if begin is None or end is None or not (first or last):
        return None
    return begin[0], end[1]


def _whole(value: str) -> tuple[datetime, datetime] | None:
    """The year, month or day of a date as a half-open span."""
    match = re.fullmatch(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?|(\d\d)(\d\d))?", value, re.ASCII)
    if match is None:
        return None
    year, month, day = int(match[1]), match[2] or match[4], match[3] or match[5]
    try:
        start = datetime(year, int(month or 1), int(day or 1), tzinfo=UTC)
        if day:
            return start, start + timedelta(days=1)
        if month:
            return start, datetime(year + int(month) // 12, int(month) % 12 + 1, 1, tzinfo=UTC)
        return start, datetime(year + 1, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _tokens(query: str) -> Iterator[Token]:
    """The tokens of a query; what is no syntax is a WORD.

    Quotes, parentheses, `-` and fields count at the start of a word alone, so that f(x), 5" and
    std::vector are words. A parenthesis closes the one opened last, inside of a word or before it.
    """
    unquoted = re.sub(r'"[^"]*"', "", query)
    is_upper = unquoted == unquoted.upper() and len(unquoted.split()) > 4
    shouted = _SQL.search(unquoted) is not None or (
        is_upper and re.search(r"\w", _JOINING.sub("", unquoted)) is not None
    )
    opened: list[int | None] = []  # position of a group; None for a parenthesis inside of a word
    at = 0
    while at < len(query):
        begins = at == 0 or query[at - 1].isspace() or query[at - 1] in "(-:"
        if query[at].isspace():
            at += 1
        elif begins and query[at] == '"':
            end = query.find('"', at + 1)
            if end < 0 and not any(map(str.isalnum, query[at:])):
                end = len(query)
            if end < 0:
                raise QuerySyntaxError(query, at, 'this phrase is not closed: add a "')
            inside = query[at + 1 : end]
            has_words = any(map(str.isalnum, inside))
            yield Token("PHRASE" if has_words else "WORD", inside, start_pos=at)
            at = end + 1
        elif begins and query[at] == "(":
            opened.append(at)
            yield Token("LPAR", "(", start_pos=at)
            at += 1
        elif query[at] == ")" and opened and opened[-1] is not None:
            opened.pop()
            yield Token("_RPAR", ")", start_pos=at)
            at += 1
        elif begins and (_NEGATED.match(query, at) or (query[at] == "-" and _FIELD.match(query, at + 1))):
            yield Token("NOT", "-", start_pos=at)
            at += 1
        elif begins and (match := _FIELD.match(query, at)):
            yield Token("FIELD", match[1], start_pos=at)
            at = match.end()
        elif begins and not shouted and (match := _operator(query, at)):
            yield Token({"AND": "_AND", "OR": "_OR"}.get(match[1], "NOT"), match[1], start_pos=at)
            at = match.end()
        else:
            end = _word_end(query, at, opened)
            yield Token("WORD", query[at:end], start_pos=at)
            at = end


def _operator(query: str, at: int) -> re.Match[str] | None:
    """AND, OR or NOT at this place; NOT NULL and the like are words."""
    match = _OPERATOR.match(query, at)
    is_word = match is not None and match[1] == "NOT" and _CAPITALS.match(query, match.end())
    return None if is_word else match


def _word_end(query: str, at: int, opened: list[int | None]) -> int:
    """Where the word ends that begins at `at`: at a blank, or at what closes a group; keeps count in `opened`."""
    start = at
    while at < len(query) and not query[at].isspace():
        if query[at] == "(":
            opened.append(None)
        elif query[at] == ")" and opened:
            if opened[-1] is not None and at > start:
                break
            opened.pop()
        at += 1
    return at


class _Reader:
    """Reads conditions off a parsed tree; what ranks is gathered on the way."""

    def __init__(self, query: str):
        self.query = query
        self.ranking: list[str] = []
        self.count = 0

    def conditions(self, sequence: Tree[Any], depth: int = 0) -> Iterator[Condition]:
        """The conditions of a sequence, inside of `depth` groups, whose plain words only rank."""
        for part in sequence.children:
            if isinstance(part, Token) and part.type == "WORD":
                self.ranking.append(str(part))
            elif isinstance(part, Tree) and part.data == "group":
                yield from self.conditions(part.children[1], self.deeper(part, depth))
            else:
                yield self.condition(part, "", True, depth)

    def condition(self, node: Tree[Any] | Token, name: str, ranks: bool, depth: int) -> Condition:
        """The condition of a node below an operator or a field `name`, where plain words must be met, too."""
        if isinstance(node, Token):
            return self.leaf(node, name, ranks)
        if node.data == "negation":
            return Negation(self.condition(node.children[1], name, False, self.deeper(node, depth)))
        if node.data == "fielded":
            prefix, value = node.children
            assert isinstance(prefix, Token)
            if name:
                reason = f"a field stands inside of {name}:( )"
                raise QuerySyntaxError(self.query, prefix.start_pos or 0, reason)
            return self.condition(value, FIELDS.get(prefix, str(prefix)), ranks, depth)
        if node.data == "group":
            return self.condition(node.children[1], name, ranks, self.deeper(node, depth))
        parts = tuple(self.condition(part, name, ranks, depth) for part in node.children)
        if len(parts) == 1:
            return parts[0]
        return Either(parts) if node.data == "either" else Both(parts)

    def deeper(self, node: Tree[Any], depth: int) -> int:
        """The depth inside of a group or negation."""
        if depth == MAX_DEPTH:
            opening = node.children[0]
            assert isinstance(opening, Token)
            reason = f"groups or negations nested deeper than {MAX_DEPTH}: leave some out"
            raise QuerySyntaxError(self.query, opening.start_pos or 0, reason)
        return depth + 1

    def leaf(self, token: Token, name: str, ranks: bool) -> Leaf:
        """The condition that a word or phrase makes."""
        start = token.start_pos or 0
        value, exact = str(token), token.type == "PHRASE"
        self.count += 1
        if self.count > MAX_CONDITIONS:
            raise QuerySyntaxError(
                self.query, start, f"more than {MAX_CONDITIONS} conditions: ask with fewer"
            )
        if name in TEXT_FIELDS:
            if ranks:
                self.ranking.append(value)
            if not exact:
                value = _bare(value)
            if not any(map(str.isalnum, value)):
                raise QuerySyntaxError(self.query, start, "there is no letter or digit to look for here")
        elif name in _VALUES and value not in _VALUES[name]:
            raise QuerySyntaxError(self.query, start, f"{name}: takes {', '.join(_VALUES[name])}")
        elif name == "d" and time_span(value) is None:
            dates = "2004, 2004-05, 2004-05-17, 2004..2006, 2004-05.. or ..2006-01-31"
            raise QuerySyntaxError(self.query, start, f"d: takes dates such as {dates}")
        return Leaf(name, value, exact, start, self.query)


def _bare(word: str) -> str:
    """A word without the signs around it; those of C++ and C# stay."""
    return re.sub(r"^[^\w]+|[^\w+#]+$", "", word)


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
    return Lark(_GRAMMAR, parser="lalr", lexer=_TokenFeed)


def _explained(query: str, tokens: list[Token], unexpected: Token) -> QuerySyntaxError:
    """What is wrong at a token that the grammar does not expect."""
    if unexpected.type != "$END":
        at = unexpected.start_pos or 0
        what = {
            "_RPAR": "something to look for is missing before this",
            "_OR": "OR stands between two things to look for",
            "_AND": "AND stands between two things to look for",
        }.get(unexpected.type, f"{shortened(unexpected)!r} cannot stand here")
        return QuerySyntaxError(query, at, what)
    depth: list[Token] = []
    for token in tokens:
        if token.type == "LPAR":
            depth.append(token)
        elif token.type == "_RPAR":
            depth.pop()
    if depth:
        return QuerySyntaxError(query, depth[-1].start_pos or 0, "this parenthesis is not closed: add a )")
    return QuerySyntaxError(
        query, tokens[-1].start_pos or 0, f"nothing stands behind {shortened(tokens[-1])!r}"
    )
