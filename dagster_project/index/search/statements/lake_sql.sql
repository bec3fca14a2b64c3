-- The tables of the context of chats beside those of a published file, as the lake has them now.
-- name: attached
ATTACH '{file}' AS lake_now (READ_ONLY)
-- name: views
SELECT view_name FROM duckdb_views() WHERE database_name = 'lake_now'
-- name: copied
CREATE TEMP TABLE "{name}" AS FROM lake_now."{name}"
