"""What any text needs: spans, segments, diffs, terms, snippets, redaction."""
