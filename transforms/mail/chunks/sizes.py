"""Sizes of the chunks of mail, those of the pginbox design where nothing else is said; in characters."""

RECURSIVE_CHARS = 8000
"""Longer text is split by sentences and lines too."""
OVERLAP_CHARS = 300
"""What neighbours repeat of each other (the design: 200 to 400)."""
ANCHOR_CHARS = 800
"""A quote anchor."""
ANCHOR_CHARS_SHORT = 1500
"""A quote anchor under a short reply, which says less without it."""
SHORT_REPLY_CHARS = 200
"""Authored text below which a reply is short, and needs the answered mail where it has no anchor."""
ATTACHMENT_CHARS = 8000
"""A longer attachment is split."""
PATCH_FILES = 100
"""Files; a patch of more, which is rare, gets a chunk that names them all, and its parts wait for the slow lane."""
PATCH_CHARS = 12_000
"""A longer diff of one file is split by hunks, and a longer hunk by lines."""
PATCH_HUNKS = 10
"""Hunks; the diff of one file with more is split by hunks."""
