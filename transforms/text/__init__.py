"""Text of any source: spans, segments, diffs, terms, snippets, redaction. A format or a source has
its own room.
"""
