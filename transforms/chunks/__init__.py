"""The one table of chunks that all source types share."""
