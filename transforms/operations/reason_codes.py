"""The codes with which reasons in quarantine, exclusions and attachments begin, and what each
means.
"""

import re

from transforms.toml_file import toml_file

REASON_CODES: dict[str, str] = toml_file(__name__, "reason_codes.toml")
"""The meaning of each code. A code `no_NAME` that is not here: a file or record lacks NAME, or is
not of that format.
"""
CODE = re.compile(r"^[a-z]+(_[a-z]+)*")
"""The code in a reason, whose rest may hold strangers' text."""
CODED = ("attachments", "exclusions", "quarantine")
"""The published tables with a column `reason_code`."""
