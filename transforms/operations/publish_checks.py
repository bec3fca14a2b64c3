"""The rules that tables keep before they are published, each as the rows that break it."""

import ibis

from transforms.embedding.embedded_text import texts_to_embed

PUBLISH_RULES = {
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

    Ids and texts are compared by 64-bit hashes of their hashes, which takes an eighth of the
    memory. That each chunk has terms, and one vector, are rules of the published file, which counts
    them anyway.
    """
    hashes = texts_to_embed(chunks, context).text_hash.name("id").as_table()
    stored = embeddings.select(key=embeddings.text_hash.hash()).union(
        refusals.select(key=refusals.text_hash.hash())
    )
    strangers = (
        (embeddings.model != model)
        | (embeddings.dimensions != dimensions)
        | (embeddings.task != "document")
    )
    return {
        "chunk_ids_are_unique": _repeated(chunks.select(id="chunk_id")),
        "every_chunk_has_its_vector": hashes.filter(~hashes.id.hash().isin(stored.key)),
        "vectors_are_of_the_model": embeddings.filter(strangers).select(id="text_hash"),
    }


def _repeated(ids: ibis.Table) -> ibis.Table:
    """The ids (column `id`) that stand there more than once; only those whose hashes are equal are
    compared.
    """
    keys = ids.group_by(key=ids.id.hash()).agg(rows=lambda t: t.count())
    alike = ids.filter(ids.id.hash().isin(keys.filter(keys.rows > 1).key))
    counts = alike.group_by("id").agg(rows=lambda t: t.count())
    return counts.filter(counts.rows > 1).select("id")
