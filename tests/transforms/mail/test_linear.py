"""Ten times the mail takes about ten times the work: no stage may grow faster than its input."""

from collections.abc import Callable

import pytest

from tests.timing import growth
from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks.table import message_chunks
from transforms.mail.messages import RawMail, read_mail
from transforms.mail.threads.threads import build_threads
from transforms.settings.mail import BlockSettings, ChunkSettings, MailSettings, ThreadSettings
from transforms.settings.search import TermSettings
from transforms.text.terms import chunk_terms

FEW, TIMES, ALLOWED = 300, 10, 25
BODY = """Hello list,

On Tue, 2 Mar 2004, somebody wrote:
> the compactor of segment {n} holds the lock for {n} seconds
> and nothing else runs

That is what I see too, with {n} segments and word{n} in the log.

diff --git a/compact.c b/compact.c
--- a/compact.c
+++ b/compact.c
@@ -1,2 +1,2 @@
-int held = {n};
+int held = 0;
 return held;

--\u0020
N. N.
"""


def mails(count: int) -> list[RawMail]:
    """A thread of `count` mails, each answering the one before."""
    head = (
        "From: a@example.org\nDate: Tue, 2 Mar 2004 10:00:00 +0000\nSubject: Re: lock\n"
        "Message-ID: <m{n}@example.org>\nIn-Reply-To: <m{m}@example.org>\n\n"
    )
    texts = ((head + BODY).format(n=n, m=n // 2) for n in range(count))
    return [RawMail(f"f:{n}", text.encode()) for n, text in enumerate(texts)]


class Corpus:
    def __init__(self, count: int):
        self.raw = mails(count)
        self.mail = self.read()
        self.blocks = message_blocks(self.mail.messages, BlockSettings())
        self.chunks = self.chunked().chunks

    def read(self):
        return read_mail(self.raw, source="s", partition="u", list_id="l", settings=MailSettings())

    def chunked(self):
        return message_chunks(
            self.mail.messages, self.blocks, self.mail.attachments, ChunkSettings()
        )


STAGES: dict[str, Callable[[Corpus], object]] = {
    "read_mail": Corpus.read,
    "message_blocks": lambda c: message_blocks(c.mail.messages, BlockSettings()),
    "message_chunks": Corpus.chunked,
    "chunk_terms": lambda c: chunk_terms(c.chunks, TermSettings()),
    "build_threads": lambda c: build_threads(c.mail.messages, c.mail.messages, ThreadSettings()),
}


@pytest.fixture(scope="module")
def corpora() -> tuple[Corpus, Corpus]:
    return Corpus(FEW), Corpus(FEW * TIMES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STAGES)
def test_ten_times_the_mail_is_about_ten_times_the_work(corpora: tuple[Corpus, Corpus], name: str):
    few, many = corpora
    stage = STAGES[name]
    ratio = growth(lambda: stage(few), lambda: stage(many), ALLOWED, 1e-3)
    assert ratio < ALLOWED, f"{name}: {TIMES} times the mail took {ratio:.1f} times the time"
