-- The tables of the context of chats beside those of a published file.
-- name: attached
ATTACH '{file}' AS contexts_now (READ_ONLY)
-- name: names
SELECT view_name FROM duckdb_views() WHERE database_name = 'contexts_now'
UNION SELECT table_name FROM duckdb_tables() WHERE database_name = 'contexts_now'
-- name: copied
CREATE TEMP TABLE "{name}" AS FROM contexts_now."{name}"
