-- name: stripe
CREATE OR REPLACE MACRO stripe(document, n, kind := 'conceptual', catalog := NULL) AS TABLE
SELECT o.place, o.chunk_id, o.chunk_index, c.title, c.is_code, s.similarity, c.text_display
FROM stripe_orders o JOIN chunks c USING (chunk_id)
JOIN chunk_similarities s ON s.chunk_id = o.chunk_id AND s.baseline = o.baseline
WHERE o.doc_id = document AND o.baseline = kind AND o.place < n ORDER BY o.place;
COMMENT ON MACRO TABLE stripe IS
  'The first n chunks that represent a document; a request for more begins with the rows of one for fewer.'
