"""The links to signatures of a sender: DKIM (RFC 6376), the seals of relays (ARC, RFC 8617), OpenPGP in MIME (RFC 3156)."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from email.utils import parseaddr
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dagster_project.extras.proof.citations import DIFFERS, PROVED, UNKNOWN, ProofLink
from transforms.errors import SettingsError

_RECORD = re.compile(r"(\S+?)\.?\s+(?:\d+\s+)?(?:IN\s+)?(?:TXT\s+)?(.+)", re.I)
_SHOWN = (b"from", b"subject", b"date", b"message-id", b"content-type", b"content-transfer-encoding")
"""Headers that Weft shows, or decodes the text by."""
_RESULTS = b"authentication-results"
_MOST = 20
"""Signatures or seals of a mail that are looked at."""
_BROKEN = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of dkimpy, beside its own, for headers and keys that are made to break it."""


class Keys:
    """Public keys of DKIM by name, from a file and, if that is allowed, from DNS; `missing` are names that had none."""

    def __init__(self, file: Path | None, with_dns: bool = False):
        """SettingsError if a line of the file is not `selector._domainkey.domain TXT`."""
        self.with_dns, self.missing, self._known = with_dns, list[str](), dict[str, str]()
        for line in file.read_text("utf-8", "replace").splitlines() if file else ():
            if not (record := _RECORD.fullmatch(line.strip())) and line.strip():
                raise SettingsError(f"{file}: {line!r} is not a key: write `selector._domainkey.domain TXT`")
            if record:
                self._known[record[1].lower()] = "".join(re.findall(r'"([^"]*)"', record[2])) or record[2]

    def __call__(self, name: bytes, timeout: int = 5) -> Any:
        """The record of a name; None if there is none."""
        key_name = name.decode("utf-8", "replace").rstrip(".").lower()
        record: Any = self._known.get(key_name)
        if not record and self.with_dns:
            import dkim
            from dns.exception import DNSException

            with suppress(DNSException):  # a name that DNS cannot have
                record = dkim.get_txt(name, timeout=timeout)
        self.missing += [] if record else [key_name]
        return record or None


def signature_links(mail: bytes, keys: Keys) -> Iterator[ProofLink]:
    """The links of a raw mail to its signatures: to one of DKIM, and to seals and to OpenPGP if it has them."""
    author = parseaddr(str(message_from_bytes(mail).get("From", "")))[1].lower()
    try:
        import dkim

        yield from _dkim(dkim, mail, keys, author.rpartition("@")[2])
    except ModuleNotFoundError:
        yield ProofLink("dkim", UNKNOWN, "dkimpy is not installed: `pip install 'weft[proof]'`")
    yield from _openpgp(mail, author)


def _dkim(dkim: Any, mail: bytes, keys: Keys, author: str) -> Iterator[ProofLink]:
    """The link of the signature that proves most, and that of the seals."""
    faults, none = (dkim.DKIMException, *_BROKEN), "no sender signed it with DKIM"
    try:
        headers = Counter(name.lower() for name, _ in dkim.DKIM(mail).headers)
    except faults as fault:
        headers, none = Counter[bytes](), f"its headers cannot be read: {fault}"
    count, order = min(headers[b"dkim-signature"], _MOST), (PROVED, DIFFERS, UNKNOWN)
    links = (_signature(dkim.DKIM(mail), number, keys, author, faults) for number in range(count))
    yield min(links, key=lambda link: order.index(link.state), default=ProofLink("dkim", UNKNOWN, none))
    if 0 < headers[b"arc-seal"] <= _MOST:
        yield _seals(dkim.ARC(mail), keys, faults)


def _signature(signature: Any, number: int, keys: Keys, author: str, faults: tuple[Any, ...]) -> ProofLink:
    """The link that one signature of a mail proves; only that of the author's domain proves the author's text."""
    missing, fault = len(keys.missing), "its headers are not those that were signed"
    try:
        is_valid = signature.verify(number, dnsfunc=keys)
    except faults as error:
        is_valid, fault = False, str(error).partition(" (")[0]
    fields = {name: value.decode("utf-8", "replace") for name, value in signature.signature_fields.items()}
    domain = fields.get(b"d", "").lower()
    if len(keys.missing) > missing:
        needs = f"the key {keys.missing[-1]} is needed: give --keys FILE or --dns"
        return ProofLink("dkim", UNKNOWN, needs + _recorded(signature.headers))
    if not is_valid:
        is_other = getattr(signature, "pk", None) and fault.startswith(("its headers", "body hash"))
        has_key = getattr(signature, "pk", None) or fault.startswith("x=")
        why = fault if has_key else f"no key of it can be read; {fault}"
        state, does = (DIFFERS, "does not hold") if is_other else (UNKNOWN, "cannot be judged")
        return ProofLink("dkim", state, f"the signature of {domain or 'nobody'} {does}: {why}")
    signed, there = Counter(signature.include_headers), Counter(n.lower() for n, _ in signature.headers)
    added = [n.decode() for n in _SHOWN if there[n] > signed[n] and (signed[n] or there[n] > 1)]
    by = f"the signature of {domain} is valid"
    if added or b"l" in fields:
        limits = [f"a second {name}" for name in added] or ["what follows the first bytes of the body"]
        return ProofLink("dkim", UNKNOWN, f"{by}, and does not cover {' or '.join(limits)}")
    if "." not in domain or not (f".{author}".endswith(f".{domain}") or domain.endswith(f".{author}")):
        return ProofLink("dkim", UNKNOWN, f"{by}, and the author is of {author or 'no domain'}")
    bare = ", ".join(n.decode() for n in _SHOWN if there[n] and not signed[n])
    extent = f"; not signed: {bare}" if bare else " and all headers shown"
    return ProofLink("dkim", PROVED, f"{by} for the body{extent}")


def _recorded(headers: list[tuple[bytes, bytes]]) -> str:
    """The result that a receiving server recorded in the mail (RFC 8601). It proves nothing: senders can write it, too."""
    values = (value.decode("utf-8", "replace") for name, value in headers if name.lower() == _RESULTS)
    records = (re.match(r"\s*([\w.-]+)[^;]*;.*?\bdkim=(\w+)", value, re.S) for value in values)
    return next((f"; when it came, {one[1]} recorded dkim={one[2]}" for one in records if one), "")


def _seals(chain: Any, keys: Keys, faults: tuple[Any, ...]) -> ProofLink:
    """The seals of relays, the first relay first."""
    missing = len(keys.missing)
    try:
        state, sets, why = chain.verify(dnsfunc=keys)
    except faults as fault:
        return ProofLink("arc", UNKNOWN, f"the seals cannot be read: {fault}")
    names = [f"{one['instance']}. {one['as-domain'].decode('utf-8', 'replace')}" for one in reversed(sets)]
    if len(keys.missing) > missing:
        why, state = f"needed are the keys {', '.join(dict.fromkeys(keys.missing[missing:]))}", UNKNOWN
    else:
        state = PROVED if state == b"pass" else UNKNOWN if why.startswith("x= ") else DIFFERS
    return ProofLink("arc", state, f"seals of {', '.join(names) or 'nobody'}: {why}")


def _openpgp(mail: bytes, author: str) -> Iterator[ProofLink]:
    """The OpenPGP signature of a mail that is signed as a whole, by the user's keyring; no key is fetched."""
    parsed = message_from_bytes(mail)
    border = rb"\r?\n--%b[ \t]*\r?\n" % re.escape(str(parsed.get_boundary()).encode())
    pieces, parts = re.split(border, mail), parsed.get_payload()
    if parsed.get_content_type() != "multipart/signed" or len(pieces) != 3 or len(parts) != 2:
        return
    if not (gpg := shutil.which("gpg")):
        yield ProofLink("openpgp", UNKNOWN, "gpg is not installed")
        return
    with TemporaryDirectory() as folder:
        text, signature = Path(folder, "text"), Path(folder, "text.asc")
        text.write_bytes(re.sub(rb"\r?\n", b"\r\n", pieces[1]))
        signature.write_bytes(parts[1].get_payload(decode=True))  # type: ignore[union-attr, arg-type]
        options = ("--batch", "--no-auto-key-retrieve", "--disable-dirmngr", "--status-fd", "1", "--verify")
        ran = subprocess.run([gpg, *options, signature, text], capture_output=True)
    lines = ran.stdout.decode("utf-8", "replace").replace("[GNUPG:] ", "").splitlines()
    status = {word: rest for word, _, rest in (line.partition(" ") for line in lines)}
    if "BADSIG" in status:
        yield ProofLink("openpgp", DIFFERS, f"the text is not what was signed by {status['BADSIG']}")
    elif f"<{author}>" in status.get("GOODSIG", "").lower():
        yield ProofLink("openpgp", PROVED, f"the body is signed by {status['GOODSIG']}")
    else:
        signer = next((status[w] for w in ("GOODSIG", "EXPKEYSIG", "REVKEYSIG") if w in status), None)
        why = f"its key is {signer}" if signer else "its key is not in the keyring of gpg"
        yield ProofLink("openpgp", UNKNOWN, why)
