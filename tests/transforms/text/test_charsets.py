"""Bytes to text: what is declared, what is meant, what is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.text.charsets import codec_of, decode_text

RUSSIAN = "Привет, это сообщение о базе данных и её индексах. " * 4


@pytest.mark.parametrize(
    ("data", "declared", "text", "outcome"),
    [
        (b"plain", None, "plain", "utf-8"),
        (b"plain", "us-ascii", "plain", "declared"),
        (b"plain", "unknown-8bit", "plain", "utf-8"),
        ("é".encode(), "utf-8", "é", "declared"),
        ("é".encode(), None, "é", "utf-8"),
        ("é".encode(), "us-ascii", "é", "utf-8"),
        ("é".encode(), "iso-8859-1", "é", "utf-8"),
        ("é".encode("latin-1"), "iso-8859-1", "é", "declared"),
        ("é".encode("latin-1"), "iso-88-59-1", "é", "alias"),
        ("“q”".encode("cp1252"), "iso-8859-1", "“q”", "alias"),
        ("é".encode(), 'utf-8"', "é", "alias"),
        ("é".encode("cp1252"), "cp 1252", "é", "alias"),
        (RUSSIAN.encode("koi8-r"), "koi8-r", RUSSIAN, "declared"),
        (RUSSIAN.encode("koi8-r"), "koi8r", RUSSIAN, "alias"),
        (RUSSIAN.encode("cp1251"), "windows-1251", RUSSIAN, "declared"),
        (RUSSIAN.encode("cp1251"), "x-unknown", RUSSIAN, "detected:windows-1251"),
        (RUSSIAN.encode("koi8-r"), "y", RUSSIAN, "detected:koi8-r"),
        ("日本語".encode("iso2022_jp"), "iso-2022-jp", "日本語", "declared"),
        ("日本語".encode("iso2022_jp"), None, "日本語", "detected:iso-2022-jp"),
        ("日本語".encode("iso2022_jp"), "us-ascii", "日本語", "detected:iso-2022-jp"),
        ("镕".encode("gb18030"), "gb2312", "镕", "alias"),
        (b"\xef\xbb\xbfbom", "utf-8", "bom", "declared"),
        (
            "naïve café\n".encode() * 3 + b"caf\xe9\n",
            "utf-8",
            "naïve café\n" * 3 + "café\n",
            "detected:utf-8+windows-1252",
        ),
        (b"aGVsbG8=", "base64", "aGVsbG8=", "utf-8"),
        (b"+ADw-", "utf-7", "<", "declared"),
        (b"1 + 1", "utf-7", "1 + 1", "utf-8"),
        (b"\\u0041", "unicode_escape", "\\u0041", "utf-8"),
    ],
)
def test_the_ladder(data, declared, text, outcome):
    assert decode_text(data, declared) == (text, outcome, False)


def test_nul_is_removed_and_reported():
    assert decode_text(b"a\0b", "us-ascii") == ("ab", "declared", True)


@pytest.mark.parametrize(
    "label",
    [
        "base64",
        "zlib",
        "bz2",
        "hex",
        "rot13",
        "quopri",
        "uu",
        "idna",
        "punycode",
        "undefined",
        "unicode_escape",
        "raw_unicode_escape",
        "charmap",
        "unknown-8bit",
        "y",
        "",
        "a\0b",
        "x" * 3000,
        "../etc",
    ],
)
def test_what_is_no_charset(label):
    assert codec_of(label)[0] is None


@given(
    st.binary(),
    st.one_of(
        st.none(),
        st.text(max_size=20),
        st.sampled_from(
            [
                "utf-8",
                "gb2312",
                "iso-2022-jp",
                "utf-16",
                "utf-7",
                "hz",
                "iso-2022-kr",
                "koi8-r",
                "big5",
                "shift_jis",
            ]
        ),
    ),
)
def test_any_bytes_become_valid_text(data, declared):
    decoded = decode_text(data, declared)
    decoded.text.encode()
    assert "\0" not in decoded.text
    assert (
        decoded.outcome in ("declared", "alias", "utf-8", "replaced")
        or decoded.outcome[:9] == "detected:"
    )
