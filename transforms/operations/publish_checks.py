"""The rules that tables keep before they are published, each as the rows that break it."""

from __future__ import annotations

import ibis

from transforms.embedding.embedded_text import texts_to_embed

RULES = {
    "chunk_ids_are_unique": "No two published chunks have the same id.",
    "every_chunk_has_its_vector": "The text of every published chunk has a vector, or a reason why the model refuses it.",
    "vectors_are_of_the_model": "All vectors are of the configured model, width and task.",
}


def rule_violations(
    chunks: ibis.Table,
    context: ibis.Table,
    embeddings: ibis.Table,
    refusals: ibis.Table,
    model: str,
    dimensions: int,
) -> dict[str, ibis.Table]:
    """For each of RULES the rows that break it, in a column `id`; `chunks` are the published ones.

    That each chunk has terms is a rule of the published file, which counts them anyway.
    """
    hashes = texts_to_embed(chunks, context).text_hash.name("id").as_table()
    counts = chunks.group_by("chunk_id").agg(rows=lambda t: t.count())
    strangers = (
        (embeddings.model != model) | (embeddings.dimensions != dimensions) | (embeddings.task != "document")
    )
    return {
        "chunk_ids_are_unique": counts.filter(counts.rows > 1).select(id="chunk_id"),
        "every_chunk_has_its_vector": hashes.filter(
            ~hashes.id.isin(embeddings.text_hash) & ~hashes.id.isin(refusals.text_hash)
        ),
        "vectors_are_of_the_model": embeddings.filter(strangers).select(id="text_hash"),
    }
