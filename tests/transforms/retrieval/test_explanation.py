"""What every stage did, and what became of a chunk."""

from tests.hit_tables import hits_of
from transforms.retrieval import collapse, pipeline
from transforms.retrieval.explanation import STEPS, Moment, StageTable, fate, stage_steps
from transforms.settings.search import SearchSettings

HITS = hits_of({0: [5, 4, 3, 2]}, documents=[0, 1, 0, 2])


def tables() -> list[StageTable]:
    documents = collapse.best_of_documents(HITS, SearchSettings())
    final = pipeline.limited(documents.hits, SearchSettings(limit=2))
    return [
        StageTable("fused", 0.1, stage_steps(None, HITS, HITS.clear())),
        StageTable("documents", 0.2, stage_steps(HITS, *documents)),
        StageTable("final", 0.3, stage_steps(documents.hits, *final)),
    ]


def test_a_stage_shows_what_stays_by_its_place_and_then_what_goes_with_the_reason():
    made = tables()
    assert all(dict(t.steps.schema) == STEPS for t in made)
    assert made[0].steps.select("chunk_no", "rank_before", "rank", "score").rows() == [
        (0, None, 1, 5.0),
        (1, None, 2, 4.0),
        (2, None, 3, 3.0),
        (3, None, 4, 2.0),
    ]
    same = "a better hit of the same document"
    assert made[1].steps.select("chunk_no", "rank_before", "rank", "reason", "into").rows() == [
        (0, 1, 1, None, None),
        (1, 2, 2, None, None),
        (3, 4, 3, None, None),
        (2, 3, None, same, 0),
    ]


def test_the_fate_of_a_document_is_that_of_its_best_chunk_until_all_are_gone():
    assert fate(tables(), [0, 2]) == [
        Moment("fused", 0, 1, 5.0, None, None),
        Moment("documents", 0, 1, 5.0, None, None),
        Moment("final", 0, 1, 5.0, None, None),
    ]
    assert fate(tables(), [2])[-1] == Moment(
        "documents", 2, None, 3.0, "a better hit of the same document", 0
    )
    assert fate(tables(), [3])[-1] == Moment("final", 3, None, 2.0, "behind the first 2", None)
    assert fate(tables(), [9]) == []
