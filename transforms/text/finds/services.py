"""Tokens of services: by the rules of gitleaks, and as random values beside a service's name."""

import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import NamedTuple

from transforms.text.finds.forms import SERVICES, Find
from transforms.text.finds.named import Look
from transforms.text.finds.values import entropy, is_no_value, is_random
from transforms.toml_file import toml_file

_BEFORE, _AFTER = 80, 400
"""Bytes around a word in which a rule is searched: the longest token that a rule has in front of
its word has 35, the longest behind it 300.
"""
_BESIDE = re.compile(
    rb"[\w -]{0,30}[\"'\]]{0,2}[ \t]{0,3}(?::=|=>|[=:])[ \t]{0,3}[\"']?([A-Za-z0-9_=.-]{15,})"
)
_PROSE = re.compile(rb"[a-z]{4,}[.-][a-z]{4,}")
_SPOKEN = re.compile(
    rb"\A[\w .-]{0,40}(?:key|token|secret)(?: is)? ([A-Za-z0-9]{15,})(?![\w/])", re.I
)


class TokenRule(NamedTuple):
    """A rule of gitleaks: the expression, whether it begins at the word, and the least entropy, 0
    if the rule names none.
    """

    pattern: str
    is_first: bool
    entropy: float

    @property
    def compiled(self) -> re.Pattern[bytes]:
        """The expression, compiled when a text has the rule's word: few texts have the most."""
        return _compiled(self.pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())


@cache
def token_rules() -> dict[str, list[TokenRule]]:
    """The rules of each word, in lower case."""
    by_word: dict[str, list[TokenRule]] = {}
    for row in toml_file(__name__, "gitleaks.toml")["rules"]:
        rule = TokenRule(row["pattern"], row["is_first"], row["entropy"])
        for word in row["words"]:
            by_word.setdefault(word, []).append(rule)
    return by_word


def _by_rule(data: bytes, at: int, of_word: Iterable[TokenRule]) -> Iterator[Find]:
    for rule in of_word:
        if rule.is_first:
            match = rule.compiled.match(data, at, at + _AFTER)
        else:
            match = rule.compiled.search(data, max(0, at - _BEFORE), at + _AFTER)
        if not match:
            continue
        group = next((n for n in range(len(match.groups()), 0, -1) if _is_whole(match, n)), 0)
        value = match[group]
        is_vague = rule.entropy == 0 and not is_random(value)
        if not is_vague and entropy(value) >= rule.entropy and not is_no_value(value):
            yield Find(*match.span(group), "access_token")


def _is_whole(match: re.Match[bytes], group: int) -> bool:
    """True for the group that holds the secret: the longest."""
    return match[group] is not None and len(match[group]) == max(
        len(part) for part in match.groups() if part is not None
    )


def _beside(data: bytes, at: int) -> Iterator[Find]:
    """A random value behind the name of a service and a sign, or behind its `key` or `token`."""
    match = _BESIDE.match(data, at) or _SPOKEN.match(data[at : at + 120])
    if match and is_random(match[1]) and not _PROSE.search(match[1]):
        offset = 0 if match.string is data else at
        yield Find(offset + match.start(1), offset + match.end(1), "access_token")


@cache
def looks() -> list[tuple[str, Look]]:
    """Functions that look for a token, each with the word at whose beginning it looks."""
    by_word = token_rules()
    services = SERVICES | {word for word in by_word if word.isalpha()}
    return [
        *((word, partial(_by_rule, of_word=of_word)) for word, of_word in by_word.items()),
        *((word, _beside) for word in sorted(services)),
    ]
