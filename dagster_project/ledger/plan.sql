-- The plan: each table that is to be there, of each partition ('' for a table over the whole lake), whether a build
-- inserts, replaces, deletes or keeps it, and why. Runs in a client of SQLite, where it is the view `plan`, and of DuckDB.
CREATE VIEW plan AS
WITH RECURSIVE
desired AS MATERIALIZED (
  SELECT p.kind, p.part, p.fingerprint, s.position, s.stage, s.table_name, s.code, s.settings
  FROM partitions AS p JOIN stages AS s ON s.kind = p.kind
),
-- What a table is to be made of: tables of the same partition, or what the partition itself has the hash of.
due AS (
  SELECT d.kind, d.part, d.stage, d.table_name, r.input,
    CASE r.is_table WHEN 1 THEN i.content_hash ELSE d.fingerprint END AS hash
  FROM desired AS d
  JOIN reads AS r ON r.table_name = d.table_name
  LEFT JOIN outputs AS i ON i.table_name = r.input AND i.part = d.part
),
made AS MATERIALIZED (
  SELECT o.table_name, o.part, j.key AS input, o.inputs ->> j.key AS hash
  FROM outputs AS o, json_each(o.inputs) AS j
),
other_inputs AS MATERIALIZED (
  SELECT due.kind, due.part, due.stage FROM due LEFT JOIN made USING (table_name, part, input)
  WHERE due.hash IS DISTINCT FROM made.hash
  UNION
  SELECT d.kind, d.part, d.stage FROM desired AS d
  JOIN made ON made.table_name = d.table_name AND made.part = d.part
  LEFT JOIN reads AS r ON r.table_name = made.table_name AND r.input = made.input
  WHERE d.part <> '' AND r.input IS NULL
),
sorts AS (SELECT table_name, max(is_table) AS of_tables FROM reads GROUP BY table_name),
stored AS MATERIALIZED (
  SELECT d.kind, d.part, d.stage, min(d.table_name) AS first, max(coalesce(sorts.of_tables, 0)) AS of_tables,
    count(o.table_name) AS files, count(*) - count(o.content_hash) AS unreadable,
    count(*) FILTER (WHERE o.code <> d.code) AS other_code, count(*) FILTER (WHERE o.settings <> d.settings) AS other_settings
  FROM desired AS d
  LEFT JOIN outputs AS o ON o.table_name = d.table_name AND o.part = d.part
  LEFT JOIN sorts ON sorts.table_name = d.table_name
  GROUP BY d.kind, d.part, d.stage
),
own AS MATERIALIZED (
  SELECT s.kind, s.part, s.stage, CASE
      WHEN f.part IS NOT NULL THEN 'holds texts to forget'
      WHEN s.files = 0 AND s.of_tables = 0 THEN 'new'
      WHEN s.files = 0 THEN s.first || ' is missing'
      WHEN s.other_code + s.other_settings > 0 AND s.first LIKE 'embedding%' THEN 'other model or settings of it'
      WHEN s.other_code > 0 THEN s.first || ' is of another version of Weft'
      WHEN s.other_settings > 0 THEN 'other settings of ' || s.first
      WHEN s.unreadable > 0 THEN 'damaged'
      WHEN i.part IS NOT NULL AND s.of_tables = 0 THEN 'source changed'
      WHEN i.part IS NOT NULL THEN 'made from other tables than are there'
    END AS reason
  FROM stored AS s
  LEFT JOIN forgets AS f ON f.kind = s.kind AND f.part = s.part
  LEFT JOIN other_inputs AS i ON i.kind = s.kind AND i.part = s.part AND i.stage = s.stage
),
follows AS MATERIALIZED (
  SELECT DISTINCT s.kind, before.stage AS before, s.stage
  FROM stages AS s
  JOIN reads AS r ON r.table_name = s.table_name
  JOIN stages AS before ON before.kind = s.kind AND before.table_name = r.input
),
stale AS (
  SELECT kind, part, stage, 0 AS is_follower FROM own WHERE reason IS NOT NULL
  UNION
  SELECT s.kind, s.part, f.stage, 1 FROM stale AS s JOIN follows AS f ON f.kind = s.kind AND f.before = s.stage
),
waiting AS (
  SELECT d.kind, d.part, d.stage FROM desired AS d
  JOIN outputs AS o ON o.table_name = d.table_name AND o.part = d.part
  WHERE o.waiting > 0
  UNION
  SELECT w.kind, w.part, f.stage FROM waiting AS w JOIN follows AS f ON f.kind = w.kind AND f.before = w.stage
),
why AS MATERIALIZED (
  SELECT o.kind, o.part, o.stage, CASE
      WHEN o.reason = 'holds texts to forget' THEN o.reason
      WHEN max(s.is_follower) = 1 THEN 'follows from another table'
      WHEN o.reason IS NOT NULL THEN o.reason
      WHEN max(w.part) IS NOT NULL THEN 'very long texts wait'
    END AS reason
  FROM own AS o
  LEFT JOIN stale AS s ON s.kind = o.kind AND s.part = o.part AND s.stage = o.stage
  LEFT JOIN waiting AS w ON w.kind = o.kind AND w.part = o.part AND w.stage = o.stage
  GROUP BY o.kind, o.part, o.stage, o.reason
)
SELECT d.kind, d.part, d.table_name,
  CASE WHEN why.reason IS NULL THEN 'keep' WHEN o.part IS NULL THEN 'insert' ELSE 'replace' END AS action, why.reason,
  d.position
FROM desired AS d
JOIN why ON why.kind = d.kind AND why.part = d.part AND why.stage = d.stage
LEFT JOIN outputs AS o ON o.table_name = d.table_name AND o.part = d.part
UNION ALL
SELECT '', part, table_name, 'delete', 'not in the sources', 0
FROM outputs WHERE part <> '' AND part NOT IN (SELECT part FROM partitions)
ORDER BY 1, 2, 6, 3;
