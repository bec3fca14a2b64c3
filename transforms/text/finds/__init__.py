"""Where texts hold secrets and personal data: forms of tokens, named values, addresses and numbers with checksums.

`transforms.text.redaction` decides whether a find becomes a mark or its text is withheld."""
