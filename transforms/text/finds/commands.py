"""Secrets in commands, headers, addresses and lines of files whose form shows them."""

import re
from collections.abc import Iterator

from transforms.text.finds.forms import CLIENT_WORDS, CLIENTS, PATTERNS, Find
from transforms.text.finds.named import Look
from transforms.text.finds.values import is_no_value, is_random, is_strong

_I = re.IGNORECASE
_TAIL = b".,;:!?)]}|"
_LEAST_IN_QUERY = 20
"""Bytes of a value in the query of an address that is a token: ids of pages have eleven or so."""

_AUTHORIZATION = re.compile(PATTERNS["authorization"].encode(), _I)
_BEARER = re.compile(rb"bearer[ \t]+([A-Za-z0-9._~+/=-]{16,})", _I)
_DIGEST = re.compile(
    rb"authorization[\"']?:[^\n]{0,600}?\b(?:response|signature)=[\"']?([0-9a-f]{32,128})", _I
)
_COOKIES = re.compile(rb"cookie2?[\"']?:[^\r\n]{0,1000}", _I)
_COOKIE = re.compile(rb"=\s*(?!\[[a-z_]+\]\**(?:[;\s\"',]|\Z))([^;\s\"',]{8,})")  # not a mask
_ATTRIBUTES = re.compile(
    rb"(?:expires|path|domain|max-age|samesite|version|comment|priority)\Z", _I
)
_URL_PASSWORD = re.compile(rb"://[^\s/:@<>\"']{0,200}:([^\s/@<>\"']{1,200})@")
_URL_ODD_PASSWORD = re.compile(
    rb"://[^\s/:@<>\"']{1,60}:(?![0-9]{1,5}[/?#])([^\s<>\"']{1,100})@(?=[\w.-]+(?::[0-9]{2,5})?(?:[/?\s,;)\"']|\Z))"
)
"""A password with `@` or `/` in it, which should be escaped there and often is not."""
_PORT = re.compile(rb"[0-9]{1,5}\Z")
_CURL = re.compile(
    rb"curl\b[^\n|;]{0,300}?[ \t](?:-u|-U|--user|--proxy-user)[ =]?[\"']?[^\s:\"'$<>]{1,100}:([^\s\"'$<>]{1,200})",
    _I,
)
_CLIENT = re.compile(
    ("(?:" + "|".join(CLIENTS) + r")([^\s\"'|;$<>-][^\s\"'|;<>]{2,})").encode(), _I
)
_NETRC = re.compile(rb"login\s+\S{1,100}\s+password\s+(\S{1,200})", _I)
_PGPASS = re.compile(
    rb"(?m)^[\s>]*[\w.*-]{1,100}:(?:[0-9]{4,5}|\*):[\w*.-]{1,60}:[\w*.@-]{1,60}:(\S{3,200})[ \t]*$"
)
_AZURE = re.compile(rb"(?:AccountKey|SharedAccessKey|AccessKey)=([A-Za-z0-9+/%]{30,}={0,2})", _I)
_ACCOUNT_KEY = re.compile(
    rb"(?:primary|secondary|account|storage|master) key[\"']?(?: is|:|=)[ \t]*[\"']?([A-Za-z0-9+/]{86}==)",
    _I,
)
_SIGNATURE = re.compile(
    rb"(?:sig|X-Amz-Signature|X-Goog-Signature)=([A-Za-z0-9+/%]{32,}={0,2})", _I
)
_QUERY = re.compile(
    rb"(?:code|token|key|ticket|invite)=([A-Za-z0-9._~%-]{20,200})(?=[&\s>\"')]|\Z)", _I
)
_PATH = re.compile(
    rb"/(?:verify|reset|invite|confirm|activate|magic|password-reset|reset-password)/([A-Za-z0-9._~%-]{20,200})",
    _I,
)
_HASH = re.compile(
    rb"\$(?:1|2[abxy]|5|6|7|8|9|y|apr1|argon2\w*|scrypt)\$[A-Za-z0-9./$,=+-]{20,}|\{S?(?:SHA|MD5)(?:256|512)?\}[A-Za-z0-9+/]{24,}={0,2}",
    _I,
)
_NT_HASH = re.compile(rb":[0-9a-f]{32}:([0-9a-f]{32})\Z", _I)
_TERRAFORM = re.compile(rb"[A-Za-z0-9]{14}\Z")
_TERRAFORM_END = re.compile(rb"\.atlasv1\.[A-Za-z0-9_=-]{60,70}")


def _plain(pattern: re.Pattern[bytes], kind: str = "password") -> Look:
    """A function that finds the first group of a pattern at a place, unless it is a placeholder."""

    def finds(data: bytes, at: int) -> Iterator[Find]:
        match = pattern.match(data, at)
        if match and not is_no_value(match[1].rstrip(_TAIL)):
            end = match.start(1) + len(match[1].rstrip(b",;."))
            yield Find(match.start(1), end, kind)

    return finds


def _authorization(data: bytes, at: int) -> Iterator[Find]:
    if digest := _DIGEST.match(data, at):
        yield Find(*digest.span(1), "authorization")
    for pattern in (_AUTHORIZATION, _BEARER):
        match = pattern.match(data, at)
        if match and (is_random(match[1]) or re.search(rb"=\Z|[a-z][A-Z][a-z]*[A-Z]", match[1])):
            yield Find(*match.span(1), "authorization")


def _cookies(data: bytes, at: int) -> Iterator[Find]:
    header = _COOKIES.match(data, at)
    for match in _COOKIE.finditer(data, at, header.end()) if header else ():
        name = data[max(at, match.start() - 20) : match.start()].rpartition(b";")[2].strip()
        if not _ATTRIBUTES.search(name):
            yield Find(*match.span(1), "authorization")


def _url_password(data: bytes, at: int) -> Iterator[Find]:
    if not data[at - 1 : at].isalnum():
        return
    odd = _URL_ODD_PASSWORD.match(data, at)
    match = odd if odd and b"@" in odd[1] + b"/" and is_strong(odd[1]) else None
    match = match or _URL_PASSWORD.match(data, at)
    if match and not is_no_value(match[1]) and not re.fullmatch(rb"\[[a-z_]+\]\**", match[1]):
        yield Find(*match.span(1), "url_password")


def _pgpass(data: bytes, at: int) -> Iterator[Find]:
    line = data.rfind(b"\n", max(0, at - 200), at) + 1
    match = _PGPASS.match(data, line if line else max(0, at - 200))
    if match and not is_no_value(match[1]):
        yield Find(*match.span(1), "password")


def _signature(data: bytes, at: int) -> Iterator[Find]:
    match = _SIGNATURE.match(data, at)
    if match and data[at - 1 : at] in (b"?", b"&", b";", b"", b'"', b"'", b" "):
        yield Find(*match.span(1), "cloud_key")


def _query(data: bytes, at: int) -> Iterator[Find]:
    match = _QUERY.match(data, at + 1) or _PATH.match(data, at)
    if match and is_random(match[1]):
        yield Find(*match.span(1), "access_token")


def _hash(data: bytes, at: int) -> Iterator[Find]:
    if match := _HASH.match(data, at):
        yield Find(match.start(), match.end(), "password")


def _nt_hash(data: bytes, at: int) -> Iterator[Find]:
    if match := _NT_HASH.search(data, max(0, at - 66), at):
        yield Find(*match.span(1), "password")


def _terraform(data: bytes, at: int) -> Iterator[Find]:
    begin, end = _TERRAFORM.search(data, max(0, at - 14), at), _TERRAFORM_END.match(data, at)
    if begin and end:
        yield Find(begin.start(), end.end(), "access_token")


_HASHES = ("$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$8$", "$9$", "$y$", "$apr1$", "$argon2")
_LDAP_HASHES = ("$scrypt", "{ssha", "{sha", "{smd5")
_PATHS = ("/verify/", "/reset/", "/invite/", "/confirm/", "/activate/", "/magic/")
COMMAND_LOOKS: dict[str, Look] = {
    **dict.fromkeys(("authorization", "bearer "), _authorization),
    "cookie": _cookies,
    "://": _url_password,
    "curl": _plain(_CURL),
    **dict.fromkeys(CLIENT_WORDS, _plain(_CLIENT)),
    "login": _plain(_NETRC),
    **dict.fromkeys((":5432:", ":*:", ":6432:", ":5433:"), _pgpass),
    **dict.fromkeys(("accountkey=", "sharedaccesskey=", "accesskey="), _plain(_AZURE, "cloud_key")),
    **dict.fromkeys(
        ("primary key", "secondary key", "account key"), _plain(_ACCOUNT_KEY, "cloud_key")
    ),
    **dict.fromkeys(("sig=", "x-amz-signature=", "x-goog-signature="), _signature),
    **dict.fromkeys(
        ("?code=", "&code=", "?key=", "&key=", "?ticket=", "?invite=", *_PATHS), _query
    ),
    **dict.fromkeys((*_HASHES, *_LDAP_HASHES), _hash),
    ":::": _nt_hash,
    ".atlasv1.": _terraform,
}
"""Functions that look for a value, by the word, in lower case, at whose beginning they look."""
