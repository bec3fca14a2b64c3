"""Secrets that sentences name: `the password is …`, log in with …, changed … to …, PINs, codes and
phrases for recovery.
"""

import re
from collections.abc import Iterator

from transforms.text.finds.forms import (
    CODE_LISTS,
    PASSWORDS,
    PATTERNS,
    PHRASES,
    PINS,
    SHARED_SECRETS,
    Find,
)
from transforms.text.finds.named import NEAR, PASSWORD, Look
from transforms.text.finds.values import (
    SecretValue,
    digits_of,
    is_in_sentence,
    is_no_value,
    is_plain_word,
    is_strong,
    value_at,
)

_I = re.IGNORECASE
_TAIL = b",;.!)\"'"
_CHANGE = rf"(?:{PATTERNS['change']})".encode()
_VERB = rf"(?:{PATTERNS['verb']})".encode()
_OF = (r"(?:[ \t]+(?:" + PATTERNS["of"] + r")\s[^\n:=]{1,40}?)?").encode()
_CJK_VERB = '(?:は|是|为|為|は次の|은|는)[:：]?[ \t]*"?'.encode()
_SENTENCE = re.compile(
    PASSWORD + rb"(?:" + _OF + rb"(?P<verb>\s+" + _VERB + rb":?\s+)|" + _OF + rb":\s+|[ \t]+)",
    _I,
)
_AFTER_CJK = re.compile(PASSWORD + _CJK_VERB + rb"([!#-~]{4,100})", _I)
_NAME = re.compile(rb"pass[_ -]?(?:word|phrase|code)|pwd?\b", _I)
"""A name in English; `pass` alone is a verb, too, and other languages have other adjectives."""
_DESCRIPTION = re.compile(
    rb"(?:ed|ive|able|ible|less|ic|al|ing|ly|ent|ant|ous|ful|ary|ory|ect|ure|ult)\Z"
)
"""Ends of adjectives and participles, which sentences say of passwords."""
_CHANGED = re.compile(
    PASSWORD + rb"([^\n.:]{0,40}?)[ \t]+(?:from[ \t]+(\S{3,80})[ \t]+)?to[ \t]+(\S{3,80})", _I
)
_OF_CHANGE = re.compile(_CHANGE, _I)
_LOGIN = re.compile(
    rb"(?:log(?:ged|ging)?[ -]?(?:in|on)|sign(?:ed)?[ -]in|vpn user|ssh user|user)[ \t]+(?:(?:with|as|using|by)[ \t]+)?"
    rb"([\w.@+-]{1,64})"
    rb"([ \t]*[/:|,][ \t]*|[ \t]+(?:with|and)[ \t]+)(?:(?:the )?(?:password|passwd|pass|pw)[ \t:]+)?([^\s\"'<>]{3,100})",
    _I,
)
_USED = re.compile(rb"(?<!\w)(?:use|try)[ \t]+[\w.@+-]{1,64}[ \t]+/[ \t]+([^\s\"'<>]{6,100})", _I)
_PAIR = re.compile(PATTERNS["pair"].encode(), _I)
_USER_BEFORE = re.compile(rb"\bu(?:ser)?[:=][ \t]?\S{1,64}[ \t,;/|]+\Z", _I)
_SHORT_NAME = re.compile(rb"p(?:w|ass)?[:=][ \t]?(\S{4,100})", _I)
_PIN = re.compile(
    rf"(?:{'|'.join(PINS)})(?:[ \t]+(?:code|nr|no)\.?)?(?:\s+(?:is|lautet|ist|est|es)|:|[ \t]*=)?[ \t:]*".encode()
    + rb"([0-9][0-9 -]{1,9}[0-9]#?)(?![\w/]|[.,-][0-9])",
    _I,
)
_PIN_BEFORE = re.compile(
    rb"(?<![\w.-])(?:[A-Z]-)?([0-9]{4,8})[ \t]+is[ \t]+(?:your|the)[^\n]{0,40}\Z", _I
)
_PIN_SIGN = re.compile(rb"[:=]|\s(?:is|lautet|ist|est|es)\s", _I)
_SPOKEN_CODE = re.compile(
    rb"\byour\b[^\n]{0,40}\bcode is[ \t]+([0-9]{4,8})(?![\w.-]*[0-9])"
    rb"|\buse[ \t]+([0-9]{4,8})[ \t]+to\b"
    rb"|\bcode (?:for|to|of) the (?:front )?"
    rb"(?:door|gate|alarm|safe|house|garage|lock|office|building|flat|shed|locker|room)\b"
    rb"(?: is|:)?[ \t]*([0-9]{3,8}#?)",
    _I,
)
_NUMBERED = rb"(?:[ \t>*-]*(?:[0-9]{1,2}[.)][ \t]+)?)"
_CODE = rb"[`*]{0,2}(?:[A-Za-z0-9]{4,10}(?:[ -][A-Za-z0-9]{4,10}){1,7}|[A-Za-z0-9]{8,12})[`*]{0,2}"
_CODES = re.compile(
    rf"(?:{'|'.join(CODE_LISTS)})".encode()
    + rb"[^\n:]{0,30}?(?:[ \t]+(?:is|are))?[ \t]*:?[ \t]*(?:\r?\n){0,2}((?:"
    + _NUMBERED
    + _CODE
    + rb"[ \t]*,?(?:\r?\n)?){1,20})",
    _I,
)
_ONE_CODE = re.compile(rb"[A-Za-z0-9]{4,12}(?:[ -][A-Za-z0-9]{4,10}){0,7}")
_PHRASE = re.compile(
    rf"(?:{'|'.join(PHRASES)})".encode()
    + rb"[\"'*]{0,3}[ \t]*(?:is|are|:|=)?[ \t]*:?\s{0,3}[\"'`]?"
    + rb"((?:(?:[0-9]{1,2}[.)] ?)?[a-z]{3,8}[ \t\r\n,>]{1,4}){11,23}[a-z]{3,8})",
    _I,
)
_SHARED = re.compile(
    rf"(?:{'|'.join(SHARED_SECRETS)})".encode()
    + rb"[\"'*]{0,3}(?:[ \t]+is)?[ \t]*[:=]?[ \t]*[\"'`]?"
    + rb"([A-Z2-7]{16,64}=*|[A-Z2-7]{4}(?: [A-Z2-7]{4}){3,15})(?![A-Za-z0-9])",
    _I,
)
_OTPAUTH = re.compile(
    rb"otpauth://[^\s?]{1,200}\?(?:[^\s&]{1,100}&){0,5}?secret=([A-Z2-7]{8,128})", _I
)


def sentences_at(data: bytes, at: int) -> Iterator[Find]:
    """The password that a sentence gives whose name for it is at `at`."""
    if match := _AFTER_CJK.match(data, at):
        if is_strong(text := match[1].rstrip(_TAIL)):
            yield Find(match.start(1), match.start(1) + len(text), "password")
        return
    before = data[max(0, at - NEAR) : at]
    is_named = _NAME.match(data, at) is not None
    if changed := _changed(data, at, before) if is_named else []:
        yield from changed
        return
    match = _SENTENCE.match(data, at)
    value = value_at(data, match.end()) if match else None
    verb = match["verb"] if match else None
    if value and (
        is_in_sentence(value, verb is not None) or _is_word(value, verb or b"", is_named)
    ):
        yield Find(value.start, value.end, "password")


def _is_word(value: SecretValue, verb: bytes, is_named: bool) -> bool:
    """True for a word behind `is` that ends the sentence and does not describe a password."""
    is_long = 5 < len(value.text) < 21 and value.text.islower()
    describes = _DESCRIPTION.search(value.text) is not None
    return (
        is_named
        and verb.strip() in (b"is", b"is now")
        and value.is_last
        and is_long
        and not describes
        and is_plain_word(value.text)
    )


def short_names_of_sentences_at(data: bytes, at: int) -> Iterator[Find]:
    """As `sentences_at` for a name of two letters, with the blank at `at` before it."""
    return sentences_at(data, at + 1)


def _changed(data: bytes, at: int, before: bytes) -> list[Find]:
    """The passwords of `changed the password from … to …`."""
    match = _CHANGED.match(data, at)
    line = before[before.rfind(b"\n") + 1 :]
    if not match or not (_OF_CHANGE.search(line) or _OF_CHANGE.search(match[1])):
        return []
    values = [value_at(data, match.start(n)) for n in (2, 3) if match[n]]
    has_both = match[2] is not None
    return [
        Find(value.start, value.end, "password")
        for value in values
        if value
        and not is_no_value(value.text)
        and (is_in_sentence(value, True) or (has_both and digits_of(value.text)))
    ]


def logins_at(data: bytes, at: int) -> Iterator[Find]:
    """The password of `log in with joe / …`."""
    match = _LOGIN.match(data, at)
    value = value_at(data, match.start(3)) if match else None
    if not match or not value or is_no_value(match[1]):
        return
    # A word may be a password if a slash and nothing else part it from a name in small letters.
    is_word = match[2].strip() == b"/" and match[1].islower() and value.is_last
    if is_strong(value.text) or (is_word and len(value.text) > 4 and is_plain_word(value.text)):
        yield Find(value.start, value.end, "password")


def used_at(data: bytes, at: int) -> Iterator[Find]:
    """The password of `use joe / …`."""
    match = _USED.match(data, at)
    if match and is_strong(text := match[1].rstrip(_TAIL)):
        yield Find(match.start(1), match.start(1) + len(text), "password")


def pairs_at(data: bytes, at: int) -> Iterator[Find]:
    """The password of `credentials: joe / …`."""
    match = _PAIR.match(data, at)
    if match and not is_no_value(match[1].rstrip(_TAIL)):
        yield Find(match.start(1), match.start(1) + len(match[1].rstrip(b",;.")), "password")


def short_names_at(data: bytes, at: int) -> Iterator[Find]:
    """The password of `U: joe P: …`; `at` is the blank before the name."""
    match = _SHORT_NAME.match(data, at + 1)
    if match and _USER_BEFORE.search(data, max(0, at - NEAR), at + 1) and is_strong(match[1]):
        yield Find(match.start(1), match.start(1) + len(match[1].rstrip(_TAIL)), "password")


def pins_at(data: bytes, at: int) -> Iterator[Find]:
    """The digits of a PIN or of a code for once, behind its name or before it."""
    if data[at - 1 : at].isalnum():
        return
    is_card = data[at : at + 2].lower() == b"cv"
    if (match := _PIN.match(data, at)) and (3 if is_card else 4) <= digits_of(match[1]) <= 8:
        has_sign = data[match.start(1) - 1 : match.start(1)] in (b" ", b":", b"=")
        name = data[at : match.start(1)]
        if has_sign and (is_card or _PIN_SIGN.search(name)):
            yield Find(*match.span(1), "password")
    elif match := _PIN_BEFORE.search(data, max(0, at - NEAR), at):
        yield Find(*match.span(1), "password")


def spoken_codes_at(data: bytes, at: int) -> Iterator[Find]:
    """The digits of `your … code is …`, `use … to log in`, `the code for the door: …` around `at`."""
    for match in _SPOKEN_CODE.finditer(data, max(0, at - NEAR), at + NEAR):
        yield Find(*match.span(match.lastindex or 0), "password")


def code_lists_at(data: bytes, at: int) -> Iterator[Find]:
    """The codes for recovery that are behind their name, on its line or below it."""
    match = _CODES.match(data, at)
    for code in _ONE_CODE.finditer(data, match.start(1), match.end(1)) if match else ():
        if digits_of(code[0]) >= 2:
            yield Find(*code.span(), "password")


def phrases_at(data: bytes, at: int) -> Iterator[Find]:
    """The twelve to twenty-four words that open a wallet (BIP-39)."""
    if match := _PHRASE.match(data, at):
        yield Find(*match.span(1), "password")


def shared_secrets_at(data: bytes, at: int) -> Iterator[Find]:
    """The secret of codes by time (RFC 6238), in base32, in an address or behind its name."""
    match = _OTPAUTH.match(data, at) or _SHARED.match(data, at)
    is_word = match and match[1].isalpha() and match[1].islower() and b" " not in match[1]
    if match and not is_word and not is_no_value(match[1]):
        yield Find(*match.span(1), "password")


PROSE_LOOKS: dict[str, Look] = {
    **dict.fromkeys(("pass", "pw for", "pw of", "pw is", "pwd is", *PASSWORDS), sentences_at),
    **dict.fromkeys(("log in", "login", "logged in", "log on", "sign in", "user "), logins_at),
    **dict.fromkeys(("use ", "try "), used_at),
    **dict.fromkeys(
        (
            "creds",
            "credentials",
            "login:",
            "logins",
            "logindaten",
            "zugangsdaten",
            "user/pass",
            "username/pass",
        ),
        pairs_at,
    ),
    " pw ": short_names_of_sentences_at,
    **dict.fromkeys(
        ("code is ", " to log in", " to sign in", " to verify", "code for the", "code to the"),
        spoken_codes_at,
    ),
    **dict.fromkeys((" p:", " p=", " pw:", " pass:"), short_names_at),
    **dict.fromkeys(PINS, pins_at),
    **dict.fromkeys(CODE_LISTS, code_lists_at),
    **dict.fromkeys(PHRASES, phrases_at),
    **dict.fromkeys(("otpauth://", *SHARED_SECRETS), shared_secrets_at),
}
"""Functions that look for a value, by the word, in lower case, at whose beginning they look."""
