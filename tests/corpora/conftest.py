"""Where the real corpora are; their tests are skipped, with the reason, where they are not."""

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from transforms.mail.messages import read_mail, split_mbox
from transforms.settings.mail import MailSettings


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of the corpora: `$WEFT_CORPORA`, else `../shared/corpora` beside the repository."""
    default = Path(__file__).resolve().parents[3] / "shared" / "corpora"
    folder = Path(os.environ.get("WEFT_CORPORA", default))
    if not folder.is_dir():
        pytest.skip(f"no corpora in {folder}; set WEFT_CORPORA to their folder")
    return folder


def mails_of(files: Sequence[Path]) -> pa.Table:
    """The rows of `messages` of some archives, each mail once; the test is skipped without files."""
    if not files:
        pytest.skip("these archives are not among the corpora")
    read = []
    for file in files:
        data = file.read_bytes()
        split, _ = split_mbox(
            gzip.decompress(data) if file.suffix == ".gz" else data, name=file.name
        )
        read.append(
            read_mail(
                split, source="s", partition="u", list_id="l", settings=MailSettings()
            ).messages
        )
    every = pa.concat_tables(read)
    return every.take(list({i: n for n, i in enumerate(every["message_id"].to_pylist())}.values()))
