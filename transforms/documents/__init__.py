"""Documents: from files to Markdown, headings and links."""
