"""The one table of chunks that all source types share; how a source is cut is in its own room."""
