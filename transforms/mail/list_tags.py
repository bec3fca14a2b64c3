"""Tags before the title of a subject that name a list."""

import re
from collections.abc import Iterable

PATCH_TAG = (
    r"(?i)\[(?:[^\[\]]*(?:\bpatch|\brfc(?:\b|v\d))[^\[\]]*|\s*(?:v\d+\s+)?\d+\s*/\s*\d+\s*)\]"
)
"""The tag of a patch."""
_LIST_TAG = re.compile(r"((?:\s*[\w]{1,7}\s*[:：])*\s*)\[([^\[\]]*)\]\s*")
_ENDS_OF_NAME = re.compile(r"[.@].*")
_LEAST_OF_NAME = 4
"""Letters and digits from which a tag names a list as a part of its name."""


def without_list_tags(subject: str, lists: Iterable[str]) -> str:
    """`subject` without the tags before its title that name one of the lists; others, as of patches, stay.

    >>> without_list_tags("[USRP-users] Re: [PATCH v2] Tune", ["usrp-users.lists.example.org"])
    'Re: [PATCH v2] Tune'
    """
    names = [_letters(_ENDS_OF_NAME.sub("", name)) for name in lists]
    text, place = subject, 0
    while (tag := _LIST_TAG.match(text, place)) is not None:
        own = _letters(tag[2])
        is_part = len(own) >= _LEAST_OF_NAME and not re.match(PATCH_TAG, f"[{tag[2]}]")
        if any(own == name or (is_part and (own in name or name in own)) for name in names if name):
            text = text[: tag.end(1)] + text[tag.end() :]
        else:
            place = tag.end()
    return text if text.strip() else subject


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))
