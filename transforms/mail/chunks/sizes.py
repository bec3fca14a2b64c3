"""Sizes of the chunks of mail, in characters; those of the pginbox design unless noted."""

RECURSIVE_CHARS = 8000
"""Longer text is also split by sentences and lines."""
OVERLAP_CHARS = 300
"""Overlap of neighbouring segments (pginbox: 200 to 400)."""
ANCHOR_CHARS = 800
"""Most characters of a quote anchor."""
ANCHOR_CHARS_SHORT = 1500
"""Most characters of the anchor of a short reply, which needs more context."""
SHORT_REPLY_CHARS = 200
"""A reply with less authored text is short; without an anchor it needs the answered mail."""
ATTACHMENT_CHARS = 8000
"""A longer attachment is split."""
PATCH_FILES = 100
"""Files; a patch with more gets one chunk that names them all, and its segments wait in the slow queue."""
PATCH_CHARS = 12_000
"""A longer diff of one file is split by hunks, and a longer hunk by lines."""
PATCH_HUNKS = 10
"""Hunks; the diff of one file with more is split by hunks."""
