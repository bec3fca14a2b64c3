"""From the queries of a conversation to a context block."""
