-- The macros of the published file, SQL that needs neither Weft nor an extension of DuckDB. Where one reads a table, its
-- catalog is put in. A macro names its parameters so that no column of the tables it reads has the same name: DuckDB puts
-- the value of a parameter wherever its name is.
-- BM25 of `bm25.TermScores`; words become terms by `term_forms`, so no stemmer is needed. A word of several terms has them
-- all with a bar between them; of these a chunk is found by the first that it holds.
-- name: search_text
CREATE OR REPLACE MACRO search_text(asked, k := 10, {weights}, k1 := {k_one}, b := {b}, catalog := NULL) AS TABLE
WITH words AS (
  SELECT unnest(if(regexp_full_match(run, '[{unspaced}]{2,}'), [run[n : n + 1] FOR n IN range(1, length(run))], [run]))
    AS word
  FROM (
    SELECT unnest(regexp_extract_all(regexp_replace(asked, '([{unspaced}]+)', ' \1 ', 'g'), '{word}')) AS run
  )
),
humps AS (SELECT word, list_filter(string_split({humps}, '_'), lambda part: part <> '') AS parts FROM words),
split AS (
  SELECT word,
    if(list_min(list_transform(parts, lambda part: length(part))) >= {part_chars}, parts, string_split(word, '_'))
      AS parts
  FROM humps
),
known AS (
  SELECT word FROM words LEFT JOIN term_forms f ON f.form = left(lower(word), {cut})
  JOIN terms t ON t.term = coalesce(f.term, left(lower(word), {cut}))
),
forms AS (
  SELECT left(lower(word), {cut}) AS form FROM words
  UNION SELECT left(lower(part), {cut})
  FROM (SELECT unnest(parts) AS part FROM split WHERE word NOT IN (SELECT word FROM known)) WHERE part <> ''
),
compounds AS (SELECT lower(unnest(regexp_extract_all(asked, '{compound}'))) AS name),
every_term AS (
  SELECT string_agg(coalesce(f.term, forms.form), '|' ORDER BY f.term) AS term
  FROM forms LEFT JOIN term_forms f USING (form) GROUP BY forms.form
  UNION SELECT left(regexp_replace(name, '{diff_prefix}', ''), {cut}) FROM compounds
  WHERE NOT regexp_matches(name, '{host}')
),
named AS (
  SELECT string_agg(DISTINCT coalesce(f.term, lower(word)), '|' ORDER BY coalesce(f.term, lower(word))) AS term
  FROM words LEFT JOIN term_forms f ON f.form = lower(word)
  WHERE length(word) > 1 AND word = upper(word) AND word <> lower(word)
    AND EXISTS (FROM words w WHERE w.word = lower(w.word) AND w.word <> upper(w.word))
  GROUP BY word
),
telling AS (
  SELECT term FROM every_term
  WHERE NOT list_contains([{stop}]::VARCHAR[], term) OR term IN (FROM named)
    OR (SELECT bool_and(list_contains([{stop}]::VARCHAR[], term) AND term NOT IN (FROM named)) FROM every_term)
),
corpus AS (
  SELECT count(*) AS chunk_count, {mean} AS mean_length
  FROM chunk_lengths l WHERE {all_lengths} > 0
),
alternatives AS (SELECT term AS asked_term, unnest(string_split(term, '|')) AS term FROM telling),
held AS (
  SELECT a.asked_term, p.chunk_key, min_by({frequency}, a.term) AS tf
  FROM alternatives a JOIN terms USING (term) JOIN postings p USING (term_id) GROUP BY a.asked_term, p.chunk_key
),
found AS (SELECT chunk_key, count(*) OVER (PARTITION BY asked_term) AS df, tf FROM held),
scored AS (
  SELECT f.chunk_key, sum(ln(1 + (o.chunk_count - f.df + 0.5) / (f.df + 0.5))
    * f.tf / (f.tf + k1 * (1 - b + b * ({length}) / o.mean_length))) AS score
  FROM found f JOIN chunk_lengths l USING (chunk_key) CROSS JOIN corpus o
  WHERE f.tf > 0
  GROUP BY f.chunk_key ORDER BY score DESC, f.chunk_key LIMIT k
)
SELECT row_number() OVER (ORDER BY s.score DESC, s.chunk_key) AS rank, s.score, c.chunk_id, c.doc_id, c.source_kind,
  coalesce(w.title, c.title) AS title, c.text_display
FROM scored s JOIN chunks c USING (chunk_key) LEFT JOIN conversation_windows w USING (doc_id) ORDER BY rank;
COMMENT ON MACRO TABLE search_text IS
  'The k best chunks for some words by BM25 with the weights and constants of this version''s settings, each of which '
  'is a named parameter; the lexical half of a search. No rows for a text without a word of the index.{attached}'
-- name: similar
CREATE OR REPLACE MACRO "similar"(given, k := 10, catalog := NULL) AS TABLE
WITH near AS (
  SELECT e.chunk_no, array_cosine_similarity(e.vector, g.vector) AS cosine
  FROM embeddings e CROSS JOIN (SELECT chunk_no, vector FROM embeddings WHERE chunk_id = given) g
  WHERE e.chunk_no <> g.chunk_no
  ORDER BY cosine DESC, e.chunk_no LIMIT k
)
SELECT row_number() OVER (ORDER BY n.cosine DESC, n.chunk_no) AS rank, n.cosine, c.chunk_id, c.doc_id,
  c.source_kind, coalesce(w.title, c.title) AS title, c.text_display
FROM near n JOIN chunks c USING (chunk_no) LEFT JOIN conversation_windows w USING (doc_id) ORDER BY rank;
COMMENT ON MACRO TABLE "similar" IS
  'The k chunks whose vectors are nearest to that of a chunk, by cosine over all vectors, itself left out.{attached}'
-- name: search_semantic
CREATE OR REPLACE MACRO search_semantic(words, k := 10, catalog := NULL) AS TABLE
SELECT error('only the model of this index makes a vector of words: call search_semantic in `weft sql`, or use similar('
  'chunk_id), which needs no model');
COMMENT ON MACRO TABLE search_semantic IS
  'The k chunks nearest in meaning to some words: in `weft sql`, which has the model; any other client gets an error.'
-- name: thread
CREATE OR REPLACE MACRO thread(given, catalog := NULL) AS TABLE
SELECT t.thread_id, t.position, t.depth, t.message_id, t.parent_id, t.is_ghost, m.from_name, m.from_addr,
  m.effective_at, m.subject, m.body
FROM thread_tree t LEFT JOIN messages m USING (message_id)
WHERE t.thread_id = given
  OR t.thread_id = (SELECT o.thread_id FROM thread_tree o WHERE o.message_id = trim(given, ' <>'))
ORDER BY t.position;
COMMENT ON MACRO TABLE thread IS
  'The mails of a thread in reading order, ghosts among them; the thread is named by its id or by a mail of it.{attached}'
-- name: slice_text
CREATE OR REPLACE MACRO slice_text(given, first_byte, byte_behind) AS decode(encode(given)[first_byte + 1 : byte_behind]);
COMMENT ON MACRO slice_text IS
  'The part of a stored text between two of its bytes, as all offsets count them: the first, and the one behind the last.'
-- A quarter more than words, signs and letters of scripts without spaces: for all pages of the sample 1 % too few, for
-- proposals of Python 6 % too many, for files of code 21 % too few. A column with the count would cost .65 ms a chunk.
-- name: token_estimate
CREATE OR REPLACE MACRO token_estimate(given) AS
  {tokens};
COMMENT ON MACRO token_estimate IS
  'About how many tokens a text has for the packaged tokenizer, by its words and signs; nothing is counted with the tokenizer.'
-- name: own_text
CREATE OR REPLACE MACRO own_text(given, catalog := NULL) AS (
  SELECT string_agg(decode(encode(m.body)[b.byte_start + 1 : b.byte_end]), '' ORDER BY b.byte_start)
  FROM blocks b JOIN messages m USING (message_id)
  WHERE b.message_id = trim(given, ' <>') AND b.kind IN ('author', 'patch_or_code')
);
COMMENT ON MACRO own_text IS
  'The words, code and patches of the author of a mail, without quotes, headers and signature; null if there are none.{attached}'
-- name: thread_text
CREATE OR REPLACE MACRO thread_text(given, catalog := NULL) AS (
  SELECT string_agg(concat_ws(' · ', coalesce(m.from_name, m.from_addr), strftime(m.effective_at, '%Y-%m-%d %H:%M'),
    m.subject) || e'\n\n' || m.body, e'\n\n' ORDER BY t.position)
  FROM thread_tree t JOIN messages m USING (message_id)
  WHERE t.thread_id = given
);
COMMENT ON MACRO thread_text IS
  'The mails of a thread as one text in reading order, each below its author, time and subject.{attached}'
-- name: context_of
CREATE OR REPLACE MACRO context_of(given, n := 1, catalog := NULL) AS TABLE
SELECT c.chunk_index - g.chunk_index AS distance, c.chunk_id, c.doc_id, c.chunk_index, c.chunk_kind, c.title,
  c.text_display
FROM chunks c JOIN (FROM chunks WHERE chunk_id = given) g
  ON c.doc_id = g.doc_id AND c.attachment_id IS NOT DISTINCT FROM g.attachment_id
WHERE abs(c.chunk_index - g.chunk_index) <= n
ORDER BY distance, c.chunk_id;
COMMENT ON MACRO TABLE context_of IS
  'A chunk with the n before and the n behind it in the same mail, attachment or document; distance 0 is itself.{attached}'
-- name: quotes_of
CREATE OR REPLACE MACRO quotes_of(given, catalog := NULL) AS TABLE
WITH wanted AS (SELECT message_id, thread_id FROM thread_tree WHERE message_id = trim(given, ' <>')),
own AS (
  SELECT DISTINCT trim(line, e' \t\r') AS line
  FROM (
    SELECT unnest(string_split(decode(encode(m.body)[b.byte_start + 1 : b.byte_end]), e'\n')) AS line
    FROM messages m JOIN wanted USING (message_id) JOIN blocks b USING (message_id)
    WHERE b.kind IN ('author', 'patch_or_code')
  ) WHERE regexp_matches(line, '[\p{L}\p{N}].*[\p{L}\p{N}].*[\p{L}\p{N}]')
),
quoted AS (
  SELECT message_id, byte_start, byte_end, unnest(string_split(text, e'\n')) AS line
  FROM (
    SELECT m.message_id, b.byte_start, b.byte_end,
      decode(encode(m.body)[b.byte_start + 1 : b.byte_end]) AS text
    FROM blocks b JOIN messages m USING (message_id) JOIN thread_tree t USING (message_id)
    JOIN wanted w ON w.thread_id = t.thread_id
    WHERE b.kind = 'quote' AND m.message_id <> w.message_id
  )
),
places AS (
  SELECT message_id, byte_start, byte_end, 'marked' AS how, count(*) AS line_count
  FROM quoted WHERE trim(regexp_replace(line, '^[ \t]*(?:[>|:][ \t]*)+', ''), e' \t\r') IN (SELECT line FROM own)
  GROUP BY message_id, byte_start, byte_end
  UNION ALL
  SELECT q.message_id, q.byte_start, q.byte_end, 'unmarked', q.line_count
  FROM inferred_quotes q JOIN wanted w ON q.parent_id = w.message_id WHERE q.message_id <> q.parent_id
)
SELECT p.message_id, m.from_name, m.from_addr, m.effective_at, p.how, p.line_count, p.byte_start, p.byte_end,
  decode(encode(m.body)[p.byte_start + 1 : p.byte_end]) AS text
FROM places p JOIN messages m USING (message_id)
ORDER BY m.effective_at, p.message_id, p.byte_start;
COMMENT ON MACRO TABLE quotes_of IS
  'The places in later mails of its thread that quote a mail: marked quotes that hold a whole line of its own text, and'
  ' lines that repeat it without a mark.{attached}'
-- name: reviews
CREATE OR REPLACE MACRO reviews(deed := 'reviewed', catalog := NULL) AS TABLE
WITH deeds AS (
  SELECT t.addr, t.name, m.effective_at, coalesce(p.patch_id, t.message_id) AS patch_mail,
    coalesce(p.series_id || ' ' || p.title, t.message_id) AS patch
  FROM trailers t JOIN messages m USING (message_id) LEFT JOIN patch_series p USING (message_id)
  WHERE contains(t.kind, deed) AND t.kind LIKE '%-by' AND coalesce(t.addr, t.name) IS NOT NULL
),
signers AS (
  SELECT message_id, arg_min(addr, byte_start) AS addr FROM trailers
  WHERE kind = 'signed-off-by' AND addr IS NOT NULL GROUP BY message_id
),
pairs AS (
  SELECT coalesce(r.person_id, t.addr, t.name) AS reviewer_id, coalesce(r.name, t.name, t.addr) AS reviewer,
    coalesce(a.person_id, m.from_addr, m.from_name) AS author_id, coalesce(a.name, m.from_name, m.from_addr) AS author,
    t.patch, t.effective_at
  FROM deeds t JOIN messages m ON m.message_id = t.patch_mail LEFT JOIN signers s ON s.message_id = m.message_id
  LEFT JOIN people r ON r.addr = t.addr LEFT JOIN people a ON a.addr = coalesce(s.addr, m.from_addr)
)
SELECT any_value(reviewer) AS reviewer, any_value(author) AS author, count(DISTINCT patch) AS patches,
  min(effective_at) AS first_at, max(effective_at) AS last_at, reviewer_id, author_id
FROM pairs WHERE reviewer_id <> author_id AND reviewer <> author GROUP BY reviewer_id, author_id
ORDER BY patches DESC, reviewer_id, author_id;
COMMENT ON MACRO TABLE reviews IS
  'Who reviews whom: the patches of an author that a person has reviewed, by the trailers of mails; of several '
  'revisions of a patch one counts. The author is the first who signed the patch off, else its sender. Other deeds are '
  'acked, tested, reported, suggested.{attached}'
