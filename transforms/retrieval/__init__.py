"""From a query and the scores of candidates to ranked, cited hits; nothing here reads an index."""
