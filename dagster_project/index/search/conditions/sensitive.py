"""Which texts of an index a file of the user labels as sensitive."""

from pathlib import Path

import duckdb
import numpy as np

from dagster_project.config.places import LABEL_FILE
from transforms.errors import SettingsError
from transforms.retrieval.sensitive_texts import PUBLIC, read_labels


def labelled_texts(
    connection: duckdb.DuckDBPyConnection, document: np.ndarray, file: Path | None
) -> np.ndarray:
    """The mails, documents and windows that are labelled as sensitive, bool by number of the
    document.

    `document` has that number for each chunk, `file` the labels. SettingsError without a file that
    can be read.
    """
    try:
        labels = read_labels((file or Path(LABEL_FILE)).read_text(encoding="utf-8"), str(file))
    except (OSError, ValueError) as error:
        need = f"sensitivity:labelled needs {LABEL_FILE} beside the settings, ids with labels"
        raise SettingsError(f"{need} ({error})") from error
    rows = connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall()
    numbers = {int(document[number]) for number, doc in rows if labels.get(doc, PUBLIC) != PUBLIC}
    labelled = np.zeros(int(document.max(initial=-1)) + 1, dtype=bool)
    labelled[list(numbers)] = True
    return labelled
