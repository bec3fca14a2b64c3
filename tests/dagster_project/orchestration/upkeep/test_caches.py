"""What the cache of vectors keeps."""

from dagster_project.orchestration.upkeep.caches import used_hashes
from tests.archives import Workspace
from transforms.hashing import text_hash


def test_vectors_of_all_texts_and_of_the_questions_of_chats_are_kept(library: Workspace):
    texts = library.column(
        "SELECT coalesce(x.text_embed, c.text_embed) FROM chunks c LEFT JOIN chunk_context x USING (chunk_id)"
    )
    lake = library.lake
    for partition in lake.partitions("conversation_query_chunks"):
        texts += (
            lake.read("conversation_query_chunks", partition).table.column("text_query").to_pylist()
        )
    assert len(set(texts)) > 20 and {text_hash(text) for text in texts} <= used_hashes(
        library.settings
    )
