"""Where texts hold secrets and personal data: forms of tokens, named values, addresses and numbers with checksums.

What becomes of a find, a mark or a withheld text, is decided in `transforms.text.redaction`.
"""
