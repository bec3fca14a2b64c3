"""A published version narrowed to what a lens shows: its copies of mails, relations, words and vectors."""
