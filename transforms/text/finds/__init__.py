"""Where texts hold secrets and personal data: forms of tokens, named values, addresses and numbers
with checksums.

`transforms.text.redaction` decides whether a find becomes a mark or its text is withheld.
"""

SECRETS = (
    "private_key",
    "url_password",
    "cloud_key",
    "access_token",
    "jwt",
    "authorization",
    "password",
    "card",
    "iban",
    "id_number",
)
"""Kinds of secrets, the first ones before the later where two find the same bytes."""
FIND_KINDS = (*SECRETS, "email", "phone")
