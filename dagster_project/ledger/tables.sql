-- The ledger (`state.sqlite`). Each row ends in a checksum of its other columns; first come those of its key.

-- Files of sources, by a hash of the path, which may have names: state when they were read, hash of the bytes,
-- month of a single mail (null of others).
CREATE TABLE files (path, state, fingerprint, month, checksum, PRIMARY KEY (path)) WITHOUT ROWID;

-- Exports of chats, by a hash of the content: the windows of their chats, as JSON.
CREATE TABLE exports (export, listing, checksum, PRIMARY KEY (export)) WITHOUT ROWID;

-- Sources: how many partitions waited when one was read, and when that was (null: never).
CREATE TABLE sources (source, waiting, looked_at, checksum, PRIMARY KEY (source)) WITHOUT ROWID;

-- Partitions that waited, or wait: what the lake held when the first change that it lacks was seen, and when that was.
CREATE TABLE changes (part, fingerprint, seen, checksum, PRIMARY KEY (part)) WITHOUT ROWID;

-- Files of the lake: state when the footer was read, and the footer. `part` is '' for a whole table; `columns` is a
-- digest of names and types, `inputs` JSON, `waiting` the bytes of very long texts that it leaves out.
CREATE TABLE outputs (
  table_name, part, state, columns, code, settings, inputs, content_hash, row_count, waiting, checksum,
  PRIMARY KEY (table_name, part)
) WITHOUT ROWID;

-- Files and folders that the last build without news looked at, by their paths: their state, '' of a missing one.
CREATE TABLE looks (path, state, checksum, PRIMARY KEY (path)) WITHOUT ROWID;

-- The `last` build without news: its day, whether a source has a remote (0, 1), its result as JSON.
CREATE TABLE builds (build, day, has_remotes, result, checksum, PRIMARY KEY (build)) WITHOUT ROWID;

-- The partitions of the sources (`kind` is their type), windows that ask the index (`context`), and one for the tables
-- over the whole lake (`lake`, part ''): hash of the files, version of the index, state of the lake.
CREATE TABLE partitions (kind, part, fingerprint, checksum, PRIMARY KEY (kind, part)) WITHOUT ROWID;

-- The tables that the code of now makes of each kind, in order, with the code and settings that their stages have.
CREATE TABLE stages (kind, table_name, position, stage, code, settings, checksum, PRIMARY KEY (kind, table_name))
WITHOUT ROWID;

-- The inputs whose content decides: tables of the same partition (`is_table` 1), or what `fingerprint` is the hash of.
CREATE TABLE reads (table_name, input, is_table, checksum, PRIMARY KEY (table_name, input)) WITHOUT ROWID;

-- Partitions that hold texts to forget.
CREATE TABLE forgets (kind, part, checksum, PRIMARY KEY (kind, part)) WITHOUT ROWID;
