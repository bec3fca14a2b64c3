"""The links to signatures of a sender: DKIM (RFC 6376), the seals of relays (ARC, RFC 8617),
OpenPGP in MIME (RFC 3156).
"""

import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.utils import parseaddr
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dagster_project.extras.proof.citations import DIFFERS, PROVED, UNKNOWN, ProofLink
from dagster_project.system.globs import is_file, write_atomically
from dagster_project.system.locks import alone
from transforms.errors import SettingsError, shortened
from transforms.hashing import bytes_sha256

_RECORD = re.compile(r"(\S+?)\.?\s+(?:\d+\s+)?(?:IN\s+)?(?:TXT\s+)?(.+)", re.I)
_RECORDED = re.compile(
    r'([\w.-]{1,253}) IN TXT "((?=[^"]*p=\s*\w)[ !#-~]{1,4000})" ; recorded ([\d-]+), SHA-256 \w+',
    re.A,
)
_SHOWN = (
    b"from",
    b"subject",
    b"date",
    b"message-id",
    b"content-type",
    b"content-transfer-encoding",
)
"""Headers that Weft shows, or decodes the text by."""
_RESULTS = b"authentication-results"
_MOST = 20
"""Signatures or seals of a mail that are looked at."""
_BROKEN = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of dkimpy, beside its own, for headers and keys that are made to break it."""


class Keys:
    """Public keys of DKIM by name: of a file, of DNS if that is allowed, and those that DNS gave
    before.

    These are in the file `recorded` of a storage, each with its day and a hash. `missing` are names
    that had no key, `tried` the keys that were tried, and `faults` say what was not used, not given
    and not recorded.
    """

    def __init__(self, root: Path, file: Path | None = None, with_dns: bool = False):
        """SettingsError if a line of the file is not `selector._domainkey.domain TXT`."""
        self.with_dns, self.recorded = with_dns, root / "dkim" / "keys"
        self._known = defaultdict[str, dict[str, str]](dict)
        self.missing, self.tried, self.faults = list[str](), list[str](), list[str]()
        for line in filter(
            str.strip, file.read_text("utf-8", "replace").splitlines() if file else ()
        ):
            if not (record := _RECORD.fullmatch(line.strip())):
                raise SettingsError(
                    f"{file}: {line!r} is not a key: write `selector._domainkey.domain TXT`"
                )
            text = "".join(re.findall(r'"([^"]*)"', record[2])) or record[2]
            self._known[record[1].lower()][text] = f"{record[1]}, of {file}"
        self._settled = set(self._known)
        for number, line in enumerate(self._lines(), 1):
            if (record := _RECORDED.fullmatch(line)) and _key_line(*record.groups()) == line:
                self._known[record[1]].setdefault(record[2], f"{record[1]}, recorded {record[3]}")
            else:
                self.faults.append(
                    f"line {number} of {self.recorded} is damaged and not used: delete it"
                )

    def trying(self, signature: Any, faults: tuple[Any, ...]) -> Any:
        """A signature of dkimpy, or a chain of seals, that verifies with any key of each name."""
        verify = signature.verify_sig

        def holds(fields: Any, headers: list[bytes], header: Any, _: Any) -> bool:
            name = b"%b._domainkey.%b" % (fields[b"s"], fields[b"d"])
            keys, before, fault = self._of(name.decode("utf-8", "replace")), len(self.tried), None
            for text, origin in keys.items():
                self.tried.append(origin)
                try:
                    if verify(fields, [*headers], header, lambda *_, text=text, **__: text):
                        del self.tried[before:-1]
                        return True
                except faults as error:
                    fault = error
            if fault:
                raise fault
            return False

        signature.verify_sig = holds
        return signature

    def _of(self, name: str) -> dict[str, str]:
        """The records of a name, and what each is; DNS is asked once for one that the file does not
        have.
        """
        name = name.rstrip(".").lower()
        if self.with_dns and name not in self._settled:
            import dkim
            from dns.exception import DNSException

            self._settled.add(name)
            try:
                if text := (dkim.get_txt(f"{name}.".encode()) or b"").decode("latin-1"):
                    self._record(name, text)
            except (dkim.DKIMException, DNSException, *_BROKEN) as fault:
                self.faults.append(f"DNS gave no key {shortened(name)}: {fault}")
        self.missing += [] if self._known[name] else [name]
        return self._known[name]

    def _lines(self) -> list[str]:
        return (
            self.recorded.read_text("utf-8", "replace").splitlines()
            if is_file(self.recorded)
            else []
        )

    def _record(self, name: str, text: str) -> None:
        """Know a key that DNS gave, and write it to the recorded ones unless one of them is the
        same.
        """
        line, is_new = (
            _key_line(name, text, f"{datetime.now(UTC):%Y-%m-%d}"),
            text not in self._known[name],
        )
        self._known[name][text] = f"{name}, of DNS"
        try:
            if is_new and _RECORDED.fullmatch(line):
                with alone(self.recorded.with_name(".lock")):
                    lines = dict.fromkeys([*self._lines(), line])
                    write_atomically(self.recorded, "".join(f"{one}\n" for one in lines))
        except OSError as error:
            self.faults.append(f"{name} was not recorded in {self.recorded}: {error.strerror}")


def _key_line(name: str, text: str, day: str) -> str:
    """A line of a file of keys, with the day on which DNS gave the key, and the hash of all before
    it.
    """
    line = f'{name} IN TXT "{text}" ; recorded {day}'
    return f"{line}, SHA-256 {bytes_sha256(line.encode())}"


def signature_links(mail: bytes, keys: Keys) -> Iterator[ProofLink]:
    """The links of a raw mail to its signatures: to one of DKIM, and to seals and to OpenPGP if it
    has them.
    """
    author = parseaddr(str(message_from_bytes(mail).get("From", "")))[1].lower()
    try:
        import dkim

        yield from _dkim(dkim, mail, keys, author.rpartition("@")[2])
    except ModuleNotFoundError:
        yield ProofLink("dkim", UNKNOWN, "dkimpy is not installed: `pip install 'weft[proof]'`")
    yield from (ProofLink("keys", UNKNOWN, fault) for fault in keys.faults)
    yield from _openpgp(mail, author)


def _dkim(dkim: Any, mail: bytes, keys: Keys, author: str) -> Iterator[ProofLink]:
    """The link of the signature that proves most, and that of the seals."""
    faults, none = (dkim.DKIMException, *_BROKEN), "no sender signed it with DKIM"
    try:
        headers = Counter(name.lower() for name, _ in dkim.DKIM(mail).headers)
    except faults as fault:
        headers, none = Counter[bytes](), f"its headers cannot be read: {fault}"
    count, order = min(headers[b"dkim-signature"], _MOST), (PROVED, DIFFERS, UNKNOWN)
    links = (
        _with_keys(_signature(dkim.DKIM(mail), n, keys, author, faults), keys) for n in range(count)
    )
    yield min(
        links, key=lambda link: order.index(link.state), default=ProofLink("dkim", UNKNOWN, none)
    )
    if 0 < headers[b"arc-seal"] <= _MOST:
        yield _with_keys(_seals(dkim.ARC(mail), keys, faults), keys)


def _with_keys(link: ProofLink, keys: Keys) -> ProofLink:
    """A link with the names of the keys that were tried for it, and their origins."""
    names, keys.tried = "; key of ".join(dict.fromkeys(["", *keys.tried])), list[str]()
    return link._replace(detail=link.detail + names)


def _signature(
    signature: Any, number: int, keys: Keys, author: str, faults: tuple[Any, ...]
) -> ProofLink:
    """The link that one signature of a mail proves; only that of the author's domain proves the
    author's text.
    """
    missing, fault = len(keys.missing), "its headers are not those that were signed"
    try:
        is_valid = keys.trying(signature, faults).verify(number)
    except faults as error:
        is_valid, fault = False, str(error).partition(" (")[0]
    fields = {
        name: value.decode("utf-8", "replace") for name, value in signature.signature_fields.items()
    }
    domain = fields.get(b"d", "").lower()
    if len(keys.missing) > missing:
        needs = f"the key {keys.missing[-1]} is needed: give --keys FILE or --dns"
        return ProofLink("dkim", UNKNOWN, needs + _recorded(signature.headers))
    if not is_valid:
        return _broken(signature, domain or "nobody", fault)
    return _valid(signature, domain, author, covers_all=b"l" not in fields)


def _broken(signature: Any, domain: str, fault: str) -> ProofLink:
    """The link of a signature that does not hold, or that no key can judge."""
    key = getattr(signature, "pk", None)
    why = fault if key or fault.startswith("x=") else f"no key of it can be read; {fault}"
    if key and fault.startswith(("its headers", "body hash")):
        return ProofLink("dkim", DIFFERS, f"the signature of {domain} does not hold: {why}")
    return ProofLink("dkim", UNKNOWN, f"the signature of {domain} cannot be judged: {why}")


def _valid(signature: Any, domain: str, author: str, *, covers_all: bool) -> ProofLink:
    """The link of a valid signature: it proves the author's text if it is of the author's domain
    and covers all that is shown.
    """
    signed = Counter(signature.include_headers)
    there = Counter(name.lower() for name, _ in signature.headers)
    added = [n.decode() for n in _SHOWN if there[n] > signed[n] and (signed[n] or there[n] > 1)]
    by = f"the signature of {domain} is valid"
    if added or not covers_all:
        limits = [f"a second {name}" for name in added] or [
            "what follows the first bytes of the body"
        ]
        return ProofLink("dkim", UNKNOWN, f"{by}, and does not cover {' or '.join(limits)}")
    if "." not in domain or not _is_below(author, domain):
        return ProofLink("dkim", UNKNOWN, f"{by}, and the author is of {author or 'no domain'}")
    bare = ", ".join(n.decode() for n in _SHOWN if there[n] and not signed[n])
    extent = f"; not signed: {bare}" if bare else " and all headers shown"
    return ProofLink("dkim", PROVED, f"{by} for the body{extent}")


def _is_below(one: str, other: str) -> bool:
    """True if one of two domains is the other, or below it."""
    return f".{one}".endswith(f".{other}") or other.endswith(f".{one}")


def _recorded(headers: list[tuple[bytes, bytes]]) -> str:
    """The result that a receiving server recorded in the mail (RFC 8601). It proves nothing:
    senders can write it, too.
    """
    values = (
        value.decode("utf-8", "replace") for name, value in headers if name.lower() == _RESULTS
    )
    records = (re.match(r"\s*([\w.-]+)[^;]*;.*?\bdkim=(\w+)", value, re.S) for value in values)
    return next((f"; when it came, {one[1]} recorded dkim={one[2]}" for one in records if one), "")


def _seals(chain: Any, keys: Keys, faults: tuple[Any, ...]) -> ProofLink:
    """The seals of relays, the first relay first."""
    missing = len(keys.missing)
    try:
        state, sets, why = keys.trying(chain, faults).verify()
    except faults as fault:
        return ProofLink("arc", UNKNOWN, f"the seals cannot be read: {fault}")
    names = [
        f"{one['instance']}. {one['as-domain'].decode('utf-8', 'replace')}"
        for one in reversed(sets)
    ]
    if len(keys.missing) > missing:
        why, state = (
            f"needed are the keys {', '.join(dict.fromkeys(keys.missing[missing:]))}",
            UNKNOWN,
        )
    else:
        state = PROVED if state == b"pass" else UNKNOWN if why.startswith("x= ") else DIFFERS
    return ProofLink("arc", state, f"seals of {', '.join(names) or 'nobody'}: {why}")


def _openpgp(mail: bytes, author: str) -> Iterator[ProofLink]:
    """The OpenPGP signature of a mail that is signed as a whole, by the user's keyring; no key is
    fetched.
    """
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
        options = (
            "--batch",
            "--no-auto-key-retrieve",
            "--disable-dirmngr",
            "--status-fd",
            "1",
            "--verify",
        )
        ran = subprocess.run([gpg, *options, signature, text], capture_output=True)
    lines = ran.stdout.decode("utf-8", "replace").replace("[GNUPG:] ", "").splitlines()
    status = {word: rest for word, _, rest in (line.partition(" ") for line in lines)}
    if "BADSIG" in status:
        yield ProofLink(
            "openpgp", DIFFERS, f"the text is not what was signed by {status['BADSIG']}"
        )
    elif f"<{author}>" in status.get("GOODSIG", "").lower():
        yield ProofLink("openpgp", PROVED, f"the body is signed by {status['GOODSIG']}")
    else:
        signer = next(
            (status[w] for w in ("GOODSIG", "EXPKEYSIG", "REVKEYSIG") if w in status), None
        )
        why = f"its key is {signer}" if signer else "its key is not in the keyring of gpg"
        yield ProofLink("openpgp", UNKNOWN, why)
