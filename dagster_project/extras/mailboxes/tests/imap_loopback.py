"""Debian's dovecot on the loopback interface: one user, one Maildir, its own configuration in a
temporary folder.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from imapclient import IMAPClient

from tests.processes import free_port
from tests.timing import HUNG, until

USER, PASSWORD = "reader", "pa55word"


def missing() -> str | None:
    """Why no server can be started here; None if one can."""
    if shutil.which("dovecot") is None:
        return "dovecot is not installed (Debian: dovecot-imapd)"
    if os.getuid() != 0:
        return "dovecot is started as root, who can give its processes their users"
    return None


@dataclass(frozen=True)
class ImapServer:
    """A running server: its ports, its certificate and the folder of its mail."""

    port: int
    tls_port: int
    certificate: Path

    @contextmanager
    def writer(self, folder: str = "INBOX") -> Iterator[IMAPClient]:
        """A client that changes a folder, made where it is missing."""
        with IMAPClient("127.0.0.1", port=self.port, ssl=False) as client:
            client.login(USER, PASSWORD)
            if not client.folder_exists(folder):
                client.create_folder(folder)
            client.select_folder(folder)
            yield client


@contextmanager
def served_mail(
    issuer: str = "http://127.0.0.1:9", mechanism: str = "xoauth2"
) -> Iterator[ImapServer]:
    """A server over an empty mailbox, ended on leaving; it takes the tokens that an issuer calls
    active.
    """
    with tempfile.TemporaryDirectory(prefix="weft-imap-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        account = pwd.getpwnam("nobody")
        port, tls_port = free_port(), free_port()
        certificate, key = folder / "cert.pem", folder / "key.pem"
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-keyout",
                str(key),
                "-out",
                str(certificate),
            ],
            check=True,
            capture_output=True,
        )
        for name in ("mail", "home"):
            (folder / name).mkdir()
            os.chown(folder / name, account.pw_uid, account.pw_gid)
        facts = {
            "folder": folder,
            "certificate": certificate,
            "key": key,
            "port": port,
            "tls_port": tls_port,
            "name": USER,
            "password": PASSWORD,
            "user": "nobody",
            "group": "nogroup",
            "uid": account.pw_uid,
            "gid": account.pw_gid,
            "issuer": issuer,
            "mechanism": mechanism,
        }
        for name in ("dovecot.conf", "oauth2.conf"):
            (folder / name).write_text(Path(__file__).with_name(name).read_text().format(**facts))
        command = ["dovecot", "-F", "-c", str(folder / "dovecot.conf")]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            _wait_for(port, process, folder / "dovecot.log")
            yield ImapServer(port, tls_port, certificate)
        finally:
            process.terminate()
            process.wait(HUNG)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def greets() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                return connection.recv(4) == b"* OK"
        except OSError:
            return False

    until(lambda: process.poll() is not None or greets(), "dovecot's greeting")
    if process.poll() is not None:
        raise AssertionError(
            f"dovecot did not start: {log.read_text() if log.exists() else 'no log'}"
        )
