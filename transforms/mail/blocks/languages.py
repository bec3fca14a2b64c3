"""Languages: how mail programs of each language introduce what a reply quotes.

To add a language, add one entry with an example: the tests read the examples of this table.
"""

from __future__ import annotations

from transforms.mail.blocks.latin_languages import LATIN_LANGUAGES
from transforms.mail.blocks.other_languages import OTHER_LANGUAGES

LANGUAGES = LATIN_LANGUAGES + OTHER_LANGUAGES
