"""The preferences that a query was understood to have, as a sentence for people."""

import re
from calendar import month_name
from collections.abc import Sequence

_WORDS = {
    "newest": "the newest",
    "oldest": "the oldest",
    "opening": "the first mail of a thread",
    "reviewed": "a review",
    "acked": "a mail that acks",
    "tested": "a report of a test",
    "applied": "a mail that says it was applied",
    "replied": "an answer",
}


def preference_sentence(conditions: Sequence[str]) -> str:
    """The things that count more in a ranking, by the `conditions` of an
    understanding; empty without any.

    >>> preference_sentence(["d:*-07"]), preference_sentence(["d:2023-08-11..2023-08-15", "f:ann lee"])
    ('July counts more, as you named it', '11 August 2023 to 15 August 2023 and Ann Lee count more, as you named them')
    """
    if not conditions:
        return ""
    things = [condition_in_words(condition) for condition in conditions]
    listed = " and ".join(filter(None, [", ".join(things[:-1]), things[-1]]))
    return f"{listed} {'counts' if len(things) == 1 else 'count'} more, as you named {'it' if len(things) == 1 else 'them'}"


def condition_in_words(condition: str) -> str:
    """A condition of an understanding as people write it.

    >>> condition_in_words("d:2023-07")
    'July 2023'
    """
    field, _, value = condition.partition(":")
    if field == "f":
        return value.title()
    if field != "d":
        return _WORDS.get(condition, re.sub(r"^v(?=\d)", "version ", condition))
    first, dots, last = value.partition("..")
    if not dots:
        return _day_in_words(first)
    if first and last:
        return f"{_day_in_words(first)} to {_day_in_words(last)}"
    return f"from {_day_in_words(first)} on" if first else f"until {_day_in_words(last)}"


def _day_in_words(day: str) -> str:
    """A year, month or day as people write it; `*` is every year."""
    year, month, number = (*day.split("-"), "", "")[:3]
    words = [number.lstrip("0"), month_name[int(month)] if month else "", year.strip("*")]
    return " ".join(filter(None, words))
