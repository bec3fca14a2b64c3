"""Language: what the mail programs of one language write around a quote.

To add a language, add one entry with an example to a table of languages: the tests read the examples.
"""

from __future__ import annotations

from typing import NamedTuple


class Language(NamedTuple):
    """What one language contributes to the rules; alternatives are divided by `|`.

    `verbs` stand in the line above a quote, `starts` open such a line when a date or an address
    follows. `sender` to `subject` are the field names of a pasted header block, `banners` the words
    between dashes above it, `device` begins a line that a phone or a mail program adds. The text is
    matched as bytes: a character outside ASCII may neither stand in brackets nor be repeated or optional
    without a group around it.
    """

    name: str
    examples: tuple[str, ...]
    verbs: str
    starts: str
    sender: str = ""
    sent: str = ""
    to: str = ""
    copy: str = ""
    subject: str = ""
    banners: str = ""
    device: str = ""
