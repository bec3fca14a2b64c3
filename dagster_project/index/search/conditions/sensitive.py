"""Which texts of an index a file of the user's labels as sensitive, and which are like those."""

from pathlib import Path

import duckdb
import numpy as np

from transforms.embedding.sign_codes import CodedVectors
from transforms.errors import SettingsError
from transforms.retrieval.sensitive_texts import PUBLIC, alike, read_labels

LABEL_FILE = "labels.tsv"
"""The file of labels, beside the settings file."""


def sensitive_texts(
    connection: duckdb.DuckDBPyConnection,
    document: np.ndarray,
    vectors: CodedVectors,
    file: Path | None,
    *,
    are_alike: bool,
) -> np.ndarray:
    """The mails, documents and windows that are labelled as sensitive, or those alike, bool by number of the document.

    `document` has that number for each chunk, `file` the labels. SettingsError without a file that can be read.
    """
    try:
        labels = read_labels((file or Path(LABEL_FILE)).read_text(encoding="utf-8"), str(file))
    except (OSError, ValueError) as error:
        need = f"sensitivity:labelled and :alike need {LABEL_FILE} beside the settings, ids with labels"
        raise SettingsError(f"{need} ({error})") from error
    rows = connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall()
    of_document = {
        int(document[number]): labels[doc] != PUBLIC for number, doc in rows if doc in labels
    }
    labelled = np.zeros(int(document.max(initial=-1)) + 1, dtype=bool)
    labelled[[number for number, is_sensitive in of_document.items() if is_sensitive]] = True
    if not are_alike:
        return labelled
    chunks = np.setdiff1d(np.arange(len(document)), vectors.absent)
    return alike(len(labelled), document[chunks], vectors.of(chunks), of_document)
