"""What tests of servers that lie share: a user and a secret that must not be shown, and the mails
of a sound server.
"""

from collections.abc import Callable

from assets.protocols.sources import Fetched
from tests.archives import Mail, mbox

SECRET = "s3cret-Pass/w+rd 1"
USER = "ada@example.org"
MAIL = mbox([Mail(1)])
MAILS = {uid: Mail(uid).text().replace("\n", "\r\n").encode() for uid in (1, 2, 3)}
Fetch = Callable[..., Fetched]
PASSWORD = {"credentials": "REMOTE"}
