-- The file with the contexts of the chats that a lens shows.
-- name: windows
FROM conversation_windows ORDER BY doc_id
-- name: table
CREATE TABLE "{name}" AS FROM new_rows
-- name: table_of_no_partition
CREATE TABLE "{name}" AS SELECT *, NULL::VARCHAR AS partition FROM new_rows
-- name: view
CREATE VIEW "{name}" AS {rows}
