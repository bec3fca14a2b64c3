"""Where the real corpora are; their tests are skipped, with the reason, where they are not."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of the corpora: `$WEFT_CORPORA`, else `../shared/corpora` beside the repository."""
    default = Path(__file__).resolve().parents[3] / "shared" / "corpora"
    folder = Path(os.environ.get("WEFT_CORPORA", default))
    if not folder.is_dir():
        pytest.skip(f"no corpora in {folder}; set WEFT_CORPORA to their folder")
    return folder
