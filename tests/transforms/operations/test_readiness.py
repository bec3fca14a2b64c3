"""Lags per source, and which sources are late."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from transforms.operations.figures import lags, late_sources, markdown
from transforms.schemas.operations import READINESS

AT = datetime(2026, 3, 1, tzinfo=UTC)


def rows(*told: tuple[str, float, int]) -> pa.Table:
    """Readiness of texts: source, lag in seconds, day of publishing."""
    filler = {
        "title": None,
        "effective_at": None,
        "content_hash": "h",
        "chunk_count": 1,
        "excluded_for": [],
    }
    return READINESS.from_rows(
        [
            {
                "doc_id": str(number),
                "kind": "message",
                "source": source,
                "partition": f"{source}/all",
                **filler,
                "is_searchable": True,
                "seen_at": AT,
                "parsed_at": AT,
                "chunked_at": AT,
                "embedded_at": AT,
                "published_at": AT.replace(day=day),
                "lag_seconds": lag,
            }
            for number, (source, lag, day) in enumerate(told)
        ]
    )


def test_lags_are_per_source_and_sorted():
    found = lags(rows(("b", 5.0, 1), ("a", 1.0, 1), ("a", 3.0, 1), ("a", 2.0, 1)))
    assert found.rows() == [("a", 3, 3, 2.0, pytest.approx(2.9), 3.0), ("b", 1, 1, 5.0, 5.0, 5.0)]
    assert markdown(found).splitlines()[2] == "| a | 3 | 3 | 2.0 | 2.9 | 3.0 |"


def test_nothing_has_no_lag():
    assert lags(rows()).rows() == []
    assert late_sources(rows(), 1) == {}


@pytest.mark.parametrize(
    ("told", "late"),
    [
        ([("a", 61.0, 1)], {"a": 1.0}),
        ([("a", 60.0, 1)], {}),
        ([("a", 9999.0, 1), ("a", 1.0, 2)], {}),
        ([("a", 1.0, 2), ("b", 180.0, 2)], {"b": 3.0}),
    ],
    ids=["beyond the bound", "at the bound", "what was late before counts no more", "one of two"],
)
def test_late_are_the_sources_whose_newest_texts_are(
    told: list[tuple[str, float, int]], late: dict[str, float]
):
    assert late_sources(rows(*told), 1) == late
