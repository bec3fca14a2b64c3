"""The codes with which reasons in quarantine, exclusions and attachments begin, and what each means."""

import re

REASON_CODES = {
    "archive": "an archive in a mail", "armour": "a key, or encrypted text", "bad_path": "a name that is not Unicode",
    "before_first": "text before the first message", "binary": "not text", "broken_archive": "not to be unpacked",
    "broken_link": "a symbolic link that leads nowhere", "comment": "a comment in Markdown or HTML",
    "compression_bomb": "it unpacks to far more than it is", "damaged_history": "a commit is corrupt",
    "damaged_object": "an object of git is corrupt", "deep_quote": "a quote inside a quote",
    "duplicate": "a second copy", "empty": "nothing but blanks", "empty_file": "a file without bytes",
    "empty_section": "a heading without text", "encrypted": "it has a password", "ended": "its reader crashed",
    "excluded": "a pattern of `exclude` matches", "forgotten": "`weft forget` removed it",
    "frontmatter": "the properties of a note", "header": "the line above a quote, or a header in a text",
    "hidden": "a name that begins with a dot", "lesser_copy": "a copy with fewer parts", "lost_rest": "the rest of a text "
    "that a chunker of a seed loses", "missing": "a file that an export does not hold", "missing_history":
    "a shallow clone or a lost commit", "missing_object": "an object that a clone lacks", "mixed_dates":
    "dates in two orders", "needs_ocr": "a picture, and OCR is off", "no_text": "a file or message without text",
    "no_time": "a message without a time", "not_a_file": "a folder, a socket or a device",
    "not_included": "no pattern of `include` matches", "not_mail": "bytes that are not a mail",
    "not_understood": "lines of a program that are not known", "ocr_failed": "OCR reports a fault",
    "out_of_memory": "to read it takes too much memory", "outside_root": "a link out of the folder of the source",
    "path_too_long": "a path that is too long", "path_traversal": "a path out of the archive",
    "signature": "a signature", "slow_lane": "a long text that waits for its chunks", "too_large": "over a cap",
    "too_little_text": "too short for a chunk", "too_slow": "to read it takes too long",
    "truncated_archive": "an archive that ends too early", "unknown": "a kind of message that is not known",
    "unknown_format": "an ending that is not known", "unreadable": "it cannot be opened or parsed",
    "unused_quote": "a quote that no reply uses", "word_list": "a list of words",
}  # fmt: skip
"""The meaning of each code. A code `no_NAME` that is not here: a file or record lacks NAME, or is not of that format."""
CODE = re.compile(r"^[a-z]+(_[a-z]+)*")
"""The code in a reason, whose rest may hold strangers' text."""
CODED = ("attachments", "exclusions", "quarantine")
"""The published tables with a column `reason_code`."""
