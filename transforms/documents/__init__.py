"""Documents: from files of text to Markdown, headings and links; PDF and office files are in
`formats`.
"""
