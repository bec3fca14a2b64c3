"""Secrets and personal data in texts that leave this machine: patterns find, mask or withhold, and count them.

Entropy is not a criterion: it would mask the hashes, ids and base64 that are frequent in mail about programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from transforms.settings.models import SafetySettings
from transforms.text import pictures

VERSION = "1"
_KEY_BLOCK = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_BASE64_LINES = r"(?:[\s>|*#+\\n-]*[A-Za-z0-9+/=]{30,})"
_NAMES = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|client[_-]?secret)"

SECRETS: dict[str, tuple[str, ...]] = {
    "private_key": (
        rf"(?s)-----BEGIN {_KEY_BLOCK}.*?-----END {_KEY_BLOCK}",
        rf"-----BEGIN {_KEY_BLOCK}{_BASE64_LINES}+(?:[\s>]*[A-Za-z0-9+/=]+\s*\z)?",
        rf"{_BASE64_LINES}+[\s>A-Za-z0-9+/=]*-----END {_KEY_BLOCK}",
    ),
    "url_password": (r"(?i)(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@<>]*:)[^\s/@<>]+(@)",),
    "cloud_key": (
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
        r"\bAIza[0-9A-Za-z_-]{35}",
        r"\bya29\.[0-9A-Za-z_-]{20,}",
        r"\bGOCSPX-[0-9A-Za-z_-]{20,}",
        r"(?i)(\bAccountKey=)[A-Za-z0-9+/]{80,}={0,2}",
    ),
    "access_token": (
        r"\bgh[pousr]_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{22,}",
        r"\bgl(?:pat|ptt|dt|rt|soat)-[A-Za-z0-9_-]{20,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"(https://hooks\.slack\.com/services/)[A-Za-z0-9/_-]{20,}",
        r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
        r"\bsk-(?:proj|ant|svcacct|admin)-[A-Za-z0-9_-]{20,}",
        r"\bsk-[A-Za-z0-9]{32,}",
        r"\bnpm_[A-Za-z0-9]{36}",
        r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
        r"\bhf_[A-Za-z0-9]{30,}",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}",
        r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
    ),
    "jwt": (r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",),
    "authorization": (
        r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|token)\s+)[A-Za-z0-9._~+/=-]{8,}",
    ),
    "password": (
        rf"(?i)(\b[a-z0-9_-]*{_NAMES}[\"']?\s*(?:=>|[:=])\s*\")[^\"\s]{{6,}}(\")",
        rf"(?i)(\b[a-z0-9_-]*{_NAMES}[\"']?\s*(?:=>|[:=])\s*')[^'\s]{{6,}}(')",
        r"(\b(?:[A-Z0-9]+_)*(?:PASSWORD|SECRET|TOKEN|API_KEY|ACCESS_KEY|PGPASSWORD)=)[^\s\"'$();,<>]{6,}",
    ),
}
"""Patterns by kind, in the order of their application; text in groups stays.

The formats are those that the services publish and that scanners of repositories use.
"""

EMAIL = (r"(?i)\b[a-z0-9][a-z0-9._%+-]{0,63}@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24}\b",)
PHONE = (
    r"\+[1-9][0-9]{0,2}[ .-]\(?[0-9]{1,5}\)?(?:[ .-][0-9]{2,8}){1,4}\b",
    r"\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[-. ][0-9]{4}\b",
    r"\b[2-9][0-9]{2}[-.][2-9][0-9]{2}[-.][0-9]{4}\b",
)


@dataclass(frozen=True)
class Screened:
    """Texts that may be sent, the number of finds of each kind, and the number of texts withheld."""

    texts: list[str]
    finds: Counter[str] = field(default_factory=Counter)
    withheld: int = 0


def screened(texts: Sequence[str], settings: SafetySettings) -> Screened:
    """`texts` with every find masked as `[kind]`, or replaced as a whole if the settings withhold its kind.

    `[held back: kind]` replaces a withheld text. Screening a second time changes nothing. A lone surrogate,
    which a command line or JSON may contain but a request cannot, becomes a question mark. A picture stays as it is.

    >>> screened(["password: hunter2 of ann@example.org"], SafetySettings(emails="mask")).texts
    ['password: hunter2 of [email]']
    """
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    series = pl.Series(texts, dtype=pl.String)
    rules = _rules(settings)
    if not rules or series.is_empty():
        return Screened(texts)
    suspect = _suspect(series, rules) & ~series.str.contains(pictures.PATTERN)
    rows = suspect.arg_true()
    if not len(rows):
        return Screened(texts)
    masked, finds, withheld = _masked(series.gather(rows), rules)
    return Screened(series.scatter(rows, masked).to_list(), finds, withheld)


def masked_in_place(texts: Sequence[str], settings: SafetySettings) -> tuple[list[str], Counter[str]]:
    """`texts` with every find behind a mark that takes as many bytes, so that places in them stay right; finds by kind.

    What the settings send stays as it is.

    >>> masked_in_place(["Ask ann@example.org."], SafetySettings())[0]
    ['Ask [email]********.']
    """
    rules, finds = _rules(settings), Counter[str]()
    series = pl.Series([text.encode("utf-8", "replace").decode() for text in texts], dtype=pl.String)
    rows = _suspect(series, rules).arg_true()
    masked = [_masked_in_place(text, rules, finds) for text in series.gather(rows)]
    return (series.scatter(rows, masked) if masked else series).to_list(), +finds


def _masked_in_place(
    text: str, rules: Sequence[tuple[str, str, tuple[str, ...]]], finds: Counter[str]
) -> str:
    """A text masked, and its finds added to `finds`."""
    for kind, _, patterns in rules:
        for pattern in patterns:
            found = pl.Series([text], dtype=pl.String).str.extract_all(pattern)[0].to_list()
            finds[kind] += len(found)
            for match in dict.fromkeys(found):
                marked = pl.select(pl.lit(match).str.replace(pattern, _replacement(pattern, kind))).item()
                mark, room = f"[{kind}]", len(match.encode()) - len(marked.encode())
                mark = mark.ljust(len(mark) + room, "*") if room >= 0 else "*" * (len(mark) + room)
                text = text.replace(match, marked.replace(f"[{kind}]", mark, 1))
    return text


def sensitivity(texts: pl.Series) -> pl.Series:
    """Of each text what it holds: `secret` a key or password, else `personal` an address or number, else `public`.

    >>> sensitivity(pl.Series(["It works.", "Ask ann@example.org.", 'password: "hunter2"'])).to_list()
    ['public', 'personal', 'secret']
    """
    secret, personal = (_suspect(texts, rules) for rules in (_SECRET_RULES, _PERSONAL_RULES))
    found = pl.when(pl.lit(secret)).then(pl.lit("secret")).when(pl.lit(personal)).then(pl.lit("personal"))
    return pl.select(found.otherwise(pl.lit("public"))).to_series()


def _suspect(texts: pl.Series, rules: Sequence[tuple[str, str, tuple[str, ...]]]) -> pl.Series:
    """True for each text that matches a pattern."""
    suspect = pl.repeat(False, len(texts), eager=True)
    for _, _, patterns in rules:
        for pattern in patterns:
            suspect |= texts.str.contains(pattern)
    return suspect


def _rules(settings: SafetySettings) -> list[tuple[str, str, tuple[str, ...]]]:
    """Kind, action and patterns of everything that is not sent unchanged."""
    rules = [(kind, settings.secrets, patterns) for kind, patterns in SECRETS.items()]
    rules += [("email", settings.emails, EMAIL), ("phone", settings.phones, PHONE)]
    return [rule for rule in rules if rule[1] != "send"]


_SECRET_RULES = _rules(SafetySettings(emails="send", phones="send"))
_PERSONAL_RULES = _rules(SafetySettings(secrets="send"))


def _masked(
    texts: pl.Series, rules: Sequence[tuple[str, str, tuple[str, ...]]]
) -> tuple[pl.Series, Counter[str], int]:
    finds: Counter[str] = Counter()
    withheld = pl.Series([None] * len(texts), dtype=pl.String)
    for kind, action, patterns in rules:
        for pattern in patterns:
            count = texts.str.count_matches(pattern)
            if not count.sum():
                continue
            finds[kind] += int(count.sum())
            texts = texts.str.replace_all(pattern, _replacement(pattern, kind))
            if action == "hold":
                mark = pl.Series([f"[held back: {kind}]"], dtype=pl.String)
                withheld = withheld.zip_with(withheld.is_not_null() | (count == 0), mark)
    sendable = withheld.is_null()
    return texts.zip_with(sendable, withheld), finds, len(texts) - int(sendable.sum())


def _replacement(pattern: str, kind: str) -> str:
    groups = pattern.replace("(?", "").replace("\\(", "").count("(")
    return f"${{1}}[{kind}]${{2}}" if groups > 1 else f"${{1}}[{kind}]" if groups else f"[{kind}]"
