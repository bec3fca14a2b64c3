"""Bytes of a mail to text: the declared charset if it holds, else the best guess, never an error."""

import codecs
import re
from functools import lru_cache
from typing import NamedTuple

import cchardet

from transforms.toml_file import toml_file

_TABLE = toml_file(__name__, "charsets.toml")
_ALIASES: dict[str, str | None] = _TABLE["aliases"] | dict.fromkeys(_TABLE["meaningless"])
_SUPERSETS: dict[str, list[str]] = _TABLE["supersets"]
_LATIN = {"iso8859-1", "cp1252", "iso8859-15", "ascii"}
_UNSAFE = {"hz", "iso2022_kr"}
_C1 = re.compile("[\x80-\x9f]")
_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_HIGH = re.compile(rb"[\x80-\xff]")
_JAPANESE_ESCAPE = re.compile(rb"\x1b\$[@B]|\x1b\$\([DOPQ]")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_DETECTED_BYTES = 1 << 16
"""Bytes the detector looks at: enough for its statistics, few enough for a megabyte of text."""


def percent_decoded(text: str) -> str:
    """A text with its escapes decoded (RFC 3986, 2.1).

    >>> percent_decoded("Sub%20Heading")
    'Sub Heading'
    """
    return _PERCENT.sub(lambda escape: bytes([int(escape[1], 16)]), text.encode()).decode(
        "utf-8", "replace"
    )


class Decoded(NamedTuple):
    """Text and the outcome of decoding: declared, alias, utf-8, detected:<name> or replaced."""

    text: str
    outcome: str
    had_nul: bool


def decode_text(data: bytes, declared: str | None) -> Decoded:
    """`data` as text without NUL and without lone surrogates; never raises.

    The ladder: the declared charset (through a table of known misspellings, strict), the charset
    that programs write under that label, strict UTF-8, detection (ISO-2022-JP by its escapes, UTF-8
    with stray bytes line by line, else statistics), cp1252 with U+FFFD for undefined bytes.
    A Latin or US-ASCII label on valid UTF-8 counts as wrong. `had_nul` reports removed NULs.

    >>> decode_text("größer".encode(), "iso-8859-1")
    Decoded(text='größer', outcome='utf-8', had_nul=False)
    """
    text, outcome = _climb(data, declared)
    if "\0" in text:
        return Decoded(text.replace("\0", ""), outcome, True)
    return Decoded(text, outcome, False)


@lru_cache(maxsize=1024)
def codec_of(declared: str) -> tuple[str | None, bool]:
    """Python's name of a declared charset, None if it is none; and whether the spelling was
    repaired.
    """
    label = _label(declared)
    repaired = label != declared.strip().lower()
    if label in _ALIASES:
        name = _ALIASES[label]
        return (None, True) if name is None else (_lookup(name), True)
    codec = _lookup(label)
    if codec is not None:
        return codec, repaired
    squeezed = re.sub(r"[\s_]+", "", label)
    for pattern, form in (
        (r"(?:x-)?(?:windows|win|cp|ibm)-?(\d{3,4})", "cp{}"),
        (r"(?:x-)?iso-?8859-?(\d{1,2})(?:-.*|:.*)?", "iso8859-{}"),
        (r"(?:x-)?utf-?8.*", "utf-8"),
    ):
        match = re.fullmatch(pattern, squeezed)
        if match is not None:
            return _lookup(form.format(*match.groups())), True
    return None, True


def _label(declared: str) -> str:
    label = declared.strip().strip("\"'<>;,= \t").lower()
    return label.removeprefix("charset=").strip("\"' ").partition("*")[0]


@lru_cache(maxsize=1024)
def holds(declared: str | None, outcome: str) -> bool:
    """True if text that was decoded with `outcome` is sure to be its sender's.

    It is not sure if the charset was detected, if characters were replaced, or if Python does not
    know the declared charset or cannot decode its escapes: such text may look like ASCII.
    """
    if outcome == "replaced" or outcome.startswith("detected"):
        return False
    if not declared or outcome != "utf-8":
        return True
    codec = codec_of(declared)[0]
    return codec in _LATIN | {"utf-8"} if codec else _label(declared) in _ALIASES


def _lookup(label: str) -> str | None:
    try:
        info = codecs.lookup(label)
    except (LookupError, ValueError):
        return None
    # `codecs` also lists base64, zlib, rot13 and other transforms: they are not text encodings.
    if not getattr(info, "_is_text_encoding", False) or {info.name, label} & {*_TABLE["refused"]}:
        return None
    return info.name


def _climb(data: bytes, declared: str | None) -> tuple[str, str]:
    codec, repaired = codec_of(declared) if declared else (None, False)
    good = "alias" if repaired else "declared"
    may_be_other = codec is None or codec in _LATIN or codec == "utf-8"
    if may_be_other and data.isascii() and b"\x1b" not in data:
        return data.decode("ascii"), good if codec else "utf-8"
    if may_be_other and (japanese := _japanese(data)) is not None:
        return japanese, "detected:iso-2022-jp"
    if may_be_other and (text := _strict(data, "utf-8")) is not None:
        as_declared = codec == "utf-8" or (codec is not None and data.isascii())
        return text.removeprefix("\ufeff"), good if as_declared else "utf-8"
    if codec is None or codec == "utf-8":
        return _guess(data)
    name, text = _as_declared(data, codec)
    if text is None:
        return _guess(data)
    return text, good if name == codec else "alias"


def _as_declared(data: bytes, codec: str) -> tuple[str, str | None]:
    """The first of a codec and its supersets that decodes `data` without control characters, with
    the text; None if none does.
    """
    has_supersets = codec in _LATIN or codec in _SUPERSETS
    for name in (codec, *_SUPERSETS.get(codec, ())):
        text = _strict(data, name)
        if text is not None and not (has_supersets and _C1.search(text)):
            return name, text
    return codec, None


def _strict(data: bytes, codec: str) -> str | None:
    try:
        text = data.decode(codec)
        if not text.isascii():
            text.encode()
    except (UnicodeError, ValueError):
        return None
    return text


def _japanese(data: bytes) -> str | None:
    if b"\x1b$" not in data or not _JAPANESE_ESCAPE.search(data):
        return None
    texts = (
        _strict(data, codec) for codec in ("iso2022_jp_2", "iso2022_jp_ext", "iso2022_jp_2004")
    )
    return next((text for text in texts if text is not None), None)


def _guess(data: bytes) -> tuple[str, str]:
    """Text of bytes whose declared charset is absent or does not hold."""
    text = _strict(data, "utf-8")
    if text is not None:
        return text.removeprefix("\ufeff"), "utf-8"
    multibyte = sum(map(len, _MULTIBYTE.findall(data)))
    if multibyte * 2 > len(_HIGH.findall(data)):
        mixed = "".join(
            _strict(line, "utf-8") or line.decode("cp1252", "replace")
            for line in data.splitlines(True)
        )
        return mixed, "replaced" if "\ufffd" in mixed else "detected:utf-8+windows-1252"
    detected = _detected(data)
    if detected is not None:
        return detected
    text = data.decode("cp1252", "replace")
    return text, "replaced" if "\ufffd" in text else "detected:windows-1252"


def _detected(data: bytes) -> tuple[str, str] | None:
    # Plain lines say nothing about the charset and only dilute the statistics.
    sample = b"\n".join(line for line in data.splitlines() if not line.isascii())[:_DETECTED_BYTES]
    name = cchardet.detect(sample)["encoding"]
    if not name:
        return None
    codec = _lookup(name.lower())
    if codec is None or codec in _UNSAFE or codec.startswith(("utf-7", "utf-16", "utf-32")):
        return None
    for candidate in (codec, *_SUPERSETS.get(codec, ())):
        text = _strict(data, candidate)
        if text is not None and not _C1.search(text):
            return text, f"detected:{name.lower()}"
    return None
