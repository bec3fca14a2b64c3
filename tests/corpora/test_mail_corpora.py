"""What is read from two real archives: nothing is lost, nothing is garbled."""

import gzip
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cases import FACTOR
from transforms.mail.messages import MailTables, Means, read_mail, split_mbox
from transforms.settings.mail import MailSettings
from transforms.text.spans import FLOWED_FORMATS, flowed_text

pytestmark = pytest.mark.exhaustive


def read(
    folder: Path, pattern: str, source: str, *, quick: bool = True, step: int = 1
) -> MailTables:
    files = sorted(folder.glob(pattern))[::step]
    if not files:
        pytest.skip(f"no {pattern} in {folder}")
    results = []
    for file in files:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        mails, garbage = split_mbox(data, name=file.name, dialect="mboxrd")
        raw = [*mails, *garbage]
        result = read_mail(
            raw,
            source=source,
            partition=file.name,
            list_id=source,
            settings=MailSettings(),
            means=Means(quick),
        )
        assert len(raw) == result.messages.num_rows + result.quarantine.num_rows
        results.append(result)
    return MailTables(*(pa.concat_tables(tables) for tables in zip(*results, strict=True)))


@pytest.fixture(scope="module")
def pgsql(corpora) -> MailTables:
    return read(corpora / "pgsql", "pgsql-*.[0-9]*", "pgsql")


@pytest.fixture(scope="module")
def erofs(corpora) -> MailTables:
    return read(corpora / "linux-erofs", "linux-erofs.*.gz", "erofs")


@pytest.mark.parametrize("corpus", ["pgsql", "erofs"])
def test_the_quick_way_reads_what_the_email_package_reads(corpora, corpus, request):
    """Every column of every mail of one archive and of each fourth month of the other, or of all
    with WEFT_EXAMPLES=2.
    """
    folder, pattern = {
        "pgsql": ("pgsql", "pgsql-*.[0-9]*"),
        "erofs": ("linux-erofs", "linux-erofs.*.gz"),
    }[corpus]
    step = 4 if corpus == "erofs" and FACTOR <= 1 else 1
    full = read(corpora / folder, pattern, corpus, quick=False, step=step)
    quick = (
        request.getfixturevalue(corpus)
        if step == 1
        else read(corpora / folder, pattern, corpus, step=step)
    )
    for one, other in zip(quick, full, strict=True):
        for name in one.column_names:
            assert one[name].equals(other[name]), name


def counts(table: pa.Table, column: str) -> dict[str, int]:
    return dict(Counter(table[column].to_pylist()))


def test_pgsql_is_complete(pgsql):
    assert len(set(pgsql.messages["message_id"].to_pylist())) == pgsql.messages.num_rows == 661
    assert pgsql.quarantine.num_rows == 0
    assert counts(pgsql.messages, "date_quality") == {"sent": 661}


def test_pgsql_attachments(pgsql):
    assert counts(pgsql.attachments, "content_class") == {
        "other": 20,
        "code": 12,
        "patch": 8,
        "text": 2,
        "archive": 1,
    }
    assert counts(pgsql.attachments, "reason") == {None: 22, "signature": 20, "archive: tar": 1}


def test_erofs_is_complete(erofs):
    assert len(set(erofs.messages["header_message_id"].to_pylist())) == 15_168
    assert erofs.messages.num_rows + erofs.quarantine.num_rows == 15_218
    reasons = Counter(reason.partition(":")[0] for reason in erofs.quarantine["reason"].to_pylist())
    assert reasons == {"duplicate": 47}


def test_erofs_has_one_wrong_clock(erofs):
    assert counts(erofs.messages, "date_quality") == {
        "sent": 15_167,
        "sent_repaired": 3,
        "received": 1,
    }


@pytest.mark.parametrize("corpus", ["pgsql", "erofs"])
def test_nothing_is_garbled(corpus, request):
    tables = request.getfixturevalue(corpus)
    assert "replaced" not in counts(tables.messages, "charset_outcome")
    garbled = [body for body in tables.messages["body"].to_pylist() if "\ufffd" in body]
    # Three mails of this archive bring U+FFFD with them, in valid UTF-8.
    assert len(garbled) == {"pgsql": 0, "erofs": 3}[corpus]
    for text in tables.messages["body"].to_pylist() + tables.messages["subject"].to_pylist():
        assert "\0" not in text and "\r" not in text
    assert not any(
        "=?utf-8?" in subject.lower() for subject in tables.messages["subject"].to_pylist()
    )
    ids = tables.messages["message_id"].to_pylist()
    assert not any(set(" <>\n") & set(ident) for ident in ids)
    attachments = tables.attachments["attachment_id"].to_pylist()
    assert len(set(attachments)) == len(attachments)


@pytest.mark.parametrize(("corpus", "flowed"), [("pgsql", 37), ("erofs", 2_456)])
def test_flowed_mails_keep_their_words_and_lose_their_soft_breaks(corpus, flowed, request):
    messages = request.getfixturevalue(corpus).messages
    formats, bodies = messages["body_format"].to_pylist(), messages["body"].to_pylist()
    found = [(b, f) for b, f in zip(bodies, formats, strict=True) if f in FLOWED_FORMATS]
    assert len(found) == flowed
    soft = joined = 0
    for body, body_format in found:
        text = flowed_text(body, 0, len(body), del_sp=body_format == "flowed_delsp")
        if body_format == "flowed":
            assert text.replace(">", " ").split() == body.replace(">", " ").split()
        soft += len(re.findall(r"[^ \n>-] \n", body))
        joined += body.count("\n") - text.count("\n")
    assert 0.8 * soft < joined < 1.2 * soft
