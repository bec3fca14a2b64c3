"""Words that mean the same, as a file lists them: which others a text asks for."""

import functools
import re

FACTOR = 0.5
"""Weight of an added word, beside 1 for a typed one."""
_Rule = tuple[tuple[str, ...], tuple[str, ...]]


@functools.lru_cache(4)
def rules(text: str) -> tuple[_Rule, ...]:
    """The rules of a file: which words ask for which others. ValueError names the line that is
    none.

    A line `wal, write-ahead log` lets each ask for the others, `pg => postgres` the first for the
    second; # begins a comment.

    >>> rules("pg => postgres  # one way")
    ((('pg',), ('postgres',)),)
    """
    parsed: list[_Rule] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        sides = [
            tuple(filter(None, (" ".join(n.split()) for n in side.split(","))))
            for side in bare.split("=>")
        ]
        if len(sides) == 2 and all(sides):
            parsed.append((sides[0], sides[1]))
        elif len(sides) == 1 and len(sides[0]) > 1:
            parsed.append((sides[0], sides[0]))
        else:
            raise ValueError(f"line {number}: write `wal, write-ahead log` or `pg => postgres`")
    return tuple(parsed)


def added(text: str, file: str) -> list[str]:
    """Words that the rules of a file add to those of a text, each once, in the order of the rules.

    >>> added("why is the WAL large", "wal, write-ahead log")
    ['write', 'ahead', 'log']
    """
    lowered = text.lower()
    has = {
        word: re.search(rf"(?<!\w){re.escape(word.lower())}(?!\w)", lowered)
        for r in rules(file)
        for word in r[0]
    }
    others = [
        other for names, synonyms in rules(file) if any(has[n] for n in names) for other in synonyms
    ]
    own = set(re.findall(r"\w+", lowered))
    words = [word for other in others for word in re.findall(r"\w+", other)]
    return list(dict.fromkeys(word for word in words if word.lower() not in own))
