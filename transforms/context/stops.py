"""Why a block stops; this module loads nothing."""

FULL, ENDED = "budget", "evidence"
"""The next passage does not fit, or nothing more bears out the text."""
