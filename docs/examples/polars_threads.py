"""The threads that take longest to an answer, with Polars."""

import polars as pl

import weft

with weft.open() as index:
    mails = index.sql(
        "SELECT thread_id, message_id, from_addr, effective_at FROM thread_tree JOIN messages USING (message_id)"
    ).pl()
    threads = index.sql("SELECT thread_id, root_id, subject FROM threads").pl()

roots = threads.join(mails, left_on="root_id", right_on="message_id", suffix="_of_root")
others = mails.join(
    roots.select("thread_id", asker="from_addr", asked="effective_at"), on="thread_id"
)
waits = (
    others.filter(pl.col("from_addr") != pl.col("asker"))
    .group_by("thread_id")
    .agg(hours=((pl.col("effective_at") - pl.col("asked")).min().dt.total_minutes() / 60).round(1))
)
print(
    threads.join(waits, on="thread_id")
    .sort("hours", descending=True)
    .select("subject", "hours")
    .head(5)
)
