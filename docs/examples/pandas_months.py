"""Mails by month and list as a table of pandas, which comes by Arrow."""

import weft

with weft.open() as index:
    mails = index.sql(
        "SELECT x.list_id, m.effective_at FROM messages m JOIN memberships x USING (message_id) "
        "WHERE m.effective_at >= $since ORDER BY ALL",
        since="2025-01-01",
    ).to_arrow_table()

frame = mails.to_pandas()
months = frame["effective_at"].dt.strftime("%Y-%m")
print(
    frame.assign(month=months).pivot_table(
        index="month", columns="list_id", aggfunc="size", fill_value=0
    )
)
