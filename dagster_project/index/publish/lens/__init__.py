"""A published version narrowed by a lens: its copies of mails, relations, words and vectors."""
