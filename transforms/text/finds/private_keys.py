"""Private keys: blocks with a first and a last line, their beginnings alone, and keys in the fields
of files.
"""

import re
from collections.abc import Callable, Iterable

from transforms.text.finds.forms import Find

_DASHES = rb"(?:-|\xe2\x80[\x90-\x95]|\xe2\x88\x92){1,5}"
"""Hyphens and the dashes that programs for letters make of them."""
_OF_KEY = rb" (?:[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1) ?"
_BEGIN = re.compile(rb"BEGIN" + _OF_KEY + _DASHES)
_END = re.compile(rb"END" + _OF_KEY + _DASHES)
_DASHES_BEFORE = re.compile(_DASHES + rb" ?\Z")
_MOST_OF_KEY = 65_536
"""Bytes of a block."""
_KEY_LINE = re.compile(rb"[\s>|*#+\\nrt\"',-]*[A-Za-z0-9+/=]{30,}(?![A-Za-z0-9+/=])[\"',\\nr \t]*")
_SHORT = re.compile(rb"[\s>]*[A-Za-z0-9+/=]+[\s>]*\Z")
_WHOLE, _LAST = re.compile(rb"[A-Za-z0-9+/=]{30,}"), re.compile(rb"=?[A-Za-z0-9+/=]+")
_LONGEST = 200
"""Bytes of a line of a block."""
_PUTTY = re.compile(rb"Private-Lines: ([0-9]{1,3})[ \t]*\r?\n")


def block_at(data: bytes, at: int) -> Find | None:
    """The private key whose `BEGIN` is at `at`: to its last line, else over the lines of base64
    below it.
    """
    start = _before_dashes(data, at)
    begin = _BEGIN.match(data, at) if start < at else None
    if not begin:
        return None
    last = data.find(b"END ", begin.end(), begin.end() + _MOST_OF_KEY)
    if last > 0 and (end := _END.match(data, last)):
        return Find(start, end.end(), "private_key")
    place = _lines(data, begin.end())
    if place == begin.end():
        return None
    rest = _SHORT.match(data, place)
    return Find(start, len(data) if rest else place, "private_key")


def _before_dashes(data: bytes, at: int) -> int:
    """Where the dashes before a word begin; `at` without one."""
    dashes = _DASHES_BEFORE.search(data, max(0, at - _FAR), at)
    return dashes.start() if dashes else at


def _lines(data: bytes, place: int) -> int:
    """The end of the lines of base64 that begin at `place`."""
    while line := _KEY_LINE.match(data, place):
        place = line.end()
    return place


def block_before(data: bytes, at: int) -> Find | None:
    """The private key whose `END` is at `at` and whose first lines are cut off."""
    begin = _before_dashes(data, at)
    end = _END.match(data, at) if begin < at else None
    if not end:
        return None
    at = begin
    start, is_last = at, True
    while at - start < _MOST_OF_KEY:
        begin = data.rfind(b"\n", max(0, start - _LONGEST), max(0, start - 1)) + 1
        if not (begin or start <= _LONGEST) or not (_LAST if is_last else _WHOLE).fullmatch(
            data[begin:start].strip(b" \t\r\n>|*")
        ):
            break
        start, is_last = begin, False
    if start == at:
        return None
    start += len(data[start:at]) - len(data[start:at].lstrip(b" \t\r\n>|*"))
    return Find(start, end.end(), "private_key")


def putty_at(data: bytes, at: int) -> Find | None:
    """The lines of a PuTTY key that are private."""
    head = _PUTTY.match(data, at)
    place = _lines(data, head.end()) if head else 0
    if not head or place == head.end():
        return None
    short = re.compile(rb"[ \t>]*[A-Za-z0-9+/=]{4,}(?=\r?\n)").match(data, place)
    return Find(head.end(), short.end() if short else place, "private_key")


_BARE_BEGIN = re.compile(
    rb"(?:MII[A-Za-z0-9+/]{2,12})?"
    rb"(?:IBAAK[BC]|IBADANBgkqhkiG9w0BAQEF|MHcCAQEE|MHQCAQEE|MIGkAgEBB|MIGHAgEAMB|MC4CAQAwBQYDK2V|b3BlbnNzaC1rZXktdjE|LS0tLS1CRUdJTiB\w{0,40}UgS0VZL)"
)
"""The first bytes of RSA, EC, Ed25519 and OpenSSH keys in base64, and of a whole block in it: a
version, an algorithm, a magic word.
"""
_FAR = 16
"""Bytes before such a word where the length of the key may be."""
_SECRET_LINES = re.compile(
    rb"(?:\$ANSIBLE_VAULT;[0-9.]{3,5};[^\n]{3,60}|untrusted comment: [^\n]{0,60}secret key)[ \t]*"
    rb"\r?\n((?:[ \t>]*[A-Za-z0-9+/=]{20,}[ \t]*(?:\r?\n|\Z))+)"
)
_OF_JWK = re.compile(rb"(\"(?:d|p|q|dp|dq|qi|k)\"\s*:\s*\")([A-Za-z0-9_-]{30,})\"")
_NEAR_JWK = 2_000
"""Bytes around a field of a key where its type is."""
_FIELD = re.compile(
    rb"(?:client-key-data|tls\.key|private_?key_?data)[\"']?\s*:\s*[\"']?([A-Za-z0-9+/=]{30,})",
    re.I,
)
_PIECE_OF_KEY = re.compile(rb"[A-Za-z0-9+/]{30,}={0,2}")


def bare_key_at(data: bytes, at: int) -> Find | None:
    """The lines of base64 around a word that only private keys begin with."""
    line = data.rfind(b"\n", max(0, at - _FAR), at) + 1
    begin = _BARE_BEGIN.search(data, max(line, at - _FAR), at + 60)
    piece = _PIECE_OF_KEY.match(data, begin.start()) if begin else None
    if not begin or not piece or data[begin.start() - 1 : begin.start()].isalnum():
        return None
    place = _lines(data, piece.end())
    rest = _SHORT_END.match(data, place)
    return Find(begin.start(), rest.end(1) if rest else place, "private_key")


_SHORT_END = re.compile(rb"[\s>]*([A-Za-z0-9+/]+=*)[ \t]*(?=\r?\n|\Z)")


def secret_lines_at(data: bytes, at: int) -> Find | None:
    """The lines below the first one of a vault of Ansible, or of a key of minisign or signify."""
    match = _SECRET_LINES.match(data, at)
    return (
        Find(match.start(1), match.start(1) + len(match[1].rstrip()), "private_key")
        if match
        else None
    )


def jwk_at(data: bytes, at: int) -> Find | None:
    """A private number of a JSON Web Key (RFC 7518, section 6)."""
    match = _OF_JWK.match(data, at)
    near = data[max(0, at - _NEAR_JWK) : at + _NEAR_JWK]
    return Find(*match.span(2), "private_key") if match and b'"kty"' in near else None


def field_at(data: bytes, at: int) -> Find | None:
    """The key in a field of a file, as of kubectl."""
    match = _FIELD.match(data, at)
    return Find(*match.span(1), "private_key") if match else None


KEY_LOOKS: dict[str, Callable[[bytes, int], Iterable[Find] | Find | None]] = {
    "begin ": block_at,
    "end ": block_before,
    "private-lines:": putty_at,
    **dict.fromkeys(
        ("ibaak", "ibadanbgkqhkig9w0baqef", "mhccaqee", "mhqcaqee", "migkagebb", "mighageamb"),
        bare_key_at,
    ),
    **dict.fromkeys(("mc4caqawbqydk2v", "b3blbnnzac1rzxktdje", "ls0tls1crudjtib"), bare_key_at),
    **dict.fromkeys(("$ansible_vault", "untrusted comment:"), secret_lines_at),
    **dict.fromkeys(('"d"', '"dp"', '"dq"', '"qi"', '"k"'), jwk_at),
    **dict.fromkeys(("client-key-data", "tls.key", "private_key_data", "privatekeydata"), field_at),
}
"""Functions that look for a key, by the word, in lower case, at whose beginning they look."""
